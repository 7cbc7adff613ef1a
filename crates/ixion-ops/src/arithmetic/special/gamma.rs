//! The zeta function of Hurwitz, derivatives and integrals of the gamma function, in double precision.

use super::numbers::digamma;
use std::f64::consts::PI;

/// The smallest part of a sum that can change it.
const EPSILON: f64 = 1e-17;

/// ζ(x, q), the sum of (q + k)⁻ˣ over k ≥ 0: ∞ for x = 1 and whole q ≤ 0, NaN for x < 1, and for other q ≤ 0 unless x is whole.
pub(super) fn zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        return match q {
            q if q.floor() == q => f64::INFINITY,
            _ if x.floor() != x => f64::NAN,
            // A summand below 1 in size is raised to a power of -∞.
            _ if x.is_infinite() => f64::INFINITY,
            q => below_zero(x, q),
        };
    }
    match x {
        x if x.is_nan() || q.is_nan() => f64::NAN,
        x if x.is_infinite() && q == 1.0 => 1.0,
        x if x.is_infinite() => {
            if q < 1.0 {
                f64::INFINITY
            } else {
                0.0
            }
        }
        x => positive(x, q),
    }
}

/// ζ(x, q) for whole x and q < 0: the summands below zero, and those above.
fn below_zero(x: f64, q: f64) -> f64 {
    let part = -q - (-q).floor();
    let below = positive(x, part) - positive(x, 1.0 - q);
    let sign = if x % 2.0 == 0.0 { 1.0 } else { -1.0 };
    sign * below + positive(x, 1.0 - part)
}

/// ζ(x, q) for x > 1 and q > 0: the first summands, and the formula of Euler and Maclaurin for the others.
fn positive(x: f64, q: f64) -> f64 {
    if q.is_infinite() {
        return 0.0;
    }
    // The Bernoulli numbers B₂ₙ.
    const BERNOULLI: [f64; 12] = [
        1.0 / 6.0,
        -1.0 / 30.0,
        1.0 / 42.0,
        -1.0 / 30.0,
        5.0 / 66.0,
        -691.0 / 2730.0,
        7.0 / 6.0,
        -3617.0 / 510.0,
        43867.0 / 798.0,
        -174611.0 / 330.0,
        854513.0 / 138.0,
        -236364091.0 / 2730.0,
    ];
    let (mut sum, mut at, mut count) = (0.0, q, 0);
    while count < 9 || at <= 9.0 {
        let term = at.powf(-x);
        sum += term;
        if term <= EPSILON * sum {
            return sum;
        }
        at += 1.0;
        count += 1;
    }
    let power = at.powf(-x);
    sum += power * at / (x - 1.0) + power * 0.5;
    let (mut factor, mut order) = (x / 2.0 * power / at, 1.0);
    for bernoulli in BERNOULLI {
        let term = bernoulli * factor;
        sum += term;
        if term.abs() <= EPSILON * sum.abs() {
            break;
        }
        factor *= (x + order) / (order + 2.0) * ((x + order + 1.0) / (order + 3.0)) / (at * at);
        order += 2.0;
    }
    sum
}

/// The second derivative of ln Γ.
fn trigamma(x: f64) -> f64 {
    if x < 0.5 {
        let ratio = PI / (PI * x).sin();
        return ratio * ratio - trigamma(1.0 - x);
    }
    zeta(2.0, x)
}

/// The derivative of this order of digamma.
pub(super) fn polygamma(order: u32, x: f64) -> f64 {
    match order {
        0 => digamma(x),
        1 => trigamma(x),
        _ => {
            let next = f64::from(order) + 1.0;
            let sign = if order.is_multiple_of(2) { -1.0 } else { 1.0 };
            sign * libm::tgamma(next) * zeta(next, x)
        }
    }
}

/// ln Γ of `order` variables: a sum of ln Γ of one.
pub(super) fn multigamma(order: u32, x: f64) -> f64 {
    let count = f64::from(order);
    let sum: f64 = (0..order).map(|j| libm::lgamma(x - f64::from(j) / 2.0)).sum();
    sum + count * (count - 1.0) / 4.0 * PI.ln()
}

