//! Helpers for the tests of several kernels.

use ndarray::{Array2, ArrayD, IxDyn};

/// Small pseudo-random integers. Sums of their products are exact, so that results can be compared for equality.
pub(super) fn integer_noise(shape: &[usize], seed: usize) -> ArrayD<f64> {
    let mut state = seed;
    ArrayD::from_shape_simple_fn(IxDyn(shape), || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % 17) as f64 - 8.0
    })
}

/// Pseudo-random numbers from -1 to 1.
pub(super) fn noise(rows: usize, columns: usize, seed: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, columns), |(i, j)| ((i * 7 + j * 13 + i * j + seed) % 11) as f64 / 5.0 - 1.0)
}
