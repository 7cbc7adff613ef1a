//! What elements along any axes become, whatever their type and strides.

use super::Operation;
use crate::kernels::reduce::axes::{BLOCK, Beside, Fold, Make, Numbers, Walk};
use crate::kernels::{Float, math, widest};
use crate::op::{ForwardContext, LayerError};
use crate::tensor::{DType, Element, Half, Layout, Shape, TensorView, TensorViewMut, bf16, f16};
use std::ops::Range;

/// The elements from the first of the storage on.
pub(in crate::ops) fn storage<'a, T: Element>(view: &TensorView<'a>) -> Result<&'a [T], LayerError> {
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
        match input.dtype() {
            DType::F32 => self.floats(&walk, Numbers::Here(storage::<f32>(input)?), len, output, context),
            DType::F64 => self.floats(&walk, Numbers::Here(storage::<f64>(input)?), len, output, context),
            DType::F16 => {
                let make = halves(storage::<f16>(input)?);
                self.floats::<f32>(&walk, Numbers::Made(&make), len, output, context)
            }
            DType::Bf16 => {
                let make = halves(storage::<bf16>(input)?);
                self.floats::<f32>(&walk, Numbers::Made(&make), len, output, context)
            }
            DType::I64 => self.integers(&walk, Numbers::Here(storage::<i64>(input)?), output, context),
            DType::I32 => {
                let make = integers(storage::<i32>(input)?);
                self.integers(&walk, Numbers::Made(&make), output, context)
            }
            DType::U8 => {
                let make = integers(storage::<u8>(input)?);
                self.integers(&walk, Numbers::Made(&make), output, context)
            }
            DType::Bool => {
                let make = integers(storage::<bool>(input)?);
                self.integers(&walk, Numbers::Made(&make), output, context)
            }
            _ => {
                let wide = input.cast(DType::I64)?;
                self.fold(&wide.view(), reduced, len, output, context)
            }
        }
    }

    /// Folds floats, of which `len` become one.
    fn floats<N: Float>(
        self,
        walk: &Walk,
        numbers: Numbers<'_, N>,
        len: usize,
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let count = len as f64;
        // The second half is used for what is found first.
        let (results, beside) = context.scratch::<f64>(2 * walk.outputs())?.split_at_mut(walk.outputs());
        match self {
            Self::Sum => sum(walk, numbers, &[], results),
            Self::Mean => {
                sum(walk, numbers, &[], results);
                each(results, |sum| sum / count);
            }
            Self::Product => product(walk, &terms(numbers, |x, _| x), results),
            Self::Max => largest(walk, numbers, f64::NEG_INFINITY, results),
            Self::Min => smallest(walk, numbers, results),
            Self::Variance { correction } => variances(walk, numbers, count, correction, results, beside),
            Self::Deviation { correction } => {
                variances(walk, numbers, count, correction, results, beside);
                each(results, f64::sqrt);
            }
            Self::LogSumExp => log_sum_exp(walk, numbers, results, beside),
            Self::Norm { p } => norms(walk, numbers, p, results),
        }
        write(results, output)
    }

    fn integers(
        self,
        walk: &Walk,
        numbers: Numbers<'_, i64>,
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        fn whole(
            walk: &Walk,
            numbers: Numbers<'_, i64>,
            results: &mut [i64],
            start: i64,
            join: impl Fn(i64, i64) -> i64,
        ) {
            walk.fold_numbers(numbers, &[], results, &Fold { start, lift: |x: i64, _| x, join });
        }
        let results = context.scratch::<i64>(walk.outputs())?;
        match self {
            Self::Product => whole(walk, numbers, results, 1, i64::wrapping_mul),
            Self::Max => whole(walk, numbers, results, i64::MIN, i64::max),
            Self::Min => whole(walk, numbers, results, i64::MAX, i64::min),
            _ => whole(walk, numbers, results, 0, i64::wrapping_add),
        }
        write(results, output)
    }
}

/// Elements of half precision as numbers.
fn halves<H: Half>(elements: &[H]) -> impl Fn(Range<usize>, Beside<'_>, &mut [f32]) {
    |range, _, to| {
        let elements = elements.get(range).unwrap_or_default();
        widest(|| H::load_all(elements, to));
    }
}

/// Integers of another type as numbers.
fn integers<T: Copy + Into<i64>>(elements: &[T]) -> impl Fn(Range<usize>, Beside<'_>, &mut [i64]) {
    |range, _, to| {
        let elements = elements.get(range).unwrap_or_default();
        widest(|| to.iter_mut().zip(elements).for_each(|(to, &x)| *to = x.into()));
    }
}

