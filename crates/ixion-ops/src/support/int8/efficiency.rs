//! Efficiencies of multiplying bytes, as measured.
//!
//! They are relative to an `f32` matrix product on the same processor. What else an output takes is passed as a number of `f32`
//! products.

use ixion_kernels::window::Window;
use ixion_kernels::{Isa, isa, multiplies_bytes};

/// The efficiency of products, given the outputs of a group and the products per output.
pub(crate) fn product_efficiency([outputs, depth]: [usize; 2], further: f64) -> f64 {
    // The peak, and the products in the time of converting the sum of an output.
    let (peak, overhead) = match isa() {
        Isa::Avx512 if multiplies_bytes() => (5.3, 48.0),
        Isa::Avx2 if multiplies_bytes() => (5.1, 23.0),
        // The kernels are those of AVX2, but `f32` has vectors twice as long.
        Isa::Avx512 => (1.0, 16.0),
        Isa::Avx2 => (1.65, 16.0),
        // Not measured.
        _ => (0.5, 22.0),
    };
    depth as f64 / (surplus(outputs, 32) * (computed(depth, 4) + overhead) / peak + further)
}

/// The efficiency of a depthwise convolution. Four rows of a column of the window are multiplied at a time, whether it has as many
/// or not: a window of 5×5 takes as long as one of 8×5.
///
/// The times are those for which the ratio to the price of `f32` is as measured, for images that fit in a second-level cache.
pub(crate) fn depthwise_efficiency(channels: usize, windows: &[Window; 2], further: f64) -> f64 {
    /// Windows that move by more than one place share less, by this factor.
    const STRIDED: f64 = 1.8;
    // Four rows of a column of the window, and what an output takes in addition.
    let (quad, each) = match isa() {
        Isa::Avx512 if multiplies_bytes() => (5.8, 12.0),
        Isa::Avx512 => (5.8, 20.0),
        Isa::Avx2 if multiplies_bytes() => (5.8, 8.0),
        // Windows of 3×3 and of 5×5 take about as long in `f32`.
        Isa::Avx2 => (2.9, 21.0),
        // Not measured.
        _ => (5.8, 83.0),
    };
    let [rows, columns] = windows.map(|window| window.kernel);
    let is_strided = windows.iter().any(|window| window.stride > 1);
    let stride = if is_strided { STRIDED } else { 1.0 };
    let output = (each + quad * rows.div_ceil(4) as f64 * columns as f64) * stride;
    // Half of the time is that of a block of channels.
    rows as f64 * columns as f64 / (output * (1.0 + surplus(channels, 64)) / 2.0 + further)
}

/// How many are computed if they are computed this many at a time, whether they exist or not.
fn computed(count: usize, at_once: usize) -> f64 {
    count.div_ceil(at_once) as f64 * at_once as f64
}

/// How many are computed for each that exists.
fn surplus(count: usize, at_once: usize) -> f64 {
    computed(count, at_once) / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_computed_in_vain_cost_time() {
        let window = |stride| Window { kernel: 3, stride, dilation: 1, pad_before: 1, pad_after: 1 };
        let depthwise = |channels, stride| depthwise_efficiency(channels, &[window(stride); 2], 0.0);
        assert!(depthwise(64, 1) > depthwise(65, 1) && depthwise(64, 1) == depthwise(128, 1));
        assert!(depthwise(64, 1) > depthwise(64, 2));
        let product = |outputs, depth| product_efficiency([outputs, depth], 0.0);
        assert!(product(32, 64) > product(33, 64) && product(32, 64) > product(32, 27));
        assert!(product_efficiency([32, 64], 10.0) < product(32, 64));
    }
}
