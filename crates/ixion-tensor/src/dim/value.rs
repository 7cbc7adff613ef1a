//! Evaluation of expressions whose symbols are known.

use super::{Dim, Leaf, Operation};

// ANCHOR: divide
/// The quotient rounded towards minus infinity. Dividing by zero gives zero; overflow gives `i64::MAX`.
pub fn floor_div(left: i64, right: i64) -> i64 {
    // ANCHOR: floor_div_todo -- task 1: the quotient, one less where it was rounded up
    match left.checked_div(right) {
        None if right == 0 => 0,
        None => i64::MAX,
        Some(quotient) if left % right != 0 && (left < 0) != (right < 0) => quotient - 1,
        Some(quotient) => quotient,
    }
    // ANCHOR_END: floor_div_todo
}

/// The quotient rounded towards plus infinity. Dividing by zero gives zero; overflow gives `i64::MAX`.
pub fn ceil_div(left: i64, right: i64) -> i64 {
    // ANCHOR: ceil_div_todo -- task 1: the quotient rounded down, plus one if there is a remainder
    let is_left = left.checked_rem(right).is_some_and(|rest| rest != 0);
    floor_div(left, right) + i64::from(is_left)
    // ANCHOR_END: ceil_div_todo
}
// ANCHOR_END: divide

// ANCHOR: evaluate
/// The result of an operation on two numbers; overflow saturates to `i64::MAX` or `i64::MIN`.
pub fn compute(operation: Operation, left: i64, right: i64) -> i64 {
    // ANCHOR: compute_todo -- task 1: one line for each of the six operations
    match operation {
        Operation::Add => left.saturating_add(right),
        Operation::Mul => left.saturating_mul(right),
        Operation::FloorDiv => floor_div(left, right),
        Operation::CeilDiv => ceil_div(left, right),
        Operation::Max => left.max(right),
        Operation::Min => left.min(right),
    }
    // ANCHOR_END: compute_todo
}

/// The value of an expression with every symbol replaced by a number, or `None` if a symbol has no value.
pub fn evaluate(dim: &Dim, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    // ANCHOR: evaluate_todo -- task 1: rebuild the expression, with numbers in place of symbols
    let leaf = |leaf: Leaf<'_>| match leaf {
        Leaf::Number(number) => Some(number),
        Leaf::Symbol(name) => value_of(name),
    };
    dim.rebuild(&leaf, &|operation, left, right| Some(compute(operation, left?, right?)))
    // ANCHOR_END: evaluate_todo
}
// ANCHOR_END: evaluate
