//! The protocol between `benches/compare.py` and a runtime: one request per line on stdin, one answer per line on stdout; the
//! words of a line are separated by tabs.
//!
//! | request | answer |
//! |---|---|
//! | `load MODEL INPUT…` | `loaded NANOSECONDS`: the time until the model is ready for its first run |
//! | `run N` | `times NANOSECONDS…`, one per run |
//! | `output PATH` | `written`: the first output of the last run, as `.npy` |
//! | `memory` | `memory BYTES`: the peak memory of the process |
//!
//! The answer to a failed request is `error REASON`. The end of stdin ends the process.

use std::any::Any;
use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A runtime to measure. Errors are strings for the report.
pub(crate) trait Peer {
    /// Prepares a model to run on the arrays in these files.
    fn load(&mut self, model: &Path, inputs: &[PathBuf]) -> Result<(), String>;

    /// Runs the model once; this is what is timed.
    fn run(&mut self) -> Result<(), String>;

    /// Writes the first output of the last run.
    fn save_output(&mut self, path: &Path) -> Result<(), String>;
}

/// Answers requests until the end of the input.
///
/// # Errors
/// Returns an error if reading stdin or writing stdout fails.
pub(crate) fn serve(peer: &mut dyn Peer) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        // After a panic with one model, the runtime may still be asked to run another.
        let outcome = catch_unwind(AssertUnwindSafe(|| answer(peer, &line)));
        match outcome.unwrap_or_else(|panic| Err(format!("it panicked: {}", message(&*panic)))) {
            Ok(answer) => writeln!(stdout, "{answer}")?,
            Err(reason) => {
                writeln!(stdout, "error\t{}", reason.split_whitespace().collect::<Vec<_>>().join(" "))?;
            }
        }
        stdout.flush()?;
    }
    Ok(())
}

fn answer(peer: &mut dyn Peer, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split('\t').collect();
    match words.as_slice() {
        ["load", model, inputs @ ..] => {
            let inputs: Vec<PathBuf> = inputs.iter().map(PathBuf::from).collect();
            let start = Instant::now();
            peer.load(Path::new(model), &inputs)?;
            Ok(format!("loaded\t{}", start.elapsed().as_nanos()))
        }
        ["run", count] => {
            let count: usize = count.parse().map_err(text)?;
            let times = (0..count).map(|_| time(peer)).collect::<Result<Vec<_>, _>>()?;
            Ok(std::iter::once("times".to_owned()).chain(times).collect::<Vec<_>>().join("\t"))
        }
        ["output", path] => {
            peer.save_output(Path::new(path))?;
            Ok("written".to_owned())
        }
        ["memory"] => Ok(format!("memory\t{}", peak_bytes()?)),
        _ => Err(format!("no such request: {line}")),
    }
}

fn time(peer: &mut dyn Peer) -> Result<String, String> {
    let start = Instant::now();
    peer.run()?;
    Ok(start.elapsed().as_nanos().to_string())
}

/// The peak memory of the process; Linux only.
fn peak_bytes() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(text)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(1024 * kilobytes.ok_or("/proc/self/status has no VmHWM")?)
}

/// An error as a string, in the alternate form, in which some crates include the causes.
pub(crate) fn text(error: impl Display) -> String {
    format!("{error:#}")
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
