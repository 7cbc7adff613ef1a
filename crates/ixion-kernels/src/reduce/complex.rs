//! Reduction of rows of complex numbers, in double precision.

use ixion_tensor::Complex;

type Z = Complex<f64>;

/// The product; 1 for an empty row.
pub fn product(row: &[Z]) -> Z {
    row.iter().product()
}

/// The sum; 0 for an empty row.
pub fn sum(row: &[Z]) -> Z {
    row.iter().sum()
}

/// The sum of squared distances from the mean, divided by the number of elements − `correction`, or by 0 if that is
/// negative; NaN for an empty row.
pub fn variance(row: &[Z], correction: f64) -> f64 {
    if row.is_empty() {
        return f64::NAN;
    }
    let mean = sum(row) / row.len() as f64;
    let squares: f64 = row.iter().map(|z| (z - mean).norm_sqr()).sum();
    squares / (row.len() as f64 - correction).max(0.0)
}

/// The logarithm of the sum of powers of e, without overflow; −∞ for an empty row.
pub fn log_sum_exp(row: &[Z]) -> Z {
    let largest = row.iter().fold(f64::NEG_INFINITY, |largest, z| largest.max(z.re));
    let shift = if largest.is_finite() { largest } else { 0.0 };
    row.iter().map(|z| (z - shift).exp()).sum::<Z>().ln() + shift
}
