//! Constants of the file as text.

use crate::op::RuntimeParameter;
use crate::pnnx::{self, Expr};

/// The text of a constant in the syntax of expressions, with lists in square brackets.
pub(super) fn expression_text(parameter: &RuntimeParameter) -> String {
    let raw = parameter.raw();
    match raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(body) => format!("[{body}]"),
        None => raw.to_owned(),
    }
}

/// The value of an operator that is a plain constant: a `prim::Constant`, which PNNX leaves at optimisation level 0, or an
/// expression that is a literal, into which PNNX converts it at level 1.
pub(in crate::graph) fn literal(operator: &pnnx::Operator) -> Option<String> {
    if !operator.inputs().is_empty() {
        return None;
    }
    match operator.op_type() {
        "prim::Constant" => Some(operator.param("value").map_or("None", |value| value.raw()).to_owned()),
        // With other parameters, the layer of the expression reports the error.
        "pnnx.Expression" if operator.params().len() == 1 => {
            let raw = operator.param("expr")?.raw();
            // Text that is not an expression, such as the equation of an einsum, is a string.
            let computes = Expr::parse(raw).is_ok_and(|expr| {
                let mut computes = false;
                expr.walk(&mut |part| computes |= matches!(part, Expr::Call { .. } | Expr::Input(_)));
                computes
            });
            (!computes).then(|| raw.to_owned())
        }
        _ => None,
    }
}
