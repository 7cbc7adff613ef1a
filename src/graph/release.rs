//! When the tensors of a running graph can be released.

use super::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};

// ANCHOR: last_user
/// The last operator that needs an operand: its last consumer, or its producer if it has no consumers.
///
/// `None` for an output of the model, which outlives the run, and for an input without consumers.
pub fn last_user(operand: &RuntimeOperand) -> Option<OperatorIndex> {
    // ANCHOR: last_user_todo -- task 4: the last consumer, or the producer if there is none
    if operand.is_output() {
        return None;
    }
    operand.consumers().iter().copied().max().or(operand.producer())
    // ANCHOR_END: last_user_todo
}
// ANCHOR_END: last_user

// ANCHOR: releases
/// For each operator of a built graph, the operands that are no longer needed once it has run.
///
/// # Panics
/// Panics if an operand refers to an operator that is not in `operators`.
pub fn releases(operators: &[RuntimeOperator], operands: &[RuntimeOperand]) -> Vec<Vec<OperandIndex>> {
    // ANCHOR: releases_todo -- task 5: add each operand to the list of its last user, if it has one
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
