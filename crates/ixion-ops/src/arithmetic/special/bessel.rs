//! Bessel functions of integer order, and Airy's function, in double precision.

use super::numbers;
use std::f64::consts::{FRAC_PI_4, PI};

/// Above this argument, asymptotic series have all digits of a double.
const LARGE: f64 = 30.0;

/// The smallest part of a sum that can change it.
const EPSILON: f64 = 1e-17;

/// Iₙ(x) for x ≥ 0: a power series, all of whose terms are positive.
fn power_series(order: u32, x: f64) -> f64 {
    let square = x * x / 4.0;
    let mut term = if order == 0 { 1.0 } else { x / 2.0 };
    let mut sum = term;
    for k in 1..2000u32 {
        term *= square / f64::from(k * (k + order));
        sum += term;
        if term <= sum * EPSILON {
            break;
        }
    }
    sum
}

/// The asymptotic series of Kᵥ(x), without its factor; with `sign` -1 that of Iᵥ(x).
fn asymptotic(order: f64, x: f64, sign: f64) -> f64 {
    let square = 4.0 * order * order;
    let (mut term, mut sum) = (1.0f64, 1.0f64);
    for k in 1..60u32 {
        let odd = f64::from(2 * k - 1);
        let next = sign * term * (square - odd * odd) / (f64::from(k) * 8.0 * x);
        if next.abs() > term.abs() {
            break;
        }
        term = next;
        sum += term;
        if term.abs() < EPSILON * sum.abs() {
            break;
        }
    }
    sum
}

/// e⁻ˣ Iₙ(x) for x ≥ 0.
fn scaled_i(order: u32, x: f64) -> f64 {
    if x.is_infinite() {
        0.0
    } else if x < LARGE {
        power_series(order, x) * (-x).exp()
    } else {
        asymptotic(f64::from(order), x, -1.0) / (2.0 * PI * x).sqrt()
    }
}

pub(super) fn i0e(x: f64) -> f64 {
    scaled_i(0, x.abs())
}

/// An odd function.
pub(super) fn i1e(x: f64) -> f64 {
    if x.is_nan() { x } else { scaled_i(1, x.abs()).copysign(x) }
}

/// An odd function. NaN at infinity, as in PyTorch.
pub(super) fn i1(x: f64) -> f64 {
    match x.abs() {
        size if size.is_nan() || size.is_infinite() => f64::NAN,
        size if size > 720.0 => f64::INFINITY.copysign(x),
        size => power_series(1, size).copysign(x),
    }
}

/// eˣ Kᵥ(x): the integral of exp(-x (cosh t - 1)) cosh(v t) over t > 0. The trapezoidal rule has all digits with this step,
/// because the integrand is smooth and falls fast.
fn scaled_k(order: f64, x: f64) -> f64 {
    const STEP: f64 = 0.125;
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::INFINITY;
    }
    if x > LARGE {
        return asymptotic(order, x, 1.0) * (PI / (2.0 * x)).sqrt();
    }
    let mut sum = 0.5;
    for k in 1..8000u32 {
        let t = STEP * f64::from(k);
        let half = (t / 2.0).sinh();
        let exponent = -2.0 * x * half * half;
        if exponent < -745.0 {
            break;
        }
        let term = (order * t).cosh() * exponent.exp();
        sum += term;
        if term < sum * EPSILON {
            break;
        }
    }
    sum * STEP
}

pub(super) fn scaled_k0(x: f64) -> f64 {
    scaled_k(0.0, x)
}

pub(super) fn scaled_k1(x: f64) -> f64 {
    scaled_k(1.0, x)
}

pub(super) fn k0(x: f64) -> f64 {
    scaled_k(0.0, x) * (-x).exp()
}

pub(super) fn k1(x: f64) -> f64 {
    scaled_k(1.0, x) * (-x).exp()
}

pub(super) fn i0(x: f64) -> f64 {
    numbers::i0(x)
}

/// The functions of the first and second kind are NaN at infinity, as in PyTorch.
fn finite(x: f64, function: fn(f64) -> f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { function(x) }
}

pub(super) fn j0(x: f64) -> f64 {
    finite(x, libm::j0)
}

pub(super) fn j1(x: f64) -> f64 {
    finite(x, libm::j1)
}

pub(super) fn y0(x: f64) -> f64 {
    finite(x, libm::y0)
}

pub(super) fn y1(x: f64) -> f64 {
    finite(x, libm::y1)
}

pub(super) fn spherical_j0(x: f64) -> f64 {
    match x {
        x if x.is_infinite() => 0.0,
        0.0 => 1.0,
        x => x.sin() / x,
    }
}

/// Ai(x). NaN at infinity and 0 from 103.892, as in PyTorch.
pub(super) fn airy(x: f64) -> f64 {
    if x.is_nan() || x.is_infinite() {
        return f64::NAN;
    }
    if x > 103.892 {
        return 0.0;
    }
    if (-6.5..=2.0).contains(&x) {
        return airy_series(x);
    }
    let size = x.abs();
    let zeta = size * size.sqrt() * (2.0 / 3.0);
    if x > 0.0 {
        return (x / 3.0).sqrt() / PI * scaled_k(1.0 / 3.0, zeta) * (-zeta).exp();
    }
    let [cosine, sine] = airy_asymptotic(zeta);
    let angle = zeta + FRAC_PI_4;
    (angle.sin() * cosine - angle.cos() * sine) / (PI.sqrt() * size.sqrt().sqrt())
}

