//! Access to floating-point tensors for layers.
//!
//! Kernels compute in `f32` or `f64` on contiguous slices. A contiguous tensor of that type is used in place, any other
//! layout is copied, and half precision is converted to `f32`. So no kernel needs a version for each of the four types.

use crate::op::{LayerError, Result, TensorMeta};
use ixion_kernels::parallel::for_each_chunk;
use ixion_kernels::{Float, widest};
use ixion_tensor::{DType, Half, Layout, Limits, Shape, Tensor, TensorView, TensorViewMut, bf16, f16};
use std::borrow::Cow;

/// The minimum number of elements per thread when rows are split between threads.
pub(crate) const SHARE: usize = 1 << 14;

/// The number of elements that are computed one by one between checks of the deadline.
const BETWEEN_CHECKS: usize = 1 << 16;

/// Runs an expression with `$T` bound to the type that tensors of a [`DType`] are computed in: `f32` for f16, bf16 and
/// f32, `f64` for f64. The expression is usually a call of a function that is generic over
/// [`Float`](ixion_kernels::Float), and must be a `Result`: other types are an error.
#[macro_export]
#[doc(hidden)]
macro_rules! __with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::tensor::DType::F32 | $crate::tensor::DType::F16 | $crate::tensor::DType::Bf16 => {
                type $T = f32;
                $body
            }
            $crate::tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            other => Err($crate::support::float::not_a_float("the input", other)),
        }
    };
}

#[doc(inline)]
pub use __with_float as with_float;

/// As [`with_float`](crate::support::float::with_float), and integers are computed in `f64`, which is exact up to 2⁵³.
#[macro_export]
#[doc(hidden)]
macro_rules! __with_real {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            integer if integer.is_integer() => {
                type $T = f64;
                $body
            }
            other => $crate::support::float::with_float!(other, $T => $body),
        }
    };
}

#[doc(inline)]
pub use __with_real as with_real;

/// Checks that a tensor has an integer or floating-point type.
///
/// # Errors
/// [`LayerError::DType`] if it does not.
pub fn check_real(what: &str, meta: &TensorMeta) -> Result<()> {
    if meta.dtype().is_integer() { Ok(()) } else { check(what, meta) }
}

/// The size, in bytes, of the type in which elements of `dtype` are computed.
pub fn computed_size(dtype: DType) -> usize {
    if dtype == DType::F64 || dtype.is_integer() { 8 } else { 4 }
}

/// The error for a tensor that does not have a floating-point type.
pub fn not_a_float(what: &str, found: DType) -> LayerError {
    LayerError::dtype(what, "f32, f64, f16 and bf16", found)
}

/// Checks that a tensor has a floating-point type.
///
/// # Errors
/// [`LayerError::DType`] if it does not.
pub fn check(what: &str, meta: &TensorMeta) -> Result<()> {
    if meta.dtype().is_float() { Ok(()) } else { Err(not_a_float(what, meta.dtype())) }
}

/// The shape rule of element-wise operators on floats: one output like the first input.
///
/// # Errors
/// [`LayerError::DType`] if the input does not have a floating-point type.
pub fn same_as_input(inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
    let [input, ..] = inputs else { return Err(LayerError::InputCount { wanted: "1".into(), found: 0 }) };
    check("the input", input)?;
    Ok(vec![input.with_dims(input.dims().to_vec())])
}

/// The elements in row-major order as `T`; borrowed if they are stored that way.
///
/// # Errors
/// [`LayerError::DType`] if the tensor is not computed in `T`.
pub fn read<'a, T: Float>(view: &TensorView<'a>) -> Result<Cow<'a, [T]>> {
    if view.dtype() == T::DTYPE {
        return match view.slice() {
            Ok(slice) => Ok(Cow::Borrowed(slice)),
            Err(_) => Ok(Cow::Owned(view.to_vec()?)),
        };
    }
    let is_half = matches!(view.dtype(), DType::F16 | DType::Bf16);
    let fits = if T::DTYPE == DType::F32 { is_half } else { view.dtype().is_integer() };
    if !fits {
        return Err(LayerError::dtype("an operand", T::DTYPE, view.dtype()));
    }
    let mut values = vec![T::zero(); view.num_elements()];
    let shape = *view.shape();
    TensorViewMut::from_slice(&mut values, Layout::contiguous(shape))?.cast_from(view)?;
    Ok(Cow::Owned(values))
}

