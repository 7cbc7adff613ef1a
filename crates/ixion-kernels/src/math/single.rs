//! Elementary functions of `f32` that are computed in `f32`, with twice as many lanes as in `f64`.
//!
//! Errors are in units in the last place of the exact result, the maximum over all numbers of `f32`; the tests measure
//! them. Products are fused with sums, by an instruction if the processor has one, and otherwise by the C library, which
//! is slower: the bits are the same everywhere, except for those of NaN.

use super::within;
use std::f32::consts::{FRAC_2_SQRT_PI, LOG2_E};

/// Adding and subtracting it rounds a small number to an integer, which is then held in the lowest bits of the sum.
pub(super) const ROUNDER: f32 = 12_582_912.0;

/// ln 2 in two parts; products of the first with integers up to 2¹¹ are exact.
pub(super) const LN_2_HIGH: f32 = 0.693_145_75;
pub(super) const LN_2_LOW: f32 = 1.428_606_8e-6;

/// 2⁻²⁴, by which fractions are expanded whose terms would be too large.
const SMALL: f32 = 1.0 / 16_777_216.0;

/// Splits x into k ln 2 + r, where k is an integer and |r| is at most ln 2 / 2. Returns eʳ - 1, and the bits of k plus a
/// rounder.
#[inline(always)]
fn rest_and_power(x: f32, rounder: f32) -> (f32, u32) {
    let rounded = x.mul_add(LOG2_E, rounder);
    let k = rounded - rounder;
    let r = k.mul_add(-LN_2_LOW, k.mul_add(-LN_2_HIGH, x));
    (rest(r), rounded.to_bits())
}

/// eʳ - 1 for |r| up to ln 2 / 2.
#[inline(always)]
fn rest(r: f32) -> f32 {
    let square = r * r;
    // A polynomial fit of (eʳ - 1 - r) / r².
    let low = r.mul_add(0.166_665_2, 0.499_999_94);
    let high = square.mul_add(0.001_381_446_7, r.mul_add(0.008_368_781, 0.041_668_393));
    square.mul_add(square.mul_add(high, low), r)
}

/// The power of 2 whose biased exponent is in the lowest bits.
#[inline(always)]
fn power_of_two(biased: u32) -> f32 {
    f32::from_bits(biased << 23)
}

#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // In two steps, because 2ᵏ alone may not be representable.
    let (rest, biased) = rest_and_power(within(x, -104.0, 89.0), ROUNDER + 254.0);
    let half = biased >> 1;
    (rest + 1.0) * power_of_two(half) * power_of_two(biased.wrapping_sub(half))
}

#[inline(always)]
pub(super) fn exp_m1(x: f32) -> f32 {
    // Half of the result, because 2ᵏ alone may not be representable.
    let (rest, biased) = rest_and_power(within(x, -18.0, 89.0), ROUNDER + 126.0);
    let power = power_of_two(biased);
    let half = rest.mul_add(power, power - 0.5);
    (half + half).copysign(x)
}

#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    // Without the factor, the denominator would overflow long before its reciprocal underflows.
    let (rest, biased) = rest_and_power(-within(x, -105.0, 70.0), ROUNDER + 103.0);
    let power = power_of_two(biased);
    SMALL / (rest.mul_add(power, SMALL) + power)
}

#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let (rest, biased) = rest_and_power(within(2.0 * x.abs(), 0.0, 20.0), ROUNDER + 127.0);
    let power = power_of_two(biased);
    let power = rest.mul_add(power, power - 1.0);
    (power / (power + 2.0)).copysign(x)
}

/// The value of a polynomial by Horner's rule: its highest coefficient, and the others in falling order.
#[inline(always)]
pub(super) fn horner<const N: usize>(x: f32, highest: f32, others: [f32; N]) -> f32 {
    let mut value = highest;
    for other in others {
        value = value.mul_add(x, other);
    }
    value
}

/// A polynomial of degree 5, its lowest coefficient first; even and odd powers separately.
#[inline(always)]
fn polynomial(x: f32, coefficients: [f32; 6]) -> f32 {
    let [a, b, c, d, e, f] = coefficients;
    let square = x * x;
    let (even, odd) = (e.mul_add(square, c).mul_add(square, a), f.mul_add(square, d).mul_add(square, b));
    x.mul_add(odd, even)
}

