//! Reductions of real numbers along any axes of an array: sums, products, extremes, variances and norms.

use super::axes::{Auxiliary, BLOCK, Compute, Fold, Numbers, Walk};
use crate::softmax::exp_all;
use crate::{Float, widest};
use ixion_tensor::{Half, LimitError, bf16, f16};
use std::ops::Range;

/// A reduction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operation {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// Their product.
    Product,
    /// The largest; NaN if there is one.
    Max,
    /// The smallest; NaN if there is one.
    Min,
    /// The sum of squared differences from the mean, over the number of elements minus `correction`.
    Variance {
        /// The number that is subtracted from the count: 1 for a sample.
        correction: f64,
    },
    /// The square root of the variance.
    Deviation {
        /// As for the variance.
        correction: f64,
    },
    /// The logarithm of the sum of powers of e.
    LogSumExp,
    /// A norm.
    Norm {
        /// Its order.
        p: f64,
    },
}

/// The number of halves that are added in `f32`. Even if they were added one after the other, the error would be at most a
/// quarter of what rounding the sum to `f16` adds, and usually it is a hundredth.
const MAX_IN_SINGLE: usize = 1024;

/// Floating-point elements, starting at the first one of a storage.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "named after the types of elements")]
pub enum Floats<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

/// Integers and bools, starting at the first one of a storage.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "named after the types of elements")]
pub enum Integers<'a> {
    I64(&'a [i64]),
    I32(&'a [i32]),
    U8(&'a [u8]),
    Bool(&'a [bool]),
}

impl Operation {
    /// Folds floats in f64, `len` of them to each result. `results` and `auxiliary`, which holds intermediate values such as
    /// means, must be as long as [`Walk::outputs`]; anything beyond the shorter one is left out.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    pub fn floats(
        self,
        walk: &Walk<'_>,
        elements: Floats<'_>,
        len: usize,
        results: &mut [f64],
        auxiliary: &mut [f64],
    ) -> Result<(), LimitError> {
        match elements {
            Floats::F32(elements) => self.numbers(walk, Numbers::Elements(elements), len, results, auxiliary),
            Floats::F64(elements) => self.numbers(walk, Numbers::Elements(elements), len, results, auxiliary),
            Floats::F16(elements) => {
                self.numbers(walk, Numbers::Computed(&halves(elements)), len, results, auxiliary)
            }
            Floats::Bf16(elements) => {
                self.numbers(walk, Numbers::Computed(&halves(elements)), len, results, auxiliary)
            }
        }
    }

    /// As [`Operation::floats`] in `f32`, which is faster: extremes of elements that are not wider, and sums of few halves, if
    /// they `become_halves` again. Returns false, and leaves `results` as they are, for other operations and elements.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    pub fn in_single(
        self,
        walk: &Walk<'_>,
        elements: Floats<'_>,
        len: usize,
        become_halves: bool,
        results: &mut [f32],
    ) -> Result<bool, LimitError> {
        let may_add = become_halves && len <= MAX_IN_SINGLE;
        match elements {
            Floats::F32(elements) => self.extremes(walk, Numbers::Elements(elements), results),
            Floats::F16(elements) => self.of_halves(walk, &halves(elements), len, may_add, results),
            Floats::Bf16(elements) => self.of_halves(walk, &halves(elements), len, may_add, results),
            Floats::F64(_) => Ok(false),
        }
    }

    fn of_halves(
        self,
        walk: &Walk<'_>,
        numbers: &Compute<'_, f32>,
        len: usize,
        may_add: bool,
        results: &mut [f32],
    ) -> Result<bool, LimitError> {
        let numbers = Numbers::Computed(numbers);
        match self {
            Self::Sum | Self::Mean if may_add => {
                let fold = Fold { start: 0.0, lift: |x: f32| x, join: |a: f32, b: f32| a + b };
                walk.fold_numbers(numbers, &[], results, &fold)?;
                if matches!(self, Self::Mean) {
                    results.iter_mut().for_each(|result| *result /= len as f32);
                }
                Ok(true)
            }
            _ => self.extremes(walk, numbers, results),
        }
    }

    fn extremes(
        self,
        walk: &Walk<'_>,
        numbers: Numbers<'_, f32>,
        results: &mut [f32],
    ) -> Result<bool, LimitError> {
        match self {
            Self::Max => largest(walk, numbers, f32::NEG_INFINITY, results)?,
            Self::Min => smallest(walk, numbers, f32::INFINITY, results)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn numbers<N: Float>(
        self,
        walk: &Walk<'_>,
        numbers: Numbers<'_, N>,
        len: usize,
        results: &mut [f64],
        auxiliary: &mut [f64],
    ) -> Result<(), LimitError> {
        let count = len as f64;
        match self {
            Self::Sum => sum(walk, numbers, &[], results)?,
            Self::Mean => {
                sum(walk, numbers, &[], results)?;
                means::<N>(results, count);
            }
            Self::Product => product(walk, numbers, results)?,
            Self::Max => largest(walk, numbers, f64::NEG_INFINITY, results)?,
            Self::Min => smallest(walk, numbers, f64::INFINITY, results)?,
            Self::Variance { correction } => variances(walk, numbers, count, correction, results, auxiliary)?,
            Self::Deviation { correction } => {
                variances(walk, numbers, count, correction, results, auxiliary)?;
                each(results, f64::sqrt);
            }
            Self::LogSumExp => log_sum_exp(walk, numbers, results, auxiliary)?,
            Self::Norm { p } => norms(walk, numbers, p, results)?,
        }
        Ok(())
    }

    /// Folds integers; sums and products wrap around. `results` must be as long as [`Walk::outputs`]. Any operation other
    /// than a product or an extreme gives the sum.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    pub fn integers(
        self,
        walk: &Walk<'_>,
        elements: Integers<'_>,
        results: &mut [i64],
    ) -> Result<(), LimitError> {
        match elements {
            Integers::I64(elements) => self.wide(walk, Numbers::Elements(elements), results),
            Integers::I32(elements) => self.wide(walk, Numbers::Computed(&integers(elements)), results),
            Integers::U8(elements) => self.wide(walk, Numbers::Computed(&integers(elements)), results),
            Integers::Bool(elements) => self.wide(walk, Numbers::Computed(&integers(elements)), results),
        }
    }

    fn wide(self, walk: &Walk<'_>, numbers: Numbers<'_, i64>, results: &mut [i64]) -> Result<(), LimitError> {
        fn fold(
            walk: &Walk<'_>,
            numbers: Numbers<'_, i64>,
            results: &mut [i64],
            start: i64,
            join: impl Fn(i64, i64) -> i64,
        ) -> Result<(), LimitError> {
            walk.fold_numbers(numbers, &[], results, &Fold { start, lift: |x: i64| x, join })
        }
        match self {
            Self::Product => fold(walk, numbers, results, 1, i64::wrapping_mul),
            Self::Max => fold(walk, numbers, results, i64::MIN, i64::max),
            Self::Min => fold(walk, numbers, results, i64::MAX, i64::min),
            _ => fold(walk, numbers, results, 0, i64::wrapping_add),
        }
    }
}

/// Converts elements of half precision to numbers.
pub(super) fn halves<H: Half>(elements: &[H]) -> impl Fn(Range<usize>, Auxiliary<'_>, &mut [f32]) {
    |range, _, to| H::load_all(elements.get(range).unwrap_or_default(), to)
}

/// Converts integers of another type to numbers.
fn integers<T: Copy + Into<i64>>(elements: &[T]) -> impl Fn(Range<usize>, Auxiliary<'_>, &mut [i64]) {
    |range, _, to| {
        let elements = elements.get(range).unwrap_or_default();
        widest!(|| to.iter_mut().zip(elements).for_each(|(to, &x)| *to = x.into()));
    }
}

/// Computes `term` of each number and its auxiliary number, in f64. All such functions share one loop over axes this way.
fn terms<N: Float>(
    numbers: Numbers<'_, N>,
    term: impl Fn(f64, f64) -> f64,
) -> impl Fn(Range<usize>, Auxiliary<'_>, &mut [f64]) {
    move |range, auxiliary, to| match numbers {
        Numbers::Elements(elements) => lift(elements.get(range).unwrap_or_default(), auxiliary, &term, to),
        Numbers::Computed(make) => {
            let mut buffer = [N::zero(); BLOCK];
            let block = buffer.get_mut(..range.len()).unwrap_or_default();
            make(range, Auxiliary::One(0.0), block);
            lift(block, auxiliary, &term, to);
        }
    }
}

fn lift<N: Float>(from: &[N], auxiliary: Auxiliary<'_>, term: &impl Fn(f64, f64) -> f64, to: &mut [f64]) {
    widest!(|| {
        let pairs = to.iter_mut().zip(from);
        match auxiliary {
            Auxiliary::One(auxiliary) => pairs.for_each(|(to, &x)| *to = term(float(x), auxiliary)),
            Auxiliary::Each(all) => {
                pairs.zip(all).for_each(|((to, &x), &auxiliary)| *to = term(float(x), auxiliary));
            }
        }
    });
}

#[inline(always)]
fn float<T: Float>(x: T) -> f64 {
    x.to_f64().unwrap_or(f64::NAN)
}

#[inline(always)]
fn each(values: &mut [f64], function: impl Fn(f64) -> f64) {
    widest!(|| values.iter_mut().for_each(|value| *value = function(*value)));
}

/// Divides sums of `count` numbers. If the means are then rounded to single precision, a product is as exact as a quotient, and
/// faster.
fn means<N: Float>(sums: &mut [f64], count: f64) {
    if size_of::<N>() == size_of::<f64>() {
        return each(sums, |sum| sum / count);
    }
    let share = 1.0 / count;
    each(sums, |sum| sum * share);
}

/// The sums of numbers, in f64; `auxiliary` are the auxiliary numbers that they are computed with.
fn sum<N: Float>(
    walk: &Walk<'_>,
    numbers: Numbers<'_, N>,
    auxiliary: &[f64],
    results: &mut [f64],
) -> Result<(), LimitError> {
    let fold = Fold { start: 0.0, lift: float::<N>, join: |a: f64, b: f64| a + b };
    walk.fold_numbers(numbers, auxiliary, results, &fold)
}

/// The sums of squares.
fn squares<N: Float>(
    walk: &Walk<'_>,
    numbers: Numbers<'_, N>,
    results: &mut [f64],
) -> Result<(), LimitError> {
    let lift = |x: N| float(x) * float(x);
    walk.fold_numbers(numbers, &[], results, &Fold { start: 0.0, lift, join: |a: f64, b: f64| a + b })
}

fn product<N: Float>(
    walk: &Walk<'_>,
    numbers: Numbers<'_, N>,
    results: &mut [f64],
) -> Result<(), LimitError> {
    let fold = Fold { start: 1.0, lift: float::<N>, join: |a: f64, b: f64| a * b };
    walk.fold_numbers(numbers, &[], results, &fold)
}

/// The largest number, at least `start`, where NaN wins over everything.
pub(super) fn largest<N: Float, A: Float>(
    walk: &Walk<'_>,
    numbers: Numbers<'_, N>,
    start: A,
    results: &mut [A],
) -> Result<(), LimitError> {
    let join = |a: A, b: A| if (b > a) | b.is_nan() { b } else { a };
    walk.fold_numbers(numbers, &[], results, &Fold { start, lift: |x: N| A::of(float(x)), join })
}

/// The smallest number, at most `start`, where NaN wins over everything.
pub(super) fn smallest<N: Float, A: Float>(
    walk: &Walk<'_>,
    numbers: Numbers<'_, N>,
    start: A,
    results: &mut [A],
) -> Result<(), LimitError> {
    let join = |a: A, b: A| if (b < a) | b.is_nan() { b } else { a };
    walk.fold_numbers(numbers, &[], results, &Fold { start, lift: |x: N| A::of(float(x)), join })
}

/// Computes powers of e of the differences between numbers and their auxiliary numbers, which must be of type `N` too.
fn powers<N: Float>(numbers: Numbers<'_, N>) -> impl Fn(Range<usize>, Auxiliary<'_>, &mut [N]) {
    move |range, auxiliary, to| {
        numbers.copy_to(range, Auxiliary::One(0.0), to);
        widest!(|| raise(to, auxiliary));
    }
}

/// Replaces numbers by powers of e of their differences from auxiliary numbers.
#[inline(always)]
fn raise<N: Float>(numbers: &mut [N], auxiliary: Auxiliary<'_>) {
    match auxiliary {
        Auxiliary::One(auxiliary) => {
            let auxiliary = N::of(auxiliary);
            numbers.iter_mut().for_each(|x| *x -= auxiliary);
        }
        Auxiliary::Each(all) => {
            numbers.iter_mut().zip(all).for_each(|(x, &auxiliary)| *x -= N::of(auxiliary));
        }
    }
    exp_all(numbers);
}

/// The sum of squared differences from the mean, divided by `count` − `correction`, or by 0 if that is negative; NaN for
/// no elements.
fn variances<N: Float>(
    walk: &Walk<'_>,
    numbers: Numbers<'_, N>,
    count: f64,
    correction: f64,
    results: &mut [f64],
    means: &mut [f64],
) -> Result<(), LimitError> {
    sum(walk, numbers, &[], means)?;
    each(means, |sum| sum / count);
    let squares = terms(numbers, |x, mean| (x - mean) * (x - mean));
    sum::<f64>(walk, Numbers::Computed(&squares), means, results)?;
    let divisor = if count > 0.0 { (count - correction).max(0.0) } else { 0.0 };
    each(results, |squares| squares / divisor);
    Ok(())
}

/// The logarithm of the sum of powers of e, without overflow; −∞ for no elements.
fn log_sum_exp<N: Float>(
    walk: &Walk<'_>,
    numbers: Numbers<'_, N>,
    results: &mut [f64],
    shifts: &mut [f64],
) -> Result<(), LimitError> {
    largest(walk, numbers, f64::NEG_INFINITY, shifts)?;
    // An infinite largest element minus itself would be NaN.
    each(shifts, |largest| if largest.is_finite() { largest } else { 0.0 });
    let powers = powers(numbers);
    sum::<N>(walk, Numbers::Computed(&powers), shifts, results)?;
    results.iter_mut().zip(shifts).for_each(|(sum, shift)| *sum = *shift + sum.ln());
    Ok(())
}

/// As [`norm`](super::norm).
fn norms<N: Float>(
    walk: &Walk<'_>,
    numbers: Numbers<'_, N>,
    p: f64,
    results: &mut [f64],
) -> Result<(), LimitError> {
    let magnitudes = terms(numbers, |x, _| x.abs());
    let sum =
        |terms: &Compute<'_, f64>, results: &mut [f64]| sum(walk, Numbers::Computed(terms), &[], results);
    if p == f64::INFINITY {
        largest::<f64, f64>(walk, Numbers::Computed(&magnitudes), 0.0, results)?;
    } else if p == f64::NEG_INFINITY {
        smallest::<f64, f64>(walk, Numbers::Computed(&magnitudes), f64::INFINITY, results)?;
    } else if p == 0.0 {
        sum(&terms(numbers, |x, _| if x == 0.0 { 0.0 } else { 1.0 }), results)?;
    } else if p == 1.0 {
        sum(&magnitudes, results)?;
    } else if p == 2.0 {
        squares(walk, numbers, results)?;
        each(results, f64::sqrt);
    } else if p == 3.0 {
        sum(&terms(numbers, |x, _| x.abs() * x * x), results)?;
        each(results, |sum| sum.powf(1.0 / p));
    } else {
        sum(&terms(numbers, |x, _| x.abs().powf(p)), results)?;
        each(results, |sum| sum.powf(1.0 / p));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
