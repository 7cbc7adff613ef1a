//! Reductions of real numbers along any axes of an array: sums, products, extremes, variances and norms.

use super::axes::{Auxiliary, BLOCK, Compute, Fold, Numbers, Walk};
use crate::softmax::exp_all;
use crate::{Float, widest};
use ixion_tensor::{Half, bf16, f16};
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
    pub fn floats(
        self,
        walk: &Walk,
        elements: Floats<'_>,
        len: usize,
        results: &mut [f64],
        auxiliary: &mut [f64],
    ) {
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
    pub fn in_single(
        self,
        walk: &Walk,
        elements: Floats<'_>,
        len: usize,
        become_halves: bool,
        results: &mut [f32],
    ) -> bool {
        let may_add = become_halves && len <= MAX_IN_SINGLE;
        match elements {
            Floats::F32(elements) => self.extremes(walk, Numbers::Elements(elements), results),
            Floats::F16(elements) => self.of_halves(walk, &halves(elements), len, may_add, results),
            Floats::Bf16(elements) => self.of_halves(walk, &halves(elements), len, may_add, results),
            Floats::F64(_) => false,
        }
    }

    fn of_halves(
        self,
        walk: &Walk,
        numbers: &Compute<'_, f32>,
        len: usize,
        may_add: bool,
        results: &mut [f32],
    ) -> bool {
        let numbers = Numbers::Computed(numbers);
        match self {
            Self::Sum | Self::Mean if may_add => {
                walk.fold_numbers(
                    numbers,
                    &[],
                    results,
                    &Fold { start: 0.0, lift: |x| x, join: |a, b| a + b },
                );
                if matches!(self, Self::Mean) {
                    results.iter_mut().for_each(|result| *result /= len as f32);
                }
                true
            }
            _ => self.extremes(walk, numbers, results),
        }
    }

    fn extremes(self, walk: &Walk, numbers: Numbers<'_, f32>, results: &mut [f32]) -> bool {
        match self {
            Self::Max => largest(walk, numbers, f32::NEG_INFINITY, results),
            Self::Min => smallest(walk, numbers, f32::INFINITY, results),
            _ => return false,
        }
        true
    }

    fn numbers<N: Float>(
        self,
        walk: &Walk,
        numbers: Numbers<'_, N>,
        len: usize,
        results: &mut [f64],
        auxiliary: &mut [f64],
    ) {
        let count = len as f64;
        match self {
            Self::Sum => sum(walk, numbers, &[], results),
            Self::Mean => {
                sum(walk, numbers, &[], results);
                means::<N>(results, count);
            }
            Self::Product => product(walk, numbers, results),
            Self::Max => largest(walk, numbers, f64::NEG_INFINITY, results),
            Self::Min => smallest(walk, numbers, f64::INFINITY, results),
            Self::Variance { correction } => variances(walk, numbers, count, correction, results, auxiliary),
            Self::Deviation { correction } => {
                variances(walk, numbers, count, correction, results, auxiliary);
                each(results, f64::sqrt);
            }
            Self::LogSumExp => log_sum_exp(walk, numbers, results, auxiliary),
            Self::Norm { p } => norms(walk, numbers, p, results),
        }
    }

    /// Folds integers; sums and products wrap around. `results` must be as long as [`Walk::outputs`]. Any operation other
    /// than a product or an extreme gives the sum.
    pub fn integers(self, walk: &Walk, elements: Integers<'_>, results: &mut [i64]) {
        match elements {
            Integers::I64(elements) => self.wide(walk, Numbers::Elements(elements), results),
            Integers::I32(elements) => self.wide(walk, Numbers::Computed(&integers(elements)), results),
            Integers::U8(elements) => self.wide(walk, Numbers::Computed(&integers(elements)), results),
            Integers::Bool(elements) => self.wide(walk, Numbers::Computed(&integers(elements)), results),
        }
    }

    fn wide(self, walk: &Walk, numbers: Numbers<'_, i64>, results: &mut [i64]) {
        fn fold(
            walk: &Walk,
            numbers: Numbers<'_, i64>,
            results: &mut [i64],
            start: i64,
            join: impl Fn(i64, i64) -> i64,
        ) {
            walk.fold_numbers(numbers, &[], results, &Fold { start, lift: |x: i64| x, join });
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
fn sum<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, auxiliary: &[f64], results: &mut [f64]) {
    let fold = Fold { start: 0.0, lift: float::<N>, join: |a: f64, b: f64| a + b };
    walk.fold_numbers(numbers, auxiliary, results, &fold);
}

/// The sums of squares.
fn squares<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, results: &mut [f64]) {
    let lift = |x: N| float(x) * float(x);
    walk.fold_numbers(numbers, &[], results, &Fold { start: 0.0, lift, join: |a: f64, b: f64| a + b });
}

fn product<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, results: &mut [f64]) {
    let fold = Fold { start: 1.0, lift: float::<N>, join: |a: f64, b: f64| a * b };
    walk.fold_numbers(numbers, &[], results, &fold);
}

