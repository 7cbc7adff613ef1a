//! `ixion profile`: measuring the time of each operator.

mod events;
mod picture;

pub use picture::timeline;

use super::measure::{Subject, SubjectArgs, giga_per_second, milliseconds, percentile};
use super::runner::{Record, run_failure};
use super::{Bar, Exit, Failure, LimitArgs, Style, Table, Terminal, files, list, numbers};
use clap::Args;
use ixion::graph::RuntimeGraph;
use ixion::op::TensorMeta;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Times are medians over several runs. A multiply-accumulate counts as two floating-point operations. Bytes are those of inputs, \
outputs and weights, each counted once.

The SVG of --timeline opens in a browser; hover over an operator for details. The file of --trace is in Chrome's trace event \
format: open it in ui.perfetto.dev or chrome://tracing.

Exit codes:
  0  the model was profiled
  1  a run failed or exceeded a limit, or a file could not be written
  2  the model or its inputs cannot be used, or a usage error

Examples:
  ixion profile digits.pnnx.param --timeline digits.svg
  ixion profile digits.pnnx.param --trace digits.json
  ixion profile resnet18.pnnx.param --random-weights 1 --top 10
  ixion profile digits.pnnx.param --json | jq '.types[0]'";

/// Show how long each operator takes
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// The number of runs to measure
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Write when each operator of the last run began and ended, for trace viewers
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw when each operator of the last run began and ended, as SVG; with --top, only the slowest
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Show only the K slowest operators, in execution order [default: all]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

/// The cost of one operator, or of all operators of a type, in one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The operator's name; empty for a type.
    pub name: String,
    /// The operator's type.
    pub op_type: String,
    /// The number of operators.
    pub count: usize,
    /// The median of their running times, or the sum of the medians.
    pub time: Duration,
    /// The multiply-accumulate operations.
    pub macs: u64,
    /// The bytes of inputs, outputs and weights, each counted once.
    pub bytes: u64,
    /// The element types and shapes of the operator's inputs; empty for a type.
    pub inputs: Vec<TensorMeta>,
    /// The element types and shapes of its outputs; empty for a type.
    pub outputs: Vec<TensorMeta>,
}

impl ProfileArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        for path in [&self.trace, &self.timeline].into_iter().flatten() {
            files::check_new_file(path)?;
            files::check_kept(path, self.subject.files()?)?;
        }
        if let (Some(trace), Some(timeline)) = (&self.trace, &self.timeline)
            && files::real_path(timeline) == files::real_path(trace)
        {
            let failure = Failure::unusable("--trace and --timeline name the same file");
            return Err(failure.advise("give each its own file"));
        }
        let mut subject = self.subject.prepare(limits)?;
        subject.warm_up(usize::MAX)?;
        let rows = self.measure(&mut subject)?;
        if let Some(path) = &self.trace {
            let events = events::events(&self.subject.model.param, &subject.record);
            files::write_text(path, &events.to_string())?;
        }
        if let Some(path) = &self.timeline {
            let (title, settings) = (subject.file().to_string(), subject.settings());
            let picture = timeline(title, &settings, &subject.record, self.top);
            files::write_text(path, &picture.to_svg())?;
        }
        match self.json {
            true => terminal.json(&as_json(&subject, &rows))?,
            false => self.report(terminal, &subject, &rows)?,
        }
        Ok(Exit::Fine)
    }

    /// Runs the model `--runs` times. The record of the last run is stored in the subject.
    fn measure(&self, subject: &mut Subject<'_>) -> Result<Vec<Row>, Failure> {
        let bar = Bar::start(self.runs as usize);
        let mut times: Vec<Vec<Duration>> = Vec::new();
        for _ in 0..self.runs {
            let outcome = subject.runner.run(&subject.inputs, true).map_err(run_failure)?;
            let record = outcome.record.ok_or_else(|| Failure::failed("the run was not traced"))?;
            times.resize(record.trace.layers.len(), Vec::new());
            times.iter_mut().zip(&record.trace.layers).for_each(|(times, layer)| times.push(layer.time));
            subject.record = record;
            bar.step();
        }
        Ok(rows(subject.runner.graph(), &subject.record, times))
    }

    fn report(&self, terminal: &mut Terminal, subject: &Subject<'_>, rows: &[Row]) -> io::Result<()> {
        let total: Duration = rows.iter().map(|row| row.time).sum();
        let title = terminal.paint(Style::Strong, subject.title());
        writeln!(terminal, "{title}")?;
        writeln!(terminal)?;
        let mut table = Table::new(&["operator", "type", ">time", ">share", ">GFLOP/s", ">GB/s", "output"]);
        for row in self.slowest(rows) {
            let names = [row.name.clone(), row.op_type.clone()];
            table.row(names.into_iter().chain(row.cells(total)).chain([list(&row.outputs)]));
        }
        table.write(terminal)?;
        writeln!(terminal)?;
        let mut table = Table::new(&["type", ">count", ">time", ">share", ">GFLOP/s", ">GB/s"]);
        for row in by_type(rows) {
            let names = [row.op_type.clone(), row.count.to_string()];
            table.row(names.into_iter().chain(row.cells(total)));
        }
        table.write(terminal)?;
        writeln!(terminal)?;
        let (operators, runs) =
            (numbers::plural(rows.len(), "operator"), numbers::plural(self.runs as usize, "run"));
        let gflops = giga_per_second(subject.macs().saturating_mul(2), total);
        writeln!(
            terminal,
            "total: {} for {operators}, {gflops:.1} GFLOP/s; medians of {runs}",
            numbers::time(total)
        )?;
        for (what, path) in [("trace", &self.trace), ("timeline", &self.timeline)] {
            if let Some(path) = path {
                writeln!(terminal, "{what}: {}", path.display())?;
            }
        }
        Ok(())
    }

    /// The slowest operators, in execution order.
    fn slowest<'r>(&self, rows: &'r [Row]) -> Vec<&'r Row> {
        let times: Vec<Duration> = rows.iter().map(|row| row.time).collect();
        slowest(&times, self.top).into_iter().filter_map(|index| rows.get(index)).collect()
    }
}

