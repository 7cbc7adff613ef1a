//! The values of operands: tensors and tuples.

use crate::cli::list;
use ixion::op::TensorMeta;
use std::fmt;
use std::rc::Rc;

/// A tensor: its name, and its element type and shape if known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) meta: Option<TensorMeta>,
}

/// The value of an operand.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Tensor(Known),
    Tuple(Tuple),
}

/// Several values. They are reference-counted, since a chain of forty tuples that each contain the previous one twice would
/// otherwise exhaust the memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tuple {
    pub(super) items: Rc<[Value]>,
    tensors: usize,
    depth: usize,
}

impl Value {
    /// The maximum number of tensors in a tuple, and the maximum nesting. Real models stay far below.
    pub(super) const MAX_TENSORS: usize = 1 << 12;
    const MAX_DEPTH: usize = 64;

    /// A tuple. `None` if it is too large or too deep.
    pub(super) fn tuple(items: Vec<Value>) -> Option<Self> {
        let tensors = items.iter().map(Value::count).fold(0, usize::saturating_add);
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        let is_sane = tensors <= Self::MAX_TENSORS && depth <= Self::MAX_DEPTH;
        is_sane.then(|| Value::Tuple(Tuple { items: items.into(), tensors, depth }))
    }

    /// The number of tensors.
    pub(super) fn count(&self) -> usize {
        match self {
            Value::Tensor(_) => 1,
            Value::Tuple(tuple) => tuple.tensors,
        }
    }

    fn depth(&self) -> usize {
        match self {
            Value::Tensor(_) => 0,
            Value::Tuple(tuple) => tuple.depth,
        }
    }

    /// All tensors, depth first.
    pub(super) fn tensors(&self) -> Vec<&Known> {
        match self {
            Value::Tensor(known) => vec![known],
            Value::Tuple(tuple) => tuple.items.iter().flat_map(Value::tensors).collect(),
        }
    }
}

/// Writes `1×3×8×8 f32`, `?` for an unknown type and shape, and tuples in parentheses.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Tensor(Known { meta: Some(meta), .. }) => write!(f, "{meta}"),
            Value::Tensor(_) => f.write_str("?"),
            Value::Tuple(tuple) => write!(f, "({})", list(&*tuple.items)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_limited_in_size_and_depth() {
        let tensor = Value::Tensor(Known { name: "x".into(), meta: None });
        let pair = |value: Value| Value::tuple(vec![value.clone(), value]);
        assert_eq!(pair(tensor.clone()).unwrap().to_string(), "(?, ?)");
        let doubled = (0..13).try_fold(tensor.clone(), |value, _| pair(value));
        assert!(doubled.is_none());
        let nested = |times| (0..times).try_fold(tensor.clone(), |value, _| Value::tuple(vec![value]));
        assert!(nested(64).is_some_and(|value| value.count() == 1) && nested(65).is_none());
    }
}