/// Maclaurin's series of Ai.
fn airy_series(x: f64) -> f64 {
    // Ai(0) and -Ai'(0).
    const AT_ZERO: [f64; 2] = [0.3550280538878172, 0.2588194037928068];
    let cube = x * x * x;
    let (mut terms, mut sums) = ([1.0, x], [1.0, x]);
    for k in 1..200u32 {
        let three = f64::from(3 * k);
        terms[0] *= cube / ((three - 1.0) * three);
        terms[1] *= cube / (three * (three + 1.0));
        sums[0] += terms[0];
        sums[1] += terms[1];
        if terms.iter().all(|term| term.abs() < EPSILON / 10.0) {
            break;
        }
    }
    AT_ZERO[0] * sums[0] - AT_ZERO[1] * sums[1]
}

/// The even and the odd part of the asymptotic series of Ai(-x), for ζ = ⅔ x^³ᐟ².
fn airy_asymptotic(zeta: f64) -> [f64; 2] {
    let (mut sums, mut term) = ([1.0, 0.0], 1.0);
    for k in 1..60u32 {
        let six = f64::from(6 * k);
        let next = term * (six - 5.0) * (six - 1.0) / (72.0 * f64::from(k) * zeta);
        if next > term {
            break;
        }
        term = next;
        let signed = if k % 4 < 2 { term } else { -term };
        sums[(k % 2) as usize] += signed;
        if term < EPSILON {
            break;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PyTorch's results in f64; for Ai, those with more digits, since PyTorch has fewer.
    #[test]
    fn numbers() {
        for &(function, x, wanted) in VALUES {
            let found = function(x);
            assert!((found - wanted).abs() <= 1e-10 * wanted.abs(), "{x}: {found} {wanted}");
        }
    }

    #[test]
    fn ends() {
        assert!([i0e(f64::NAN), i1e(f64::NAN), i1(f64::NAN), i1(f64::INFINITY)].iter().all(|x| x.is_nan()));
        assert!([k0(-1.0), scaled_k1(f64::NAN), j0(f64::INFINITY), y0(-1.0)].iter().all(|x| x.is_nan()));
        assert!([airy(f64::INFINITY), airy(f64::NEG_INFINITY), airy(f64::NAN)].iter().all(|x| x.is_nan()));
        assert_eq!([k0(0.0), k1(0.0), k1(1e-320), i1(800.0)], [f64::INFINITY; 4]);
        assert_eq!([i1(-800.0), y0(0.0), y1(0.0)], [f64::NEG_INFINITY; 3]);
        assert_eq!([i0e(f64::INFINITY), i1e(f64::INFINITY), k0(800.0), airy(104.0)], [0.0; 4]);
        assert_eq!([spherical_j0(0.0), spherical_j0(f64::INFINITY), j0(0.0), j1(0.0)], [1.0, 0.0, 1.0, 0.0]);
        assert!(i1e(-0.0).is_sign_negative());
    }

    /// Functions, arguments and results.
    const VALUES: &[(fn(f64) -> f64, f64, f64)] = &[
        (i0e, 0.001, 0.9990007495835156),
        (i0e, 0.5, 0.6450352704491501),
        (i0e, 6.6, 0.15853365124439972),
        (i0e, 29.0, 0.07440746822222559),
        (i0e, 50.0, 0.056561626647454184),
        (i1e, 0.001, 0.0004995003123542215),
        (i1e, 0.5, 0.15642080318487173),
        (i1e, 6.6, 0.14597383141052422),
        (i1e, 29.0, 0.07311311793938836),
        (i1e, 50.0, 0.055993123892895395),
        (i1, 0.001, 0.0005000000625000028),
        (i1, 0.5, 0.25789430539089636),
        (i1, 6.6, 107.30466122509512),
        (i1, 29.0, 287432108126.2548),
        (i1, 50.0, 2.9030785901035566e+20),
        (k0, 0.001, 7.0236888005623825),
        (k0, 0.5, 0.924419071227666),
        (k0, 6.6, 0.000652021370690901),
        (k0, 29.0, 5.894950728792561e-14),
        (k0, 50.0, 3.410167749789495e-23),
        (k1, 0.001, 999.9962381560855),
        (k1, 0.5, 1.6564411200033007),
        (k1, 6.6, 0.0006997776863987096),
        (k1, 29.0, 5.995740321238809e-14),
        (k1, 50.0, 3.4441022267175555e-23),
        (scaled_k0, 0.001, 7.030716002378253),
        (scaled_k0, 0.5, 1.5241093857739099),
        (scaled_k0, 6.6, 0.47929777287783826),
        (scaled_k0, 29.0, 0.23175021980076463),
        (scaled_k0, 50.0, 0.17680715585742932),
        (scaled_k1, 0.001, 1000.9967345590684),
        (scaled_k1, 0.5, 2.7310097082117855),
        (scaled_k1, 6.6, 0.5144032108105693),
        (scaled_k1, 29.0, 0.23571259561655572),
        (scaled_k1, 50.0, 0.17856655855881556),
        (spherical_j0, 0.001, 0.9999998333333416),
        (spherical_j0, 0.5, 0.958851077208406),
        (spherical_j0, 6.6, 0.047203236895966345),
        (spherical_j0, 29.0, -0.022883927041826468),
        (spherical_j0, 50.0, -0.005247497074078575),
        (airy, -20.0, -0.1764061270779847),
        (airy, -6.6, -0.16352646272772983),
        (airy, -2.5, -0.11232506769296609),
        (airy, 0.5, 0.23169360648083348),
        (airy, 3.0, 0.006591139357460719),
        (airy, 50.0, 4.5849417240748285e-104),
    ];
}
