//! Elementary functions in a form that compilers vectorise: without branches and tables.
//!
//! For `f32`, most functions are computed in `f32`, with the maximum errors stated below. The others are computed in `f64`,
//! so that short series suffice and almost every result is the nearest number. For `f64` itself the C library is used,
//! which is exact and slower, except for powers of e, which are computed here for both types.

mod angles;
mod logarithms;
mod single;

use super::Float;
use std::f64::consts::{FRAC_PI_2, LN_2, LOG2_E, PI, SQRT_2};

/// Adding and subtracting it rounds a small number to an integer, which is then held in the lowest bits of the sum.
const ROUNDER: f64 = 1.5 * TWO_52;
const TWO_52: f64 = 4_503_599_627_370_496.0;

/// The value of a polynomial, its lowest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    // Even and odd powers separately, because two short chains of products are faster than a long one.
    let square = x * x;
    let (mut even, mut odd) = (0.0, 0.0);
    for (power, &coefficient) in coefficients.iter().enumerate().rev() {
        if power % 2 == 0 {
            even = even * square + coefficient;
        } else {
            odd = odd * square + coefficient;
        }
    }
    even + x * odd
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

/// eˣ as 2ᵏ and eʳ - 1, where k is an integer and |r| is at most ln 2 / 2; for |x| up to 700.
#[inline(always)]
fn power_and_rest(x: f64) -> (f64, f64) {
    let rounded = x * LOG2_E + ROUNDER;
    let r = x - (rounded - ROUNDER) * LN_2;
    let series = polynomial(
        r,
        [1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0],
    );
    (power_of_two(rounded), r * series)
}

#[inline(always)]
fn single_exp(x: f64) -> f64 {
    let (power, rest) = power_and_rest(within(x, -150.0, 150.0));
    power * rest + power
}

/// eˣ in `f64`: the same with more terms, and ln 2 in two parts.
#[inline(always)]
fn double_exp(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let bounded = within(x, -750.0, 750.0);
    let rounded = bounded * LOG2_E + ROUNDER;
    let k = rounded - ROUNDER;
    let r = (bounded - k * LN_2_HIGH) - k * LN_2_LOW;
    let series = polynomial(
        r,
        [
            1.0 / 2.0,
            1.0 / 6.0,
            1.0 / 24.0,
            1.0 / 120.0,
            1.0 / 720.0,
            1.0 / 5040.0,
            1.0 / 40320.0,
            1.0 / 362_880.0,
            1.0 / 3_628_800.0,
            1.0 / 39_916_800.0,
            1.0 / 479_001_600.0,
            1.0 / 6_227_020_800.0,
        ],
    );
    // In two steps, because 2ᵏ alone may not be representable.
    let half = k * 0.5 + ROUNDER;
    let rest = k - (half - ROUNDER) + ROUNDER;
    (r * r * series + r + 1.0) * power_of_two(half) * power_of_two(rest)
}

/// The natural logarithm of a positive number that is not too small.
#[inline(always)]
fn positive_ln(x: f64) -> f64 {
    const ROOT_HALF: u64 = (SQRT_2 / 2.0).to_bits();
    // x = 2ᵏ · (1 + f) with 1 + f from √½ to √2. Above 2⁵², the last bits of a number count units.
    let biased = x.to_bits().wrapping_sub(ROOT_HALF).wrapping_add(1024 << 52);
    let power = (biased >> 52 << 52).wrapping_sub(1024 << 52);
    let f = f64::from_bits(x.to_bits().wrapping_sub(power)) - 1.0;
    let k = f64::from_bits((biased >> 52) | TWO_52.to_bits()) - (TWO_52 + 1024.0);
    // A polynomial fit of ln(1 + f) / f.
    let fit = polynomial(
        f,
        [
            1.0000000000337095,
            -0.5000000033168738,
            0.33333331575467934,
            -0.24999933318528775,
            0.20000108407924544,
            -0.16670483179631568,
            0.14285649475305084,
            -0.12410622115375101,
            0.11019350669850081,
            -0.10879439976681383,
            0.10741801509836482,
            -0.05996999057295035,
        ],
    );
    k * LN_2 + f * fit
}

/// The logarithm with its special cases: -∞ for 0, NaN for negative numbers, ∞ for ∞.
#[inline(always)]
fn single_ln(x: f64) -> f64 {
    let value = positive_ln(x);
    let value = if x == f64::INFINITY { x } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x >= 0.0 { value } else { f64::NAN }
}