/// Lets `fill` write all elements of an output in row-major order.
///
/// # Errors
/// The error of `fill`; [`LayerError::DType`] if the output is not computed in `T`.
pub fn write<T: Float>(
    output: &mut TensorViewMut<'_>,
    fill: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<()> {
    let mut fill = Some(fill);
    write_by(output, &mut |values| fill.take().map_or(Ok(()), |fill| fill(values)))
}

/// As [`write`], but compiled once for each `T`, not for each `fill`.
fn write_by<T: Float>(
    output: &mut TensorViewMut<'_>,
    fill: &mut dyn FnMut(&mut [T]) -> Result<()>,
) -> Result<()> {
    if output.dtype() == T::DTYPE && output.layout().is_contiguous() {
        return fill(output.slice()?);
    }
    let mut values = vec![T::zero(); output.num_elements()];
    fill(&mut values)?;
    let shape = *output.shape();
    Ok(output.cast_from(&TensorView::from_slice(&values, Layout::contiguous(shape))?)?)
}

/// Lets `change` write all elements of an output in row-major order, given the input's elements, or `None` if the output
/// already holds them.
///
/// # Errors
/// The error of `change`; [`LayerError::DType`] if a tensor is not computed in `T`.
pub(crate) fn transform<T: Float>(
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    change: impl FnOnce(Option<&[T]>, &mut [T]) -> Result<()>,
) -> Result<()> {
    let mut change = Some(change);
    transform_by(input, output, &mut |input, values| {
        change.take().map_or(Ok(()), |change| change(input, values))
    })
}

/// As [`transform`], but compiled once for each `T`, not for each `change`.
fn transform_by<T: Float>(
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    change: &mut Change<'_, T>,
) -> Result<()> {
    if output.dtype() == T::DTYPE && output.layout().is_contiguous() {
        let input = input.map(read::<T>).transpose()?;
        return change(input.as_deref(), output.slice()?);
    }
    let mut values = match input {
        Some(input) => read::<T>(input)?.into_owned(),
        None => read::<T>(&output.as_view())?.into_owned(),
    };
    change(None, &mut values)?;
    let shape = *output.shape();
    Ok(output.cast_from(&TensorView::from_slice(&values, Layout::contiguous(shape))?)?)
}

type Change<'a, T> = dyn FnMut(Option<&[T]>, &mut [T]) -> Result<()> + 'a;

/// As [`transform`], row by row: `change` gets the index of a row and its `len` elements, which hold the input's, and
/// overwrites them. Rows are split between threads.
///
/// # Errors
/// As [`transform_rows`].
pub(crate) fn change_rows<T: Float>(
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    len: usize,
    limits: &Limits,
    change: impl Fn(usize, &mut [T]) + Sync,
) -> Result<()> {
    let len = len.max(1);
    transform_rows::<T>(input, output, len, limits, &|first, input, rows| {
        if let Some(input) = input {
            rows.copy_from_slice(input);
        }
        rows.chunks_exact_mut(len).enumerate().for_each(|(index, row)| change(first + index, row));
        Ok(())
    })
}

/// A function of some rows: it gets the index of the first one, the input's elements, or `None` if the rows hold them, and
/// the rows, whose elements it overwrites.
type ChangeRows<'a, T> = dyn Fn(usize, Option<&[T]>, &mut [T]) -> Result<()> + Sync + 'a;

/// As [`transform`], in parts that consist of whole rows of `len` elements, which are split between threads. Half precision
/// is converted part by part.
///
/// # Errors
/// As [`transform`], and the error of `change`; [`LayerError::Limit`] if the deadline, which is checked for each part, has
/// passed.
pub(crate) fn transform_rows<T: Float>(
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    len: usize,
    limits: &Limits,
    change: &ChangeRows<'_, T>,
) -> Result<()> {
    let len = len.max(1);
    let part = SHARE.div_ceil(len).saturating_mul(len);
    let is_same = |input: &TensorView<'_>| input.layout().is_contiguous() && input.dtype() == output.dtype();
    let is_plain = T::DTYPE == DType::F32 && output.layout().is_contiguous() && input.is_none_or(is_same);
    let in_halves = |start: usize, rows: &mut [T]| -> Result<()> {
        limits.check_deadline()?;
        change(start / len, None, rows)
    };
    match output.dtype() {
        DType::F16 if is_plain => transform_halves::<T, f16>(input, output, part, &in_halves),
        DType::Bf16 if is_plain => transform_halves::<T, bf16>(input, output, part, &in_halves),
        _ => transform::<T>(input, output, |input, output| {
            for_each_chunk(output, part, &|start, rows: &mut [T]| -> Result<()> {
                limits.check_deadline()?;
                change(start / len, input.and_then(|input| input.get(start..start + rows.len())), rows)
            })
        }),
    }
}

/// Changes parts of contiguous tensors in `T`; `change` gets the position where a part begins, and its elements.
fn transform_halves<T: Float, H: Half>(
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    part: usize,
    change: &(dyn Fn(usize, &mut [T]) -> Result<()> + Sync),
) -> Result<()> {
    let input = input.map(|input| input.slice::<H>()).transpose()?;
    for_each_chunk(output.slice::<H>()?, part, &|start, halves: &mut [H]| -> Result<()> {
        let layout = Layout::contiguous(Shape::new(&[halves.len()])?);
        let from = input.and_then(|input| input.get(start..start + halves.len())).unwrap_or(&*halves);
        let mut rows = vec![T::zero(); halves.len()];
        TensorViewMut::from_slice(&mut rows, layout)?.cast_from(&TensorView::from_slice(from, layout)?)?;
        change(start, &mut rows)?;
        Ok(TensorViewMut::from_slice(halves, layout)?.cast_from(&TensorView::from_slice(&rows, layout)?)?)
    })
}

/// A function of one element, in `f32` and `f64`. Mark `apply` `#[inline(always)]`, so that loops over it are vectorised
/// however long it is.
pub(crate) trait Unary {
    /// The function's value.
    fn apply<T: Float>(&self, x: T) -> T;
}

/// Applies a function to a slice and writes the results to another.
fn map_all<T: Float>(function: &impl Unary, from: &[T], to: &mut [T]) {
    widest!(|| {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = function.apply(from);
        }
    });
}

