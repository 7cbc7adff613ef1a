//! Functions of the normal distribution, in double precision.

use super::numbers::erfinv;
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

/// The scaled complementary error function, exp(x²) erfc(x).
pub(super) fn erfcx(x: f64) -> f64 {
    match x {
        x if x.is_nan() => x,
        x if x < -27.0 => f64::INFINITY,
        x if x < 0.0 => 2.0 * (x * x).exp() - erfcx(-x),
        x if x < 10.0 => (x * x).exp() * libm::erfc(x),
        x => erfcx_series(x),
    }
}

/// The asymptotic series, which has all digits from 10.
fn erfcx_series(x: f64) -> f64 {
    let step = 0.5 / (x * x);
    let (mut term, mut sum) = (1.0f64, 1.0);
    for k in 1..12u32 {
        term *= -f64::from(2 * k - 1) * step;
        sum += term;
    }
    sum / (x * PI.sqrt())
}

/// The logarithm of the distribution function.
pub(super) fn log_ndtr(x: f64) -> f64 {
    let scaled = x * FRAC_1_SQRT_2;
    if x == f64::NEG_INFINITY {
        x
    } else if x < -1.0 {
        (erfcx(-scaled) / 2.0).ln() - scaled * scaled
    } else {
        (-libm::erfc(scaled) / 2.0).ln_1p()
    }
}

/// The inverse of the distribution function: ±∞ at 0 and 1, NaN beyond.
pub(super) fn ndtri(p: f64) -> f64 {
    let tail = p.min(1.0 - p);
    match p {
        p if p.is_nan() || !(0.0..=1.0).contains(&p) => f64::NAN,
        0.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        p if tail > 0.02 => SQRT_2 * erfinv(2.0 * p - 1.0),
        p if p < 0.5 => quantile_of_tail(tail),
        _ => -quantile_of_tail(tail),
    }
}

/// The negative x whose distribution function is `p`, which is small: an estimate, refined by Newton's method.
fn quantile_of_tail(p: f64) -> f64 {
    let log = p.ln();
    let square = -2.0 * log - (2.0 * PI).ln();
    let mut x = -(square - square.ln()).sqrt();
    for _ in 0..8 {
        let found = log_ndtr(x);
        let slope = (-0.5 * x * x - found).exp() / (2.0 * PI).sqrt();
        let step = (found - log) / slope;
        x -= step;
        if step.abs() <= 1e-15 * x.abs() {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let close = |found: f64, wanted: f64| {
            assert!((found - wanted).abs() <= 1e-13 * wanted.abs(), "{found} {wanted}");
        };
        for &(x, scaled, log) in VALUES {
            close(erfcx(x), scaled);
            close(log_ndtr(x), log);
        }
        for &(p, x) in QUANTILES {
            close(ndtri(p), x);
        }
        assert_eq!([erfcx(-30.0), ndtri(1.0), -ndtri(0.0)], [f64::INFINITY; 3]);
        assert_eq!([erfcx(f64::INFINITY), log_ndtr(f64::INFINITY), ndtri(0.5)], [0.0; 3]);
        assert_eq!(log_ndtr(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert!([erfcx(f64::NAN), log_ndtr(f64::NAN), ndtri(f64::NAN)].iter().all(|x| x.is_nan()));
        assert!(ndtri(-0.1).is_nan() && ndtri(1.1).is_nan());
    }

    /// Arguments, and PyTorch's results of the first two functions.
    const VALUES: &[(f64, f64, f64)] = &[
        (-20.0, 1.0442939379528289e+174, -203.9171553710973),
        (-3.0, 16205.988853999586, -6.60772622151035),
        (-0.5, 1.952360489182557, -1.1759117615936185),
        (0.1, 0.8964569799691268, -0.6165050101150262),
        (2.0, 0.2553956763105058, -0.02301290932896348),
        (9.9, 0.05670245693883227, -2.0813752194932017e-23),
        (10.0, 0.05614099274382259, -7.619853024160498e-24),
        (26.0, 0.02168358485056291, -2.476063315503133e-149),
        (1000.0, 0.0005641893014533876, -0.0),
    ];
    const QUANTILES: &[(f64, f64)] = &[
        (1e-300, -37.0470962993612),
        (1e-20, -9.262340089798409),
        (1e-05, -4.264890793922825),
        (0.019, -2.07485473439331),
        (0.021, -2.0335201492530506),
        (0.3, -0.5244005127080409),
        (0.9, 1.2815515655446004),
        (0.99, 2.3263478740408408),
        (0.99999, 4.264890793923841),
    ];
}