#[inline(always)]
fn single_ln_1p(x: f64) -> f64 {
    let (small, large) = (x - 0.5 * x * x, single_ln(1.0 + x));
    if x.abs() < 1e-5 { small } else { large }
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
fn single_atan(x: f64) -> f64 {
    positive_atan(x.abs(), 1.0).copysign(x)
}

#[inline(always)]
fn single_atan2(y: f64, x: f64) -> f64 {
    // Two zeros count as a point on the axis, two infinities as a point on the diagonal.
    let (height, width) = (y.abs(), x.abs());
    let is_origin = height == 0.0 && width == 0.0;
    let is_infinite = height == f64::INFINITY && width == f64::INFINITY;
    let (height, width) = if is_infinite { (1.0, 1.0) } else { (height, width) };
    let angle = positive_atan(height, if is_origin { 1.0 } else { width });
    (if x.is_sign_negative() { PI - angle } else { angle }).copysign(y)
}

#[inline(always)]
fn single_atanh(x: f64) -> f64 {
    let size = x.abs();
    (0.5 * single_ln_1p(2.0 * size / (1.0 - size))).copysign(x)
}

/// Sine and cosine for |x| below [`NEAR`].
#[inline(always)]
fn near_sin_cos(x: f64) -> (f64, f64) {
    // π/2 in two parts, whose products with a small integer are exact.
    const HIGH: f64 = 1.570_796_326_734_125_6;
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let rounded = x * (2.0 / PI) + ROUNDER;
    let k = rounded - ROUNDER;
    let r = (x - k * HIGH) - k * LOW;
    let z = r * r;
    let sin = r * polynomial(
        z,
        [
            1.0,
            -1.0 / 6.0,
            1.0 / 120.0,
            -1.0 / 5040.0,
            1.0 / 362_880.0,
            -1.0 / 39_916_800.0,
            1.0 / 6_227_020_800.0,
        ],
    );
    let cos = polynomial(
        z,
        [1.0, -1.0 / 2.0, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0],
    );
    let quarter = rounded.to_bits();
    let (first, second) = if quarter & 1 == 0 { (sin, cos) } else { (cos, -sin) };
    let sign = (quarter & 2) << 62;
    (f64::from_bits(first.to_bits() ^ sign), f64::from_bits(second.to_bits() ^ sign))
}

/// The bound of |x| for [`near_sin`], [`near_cos`] and [`near_tan`] of `f32`.
pub const NEAR: f64 = 1e5;

/// The power with the special cases of the C library.
#[inline(always)]
fn single_pow(x: f64, y: f64) -> f64 {
    let size = x.abs();
    let power = single_exp(y * single_ln(size));
    let power = if (size == 1.0) & y.is_infinite() { 1.0 } else { power };
    // Infinities are even.
    let half = 0.5 * y;
    let (is_whole, is_odd) = (y.trunc() == y, (y.trunc() == y) & (half.trunc() != half));
    let signed = if is_odd { power.copysign(x) } else { power };
    let value = if (x < 0.0) & !is_whole & size.is_finite() { f64::NAN } else { signed };
    if (y == 0.0) | (x == 1.0) { 1.0 } else { value }
}

/// The remainder, where the quotient is so small that its product with the divisor is exact; otherwise NaN.
#[inline(always)]
fn single_fmod(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let rest = if b.is_infinite() { a } else { a - quotient.trunc() * b };
    if quotient.abs() < 268_435_456.0 { rest.copysign(a) } else { f64::NAN }
}

#[inline(always)]
fn double_sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + double_exp(-x))
}

#[inline(always)]
fn near_tan_of(x: f64) -> f64 {
    let (sin, cos) = near_sin_cos(x);
    sin / cos
}

// Functions instead of closures, because closures may not be inlined into loops.
macro_rules! functions {
    ($method:ident: $($(#[doc = $doc:literal])* $name:ident, $single:path, $double:path;)*) => {$(
        $(#[doc = $doc])*
        #[inline(always)]
        pub fn $name<T: Float>(x: T) -> T {
            x.$method($single, $double)
        }
    )*};
}

functions! { natively:
    /// eˣ; for `f32`, the error is at most 1.04 units in the last place.
    exp, single::exp, double_exp;
    /// eˣ − 1, accurate for small x; for `f32`, the error is at most 1.5 units in the last place.
    exp_m1, single::exp_m1, f64::exp_m1;
    /// The hyperbolic tangent; for `f32`, the error is at most 2.7 units in the last place.
    tanh, single::tanh, f64::tanh;
    /// 1 / (1 + e⁻ˣ); for `f32`, the error is at most 2 units in the last place.
    sigmoid, single::sigmoid, double_sigmoid;
    /// The error function; for `f32`, the error is at most 5.8 units in the last place, and the result is exactly ±1 from
    /// ±3.92 on.
    erf, single::erf, libm::erf;
    /// The natural logarithm; for `f32`, the error is at most 0.88 units in the last place.
    ln, logarithms::ln, f64::ln;
    /// The natural logarithm of 1 + x, accurate for small x; for `f32`, the error is at most 0.95 units in the last place.
    ln_1p, logarithms::ln_1p, f64::ln_1p;
    /// The logarithm to base 10; for `f32`, the error is at most 0.98 units in the last place.
    log10, logarithms::log10, f64::log10;
    /// The inverse sine; for `f32`, the error is at most 0.63 units in the last place.
    asin, angles::asin, f64::asin;
    /// The inverse cosine; for `f32`, the error is at most 0.63 units in the last place.
    acos, angles::acos, f64::acos;
    /// The sine; for `f32`, |x| must be below [`NEAR`], and the error is at most 0.92 units in the last place.
    near_sin, angles::sin, f64::sin;
    /// The cosine; for `f32`, |x| must be below [`NEAR`], and the error is at most 0.92 units in the last place.
    near_cos, angles::cos, f64::cos;
}

functions! { through:
    /// The inverse tangent.
    atan, single_atan, f64::atan;
    /// The inverse hyperbolic tangent.
    atanh, single_atanh, f64::atanh;
    /// The tangent; for `f32`, |x| must be below [`NEAR`].
    near_tan, near_tan_of, f64::tan;
}

/// The angle of the point (x, y), from -π to π.
#[inline(always)]
pub fn atan2<T: Float>(y: T, x: T) -> T {
    y.through_with(x, single_atan2, f64::atan2)
}

/// xʸ.
#[inline(always)]
pub fn pow<T: Float>(x: T, y: T) -> T {
    x.through_with(y, single_pow, f64::powf)
}

/// The remainder of a division whose quotient is rounded towards 0, with the sign of `a`. For `f32`, the result is NaN if
/// the quotient is 2²⁸ or larger.
#[inline(always)]
pub fn near_fmod<T: Float>(a: T, b: T) -> T {
    a.through_with(b, single_fmod, |a, b| a % b)
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
