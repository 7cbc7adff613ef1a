//! The cost of a run, operator by operator.

use crate::cli::{Table, Terminal, list, numbers};
use ixion::graph::Trace;
use ixion::op::TensorMeta;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes a table with one row for each operator, and the totals.
pub(super) fn write(terminal: &mut Terminal, trace: &Trace) -> io::Result<()> {
    let mut table = Table::new(&["operator", "type", ">time", ">share", ">MACs", "output"]);
    let total = trace.total.as_secs_f64();
    for layer in &trace.layers {
        let share = if total > 0.0 { layer.time.as_secs_f64() / total } else { 0.0 };
        table.row([
            layer.name.clone(),
            layer.op_type.clone(),
            numbers::time(layer.time),
            numbers::percent(share),
            if layer.cost.macs > 0 { numbers::count(layer.cost.macs) } else { String::new() },
            list(&layer.outputs),
        ]);
    }
    table.write(terminal)?;
    let (time, macs) = (numbers::time(trace.total), numbers::count(macs(trace)));
    let operators = numbers::plural(trace.layers.len(), "operator");
    writeln!(terminal, "total: {time} for {operators}, {macs} MACs")?;
    writeln!(terminal, "activations: at most {} at a time", numbers::bytes(trace.peak_bytes))
}

fn macs(trace: &Trace) -> u64 {
    trace.layers.iter().map(|layer| layer.cost.macs).fold(0, u64::saturating_add)
}

/// The trace as JSON.
pub(super) fn json(trace: &Trace) -> Value {
    let tensor = |meta: &TensorMeta| {
        let dims: Vec<Option<i64>> = meta.dims().iter().map(|dim| dim.fixed()).collect();
        json!({ "shape": dims, "dtype": meta.dtype().name() })
    };
    let layers = trace.layers.iter().map(|layer| {
        json!({
            "name": layer.name,
            "type": layer.op_type,
            "seconds": layer.time.as_secs_f64(),
            "macs": layer.cost.macs,
            "bytes": layer.cost.bytes,
            "inputs": layer.inputs.iter().map(tensor).collect::<Vec<_>>(),
            "outputs": layer.outputs.iter().map(tensor).collect::<Vec<_>>(),
        })
    });
    json!({
        "seconds": trace.total.as_secs_f64(),
        "macs": macs(trace),
        "peak_bytes": trace.peak_bytes,
        "layers": layers.collect::<Vec<_>>(),
    })
}
