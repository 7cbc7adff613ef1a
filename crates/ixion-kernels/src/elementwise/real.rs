//! Functions of real numbers, in `f32` and `f64`. Special cases follow PyTorch.

use super::{Operand, undefined};
use crate::widest;
use crate::{Float, activation, math};
use ixion_tensor::Function;
use ixion_tensor::Result;

pub(super) fn apply<T: Float>(
    function: Function,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) -> Result<()> {
    widest!(|| apply_here(function, a, b, out))
}

#[inline(always)]
fn apply_here<T: Float>(
    function: Function,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) -> Result<()> {
    use Function as F;
    match function {
        F::Abs => a.map(out, T::abs),
        F::Acos => a.map(out, math::acos),
        F::Acosh => a.map(out, T::arcosh),
        F::Asin => a.map(out, math::asin),
        F::Asinh => a.map(out, T::arsinh),
        F::Atan => a.map(out, math::atan),
        F::Atanh => a.map(out, math::atanh),
        F::Ceil => a.map(out, T::ceil),
        F::Cos => near(a, out, math::near_cos, T::cos),
        F::Cosh => a.map(out, T::cosh),
        F::Erf => a.map(out, math::erf),
        F::Exp => a.map(out, math::exp),
        F::Expm1 => a.map(out, math::exp_m1),
        F::Floor => a.map(out, T::floor),
        F::Log => a.map(out, math::ln),
        F::Log10 => a.map(out, math::log10),
        F::Log1p => a.map(out, math::ln_1p),
        F::Neg => a.map(out, |a| -a),
        F::Reciprocal => a.map(out, T::recip),
        F::Round => a.map(out, T::round_half_even),
        F::Rsqrt => a.map(out, |a| a.sqrt().recip()),
        F::Sign => a.map(out, sign),
        F::Sin => near(a, out, math::near_sin, T::sin),
        F::Sinh => a.map(out, T::sinh),
        F::Sqrt => a.map(out, T::sqrt),
        F::Square => a.map(out, |a| a * a),
        F::Tan => near(a, out, math::near_tan, T::tan),
        F::Tanh => a.map(out, math::tanh),
        F::Trunc => a.map(out, T::trunc),
        F::Add => a.zip(b, out, |a, b| a + b),
        F::Sub => a.zip(b, out, |a, b| a - b),
        F::Mul => a.zip(b, out, |a, b| a * b),
        F::Div => a.zip(b, out, |a, b| a / b),
        F::FloorDivide => {
            fmod(a, b, out);
            a.zip_onto(b, out, floor_quotient);
        }
        F::Remainder => {
            fmod(a, b, out);
            a.zip_onto(b, out, |rest, _, b| remainder(rest, b));
        }
        F::Fmod => fmod(a, b, out),
        F::Pow => power(a, b, out),
        F::Atan2 => a.zip(b, out, math::atan2),
        F::Max | F::Maximum => a.zip(b, out, |a, b| if a >= b || a.is_nan() { a } else { b }),
        F::Min | F::Minimum => a.zip(b, out, |a, b| if a <= b || a.is_nan() { a } else { b }),
        F::Logaddexp => log_add_exp(a, b, out),
        F::Relu => a.map(out, activation::relu),
        F::Relu6 => a.map(out, activation::relu6),
        F::Sigmoid => a.map(out, math::sigmoid),
        F::Silu => a.map(out, activation::silu),
        F::Gelu => a.map(out, activation::gelu),
        F::GeluTanh => a.map(out, activation::gelu_tanh),
        F::Hardsigmoid => a.map(out, activation::hardsigmoid),
        F::Hardswish => a.map(out, activation::hardswish),
        F::Softplus => a.map(out, activation::softplus),
        F::Mish => a.map(out, activation::mish),
        F::LeakyRelu => a.zip(b, out, activation::leaky_relu),
        F::Elu => a.zip(b, out, activation::elu),
        _ => return Err(undefined(function, T::DTYPE)),
    }
    Ok(())
}

/// Applies a function that has a fast form near 0, and another for all numbers.
#[inline(always)]
fn near<T: Float>(a: Operand<'_, T>, out: &mut [T], fast: impl Fn(T) -> T, general: impl Fn(T) -> T) {
    let is_far = |a: T| a.abs() >= T::of(math::NEAR);
    a.map(out, fast);
    if a.any(is_far) {
        a.zip_onto(a, out, |value, a, _| if is_far(a) { general(a) } else { value });
    }
}

