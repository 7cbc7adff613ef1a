//! A pass that visits the operators one by one.

use super::bypass::{bypass, refuse_bypass};
use super::context::frozen_operators;
use super::{Outcome, Pass, PassContext, PassError};
use crate::pnnx::{Graph, GraphError, OperandId, OperatorId};

/// The result of visiting an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The graph was changed.
    Fired,
    /// The operator is a near match, refused for this reason.
    Refused(String),
    /// The operator does not match.
    Other,
}

/// A pass that visits each operator, except those that data is written through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    pub(super) visit: fn(&mut Graph, &PassContext, OperatorId) -> Result<Verdict, GraphError>,
}

/// Removes an operator that returns its input, unless both must stay.
pub(super) fn remove(
    graph: &mut Graph,
    id: OperatorId,
    output: OperandId,
    input: OperandId,
) -> Result<Verdict, GraphError> {
    if let Some(reason) = refuse_bypass(graph, output, input) {
        return Ok(Verdict::Refused(reason));
    }
    bypass(graph, output, input)?;
    graph.remove_operator(id)?;
    Ok(Verdict::Fired)
}

impl Pass for Visit {
    fn name(&self) -> &str {
        self.name
    }

    fn doc(&self) -> &str {
        self.doc
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        let mut outcome = Outcome::default();
        let frozen = frozen_operators(graph);
        for id in graph.operator_ids().to_vec() {
            context.limits().check_deadline().map_err(PassError::limit(self.name))?;
            let Some(operator) = graph.get_operator(id).filter(|_| !frozen.contains(&id)) else { continue };
            let name = operator.name().to_owned();
            match (self.visit)(graph, context, id).map_err(PassError::edit(self.name))? {
                Verdict::Fired => outcome.fired += 1,
                Verdict::Refused(reason) => outcome.refuse(name, reason),
                Verdict::Other => {}
            }
        }
        if outcome.fired > 0 {
            context.graph_changed();
        }
        Ok(outcome)
    }
}