/// The positions of the `top` longest times, or of all, in ascending order.
fn slowest(times: &[Duration], top: Option<u32>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|&index| times.get(index).map(|&time| std::cmp::Reverse(time)));
    order.truncate(top.map_or(usize::MAX, |top| top as usize));
    order.sort_unstable();
    order
}

/// A row for each entry of a record; `times` has those of all runs, for each entry.
pub fn rows(graph: &RuntimeGraph, record: &Record, times: Vec<Vec<Duration>>) -> Vec<Row> {
    let row = |(layer, mut times): (&ixion::graph::LayerTrace, Vec<Duration>)| {
        times.sort_unstable();
        let operator = graph.operator_named(&layer.name);
        let weights = operator.map_or(0, |operator| operator.weight_bytes());
        Row {
            name: layer.name.clone(),
            op_type: layer.op_type.clone(),
            count: 1,
            time: percentile(&times, 0.5),
            macs: layer.cost.macs,
            bytes: layer.cost.bytes.saturating_add(weights),
            inputs: layer.inputs.clone(),
            outputs: layer.outputs.clone(),
        }
    };
    record.trace.layers.iter().zip(times).map(row).collect()
}

/// The sums over all operators of each type, the slowest type first.
pub fn by_type(rows: &[Row]) -> Vec<Row> {
    let mut types: BTreeMap<&str, Row> = BTreeMap::new();
    for row in rows {
        let sum = types.entry(&row.op_type).or_default();
        sum.op_type.clone_from(&row.op_type);
        sum.count += 1;
        sum.time += row.time;
        sum.macs = sum.macs.saturating_add(row.macs);
        sum.bytes = sum.bytes.saturating_add(row.bytes);
    }
    let mut types: Vec<Row> = types.into_values().collect();
    types.sort_by_key(|row| std::cmp::Reverse(row.time));
    types
}

impl Row {
    /// The share of the time of a whole run; 0 if that is 0.
    pub fn share(&self, total: Duration) -> f64 {
        if total.is_zero() { 0.0 } else { self.time.div_duration_f64(total) }
    }

    /// Billions of floating-point operations per second; a multiply-accumulate counts as two.
    pub fn gflops(&self) -> f64 {
        giga_per_second(self.macs.saturating_mul(2), self.time)
    }

    /// Billions of bytes per second.
    pub fn gigabytes(&self) -> f64 {
        giga_per_second(self.bytes, self.time)
    }

    /// Time, share, GFLOP/s and GB/s for a table.
    fn cells(&self, total: Duration) -> [String; 4] {
        let gflops = if self.macs > 0 { format!("{:.1}", self.gflops()) } else { String::new() };
        let (time, share) = (numbers::time(self.time), numbers::percent(self.share(total)));
        [time, share, gflops, format!("{:.1}", self.gigabytes())]
    }

    fn json(&self, total: Duration) -> Value {
        json!({
            "type": self.op_type,
            "count": self.count,
            "ms": milliseconds(self.time),
            "share": self.share(total),
            "macs": self.macs,
            "bytes": self.bytes,
            "gflops_per_second": self.gflops(),
            "gigabytes_per_second": self.gigabytes(),
        })
    }
}

/// The result as a JSON object.
fn as_json(subject: &Subject<'_>, rows: &[Row]) -> Value {
    let total: Duration = rows.iter().map(|row| row.time).sum();
    let operator = |row: &Row| {
        let mut object = row.json(total);
        object["name"] = row.name.clone().into();
        object["inputs"] = row.inputs.iter().map(ToString::to_string).collect();
        object["outputs"] = row.outputs.iter().map(ToString::to_string).collect();
        object
    };
    subject.json(json!({
        "total_ms": milliseconds(total),
        "operators": rows.iter().map(operator).collect::<Vec<_>>(),
        "types": by_type(rows).iter().map(|row| row.json(total)).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_summed_up_and_the_slowest_comes_first() {
        let row = |op_type: &str, millis, macs| Row {
            op_type: op_type.to_owned(),
            count: 1,
            time: Duration::from_millis(millis),
            macs,
            ..Row::default()
        };
        let types = by_type(&[row("nn.ReLU", 1, 0), row("nn.Conv2d", 3, 5), row("nn.ReLU", 1, 0)]);
        let found: Vec<_> = types.iter().map(|row| (row.op_type.as_str(), row.count, row.macs)).collect();
        assert_eq!(found, [("nn.Conv2d", 1, 5), ("nn.ReLU", 2, 0)]);
        assert_eq!(types[1].share(Duration::from_millis(5)), 0.4);
    }
}
