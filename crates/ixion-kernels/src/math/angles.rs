//! Sines, cosines, tangents and their inverses of `f32`, computed in `f32`. The rules and the tests are those of
//! [`super::single`].

use super::single::{ROUNDER, horner};
use std::f32::consts::{FRAC_2_PI, FRAC_PI_2, PI};

/// What the numbers nearest to π/2 and π lack.
const FRAC_PI_2_LOW: f32 = -4.371_139e-8;
const PI_LOW: f32 = -8.742_278e-8;

/// What the sum of the nearest number to π/2 and [`FRAC_PI_2_LOW`] lacks.
const FRAC_PI_2_LOWEST: f32 = -1.715_124_5e-15;

/// Subtracts the nearest multiple of π/2 from a number from 0 to [`super::NEAR`]. Returns the bits of the number of
/// quarter turns, and the rest in two parts.
#[inline(always)]
fn quarters_and_rest(size: f32) -> (u32, f32, f32) {
    let rounded = size.mul_add(FRAC_2_PI, ROUNDER);
    let k = rounded - ROUNDER;
    // The first difference is exact. The second one is taken together with what its rounding loses.
    let first = (-k).mul_add(FRAC_PI_2, size);
    let product = k * FRAC_PI_2_LOW;
    let rest = first - product;
    let taken = rest - first;
    let lost = (first - (rest - taken)) + (-product - taken);
    let low = lost - k.mul_add(FRAC_PI_2_LOW, -product);
    (rounded.to_bits(), rest, (-k).mul_add(FRAC_PI_2_LOWEST, low))
}

/// Sine and cosine of a number from 0 to [`super::NEAR`].
#[inline(always)]
fn sin_cos(size: f32) -> (f32, f32) {
    let (quarter, rest, low) = quarters_and_rest(size);
    let z = rest * rest;
    // A polynomial fit of (sin √z - √z) / √z³.
    let fit = horner(z, 2.718_306_4e-6, [-0.000_198_393_35, 0.008_333_329, -0.166_666_67]);
    let sin = rest + (rest * z).mul_add(fit, low);
    // A polynomial fit of (cos √z - 1 + z/2) / z².
    let fit = horner(z, 2.443_840_3e-5, [-0.001_388_736_7, 0.041_666_646]);
    let half = 0.5 * z;
    let high = 1.0 - half;
    let cos = high + (((1.0 - high) - half) + (z * z).mul_add(fit, -(rest * low)));
    let (first, second) = if quarter & 1 == 0 { (sin, cos) } else { (cos, -sin) };
    let sign = (quarter & 2) << 30;
    (f32::from_bits(first.to_bits() ^ sign), f32::from_bits(second.to_bits() ^ sign))
}

/// The sine for |x| below [`super::NEAR`].
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    let sign = x.to_bits() & (1 << 31);
    f32::from_bits(sin_cos(x.abs()).0.to_bits() ^ sign)
}

/// The cosine for |x| below [`super::NEAR`].
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    sin_cos(x.abs()).1
}

/// The tangent for |x| below [`super::NEAR`].
#[inline(always)]
pub(super) fn tan(x: f32) -> f32 {
    let (quarter, rest, low) = quarters_and_rest(x.abs());
    let z = rest * rest;
    // A polynomial fit of (tan √z - √z) / √z³.
    let fit = horner(
        z,
        0.004_390_037_6,
        [6.235_156_6e-5, 0.010_856_672, 0.021_274_375, 0.054_061_383, 0.133_326_52, 0.333_333_5],
    );
    let bend = rest * z * fit;
    let near = rest + bend;
    // What the rest lacks counts more where the tangent is steeper.
    let low = bend + low.mul_add(near * near, low);
    let tan = rest + low;
    let lost = (rest - tan) + low;
    // After an odd number of quarter turns, the reciprocal, improved by what it and the tangent lost.
    let inverse = -1.0 / tan;
    let inverse = inverse.mul_add(inverse.mul_add(lost, inverse.mul_add(tan, 1.0)), inverse);
    let value = if quarter & 1 == 0 { tan } else { inverse };
    f32::from_bits(value.to_bits() ^ (x.to_bits() & (1 << 31)))
}

/// The inverse tangent.
#[inline(always)]
pub(super) fn atan(x: f32) -> f32 {
    // Steep angles are π/2 less those of the reciprocal, which is taken together with what its rounding lost.
    let size = x.abs();
    let is_steep = size >= 1.0;
    let inverse = 1.0 / size;
    let lost = inverse * (-inverse).mul_add(size, 1.0);
    let lost = if inverse > 0.0 { lost } else { 0.0 };
    let (t, low) = if is_steep { (inverse, lost) } else { (size, 0.0) };
    let z = t * t;
    // A polynomial fit of (arctan √z - √z) / √z³ from 0 to 1.
    let fit = horner(
        z,
        -0.001_793_626_1,
        [
            0.010_914_627,
            -0.031_177_886,
            0.057_957_634,
            -0.084_034_53,
            0.109_521_866,
            -0.142_642_42,
            0.199_985_49,
            -0.333_333,
        ],
    );
    let bend = (t * z).mul_add(fit, low.mul_add(-0.5 * z, low));
    let steep = difference((FRAC_PI_2, FRAC_PI_2_LOW), (t, bend));
    (if is_steep { steep } else { t + bend }).copysign(x)
}

/// The inverse sine of |x| up to ½, otherwise that of √((1 - |x|) / 2), which is half of the inverse cosine of |x|. The
/// angle is returned in two parts.
#[inline(always)]
fn asin_or_half_acos(x: f32) -> (bool, f32, f32) {
    let size = x.abs();
    let is_near = size <= 0.5;
    let z = if is_near { size * size } else { 0.5 - 0.5 * size };
    let root = if is_near { size } else { z.sqrt() };
    // What rounding the square root lost.
    let lost = (-root).mul_add(root, z) / (root + root);
    let lost = if is_near | (root == 0.0) { 0.0 } else { lost };
    // A polynomial fit of (arcsin √z - √z) / √z³ from 0 to ¼.
    let fit =
        horner(z, 0.037_616_93, [0.014_362_824, 0.031_829_067, 0.044_514_213, 0.075_005_196, 0.166_666_6]);
    (is_near, root, (root * z).mul_add(fit, lost))
}

/// An angle, given in two parts, less another one that is not larger.
#[inline(always)]
fn difference((angle, low): (f32, f32), (other, other_low): (f32, f32)) -> f32 {
    let high = angle - other;
    high + (((angle - high) - other) + (low - other_low))
}

#[inline(always)]
pub(super) fn asin(x: f32) -> f32 {
    let (is_near, angle, low) = asin_or_half_acos(x);
    let far = difference((FRAC_PI_2, FRAC_PI_2_LOW), (2.0 * angle, 2.0 * low));
    (if is_near { angle + low } else { far }).copysign(x)
}

#[inline(always)]
pub(super) fn acos(x: f32) -> f32 {
    let (is_near, angle, low) = asin_or_half_acos(x);
    let near = difference((FRAC_PI_2, FRAC_PI_2_LOW), (angle.copysign(x), if x < 0.0 { -low } else { low }));
    let obtuse = difference((PI, PI_LOW), (2.0 * angle, 2.0 * low));
    let far = if x < 0.0 { obtuse } else { 2.0 * angle + 2.0 * low };
    if is_near { near } else { far }
}
