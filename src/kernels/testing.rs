//! What the tests of several kernels share.

use ndarray::{ArrayD, IxDyn};

/// Small whole numbers that look like noise: sums of their products are exact, so that results can be compared for equality.
pub(super) fn whole_noise(shape: &[usize], seed: usize) -> ArrayD<f64> {
    let mut state = seed;
    ArrayD::from_shape_simple_fn(IxDyn(shape), || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % 17) as f64 - 8.0
    })
}