/// x times a quotient of polynomials in x²: a fit from 0 to 3.92, where the result is 1 in single precision.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let x = within(x, -3.92, 3.92);
    let square = x * x;
    let numerator = polynomial(
        square,
        [FRAC_2_SQRT_PI, 0.190_407_7, 0.052_748_892, 0.003_765_671_5, 0.000_284_883_8, 2.050_075e-6],
    );
    let denominator =
        polynomial(square, [1.0, 0.502_077_16, 0.114_109_64, 0.014_969_325, 0.001_162_548_4, 3.809_165_4e-5]);
    within(x * numerator / denominator, -1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::{NEAR, angles, logarithms};
    use super::*;
    use proptest::prelude::*;

    /// The name, the function, the exact function, and the maximum error.
    type Function = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f64);

    const FUNCTIONS: [Function; 15] = [
        ("exp", exp, f64::exp, 1.04),
        ("exp_m1", exp_m1, f64::exp_m1, 1.5),
        ("sigmoid", sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 2.0),
        ("tanh", tanh, f64::tanh, 2.7),
        ("erf", erf, libm::erf, 5.8),
        ("ln", logarithms::ln, f64::ln, 0.88),
        ("ln_1p", logarithms::ln_1p, f64::ln_1p, 0.95),
        ("log10", logarithms::log10, f64::log10, 0.98),
        ("asin", angles::asin, f64::asin, 0.63),
        ("acos", angles::acos, f64::acos, 0.63),
        ("sin", |x| angles::sin(near(x)), |x| f64::from(near(x as f32)).sin(), 0.92),
        ("cos", |x| angles::cos(near(x)), |x| f64::from(near(x as f32)).cos(), 0.92),
        ("tan", |x| angles::tan(near(x)), |x| f64::from(near(x as f32)).tan(), 1.19),
        ("atan", angles::atan, f64::atan, 1.08),
        ("atanh", logarithms::atanh, f64::atanh, 0.94),
    ];

    /// x, or 0 if sine, cosine and tangent are not computed here.
    fn near(x: f32) -> f32 {
        if f64::from(x.abs()) < NEAR { x } else { 0.0 }
    }

    /// The difference in units in the last place of the exact result.
    fn error(got: f32, want: f64) -> f64 {
        let nearest = want as f32;
        if nearest.is_nan() || nearest.is_infinite() || got.is_infinite() {
            let is_same = got == nearest || (got.is_nan() && nearest.is_nan());
            return if is_same { 0.0 } else { f64::INFINITY };
        }
        let exponent = (nearest.abs().to_bits() >> 23).max(1) as i32 - 127 - 23;
        (f64::from(got) - want).abs() / f64::from(exponent).exp2()
    }

    fn check(x: f32) {
        for (name, single, double, bound) in FUNCTIONS {
            let (got, want) = (single(x), double(f64::from(x)));
            let error = error(got, want);
            assert!(error <= bound, "{name}({x:e}) is {got:e} where {want:e} is expected: {error} units off");
            assert!(got.is_nan() || got.is_sign_negative() == want.is_sign_negative(), "{name}({x:e})");
        }
    }

    #[test]
    fn special_cases_are_those_of_the_library() {
        let corners =
            [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 1e-45, -1e-45];
        let bounds = [
            88.7, 88.73, -87.3, -87.4, -103.9, -104.0, 104.0, 9.01, 10.0, 20.1, 3.91, 3.92, -3.93, 17.3,
            -17.4,
        ];
        corners.into_iter().chain(bounds).for_each(check);
        assert_eq!([tanh(20.0), tanh(-1e30), erf(3.92), erf(-1e30)], [1.0, -1.0, 1.0, -1.0]);
        assert_eq!(
            [exp(f32::NEG_INFINITY), sigmoid(f32::NEG_INFINITY), sigmoid(f32::INFINITY)],
            [0.0, 0.0, 1.0]
        );
    }

    #[test]
    fn errors_are_as_small_as_stated() {
        (0..=u32::MAX).step_by(40_009).map(f32::from_bits).for_each(check);
    }

    /// For smaller numbers, the functions are x, 1 or a half; for larger ones, they no longer change. Logarithms repeat
    /// with every power of 2. Samples show it.
    #[test]
    #[ignore = "a billion numbers; run it after changing a function"]
    fn errors_over_every_number() {
        for (name, single, double, bound) in FUNCTIONS {
            let numbers = (1e-9f32.to_bits()..110f32.to_bits()).map(f32::from_bits).flat_map(|x| [x, -x]);
            let worst = numbers.map(|x| (error(single(x), double(f64::from(x))), x));
            let (worst, at) =
                worst.fold((0.0, 0.0), |worst, found| if found.0 > worst.0 { found } else { worst });
            println!("{name}: {worst:.3} at {at:e}");
            assert!(worst <= bound, "{name}");
        }
    }

    proptest! {
        #[test]
        fn single_results_are_close_to_the_exact_ones(bits: u32, x in -20f32..20.0, unit in -1f32..1.0) {
            [f32::from_bits(bits), x, unit].into_iter().for_each(check);
        }
    }
}