/// The largest number, at least `start`, where NaN wins over everything.
pub(super) fn largest<N: Float, A: Float>(walk: &Walk, numbers: Numbers<'_, N>, start: A, results: &mut [A]) {
    let join = |a: A, b: A| if (b > a) | b.is_nan() { b } else { a };
    walk.fold_numbers(numbers, &[], results, &Fold { start, lift: |x: N| A::of(float(x)), join });
}

/// The smallest number, at most `start`, where NaN wins over everything.
pub(super) fn smallest<N: Float, A: Float>(
    walk: &Walk,
    numbers: Numbers<'_, N>,
    start: A,
    results: &mut [A],
) {
    let join = |a: A, b: A| if (b < a) | b.is_nan() { b } else { a };
    walk.fold_numbers(numbers, &[], results, &Fold { start, lift: |x: N| A::of(float(x)), join });
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
    sum::<f64>(walk, Numbers::Computed(&squares), means, results);
    let divisor = if count > 0.0 { (count - correction).max(0.0) } else { 0.0 };
    each(results, |squares| squares / divisor);
}

/// The logarithm of the sum of powers of e, without overflow; −∞ for no elements.
fn log_sum_exp<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, results: &mut [f64], shifts: &mut [f64]) {
    largest(walk, numbers, f64::NEG_INFINITY, shifts);
    // An infinite largest element minus itself would be NaN.
    each(shifts, |largest| if largest.is_finite() { largest } else { 0.0 });
    let powers = powers(numbers);
    sum::<N>(walk, Numbers::Computed(&powers), shifts, results);
    results.iter_mut().zip(shifts).for_each(|(sum, shift)| *sum = *shift + sum.ln());
}

