//! Logarithms of `f32`, computed in `f32`. The rules and the tests are those of [`super::single`].

use super::single::{LN_2_HIGH, LN_2_LOW, horner};
use std::f32::consts::{FRAC_1_SQRT_2, LOG10_E};

/// What the number nearest to log₁₀ e lacks.
const LOG10_E_LOW: f32 = -1.010_305e-8;

/// log₁₀ 2 in two parts; products of the first with integers up to 2¹¹ are exact.
const LOG10_2_HIGH: f32 = 0.301_025_4;
const LOG10_2_LOW: f32 = 4.605_039e-6;

/// 2²⁵, by which subnormal numbers are scaled.
const SCALE: f32 = 33_554_432.0;

/// Takes a positive number apart that is not subnormal: x = 2ᵏ · (1 + f), with 1 + f from √½ to √2. Returns k and f.
#[inline(always)]
fn normal_parts(x: f32) -> (f32, f32) {
    let above = x.to_bits().wrapping_sub(FRAC_1_SQRT_2.to_bits());
    // The shift rounds down, for negative numbers as well.
    let k = (above.cast_signed() >> 23) as f32;
    (k, f32::from_bits(x.to_bits().wrapping_sub(above & 0xff80_0000)) - 1.0)
}

/// The same for every positive number.
#[inline(always)]
fn parts(x: f32) -> (f32, f32) {
    let (scale, power) = if x < f32::MIN_POSITIVE { (SCALE, 25.0) } else { (1.0, 0.0) };
    let (k, f) = normal_parts(x * scale);
    (k - power, f)
}

/// ln(1 + f) - f.
#[inline(always)]
fn bend(f: f32) -> f32 {
    // A polynomial fit of (ln(1 + f) - f + f²/2) / f³.
    let fit = horner(
        f,
        0.067_465_47,
        [
            -0.116_756_27,
            0.118_881_92,
            -0.124_055_95,
            0.142_195_5,
            -0.166_679_95,
            0.200_021_19,
            -0.250_000_1,
            0.333_333_13,
        ],
    );
    f * f * fit.mul_add(f, -0.5)
}

/// The logarithm with its special cases: -∞ for 0, NaN for negative numbers, ∞ for ∞.
#[inline(always)]
fn checked(x: f32, value: f32) -> f32 {
    let special = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    let special = if x == f32::INFINITY { x } else { special };
    // Positive numbers are ordered like their bits.
    let is_ordinary = x.to_bits().wrapping_sub(1) < f32::INFINITY.to_bits() - 1;
    if is_ordinary { value } else { special }
}

#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    let (k, f) = parts(x);
    let low = k.mul_add(LN_2_LOW, bend(f));
    checked(x, k.mul_add(LN_2_HIGH, f + low))
}

#[inline(always)]
pub(super) fn log10(x: f32) -> f32 {
    let (k, f) = parts(x);
    let high = f * LOG10_E;
    let lost = f.mul_add(LOG10_E, -high);
    let low = bend(f).mul_add(LOG10_E, f.mul_add(LOG10_E_LOW, lost));
    let low = k.mul_add(LOG10_2_LOW, low);
    checked(x, k.mul_add(LOG10_2_HIGH, high + low))
}

/// ln(1 + x + low), where `low` is small next to x.
#[inline(always)]
fn ln_1p_of(x: f32, low: f32) -> f32 {
    // Near 0, x itself is f. Elsewhere 1 + x is rounded, and what it lost is added in proportion.
    let is_near = (x > FRAC_1_SQRT_2 - 1.0) & (x < 0.414_213_57);
    let rounded = 1.0 + x;
    let sum = if is_near { 1.0 } else { rounded };
    let lost = if x >= 1.0 { 1.0 - (sum - x) } else { x - (sum - 1.0) };
    let (k, f) = normal_parts(sum);
    let (f, lost) = if is_near { (x, 0.0) } else { (f, lost) };
    let low = k.mul_add(LN_2_LOW, bend(f)) + (lost + low) / rounded;
    let value = checked(sum, k.mul_add(LN_2_HIGH, f + low));
    if x == 0.0 { x } else { value }
}

#[inline(always)]
pub(super) fn ln_1p(x: f32) -> f32 {
    ln_1p_of(x, 0.0)
}

/// Half of ln(1 + 2|x| / (1 - |x|)), with the sign of x.
#[inline(always)]
pub(super) fn atanh(x: f32) -> f32 {
    let (size, twice) = (x.abs(), x.abs() + x.abs());
    let below = 1.0 - size;
    let quotient = twice / below;
    // What rounding the quotient and 1 - |x| lost.
    let rest = (-quotient).mul_add((1.0 - below) - size, (-quotient).mul_add(below, twice));
    let value = 0.5 * ln_1p_of(quotient, rest / below);
    (if size == 1.0 { f32::INFINITY } else { value }).copysign(x)
}
