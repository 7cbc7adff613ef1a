//! A pass that visits the operators one by one.

use crate::passes::{Facts, Outcome, Pass, PassContext, PassError};
use crate::pnnx::{Graph, GraphError, OperatorId};

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

/// A pass that visits each operator, with the known types and shapes.
#[derive(Debug, Clone, Copy)]
pub(in crate::passes) struct Visit {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    pub(super) visit: fn(&mut Graph, &Facts, OperatorId) -> Result<Verdict, GraphError>,
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
        let facts = context.facts(graph);
        for id in graph.operator_ids().to_vec() {
            context.limits().check_deadline().map_err(PassError::limit(self.name))?;
            let Some(operator) = graph.get_operator(id) else { continue };
            let name = operator.name().to_owned();
            match (self.visit)(graph, facts, id).map_err(PassError::edit(self.name))? {
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
