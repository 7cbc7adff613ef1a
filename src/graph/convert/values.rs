//! What operands of the file stand for while a graph is converted.

use crate::graph::{OperandIndex, RuntimeParameter};
use crate::pnnx::{self, Expr, OperandId};
use std::sync::Arc;

/// What an operand of the file stands for. Cloning shares the items of a tuple.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A tensor of the runtime graph.
    Tensor(OperandIndex),
    /// A value that the file gives: a number, a word, `None` or a list of such.
    Constant(Arc<Constant>),
    /// A tuple or a list.
    Tuple(Arc<Tuple>),
}

/// A value that the file gives, which becomes a parameter of the operators that use it.
#[derive(Debug)]
pub(super) struct Constant {
    pub(super) parameter: RuntimeParameter,
    /// The operand that it came from; none for an item of a list.
    pub(super) operand: Option<OperandId>,
}

/// The items of a tuple, and how many tensors and levels are in it: a small file can describe a huge one.
#[derive(Debug)]
pub(super) struct Tuple {
    pub(super) items: Vec<Value>,
    pub(super) tensors: usize,
    pub(super) depth: usize,
}

/// The most levels of tuples within tuples. PyTorch's models have two or three.
pub(super) const MAX_DEPTH: usize = 64;

impl Value {
    pub(super) fn tuple(items: Vec<Value>) -> Self {
        let tensors = items.iter().map(Value::tensors).fold(0, usize::saturating_add);
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        Value::Tuple(Arc::new(Tuple { items, tensors, depth }))
    }

    pub(super) fn constant(raw: &str, operand: Option<OperandId>) -> Self {
        Value::Constant(Arc::new(Constant { parameter: RuntimeParameter::parse(raw), operand }))
    }

    pub(super) fn tensors(&self) -> usize {
        match self {
            Value::Tensor(_) | Value::Constant(_) => 1,
            Value::Tuple(tuple) => tuple.tensors,
        }
    }

    pub(super) fn depth(&self) -> usize {
        match self {
            Value::Tensor(_) | Value::Constant(_) => 0,
            Value::Tuple(tuple) => tuple.depth,
        }
    }
}

/// The text of a constant as an expression has it: lists in square brackets.
pub(super) fn expression_text(parameter: &RuntimeParameter) -> String {
    let raw = parameter.raw();
    match raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(body) => format!("[{body}]"),
        None => raw.to_owned(),
    }
}

/// The value that an operator of the file is, if it is nothing but a value: a `prim::Constant`, which PNNX leaves at
/// optimisation level 0, or an expression of a literal, which it makes of that at level 1.
pub(super) fn literal(operator: &pnnx::Operator) -> Option<String> {
    if !operator.inputs().is_empty() {
        return None;
    }
    match operator.op_type() {
        "prim::Constant" => Some(operator.param("value").map_or("None", |value| value.raw()).to_owned()),
        "pnnx.Expression" => {
            let raw = operator.param("expr")?.raw();
            // What is no expression, such as the equation of an einsum, is a word.
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
