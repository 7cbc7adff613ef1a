//! Lesson 06: in which order operators run, and when a buffer may go.
//!
//! The page of the book: `book/src/lessons/06_order.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::graph::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};
use ixion::pnnx::{Graph, OperandId, OperatorId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

// Task 1: who waits for whom.

/// For each operator, by its position in the file, the positions of the operators whose results it reads: one entry for
/// each input.
///
/// # Errors
/// An operator, and an operand that it reads and that no operator computes.
pub fn dependencies(file: &Graph) -> Result<Vec<Vec<usize>>, (OperatorId, OperandId)> {
    todo!(
        "lesson 06, task 1: for each input of each operator, the position of its producer (book chapter 6; stuck? cargo learn hint 6)"
    )
}

// Task 2: Kahn's algorithm.

/// For each number, the numbers that depend on it: one entry for each time that they do.
///
/// # Panics
/// When a dependency is no number of the list.
pub fn dependents(dependencies: &[Vec<usize>]) -> Vec<Vec<usize>> {
    todo!(
        "lesson 06, task 2: the same arrows, the other way round (book chapter 6; stuck? cargo learn hint 6)"
    )
}

/// The numbers that can be put after all numbers they depend on, in that order: all of them, but for those on a cycle
/// and those that depend on them.
///
/// Kahn's algorithm (1962). Among those that are ready the smallest number goes first, so that an order that is
/// already topological stays as it is. A dependency may be listed more than once.
///
/// # Panics
/// When a dependency is no number of the list.
pub fn orderable(dependencies: &[Vec<usize>]) -> Vec<usize> {
    todo!(
        "lesson 06, task 2: take the smallest that misses nothing, and tell those who wait for it (book chapter 6; stuck? cargo learn hint 6)"
    )
}

// Task 3: cycles.

/// Orders `0..dependencies.len()` so that each number comes after all numbers it depends on, as [`orderable`] does.
///
/// # Errors
/// The numbers that lie on a cycle, or between two cycles: those that can be ordered neither forwards nor backwards.
///
/// # Panics
/// When a dependency is no number of the list.
pub fn topological_order(dependencies: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    todo!(
        "lesson 06, task 3: the order, or those who can be ordered in no direction (book chapter 6; stuck? cargo learn hint 6)"
    )
}

// Task 4: the last user of an operand.

/// The last operator that needs an operand: the last of those that read it, or, if nobody does, the one that makes it.
///
/// `None` for an output of the model, which outlives the run, and for an input that nobody reads.
pub fn last_user(operand: &RuntimeOperand) -> Option<OperatorIndex> {
    todo!(
        "lesson 06, task 4: the last reader, or the maker of what nobody reads (book chapter 6; stuck? cargo learn hint 6)"
    )
}

// Task 5: what may go after which operator.

/// For each operator of a built graph, the operands that nobody needs once it has run.
///
/// # Panics
/// When the operands are not those of the operators.
pub fn releases(operators: &[RuntimeOperator], operands: &[RuntimeOperand]) -> Vec<Vec<OperandIndex>> {
    todo!(
        "lesson 06, task 5: each operand into the list of its last user, if it has one (book chapter 6; stuck? cargo learn hint 6)"
    )
}
