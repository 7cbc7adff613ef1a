//! `ixion verify`: checking that models return the expected results.

mod case;
mod folder;
mod report;

use super::caller::tell;
use super::device::Tf32Arg;
use super::plugins::PluginArgs;
use super::runner::{EngineArgs, InterpretArgs};
use super::{Bar, Exit, Failure, LimitArgs, Terminal};
use case::{How, Kind, Verdict};
use clap::Args;
use ixion::CancelToken;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const HELP: &str = "\
A case is a folder with model.param (or a single other .param) and its archive, or with a plan as the only .plan. It also has \
inputs in_0.npy, in_1.npy, … in the order of the model's inputs, and the expected outputs out_0.npy, …; or an arrays.npz that \
has them as in_0 … and out_0 …. Further sets of inputs and outputs, of other sizes for example, are arrays_1.npz, \
arrays_2.npz, … The folders of ONNX's own tests are cases, too: a .onnx file, and test_data_set_0 and so on with input_0.pb, …, \
output_0.pb, …

A case passes if every output has the expected shape and element type, integers and bools are equal, and floats satisfy \
|got − want| ≤ T + T·|want| (NaN equals NaN, equal infinities are equal). Results in f32 and f64 may also differ by the \
rounding error of their largest element, 2⁻²³ or 2⁻⁵² of it, but by no more than 100·T. T is 1e-4 unless --tolerance or the \
folder's case.toml sets it:
  tolerance = 1e-3
  tolerance_f64 = 1e-9  # for outputs in f64 and c128; by default the same as tolerance
  values = false        # compare only shapes and element types
  feature = \"linalg\"    # the model needs an Ixion with this cargo feature

