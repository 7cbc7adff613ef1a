//! The values that operands of the file represent.

use crate::graph::OperandIndex;
use crate::op::RuntimeParameter;
use crate::pnnx::OperandId;
use std::sync::Arc;

// ANCHOR: value
/// The value that an operand of the file represents. Cloning shares the items of a tuple.
#[derive(Debug, Clone)]
pub enum Value {
    /// A tensor of the runtime graph.
    Tensor(OperandIndex),
    /// A constant in the file: a number, a string, `None` or a list of these.
    Constant(Arc<Constant>),
    /// A tuple or a list.
    Tuple(Arc<Tuple>),
}
// ANCHOR_END: value

/// A constant in the file, which becomes a parameter of the operators that use it.
#[derive(Debug)]
pub struct Constant {
    /// The value and its text.
    pub parameter: RuntimeParameter,
    /// The operand that it comes from; `None` for an item of a list.
    pub operand: Option<OperandId>,
}

/// The items of a tuple, with its total size and depth: a small file can describe a huge tuple.
#[derive(Debug)]
pub struct Tuple {
    /// The items in order.
    pub items: Vec<Value>,
    /// The number of tensors and constants in all levels; an empty tuple counts as one.
    pub tensors: usize,
    /// The number of levels.
    pub depth: usize,
}

impl Value {
    /// A tuple of these items.
    pub fn tuple(items: Vec<Value>) -> Self {
        let tensors = items.iter().map(Value::tensors).fold(0, usize::saturating_add).max(1);
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        Value::Tuple(Arc::new(Tuple { items, tensors, depth }))
    }

    /// A constant from its text.
    pub fn constant(raw: &str, operand: Option<OperandId>) -> Self {
        Value::Constant(Arc::new(Constant { parameter: RuntimeParameter::parse(raw), operand }))
    }

    /// The number of tensors and constants in the value; an empty tuple counts as one.
    pub fn tensors(&self) -> usize {
        match self {
            Value::Tensor(_) | Value::Constant(_) => 1,
            Value::Tuple(tuple) => tuple.tensors,
        }
    }

    /// The number of tuple levels: 0 for a tensor or a constant.
    pub fn depth(&self) -> usize {
        match self {
            Value::Tensor(_) | Value::Constant(_) => 0,
            Value::Tuple(tuple) => tuple.depth,
        }
    }
}
