//! The command `ixion`: as the wheel's console script, and as functions that return what it prints.

use crate::error::{Error, InputError, to_py};
use crate::logging;
use crate::process::{interruptible, lock};
use crate::progress::Bar;
use ixion::CancelToken;
use ixion::cli::{self, Listener, Progress, Refusal};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// The name of the program, the first word of a command line.
const PROGRAM: &str = "ixion";

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_main, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)
}

/// Run the command ``ixion`` and return its exit code.
///
/// Results are written to the standard output of the process, and errors to its standard error, which are those of Python unless
/// the program has replaced ``sys.stdout`` or ``sys.stderr``. ``ixion.command`` returns results instead, and raises errors.
///
/// Parameters
/// ----------
/// argv : sequence of str or os.PathLike, optional
///     The arguments after the program's name, such as ``["inspect", "model.pnnx.param"]``. What Ixion logs goes to the logger
///     ``ixion``, and Ctrl-C cancels the command.
///     Default: those of this process, ``sys.argv[1:]``. Logs then go to standard error, and Ctrl-C ends the process, as it does
///     any command.
///
/// Returns
/// -------
/// int
///     0 for success; 1 if the result is negative or the work failed; 2 if the arguments could not be used.
#[pyfunction]
#[pyo3(name = "main", signature = (argv=None))]
fn run_main(py: Python<'_>, argv: Option<Vec<PathBuf>>) -> PyResult<u8> {
    flush(py);
    let Some(arguments) = argv else {
        let arguments: Vec<PathBuf> = py.import("sys")?.getattr("argv")?.extract()?;
        let line = line_of(arguments.into_iter().skip(1).map(OsString::from));
        let handler = set_interrupt(py, None);
        let code = py.detach(|| cli::run_line(line, None));
        set_interrupt(py, handler.as_ref());
        return Ok(code);
    };
    // The first logger stays: without this, it would be that of the command.
    logging::start()?;
    let (line, cancel) = (line_of(arguments.into_iter().map(OsString::from)), CancelToken::default());
    interruptible(py, &cancel, || cli::run_line(line, Some(&cancel)))
}

/// Writes what Python has printed so far. A stream that cannot be flushed is no reason not to run the command.
fn flush(py: Python<'_>) {
    let flush = |stream: &str| py.import("sys")?.getattr(stream)?.call_method0("flush");
    _ = (flush("stdout"), flush("stderr"));
}

/// Sets the handler of Ctrl-C, by default that of the system, since Python would call its own only after the command. Returns
/// the one before; `None` on other threads than Python's main thread, which may not do this.
fn set_interrupt<'py>(py: Python<'py>, handler: Option<&Bound<'py, PyAny>>) -> Option<Bound<'py, PyAny>> {
    let signal = py.import("signal").ok()?;
    let handler = handler.cloned().or_else(|| signal.getattr("SIG_DFL").ok())?;
    signal.call_method1("signal", (signal.getattr("SIGINT").ok()?, handler)).ok()
}

