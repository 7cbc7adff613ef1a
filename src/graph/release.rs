//! When the tensors of a running graph may go.

use super::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};

// ANCHOR: last_user
/// The last operator that needs an operand: the last of those that read it, or, if nobody does, the one that makes it.
///
/// `None` for an output of the model, which outlives the run, and for an input that nobody reads.
pub fn last_user(operand: &RuntimeOperand) -> Option<OperatorIndex> {
    // ANCHOR: last_user_todo -- task 4: the last reader, or the maker of what nobody reads
    if operand.is_output() {
        return None;
    }
    operand.consumers().iter().copied().max().or(operand.producer())
    // ANCHOR_END: last_user_todo
}
// ANCHOR_END: last_user

// ANCHOR: releases
/// For each operator of a built graph, the operands that nobody needs once it has run.
///
/// # Panics
/// When the operands are not those of the operators.
pub fn releases(operators: &[RuntimeOperator], operands: &[RuntimeOperand]) -> Vec<Vec<OperandIndex>> {
    // ANCHOR: releases_todo -- task 5: each operand into the list of its last user, if it has one
    let mut releases = vec![Vec::new(); operators.len()];
    for (position, operand) in operands.iter().enumerate() {
        if let Some(user) = last_user(operand) {
            releases[user.position()].push(OperandIndex::new(position));
        }
    }
    releases
    // ANCHOR_END: releases_todo
}
// ANCHOR_END: releases
