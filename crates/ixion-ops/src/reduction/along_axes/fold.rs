//! Reductions of real elements of any type and strides along any axes.

use crate::op::{ForwardContext, Result};
use ixion_kernels::reduce::axes::Walk;
use ixion_kernels::reduce::fold::{Floats, Integers, Operation};
use ixion_kernels::reduce::quantifiers::Quantifier;
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
    let walk = Walk::new(input.layout(), reduced, context.limits());
    let Some(elements) = Elements::of(input)? else {
        let wide = input.cast(DType::I64)?;
        return reduce(operation, &wide.view(), reduced, len, output, context);
    };
    match elements {
        Elements::Floats(elements) => {
            let become_halves = matches!(output.dtype(), DType::F16 | DType::Bf16);
            let singles = context.scratch::<f32>(walk.outputs())?;
            if operation.in_single(&walk, elements, len, become_halves, singles)? {
                return write(singles, output);
            }
            let scratch = context.scratch::<f64>(2 * walk.outputs())?;
            let (results, auxiliary) = scratch.split_at_mut(walk.outputs());
            operation.floats(&walk, elements, len, results, auxiliary)?;
            write(results, output)
        }
        Elements::Integers(elements) => {
            let results = context.scratch::<i64>(walk.outputs())?;
            operation.integers(&walk, elements, results)?;
            write(results, output)
        }
    }
}

/// Writes whether any real element, or each, is not 0.
pub(super) fn quantify(
    quantifier: Quantifier,
    input: &TensorView<'_>,
    reduced: &[bool],
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    let walk = Walk::new(input.layout(), reduced, context.limits());
    let Some(elements) = Elements::of(input)? else {
        return quantify(quantifier, &input.cast(DType::I64)?.view(), reduced, output, context);
    };
    let results = context.scratch::<f32>(walk.outputs())?;
    match elements {
        Elements::Floats(elements) => quantifier.floats(&walk, elements, results)?,
        Elements::Integers(elements) => quantifier.integers(&walk, elements, results)?,
    }
    write(results, output)
}

enum Elements<'a> {
    Floats(Floats<'a>),
    Integers(Integers<'a>),
}

impl<'a> Elements<'a> {
    /// The elements of a storage; `None` for integers of a type that is not reduced directly.
    fn of(input: &TensorView<'a>) -> Result<Option<Self>> {
        Ok(Some(match input.dtype() {
            DType::F32 => Self::Floats(Floats::F32(storage(input)?)),
            DType::F64 => Self::Floats(Floats::F64(storage(input)?)),
            DType::F16 => Self::Floats(Floats::F16(storage(input)?)),
            DType::Bf16 => Self::Floats(Floats::Bf16(storage(input)?)),
            DType::I64 => Self::Integers(Integers::I64(storage(input)?)),
            DType::I32 => Self::Integers(Integers::I32(storage(input)?)),
            DType::U8 => Self::Integers(Integers::U8(storage(input)?)),
            DType::Bool => Self::Integers(Integers::Bool(storage(input)?)),
            _ => return Ok(None),
        }))
    }
}

/// Writes results, converted to the output's type.
fn write<T: Element>(results: &[T], output: &mut TensorViewMut<'_>) -> Result<()> {
    let layout = Layout::contiguous(*output.shape());
    Ok(output.cast_from(&TensorView::from_slice(results, layout)?)?)
}