/// What is made of each number and of the one beside it, in f64. So there is one loop over axes for all such functions.
fn terms<N: Float>(
    numbers: Numbers<'_, N>,
    term: impl Fn(f64, f64) -> f64,
) -> impl Fn(Range<usize>, Beside<'_>, &mut [f64]) {
    move |range, beside, to| match numbers {
        Numbers::Here(elements) => lift(elements.get(range).unwrap_or_default(), beside, &term, to),
        Numbers::Made(make) => {
            let mut buffer = [N::zero(); BLOCK];
            let block = buffer.get_mut(..range.len()).unwrap_or_default();
            make(range, Beside::One(0.0), block);
            lift(block, beside, &term, to);
        }
    }
}

fn lift<N: Float>(from: &[N], beside: Beside<'_>, term: &impl Fn(f64, f64) -> f64, to: &mut [f64]) {
    widest(|| {
        let pairs = to.iter_mut().zip(from);
        match beside {
            Beside::One(beside) => pairs.for_each(|(to, &x)| *to = term(float(x), beside)),
            Beside::Each(all) => {
                pairs.zip(all).for_each(|((to, &x), &beside)| *to = term(float(x), beside));
            }
        }
    });
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

/// The sums of numbers, in f64; `beside` is what they are made with.
fn sum<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, beside: &[f64], results: &mut [f64]) {
    let fold = Fold { start: 0.0, lift: |x: N, _| float(x), join: |a: f64, b: f64| a + b };
    walk.fold_numbers(numbers, beside, results, &fold);
}

fn product(walk: &Walk, numbers: &Make<'_, f64>, results: &mut [f64]) {
    let fold = Fold { start: 1.0, lift: |x: f64, _| x, join: |a: f64, b: f64| a * b };
    walk.fold_numbers(Numbers::Made(numbers), &[], results, &fold);
}

/// The largest number, where NaN wins over everything.
fn largest<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, start: f64, results: &mut [f64]) {
    let join = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
    walk.fold_numbers(numbers, &[], results, &Fold { start, lift: |x: N, _| float(x), join });
}

/// The smallest number, where NaN wins over everything.
fn smallest<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, results: &mut [f64]) {
    let join = |a: f64, b: f64| if b < a || b.is_nan() { b } else { a };
    walk.fold_numbers(numbers, &[], results, &Fold { start: f64::INFINITY, lift: |x: N, _| float(x), join });
}

/// The sum of squared differences from the mean over (`count` − `correction`), but at least over 0; NaN of no elements.
fn variances<N: Float>(
    walk: &Walk,
    numbers: Numbers<'_, N>,
    count: f64,
    correction: f64,
    results: &mut [f64],
    means: &mut [f64],
) {
    sum(walk, numbers, &[], means);
    each(means, |sum| sum / count);
    let squares = terms(numbers, |x, mean| (x - mean) * (x - mean));
    sum::<f64>(walk, Numbers::Made(&squares), means, results);
    let divisor = if count > 0.0 { (count - correction).max(0.0) } else { 0.0 };
    each(results, |squares| squares / divisor);
}

/// The logarithm of the sum of powers of e, without overflow; −∞ of no elements.
fn log_sum_exp<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, results: &mut [f64], shifts: &mut [f64]) {
    largest(walk, numbers, f64::NEG_INFINITY, shifts);
    // An infinite largest element would make a NaN of its difference from itself.
    each(shifts, |largest| if largest.is_finite() { largest } else { 0.0 });
    let powers = terms(numbers, |x, shift| math::power::<N>(x - shift));
    sum::<f64>(walk, Numbers::Made(&powers), shifts, results);
    results.iter_mut().zip(shifts).for_each(|(sum, shift)| *sum = *shift + sum.ln());
}

/// As [`reduce::norm`](crate::kernels::reduce::norm).
fn norms<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, p: f64, results: &mut [f64]) {
    let magnitudes = terms(numbers, |x, _| x.abs());
    let sum = |terms: &Make<'_, f64>, results: &mut [f64]| sum(walk, Numbers::Made(terms), &[], results);
    if p == f64::INFINITY {
        largest::<f64>(walk, Numbers::Made(&magnitudes), 0.0, results);
    } else if p == f64::NEG_INFINITY {
        smallest::<f64>(walk, Numbers::Made(&magnitudes), results);
    } else if p == 0.0 {
        sum(&terms(numbers, |x, _| if x == 0.0 { 0.0 } else { 1.0 }), results);
    } else if p == 1.0 {
        sum(&magnitudes, results);
    } else if p == 2.0 {
        sum(&terms(numbers, |x, _| x * x), results);
        each(results, f64::sqrt);
    } else {
        sum(&terms(numbers, |x, _| x.abs().powf(p)), results);
        each(results, |sum| sum.powf(1.0 / p));
    }
}
