//! Inverse trigonometric and hyperbolic functions of complex numbers.
//!
//! After W. Kahan, "Branch cuts for complex elementary functions" (1987): the sign of a zero determines on which side of
//! a branch cut a number is, and nothing overflows or cancels.

use super::Z;

/// √(1 − z) and √(1 + z), which keep the signs of zeros.
fn roots(z: Z) -> (Z, Z) {
    (Z::new(1.0 - z.re, -z.im).sqrt(), Z::new(1.0 + z.re, z.im).sqrt())
}

/// The inverse cosine, with a branch cut on the real axis beyond ±1.
pub(super) fn acos(z: Z) -> Z {
    let (minus, plus) = roots(z);
    Z::new(2.0 * minus.re.atan2(plus.re), arsinh((plus.conj() * minus).im))
}

/// The inverse sine, with a branch cut on the real axis beyond ±1.
pub(super) fn asin(z: Z) -> Z {
    let (minus, plus) = roots(z);
    Z::new(z.re.atan2((minus * plus).re), arsinh((minus.conj() * plus).im))
}

/// The inverse hyperbolic cosine, with a branch cut on the real axis below 1.
pub(super) fn acosh(z: Z) -> Z {
    let (minus, plus) = (Z::new(z.re - 1.0, z.im).sqrt(), Z::new(z.re + 1.0, z.im).sqrt());
    Z::new(arsinh((minus.conj() * plus).re), 2.0 * minus.im.atan2(plus.re))
}

/// The inverse hyperbolic sine, with a branch cut on the imaginary axis beyond ±i.
pub(super) fn asinh(z: Z) -> Z {
    let turned = asin(Z::new(-z.im, z.re));
    Z::new(turned.im, -turned.re)
}

/// The inverse hyperbolic tangent, with a branch cut on the real axis beyond ±1.
pub(super) fn atanh(z: Z) -> Z {
    if z.re.is_sign_negative() {
        return -atanh(-z);
    }
    let (below, above) = (1.0 - z.re, 1.0 + z.re);
    let squared = z.im * z.im;
    let re = if squared.is_infinite() || z.re > 1e150 {
        // Only the real part of 1/z remains.
        inverse(z).re
    } else {
        (4.0 * z.re / (below * below + squared)).ln_1p() / 4.0
    };
    let angle = if squared.is_infinite() || z.re > 1e150 {
        std::f64::consts::PI.copysign(z.im)
    } else {
        (2.0 * z.im).atan2(below * above - squared)
    };
    Z::new(re, angle / 2.0)
}

/// The inverse tangent, with a branch cut on the imaginary axis beyond ±i.
pub(super) fn atan(z: Z) -> Z {
    let turned = atanh(Z::new(-z.im, z.re));
    Z::new(turned.im, -turned.re)
}

/// 1/z without intermediate overflow.
pub(super) fn inverse(z: Z) -> Z {
    divide(Z::new(1.0, 0.0), z)
}

/// a/b, scaled by the larger part of b (R. L. Smith, "Algorithm 116: complex division", 1962).
pub(super) fn divide(a: Z, b: Z) -> Z {
    if b.re == 0.0 && b.im == 0.0 {
        return Z::new(a.re / b.re.abs(), a.im / b.re.abs());
    }
    if b.re.abs() >= b.im.abs() {
        let ratio = b.im / b.re;
        let scale = 1.0 / (b.re + b.im * ratio);
        Z::new((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale)
    } else {
        let ratio = b.re / b.im;
        let scale = 1.0 / (b.re * ratio + b.im);
        Z::new((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale)
    }
}

fn arsinh(x: f64) -> f64 {
    libm::asinh(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(got: Z, want: Z) -> bool {
        (got - want).norm() <= 1e-11 * (1.0 + want.norm())
    }

    proptest! {
        #[test]
        fn they_undo_the_functions(re in -4.0..4.0, im in -4.0..4.0) {
            let z = Z::new(re, im);
            prop_assert!(close(acos(z).cos(), z) && close(asin(z).sin(), z));
            prop_assert!(close(acosh(z).cosh(), z) && close(asinh(z).sinh(), z));
            prop_assert!(close(atan(z).tan(), z) && close(atanh(z).tanh(), z));
            prop_assert!(close(divide(z, Z::new(im, re)), z / Z::new(im, re)));
        }
    }

    /// PyTorch's values on both sides of each cut, and where squares overflow.
    #[test]
    fn signs_of_zeros_select_the_side_of_a_cut() {
        let at = |function: fn(Z) -> Z, re, im, want: (f64, f64)| {
            let got = function(Z::new(re, im));
            assert!(close(got, Z::new(want.0, want.1)), "{got} where {want:?} is expected");
        };
        let (half_turn, root) = (std::f64::consts::FRAC_PI_2, 1.3169578969248166);
        at(acos, 2.0, 0.0, (0.0, -root));
        at(acos, 2.0, -0.0, (0.0, root));
        at(asin, 2.0, 0.0, (half_turn, root));
        at(asin, 2.0, -0.0, (half_turn, -root));
        at(acosh, -2.0, 0.0, (root, 2.0 * half_turn));
        at(acosh, -2.0, -0.0, (root, -2.0 * half_turn));
        at(asinh, 0.0, 2.0, (root, half_turn));
        at(asinh, -0.0, 2.0, (-root, half_turn));
        at(atanh, 2.0, 0.0, (0.5493061443340549, half_turn));
        at(atanh, 2.0, -0.0, (0.5493061443340549, -half_turn));
        at(atan, 0.0, 2.0, (half_turn, 0.5493061443340549));
        at(atan, -0.0, 2.0, (-half_turn, 0.5493061443340549));
        at(asin, 1e300, 1.0, (half_turn, 691.4686750787736));
        at(|z| divide(Z::new(1e200, 1e200), z), 1e200, 1e200, (1.0, 0.0));
    }
}
