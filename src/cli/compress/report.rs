//! The report of `ixion compress`.

use super::thin::Layer;
use crate::cli::measure::{Subject, milliseconds};
use crate::cli::{Style, Table, Terminal, numbers};
use ixion::tensor::{DType, Tensor, TensorError};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// A comparison of the outputs of two models.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Agreement {
    /// The norm of the difference, relative to the norm of the first model's outputs.
    pub(super) error: f64,
    /// The largest absolute difference.
    pub(super) largest: f64,
    /// The number of output rows whose largest element is at the same position, and the number of all rows.
    pub(super) rows: [usize; 2],
}

impl Agreement {
    pub(super) fn of<'a>(pairs: impl Iterator<Item = (&'a Tensor, &'a Tensor)>) -> Result<Self, TensorError> {
        let (mut total, mut lost, mut largest, mut rows) = (0.0, 0.0, 0f64, [0, 0]);
        for (before, after) in pairs {
            let (before, after) = (before.cast(DType::F64)?, after.cast(DType::F64)?);
            let width = before.shape().last().copied().unwrap_or(1).max(1);
            let (before, after) = (before.to_vec::<f64>()?, after.to_vec::<f64>()?);
            for (&was, &is) in before.iter().zip(&after) {
                // An element that is NaN or the same infinity in both has not changed and is ignored. If it is NaN in only one
                // of them, the difference is infinite.
                let is_same = was.is_nan() && is.is_nan() || was == is;
                let moved = if is_same { 0.0 } else { (was - is).abs() };
                let moved = if moved.is_nan() { f64::INFINITY } else { moved };
                total += if was.is_finite() { was * was } else { 0.0 };
                lost += moved * moved;
                largest = largest.max(moved);
            }
            for (was, is) in before.chunks(width).zip(after.chunks(width)) {
                rows[0] += usize::from(argmax(was) == argmax(is));
                rows[1] += 1;
            }
        }
        let error = if largest == 0.0 { 0.0 } else { f64::sqrt(lost / total) };
        let error = if error.is_nan() { f64::INFINITY } else { error };
        Ok(Self { error, largest, rows })
    }
}

fn argmax(row: &[f64]) -> Option<usize> {
    row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(index, _)| index)
}

/// The results for both models.
pub(super) struct Findings<'a> {
    pub(super) layers: &'a [Layer],
    /// The size of all weights in bytes, before and after.
    pub(super) bytes: [u64; 2],
    /// The median time of a run, before and after.
    pub(super) times: [Duration; 2],
    pub(super) agreement: Agreement,
}

fn share(after: f64, before: f64) -> f64 {
    if before > 0.0 { after / before } else { 1.0 }
}

pub(super) fn show(
    terminal: &mut Terminal,
    subject: &Subject<'_>,
    findings: &Findings<'_>,
    written: Option<&Path>,
) -> io::Result<()> {
    let title = terminal.paint(Style::Strong, subject.title());
    writeln!(terminal, "{title}")?;
    let mut table = Table::new(&["layer", ">size", ">rank", ">weights", ">become", ">share", ">error", ""]);
    for layer in findings.layers {
        let [outputs, inputs] = layer.size;
        let (before, after) = (layer.before() as u64, layer.after() as u64);
        let error = if layer.is_replaced() { numbers::small(layer.error) } else { "0".to_owned() };
        table.row([
            layer.name.clone(),
            format!("{outputs}×{inputs}"),
            layer.rank.to_string(),
            numbers::count(before),
            numbers::count(after),
            numbers::percent(share(after as f64, before as f64)),
            error,
            layer.fate.reason().map(|reason| format!("left as it is: {reason}")).unwrap_or_default(),
        ]);
    }
    table.write(terminal)?;
    let line = |terminal: &mut Terminal, name: &str, text: String| writeln!(terminal, "{name:<8}{text}");
    let [before, after] = findings.bytes;
    let (sizes, part) =
        ([before, after].map(numbers::bytes), numbers::percent(share(after as f64, before as f64)));
    line(terminal, "size", format!("{} → {} of weights ({part})", sizes[0], sizes[1]))?;
    let [slow, fast] = findings.times;
    let part = numbers::percent(share(fast.as_secs_f64(), slow.as_secs_f64()));
    line(terminal, "speed", format!("{} → {} a run ({part})", numbers::time(slow), numbers::time(fast)))?;
    let Agreement { error, largest, rows: [same, all] } = findings.agreement;
    let (error, largest) = (numbers::small(error), numbers::small(largest));
    let task = format!(
        "outputs change by {error} (relative norm), at most {largest}; same largest element in {same} of {all} rows"
    );
    line(terminal, "task", task)?;
    match written {
        Some(path) => line(terminal, "file", path.display().to_string()),
        None => Ok(()),
    }
}

/// The result as a JSON object.
pub(super) fn json(subject: &Subject<'_>, findings: &Findings<'_>, written: Option<&Path>) -> Value {
    let layer = |layer: &Layer| {
        json!({
            "name": layer.name,
            "outputs": layer.size[0],
            "inputs": layer.size[1],
            "rank": layer.rank,
            "replaced": layer.is_replaced(),
            "reason": layer.fate.reason(),
            "weights_before": layer.before(),
            "weights_after": layer.after(),
            "error": if layer.is_replaced() { layer.error } else { 0.0 },
        })
    };
    subject.json(json!({
        "layers": findings.layers.iter().map(layer).collect::<Vec<_>>(),
        "weight_bytes_before": findings.bytes[0],
        "weight_bytes_after": findings.bytes[1],
        "median_ms_before": milliseconds(findings.times[0]),
        "median_ms_after": milliseconds(findings.times[1]),
        "outputs": {
            "error": findings.agreement.error,
            "largest_difference": findings.agreement.largest,
            "same_largest": findings.agreement.rows[0],
            "rows": findings.agreement.rows[1],
        },
        "written": written.map(|path| path.display().to_string()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(before: &[f32], after: &[f32]) -> Agreement {
        let tensor = |values: &[f32]| Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap();
        Agreement::of([(&tensor(before), &tensor(after))].into_iter()).unwrap()
    }

    #[test]
    fn differences() {
        let found = agreement(&[3.0, 4.0], &[3.0, 1.0]);
        assert_eq!(found, Agreement { error: 0.6, largest: 3.0, rows: [0, 1] });
        assert_eq!(agreement(&[0.0, 0.0], &[0.0, 0.0]).error, 0.0);
        assert_eq!(agreement(&[0.0, 0.0], &[0.0, 1.0]).error, f64::INFINITY);
    }

    /// A NaN in both is no difference; a NaN in only one of them is an infinite difference.
    #[test]
    fn differences_of_nan_and_infinities() {
        let same = agreement(&[f32::NAN, 3.0, 4.0], &[f32::NAN, 3.0, 1.0]);
        assert_eq!((same.error, same.largest), (0.6, 3.0));
        assert_eq!(agreement(&[f32::NAN, 1.0], &[f32::NAN, 1.0]).error, 0.0);
        for (before, after) in [([f32::NAN, 1.0], [2.0, 1.0]), ([2.0, 1.0], [f32::NAN, 1.0])] {
            let found = agreement(&before, &after);
            assert_eq!((found.error, found.largest), (f64::INFINITY, f64::INFINITY), "{before:?} {after:?}");
        }
        let inf = f32::INFINITY;
        assert_eq!(agreement(&[inf, 3.0, 4.0], &[inf, 3.0, 1.0]).error, 0.6);
        assert_eq!(agreement(&[inf, 1.0], &[-inf, 1.0]).largest, f64::INFINITY);
    }
}
