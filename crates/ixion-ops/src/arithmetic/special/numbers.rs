//! Special functions of real numbers, in double precision.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The derivative of ln Γ: the recurrence up to 10, then the asymptotic series.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x.fract() == 0.0 || x.is_infinite() {
            return f64::NAN;
        }
        // The fraction keeps its precision if x is large.
        return digamma(1.0 - x) - PI / (PI * x.fract()).tan();
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    // Bernoulli numbers B₂ₙ / 2n.
    const SERIES: [f64; 7] =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let square = if x.is_finite() { 1.0 / (x * x) } else { 0.0 };
    let series = SERIES.iter().rev().fold(0.0, |sum, term| (sum + term) * square);
    sum + x.ln() - 0.5 / x - series
}

/// The inverse of the error function: an estimate, refined by Halley's method.
pub(super) fn erfinv(y: f64) -> f64 {
    let size = y.abs();
    if size >= 1.0 || y.is_nan() || y == 0.0 {
        return match y {
            y if size == 1.0 => f64::INFINITY.copysign(y),
            y if y == 0.0 => y,
            _ => f64::NAN,
        };
    }
    let rest = 1.0 - size;
    let log = (rest * (1.0 + size)).ln();
    let middle = 2.0 / (PI * 0.147) + log / 2.0;
    let mut x = ((middle * middle - log / 0.147).sqrt() - middle).sqrt();
    for _ in 0..4 {
        // Near 1, 1 − y has the digits that the error function loses.
        let error = if size > 0.5 { rest - libm::erfc(x) } else { libm::erf(x) - size };
        let slope = 2.0 / PI.sqrt() * (-x * x).exp();
        x -= error / (slope + x * error);
    }
    x.copysign(y)
}

/// The power series Σ (x²/4)ᵏ / k!², all of whose terms are positive. NaN at infinity, as in PyTorch.
pub(crate) fn i0(x: f64) -> f64 {
    match x.abs() {
        x if x.is_infinite() => return f64::NAN,
        x if x > 720.0 => return f64::INFINITY,
        _ => {}
    }
    let square = x * x / 4.0;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..2000 {
        term *= square / f64::from(k * k);
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum
}

pub(super) fn entropy(x: f64) -> f64 {
    match x {
        x if x > 0.0 => -x * x.ln(),
        x if x < 0.0 => f64::NEG_INFINITY,
        x => x,
    }
}

pub(super) fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

pub(super) fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

pub(super) fn logit(x: f64, eps: Option<f64>) -> f64 {
    let x = match eps {
        Some(eps) if x < eps => eps,
        Some(eps) if x > 1.0 - eps => 1.0 - eps,
        _ => x,
    };
    (x / (1.0 - x)).ln()
}

pub(super) fn heaviside(x: f64, at_zero: f64) -> f64 {
    if x == 0.0 { at_zero } else { f64::from(u8::from(x > 0.0)) }
}

pub(super) fn integer_heaviside(x: i64, at_zero: i64) -> i64 {
    if x == 0 { at_zero } else { i64::from(x > 0) }
}

pub(super) fn xlogy(x: f64, y: f64) -> f64 {
    if x == 0.0 && !y.is_nan() { 0.0 } else { x * y.ln() }
}

pub(super) fn xlog1py(x: f64, y: f64) -> f64 {
    if x == 0.0 && !y.is_nan() { 0.0 } else { x * y.ln_1p() }
}

pub(super) fn logaddexp2(x: f64, y: f64) -> f64 {
    // The difference of equal infinities would be NaN.
    if x == y && x.is_infinite() {
        x
    } else {
        x.max(y) + (-(x - y).abs()).exp2().ln_1p() / std::f64::consts::LN_2
    }
}

pub(super) fn gcd(x: i64, y: i64) -> i64 {
    let (mut x, mut y) = (x.unsigned_abs(), y.unsigned_abs());
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x as i64
}

pub(super) fn lcm(x: i64, y: i64) -> i64 {
    match gcd(x, y) {
        0 => 0,
        divisor => x.wrapping_div(divisor).wrapping_mul(y).wrapping_abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PyTorch's results in f64.
    #[test]
    fn numbers() {
        let close = |found: f64, wanted: f64| {
            assert!((found - wanted).abs() <= 1e-13 * wanted.abs().max(1.0), "{found} {wanted}");
        };
        for (x, y) in VALUES_OF_DIGAMMA {
            close(digamma(*x), *y);
        }
        for (x, y) in VALUES_OF_ERFINV {
            close(erfinv(*x), *y);
            close(libm::erf(*y), *x);
        }
        for (x, y) in VALUES_OF_I0 {
            close(i0(*x) / y, 1.0);
        }
        assert!(digamma(-3.0).is_nan() && digamma(f64::NAN).is_nan() && erfinv(1.5).is_nan());
        assert_eq!([gcd(-12, 18), gcd(0, 0), lcm(-4, 6), lcm(0, 3)], [6, 0, 12, 0]);
        assert_eq!(logaddexp2(f64::NEG_INFINITY, f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert!(logaddexp2(f64::NAN, 1.0).is_nan() && xlogy(0.0, f64::NAN).is_nan());
    }

    const VALUES_OF_DIGAMMA: &[(f64, f64)] = &[
        (1e-05, -100000.57719921567),
        (0.5, -1.9635100260214229),
        (1.4616321449683622, -4.069010753338098e-16),
        (3.0, 0.922784335098467),
        (25.0, 3.198742512851974),
        (1000000.0, 13.81551005796419),
        (-0.5, 0.03648997397857639),
        (-7.25, 5.189977214956288),
    ];
    const VALUES_OF_ERFINV: &[(f64, f64)] = &[
        (1e-09, 8.86226925452758e-10),
        (0.1, 0.08885599049425769),
        (0.5, 0.4769362762044699),
        (-0.77, -0.8487818883709608),
        (0.99, 1.8213863677184494),
        (0.9999999, 3.7665625816384707),
    ];
    const VALUES_OF_I0: &[(f64, f64)] = &[
        (0.0, 1.0),
        (0.5, 1.0634833707413236),
        (-3.0, 4.880792585865024),
        (20.0, 43558282.559553534),
        (100.0, 1.0737517071310738e+42),
        (700.0, 1.5295933476718735e+302),
    ];
}