/// As [`norm`](super::norm).
fn norms<N: Float>(walk: &Walk, numbers: Numbers<'_, N>, p: f64, results: &mut [f64]) {
    let magnitudes = terms(numbers, |x, _| x.abs());
    let sum =
        |terms: &Compute<'_, f64>, results: &mut [f64]| sum(walk, Numbers::Computed(terms), &[], results);
    if p == f64::INFINITY {
        largest::<f64, f64>(walk, Numbers::Computed(&magnitudes), 0.0, results);
    } else if p == f64::NEG_INFINITY {
        smallest::<f64, f64>(walk, Numbers::Computed(&magnitudes), f64::INFINITY, results);
    } else if p == 0.0 {
        sum(&terms(numbers, |x, _| if x == 0.0 { 0.0 } else { 1.0 }), results);
    } else if p == 1.0 {
        sum(&magnitudes, results);
    } else if p == 2.0 {
        squares(walk, numbers, results);
        each(results, f64::sqrt);
    } else if p == 3.0 {
        sum(&terms(numbers, |x, _| x.abs() * x * x), results);
        each(results, |sum| sum.powf(1.0 / p));
    } else {
        sum(&terms(numbers, |x, _| x.abs().powf(p)), results);
        each(results, |sum| sum.powf(1.0 / p));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use ixion_tensor::{Layout, Shape, Tensor};
    use ndarray::ArrayView1;
    use proptest::prelude::*;

    const OPERATIONS: [Operation; 15] = [
        Operation::Sum,
        Operation::Mean,
        Operation::Product,
        Operation::Max,
        Operation::Min,
        Operation::Variance { correction: 1.0 },
        Operation::Deviation { correction: 0.0 },
        Operation::LogSumExp,
        Operation::Norm { p: 0.0 },
        Operation::Norm { p: 1.0 },
        Operation::Norm { p: 2.0 },
        Operation::Norm { p: 3.0 },
        Operation::Norm { p: 3.5 },
        Operation::Norm { p: f64::INFINITY },
        Operation::Norm { p: f64::NEG_INFINITY },
    ];

    fn naively(operation: Operation, row: &[f64]) -> f64 {
        let view = ArrayView1::from(row);
        let at = |index: Option<usize>, none: f64| index.map_or(none, |index| row[index]);
        match operation {
            Operation::Sum => naive::sum(view),
            Operation::Mean => naive::sum(view) / row.len() as f64,
            Operation::Product => naive::product(view),
            Operation::Max => at(naive::arg_max(view), f64::NEG_INFINITY),
            Operation::Min => at(naive::arg_min(view), f64::INFINITY),
            Operation::Variance { correction } => naive::variance(view, correction),
            Operation::Deviation { correction } => naive::variance(view, correction).sqrt(),
            Operation::LogSumExp => naive::log_sum_exp(view),
            Operation::Norm { p } => naive::norm(view, p),
        }
    }

    /// Numbers between −2 and 2, and some that are not finite.
    fn number(i: usize, seed: usize, specials: Option<usize>) -> f64 {
        let mixed = i * 37 + seed * 11;
        match specials.map(|every| mixed % every) {
            Some(0) => f64::NAN,
            Some(1) => f64::INFINITY,
            Some(2) => f64::NEG_INFINITY,
            _ => (mixed % 65) as f64 / 16.0 - 2.0,
        }
    }

    proptest! {
        #[test]
        fn all_operations_of_all_floats(
            (kept, folded) in (1usize..40, 0usize..40),
            by_columns: bool,
            step in 1usize..4,
            specials in proptest::option::of(20usize..200),
            seed in 0usize..1000,
            operation in 0..OPERATIONS.len(),
        ) {
            let operation = OPERATIONS[operation];
            let lens = if by_columns { [folded, kept] } else { [kept, folded] };
            // Only every `step`-th element of a stored row belongs to the matrix.
            let stored = [lens[0], lens[1] * step];
            let values: Vec<f64> = (0..stored[0] * stored[1]).map(|i| number(i, seed, specials)).collect();
            let layout = Layout::contiguous(Shape::new(&stored).unwrap()).slice(1, 0, stored[1], step).unwrap();
            let walk = Walk::new(&layout, &[by_columns, !by_columns]);
            let at = |row: usize, column: usize| values[row * stored[1] + column * step];
            let row = |k: usize| (0..folded).map(move |f| if by_columns { at(f, k) } else { at(k, f) });
            let want: Vec<f64> = (0..kept).map(|k| naively(operation, &row(k).collect::<Vec<_>>())).collect();
            prop_assert_eq!(walk.outputs(), kept);
            let tensor = Tensor::from_vec(values, &stored).unwrap();
            let of = |dtype| tensor.cast(dtype).unwrap();
            use ixion_tensor::DType;
            let (single, half, bf) = (of(DType::F32), of(DType::F16), of(DType::Bf16));
            for elements in [
                Floats::F64(tensor.slice().unwrap()),
                Floats::F32(single.slice().unwrap()),
                Floats::F16(half.slice().unwrap()),
                Floats::Bf16(bf.slice().unwrap()),
            ] {
                let (mut results, mut auxiliary) = (vec![7.0; walk.outputs()], vec![8.0; walk.outputs()]);
                operation.floats(&walk, elements, folded, &mut results, &mut auxiliary);
                let mut singles = vec![9.0; walk.outputs()];
                if operation.in_single(&walk, elements, folded, true, &mut singles) {
                    for (&got, &want) in singles.iter().zip(&results) {
                        let got = f64::from(got);
                        let near = got == want || (got - want).abs() <= 1e-7 * want.abs();
                        prop_assert!(near || (got.is_nan() && want.is_nan()), "{operation:?}: {got}, not {want}");
                    }
                }
                for (got, want) in results.iter().zip(&want) {
                    let near = got == want || (got - want).abs() <= 1e-6 * want.abs().max(1.0);
                    prop_assert!(near || (got.is_nan() && want.is_nan()), "{operation:?}: {got}, not {want}");
                }
            }
        }

        #[test]
        fn all_integers(values in proptest::collection::vec(0u8..2, 1..3000)) {
            let layout = Layout::contiguous(Shape::new(&[values.len()]).unwrap());
            let walk = Walk::new(&layout, &[true]);
            let bools: Vec<bool> = values.iter().map(|&x| x == 1).collect();
            let (wide, long): (Vec<i32>, Vec<i64>) = values.iter().map(|&x| (i32::from(x), i64::from(x))).unzip();
            let wants = [
                (Operation::Sum, long.iter().sum()),
                (Operation::Product, long.iter().product()),
                (Operation::Max, *long.iter().max().unwrap()),
                (Operation::Min, *long.iter().min().unwrap()),
            ];
            for (operation, want) in wants {
                for elements in
                    [Integers::U8(&values), Integers::Bool(&bools), Integers::I32(&wide), Integers::I64(&long)]
                {
                    let mut result = [7];
                    operation.integers(&walk, elements, &mut result);
                    prop_assert_eq!(result, [want]);
                }
            }
        }
    }
}
