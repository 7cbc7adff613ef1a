//! Functions of complex numbers, in `Complex<f32>` and `Complex<f64>`.
//!
//! All functions but sums and products are computed in `Complex<f64>`: one compiled version serves both types, and the
//! formulas neither overflow nor cancel for single precision.

mod inverse;

use super::{Operand, undefined};
use crate::Float;
use ixion_tensor::Function;
use ixion_tensor::{Complex, Element, Result};
use num_traits::One;

type Z = Complex<f64>;

pub(super) fn apply<T: Float + Into<f64>>(
    function: Function,
    a: Operand<'_, Complex<T>>,
    b: Operand<'_, Complex<T>>,
    out: &mut [Complex<T>],
) -> Result<()>
where
    Complex<T>: Element,
{
    match function {
        Function::Add => a.zip(b, out, |a, b| a + b),
        Function::Sub => a.zip(b, out, |a, b| a - b),
        Function::Mul => a.zip(b, out, |a, b| a * b),
        _ => {
            if let Some(unary) = unary(function) {
                a.map(out, |a| rounded(unary(exact(a))));
            } else if let Some(binary) = binary(function) {
                a.zip(b, out, |a, b| rounded(binary(exact(a), exact(b))));
            } else {
                return Err(undefined(function, Complex::<T>::DTYPE));
            }
        }
    }
    Ok(())
}

fn exact<T: Into<f64>>(z: Complex<T>) -> Z {
    Z::new(z.re.into(), z.im.into())
}

fn rounded<T: Float>(z: Z) -> Complex<T> {
    Complex::new(T::of(z.re), T::of(z.im))
}

fn unary(function: Function) -> Option<fn(Z) -> Z> {
    use Function as F;
    Some(match function {
        F::Abs => |z| z.norm().into(),
        F::Acos => inverse::acos,
        F::Acosh => inverse::acosh,
        F::Asin => inverse::asin,
        F::Asinh => inverse::asinh,
        F::Atan => inverse::atan,
        F::Atanh => inverse::atanh,
        F::Cos => |z| z.cos(),
        F::Cosh => |z| z.cosh(),
        F::Exp => |z| z.exp(),
        F::Expm1 => |z| z.exp() - 1.0,
        F::Log => |z| z.ln(),
        F::Log10 => |z| z.log10(),
        F::Log1p => |z| (z + 1.0).ln(),
        F::Neg => |z| -z,
        F::Reciprocal => inverse::inverse,
        F::Rsqrt => |z| inverse::inverse(z.sqrt()),
        F::Sin => |z| z.sin(),
        F::Sinh => |z| z.sinh(),
        F::Sqrt => |z| z.sqrt(),
        F::Square => |z| z * z,
        F::Tan => |z| turned(tanh, z),
        F::Tanh => tanh,
        _ => return None,
    })
}

/// Beyond these real parts, the hyperbolic tangent is ±1 to the precision of `f64`, although its terms overflow.
fn tanh(z: Z) -> Z {
    if z.re.abs() > 350.0 { Z::new(1f64.copysign(z.re), 0f64.copysign((2.0 * z.im).sin())) } else { z.tanh() }
}

/// f(iz)/i, which turns a hyperbolic function into the trigonometric one.
fn turned(f: fn(Z) -> Z, z: Z) -> Z {
    let value = f(Z::new(-z.im, z.re));
    Z::new(value.im, -value.re)
}

fn binary(function: Function) -> Option<fn(Z, Z) -> Z> {
    Some(match function {
        Function::Div => inverse::divide,
        Function::Pow => |a, b| a.powc(b),
        Function::Logaddexp => |a, b| {
            let (smaller, larger) = if a.re < b.re { (a, b) } else { (b, a) };
            larger + (Z::one() + (smaller - larger).exp()).ln()
        },
        _ => return None,
    })
}
