//! Activation functions: one element in, one element out. Layers, expressions and epilogues share these definitions, so
//! that their results have the same bits.
//!
//! Functions are marked `#[inline(always)]`, so that loops over them are vectorised. Expensive values are computed before
//! it is known whether they are needed, because a long branch would remain a branch.

use super::{Float, math};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// x where x is positive, else 0. NaN stays NaN.
#[inline(always)]
pub fn relu<T: Float>(x: T) -> T {
    if x < T::zero() { T::zero() } else { x }
}

/// x clamped to 0..=6. NaN stays NaN.
#[inline(always)]
pub fn relu6<T: Float>(x: T) -> T {
    clamp(x, T::zero(), T::of(6.0))
}

/// x clamped to `low..=high`. NaN stays NaN, as in PyTorch.
#[inline(always)]
pub fn clamp<T: Float>(x: T, low: T, high: T) -> T {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// x · sigmoid(x).
#[inline(always)]
pub fn silu<T: Float>(x: T) -> T {
    x * math::sigmoid(x)
}

/// x · Φ(x), with Φ computed from the error function.
#[inline(always)]
pub fn gelu<T: Float>(x: T) -> T {
    T::of(0.5) * x * (T::one() + math::erf(x * T::of(FRAC_1_SQRT_2)))
}

/// x · Φ(x), with Φ approximated by a hyperbolic tangent.
#[inline(always)]
pub fn gelu_tanh<T: Float>(x: T) -> T {
    // (1 + tanh y) / 2 is the sigmoid of 2y.
    let scale = T::of(2.0 * FRAC_2_PI.sqrt());
    x * math::sigmoid(scale * (x + T::of(0.044715) * x * x * x))
}

/// x/6 + 1/2 clamped to 0..=1.
#[inline(always)]
pub fn hardsigmoid<T: Float>(x: T) -> T {
    // A sixth is 11/64 - 1/192. The first factor is exact, and the rounding of the second one hardly matters. That of 1/6
    // would make all f32 too large by 3e-8 of them, which adds up from layer to layer; a division takes twice as long.
    let sixths = relu6(x + T::of(3.0));
    sixths * T::of(11.0 / 64.0) - sixths * T::of(1.0 / 192.0)
}

/// x · hardsigmoid(x).
#[inline(always)]
pub fn hardswish<T: Float>(x: T) -> T {
    x * hardsigmoid(x)
}

/// x where x is positive, else `slope` · x.
#[inline(always)]
pub fn leaky_relu<T: Float>(x: T, slope: T) -> T {
    if x > T::zero() { x } else { x * slope }
}

/// x where x is positive, else `alpha` · (eˣ − 1).
#[inline(always)]
pub fn elu<T: Float>(x: T, alpha: T) -> T {
    let below = alpha * math::exp_m1(x);
    if x > T::zero() { x } else { below }
}

/// ln(1 + eˣ); above 20, x itself.
#[inline(always)]
pub fn softplus<T: Float>(x: T) -> T {
    let smooth = math::ln_1p(math::exp(x));
    if x > T::of(20.0) { x } else { smooth }
}

/// x · tanh(softplus(x)).
#[inline(always)]
pub fn mish<T: Float>(x: T) -> T {
    // The hyperbolic tangent of ln y is (y² - 1) / (y² + 1); above 20 it is 1.
    let power = math::exp(if x > T::of(20.0) { T::of(20.0) } else { x });
    let above = power * (power + T::of(2.0));
    x * (above / (above + T::of(2.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixths_are_unbiased() {
        let numbers = (1..6000).map(|number| number as f32 / 1000.0 - 3.0);
        let errors = numbers.map(|x| f64::from(hardsigmoid(x)) / (f64::from(x + 3.0) / 6.0) - 1.0);
        let errors: Vec<f64> = errors.collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean.abs() < 5e-9, "{mean}");
        assert!(errors.iter().all(|error| error.abs() < 2e-7));
        for x in [3.0f32, 3.1, 17.3, 1e30, f32::INFINITY] {
            assert_eq!((hardsigmoid(x), hardswish(x)), (1.0, x));
            assert_eq!((hardsigmoid(f64::from(x)), hardswish(f64::from(x))), (1.0, f64::from(x)));
        }
        assert!(hardsigmoid(f32::NAN).is_nan() && hardswish(f32::NAN).is_nan());
        assert_eq!((hardsigmoid(-3.0f32), hardswish(-3.0f32)), (0.0, 0.0));
    }
}
