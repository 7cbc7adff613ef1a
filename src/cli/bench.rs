//! `ixion bench`: measuring how long a model takes.

use super::measure::{Subject, SubjectArgs, giga_per_second, milliseconds, percentile};
use super::runner::run_failure;
use super::{Bar, Exit, Failure, LimitArgs, Style, Terminal, numbers};
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::{Duration, Instant};

const HELP: &str = "\
The model runs a few times to warm up, and then for --time seconds or --runs times. Times are measured over whole runs, from \
inputs to outputs. The first run, which also infers shapes and plans memory, is reported separately. A multiply-accumulate \
counts as two floating-point operations.

Exit codes:
  0  the model was measured
  1  a run failed or exceeded a limit
  2  the model or its inputs cannot be used, or a usage error

Examples:
  ixion bench resnet18.pnnx.param --random-weights 1 --threads 0
  ixion bench digits.pnnx.param --batch 32 --time 10
  ixion bench digits.pnnx.param --interpret --json | jq .median_ms";

/// Measure how long a model takes
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Measure for this many seconds
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    time: Duration,
    /// Measure exactly N runs instead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| "expected seconds above 0, such as 0.5 or 10".to_owned())
}

/// The number of steps of the progress bar when measuring by time.
const STEPS: u32 = 100;

impl BenchArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let mut subject = self.subject.prepare(limits)?;
        subject.warm_up(self.runs.map_or(usize::MAX, |runs| runs as usize))?;
        let mut times = self.measure(&mut subject)?;
        times.sort_unstable();
        match self.json {
            true => terminal.json(&as_json(&subject, &times))?,
            false => report(terminal, &subject, &times)?,
        }
        Ok(Exit::Fine)
    }

    fn measure(&self, subject: &mut Subject<'_>) -> Result<Vec<Duration>, Failure> {
        let mut times = Vec::new();
        let steps = self.runs.unwrap_or(STEPS);
        let (bar, start) = (Bar::start(steps as usize), Instant::now());
        let mut shown = 0;
        loop {
            times.push(subject.runner.time(&subject.inputs).map_err(run_failure)?);
            let done = match self.runs {
                Some(_) => times.len() as u32,
                None => (start.elapsed().div_duration_f64(self.time) * f64::from(STEPS)) as u32,
            };
            (shown..done.min(steps)).for_each(|_| bar.step());
            shown = shown.max(done);
            if done >= steps {
                return Ok(times);
            }
        }
    }
}

fn mean(times: &[Duration]) -> Duration {
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
    times.iter().sum::<Duration>() / count
}

fn report(terminal: &mut Terminal, subject: &Subject<'_>, times: &[Duration]) -> io::Result<()> {
    let (median, time) = (percentile(times, 0.5), numbers::time);
    let line = |terminal: &mut Terminal, name: &str, text: String| writeln!(terminal, "{name:<8}{text}");
    let title = terminal.paint(Style::Strong, subject.title());
    writeln!(terminal, "{title}")?;
    line(terminal, "ready", format!("built in {}, first run {}", time(subject.build), time(subject.first)))?;
    let (p90, p99) = (time(percentile(times, 0.9)), time(percentile(times, 0.99)));
    let spread = format!(
        "median of {}; p90 {p90}, p99 {p99}, fastest {}, mean {}",
        numbers::plural(times.len(), "run"),
        time(percentile(times, 0.0)),
        time(mean(times))
    );
    let shown = terminal.paint(Style::Strong, time(median));
    line(terminal, "time", format!("{shown}, {spread}"))?;
    let (images, gflops) = rates(subject, median);
    let work = numbers::count(subject.macs());
    line(terminal, "speed", format!("{images:.1} images/s, {gflops:.1} GFLOP/s ({work} MACs a run)"))?;
    let activations = match subject.runner.arena_bytes() {
        Some(arena) => format!("arena {}", numbers::bytes(arena)),
        None => format!("activations {}", numbers::bytes(subject.record.trace.peak_bytes)),
    };
    let weights = numbers::bytes(subject.runner.weight_bytes());
    line(terminal, "memory", format!("{activations}, weights {weights}"))
}

/// Rows of the first input per second, and billions of floating-point operations per second.
fn rates(subject: &Subject<'_>, time: Duration) -> (f64, f64) {
    let images = giga_per_second(subject.batch() as u64, time) * 1e9;
    (images, giga_per_second(subject.macs().saturating_mul(2), time))
}

/// The result as a JSON object.
fn as_json(subject: &Subject<'_>, times: &[Duration]) -> Value {
    let median = percentile(times, 0.5);
    let (images, gflops) = rates(subject, median);
    subject.json(json!({
        "build_ms": milliseconds(subject.build),
        "first_ms": milliseconds(subject.first),
        "runs": times.len(),
        "median_ms": milliseconds(median),
        "p90_ms": milliseconds(percentile(times, 0.9)),
        "p99_ms": milliseconds(percentile(times, 0.99)),
        "min_ms": milliseconds(percentile(times, 0.0)),
        "max_ms": milliseconds(percentile(times, 1.0)),
        "mean_ms": milliseconds(mean(times)),
        "images_per_second": images,
        "gflops_per_second": gflops,
        "macs": subject.macs(),
        "arena_bytes": subject.runner.arena_bytes(),
        "activation_bytes": subject.record.trace.peak_bytes,
        "weight_bytes": subject.runner.weight_bytes(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_above_zero() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(["0", "-1", "inf", "x"].iter().all(|text| seconds(text).is_err()));
    }
}
