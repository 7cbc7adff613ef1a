//! The extension module `ixion._ixion`: Ixion from Python. The package `ixion` re-exports what it has.
//!
//! Models run without the interpreter's lock. Nothing here panics on what a program passes; every error is an exception under
//! `ixion.Error`.
//!
//! Only forks rely on that lock: state that calls share is in atomics, and in mutexes that are never held while Python
//! code runs, or only tried. So an interpreter without the lock needs no other source, only a wheel of its own, since the stable
//! ABI of Python 3.9 does not cover it.

mod array;
mod built;
mod calibrate;
mod call;
mod command;
mod context;
mod device;
mod devices;
mod error;
mod given;
mod hints;
mod logging;
mod model;
mod operators;
mod options;
mod pickling;
mod plan;
mod ports;
mod process;
mod profile;
mod progress;
mod release;
mod samples;
mod slot;
mod verify;
mod vision;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The builtins of the interpreter that loaded the module; each interpreter has its own.
static BUILTINS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

#[pymodule(gil_used = false)]
fn _ixion(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let builtins = py.import("builtins")?;
    if !BUILTINS.get_or_init(py, || builtins.clone().unbind()).bind(py).is(&builtins) {
        return Err(PyImportError::new_err(
            "another interpreter of this process has loaded Ixion, and only one can; use threads or processes instead",
        ));
    }
    // PyO3 checks once whether there is an interpreter. Later, while Python ends, it would not find one.
    py.detach(|| Python::attach(|_| ()));
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::register(module)?;
    process::register(module)?;
    array::register(module)?;
    plan::register(module)?;
    context::register(module)?;
    model::register(module)?;
    operators::register(module)?;
    devices::register(module)?;
    profile::register(module)?;
    calibrate::register(module)?;
    verify::register(module)?;
    vision::register(module)?;
    command::register(module)
}
