//! Code shared by `bench`, `profile` and `compress`: a model with its inputs, ready to be measured.

use super::model::ModelArgs;
use super::run::files::{self, Source};
use super::run::inputs;
use super::runner::{EngineArgs, Record, Runner, run_failure};
use super::{Failure, LimitArgs, list, numbers};
use clap::Args;
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::tensor::Tensor;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The seed of random inputs, used for those that are not given.
const SEED: u64 = 0;

/// The minimum warm-up: a number of runs and a time.
pub const WARM_UP: (usize, Duration) = (2, Duration::from_millis(300));

/// The model, its inputs, and how it runs.
#[derive(Debug, Args)]
pub(crate) struct SubjectArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Arrays, tables or images, as for `run` [default: in_0.npy, in_1.npy, … next to the model, else random numbers]
    #[arg(short, long = "input", value_name = "[NAME=]FILE", num_args = 1..)]
    inputs: Vec<String>,
    /// Set the length of the first axis of every input; rows are repeated or dropped
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Use random weights from this seed instead of an archive
    #[arg(long, value_name = "SEED", conflicts_with = "bin")]
    random_weights: Option<u64>,
}

/// A model that has run on its inputs.
pub(crate) struct Subject<'a> {
    args: &'a SubjectArgs,
    pub(crate) runner: Runner,
    pub(crate) names: Vec<String>,
    pub(crate) inputs: Vec<Tensor>,
    /// The time to read and build the model.
    pub(crate) build: Duration,
    /// The time of the first run, which infers shapes and plans memory.
    pub(crate) first: Duration,
    /// The record of a traced run, after the first one.
    pub(crate) record: Record,
}

impl SubjectArgs {
    /// Builds the model, loads or generates its inputs, and runs it twice.
    pub(crate) fn prepare(&self, limits: &LimitArgs) -> Result<Subject<'_>, Failure> {
        let limits = limits.start();
        let start = Instant::now();
        let mut runner = self.model.built(&self.engine, self.random_weights, &limits)?;
        let build = start.elapsed();
        let (names, inputs): (Vec<String>, Vec<Tensor>) =
            self.inputs(runner.graph(), &limits)?.into_iter().unzip();
        let start = Instant::now();
        runner.run(&inputs, false).map_err(run_failure)?;
        let first = start.elapsed();
        let traced = runner.run(&inputs, true).map_err(run_failure)?;
        let record = traced.record.ok_or_else(|| Failure::failed("the run was not traced"))?;
        Ok(Subject { args: self, runner, names, inputs, build, first, record })
    }

    /// All files that are read: the model's files and the given inputs.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let inputs = files::sources(&self.inputs)?.into_iter().map(|source| source.path);
        Ok(self.model.files().into_iter().chain(inputs).collect())
    }

    fn inputs(&self, graph: &RuntimeGraph, limits: &Limits) -> Result<Vec<(String, Tensor)>, Failure> {
        let card = self.model.card(limits)?;
        let sources = match self.inputs.is_empty() {
            true => beside(&self.model.param, graph)?,
            false => files::sources(&self.inputs)?,
        };
        let (mut inputs, _) = inputs::gather(&sources, graph, card.as_ref(), Some(SEED), limits)?;
        if let Some(batch) = self.batch {
            let mut total = 0u64;
            for (name, tensor) in &inputs {
                let bytes = bytes_of_rows(tensor, batch.into());
                limits
                    .check_tensor(&format!("input `{name}` of --batch {batch}"), bytes)
                    .map_err(Failure::unusable)?;
                total = total.saturating_add(bytes);
            }
            limits.check_total(&format!("--batch {batch}"), total).map_err(Failure::unusable)?;
            for (_, tensor) in &mut inputs {
                *tensor = with_rows(tensor, batch as usize).map_err(Failure::failed)?;
            }
        }
        Ok(inputs)
    }
}

/// The arrays in_0.npy, in_1.npy, … next to the model, each for the input at its position.
fn beside(param: &Path, graph: &RuntimeGraph) -> Result<Vec<Source>, Failure> {
    let file = |index: usize| param.with_file_name(format!("in_{index}.npy"));
    let ports = graph.inputs().iter().enumerate();
    let found = ports.filter(|(index, _)| file(*index).is_file());
    let texts: Vec<String> =
        found.map(|(index, port)| format!("{}={}", port.name, file(index).display())).collect();
    files::sources(&texts)
}

/// The size in bytes of a tensor resized to this number of rows.
fn bytes_of_rows(tensor: &Tensor, rows: u64) -> u64 {
    let (bytes, len) = (tensor.byte_len() as u64, tensor.shape().first().copied().unwrap_or(0) as u64);
    bytes.checked_div(len).map_or(bytes, |row| row.saturating_mul(rows))
}

