//! Lesson 06: the order in which operators run, and when a buffer can be freed.
//!
//! The page of the book: `book/src/lessons/06_order.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::graph::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};
use ixion::pnnx::{Graph, OperandId, OperatorId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

// Task 1: what depends on what.

/// For each operator, by position in the file, the positions of the operators whose results it reads, with one entry for each
/// input.
///
/// # Errors
/// Returns an operator and one of its inputs that no operator produces.
pub fn dependencies(file: &Graph) -> Result<Vec<Vec<usize>>, (OperatorId, OperandId)> {
    todo!(
        "lesson 06, task 1: for each input of each operator, the position of its producer (book chapter 6; stuck? cargo learn hint 6)"
    )
}

// Task 2: Kahn's algorithm.

/// For each node, the nodes that depend on it, with one entry for each dependency.
///
/// # Panics
/// Panics if a dependency is out of range.
pub fn dependents(dependencies: &[Vec<usize>]) -> Vec<Vec<usize>> {
    todo!("lesson 06, task 2: the same edges, reversed (book chapter 6; stuck? cargo learn hint 6)")
}

/// The nodes that can be ordered topologically, in that order: all except those on a cycle and those that depend on a cycle.
///
/// Uses Kahn's algorithm (1962). Of the nodes that are ready, the smallest comes first, so that an order that is already
/// topological does not change. A dependency may be listed more than once.
///
/// # Panics
/// Panics if a dependency is out of range.
pub fn orderable(dependencies: &[Vec<usize>]) -> Vec<usize> {
    todo!(
        "lesson 06, task 2: take the smallest node without missing dependencies, and update its dependents (book chapter 6; stuck? cargo learn hint 6)"
    )
}

// Task 3: cycles.

/// Orders `0..dependencies.len()` so that each node comes after all nodes that it depends on, as [`orderable`] does.
///
/// # Errors
/// Returns the nodes on a cycle or between two cycles: those that can be ordered neither forwards nor backwards.
///
/// # Panics
/// Panics if a dependency is out of range.
pub fn topological_order(dependencies: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    todo!(
        "lesson 06, task 3: the order, or the nodes that can be ordered in neither direction (book chapter 6; stuck? cargo learn hint 6)"
    )
}

// Task 4: the last user of an operand.

/// The last operator that needs an operand: its last consumer, or its producer if it has no consumers.
///
/// `None` for an output of the model, which outlives the run, and for an input without consumers.
pub fn last_user(operand: &RuntimeOperand) -> Option<OperatorIndex> {
    todo!(
        "lesson 06, task 4: the last consumer, or the producer if there is none (book chapter 6; stuck? cargo learn hint 6)"
    )
}

// Task 5: what to free after each operator.

/// For each operator of a built graph, the operands that are no longer needed once it has run.
///
/// # Panics
/// Panics if an operand refers to an operator that is not in `operators`.
pub fn releases(operators: &[RuntimeOperator], operands: &[RuntimeOperand]) -> Vec<Vec<OperandIndex>> {
    todo!(
        "lesson 06, task 5: add each operand to the list of its last user, if it has one (book chapter 6; stuck? cargo learn hint 6)"
    )
}
