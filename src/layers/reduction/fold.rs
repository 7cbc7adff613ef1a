//! What elements along any axes become, whatever their type and strides.

use super::Operation;
use crate::graph::LayerError;
use crate::kernels::reduce::axes::{Fold, Readable, Walk};
use crate::kernels::{Float, math};
use crate::tensor::{DType, Element, Layout, Shape, Tensor, TensorView, TensorViewMut, bf16, f16};

/// The elements from the first of the storage on.
pub(in crate::layers) fn storage<'a, T: Element>(view: &TensorView<'a>) -> Result<&'a [T], LayerError> {
    let span = if view.num_elements() == 0 { 0 } else { view.layout().span() };
    Ok(view.with_layout(Layout::contiguous(Shape::new(&[span])?))?.slice::<T>()?)
}

impl Operation {
    /// Writes the results of real numbers; `len` elements become one.
    pub(super) fn fold(
        self,
        input: &TensorView<'_>,
        reduced: &[bool],
        len: usize,
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        let (walk, shape) = (Walk::new(input.layout(), reduced), *output.shape());
        let results = match input.dtype() {
            DType::F32 => Tensor::from_vec(self.floats(&walk, storage::<f32>(input)?, len), &shape),
            DType::F64 => Tensor::from_vec(self.floats(&walk, storage::<f64>(input)?, len), &shape),
            DType::F16 => Tensor::from_vec(self.floats(&walk, storage::<f16>(input)?, len), &shape),
            DType::Bf16 => Tensor::from_vec(self.floats(&walk, storage::<bf16>(input)?, len), &shape),
            DType::I64 => Tensor::from_vec(self.integers(&walk, storage::<i64>(input)?), &shape),
            DType::I32 => Tensor::from_vec(self.integers(&walk, storage::<i32>(input)?), &shape),
            DType::U8 => Tensor::from_vec(self.integers(&walk, storage::<u8>(input)?), &shape),
            DType::Bool => Tensor::from_vec(self.integers(&walk, storage::<bool>(input)?), &shape),
            _ => {
                let wide = input.cast(DType::I64)?;
                return self.fold(&wide.view(), reduced, len, output);
            }
        };
        Ok(output.cast_from(&results?.view())?)
    }

    fn floats<T: Readable<Number: Float>>(self, walk: &Walk, elements: &[T], len: usize) -> Vec<f64> {
        let count = len as f64;
        match self {
            Self::Sum => sum(walk, elements, &[], |x, _| x),
            Self::Mean => each(sum(walk, elements, &[], |x, _| x), |sum| sum / count),
            Self::Product => {
                let join = |a: f64, b: f64| a * b;
                walk.fold(elements, &[], &Fold { start: 1.0, lift: |x: T::Number, _| float(x), join })
            }
            Self::Max => extremes(walk, elements, f64::NEG_INFINITY, |x| x, |a, b| a > b),
            Self::Min => extremes(walk, elements, f64::INFINITY, |x| x, |a, b| a < b),
            Self::Variance { correction } => variances(walk, elements, count, correction),
            Self::Deviation { correction } => each(variances(walk, elements, count, correction), f64::sqrt),
            Self::LogSumExp => log_sum_exp(walk, elements),
            Self::Norm { p } => norms(walk, elements, p),
        }
    }

    fn integers<T: Readable<Number: Into<i64>>>(self, walk: &Walk, elements: &[T]) -> Vec<i64> {
        fn whole<T: Readable<Number: Into<i64>>>(
            walk: &Walk,
            elements: &[T],
            start: i64,
            join: impl Fn(i64, i64) -> i64,
        ) -> Vec<i64> {
            walk.fold(elements, &[], &Fold { start, lift: |x: T::Number, _| x.into(), join })
        }
        match self {
            Self::Product => whole(walk, elements, 1, i64::wrapping_mul),
            Self::Max => whole(walk, elements, i64::MIN, i64::max),
            Self::Min => whole(walk, elements, i64::MAX, i64::min),
            _ => whole(walk, elements, 0, i64::wrapping_add),
        }
    }
}

#[inline(always)]
fn float<T: Float>(x: T) -> f64 {
    x.to_f64().unwrap_or(f64::NAN)
}

fn each(mut values: Vec<f64>, function: impl Fn(f64) -> f64) -> Vec<f64> {
    values.iter_mut().for_each(|value| *value = function(*value));
    values
}

/// The sums of a function of elements and of the number beside them, in f64.
fn sum<T: Readable<Number: Float>>(
    walk: &Walk,
    elements: &[T],
    beside: &[f64],
    term: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let lift = |x: T::Number, beside: f64| term(float(x), beside);
    walk.fold(elements, beside, &Fold { start: 0.0, lift, join: |a: f64, b: f64| a + b })
}

/// The element that wins over all others, where NaN wins over everything.
fn extremes<T: Readable<Number: Float>>(
    walk: &Walk,
    elements: &[T],
    start: f64,
    value: impl Fn(f64) -> f64,
    wins: impl Fn(f64, f64) -> bool,
) -> Vec<f64> {
    let join = |a: f64, b: f64| if wins(b, a) || b.is_nan() { b } else { a };
    walk.fold(elements, &[], &Fold { start, lift: |x: T::Number, _| value(float(x)), join })
}

/// The sum of squared differences from the mean over (`count` − `correction`), but at least over 0; NaN of no elements.
fn variances<T: Readable<Number: Float>>(
    walk: &Walk,
    elements: &[T],
    count: f64,
    correction: f64,
) -> Vec<f64> {
    let means = each(sum(walk, elements, &[], |x, _| x), |sum| sum / count);
    let squares = sum(walk, elements, &means, |x, mean| (x - mean) * (x - mean));
    let divisor = if count > 0.0 { (count - correction).max(0.0) } else { 0.0 };
    each(squares, |squares| squares / divisor)
}

/// The logarithm of the sum of powers of e, without overflow; −∞ of no elements.
fn log_sum_exp<T: Readable<Number: Float>>(walk: &Walk, elements: &[T]) -> Vec<f64> {
    let largest = extremes(walk, elements, f64::NEG_INFINITY, |x| x, |a, b| a > b);
    // An infinite largest element would make a NaN of its difference from itself.
    let shifts = each(largest, |largest| if largest.is_finite() { largest } else { 0.0 });
    let sums = sum(walk, elements, &shifts, |x, shift| math::power::<T::Number>(x - shift));
    sums.into_iter().zip(shifts).map(|(sum, shift)| shift + sum.ln()).collect()
}

/// As [`reduce::norm`](crate::kernels::reduce::norm).
fn norms<T: Readable<Number: Float>>(walk: &Walk, elements: &[T], p: f64) -> Vec<f64> {
    if p == f64::INFINITY {
        extremes(walk, elements, 0.0, f64::abs, |a, b| a > b)
    } else if p == f64::NEG_INFINITY {
        extremes(walk, elements, f64::INFINITY, f64::abs, |a, b| a < b)
    } else if p == 0.0 {
        sum(walk, elements, &[], |x, _| if x == 0.0 { 0.0 } else { 1.0 })
    } else if p == 1.0 {
        sum(walk, elements, &[], |x, _| x.abs())
    } else if p == 2.0 {
        each(sum(walk, elements, &[], |x, _| x * x), f64::sqrt)
    } else {
        each(sum(walk, elements, &[], |x, _| x.abs().powf(p)), |sum| sum.powf(1.0 / p))
    }
}
