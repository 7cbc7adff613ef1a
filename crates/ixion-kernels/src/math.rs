//! Elementary functions in a form that compilers vectorise: without branches and tables.
//!
//! For `f32`, most functions are computed in `f32`, with the maximum errors stated below. The others are computed in `f64`,
//! so that short series suffice and almost every result is the nearest number. For `f64` itself the C library is used,
//! which is exact and slower, except for powers of e, which are computed here for both types.
//!
//! Products are fused with sums, by an instruction if the processor has one, and otherwise by the C library, which is
//! slower: the bits are the same everywhere, except for those of NaN.

mod angles;
mod gamma;
mod logarithms;
mod powers;
mod single;

use super::Float;
use ixion_tensor::RealFunction;
use std::f64::consts::{FRAC_PI_2, LOG2_E, PI, SQRT_2};
use std::ops::Rem;

/// Adding and subtracting it rounds a small number to an integer, which is then held in the lowest bits of the sum.
const ROUNDER: f64 = 1.5 * TWO_52;
const TWO_52: f64 = 4_503_599_627_370_496.0;

/// The value of a polynomial, its lowest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    // Even and odd powers separately, because two short chains of products are faster than a long one.
    let square = x * x;
    let (mut even, mut odd) = (0.0f64, 0.0f64);
    for (power, &coefficient) in coefficients.iter().enumerate().rev() {
        if power % 2 == 0 {
            even = even.mul_add(square, coefficient);
        } else {
            odd = odd.mul_add(square, coefficient);
        }
    }
    x.mul_add(odd, even)
}

/// 2 to an integer power between -1022 and 1023, where `rounded` is the power plus [`ROUNDER`].
#[inline(always)]
fn power_of_two(rounded: f64) -> f64 {
    f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}

/// x clamped to `low..=high`; NaN stays NaN.
#[inline(always)]
fn within<T: PartialOrd>(x: T, low: T, high: T) -> T {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// eˣ in `f64`, with ln 2 in two parts.
#[inline(always)]
fn double_exp(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    /// Makes the power positive, twice the bias of exponents.
    const BIASED: f64 = ROUNDER + 2046.0;
    let bounded = within(x, -750.0, 750.0);
    let rounded = bounded.mul_add(LOG2_E, BIASED);
    let k = rounded - BIASED;
    let r = k.mul_add(-LN_2_LOW, k.mul_add(-LN_2_HIGH, bounded));
    // A polynomial fit of (eʳ - 1 - r) / r².
    let series = polynomial(
        r,
        [
            0.500000000000001,
            0.16666666666666417,
            0.04166666666653561,
            0.008333333333492982,
            0.001388888894236876,
            0.00019841269506863134,
            0.000024801494280351512,
            2.7557588018906054e-6,
            2.7629860790525275e-7,
            2.499908272633191e-8,
        ],
    );
    // In two steps, because 2ᵏ alone may not be representable.
    let biased = rounded.to_bits() & 0xffff;
    let half = biased >> 1;
    let power = |biased: u64| f64::from_bits(biased << 52);
    ((r * r).mul_add(series, r) + 1.0) * power(half) * power(biased - half)
}

/// The angle whose tangent is y / x, for non-negative y and x that are not both 0 and not both infinite.
#[inline(always)]
fn positive_atan(y: f64, x: f64) -> f64 {
    const TAN_EIGHTH: f64 = SQRT_2 - 1.0;
    // Steep angles are computed relative to π/2, and angles around the diagonal relative to π/4.
    let (is_low, is_high) = (y <= x * TAN_EIGHTH, y * TAN_EIGHTH >= x);
    let (numerator, denominator) = if is_low { (y, x) } else { (y - x, y + x) };
    let (numerator, denominator) = if is_high { (-x, y) } else { (numerator, denominator) };
    let from = if is_low { 0.0 } else { PI / 4.0 };
    let from = if is_high { FRAC_PI_2 } else { from };
    let t = numerator / denominator;
    // A polynomial fit of arctan(t) / t from 0 to tan π/8.
    let fit = polynomial(
        t * t,
        [
            0.9999999999992708,
            -0.3333333327838382,
            0.199999931888439,
            -0.14285391258269792,
            0.11103534900494631,
            -0.08993217165652664,
            0.06977004807187488,
            -0.037701731521430595,
        ],
    );
    from + t * fit
}

#[inline(always)]
fn single_atan2(y: f32, x: f32) -> f32 {
    let (y, x) = (f64::from(y), f64::from(x));
    // Two zeros count as a point on the axis, two infinities as a point on the diagonal.
    let (height, width) = (y.abs(), x.abs());
    let is_origin = height == 0.0 && width == 0.0;
    let is_infinite = height == f64::INFINITY && width == f64::INFINITY;
    let (height, width) = if is_infinite { (1.0, 1.0) } else { (height, width) };
    let angle = positive_atan(height, if is_origin { 1.0 } else { width });
    (if x.is_sign_negative() { PI - angle } else { angle }).copysign(y) as f32
}

/// The bound of |x| for [`near_sin`], [`near_cos`] and [`near_tan`] of `f32`.
pub const NEAR: f64 = 1e5;

/// The remainder, where the quotient is so small that its product with the divisor is exact; otherwise NaN.
#[inline(always)]
fn single_fmod(a: f32, b: f32) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    let rest = if b.is_infinite() { a } else { a - quotient.trunc() * b };
    (if quotient.abs() < 268_435_456.0 { rest.copysign(a) } else { f64::NAN }) as f32
}

