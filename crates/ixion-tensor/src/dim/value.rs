//! Expressions whose symbols are known: what they come to.

use super::{Dim, Leaf, Operation};

// ANCHOR: divide
/// The quotient rounded towards minus infinity. Dividing by zero gives zero; what is too large for a number is the largest.
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

/// The quotient rounded towards plus infinity. Dividing by zero gives zero; what is too large for a number is the largest.
pub fn ceil_div(left: i64, right: i64) -> i64 {
    // ANCHOR: ceil_div_todo -- task 1: the quotient rounded down, and one more where something is left
    let is_left = left.checked_rem(right).is_some_and(|rest| rest != 0);
    floor_div(left, right) + i64::from(is_left)
    // ANCHOR_END: ceil_div_todo
}
// ANCHOR_END: divide

// ANCHOR: evaluate
/// What an operation makes of two numbers. What is too large for a number is the largest, or the smallest.
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

/// The number that an expression is when every symbol gets a value, or `None` if one of its symbols has none.
pub fn evaluate(dim: &Dim, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    // ANCHOR: evaluate_todo -- task 1: rebuild the expression, with numbers in the place of symbols
    let leaf = |leaf: Leaf<'_>| match leaf {
        Leaf::Number(number) => Some(number),
        Leaf::Symbol(name) => value_of(name),
    };
    dim.rebuild(&leaf, &|operation, left, right| Some(compute(operation, left?, right?)))
    // ANCHOR_END: evaluate_todo
}
// ANCHOR_END: evaluate
