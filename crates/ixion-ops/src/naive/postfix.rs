//! Expressions in reverse Polish notation, and their evaluation.

use ixion_kernels::naive::{Step, calculate};
use ixion_pnnx::Expr;
use ndarray::{ArrayD, ArrayViewD};

/// Evaluates an expression on arrays of `f64`. `None` if it is not purely real arithmetic: lists and conversions are not
/// supported, and integers are treated as floats.
///
/// ```
/// use ixion_ops::naive::evaluate;
/// let x = ndarray::arr1(&[1.0, 4.0]).into_dyn();
/// let y = evaluate(&"add(sqrt(@0),0.5)".parse()?, &[x.view()]).unwrap();
/// assert_eq!(y, ndarray::arr1(&[1.5, 2.5]).into_dyn());
/// # Ok::<(), ixion_pnnx::ExpressionError>(())
/// ```
pub fn evaluate(expr: &Expr, inputs: &[ArrayViewD<'_, f64>]) -> Option<ArrayD<f64>> {
    calculate(&postfix(expr)?, inputs)
}

// ANCHOR: postfix
/// An expression in reverse Polish notation, with every function after its arguments. `None` for lists, words, bools and
/// complex numbers.
pub fn postfix(expr: &Expr) -> Option<Vec<Step>> {
    // ANCHOR: postfix_todo -- task 4: a leaf is one step; a call is the steps of its arguments, and one more
    match expr {
        Expr::Input(position) => Some(vec![Step::Input(*position)]),
        Expr::Int(number) => Some(vec![Step::Number(*number as f64)]),
        Expr::Float(number) => Some(vec![Step::Number(*number)]),
        Expr::Call { function, args } => {
            let mut steps = Vec::new();
            for arg in args {
                steps.extend(postfix(arg)?);
            }
            steps.push(Step::Call(*function, args.len()));
            Some(steps)
        }
        _ => None,
    }
    // ANCHOR_END: postfix_todo
}
// ANCHOR_END: postfix