/// The regularised lower incomplete gamma function P(a, x).
pub(super) fn lower(a: f64, x: f64) -> f64 {
    let [lower, _] = regularized(a, x);
    lower
}

/// The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).
pub(super) fn upper(a: f64, x: f64) -> f64 {
    let [_, upper] = regularized(a, x);
    upper
}

/// P and Q; NaN for negative arguments. The ends are PyTorch's.
fn regularized(a: f64, x: f64) -> [f64; 2] {
    const NONE: [f64; 2] = [f64::NAN; 2];
    match (a, x) {
        (a, x) if x < 0.0 || a < 0.0 => NONE,
        (0.0, x) if x > 0.0 => [1.0, 0.0],
        (0.0, _) => NONE,
        (_, 0.0) => [0.0, 1.0],
        (a, x) if a.is_infinite() && x.is_infinite() => NONE,
        (a, _) if a.is_infinite() => [0.0, 1.0],
        (_, x) if x.is_infinite() => [1.0, 0.0],
        (a, x) if a.is_nan() || x.is_nan() => NONE,
        (a, x) if a > 1e5 => uniform(a, x),
        (a, x) if x < a + 1.0 => {
            let lower = prefix(a, x) * series(a, x);
            [lower, 1.0 - lower]
        }
        (a, x) => {
            let upper = prefix(a, x) * a * fraction(a, x);
            [1.0 - upper, upper]
        }
    }
}

/// xᵃ e⁻ˣ / Γ(a + 1); by Stirling's series if a is large, where the factors would overflow.
fn prefix(a: f64, x: f64) -> f64 {
    if a < 20.0 {
        return (a * x.ln() - x - libm::lgamma(a + 1.0)).exp();
    }
    let inverse = 1.0 / (a * a);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / a;
    (a * excess((x - a) / a) - series).exp() / (2.0 * PI * a).sqrt()
}

/// ln(1 + d) - d, without cancellation near 0.
fn excess(d: f64) -> f64 {
    if d.abs() > 0.1 {
        return d.ln_1p() - d;
    }
    let (mut power, mut sum) = (-d * d, 0.0);
    for k in 2..30u32 {
        sum += power / f64::from(k);
        power *= -d;
    }
    sum
}

/// The power series of P, without its factor: 1 + x/(a + 1) + x²/((a + 1)(a + 2)) + …
fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut at) = (1.0, 1.0, a);
    for _ in 0..10_000 {
        at += 1.0;
        term *= x / at;
        sum += term;
        if term < EPSILON * sum {
            break;
        }
    }
    sum
}

/// The continued fraction of Q, without its factor, by Lentz's method.
fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let apart = |x: f64| if x.abs() < TINY { TINY } else { x };
    let mut b = x + 1.0 - a;
    let mut d = 1.0 / apart(b);
    let (mut c, mut product) = (1.0 / TINY, d);
    for k in 1..10_000u32 {
        let k = f64::from(k);
        let factor = -k * (k - a);
        b += 2.0;
        d = 1.0 / apart(factor * d + b);
        c = apart(b + factor / c);
        product *= c * d;
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    product
}

