//! The graph of a model: operators and the operands between them.
//!
//! Operators and operands are stored in two lists and refer to each other by [`OperatorId`] and [`OperandId`].
//! An id stays valid while others are added, moved or removed, and is never reused. The execution order of the
//! operators is a third list.

mod check;
mod edit;
mod error;
mod weights;

pub use error::GraphError;

use super::ids::{OperandId, OperatorId};
use super::operand::Operand;
use super::operator::Operator;
use std::collections::HashMap;
use std::sync::Arc;

/// A PNNX model.
///
/// ```
/// use ixion_pnnx::Graph;
/// let mut graph = Graph::new();
/// let input = graph.new_operator("pnnx.Input", "in")?;
/// let relu = graph.new_operator("F.relu", "relu")?;
/// let x = graph.new_operand("x")?;
/// let y = graph.new_operand("y")?;
/// graph.connect_output(input, x)?;
/// graph.connect_input(relu, x, Some("input"))?;
/// graph.connect_output(relu, y)?;
/// assert_eq!(graph.operand(x).consumers(), [relu]);
/// assert_eq!(
///     graph.to_param_text(),
///     "7767517\n\
///      2 2\n\
///      pnnx.Input               in                       0 1 x\n\
///      F.relu                   relu                     1 1 x y $input=x\n"
/// );
/// # Ok::<(), ixion_pnnx::GraphError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Graph {
    operators: Vec<Option<Operator>>,
    operands: Vec<Option<Operand>>,
    order: Vec<OperatorId>,
    operators_by_name: HashMap<Arc<str>, OperatorId>,
    operands_by_name: HashMap<Arc<str>, OperandId>,
    pub(super) archive: Option<Arc<super::Archive>>,
}

impl Graph {
    /// A graph without operators.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reserves capacity, so that the lists do not reallocate while a large file is loaded.
    pub(super) fn with_capacity(operators: usize, operands: usize) -> Self {
        Self {
            operators: Vec::with_capacity(operators),
            operands: Vec::with_capacity(operands),
            order: Vec::with_capacity(operators),
            operators_by_name: HashMap::with_capacity(operators),
            operands_by_name: HashMap::with_capacity(operands),
            archive: None,
        }
    }

    /// All operators in execution order.
    pub fn operators(&self) -> impl Iterator<Item = (OperatorId, &Operator)> {
        self.order.iter().filter_map(|&id| Some((id, self.get_operator(id)?)))
    }

    /// The ids of all operators in execution order. Copy the list to edit the graph while iterating.
    pub fn operator_ids(&self) -> &[OperatorId] {
        &self.order
    }

    /// All operands in the order of their creation.
    pub fn operands(&self) -> impl Iterator<Item = (OperandId, &Operand)> {
        self.operands
            .iter()
            .enumerate()
            .filter_map(|(index, operand)| Some((OperandId::at(index)?, operand.as_ref()?)))
    }

    /// The number of operators.
    pub fn operator_count(&self) -> usize {
        self.order.len()
    }

    /// The number of operands.
    pub fn operand_count(&self) -> usize {
        self.operands_by_name.len()
    }

    /// The operator with this id.
    ///
    /// # Panics
    /// Panics if the operator was removed, or `id` belongs to a larger graph: a mistake in the calling code,
    /// which no file can cause. [`Graph::get_operator`] does not panic.
    #[allow(clippy::panic)]
    pub fn operator(&self, id: OperatorId) -> &Operator {
        match self.get_operator(id) {
            Some(operator) => operator,
            None => panic!("{id:?} is not an operator of this graph"),
        }
    }

    /// The operand with this id.
    ///
    /// # Panics
    /// Panics in the same cases as [`Graph::operator`]. [`Graph::get_operand`] does not panic.
    #[allow(clippy::panic)]
    pub fn operand(&self, id: OperandId) -> &Operand {
        match self.get_operand(id) {
            Some(operand) => operand,
            None => panic!("{id:?} is not an operand of this graph"),
        }
    }

    /// The operator with this id, or `None` if it was removed.
    pub fn get_operator(&self, id: OperatorId) -> Option<&Operator> {
        self.operators.get(id.index())?.as_ref()
    }

    /// The operand with this id, or `None` if it was removed.
    pub fn get_operand(&self, id: OperandId) -> Option<&Operand> {
        self.operands.get(id.index())?.as_ref()
    }

    /// The operator with this name.
    pub fn operator_named(&self, name: &str) -> Option<OperatorId> {
        self.operators_by_name.get(name).copied()
    }

    /// The operand with this name.
    pub fn operand_named(&self, name: &str) -> Option<OperandId> {
        self.operands_by_name.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Limits;

    const TEXT: &str = "7767517\n3 2\n\
        pnnx.Input in 0 1 x\n\
        torch.add add 2 1 x x y $input=x $other=x\n\
        pnnx.Output out 1 0 y\n";

    #[test]
    fn everything_is_found_by_id_and_by_name() {
        let graph = Graph::parse(TEXT, &Limits::default()).unwrap();
        assert_eq!((graph.operator_count(), graph.operand_count()), (3, 2));
        let names: Vec<&str> = graph.operators().map(|(_, operator)| operator.name()).collect();
        assert_eq!(names, ["in", "add", "out"]);
        let add = graph.operator_named("add").unwrap();
        let x = graph.operand_named("x").unwrap();
        assert_eq!(graph.operator(add).inputs(), [x, x]);
        assert_eq!(graph.operand(x).consumers(), [add, add]);
        assert_eq!(graph.operand(x).producer(), graph.operator_named("in"));
        assert_eq!((graph.operator_named("x"), graph.operand_named("add")), (None, None));
    }

    #[test]
    fn a_graph_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Graph>();
        shared::<crate::Archive>();
        shared::<crate::Attribute>();
    }

    #[test]
    fn ids_of_another_graph_are_not_found() {
        let graph = Graph::parse(TEXT, &Limits::default()).unwrap();
        let empty = Graph::new();
        let (operator, operand) = (graph.operator_ids()[0], graph.operand_named("x").unwrap());
        assert!(empty.get_operator(operator).is_none() && empty.get_operand(operand).is_none());
    }
}
