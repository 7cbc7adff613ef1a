//! A timeline in Chrome's trace event format, which Perfetto reads, too.

use crate::cli::runner::Record;
use ixion::op::TensorMeta;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The ids of the only process, and of the thread on which operators run sequentially.
const PROCESS: u32 = 1;
const THREAD: u32 = 1;

/// The names of process and thread, followed by one complete event for each operator.
pub(super) fn events(model: &Path, record: &Record) -> Value {
    let name = |what: &str, thread: u32, name: &str| json!({ "name": what, "ph": "M", "pid": PROCESS, "tid": thread, "args": { "name": name } });
    let file = model.file_name().unwrap_or_default().to_string_lossy();
    let names = [name("process_name", THREAD, &file), name("thread_name", THREAD, "operators")];
    let operators = record.trace.layers.iter().zip(&record.starts).map(|(layer, &start)| {
        json!({
            "name": layer.name,
            "cat": layer.op_type,
            "ph": "X",
            "ts": microseconds(start),
            "dur": microseconds(layer.time),
            "pid": PROCESS,
            "tid": THREAD,
            "args": {
                "type": layer.op_type,
                "inputs": texts(&layer.inputs),
                "outputs": texts(&layer.outputs),
                "macs": layer.cost.macs,
                "bytes": layer.cost.bytes,
            },
        })
    });
    json!({ "traceEvents": names.into_iter().chain(operators).collect::<Vec<_>>(), "displayTimeUnit": "ms" })
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn texts(metas: &[TensorMeta]) -> Vec<String> {
    metas.iter().map(ToString::to_string).collect()
}
