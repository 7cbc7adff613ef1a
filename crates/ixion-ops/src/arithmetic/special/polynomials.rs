//! Orthogonal polynomials, in double precision.

use super::Real;

/// A family of polynomials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Chebyshev's of the first to the fourth kind.
    T,
    U,
    V,
    W,
    /// Hermite's: orthogonal to exp(-x²).
    Physicists,
    /// Hermite's: orthogonal to exp(-x²/2).
    Probabilists,
    Laguerre,
    Legendre,
}

use Family::{Laguerre, Legendre, Physicists, Probabilists, T, U, V, W};

/// The highest degree that is computed by a recurrence where there is a closed form.
const LONGEST: i64 = 1000;

/// The degree above which PyTorch's Hermite polynomials are NaN.
const HIGHEST_OF_HERMITE: i64 = 512;

/// The polynomial of degree `n`, which is truncated to an integer: 0 for a negative degree, as in PyTorch.
pub(super) fn polynomial(family: Family, x: f64, n: f64) -> f64 {
    let degree = n as i64;
    match degree {
        ..0 => return 0.0,
        _ if n.is_nan() => return 0.0,
        0 => return 1.0,
        _ if x.is_nan() => return x,
        _ => {}
    }
    let is_chebyshev = matches!(family, T | U | V | W);
    if is_chebyshev && degree > 8 && (x.abs() <= 1.0 || degree > LONGEST) {
        return closed_form(family, x, degree);
    }
    if matches!(family, Physicists | Probabilists) && degree > HIGHEST_OF_HERMITE {
        return f64::NAN;
    }
    let (mut before, mut value) = (1.0, first(family, x));
    for k in 1..degree {
        let [factor, other] = recurrence(family, k as f64, x);
        (before, value) = (value, factor * value - other * before);
        if value.is_nan() {
            break;
        }
    }
    value
}

/// The polynomial of degree 1.
fn first(family: Family, x: f64) -> f64 {
    match family {
        T | Probabilists | Legendre => x,
        U | Physicists => 2.0 * x,
        V => 2.0 * x - 1.0,
        W => 2.0 * x + 1.0,
        Laguerre => 1.0 - x,
    }
}

/// The factors a and b of the recurrence: the polynomial of degree k + 1 is a times that of degree k, less b times that of
/// degree k - 1.
fn recurrence(family: Family, k: f64, x: f64) -> [f64; 2] {
    match family {
        T | U | V | W => [2.0 * x, 1.0],
        Physicists => [2.0 * x, 2.0 * k],
        Probabilists => [x, k],
        Laguerre => [(2.0 * k + 1.0 - x) / (k + 1.0), k / (k + 1.0)],
        Legendre => [(2.0 * k + 1.0) * x / (k + 1.0), k / (k + 1.0)],
    }
}

/// A polynomial of Chebyshev by (hyperbolic) sines and cosines.
fn closed_form(family: Family, x: f64, degree: i64) -> f64 {
    let parity = if degree % 2 == 0 { 1.0 } else { -1.0 };
    if x < 0.0 {
        let mirrored = match family {
            V => W,
            W => V,
            family => family,
        };
        return parity * closed_form(mirrored, -x, degree);
    }
    let n = degree as f64;
    let (angle, sine, cosine) = if x < 1.0 {
        (x.acos(), f64::sin as Real, f64::cos as Real)
    } else {
        (x.acosh(), f64::sinh as Real, f64::cosh as Real)
    };
    match family {
        U if x == 1.0 => n + 1.0,
        W if x == 1.0 => 2.0 * n + 1.0,
        U => sine((n + 1.0) * angle) / sine(angle),
        V => cosine((n + 0.5) * angle) / cosine(0.5 * angle),
        W => sine((n + 0.5) * angle) / sine(0.5 * angle),
        _ => cosine(n * angle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for &(family, x, n, wanted) in VALUES {
            let found = polynomial(family, x, n);
            assert!((found - wanted).abs() <= 1e-11 * wanted.abs().max(1.0), "{family:?}: {found} {wanted}");
        }
    }

    #[test]
    fn ends() {
        for family in [T, U, V, W, Physicists, Probabilists, Laguerre, Legendre] {
            assert_eq!([-1.0, 0.0, 0.9].map(|n| polynomial(family, 0.5, n)), [0.0, 1.0, 1.0]);
            assert_eq!([polynomial(family, f64::NAN, 0.0), polynomial(family, 0.5, f64::NAN)], [1.0, 0.0]);
            assert!(polynomial(family, f64::NAN, 3.0).is_nan());
        }
        assert!(polynomial(Physicists, 0.5, 513.0).is_nan());
        // Degrees of which the recurrence would take years.
        assert!(polynomial(T, 0.5, 1e15).abs() <= 1.0 && polynomial(V, 1.5, 1e15).is_infinite());
        assert_eq!(polynomial(U, -1.0, 1e15), 1e15 + 1.0);
    }

    /// Families, arguments, degrees and PyTorch's results.
    const VALUES: &[(Family, f64, f64, f64)] = &[
        (T, 0.3, 1.0, 0.3),
        (T, 0.3, 5.0, 0.9988800000000001),
        (T, -0.7, 21.0, 0.5441571353969943),
        (T, -1.0, 12.0, 1.0),
        (T, 1.2, 9.0, 135.38586931199998),
        (U, 0.3, 1.0, 0.6),
        (U, 0.3, 5.0, 1.01376),
        (U, -0.7, 21.0, 1.3665252795193576),
        (U, -1.0, 12.0, 13.0),
        (U, 1.2, 9.0, 380.3014410239998),
        (V, 0.3, 1.0, -0.4),
        (V, 0.3, 5.0, 0.96416),
        (V, -0.7, 21.0, 2.541336913979876),
        (V, -1.0, 12.0, 25.0),
        (V, 1.2, 9.0, 176.2051312639999),
        (W, 0.3, 1.0, 1.6),
        (W, 0.3, 5.0, 1.06336),
        (W, -0.7, 21.0, 0.19171364505884167),
        (W, -1.0, 12.0, 1.0),
        (W, 1.2, 9.0, 584.3977507839998),
        (Physicists, 0.3, 1.0, 0.6),
        (Physicists, 0.3, 5.0, 31.757759999999998),
        (Physicists, -0.7, 21.0, 5454645798082.715),
        (Physicists, -1.0, 12.0, 280768.0),
        (Physicists, 1.2, 9.0, -13043.831832576),
        (Probabilists, 0.3, 1.0, 0.3),
        (Probabilists, 0.3, 5.0, 4.23243),
        (Probabilists, -0.7, 21.0, 340152973.48267174),
        (Probabilists, -1.0, 12.0, -12440.0),
        (Probabilists, 1.2, 9.0, -226.529768448),
        (Laguerre, 0.3, 1.0, 0.7),
        (Laguerre, 0.3, 5.0, -0.09333274999999984),
        (Laguerre, -0.7, 21.0, 242.65047631878556),
        (Laguerre, -1.0, 12.0, 111.34504439442371),
        (Laguerre, 1.2, 9.0, 0.5253802130285715),
        (Legendre, 0.3, 1.0, 0.3),
        (Legendre, 0.3, 5.0, 0.34538625),
        (Legendre, -0.7, 21.0, 0.16778013369354733),
        (Legendre, -1.0, 12.0, 1.0),
        (Legendre, 1.2, 9.0, 60.27536051999997),
    ];
}
