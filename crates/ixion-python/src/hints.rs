//! Errors about names that nothing has, with the names that were probably meant.

use pyo3::prelude::*;

/// The error, with what was probably meant by `name`, which is none of `known`.
pub(crate) fn hinted(py: Python<'_>, error: PyErr, name: &str, known: &[&str]) -> PyErr {
    match hint(py, name, known) {
        Ok(hint) if !hint.is_empty() => {
            let text = format!("{}\n  hint: {hint}", error.value(py));
            PyErr::from_type(error.get_type(py), text)
        }
        // Whatever is wrong with the hint, the error is more important.
        _ => error,
    }
}

fn hint(py: Python<'_>, name: &str, known: &[&str]) -> PyResult<String> {
    py.import("ixion._hints")?.call_method1("hint", (name, known.to_vec()))?.extract()
}
