//! What messages call an array, and exceptions about it.

use crate::error::{InputError, LimitError};
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyMemoryError, PyOverflowError, PyRuntimeError, PyTypeError,
    PyValueError,
};
use pyo3::prelude::*;
use std::fmt;

/// What an array is for, as in messages: input `x`.
#[derive(Clone, Copy)]
pub(super) struct Label<'a> {
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
}

impl Label<'_> {
    /// An exception about this array.
    pub(super) fn error(&self, problem: impl fmt::Display) -> PyErr {
        InputError::new_err(format!("{self} {problem}"))
    }

    /// An exception about this array, with the text of what another library has raised. What is not about the value, such as an
    /// interrupt, is returned as it is.
    pub(super) fn explained(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if error.is_instance_of::<PyMemoryError>(py) {
            return LimitError::new_err(format!("there is not enough memory to copy {self}"));
        }
        let is_about_value = error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyAttributeError>(py)
            || error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyBufferError>(py)
            || error.is_instance_of::<PyRuntimeError>(py)
            || error.is_instance_of::<PyOverflowError>(py);
        if !is_about_value {
            return error;
        }
        let raised = self.error(format!("cannot be used: {}", error.value(py)));
        raised.set_cause(py, Some(error));
        raised
    }
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}
