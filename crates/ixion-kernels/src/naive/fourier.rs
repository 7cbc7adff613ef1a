//! The discrete Fourier transform by its definition.

use crate::Float;
use ixion_tensor::Complex;

/// Element `k` of the discrete Fourier transform of a row of n numbers: the sum of x\[j\]·exp(−2πi·jk/n). For the
/// inverse, which is not divided by n, it is the sum of x\[j\]·exp(2πi·jk/n).
pub fn fourier<T: Float>(row: &[Complex<T>], k: usize, inverse: bool) -> Complex<T> {
    let sign = if inverse { 1.0 } else { -1.0 };
    let turn = sign * std::f64::consts::TAU / row.len() as f64;
    let start = Complex::new(T::zero(), T::zero());
    row.iter().enumerate().fold(start, |sum, (j, &value)| {
        let angle = turn * ((j * k) % row.len()) as f64;
        sum + value * Complex::new(T::of(angle.cos()), T::of(angle.sin()))
    })
}
