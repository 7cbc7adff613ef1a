//! Sorting along an axis, and the first elements in sorted order.

use super::axes::collapsed;
use super::prelude::*;
use super::rows::without_axis;
use super::support::{int, is_real, typed};
use crate::ops::reduction::extremes::Topk;
use crate::ops::sorting::{Argsort, Kthvalue, Sort};
use crate::tensor::resolve_axis;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<Sort>::new(is_real, |layer, io| {
        let order = Order { is_descending: layer.descending, first: 0, count: None };
        order.run(layer.dim, [io.outputs.first(), io.outputs.get(1)], io)
    })
    .with_check(|layer, inputs| check(layer.dim, inputs)),
    &Simple::<Argsort>::new(is_real, |layer, io| {
        let order = Order { is_descending: layer.descending, first: 0, count: None };
        order.run(layer.dim, [None, io.outputs.first()], io)
    })
    .with_check(|layer, inputs| check(layer.dim, inputs)),
    &Simple::<Kthvalue>::new(is_real, |layer, io| {
        let order = Order { is_descending: false, first: layer.k.saturating_sub(1), count: Some(1) };
        order.run(layer.dim, [io.outputs.first(), io.outputs.get(1)], io)
    })
    .with_check(|layer, inputs| check(layer.dim, inputs)),
    &Simple::<Topk>::new(is_real, |layer, io| {
        let order = Order { is_descending: layer.largest, first: 0, count: Some(layer.k) };
        order.run(layer.dim, [io.outputs.first(), io.outputs.get(1)], io)
    })
    .with_check(check_topk),
];

/// The maximum length of rows that a block sorts.
const MAX_LENGTH: usize = 2048;

/// The order of a sort, and the sorted elements that are kept.
struct Order {
    is_descending: bool,
    first: usize,
    /// `None` for all.
    count: Option<usize>,
}

/// Returns an error if rows are too long.
fn check(dim: i64, inputs: &[TensorMeta]) -> Result<()> {
    let len = |meta: &TensorMeta| {
        let axis = resolve_axis(dim, meta.rank()).ok()?;
        meta.dims().get(axis).map_or(Some(1), |len| usize::try_from(len.fixed()?).ok())
    };
    match inputs.first().and_then(len) {
        Some(len) if len <= MAX_LENGTH => Ok(()),
        _ => {
            Err(LayerError::Unsupported(format!("rows of more than {MAX_LENGTH} elements are not supported")))
        }
    }
}

fn check_topk(layer: &Topk, inputs: &[TensorMeta]) -> Result<()> {
    if !layer.sorted {
        return Err(LayerError::Unsupported(
            "`sorted=False` is not supported: PyTorch does not specify its order".to_owned(),
        ));
    }
    check(layer.dim, inputs)
}

impl Order {
    fn run(
        &self,
        dim: i64,
        [y, indices]: [Option<&DeviceTensor<'_>>; 2],
        io: &mut CudaIo<'_, '_>,
    ) -> Result<()> {
        let x = &io.inputs[0];
        let axis = resolve_axis(dim, x.shape().len())?;
        let length = x.shape().get(axis).copied().unwrap_or(1);
        let padded_length = length.next_power_of_two().max(2);
        let unit = typed(Unit::new("sort.cu", include_str!("../kernels/sort.cu")), x.dtype())?
            .define("CAPACITY", padded_length)
            .define("DESCENDING", self.is_descending);
        let (x_outer, x_by) = without_axis(x.layout(), axis)?;
        let rank = x.shape().len();
        let of = |tensor: Option<&DeviceTensor<'_>>| -> Result<(Layout, i64)> {
            match tensor {
                // If one element of a row is kept, its axis may be absent.
                Some(tensor) if tensor.shape().len() < rank => Ok((*tensor.layout(), 0)),
                Some(tensor) => without_axis(tensor.layout(), axis),
                None => Ok((x_outer, 0)),
            }
        };
        let ((y_outer, y_by), (indices_outer, indices_by)) = (of(y)?, of(indices)?);
        let (outer, strides) = collapsed(&[x_outer, y_outer, indices_outer]);
        let by =
            |at: usize| Argument::Strides(strides.get(at).copied().unwrap_or_else(KernelStrides::default));
        let rows = x_outer.shape().num_elements();
        let arguments = [
            Argument::Read(*x),
            by(0),
            Argument::Long(x_by),
            y.map_or(Argument::None, |y| Argument::Write(*y)),
            by(1),
            Argument::Long(y_by),
            indices.map_or(Argument::None, |indices| Argument::Write(*indices)),
            by(2),
            Argument::Long(indices_by),
            Argument::Shape(outer),
            Argument::Long(rows as i64),
            Argument::Int(int(length)?),
            Argument::Int(int(self.first)?),
            Argument::Int(int(self.count.unwrap_or(length))?),
        ];
        let threads = (padded_length / 2).clamp(32, 256) as u32;
        io.context.run(&unit, "sort", Grid::of(rows, threads), &arguments)
    }
}
