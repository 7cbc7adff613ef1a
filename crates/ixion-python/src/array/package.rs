//! The Python packages that have arrays and element types, which may not be installed.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;

/// NumPy, or an exception that says how to get it.
pub(super) fn numpy_module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let import = || -> PyResult<Py<PyModule>> {
        let module = py.import("numpy").map_err(|error| {
            let missing = PyImportError::new_err("Ixion needs NumPy: pip install numpy");
            missing.set_cause(py, Some(error));
            missing
        })?;
        check_numpy(&module).map_err(|error| {
            let broken = PyImportError::new_err(
                "the module `numpy` is not NumPy, or incomplete: pip install --force-reinstall numpy",
            );
            broken.set_cause(py, Some(error));
            broken
        })?;
        Ok(module.unbind())
    };
    Ok(NUMPY.get_or_try_init(py, import)?.bind(py))
}

/// The bindings panic if NumPy lacks what they look up in it.
fn check_numpy(numpy: &Bound<'_, PyModule>) -> PyResult<()> {
    let (py, version) = (numpy.py(), numpy.getattr("__version__")?);
    let major = py.import("numpy.lib")?.getattr("NumpyVersion")?.call1((version,))?.getattr("major")?;
    let core = match major.extract::<u8>()? {
        0 | 1 => "numpy.core.multiarray",
        2 => "numpy._core.multiarray",
        other => {
            let reason = format!("expected version 1 or 2 of NumPy, got {other}");
            return Err(PyImportError::new_err(reason));
        }
    };
    py.import(core)?.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
    Ok(())
}

/// A package that may not be installed.
///
/// # Errors
/// What importing it raises, if it is installed.
pub(super) fn optional<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyModule>>> {
    match py.import(name) {
        Ok(module) => Ok(Some(module)),
        Err(error) if error.is_instance_of::<PyImportError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}
