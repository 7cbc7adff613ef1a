//! Functions of complex numbers, in `Complex<f32>` and `Complex<f64>`.
//!
//! All but sums and products go through `Complex<f64>`: one compiled form serves both, and the formulas do not overflow
//! or cancel for numbers of single precision.

use super::number::Number;
use super::{Operand, undefined};
use crate::pnnx::Function;
use crate::tensor::{Complex, Result};
use num_traits::{NumOps, One};

type Z = Complex<f64>;

pub(super) fn apply<T: Number + NumOps>(
    function: Function,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) -> Result<()> {
    match function {
        Function::Add => a.zip(b, out, |a, b| a + b),
        Function::Sub => a.zip(b, out, |a, b| a - b),
        Function::Mul => a.zip(b, out, |a, b| a * b),
        _ => {
            if let Some(unary) = unary(function) {
                a.map(out, |a| T::from_complex(unary(a.to())));
            } else if let Some(binary) = binary(function) {
                a.zip(b, out, |a, b| T::from_complex(binary(a.to(), b.to())));
            } else {
                return Err(undefined(function, T::DTYPE));
            }
        }
    }
    Ok(())
}

fn unary(function: Function) -> Option<fn(Z) -> Z> {
    use Function as F;
    Some(match function {
        F::Abs => |z| z.norm().into(),
        F::Acos => |z| z.acos(),
        F::Acosh => |z| z.acosh(),
        F::Asin => |z| z.asin(),
        F::Asinh => |z| z.asinh(),
        F::Atan => |z| z.atan(),
        F::Atanh => |z| z.atanh(),
        F::Cos => |z| z.cos(),
        F::Cosh => |z| z.cosh(),
        F::Exp => |z| z.exp(),
        F::Expm1 => |z| z.exp() - 1.0,
        F::Log => |z| z.ln(),
        F::Log10 => |z| z.log10(),
        F::Log1p => |z| (z + 1.0).ln(),
        F::Neg => |z| -z,
        F::Reciprocal => |z| z.inv(),
        F::Rsqrt => |z| z.sqrt().inv(),
        F::Sin => |z| z.sin(),
        F::Sinh => |z| z.sinh(),
        F::Sqrt => |z| z.sqrt(),
        F::Square => |z| z * z,
        F::Tan => |z| z.tan(),
        F::Tanh => |z| z.tanh(),
        _ => return None,
    })
}

fn binary(function: Function) -> Option<fn(Z, Z) -> Z> {
    Some(match function {
        Function::Div => |a, b| a / b,
        Function::Pow => |a, b| a.powc(b),
        Function::Logaddexp => |a, b| {
            let (smaller, larger) = if a.re < b.re { (a, b) } else { (b, a) };
            larger + (Z::one() + (smaller - larger).exp()).ln()
        },
        _ => return None,
    })
}
