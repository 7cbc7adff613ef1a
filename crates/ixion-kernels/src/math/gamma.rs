//! The logarithm of the gamma function for `f32`, computed in `f64`.

use super::powers::log2;
use super::{ROUNDER, polynomial};
use std::f64::consts::LN_2;

/// ln √(2π) and ln π.
const LN_ROOT_TAU: f64 = 0.918_938_533_204_672_7;
const LN_PI: f64 = 1.144_729_885_849_400_2;

#[inline(always)]
fn ln(x: f64) -> f64 {
    log2(x) * LN_2
}

/// ln Γ(x) for x that is not negative.
#[inline(always)]
fn positive(x: f64) -> f64 {
    let (is_low, is_near) = (x < 0.5, x < 1.5);
    // Below 3/2, the argument is increased by 1 or 2, and the logarithm of the factors is subtracted. Around 2, the
    // function is a product with its zeros at 1 and 2.
    let center = x - if is_low { 0.0 } else { 1.0 } - if is_near { 0.0 } else { 1.0 };
    let ln = ln(if is_low { x.mul_add(x, x) } else { x });
    // A polynomial fit of ln Γ(2 + c) / (c · (1 + c)) from -½ to ½.
    let fit = polynomial(
        center,
        [
            0.4227843350973092,
            -0.10031730189295598,
            0.03296500095466236,
            -0.012384174822493203,
            0.0049986256548692825,
            -0.002108516104303477,
            0.00091563953705589,
            -0.0004022420043293139,
            0.0001805578810799053,
            -0.000096512906528647,
            0.00004502850360194142,
        ],
    );
    let near = center.mul_add(center, center).mul_add(fit, if is_near { -ln } else { 0.0 });
    // Stirling's series, fitted from 5/2 on.
    let inverse = 1.0 / x;
    let series = polynomial(
        inverse * inverse,
        [
            0.08333333320384914,
            -0.002777734413451311,
            0.0007913026792537021,
            -0.0005489708149174192,
            0.0004264335586327233,
        ],
    );
    let far = inverse.mul_add(series, (x - 0.5) * ln - x + LN_ROOT_TAU);
    let value = if x < 2.5 { near } else { far };
    if x == f64::INFINITY { x } else { value }
}

/// ln |Γ(x)|: ∞ for 0, negative integers and ±∞.
#[inline(always)]
pub(super) fn lgamma(x: f32) -> f32 {
    let x = f64::from(x);
    let size = x.abs();
    let value = positive(size);
    // Γ(-x) Γ(x) = -π / (x sin πx). From 2²³ on, every `f32` is an integer.
    let rest = size - ((size + ROUNDER) - ROUNDER);
    let rest = if size < 8_388_608.0 { rest } else { 0.0 };
    // A polynomial fit of sin(πr) / r from -½ to ½.
    let sin = rest
        * polynomial(
            rest * rest,
            [
                3.1415926535233454,
                -5.167712762115764,
                2.5501632403168912,
                -0.5992513300989688,
                0.0820464787966049,
                -0.007022163471332703,
            ],
        );
    let reflected = LN_PI - ln((size * sin).abs()) - value;
    let reflected = if sin == 0.0 { f64::INFINITY } else { reflected };
    let value = if x < 0.0 { reflected } else { value };
    (if x.is_nan() { x } else { value }) as f32
}

#[cfg(test)]
mod tests {
    use super::super::lgamma;
    use proptest::prelude::*;

    /// Above 0, the result is next to the exact one. Below, where the function has zeros, the absolute error is small.
    fn check(x: f32) {
        let (got, want) = (lgamma(x), libm::lgamma(f64::from(x)));
        let nearest = want as f32;
        if nearest.is_nan() || nearest.is_infinite() {
            assert!(
                got == nearest || (got.is_nan() && nearest.is_nan()),
                "lgamma({x:e}) is {got:e}, not {want:e}"
            );
            return;
        }
        let allowed = 1.2e-7 * want.abs() + if x < 0.0 { 1e-9 } else { 1e-45 };
        assert!((f64::from(got) - want).abs() <= allowed, "lgamma({x:e}) is {got:e}, not {want:e}");
    }

    #[test]
    fn special_cases_are_those_of_the_library() {
        let corners = [0.0, -0.0, 1.0, 2.0, -1.0, -2.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX];
        let others =
            [f32::MIN, 1e-45, -1e-45, 1e-39, 0.5, 1.5, 2.5, -0.5, -2.457_024_8, -1e7, 4e36, 4.1e36, 3.0];
        corners.into_iter().chain(others).for_each(check);
        assert_eq!([lgamma(1f32), lgamma(2f32)], [0.0, 0.0]);
    }

    #[test]
    fn errors_are_as_small_as_stated() {
        (0..=u32::MAX).step_by(40_009).map(f32::from_bits).for_each(check);
    }

    proptest! {
        #[test]
        fn single_results_are_close_to_the_exact_ones(bits: u32, x in -20f32..20.0, unit in -1f32..1.0) {
            [f32::from_bits(bits), x, unit].into_iter().for_each(check);
        }
    }
}