#[inline(always)]
fn double_sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + double_exp(-x))
}

/// Functions with the number of their arguments, what computes them for `f32`, and what computes them for `f64`.
macro_rules! functions {
    ($($(#[doc = $doc:literal])* $name:ident($($x:ident)+) of $count:literal: $single:path, $double:path;)*) => {$(
        $(#[doc = $doc])*
        #[inline(always)]
        pub fn $name<T: Float>($($x: T),+) -> T {
            struct InEach;
            impl RealFunction<$count> for InEach {
                #[inline(always)]
                fn single([$($x),+]: [f32; $count]) -> f32 {
                    $single($($x),+)
                }
                #[inline(always)]
                fn double([$($x),+]: [f64; $count]) -> f64 {
                    $double($($x),+)
                }
            }
            T::value_of::<InEach, $count>([$($x),+])
        }
    )*};
}

functions! {
    /// eˣ; for `f32`, the error is at most 1.04 units in the last place.
    exp(x) of 1: single::exp, double_exp;
    /// eˣ − 1, accurate for small x; for `f32`, the error is at most 1.5 units in the last place.
    exp_m1(x) of 1: single::exp_m1, f64::exp_m1;
    /// The hyperbolic tangent; for `f32`, the error is at most 2.7 units in the last place.
    tanh(x) of 1: single::tanh, f64::tanh;
    /// 1 / (1 + e⁻ˣ); for `f32`, the error is at most 2 units in the last place.
    sigmoid(x) of 1: single::sigmoid, double_sigmoid;
    /// The error function; for `f32`, the error is at most 5.8 units in the last place, and the result is exactly ±1 from
    /// ±3.92 on.
    erf(x) of 1: single::erf, libm::erf;
    /// The natural logarithm; for `f32`, the error is at most 0.88 units in the last place.
    ln(x) of 1: logarithms::ln, f64::ln;
    /// The natural logarithm of 1 + x, accurate for small x; for `f32`, the error is at most 0.95 units in the last place.
    ln_1p(x) of 1: logarithms::ln_1p, f64::ln_1p;
    /// The logarithm to base 10; for `f32`, the error is at most 0.98 units in the last place.
    log10(x) of 1: logarithms::log10, f64::log10;
    /// The inverse sine; for `f32`, the error is at most 0.63 units in the last place.
    asin(x) of 1: angles::asin, f64::asin;
    /// The inverse cosine; for `f32`, the error is at most 0.63 units in the last place.
    acos(x) of 1: angles::acos, f64::acos;
    /// The sine; for `f32`, |x| must be below [`NEAR`], and the error is at most 0.92 units in the last place.
    near_sin(x) of 1: angles::sin, f64::sin;
    /// The cosine; for `f32`, |x| must be below [`NEAR`], and the error is at most 0.92 units in the last place.
    near_cos(x) of 1: angles::cos, f64::cos;
    /// The tangent; for `f32`, |x| must be below [`NEAR`], and the error is at most 1.19 units in the last place.
    near_tan(x) of 1: angles::tan, f64::tan;
    /// The inverse tangent; for `f32`, the error is at most 1.08 units in the last place.
    atan(x) of 1: angles::atan, f64::atan;
    /// The inverse hyperbolic tangent; for `f32`, the error is at most 0.94 units in the last place.
    atanh(x) of 1: logarithms::atanh, f64::atanh;
    /// The logarithm of the absolute value of the gamma function. For `f32` above 0, it is next to the exact one; below 0,
    /// the absolute error is at most 1e-9 more than that of rounding.
    lgamma(x) of 1: gamma::lgamma, f64::lgamma;
    /// The angle of the point (x, y), from -π to π.
    atan2(y x) of 2: single_atan2, f64::atan2;
    /// xʸ; for `f32`, the error is at most 0.7 units in the last place.
    pow(x y) of 2: powers::pow, f64::powf;
    /// The remainder of a division whose quotient is rounded towards 0, with the sign of `a`. For `f32`, the result is NaN if
    /// the quotient is 2²⁸ or larger.
    near_fmod(a b) of 2: single_fmod, f64::rem;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Panics unless the two are at most one `f32` apart.
    fn next_to(name: &str, x: f32, got: f32, want: f64) {
        let want = want as f32;
        let place = |x: f32| {
            if x.is_sign_negative() { -i64::from(x.abs().to_bits()) } else { i64::from(x.to_bits()) }
        };
        let equal = (got.is_nan() && want.is_nan()) || (place(got) - place(want)).abs() <= 1;
        assert!(equal, "{name}({x}) is {got} where {want} is expected");
        assert!(
            got.is_nan() || want.is_nan() || got.is_sign_negative() == want.is_sign_negative(),
            "{name}({x})"
        );
    }

    fn check(x: f32) {
        type Pair = (&'static str, fn(f32) -> f32, fn(f64) -> f64);
        let functions: [Pair; 7] = [
            ("ln", ln, f64::ln),
            ("ln_1p", ln_1p, f64::ln_1p),
            ("log10", log10, f64::log10),
            ("atan", atan, f64::atan),
            ("asin", asin, f64::asin),
            ("acos", acos, f64::acos),
            ("atanh", atanh, f64::atanh),
        ];
        for (name, single, double) in functions {
            next_to(name, x, single(x), double(f64::from(x)));
        }
        if f64::from(x.abs()) < NEAR {
            next_to("sin", x, near_sin(x), f64::from(x).sin());
            next_to("cos", x, near_cos(x), f64::from(x).cos());
            next_to("tan", x, near_tan(x), f64::from(x).tan());
        }
    }

    fn check_pair(a: f32, b: f32) {
        let (wide_a, wide_b) = (f64::from(a), f64::from(b));
        next_to("atan2", a, atan2(a, b), wide_a.atan2(wide_b));
        next_to("pow", a, pow(a, b), wide_a.powf(wide_b));
        let rest = near_fmod(a, b);
        if rest.is_nan() {
            let is_far = (wide_a / wide_b).abs() >= 268_435_456.0;
            assert!(is_far || (a % b).is_nan(), "fmod({a}, {b})");
        } else {
            assert_eq!(rest.to_bits(), (a % b).to_bits(), "fmod({a}, {b}) is {rest}");
        }
    }

    #[test]
    fn special_cases_are_those_of_the_library() {
        let corners =
            [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1e-30, 0.999_999_94, -0.999_999_94, 1.5, 88.8, 89.0, -87.4];
        let far =
            [-103.9, -104.1, 9.1, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 3.9, 1e-5];
        corners.into_iter().chain(far).for_each(check);
        for y in corners.into_iter().chain(far) {
            for x in corners.into_iter().chain(far) {
                check_pair(y, x);
            }
        }
    }

    #[test]
    fn powers_with_special_arguments_are_those_of_the_library() {
        let numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, 1e30, -1e30];
        let others = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 16_777_215.0, 8_388_610.0, -8_388_609.0];
        for x in numbers.into_iter().chain(others) {
            for y in numbers.into_iter().chain(others) {
                check_pair(x, y);
            }
        }
        assert_eq!([pow(3f32, 4.0), pow(10f32, 3.0), pow(-2f32, 31.0)], [81.0, 1000.0, -2_147_483_648.0]);
    }

    proptest! {
        #[test]
        fn single_results_are_next_to_the_exact_ones(bits: u32, x in -20f32..20.0, unit in -1f32..1.0) {
            [f32::from_bits(bits), x, unit].into_iter().for_each(check);
        }

        #[test]
        fn functions_of_pairs_are_next_to_the_exact_ones(y in -20f32..20.0, x in -20f32..20.0, bits: [u32; 2]) {
            let [a, b] = bits.map(f32::from_bits);
            for (y, x) in [(y, x), (y, x * 1e-6), (y, x.round()), (y.round(), x.round()), (a, b)] {
                check_pair(y, x);
            }
        }

        #[test]
        fn powers_of_doubles_are_those_of_the_library(x in -800f64..800.0) {
            let (got, want) = (exp(x), x.exp());
            // Subnormal results are rounded twice.
            let allowed = (4.0 * f64::EPSILON * want).max(f64::from_bits(1));
            prop_assert!((got - want).abs() <= allowed || got == want, "exp({}) is {}, not {}", x, got, want);
        }
    }
}
