//! What a run cost, operator by operator.

use crate::graph::OperatorIndex;
use crate::memory::Action;
use std::time::{Duration, Instant};

/// The record of one run.
#[derive(Debug, Clone)]
pub struct Trace {
    /// When the run began.
    pub start: Instant,
    /// Time from the first operator to the last.
    pub total: Duration,
    /// One entry for each operator that had something to do, in the order in which they ran.
    pub steps: Vec<StepTrace>,
}

/// The record of one operator in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTrace {
    /// The operator, among those of [`Plan::graph`](super::Plan::graph).
    pub operator: OperatorIndex,
    /// How it ran.
    pub action: Action,
    /// Time from the start of the run.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
}
