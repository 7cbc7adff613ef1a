//! Reductions of real elements of any type and strides along any axes.

use crate::op::{ForwardContext, Result};
use ixion_kernels::reduce::axes::Walk;
use ixion_kernels::reduce::fold::{Floats, Integers, Operation};
use ixion_tensor::{DType, Element, Layout, Shape, TensorView, TensorViewMut};

/// The view's storage, from its first element.
pub(crate) fn storage<'a, T: Element>(view: &TensorView<'a>) -> Result<&'a [T]> {
    let span = if view.num_elements() == 0 { 0 } else { view.layout().span() };
    Ok(view.with_layout(Layout::contiguous(Shape::new(&[span])?))?.slice::<T>()?)
}

/// The scratch memory, in bytes, for this number of results: two values for each.
pub(super) fn scratch_bytes(results: usize) -> usize {
    results.saturating_mul(2 * size_of::<f64>())
}

/// Reduces real elements and writes the results; `len` elements are reduced to one.
pub(super) fn reduce(
    operation: Operation,
    input: &TensorView<'_>,
    reduced: &[bool],
    len: usize,
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    let walk = Walk::new(input.layout(), reduced);
    let elements = match input.dtype() {
        DType::F32 => Elements::Floats(Floats::F32(storage(input)?)),
        DType::F64 => Elements::Floats(Floats::F64(storage(input)?)),
        DType::F16 => Elements::Floats(Floats::F16(storage(input)?)),
        DType::Bf16 => Elements::Floats(Floats::Bf16(storage(input)?)),
        DType::I64 => Elements::Integers(Integers::I64(storage(input)?)),
        DType::I32 => Elements::Integers(Integers::I32(storage(input)?)),
        DType::U8 => Elements::Integers(Integers::U8(storage(input)?)),
        DType::Bool => Elements::Integers(Integers::Bool(storage(input)?)),
        _ => {
            let wide = input.cast(DType::I64)?;
            return reduce(operation, &wide.view(), reduced, len, output, context);
        }
    };
    match elements {
        Elements::Floats(elements) => {
            let extremes = context.scratch::<f32>(walk.outputs())?;
            if operation.single_extremes(&walk, elements, extremes) {
                return write(extremes, output);
            }
            let scratch = context.scratch::<f64>(2 * walk.outputs())?;
            let (results, auxiliary) = scratch.split_at_mut(walk.outputs());
            operation.floats(&walk, elements, len, results, auxiliary);
            write(results, output)
        }
        Elements::Integers(elements) => {
            let results = context.scratch::<i64>(walk.outputs())?;
            operation.integers(&walk, elements, results);
            write(results, output)
        }
    }
}

enum Elements<'a> {
    Floats(Floats<'a>),
    Integers(Integers<'a>),
}

/// Writes results, converted to the output's type.
fn write<T: Element>(results: &[T], output: &mut TensorViewMut<'_>) -> Result<()> {
    let layout = Layout::contiguous(*output.shape());
    Ok(output.cast_from(&TensorView::from_slice(results, layout)?)?)
}
