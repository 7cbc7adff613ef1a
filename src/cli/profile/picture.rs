//! Drawing the record of a run as a timeline.

use super::slowest;
use crate::cli::kinds::kind;
use crate::cli::list;
use crate::cli::numbers::{percent, plural, time};
use crate::cli::runner::Record;
use ixion::graph::LayerTrace;
use ixion_drawing::{Bar, Timeline};
use std::time::Duration;

/// The timeline of a run, with all operators or the `top` slowest ones. `settings` says how the model ran, and on what.
pub fn timeline(title: String, settings: &str, record: &Record, top: Option<u32>) -> Timeline {
    let layers = &record.trace.layers;
    let times: Vec<Duration> = layers.iter().map(|layer| layer.time).collect();
    let (total, inside) = (record.trace.total, times.iter().sum::<Duration>());
    let bars: Vec<Bar> = slowest(&times, top)
        .into_iter()
        .filter_map(|index| Some(bar(layers.get(index)?, *record.starts.get(index)?, total)))
        .collect();
    let shown = match bars.len() {
        all if all == layers.len() => plural(all, "operator"),
        few => format!("the {few} slowest of {}", plural(layers.len(), "operator")),
    };
    let inside = percent(share(inside, total));
    let summary = format!("{settings}; {shown} in one run of {}, {inside} of it at work", time(total));
    Timeline { title, summary, bars, total }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.div_duration_f64(whole) }
}

fn bar(layer: &LayerTrace, start: Duration, total: Duration) -> Bar {
    let tooltip = vec![
        format!("{} {}", layer.op_type, layer.name),
        format!("{} → {}", list(&layer.inputs), list(&layer.outputs)),
        format!(
            "{}, {} of the run, from {} on",
            time(layer.time),
            percent(share(layer.time, total)),
            time(start)
        ),
    ];
    Bar { start, time: layer.time, kind: kind(&layer.op_type), name: layer.name.clone(), tooltip }
}
