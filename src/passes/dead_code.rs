//! Dead code elimination.

use super::{Outcome, Pass, PassContext, PassError};
use crate::pnnx::{Graph, GraphError, OperatorId};

/// Removes operators whose results are not used. The model's inputs stay.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeadCode;

impl Pass for DeadCode {
    fn name(&self) -> &str {
        "dead_code"
    }

    fn doc(&self) -> &str {
        "Removes operators whose results are not used."
    }

    fn run(&self, graph: &mut Graph, _: &mut PassContext) -> Result<Outcome, PassError> {
        let fired = remove_dead(graph).map_err(PassError::edit(self.name()))?;
        Ok(Outcome { fired, ..Outcome::default() })
    }
}

// ANCHOR: dead_code
/// Returns true if an operator can be removed: none of its results has a consumer. False for the model's inputs and
/// outputs.
pub fn is_dead(graph: &Graph, id: OperatorId) -> bool {
    // ANCHOR: is_dead_todo -- task 1: return whether no result of the operator has a consumer
    let operator = graph.operator(id);
    let unused = |&output| graph.operand(output).consumers().is_empty();
    !matches!(operator.op_type(), "pnnx.Input" | "pnnx.Output") && operator.outputs().iter().all(unused)
    // ANCHOR_END: is_dead_todo
}

/// Removes operators whose results have no consumer, and then those that only such operators read. Returns the number of
/// operators removed.
///
/// ```
/// use ixion::{Limits, passes::dead_code::remove_dead, pnnx::Graph};
/// let text = "7767517\n4 3\npnnx.Input in 0 1 x\nF.relu a 1 1 x y\nF.tanh b 1 1 x z\npnnx.Output out 1 0 y\n";
/// let mut graph = Graph::parse(text, &Limits::default())?;
/// assert_eq!(remove_dead(&mut graph)?, 1);
/// assert_eq!(graph.operator_named("b"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the graph rejects a removal.
pub fn remove_dead(graph: &mut Graph) -> Result<usize, GraphError> {
    // ANCHOR: remove_dead_todo -- task 1: remove dead operators, and those that become dead by it
    let mut removed = 0;
    for id in graph.operator_ids().to_vec().into_iter().rev() {
        if is_dead(graph, id) {
            graph.remove_operator(id)?;
            removed += 1;
        }
    }
    Ok(removed)
    // ANCHOR_END: remove_dead_todo
}
// ANCHOR_END: dead_code

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    #[test]
    fn unused_operators_vanish_with_their_unused_producers() {
        let mut graph = graph(
            "pnnx.Input in 0 1 0
             pnnx.Input unused 0 1 1
             nn.ReLU a 1 1 0 2
             nn.Tanh b 1 1 0 3
             nn.Tanh c 1 1 3 4
             pnnx.Output out 1 0 2",
        );
        assert_eq!(run(&DeadCode, &mut graph).fired, 2);
        assert_eq!(lines(&graph), ["nn.ReLU(0)->2"]);
        assert!(graph.operator_named("unused").is_some());
    }

    #[test]
    fn an_operator_with_one_used_result_stays() {
        let mut graph = graph(
            "pnnx.Input in 0 1 0
             torch.chunk a 1 2 0 1 2 chunks=2 dim=0
             pnnx.Output out 1 0 2",
        );
        assert_eq!(run(&DeadCode, &mut graph).fired, 0);
    }
}
