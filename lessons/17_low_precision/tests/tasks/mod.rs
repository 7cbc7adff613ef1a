//! The requirements of each task of lesson 17.

mod calibration;
mod halves;
mod int8;
mod real;

/// Pseudo-random values between −1 and 1, the same in every run.
fn made_up(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(&mut next).collect()
}
