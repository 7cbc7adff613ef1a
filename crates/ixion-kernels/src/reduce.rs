//! Reduction of rows to one number each. Sums are computed in f64, in several independent parts.

pub mod axes;
pub mod complex;
pub mod fold;

use super::{Float, Work, run_widest};

/// Independent parts of a sum: the number of `f64` additions that can be in flight until one completes.
const PARTS: usize = 16;

/// The sum of a function of all elements, in f64 and in several independent parts.
pub fn sum_of<T: Float>(row: &[T], function: impl Fn(f64) -> f64) -> f64 {
    run_widest(SumOf(row, function))
}

struct SumOf<'a, T, F>(&'a [T], F);

impl<T: Float, F: Fn(f64) -> f64> Work for SumOf<'_, T, F> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        sum_here(self.0, self.1)
    }
}

/// As [`sum_of`], for loops that are compiled for wide vectors already.
#[inline(always)]
pub(super) fn sum_here<T: Float>(row: &[T], function: impl Fn(f64) -> f64) -> f64 {
    let value = |x: &T| function(x.to_f64().unwrap_or(f64::NAN));
    let mut parts = [0.0; PARTS];
    let (chunks, rest) = row.as_chunks::<PARTS>();
    for chunk in chunks {
        for (part, x) in parts.iter_mut().zip(chunk) {
            *part += value(x);
        }
    }
    for (part, x) in parts.iter_mut().zip(rest) {
        *part += value(x);
    }
    parts.iter().sum()
}

/// The sum of a row; 0 for an empty one.
pub fn sum<T: Float>(row: &[T]) -> f64 {
    sum_of(row, |x| x)
}

/// The product of a row; 1 for an empty one.
pub fn product<T: Float>(row: &[T]) -> f64 {
    row.iter().map(|x| x.to_f64().unwrap_or(f64::NAN)).product()
}

/// The sum of squared differences from the mean, divided by the number of elements − `correction`, or by 0 if that is
/// negative; NaN for an empty row.
pub fn variance<T: Float>(row: &[T], correction: f64) -> f64 {
    if row.is_empty() {
        return f64::NAN;
    }
    let mean = sum(row) / row.len() as f64;
    sum_of(row, |x| (x - mean) * (x - mean)) / (row.len() as f64 - correction).max(0.0)
}

/// The logarithm of the sum of powers of e, without overflow; −∞ for an empty row.
pub fn log_sum_exp<T: Float>(row: &[T]) -> f64 {
    let largest =
        row.iter().fold(f64::NEG_INFINITY, |largest, x| largest.max(x.to_f64().unwrap_or(f64::NAN)));
    // An infinite largest element minus itself would be NaN.
    let shift = if largest.is_finite() { largest } else { 0.0 };
    shift + sum_of(row, |x| (x - shift).exp()).ln()
}

/// The `p`-norm of a row: (Σ|x|ᵖ)^(1/p), the largest or smallest |x| for an infinite `p`, the number of elements that
/// are not 0 for `p` = 0.
pub fn norm<T: Float>(row: &[T], p: f64) -> f64 {
    let magnitudes = || row.iter().map(|x| x.to_f64().unwrap_or(f64::NAN).abs());
    let farthest = |start: f64, wins: fn(f64, f64) -> bool| {
        magnitudes()
            .fold(start, |best, x| if best.is_nan() || !(x.is_nan() || wins(x, best)) { best } else { x })
    };
    if p == f64::INFINITY {
        farthest(0.0, |x, best| x > best)
    } else if p == f64::NEG_INFINITY {
        farthest(f64::INFINITY, |x, best| x < best)
    } else if p == 0.0 {
        sum_of(row, |x| if x == 0.0 { 0.0 } else { 1.0 })
    } else if p == 1.0 {
        sum_of(row, f64::abs)
    } else if p == 2.0 {
        sum_of(row, |x| x * x).sqrt()
    } else {
        sum_of(row, |x| x.abs().powf(p)).powf(1.0 / p)
    }
}

/// The position of the first element that `wins` over all others, where NaN wins over everything; `None` for an empty
/// row.
#[inline(always)]
pub fn position_of<T: PartialOrd + Copy>(row: &[T], wins: impl Fn(T, T) -> bool) -> Option<usize> {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    let first = *row.first()?;
    // First find the winning element, in several independent parts, and then its position: both loops are vectorised.
    if row.iter().fold(false, |any, &x| any | is_nan(x)) {
        return row.iter().position(|&x| is_nan(x));
    }
    let better = |best: T, x: T| if wins(x, best) { x } else { best };
    let mut parts = [first; 16];
    let chunks = row.chunks_exact(parts.len());
    let rest = chunks.remainder().iter().fold(first, |best, &x| better(best, x));
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(best, &x)| *best = better(*best, x));
    }
    let best = parts.into_iter().fold(rest, better);
    row.iter().position(|&x| x == best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use ndarray::ArrayView1;
    use proptest::prelude::*;

    fn same(got: f64, want: f64) {
        let close = (got - want).abs() <= 1e-9 * (1.0 + want.abs());
        assert!(close || got == want || (got.is_nan() && want.is_nan()), "{got} where {want} is expected");
    }

    proptest! {
        #[test]
        fn they_equal_the_naive_ones(
            row in proptest::collection::vec(
                prop_oneof![20 => -9f64..9.0, 2 => Just(0.0), 1 => Just(f64::INFINITY), 1 => Just(f64::NEG_INFINITY), 1 => Just(f64::NAN)],
                0..40,
            ),
            correction in 0..3,
        ) {
            let array = ArrayView1::from(&row);
            same(sum(&row), naive::sum(array));
            same(product(&row), naive::product(array));
            same(variance(&row, f64::from(correction)), naive::variance(array, f64::from(correction)));
            same(log_sum_exp(&row), naive::log_sum_exp(array));
            for p in [0.0, 0.5, 1.0, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
                same(norm(&row, p), naive::norm(array, p));
            }
            prop_assert_eq!(position_of(&row, |a, b| a > b), naive::arg_max(array));
            prop_assert_eq!(position_of(&row, |a, b| a < b), naive::arg_min(array));
        }
    }
}
