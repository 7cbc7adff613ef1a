//! Reduction of rows to one number each. Sums are computed in f64, in several independent parts.

pub mod axes;
pub mod complex;
pub mod extremes;
pub mod fold;
pub mod quantifiers;

use super::Float;
use crate::widest;

/// Independent parts of a run: the number of `f64` additions that can be in flight until one completes.
pub(super) const PARTS: usize = 16;

/// The sum of a function of all elements, in f64 and in several independent parts.
pub fn sum_of<T: Float>(row: &[T], function: impl Fn(f64) -> f64) -> f64 {
    widest!(|| sum_here(row, function))
}

/// As [`sum_of`], for loops that are compiled for wide vectors already.
#[inline(always)]
pub(super) fn sum_here<T: Float>(row: &[T], function: impl Fn(f64) -> f64) -> f64 {
    let value = |x: &T| function(x.to_f64().unwrap_or(f64::NAN));
    let (chunks, rest) = row.as_chunks::<PARTS>();
    let rest = rest.iter().map(value).fold(0.0, |sum, x| sum + x);
    if chunks.is_empty() {
        return rest;
    }
    let mut parts = [0.0; PARTS];
    for chunk in chunks {
        for (part, x) in parts.iter_mut().zip(chunk) {
            *part += value(x);
        }
    }
    rest + in_pairs(parts, |a, b| a + b)
}

/// Joins parts in pairs, which are independent of each other, until one is left.
#[inline(always)]
pub(super) fn in_pairs<A: Copy>(parts: [A; PARTS], join: impl Fn(A, A) -> A) -> A {
    // Otherwise the compiler would arrange the lanes of the loop above in the order in which they are joined here.
    let parts = std::hint::black_box(parts);
    let four = |at: usize| join(join(parts[at], parts[at + 8]), join(parts[at + 4], parts[at + 12]));
    join(join(four(0), four(2)), join(four(1), four(3)))
}

/// The sum of a row; 0 for an empty one.
pub fn sum<T: Float>(row: &[T]) -> f64 {
    sum_of(row, |x| x)
}

/// The sum of the products of two rows, up to the end of the shorter one. Products are computed in f64, in which those of
/// large `f32` do not overflow.
pub fn sum_of_products<T: Float>(a: &[T], b: &[T]) -> f64 {
    let len = a.len().min(b.len());
    let product = |(a, b): (&T, &T)| a.to_f64().unwrap_or(f64::NAN) * b.to_f64().unwrap_or(f64::NAN);
    widest!(|| {
        let [(a, a_rest), (b, b_rest)] = [a, b].map(|row| row[..len].as_chunks::<PARTS>());
        let rest = a_rest.iter().zip(b_rest).map(product).fold(0.0, |sum, x| sum + x);
        let mut parts = [0.0; PARTS];
        for (a, b) in a.iter().zip(b) {
            for (part, pair) in parts.iter_mut().zip(a.iter().zip(b)) {
                *part += product(pair);
            }
        }
        rest + in_pairs(parts, |a, b| a + b)
    })
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
    } else if p == 3.0 {
        sum_of(row, |x| x.abs() * x * x).powf(1.0 / p)
    } else {
        sum_of(row, |x| x.abs().powf(p)).powf(1.0 / p)
    }
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
            let squares: Vec<f64> = row.iter().map(|x| x * x).collect();
            same(sum_of_products(&row, &row), naive::sum(ArrayView1::from(&squares)));
            same(variance(&row, f64::from(correction)), naive::variance(array, f64::from(correction)));
            same(log_sum_exp(&row), naive::log_sum_exp(array));
            for p in [0.0, 0.5, 1.0, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
                same(norm(&row, p), naive::norm(array, p));
            }
        }
    }
}
