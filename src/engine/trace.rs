//! The times of a run, by operator.

use crate::graph::OperatorIndex;
use crate::memory::Action;
use std::time::{Duration, Instant};

/// The record of one run.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The start of the run.
    pub start: Instant,
    /// The time from the first operator to the last.
    pub total: Duration,
    /// One entry for each operator that did any work, in the order in which they ran.
    pub steps: Vec<StepTrace>,
}

/// The record of one operator in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTrace {
    /// The operator, among those of [`Plan::graph`](super::Plan::graph).
    pub operator: OperatorIndex,
    /// The way in which it ran.
    pub action: Action,
    /// The time from the start of the run.
    pub start: Duration,
    /// The time it took.
    pub time: Duration,
}
