//! What a run cost, layer by layer.

use crate::op::{Cost, TensorMeta};
use std::time::Duration;

/// The record of one run.
#[derive(Debug, Clone)]
pub struct Trace {
    /// One entry for each operator, in the order in which they ran.
    pub layers: Vec<LayerTrace>,
    /// Time from the first operator to the last.
    pub total: Duration,
    /// The most bytes that activations took at a time. Weights and workspace are not included.
    pub peak_bytes: u64,
}

/// The record of one operator.
#[derive(Debug, Clone)]
pub struct LayerTrace {
    /// The operator's name.
    pub name: String,
    /// The operator's type.
    pub op_type: String,
    /// Time that it took, including shape inference and allocation.
    pub time: Duration,
    /// Element types and shapes of what it read.
    pub inputs: Vec<TensorMeta>,
    /// Element types and shapes of what it wrote.
    pub outputs: Vec<TensorMeta>,
    /// Multiplications and bytes.
    pub cost: Cost,
}
