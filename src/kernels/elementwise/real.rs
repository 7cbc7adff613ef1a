//! Functions of real numbers, in `f32` and `f64`. Corner cases are those of PyTorch.

use super::{Operand, undefined};
use crate::kernels::Float;
use crate::pnnx::Function;
use crate::tensor::Result;

pub(super) fn apply<T: Float>(
    function: Function,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) -> Result<()> {
    use Function as F;
    match function {
        F::Abs => a.map(out, T::abs),
        F::Acos => a.map(out, T::acos),
        F::Acosh => a.map(out, T::acosh),
        F::Asin => a.map(out, T::asin),
        F::Asinh => a.map(out, T::asinh),
        F::Atan => a.map(out, T::atan),
        F::Atanh => a.map(out, T::atanh),
        F::Ceil => a.map(out, T::ceil),
        F::Cos => a.map(out, T::cos),
        F::Cosh => a.map(out, T::cosh),
        F::Erf => a.map(out, T::erf),
        F::Exp => a.map(out, T::exp),
        F::Expm1 => a.map(out, T::exp_m1),
        F::Floor => a.map(out, T::floor),
        F::Log => a.map(out, T::ln),
        F::Log10 => a.map(out, T::log10),
        F::Log1p => a.map(out, T::ln_1p),
        F::Neg => a.map(out, |a| -a),
        F::Reciprocal => a.map(out, T::recip),
        F::Round => a.map(out, round_half_even),
        F::Rsqrt => a.map(out, |a| a.sqrt().recip()),
        F::Sign => a.map(out, sign),
        F::Sin => a.map(out, T::sin),
        F::Sinh => a.map(out, T::sinh),
        F::Sqrt => a.map(out, T::sqrt),
        F::Square => a.map(out, |a| a * a),
        F::Tan => a.map(out, T::tan),
        F::Tanh => a.map(out, T::tanh),
        F::Trunc => a.map(out, T::trunc),
        F::Add => a.zip(b, out, |a, b| a + b),
        F::Sub => a.zip(b, out, |a, b| a - b),
        F::Mul => a.zip(b, out, |a, b| a * b),
        F::Div => a.zip(b, out, |a, b| a / b),
        F::FloorDivide => a.zip(b, out, floor_divide),
        F::Remainder => a.zip(b, out, remainder),
        F::Fmod => a.zip(b, out, |a, b| a % b),
        F::Pow => power(a, b, out),
        F::Atan2 => a.zip(b, out, T::atan2),
        F::Max | F::Maximum => a.zip(b, out, |a, b| if a > b || a.is_nan() { a } else { b }),
        F::Min | F::Minimum => a.zip(b, out, |a, b| if a < b || a.is_nan() { a } else { b }),
        F::Logaddexp => a.zip(b, out, log_add_exp),
        _ => return Err(undefined(function, T::DTYPE)),
    }
    Ok(())
}

/// The nearest whole number, halves to the even one.
fn round_half_even<T: Float>(x: T) -> T {
    let half = T::of(0.5);
    if (x - x.trunc()).abs() == half { (x * half).round() * T::of(2.0) } else { x.round() }
}

/// -1, 0 or 1; NaN gives 0.
fn sign<T: Float>(x: T) -> T {
    T::of(f64::from(u8::from(x > T::zero())) - f64::from(u8::from(x < T::zero())))
}

/// The whole number below a / b, found from the remainder because the quotient itself may be rounded up to the next.
fn floor_divide<T: Float>(a: T, b: T) -> T {
    if b == T::zero() {
        return a / b;
    }
    let rest = a % b;
    let below = rest != T::zero() && (b < T::zero()) != (rest < T::zero());
    let quotient = (a - rest) / b - if below { T::one() } else { T::zero() };
    if quotient == T::zero() {
        return T::zero().copysign(a / b);
    }
    let whole = quotient.floor();
    if quotient - whole > T::of(0.5) { whole + T::one() } else { whole }
}

/// The rest that has the sign of the divisor.
fn remainder<T: Float>(a: T, b: T) -> T {
    let rest = a % b;
    if rest != T::zero() && (b < T::zero()) != (rest < T::zero()) { rest + b } else { rest }
}

fn power<T: Float>(base: Operand<'_, T>, exponent: Operand<'_, T>, out: &mut [T]) {
    let exponent_is = |value: f64| matches!(exponent, Operand::Uniform(e) if e == T::of(value));
    if exponent_is(2.0) {
        base.map(out, |base| base * base);
    } else if exponent_is(3.0) {
        base.map(out, |base| base * base * base);
    } else if exponent_is(0.5) {
        base.map(out, T::sqrt);
    } else {
        base.zip(exponent, out, T::powf);
    }
}

/// log(exp(a) + exp(b)), whose only exponential is at most 1.
fn log_add_exp<T: Float>(a: T, b: T) -> T {
    if a == b && a.is_infinite() {
        return a;
    }
    let larger = if a > b || a.is_nan() { a } else { b };
    larger + (-(a - b).abs()).exp().ln_1p()
}
