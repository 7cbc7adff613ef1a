//! What elements along any axes become, whatever their type and strides.

use super::Operation;
use crate::graph::{ForwardContext, LayerError};
use crate::kernels::reduce::axes::{Fold, Readable, Walk};
use crate::kernels::{Float, math};
use crate::tensor::{DType, Element, Layout, Shape, TensorView, TensorViewMut, bf16, f16};

/// The elements from the first of the storage on.
pub(in crate::layers) fn storage<'a, T: Element>(view: &TensorView<'a>) -> Result<&'a [T], LayerError> {
    let span = if view.num_elements() == 0 { 0 } else { view.layout().span() };
    Ok(view.with_layout(Layout::contiguous(Shape::new(&[span])?))?.slice::<T>()?)
}

/// Bytes of scratch memory for this many results: two numbers for each.
pub(super) fn scratch_bytes(results: usize) -> usize {
    results.saturating_mul(2 * size_of::<f64>())
}

impl Operation {
    /// Writes the results of real numbers; `len` elements become one.
    pub(super) fn fold(
        self,
        input: &TensorView<'_>,
        reduced: &[bool],
        len: usize,
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let walk = Walk::new(input.layout(), reduced);
        macro_rules! floats {
            ($native:ty) => {{
                let (results, beside) =
                    context.scratch::<f64>(2 * walk.outputs())?.split_at_mut(walk.outputs());
                self.floats(&walk, storage::<$native>(input)?, len, results, beside);
                write(results, output)
            }};
        }
        macro_rules! integers {
            ($native:ty) => {{
                let results = context.scratch::<i64>(walk.outputs())?;
                self.integers(&walk, storage::<$native>(input)?, results);
                write(results, output)
            }};
        }
        match input.dtype() {
            DType::F32 => floats!(f32),
            DType::F64 => floats!(f64),
            DType::F16 => floats!(f16),
            DType::Bf16 => floats!(bf16),
            DType::I64 => integers!(i64),
            DType::I32 => integers!(i32),
            DType::U8 => integers!(u8),
            DType::Bool => integers!(bool),
            _ => {
                let wide = input.cast(DType::I64)?;
                self.fold(&wide.view(), reduced, len, output, context)
            }
        }
    }

    /// `beside` is of the length of the results, and is used for what is found first.
    fn floats<T: Readable<Number: Float>>(
        self,
        walk: &Walk,
        elements: &[T],
        len: usize,
        results: &mut [f64],
        beside: &mut [f64],
    ) {
        let count = len as f64;
        match self {
            Self::Sum => sum(walk, elements, &[], results, |x, _| x),
            Self::Mean => {
                sum(walk, elements, &[], results, |x, _| x);
                each(results, |sum| sum / count);
            }
            Self::Product => {
                let join = |a: f64, b: f64| a * b;
                let fold = Fold { start: 1.0, lift: |x: T::Number, _| float(x), join };
                walk.fold(elements, &[], results, &fold);
            }
            Self::Max => extremes(walk, elements, results, f64::NEG_INFINITY, |x| x, |a, b| a > b),
            Self::Min => extremes(walk, elements, results, f64::INFINITY, |x| x, |a, b| a < b),
            Self::Variance { correction } => {
                variances(walk, elements, count, correction, results, beside);
            }
            Self::Deviation { correction } => {
                variances(walk, elements, count, correction, results, beside);
                each(results, f64::sqrt);
            }
            Self::LogSumExp => log_sum_exp(walk, elements, results, beside),
            Self::Norm { p } => norms(walk, elements, p, results),
        }
    }

    fn integers<T: Readable<Number: Into<i64>>>(self, walk: &Walk, elements: &[T], results: &mut [i64]) {
        fn whole<T: Readable<Number: Into<i64>>>(
            walk: &Walk,
            elements: &[T],
            results: &mut [i64],
            start: i64,
            join: impl Fn(i64, i64) -> i64,
        ) {
            walk.fold(elements, &[], results, &Fold { start, lift: |x: T::Number, _| x.into(), join });
        }
        match self {
            Self::Product => whole(walk, elements, results, 1, i64::wrapping_mul),
            Self::Max => whole(walk, elements, results, i64::MIN, i64::max),
            Self::Min => whole(walk, elements, results, i64::MAX, i64::min),
            _ => whole(walk, elements, results, 0, i64::wrapping_add),
        }
    }
}

