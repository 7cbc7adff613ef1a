//! Functions of integers and bools, all computed in `i64`. Results are wrapped to the element type afterwards.

use super::{Operand, undefined};
use crate::wide::{Work, run_widest};
use ixion_tensor::Function;
use ixion_tensor::{DType, Result, TensorError};

pub(super) fn apply(
    function: Function,
    a: Operand<'_, i64>,
    b: Operand<'_, i64>,
    out: &mut [i64],
) -> Result<()> {
    run_widest(Apply(function, a, b, out))
}

/// One step of a program.
struct Apply<'a>(Function, Operand<'a, i64>, Operand<'a, i64>, &'a mut [i64]);

impl Work for Apply<'_> {
    type Output = Result<()>;

    #[inline(always)]
    fn run(self) -> Result<()> {
        apply_here(self.0, self.1, self.2, self.3)
    }
}

#[inline(always)]
fn apply_here(function: Function, a: Operand<'_, i64>, b: Operand<'_, i64>, out: &mut [i64]) -> Result<()> {
    use Function as F;
    match function {
        F::Abs => a.map(out, i64::wrapping_abs),
        F::Neg => a.map(out, i64::wrapping_neg),
        F::Sign => a.map(out, i64::signum),
        F::Relu => a.map(out, |a| a.max(0)),
        F::Relu6 => a.map(out, |a| a.clamp(0, 6)),
        F::Square => a.map(out, |a| a.wrapping_mul(a)),
        F::Add => a.zip(b, out, i64::wrapping_add),
        F::Sub => a.zip(b, out, i64::wrapping_sub),
        F::Mul => a.zip(b, out, i64::wrapping_mul),
        F::FloorDivide | F::Remainder | F::Fmod => return divide(function, a, b, out),
        F::Pow => return power(a, b, out),
        F::Max | F::Maximum => a.zip(b, out, i64::max),
        F::Min | F::Minimum => a.zip(b, out, i64::min),
        F::And => a.zip(b, out, |a, b| a & b),
        F::Or => a.zip(b, out, |a, b| a | b),
        F::Xor => a.zip(b, out, |a, b| a ^ b),
        F::Lshift => a.zip(b, out, |a, b| if (0..64).contains(&b) { a.wrapping_shl(b as u32) } else { 0 }),
        // As in PyTorch, a shift by too many bits or by a negative number shifts out all bits but the sign.
        F::Rshift => a.zip(b, out, |a, b| a >> if (0..63).contains(&b) { b } else { 63 }),
        _ => return Err(undefined(function, DType::I64)),
    }
    Ok(())
}

fn divide(function: Function, a: Operand<'_, i64>, b: Operand<'_, i64>, out: &mut [i64]) -> Result<()> {
    if b.any(|b| b == 0) {
        return Err(TensorError::DivisionByZero { operation: function.name() });
    }
    match function {
        Function::FloorDivide => a.zip(b, out, floor_divide),
        Function::Remainder => a.zip(b, out, |a, b| a.wrapping_sub(floor_divide(a, b).wrapping_mul(b))),
        _ => a.zip(b, out, i64::wrapping_rem),
    }
    Ok(())
}

fn floor_divide(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

fn power(base: Operand<'_, i64>, exponent: Operand<'_, i64>, out: &mut [i64]) -> Result<()> {
    if let Operand::Uniform(exponent @ ..0) = exponent {
        return Err(TensorError::InvalidArgument(format!(
            "pow: an integer raised to the negative power {exponent} is not an integer; write the base as a float"
        )));
    }
    base.zip(exponent, out, |base, exponent| match (base, exponent) {
        (_, 0..) => wrapping_power(base, exponent),
        (1, _) => 1,
        (-1, _) => 1 - 2 * (exponent & 1),
        _ => 0,
    });
    Ok(())
}

/// Exponentiation by squaring, modulo 2⁶⁴.
fn wrapping_power(mut base: i64, mut exponent: i64) -> i64 {
    let mut power = 1i64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    power
}
