//! What operands of the file stand for.

use crate::graph::OperandIndex;
use crate::op::RuntimeParameter;
use crate::pnnx::OperandId;
use std::sync::Arc;

// ANCHOR: value
/// What an operand of the file stands for. Cloning shares the items of a tuple.
#[derive(Debug, Clone)]
pub enum Value {
    /// A tensor of the runtime graph.
    Tensor(OperandIndex),
    /// A value that the file gives: a number, a word, `None` or a list of such.
    Constant(Arc<Constant>),
    /// A tuple or a list.
    Tuple(Arc<Tuple>),
}
// ANCHOR_END: value

/// A value that the file gives, which becomes a parameter of the operators that use it.
#[derive(Debug)]
pub struct Constant {
    /// The value and its text.
    pub parameter: RuntimeParameter,
    /// The operand that it came from; none for an item of a list.
    pub operand: Option<OperandId>,
}

/// The items of a tuple, and how many tensors and levels are in it: a small file can describe a huge one.
#[derive(Debug)]
pub struct Tuple {
    /// The items in their order.
    pub items: Vec<Value>,
    /// How many tensors and constants are in it, in all levels.
    pub tensors: usize,
    /// How many levels there are.
    pub depth: usize,
}

impl Value {
    /// A tuple of these items.
    pub fn tuple(items: Vec<Value>) -> Self {
        let tensors = items.iter().map(Value::tensors).fold(0, usize::saturating_add);
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        Value::Tuple(Arc::new(Tuple { items, tensors, depth }))
    }

    /// A constant from its text.
    pub fn constant(raw: &str, operand: Option<OperandId>) -> Self {
        Value::Constant(Arc::new(Constant { parameter: RuntimeParameter::parse(raw), operand }))
    }

    /// How many tensors and constants it stands for.
    pub fn tensors(&self) -> usize {
        match self {
            Value::Tensor(_) | Value::Constant(_) => 1,
            Value::Tuple(tuple) => tuple.tensors,
        }
    }

    /// How many levels of tuples it has: 0 for a tensor.
    pub fn depth(&self) -> usize {
        match self {
            Value::Tensor(_) | Value::Constant(_) => 0,
            Value::Tuple(tuple) => tuple.depth,
        }
    }
}