/// P and Q for large a: the error function, and the first term of its correction.
fn uniform(a: f64, x: f64) -> [f64; 2] {
    let distance = (x - a) / a;
    let square = -2.0 * excess(distance);
    let eta = square.max(0.0).sqrt().copysign(distance);
    let first = if eta.abs() > 0.01 {
        1.0 / distance - 1.0 / eta
    } else {
        -1.0 / 3.0 + eta * (1.0 / 12.0 + eta * (-2.0 / 135.0 + eta / 864.0))
    };
    let correction = (-0.5 * a * square).exp() / (2.0 * PI * a).sqrt() * first;
    let half = |sign: f64| 0.5 * libm::erfc(sign * eta * (a / 2.0).sqrt());
    [half(-1.0) - correction, half(1.0) + correction]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64, tolerance: f64) {
        assert!((found - wanted).abs() <= tolerance * wanted.abs(), "{found} {wanted}");
    }

    #[test]
    fn numbers() {
        for &(x, q, wanted) in ZETA {
            close(zeta(x, q), wanted, 1e-12);
        }
        for &(order, x, wanted) in POLYGAMMA {
            // PyTorch computes the first derivative in fewer digits.
            close(polygamma(order, x), wanted, if order == 1 { 1e-8 } else { 1e-12 });
        }
        for &(a, x, wanted) in LOWER {
            close(lower(a, x), wanted, 1e-8);
        }
        for &(a, x, wanted) in UPPER {
            close(upper(a, x), wanted, 1e-8);
        }
        close(multigamma(3, 2.5), MULTIGAMMA, 1e-13);
    }

    #[test]
    fn ends() {
        assert_eq!([zeta(1.0, 2.0), zeta(2.0, -3.0), zeta(f64::INFINITY, 0.5)], [f64::INFINITY; 3]);
        assert_eq!([zeta(2.0, f64::INFINITY), zeta(f64::INFINITY, 2.0)], [0.0; 2]);
        assert!(zeta(0.5, 1.0).is_nan() && zeta(2.5, -0.5).is_nan() && zeta(2.0, f64::NAN).is_nan());
        // A sum over a million summands below zero is as fast as any other.
        close(zeta(2.0, -999_999.5), PI * PI, 1e-6);
        assert!([lower(-1.0, 1.0), lower(0.0, 0.0), upper(f64::NAN, 1.0)].iter().all(|x| x.is_nan()));
        assert_eq!([lower(2.0, f64::INFINITY), upper(2.0, 0.0), upper(f64::INFINITY, 1.0)], [1.0; 3]);
        assert_eq!([polygamma(1, 0.0), polygamma(2, 0.0).abs()], [f64::INFINITY; 2]);
        assert!(polygamma(1, f64::NEG_INFINITY).is_nan() && polygamma(3, f64::NAN).is_nan());
    }

    const ZETA: &[(f64, f64, f64)] = &[
        (2.0, 1.0, 1.6449340668482266),
        (1.0001, 0.5, 10001.963645377935),
        (3.0, 2.5, 0.11810202582086368),
        (10.5, 0.1, 31622776602.051792),
        (50.0, 3.0, 1.392956357970704e-24),
        (2.0, 1000000.0, 1.0000005000001667e-06),
        (2.0, -1.5, 9.379246644989124),
        (3.0, -20.5, 0.0011331449598196328),
    ];
    const POLYGAMMA: &[(u32, f64, f64)] = &[
        (0, 0.5, -1.9635100260214229),
        (1, 0.3, 12.245364544940365),
        (1, 5.0, 0.22132295575099345),
        (1, -2.3, 14.72591216089887),
        (2, 0.1, -2001.8614573783439),
        (2, -10.7, -68.84549983859907),
        (3, 2.0, 0.4939394022668293),
        (10, 20.0, -4.510377054981852e-08),
    ];
    const LOWER: &[(f64, f64, f64)] = &[
        (0.1, 0.5, 0.9414024458901339),
        (2.0, 0.5, 0.09020401043104986),
        (5.0, 5.0, 0.5595067149347878),
        (100.0, 90.0, 0.15822098907532103),
        (1000.0, 1010.0, 0.6276789446814572),
        (100000.0, 99700.0, 0.1714173145107766),
        (1000000.0, 1000500.0, 0.6915504757698484),
    ];
    const UPPER: &[(f64, f64, f64)] = &[
        (0.1, 0.5, 0.05859755410986646),
        (2.0, 10.0, 0.0004993992273873336),
        (5.0, 5.0, 0.44049328506521246),
        (100.0, 140.0, 0.00016105717471255718),
        (1000.0, 1010.0, 0.37232105531854276),
        (100000.0, 100300.0, 0.17136368875252492),
        (1000000.0, 1000500.0, 0.30844952423015165),
    ];
    const MULTIGAMMA: f64 = 1.8809954616117743;
}
