//! Pickling what functions return: as the name of a function of the module, and the fields that it takes.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What pickling asks for: a function, and its arguments.
pub(crate) type Reduced<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>);

/// An object that the function `restore` of the module makes of its fields.
///
/// # Errors
/// What converting the fields raises.
pub(crate) fn reduced<'py>(
    py: Python<'py>,
    restore: &str,
    fields: impl IntoPyObject<'py, Error = PyErr>,
) -> PyResult<Reduced<'py>> {
    let function = py.import("ixion._ixion")?.getattr(restore)?;
    Ok((function, (fields,).into_pyobject(py)?))
}