/// Run a subcommand of ``ixion`` and return what it prints, as objects if it can have ``--json``.
///
/// ==============  ==============================================================================================
/// subcommand      in Python
/// ==============  ==============================================================================================
/// ``run``         ``model(x)``; ``ixion.classify``, ``detect``, ``segment`` and ``draw`` for pictures
/// ``inspect``     ``ixion.command("inspect", path)``; ``"--dot"`` or ``"--svg", "-"`` for the graph as text
/// ``verify``      ``ixion.verify``
/// ``build``       ``ixion.build(path, ...).save("model.plan")``
/// ``calibrate``   ``ixion.calibrate(path, samples).save("model.json")``
/// ``plan``        ``ixion.command("plan", path)``; ``"--memory", "-"`` for the map of the memory as SVG
/// ``bench``       ``ixion.command("bench", path, "--threads", 4)``
/// ``profile``     ``model.profile(x)`` and ``model.timeline(x)``
/// ``convert``     ``ixion.command("convert", path, "--python", "model.py")``
/// ``compress``    ``ixion.command("compress", path, "--rank", 64)``, in a build with the feature ``linalg``
/// ``operators``   ``ixion.operators``
/// ``devices``     ``ixion.devices``
/// ==============  ==============================================================================================
///
/// Parameters
/// ----------
/// *args : str, os.PathLike or number
///     The subcommand and its arguments. ``ixion.command("bench", "--help")`` returns what they may be.
/// progress : callable, optional
///     Such as ``tqdm.tqdm``: called with ``total``, the number of steps, if the subcommand has steps; its result with
///     ``update(1)`` after each, and ``close()`` at the end.
///
/// Returns
/// -------
/// dict or str
///     The JSON object that the command prints, whose ``version`` increases when the meaning of a field changes; the text, if
///     there is no JSON for these arguments. Warnings go to the logger ``ixion``.
///
/// Raises
/// ------
/// ixion.InputError
///     If the arguments cannot be used.
/// ixion.Error
///     The kind that a function of this package would raise, such as ``ModelError`` for a model that cannot be read.
#[pyfunction]
#[pyo3(signature = (*args, progress=None))]
fn command<'py>(
    py: Python<'py>,
    args: &Bound<'py, PyTuple>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let words = args.iter().map(|arg| word(&arg)).collect::<PyResult<Vec<OsString>>>()?;
    if words.is_empty() {
        return Err(InputError::new_err("expected a subcommand, such as ixion.command(\"devices\")"));
    }
    let asks_for_json = words.iter().any(|word| word == "--json");
    let line = line_of(words);
    let (line, is_json) = match cli::with_json(&line) {
        Some(line) => (line, true),
        None => (line, asks_for_json),
    };
    let text = captured(py, line, Bar::new(progress)?)?;
    let text = String::from_utf8_lossy(&text);
    // Help is text, whatever else is asked for.
    match is_json && text.starts_with('{') {
        true => py.import("json")?.call_method1("loads", (text,)),
        false => Ok(PyString::new(py, &text).into_any()),
    }
}

/// A word of a command line: a string, a path, or anything else as `str` shows it.
fn word(argument: &Bound<'_, PyAny>) -> PyResult<OsString> {
    match argument.extract::<PathBuf>() {
        Ok(path) => Ok(path.into()),
        Err(_) => argument.str()?.extract(),
    }
}

/// An option with its value in one word, so that a value that begins with a hyphen is not taken for an option.
pub(crate) fn option(name: &str, value: impl Into<OsString>) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value.into());
    word
}

/// What the command prints for these words, which do not include the program's name. Ctrl-C ends it.
///
/// # Errors
/// As [`raise`]; what a signal's handler or the bar raises.
pub(crate) fn output(py: Python<'_>, words: Vec<OsString>, bar: Bar) -> PyResult<Vec<u8>> {
    captured(py, line_of(words), bar)
}

fn captured(py: Python<'_>, line: Vec<OsString>, bar: Bar) -> PyResult<Vec<u8>> {
    logging::start()?;
    let (cancel, bar, raised) = (CancelToken::default(), Arc::new(bar), Arc::default());
    let work = || cli::capture(line, &cancel, listener(&bar, &raised, &cancel));
    let ended = interruptible(py, &cancel, work);
    let ended = match (ended, lock(&raised).take()) {
        (Ok(_), Some(error)) => Err(error),
        (ended, _) => ended,
    };
    bar.close(py, ended)?.map_err(raise)
}

/// A listener that advances the bar. An exception of the bar is noted, and cancels the command.
fn listener(bar: &Arc<Bar>, raised: &Arc<Mutex<Option<PyErr>>>, cancel: &CancelToken) -> Listener {
    if bar.is_hidden() {
        return Rc::new(|_| {});
    }
    let (bar, raised, cancel) = (Arc::clone(bar), Arc::clone(raised), cancel.clone());
    Rc::new(move |progress| {
        if cancel.is_cancelled() {
            return;
        }
        let told = Python::try_attach(|py| match progress {
            Progress::Begin(steps) => bar.begin(py, steps),
            Progress::Step => bar.step(py),
        });
        if let Some(Err(error)) = told {
            *lock(&raised) = Some(error);
            cancel.cancel();
        }
    })
}

/// The exception for what the command refuses: that of the library's error; else `InputError` if something given cannot be used,
/// and `Error` if the work failed.
pub(crate) fn raise(refusal: Refusal) -> PyErr {
    let Refusal { code, message, error } = refusal;
    match error.map(|error| to_py(*error)) {
        // The text of the command may have advice.
        Some(error) => Python::attach(|py| PyErr::from_type(error.get_type(py), message)),
        None if code == 2 => InputError::new_err(message),
        None => Error::new_err(message),
    }
}

fn line_of(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    std::iter::once(OsString::from(PROGRAM)).chain(words).collect()
}
