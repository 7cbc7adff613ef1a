//! Copies of elements of any type, between tensors of one shape with any layouts.
//!
//! If both are contiguous along the same axis, threads copy words. If they are contiguous along different axes, a
//! [transposition](super::transposition) makes both reads and writes contiguous.

use super::axes::{AllStrides, Traversal, collapsed_in_output_order};
use super::codegen::element;
use super::prelude::*;
use super::transposition::transpose;

/// Copies elements of any type to a tensor of the same shape and element size.
pub(crate) fn copy(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    if transpose(from, to, context)? {
        return Ok(());
    }
    let (shape, strides) = collapsed_in_output_order(&[from.layout().expand(to.shape())?, *to.layout()])?;
    let traversal = Traversal::of(&[from, to], &shape, &strides);
    let count = to.num_elements();
    let [from_strides, to_strides] = both(&strides);
    let arguments = [
        Argument::Read(*from),
        Argument::Strides(from_strides),
        Argument::Write(*to),
        Argument::Strides(to_strides),
        Argument::Shape(shape),
        Argument::Long(count as i64),
    ];
    context.run(&unit(from.dtype(), traversal), "copy_elements", traversal.grid(count), &arguments)
}

/// The source of the kernels that copy elements of a type.
pub(super) fn unit(dtype: DType, traversal: Traversal) -> Unit {
    traversal.define(Unit::new("copy.cu", include_str!("../kernels/copy.cu")).define("T", element(dtype)))
}

fn both(strides: &AllStrides) -> [KernelStrides; 2] {
    [0, 1].map(|at| strides.get(at).copied().unwrap_or_default())
}