/// A tensor resized to this number of rows, repeated from the first one if there are too few. Tensors without rows stay
/// unchanged.
fn with_rows(tensor: &Tensor, rows: usize) -> Result<Tensor, ixion::tensor::TensorError> {
    let Some(&len) = tensor.shape().first().filter(|len| **len > 0) else { return Ok(tensor.clone()) };
    let (mut all, mut count) = (tensor.clone(), len);
    while count < rows {
        let more = all.narrow(0, 0, count.min(rows - count))?;
        all = Tensor::concat(&[all, more], 0)?;
        count = count.saturating_mul(2).min(rows);
    }
    all.narrow(0, 0, rows)
}

impl Subject<'_> {
    /// Runs the model until both minima of [`WARM_UP`] are reached, or `max_runs` times if that is earlier, but never fewer
    /// times than the minimum number of runs.
    pub(crate) fn warm_up(&mut self, max_runs: usize) -> Result<(), Failure> {
        let start = Instant::now();
        for run in 0..max_runs.max(WARM_UP.0) {
            if run >= WARM_UP.0 && start.elapsed() >= WARM_UP.1 {
                break;
            }
            self.runner.time(&self.inputs).map_err(run_failure)?;
        }
        Ok(())
    }

    /// The length of the first axis of the first input, or 1 if there is none.
    pub(crate) fn batch(&self) -> usize {
        self.inputs.first().and_then(|input| input.shape().first()).copied().unwrap_or(1)
    }

    /// Multiply-accumulate operations of one run.
    pub(crate) fn macs(&self) -> u64 {
        self.record.trace.layers.iter().map(|layer| layer.cost.macs).fold(0, u64::saturating_add)
    }

    /// The model, how it runs, and its inputs, in one line.
    pub(crate) fn title(&self) -> String {
        format!("{}: {}", self.file(), self.settings())
    }

    /// How the model runs, and its inputs.
    pub(crate) fn settings(&self) -> String {
        let inputs = self.names.iter().zip(&self.inputs);
        let inputs = inputs.map(|(name, tensor)| format!("{name} {} {}", tensor.shape(), tensor.dtype()));
        let threads = numbers::plural(self.runner.threads(), "thread");
        format!("{}, {threads}, {}", self.args.engine.name(), list(inputs))
    }

    /// The file of the model.
    pub(crate) fn file(&self) -> std::path::Display<'_> {
        self.args.model.param.display()
    }

    /// The settings and these results as a JSON object; `version` increases when the meaning of a field changes.
    pub(crate) fn json(&self, results: Value) -> Value {
        let inputs = self.names.iter().zip(&self.inputs);
        let input = |(name, tensor): (&String, &Tensor)| json!({ "name": name, "shape": tensor.shape().dims(), "dtype": tensor.dtype().name() });
        let mut object = json!({
            "version": 1,
            "file": self.args.model.param.display().to_string(),
            "mode": self.args.engine.name(),
            "threads": self.runner.threads(),
            "without": self.args.engine.without,
            "inputs": inputs.map(input).collect::<Vec<_>>(),
            "batch": self.batch(),
        });
        if let (Some(object), Value::Object(results)) = (object.as_object_mut(), results) {
            object.extend(results);
        }
        object
    }
}

/// A duration in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A rate in billions per second; 0 if no time has passed.
pub(crate) fn giga_per_second(amount: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { amount as f64 / seconds / 1e9 } else { 0.0 }
}

/// The time that this share of the sorted `times` does not exceed (nearest rank).
pub(crate) fn percentile(times: &[Duration], share: f64) -> Duration {
    let rank = (share * times.len() as f64).ceil() as usize;
    times.get(rank.clamp(1, times.len().max(1)) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let times: Vec<Duration> = (1..=10).map(Duration::from_millis).collect();
        let at = |share| percentile(&times, share).as_millis();
        assert_eq!((at(0.5), at(0.9), at(0.99), at(0.0)), (5, 9, 10, 1));
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn rows_are_repeated_or_left_out() {
        let x = Tensor::from_vec(vec![1i32, 2, 3, 4], &[2, 2]).unwrap();
        let rows = |count| with_rows(&x, count).unwrap().to_vec::<i32>().unwrap();
        assert_eq!(rows(1), [1, 2]);
        assert_eq!(rows(3), [1, 2, 3, 4, 1, 2]);
        assert_eq!(rows(7), [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2]);
        assert_eq!(with_rows(&Tensor::scalar(7i64), 3).unwrap().to_vec::<i64>().unwrap(), [7]);
    }
}
