//! Powers of `f32`, computed in `f64`: a logarithm to base 2 that is exact enough for the largest exponents, and 2ˣ.

use super::{ROUNDER, TWO_52, polynomial, power_of_two, within};
use std::f64::consts::SQRT_2;

/// The logarithm to base 2 of a number that is not negative, with a relative error of at most 1.1e-10: -∞ for 0, ∞ for ∞.
/// The result for NaN is arbitrary.
#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    const ROOT_HALF: u64 = (SQRT_2 / 2.0).to_bits();
    // x = 2ᵏ · (1 + f) with 1 + f from √½ to √2. Above 2⁵², the last bits of a number count units.
    let biased = x.to_bits().wrapping_sub(ROOT_HALF).wrapping_add(1024 << 52);
    let power = (biased >> 52 << 52).wrapping_sub(1024 << 52);
    let f = f64::from_bits(x.to_bits().wrapping_sub(power)) - 1.0;
    let k = f64::from_bits((biased >> 52) | TWO_52.to_bits()) - (TWO_52 + 1024.0);
    // A polynomial fit of log₂(1 + f) / f.
    let fit = polynomial(
        f,
        [
            1.442695040939348,
            -0.7213475252132554,
            0.48089832072760863,
            -0.360672800541289,
            0.28854064369464183,
            -0.24050417435118843,
            0.20609625261085796,
            -0.17904694700736323,
            0.15900153934214814,
            -0.15698232833134104,
            0.1548573536999317,
            -0.08634567463718086,
        ],
    );
    let value = f.mul_add(fit, k);
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x == f64::INFINITY { x } else { value }
}

/// 2ˣ with a relative error of at most 2e-9; beyond ±160, where the result is no longer an `f32`, that of ±160.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let x = within(x, -160.0, 160.0);
    let rounded = x + ROUNDER;
    // A polynomial fit of 2ʳ from -½ to ½.
    let fit = polynomial(
        x - (rounded - ROUNDER),
        [
            1.0000000005541745,
            0.6931472057375065,
            0.24022646890742702,
            0.05550328776674869,
            0.00961848894170975,
            0.0013399931306725228,
            0.00015345816438900667,
        ],
    );
    fit * power_of_two(rounded)
}

/// xʸ with the special cases of the C library.
#[inline(always)]
pub(super) fn pow(x: f32, y: f32) -> f32 {
    let (x, y) = (f64::from(x), f64::from(y));
    let size = x.abs();
    // Infinite powers of ±1 are 1.
    let power = exp2(if size == 1.0 { 0.0 } else { y * log2(size) });
    // Infinities are even.
    let half = 0.5 * y;
    let is_whole = y.trunc() == y;
    let is_odd = is_whole & (half.trunc() != half);
    let power = if is_odd { power.copysign(x) } else { power };
    let has_none = (x < 0.0) & !is_whole & (size != f64::INFINITY);
    let power = if has_none | x.is_nan() | y.is_nan() { f64::NAN } else { power };
    (if (y == 0.0) | (x == 1.0) { 1.0 } else { power }) as f32
}