/// Applies a function to a slice in place.
fn change_all<T: Float>(function: &impl Unary, data: &mut [T]) {
    widest!(|| {
        for x in data.iter_mut() {
            *x = function.apply(*x);
        }
    });
}

/// As [`map`], for a [`Unary`] function.
///
/// # Errors
/// [`LayerError::DType`] if the input does not have a floating-point type; [`LayerError::Limit`] if the deadline has passed.
pub(crate) fn map_unary<U: Unary>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
    function: &U,
) -> Result<()> {
    let halves = |data: &mut [f32]| change_all(function, data);
    match input.dtype() {
        DType::F32 => map_slices::<f32>(input, output, limits, &|from, to| map_all(function, from, to)),
        DType::F64 => map_slices::<f64>(input, output, limits, &|from, to| map_all(function, from, to)),
        DType::F16 => map_halves::<f16>(input, output, limits, &halves),
        DType::Bf16 => map_halves::<bf16>(input, output, limits, &halves),
        other => Err(not_a_float("the input", other)),
    }
}

/// Lets `change` write all elements of an output, given the input's, part by part.
fn map_slices<T: Float>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
    change: &dyn Fn(&[T], &mut [T]),
) -> Result<()> {
    let input = read::<T>(input)?;
    write::<T>(output, |output| {
        for (from, to) in input.chunks(BETWEEN_CHECKS).zip(output.chunks_mut(BETWEEN_CHECKS)) {
            limits.check_deadline()?;
            change(from, to);
        }
        Ok(())
    })
}

/// As [`map_in_place`], for a [`Unary`] function.
///
/// # Errors
/// As [`map_unary`].
pub(crate) fn map_unary_in_place<U: Unary>(
    data: &mut TensorViewMut<'_>,
    limits: &Limits,
    function: &U,
) -> Result<()> {
    change_in_place(data, limits, &|data| change_all(function, data), &|data| change_all(function, data))
}

