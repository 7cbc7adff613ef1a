//! Expressions in reverse Polish notation, evaluated step by step on whole arrays.

use ixion_tensor::Function;
use ndarray::{ArrayD, ArrayViewD, Zip, arr0};

// ANCHOR: step
/// One step of an expression in reverse Polish notation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Pushes an input onto the stack.
    Input(usize),
    /// Pushes a number onto the stack.
    Number(f64),
    /// Pops this many arguments from the stack, and pushes the value of the function.
    Call(Function, usize),
}
// ANCHOR_END: step

// ANCHOR: calculate
/// Evaluates the steps on a stack of arrays. Returns `None` if an input or an argument is missing, if shapes do not
/// match, if [`unary`] and [`binary`] do not support a function, or if more than one value is left.
pub fn calculate(steps: &[Step], inputs: &[ArrayViewD<'_, f64>]) -> Option<ArrayD<f64>> {
    // ANCHOR: calculate_todo -- task 5: every step pushes one array onto the stack; a call pops its arguments first
    let mut stack: Vec<ArrayD<f64>> = Vec::new();
    for step in steps {
        let value = match step {
            Step::Input(position) => inputs.get(*position)?.to_owned(),
            Step::Number(number) => arr0(*number).into_dyn(),
            Step::Call(function, count) => {
                let args = stack.split_off(stack.len().checked_sub(*count)?);
                apply(*function, &args)?
            }
        };
        stack.push(value);
    }
    let value = stack.pop()?;
    stack.is_empty().then_some(value)
    // ANCHOR_END: calculate_todo
}

/// The value of a function of one or two arrays.
fn apply(function: Function, args: &[ArrayD<f64>]) -> Option<ArrayD<f64>> {
    match args {
        [x] => Some(x.mapv(unary(function)?)),
        [a, b] => zip(a, b, binary(function)?),
        _ => None,
    }
}

/// Applies a function to each pair of elements of two arrays that are broadcast against each other.
fn zip(a: &ArrayD<f64>, b: &ArrayD<f64>, function: fn(f64, f64) -> f64) -> Option<ArrayD<f64>> {
    // ANCHOR: zip_todo -- task 5: broadcast both to their common shape, then apply the function to each pair
    let shape = ixion_tensor::broadcast_shapes(a.shape(), b.shape()).ok()?;
    let (a, b) = (a.broadcast(shape.dims())?, b.broadcast(shape.dims())?);
    Some(Zip::from(a).and(b).map_collect(|&a, &b| function(a, b)))
    // ANCHOR_END: zip_todo
}
// ANCHOR_END: calculate

/// The implementation of a function of one real number; `None` if the function has more arguments, or is not defined for
/// real numbers.
pub fn unary(function: Function) -> Option<fn(f64) -> f64> {
    use Function as F;
    Some(match function {
        F::Abs => f64::abs,
        F::Acos => f64::acos,
        F::Acosh => f64::acosh,
        F::Asin => f64::asin,
        F::Asinh => f64::asinh,
        F::Atan => f64::atan,
        F::Atanh => f64::atanh,
        F::Ceil => f64::ceil,
        F::Cos => f64::cos,
        F::Cosh => f64::cosh,
        F::Erf => libm::erf,
        F::Exp => crate::math::exp,
        F::Expm1 => f64::exp_m1,
        F::Floor => f64::floor,
        F::Log => f64::ln,
        F::Log10 => f64::log10,
        F::Log1p => f64::ln_1p,
        F::Neg => |x| -x,
        F::Reciprocal => |x| 1.0 / x,
        F::Round => f64::round_ties_even,
        F::Rsqrt => |x| 1.0 / x.sqrt(),
        F::Sign => |x| if x == 0.0 || x.is_nan() { 0.0 } else { x.signum() },
        F::Sin => f64::sin,
        F::Sinh => f64::sinh,
        F::Sqrt => f64::sqrt,
        F::Square => |x| x * x,
        F::Tan => f64::tan,
        F::Tanh => f64::tanh,
        F::Trunc => f64::trunc,
        _ => return None,
    })
}

/// The implementation of a function of two real numbers; `None` if the function has another number of arguments, or is
/// not defined for real numbers.
pub fn binary(function: Function) -> Option<fn(f64, f64) -> f64> {
    use Function as F;
    Some(match function {
        F::Add => |a, b| a + b,
        F::Sub => |a, b| a - b,
        F::Mul => |a, b| a * b,
        F::Div => |a, b| a / b,
        F::FloorDivide => |a, b| (a / b).floor(),
        F::Remainder => |a, b| if (a % b) * b < 0.0 { a % b + b } else { a % b },
        F::Fmod => |a, b| a % b,
        F::Pow => f64::powf,
        F::Atan2 => f64::atan2,
        F::Max | F::Maximum => |a, b| if a >= b || a.is_nan() { a } else { b },
        F::Min | F::Minimum => |a, b| if a <= b || a.is_nan() { a } else { b },
        F::Logaddexp => |a, b| (a.exp() + b.exp()).ln(),
        _ => return None,
    })
}
