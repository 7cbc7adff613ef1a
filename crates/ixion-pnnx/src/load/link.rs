//! Adding the operator of one line to a graph.

use crate::graph::{Graph, GraphError};
use crate::ids::OperatorId;
use crate::text::Line;

// ANCHOR: unlinked
/// The reason why a line cannot be added to a graph.
#[derive(Debug, Clone, PartialEq)]
pub enum Unlinked<'a> {
    /// An earlier operator has this name.
    DuplicateOperator(&'a str),
    /// No earlier operator computes this operand.
    UnknownOperand(&'a str),
    /// This operand is already computed.
    ComputedTwice(&'a str),
    /// The graph rejects the connection.
    Refused(GraphError),
}
// ANCHOR_END: unlinked

impl From<GraphError> for Unlinked<'_> {
    fn from(error: GraphError) -> Self {
        Self::Refused(error)
    }
}

// ANCHOR: link
/// Adds the operator of a line to a graph, and connects it to its inputs, which earlier operators compute, and to its
/// outputs. The fields of the line are ignored.
///
/// # Errors
/// [`Unlinked`] with the offending name. The operator is then in the graph without some of its connections, unless its
/// own name is a duplicate.
pub fn link<'a>(graph: &mut Graph, line: &Line<'a>) -> Result<OperatorId, Unlinked<'a>> {
    // ANCHOR: link_todo -- task 5: the operator, its inputs by name, and new operands for its outputs
    let duplicate = |_| Unlinked::DuplicateOperator(line.name);
    let operator = graph.new_operator(line.op_type, line.name).map_err(duplicate)?;
    for &name in &line.inputs {
        let operand = graph.operand_named(name).ok_or(Unlinked::UnknownOperand(name))?;
        graph.connect_input(operator, operand, None)?;
    }
    for &name in &line.outputs {
        let operand = graph.new_operand(name).map_err(|_| Unlinked::ComputedTwice(name))?;
        graph.connect_output(operator, operand)?;
    }
    Ok(operator)
    // ANCHOR_END: link_todo
}
// ANCHOR_END: link