/// Changes all elements in place by `single` or `double`; half precision is converted block by block.
fn change_in_place(
    data: &mut TensorViewMut<'_>,
    limits: &Limits,
    single: &dyn Fn(&mut [f32]),
    double: &dyn Fn(&mut [f64]),
) -> Result<()> {
    if !data.layout().is_contiguous() {
        let mut copy = data.as_view().to_tensor()?;
        change_in_place(&mut copy.view_mut()?, limits, single, double)?;
        return Ok(data.copy_from(&copy.view())?);
    }
    match data.dtype() {
        DType::F32 => change_parts(data.slice::<f32>()?, limits, single),
        DType::F64 => change_parts(data.slice::<f64>()?, limits, double),
        DType::F16 => change_parts(data.slice::<f16>()?, limits, &|data| change_halves(data, single)),
        DType::Bf16 => change_parts(data.slice::<bf16>()?, limits, &|data| change_halves(data, single)),
        other => Err(not_a_float("the input", other)),
    }
}

/// Lets `change` overwrite all elements, part by part.
fn change_parts<E>(data: &mut [E], limits: &Limits, change: &dyn Fn(&mut [E])) -> Result<()> {
    for data in data.chunks_mut(BETWEEN_CHECKS) {
        limits.check_deadline()?;
        change(data);
    }
    Ok(())
}

/// Applies a function to every element; `single` serves f32 and the half types, `double` f64.
///
/// # Errors
/// [`LayerError::DType`] if the input does not have a floating-point type.
pub fn map(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    single: impl Fn(f32) -> f32,
    double: impl Fn(f64) -> f64,
) -> Result<()> {
    let limits = &Limits::default();
    let change = |data: &mut [f32]| widest!(|| data.iter_mut().for_each(|x| *x = single(*x)));
    match input.dtype() {
        DType::F64 => map_slices::<f64>(input, output, limits, &|from, to| {
            widest!(|| to.iter_mut().zip(from).for_each(|(to, &from)| *to = double(from)));
        }),
        DType::F16 => map_halves::<f16>(input, output, limits, &change),
        DType::Bf16 => map_halves::<bf16>(input, output, limits, &change),
        _ => map_slices::<f32>(input, output, limits, &|from, to| {
            widest!(|| to.iter_mut().zip(from).for_each(|(to, &from)| *to = single(from)));
        }),
    }
}

/// As [`map_slices`] for half precision, in blocks that fit in the L1 cache.
fn map_halves<H: Half>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
    change: &dyn Fn(&mut [f32]),
) -> Result<()> {
    if !output.layout().is_contiguous() {
        let mut whole = Tensor::empty(H::DTYPE, output.shape())?;
        map_halves::<H>(input, &mut whole.view_mut()?, limits, change)?;
        return Ok(output.copy_from(&whole.view())?);
    }
    let copy = if input.layout().is_contiguous() { None } else { Some(input.to_tensor()?) };
    let from = copy.as_ref().map_or(*input, Tensor::view).slice::<H>()?;
    let mut block = [0f32; BLOCK];
    for (index, (from, to)) in from.chunks(BLOCK).zip(output.slice::<H>()?.chunks_mut(BLOCK)).enumerate() {
        if index % (BETWEEN_CHECKS / BLOCK) == 0 {
            limits.check_deadline()?;
        }
        let block = &mut block[..to.len()];
        H::load_all(from, block);
        change(block);
        H::store_all(block, to);
    }
    Ok(())
}

/// The number of half-precision elements that are converted at a time.
const BLOCK: usize = 2048;

/// Changes elements of half precision in place.
fn change_halves<H: Half>(data: &mut [H], change: &dyn Fn(&mut [f32])) {
    let mut block = [0f32; BLOCK];
    for data in data.chunks_mut(BLOCK) {
        let block = &mut block[..data.len()];
        H::load_all(data, block);
        change(block);
        H::store_all(block, data);
    }
}

/// Applies a function to every element in place; as [`map`].
///
/// # Errors
/// [`LayerError::DType`] if the input does not have a floating-point type.
pub fn map_in_place(
    data: &mut TensorViewMut<'_>,
    single: impl Fn(f32) -> f32,
    double: impl Fn(f64) -> f64,
) -> Result<()> {
    let single = |data: &mut [f32]| widest!(|| data.iter_mut().for_each(|x| *x = single(*x)));
    let double = |data: &mut [f64]| widest!(|| data.iter_mut().for_each(|x| *x = double(*x)));
    change_in_place(data, &Limits::default(), &single, &double)
}
