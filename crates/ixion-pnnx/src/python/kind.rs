//! What an operand is in Python: a tensor, a number, a list, or a constant that is written where it is used.

use super::literal::literal;
use crate::Value;
use crate::expression::Expr;
use crate::operator::Operator;
use crate::parameter::Parameter;

/// What an operand is in Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A tensor.
    Tensor,
    /// A plain number, which most of PyTorch's functions do not accept as a tensor.
    Number,
    /// A list or tuple.
    List,
    /// `None`, a string, or a result of TorchScript that may be a number or a tensor without axes.
    Other,
}

/// A constant as Python source.
pub(super) struct Constant {
    pub(super) text: String,
    pub(super) kind: Kind,
}

impl Constant {
    /// The constant that an operator is: a `prim::Constant`, which PNNX leaves at optimisation level 0, or an expression that
    /// is a literal, into which PNNX converts it at higher levels.
    pub(super) fn of(operator: &Operator) -> Option<Self> {
        let parameter = constant(operator)?;
        let is_infinite = parameter.as_f64().is_ok_and(|value| !value.is_finite());
        let kind = match parameter.value() {
            Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Complex(_) => Kind::Number,
            Value::Str(_) if is_infinite => Kind::Number,
            Value::Str(_) => Kind::Other,
            Value::None if parameter.raw() == "None" => Kind::Other,
            _ => Kind::List,
        };
        Some(Self { text: literal(&parameter), kind })
    }
}

/// The value of an operator that is a constant.
pub(super) fn constant(operator: &Operator) -> Option<Parameter> {
    if !operator.inputs().is_empty() {
        return None;
    }
    match operator.op_type() {
        "prim::Constant" => {
            Some(operator.param("value").cloned().unwrap_or_else(|| Parameter::parse("None")))
        }
        "pnnx.Expression" => {
            let raw = operator.param("expr")?.raw();
            (!computes(raw)).then(|| Parameter::parse(raw))
        }
        _ => None,
    }
}

/// Returns true for operators that unpack a tuple or list.
pub(super) fn is_unpack(operator: &Operator) -> bool {
    matches!(operator.op_type(), "prim::ListUnpack" | "prim::TupleUnpack")
}

/// Returns true if a text is an expression that computes something. Text that is no expression, such as the equation of an
/// einsum, is a string.
fn computes(text: &str) -> bool {
    let mut computes = false;
    if let Ok(expr) = Expr::parse(text) {
        expr.walk(&mut |part| computes |= matches!(part, Expr::Call { .. } | Expr::Input(_)));
    }
    computes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(op_type: &str, key: &str, raw: &str) -> Option<(String, Kind)> {
        let mut operator = Operator::new(op_type.to_owned(), "c".into());
        operator.params.insert(key.to_owned(), Parameter::parse(raw));
        Constant::of(&operator).map(|constant| (constant.text, constant.kind))
    }

    #[test]
    fn constants_are_literals() {
        let expression = |raw| found("pnnx.Expression", "expr", raw);
        let is = |text: &str, kind| Some((text.to_owned(), kind));
        assert_eq!(expression("-1"), is("-1", Kind::Number));
        assert_eq!(expression("[0,2]"), is("(0, 2)", Kind::List));
        assert_eq!(expression("[]"), is("()", Kind::List));
        assert_eq!(expression("None"), is("None", Kind::Other));
        assert_eq!(expression("ij,jk->ik"), is("\"ij,jk->ik\"", Kind::Other));
        assert_eq!(found("prim::Constant", "value", "inf"), is("float(\"inf\")", Kind::Number));
        assert_eq!(expression("add(1,2)"), None);
        assert_eq!(found("F.relu", "expr", "1"), None);
    }
}
