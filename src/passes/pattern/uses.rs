//! Who reads what a match would make vanish.

use crate::pnnx::{Graph, OperandId, OperatorId};
use std::collections::HashSet;

// ANCHOR: used_elsewhere
/// An operator that reads an operand, though it is none of those that will be replaced. Returning it from the model is
/// reading it, too.
pub fn used_elsewhere(
    graph: &Graph,
    operand: OperandId,
    replaced: &HashSet<OperatorId>,
) -> Option<OperatorId> {
    // ANCHOR: used_elsewhere_todo -- task 4: the first consumer that is not replaced
    graph.operand(operand).consumers().iter().copied().find(|consumer| !replaced.contains(consumer))
    // ANCHOR_END: used_elsewhere_todo
}
// ANCHOR_END: used_elsewhere
