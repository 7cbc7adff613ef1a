//! What the process does to its runs: signals interrupt them, and their threads do not survive a fork.
//!
//! Python runs the handlers of signals on its main thread only, and only while that thread holds the interpreter. A long run on
//! the main thread is therefore left to another thread, and the main thread asks for signals meanwhile. A new thread has none of
//! the memory that kernels keep from run to run, and takes longer to start than a small model to run, so short runs stay where
//! they are.

use crate::error::OrRaise;
use ixion::CancelToken;
use ixion::engine::EngineError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The interval between checks for signals.
const POLL: Duration = Duration::from_millis(20);

/// The stack of a thread for a long run: as large as that of the main thread, in whose place it works.
const STACK: usize = 8 << 20;

/// The number of forks that led from the process that loaded the module to this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Whether it is known which thread is Python's main thread.
static IS_MAIN_KNOWN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this is Python's main thread.
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    if main.eq(threading.call_method0("get_ident")?)? {
        note_main();
    }
    let os = py.import("os")?;
    // Windows has no forks.
    if os.hasattr("register_at_fork")? {
        let options = PyDict::new(py);
        options.set_item("after_in_child", wrap_pyfunction!(after_fork, module)?)?;
        os.call_method("register_at_fork", (), Some(&options))?;
    }
    Ok(())
}

/// Called in a new process, whose only thread is its main thread.
#[pyfunction]
fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    note_main();
}

/// Notes that this is Python's main thread.
fn note_main() {
    IS_MAIN.set(true);
    IS_MAIN_KNOWN.store(true, Ordering::Relaxed);
}

/// The number of forks that led from the process that loaded the module to this one.
pub(crate) fn forks() -> usize {
    FORKS.load(Ordering::Relaxed)
}

/// Locks a mutex. What it protects here is valid after a panic as well.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if this thread should ask for signals during long work: it is Python's main thread, or that is unknown.
fn handles_signals() -> bool {
    IS_MAIN.get() || !IS_MAIN_KNOWN.load(Ordering::Relaxed)
}

/// Calls `work` without the interpreter, so that other Python threads run meanwhile. If a signal's handler raises an exception,
/// such as `KeyboardInterrupt`, cancels the work by its token and raises the exception when the work has ended.
///
/// # Errors
/// The exception of a signal's handler; an error if no thread can be started.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: &CancelToken,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    if !handles_signals() {
        return Ok(py.detach(work));
    }
    let (result, exception) = match py.detach(|| watched(cancel, work)) {
        Ok(ended) => ended,
        Err(error) => {
            return Err(EngineError::Threads { count: 1, reason: error.to_string() }).or_raise();
        }
    };
    match exception {
        None => Ok(result),
        Some(exception) => {
            // The work may have ended before it saw the token.
            cancel.reset();
            Err(exception)
        }
    }
}

/// Calls `work` on another thread. Returns its result, and the exception of a signal's handler.
fn watched<T: Send>(cancel: &CancelToken, work: impl FnOnce() -> T + Send) -> io::Result<(T, Option<PyErr>)> {
    let (running, ended) = channel::<()>();
    let work = move || {
        let result = work();
        // Dropped by a panic as well, which ends the watch.
        drop(running);
        result
    };
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("ixion-run".to_owned()).stack_size(STACK);
        let worker = builder.spawn_scoped(scope, work)?;
        let exception = watch(&ended, cancel);
        Ok((worker.join().unwrap_or_else(|panic| resume_unwind(panic)), exception))
    })
}

/// Asks for signals until the work has ended.
fn watch(ended: &Receiver<()>, cancel: &CancelToken) -> Option<PyErr> {
    let mut exception = None;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(POLL) {
        if exception.is_none() {
            exception = Python::try_attach(|py| py.check_signals().err()).flatten();
            exception.iter().for_each(|_| cancel.cancel());
        }
    }
    exception
}
