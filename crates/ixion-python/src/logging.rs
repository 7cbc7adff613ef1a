//! The bridge from the crate `log` to Python's module `logging`: messages of `ixion_ops::conv` go to the logger `ixion.ops.conv`.
//!
//! Only warnings and errors pass, so that runs do not wait for the interpreter, unless the program sets the level of the logger
//! `ixion`, or the environment variable `IXION_LOG` is `info`, `debug` or `trace`. The command logs to standard error instead,
//! unless its process has used a model before.

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::OnceLock;

/// The environment variable with the most detailed level.
const LEVEL: &str = "IXION_LOG";

/// Installs the bridge, unless the process has a logger already, and applies the level that the program has set. Called
/// whenever a model is loaded.
///
/// # Errors
/// What the module `logging` raises.
pub(crate) fn start() -> PyResult<()> {
    static IS_OURS: OnceLock<bool> = OnceLock::new();
    if *IS_OURS.get_or_init(|| log::set_logger(&Bridge).is_ok()) {
        log::set_max_level(Python::attach(wanted)?);
    }
    Ok(())
}

/// The most detailed level that passes.
fn wanted(py: Python<'_>) -> PyResult<LevelFilter> {
    let level = std::env::var(LEVEL).ok().and_then(|level| level.parse::<LevelFilter>().ok());
    if let Some(level) = level {
        return Ok(level);
    }
    let logger = py.import("logging")?.call_method1("getLogger", ("ixion",))?;
    // The level of a parent is not meant for the messages of every operator.
    Ok(match logger.getattr("level")?.extract::<u64>().unwrap_or(0) {
        0 => LevelFilter::Warn,
        1..10 => LevelFilter::Trace,
        10..20 => LevelFilter::Debug,
        20..30 => LevelFilter::Info,
        30..40 => LevelFilter::Warn,
        _ => LevelFilter::Error,
    })
}

/// A logger that calls Python's.
struct Bridge;

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ixion")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // At the end of the process, there is no interpreter. A message that cannot be logged is lost: runs go on.
            _ = Python::try_attach(|py| forward(py, record).unwrap_or_else(|error| report(py, error)));
        }
    }

    fn flush(&self) {}
}

fn forward(py: Python<'_>, record: &Record<'_>) -> PyResult<()> {
    let logger = py.import("logging")?.call_method1("getLogger", (name(record.target()),))?;
    let level = number(record.level());
    if logger.call_method1("isEnabledFor", (level,))?.is_truthy()? {
        logger.call_method1("log", (level, "%s", record.args().to_string()))?;
    }
    Ok(())
}

/// Reports what a filter or handler of the program has raised, which must not end a run. Ctrl-C, which may arrive while one of
/// them is called, is raised again when the run has returned to Python.
fn report(py: Python<'_>, error: PyErr) {
    let is_interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py);
    let again = || py.import("_thread")?.call_method0("interrupt_main");
    if !is_interrupt || again().is_err() {
        error.write_unraisable(py, None);
    }
}

/// The name of Python's logger for a target of this crate or one of its parts.
fn name(target: &str) -> String {
    let target = target.replace("::", ".");
    match target.strip_prefix("ixion_") {
        Some(part) => format!("ixion.{part}"),
        None => target,
    }
}

/// Python's number of a level. It has none for traces.
fn number(level: Level) -> u8 {
    match level {
        Level::Error => 40,
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug => 10,
        Level::Trace => 5,
    }
}
