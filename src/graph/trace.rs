//! The time, memory and cost of a run, layer by layer.

use crate::op::{Cost, TensorMeta};
use std::time::Duration;

/// The record of one run.
#[derive(Debug, Clone)]
pub struct Trace {
    /// One entry for each operator, in execution order.
    pub layers: Vec<LayerTrace>,
    /// The time from the start of the first operator to the end of the last.
    pub total: Duration,
    /// The peak memory of activations in bytes. Weights and workspace are not included.
    pub peak_bytes: u64,
}

/// The record of one operator.
#[derive(Debug, Clone)]
pub struct LayerTrace {
    /// The operator's name.
    pub name: String,
    /// The operator's type.
    pub op_type: String,
    /// Its run time, including shape inference and allocation.
    pub time: Duration,
    /// The element types and shapes of its inputs.
    pub inputs: Vec<TensorMeta>,
    /// The element types and shapes of its outputs.
    pub outputs: Vec<TensorMeta>,
    /// Multiply-accumulate operations and bytes.
    pub cost: Cost,
}
