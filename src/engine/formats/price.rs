//! What things cost, as far as one can tell without trying: a model of a processor with two numbers.
//!
//! The model only has to rank alternatives, and to do so in the same way everywhere: plans are equal on all machines.

use crate::graph::{Cost, TensorMeta};

/// Multiply-accumulate operations of a good kernel in a nanosecond.
const MACS: f64 = 30.0;

/// Bytes that are read or written in a nanosecond.
const BYTES: f64 = 10.0;

/// Nanoseconds that calling a layer takes.
const CALL: f64 = 100.0;

/// Moving elements between formats skips through memory: so many times the price of copying them.
const SCATTERED: f64 = 2.0;

/// The price of a layer's work in nanoseconds, for a layer of this [efficiency](crate::graph::CpuLayer::efficiency).
pub(super) fn of_layer(cost: Cost, efficiency: f64) -> f64 {
    /// A layer may say that it is bad, not that it never ends.
    const WORST: f64 = 1e-3;
    let efficiency = if efficiency.is_nan() { 1.0 } else { efficiency.clamp(WORST, 1e3) };
    CALL + cost.macs as f64 / (MACS * efficiency) + cost.bytes as f64 / BYTES
}

/// The price of bringing a tensor from one format into another, in nanoseconds.
pub(super) fn of_reformat(from: &TensorMeta, to: &TensorMeta) -> f64 {
    let cost = Cost::of_moving(std::slice::from_ref(from), std::slice::from_ref(to));
    CALL + SCATTERED * cost.bytes as f64 / BYTES
}