/// Writes results, converted to the output's type.
fn write<T: Element>(results: &[T], output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
    let layout = Layout::contiguous(*output.shape());
    Ok(output.cast_from(&TensorView::from_slice(results, layout)?)?)
}

#[inline(always)]
fn float<T: Float>(x: T) -> f64 {
    x.to_f64().unwrap_or(f64::NAN)
}

fn each(values: &mut [f64], function: impl Fn(f64) -> f64) {
    values.iter_mut().for_each(|value| *value = function(*value));
}

/// The sums of a function of elements and of the number beside them, in f64.
fn sum<T: Readable<Number: Float>>(
    walk: &Walk,
    elements: &[T],
    beside: &[f64],
    results: &mut [f64],
    term: impl Fn(f64, f64) -> f64,
) {
    let lift = |x: T::Number, beside: f64| term(float(x), beside);
    walk.fold(elements, beside, results, &Fold { start: 0.0, lift, join: |a: f64, b: f64| a + b });
}

/// The element that wins over all others, where NaN wins over everything.
fn extremes<T: Readable<Number: Float>>(
    walk: &Walk,
    elements: &[T],
    results: &mut [f64],
    start: f64,
    value: impl Fn(f64) -> f64,
    wins: impl Fn(f64, f64) -> bool,
) {
    let join = |a: f64, b: f64| if wins(b, a) || b.is_nan() { b } else { a };
    walk.fold(elements, &[], results, &Fold { start, lift: |x: T::Number, _| value(float(x)), join });
}

/// The sum of squared differences from the mean over (`count` − `correction`), but at least over 0; NaN of no elements.
fn variances<T: Readable<Number: Float>>(
    walk: &Walk,
    elements: &[T],
    count: f64,
    correction: f64,
    results: &mut [f64],
    means: &mut [f64],
) {
    sum(walk, elements, &[], means, |x, _| x);
    each(means, |sum| sum / count);
    sum(walk, elements, means, results, |x, mean| (x - mean) * (x - mean));
    let divisor = if count > 0.0 { (count - correction).max(0.0) } else { 0.0 };
    each(results, |squares| squares / divisor);
}

/// The logarithm of the sum of powers of e, without overflow; −∞ of no elements.
fn log_sum_exp<T: Readable<Number: Float>>(
    walk: &Walk,
    elements: &[T],
    results: &mut [f64],
    shifts: &mut [f64],
) {
    extremes(walk, elements, shifts, f64::NEG_INFINITY, |x| x, |a, b| a > b);
    // An infinite largest element would make a NaN of its difference from itself.
    each(shifts, |largest| if largest.is_finite() { largest } else { 0.0 });
    sum(walk, elements, shifts, results, |x, shift| math::power::<T::Number>(x - shift));
    results.iter_mut().zip(shifts).for_each(|(sum, shift)| *sum = *shift + sum.ln());
}

/// As [`reduce::norm`](crate::kernels::reduce::norm).
fn norms<T: Readable<Number: Float>>(walk: &Walk, elements: &[T], p: f64, results: &mut [f64]) {
    if p == f64::INFINITY {
        extremes(walk, elements, results, 0.0, f64::abs, |a, b| a > b);
    } else if p == f64::NEG_INFINITY {
        extremes(walk, elements, results, f64::INFINITY, f64::abs, |a, b| a < b);
    } else if p == 0.0 {
        sum(walk, elements, &[], results, |x, _| if x == 0.0 { 0.0 } else { 1.0 });
    } else if p == 1.0 {
        sum(walk, elements, &[], results, |x, _| x.abs());
    } else if p == 2.0 {
        sum(walk, elements, &[], results, |x, _| x * x);
        each(results, f64::sqrt);
    } else {
        sum(walk, elements, &[], results, |x, _| x.abs().powf(p));
        each(results, |sum| sum.powf(1.0 / p));
    }
}