/// -1, 0 or 1; NaN gives 0.
#[inline(always)]
fn sign<T: Float>(x: T) -> T {
    let sign = if x > T::zero() { T::one() } else { T::zero() };
    if x < T::zero() { -T::one() } else { sign }
}

/// The remainder with the sign of `a`. Large quotients, which are rare, are left to the C library.
#[inline(always)]
fn fmod<T: Float>(a: Operand<'_, T>, b: Operand<'_, T>, out: &mut [T]) {
    a.zip(b, out, math::near_fmod);
    if Operand::Block(&*out).any(T::is_nan) {
        a.zip_onto(b, out, |rest, a, b| if rest.is_nan() { a % b } else { rest });
    }
}

/// ⌊a / b⌋, computed from the remainder because the quotient itself may be rounded up to the next integer.
#[inline(always)]
fn floor_quotient<T: Float>(rest: T, a: T, b: T) -> T {
    let ratio = a / b;
    let is_below = (rest != T::zero()) & ((b < T::zero()) != (rest < T::zero()));
    let quotient = (a - rest) / b - if is_below { T::one() } else { T::zero() };
    let whole = quotient.floor();
    let rounded = if quotient - whole > T::of(0.5) { whole + T::one() } else { whole };
    let value = if quotient == T::zero() { T::zero().copysign(ratio) } else { rounded };
    if b == T::zero() { ratio } else { value }
}

/// The remainder with the sign of the divisor, from that with the sign of the dividend.
#[inline(always)]
fn remainder<T: Float>(rest: T, b: T) -> T {
    let differs = (rest != T::zero()) & ((b < T::zero()) != (rest < T::zero()));
    if differs { rest + b } else { rest }
}

#[inline(always)]
fn power<T: Float>(base: Operand<'_, T>, exponent: Operand<'_, T>, out: &mut [T]) {
    let exponent_is = |value: f64| matches!(exponent, Operand::Uniform(e) if e == T::of(value));
    // Separate loops are vectorised; the arithmetic is that of `simple_power`.
    if exponent_is(2.0) {
        base.map(out, |base| base * base);
    } else if exponent_is(3.0) {
        base.map(out, |base| base * base * base);
    } else if exponent_is(0.5) {
        base.map(out, T::sqrt);
    } else if exponent_is(-0.5) {
        base.map(out, |base| base.sqrt().recip());
    } else if exponent_is(-1.0) {
        base.map(out, T::recip);
    } else if exponent_is(-2.0) {
        base.map(out, |base| (base * base).recip());
    } else {
        base.zip(exponent, out, math::pow);
        if exponent.any(is_simple) {
            base.zip_onto(exponent, out, simple_power);
        }
    }
}

/// Whether powers with this exponent are computed without logarithms.
#[inline(always)]
fn is_simple<T: Float>(exponent: T) -> bool {
    let is = |value: f64| exponent == T::of(value);
    is(2.0) | is(3.0) | is(0.5) | is(-0.5) | is(-1.0) | is(-2.0)
}

/// The given power, or a better one if the exponent is simple. It has the same bits whether the exponent is uniform or
/// not: a tensor of one element is both.
#[inline(always)]
fn simple_power<T: Float>(power: T, base: T, exponent: T) -> T {
    let is = |value: f64| exponent == T::of(value);
    let power = if is(2.0) { base * base } else { power };
    let power = if is(3.0) { base * base * base } else { power };
    let power = if is(0.5) { base.sqrt() } else { power };
    let power = if is(-0.5) { base.sqrt().recip() } else { power };
    let power = if is(-1.0) { base.recip() } else { power };
    if is(-2.0) { (base * base).recip() } else { power }
}

/// log(exp(a) + exp(b)), whose only exponential is at most 1. It uses several loops over short functions, because a
/// single loop over all of them is not vectorised.
#[inline(always)]
fn log_add_exp<T: Float>(a: Operand<'_, T>, b: Operand<'_, T>, out: &mut [T]) {
    a.zip(b, out, |a, b| -(a - b).abs());
    for x in out.iter_mut() {
        *x = math::exp(*x);
    }
    for x in out.iter_mut() {
        *x = math::ln_1p(*x);
    }
    a.zip_onto(b, out, |sum, a, b| {
        let larger = if (a > b) | a.is_nan() { a } else { b };
        // The difference of equal infinities is NaN.
        if (a == b) & a.is_infinite() { a } else { larger + sum }
    });
}
