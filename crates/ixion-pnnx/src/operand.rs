//! Operands: the values that operators compute and read.

use super::ids::{Few, OperatorId};
use super::parameter::Parameter;
use ixion_tensor::DType;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One size of an operand's shape.
///
/// PNNX records the shapes of a run with sample inputs, so they are only hints.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A known size.
    Fixed(u64),
    /// `?`: depends on the input.
    Unknown,
    /// `%name`: depends on the input; equal names mean equal sizes.
    Named(String),
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Unknown => f.write_str("?"),
            Self::Named(name) => write!(f, "%{name}"),
        }
    }
}

/// A value: usually a tensor, sometimes a tuple, a list or a number.
///
/// It has one producer and any number of consumers. Links are changed through the [`Graph`](super::Graph),
/// which keeps both ends consistent.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    pub(super) name: Arc<str>,
    pub(super) producer: Option<OperatorId>,
    pub(super) consumers: Few<OperatorId>,
    pub(super) dtype: Option<DType>,
    pub(super) shape: Option<Vec<Dim>>,
    pub(super) params: BTreeMap<String, Parameter>,
}

impl Operand {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            producer: None,
            consumers: Few::new(),
            dtype: None,
            shape: None,
            params: BTreeMap::new(),
        }
    }

    /// The name, unique in its graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The operator that computes the value, if it is connected to one.
    pub fn producer(&self) -> Option<OperatorId> {
        self.producer
    }

    /// The operators that read the value, one entry per use: an operator that reads it twice is listed twice.
    pub fn consumers(&self) -> &[OperatorId] {
        &self.consumers
    }

    /// The element type, if the file specifies it. PNNX does not write it for scalars, nor for values that are not
    /// tensors.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The shape, if the file specifies it. PNNX writes neither the shape nor the type of a scalar.
    pub fn shape(&self) -> Option<&[Dim]> {
        self.shape.as_deref()
    }

    /// Notes attached by code. They are not part of the `.param` text.
    pub fn params(&self) -> &BTreeMap<String, Parameter> {
        &self.params
    }

    pub(super) fn add_consumer(&mut self, operator: OperatorId) {
        self.consumers.push(operator);
    }

    /// Removes one use by `operator`.
    pub(super) fn remove_consumer(&mut self, operator: OperatorId) {
        if let Some(index) = self.consumers.iter().position(|&consumer| consumer == operator) {
            self.consumers.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_have_one_entry_per_use() {
        let mut operand = Operand::new("0".into());
        let [a, b, stranger] = [0, 1, 7].map(|index| OperatorId::at(index).unwrap());
        for operator in [a, b, a] {
            operand.add_consumer(operator);
        }
        operand.remove_consumer(a);
        assert_eq!(operand.consumers(), [b, a]);
        operand.remove_consumer(stranger);
        assert_eq!(operand.consumers().len(), 2);
    }

    #[test]
    fn sizes_print_as_in_the_text() {
        let dims = [Dim::Fixed(3), Dim::Unknown, Dim::Named("w".into())];
        assert_eq!(dims.map(|dim| dim.to_string()), ["3", "?", "%w"]);
    }
}
