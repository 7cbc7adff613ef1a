//! Operators that come one after the other and are one.

use super::writes::written_through;
use super::{Facts, Outcome, PassContext, PassError};
use crate::pnnx::{Graph, GraphError, OperatorId};

/// An operator and the one before it, of which one would do.
pub(super) trait Chain: Sized {
    /// What becomes of the last operator.
    type Plan;

    /// The chain that ends with this operator, where there is one.
    fn at(graph: &Graph, facts: &Facts, last: OperatorId) -> Option<Self>;

    /// What is to be done, or why nothing can be.
    fn plan(&self, graph: &Graph, facts: &Facts) -> Result<Self::Plan, String>;

    /// Does it.
    fn apply(&self, graph: &mut Graph, plan: Self::Plan) -> Result<(), GraphError>;
}

/// Shortens all chains of a graph, but those that data is written through.
pub(super) fn shorten<C: Chain>(
    pass: &str,
    graph: &mut Graph,
    context: &PassContext,
) -> Result<Outcome, PassError> {
    let mut outcome = Outcome::default();
    let (frozen, facts) = (written_through(graph), context.facts(graph));
    for id in graph.operator_ids().to_vec() {
        context.limits().check_deadline().map_err(PassError::limit(pass))?;
        let Some(chain) = C::at(graph, facts, id).filter(|_| !frozen.contains(&id)) else { continue };
        match chain.plan(graph, facts) {
            Ok(plan) => {
                chain.apply(graph, plan).map_err(PassError::edit(pass))?;
                outcome.fired += 1;
            }
            Err(reason) => outcome.refuse(graph.operator(id).name(), reason),
        }
    }
    Ok(outcome)
}