Each case is PASS, FAIL (an output differs) or ERROR with its kind: read (files are missing or broken), unsupported (Ixion has \
no such operators), build (an operator's parameters or weights are invalid), run (an operator failed), panic (a bug in Ixion).

By default, the engine runs the cases; --interpret interprets the graphs of the files, and --interpret=optimised the graphs \
after all passes.

Exit codes:
  0  all cases pass
  1  at least one case does not pass
  2  no case could be read, or a usage error

Examples:
  ixion verify model_file/digits
  ixion verify cases/* --jobs 8 --interpret
  ixion verify cases/* --json | jq '.cases[] | select(.verdict != \"pass\")'";

/// Run models on stored inputs and compare the outputs with stored ones
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct VerifyArgs {
    /// The folders of the cases
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The number of cases to run in parallel [default: the number of processors]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// The tolerance T of all cases, overriding case.toml
    #[arg(long, value_name = "T", value_parser = parse_tolerance)]
    tolerance: Option<f64>,
    #[command(flatten)]
    mode: InterpretArgs,
    /// Count a case as unsupported if the CPU computes any of its operators, not counting views
    #[arg(long, requires = "device")]
    no_fallback: bool,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Verify the checksums of the weights first
    #[arg(long)]
    checksums: bool,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a number of at least 0, such as 1e-3".to_owned())
}

/// A case that has run.
struct Done<'a> {
    folder: &'a PathBuf,
    verdict: Verdict,
    time: Duration,
}

impl VerifyArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        case::keep_panics();
        let mut mode = self.mode.clone();
        // Results that are compared with f32 must be computed in f32, unless --tf32 is given.
        mode.device.tf32 = mode.device.tf32.or(Some(Tf32Arg::None));
        let engine = EngineArgs { mode, threads: 1, without: Vec::new() };
        engine.check()?;
        let how = How {
            engine,
            registry: self.plugins.registry()?,
            tolerance: self.tolerance,
            checksums: self.checksums,
            no_fallback: self.no_fallback,
        };
        let folders = self.without_files();
        let widest = folders.iter().map(|folder| report::name(folder).chars().count()).max().unwrap_or(0);
        let mut done = Vec::with_capacity(folders.len());
        self.run_all(&folders, limits, &how, |case| {
            if !self.json {
                report::line(terminal, &case, widest)?;
                terminal.flush()?;
            }
            done.push(case);
            Ok(())
        })?;
        match self.json {
            true => terminal.json(&report::json(&done))?,
            false => report::summary(terminal, &done)?,
        }
        // A cancelled command has not verified all cases.
        Ok(if done.len() < folders.len() { Exit::Failed } else { exit(&done) })
    }

    /// The arguments without files, which a pattern such as `cases/*` may include. If there are folders, files are skipped with
    /// a note. Otherwise they are kept and become errors.
    fn without_files(&self) -> Vec<PathBuf> {
        let (files, folders): (Vec<PathBuf>, Vec<PathBuf>) =
            self.folders.iter().cloned().partition(|path| path.is_file());
        if folders.is_empty() {
            return files;
        }
        let skipped =
            |file: &PathBuf| tell("note", format!("{} is not a folder and is skipped", file.display()));
        files.iter().for_each(skipped);
        folders
    }

    /// Runs all cases on several threads, and passes the results to `take` in order.
    fn run_all<'a>(
        &self,
        folders: &'a [PathBuf],
        limits: &LimitArgs,
        how: &How,
        mut take: impl FnMut(Done<'a>) -> io::Result<()>,
    ) -> io::Result<()> {
        let next = AtomicUsize::new(0);
        let (send, receive) = mpsc::channel();
        let bar = Bar::start(folders.len());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs() {
                let (send, next) = (send.clone(), &next);
                scope.spawn(move || {
                    loop {
                        // Before a case is taken: those that were taken all have a result.
                        if limits.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
                            break;
                        }
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(folder) = folders.get(index) else {
                            break;
                        };
                        let start = Instant::now();
                        let verdict = case::run(folder, how, &limits.start());
                        // The receiver is gone if the output was closed, which ends the work.
                        if send.send((index, Done { folder, verdict, time: start.elapsed() })).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let mut early = BTreeMap::new();
            let mut wanted = 0;
            let mut result = Ok(());
            for (index, case) in &receive {
                bar.step();
                early.insert(index, case);
                while let Some(case) = early.remove(&wanted) {
                    wanted += 1;
                    result = bar.aside(|| take(case));
                    if result.is_err() {
                        next.store(folders.len(), Ordering::Relaxed);
                        return result;
                    }
                }
            }
            result
        })
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cores, usize::from).min(self.folders.len())
    }
}

fn exit(done: &[Done<'_>]) -> Exit {
    let is_unread = |case: &&Done<'_>| matches!(case.verdict, Verdict::Error { kind: Kind::Read, .. });
    match done {
        done if done.iter().all(|case| matches!(case.verdict, Verdict::Pass(_))) => Exit::Fine,
        done if done.iter().filter(is_unread).count() == done.len() => Exit::Unusable,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_distinguishes_unreadable_cases_from_wrong_ones() {
        let folder = PathBuf::from("x");
        let exit_of = |verdicts: &[Verdict]| {
            let done =
                |verdict: &Verdict| Done { folder: &folder, verdict: verdict.clone(), time: Duration::ZERO };
            exit(&verdicts.iter().map(done).collect::<Vec<_>>())
        };
        let error = |kind| Verdict::Error { kind, reason: String::new(), unsupported: Vec::new() };
        assert_eq!(exit_of(&[Verdict::Pass(0.0)]), Exit::Fine);
        assert_eq!(exit_of(&[Verdict::Pass(0.0), error(Kind::Read)]), Exit::Failed);
        assert_eq!(exit_of(&[error(Kind::Read), error(Kind::Read)]), Exit::Unusable);
        assert_eq!(exit_of(&[error(Kind::Unsupported)]), Exit::Failed);
    }

    #[test]
    fn a_tolerance_is_a_number_of_at_least_zero() {
        assert_eq!(parse_tolerance("1e-3"), Ok(1e-3));
        assert!(["-1", "nan", "inf", "x"].iter().all(|text| parse_tolerance(text).is_err()));
    }
}
