//! Pairs of consecutive operators that one operator can replace.

use super::writes::frozen_operators;
use super::{Facts, Outcome, PassContext, PassError};
use crate::pnnx::{Graph, GraphError, OperatorId};

/// An operator and its predecessor, which one operator can replace.
pub(super) trait Chain: Sized {
    /// The change to the last operator.
    type Change;

    /// The chain that ends with this operator, if any.
    fn at(graph: &Graph, facts: &Facts, last: OperatorId) -> Option<Self>;

    /// The change that shortens the chain, or why there is none.
    fn plan(&self, graph: &Graph, facts: &Facts) -> Result<Self::Change, String>;

    /// Applies a change.
    fn apply(&self, graph: &mut Graph, plan: Self::Change) -> Result<(), GraphError>;
}

/// Shortens all chains of a graph, except those that data is written through.
pub(super) fn shorten<C: Chain>(
    pass: &str,
    graph: &mut Graph,
    context: &PassContext,
) -> Result<Outcome, PassError> {
    let mut outcome = Outcome::default();
    let (frozen, facts) = (frozen_operators(graph), context.facts(graph));
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
