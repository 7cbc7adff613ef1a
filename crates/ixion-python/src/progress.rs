//! Progress of long work, by the conventions of tqdm: the option `progress`.

use crate::error::InputError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// A bar of the program, made when the number of steps is known.
pub(crate) struct Bar {
    make: Option<Py<PyAny>>,
    bar: PyOnceLock<Py<PyAny>>,
}

impl Bar {
    /// The bar of an option `progress`, which is called with `total`. Without one, nothing is shown.
    ///
    /// # Errors
    /// `InputError` if it cannot be called.
    pub(crate) fn new(make: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if make.is_some_and(|make| !make.is_callable()) {
            return Err(InputError::new_err("`progress` must be a function such as tqdm.tqdm"));
        }
        Ok(Self { make: make.map(|make| make.clone().unbind()), bar: PyOnceLock::new() })
    }

    /// Whether nobody sees it.
    pub(crate) fn is_hidden(&self) -> bool {
        self.make.is_none()
    }

    /// Makes the bar: calls the program's function with `total`. A second beginning is a part of the first.
    ///
    /// # Errors
    /// What the function raises.
    pub(crate) fn begin(&self, py: Python<'_>, steps: usize) -> PyResult<()> {
        let Some(make) = &self.make else { return Ok(()) };
        let make_bar = || {
            let options = PyDict::new(py);
            options.set_item("total", steps)?;
            make.call(py, (), Some(&options))
        };
        self.bar.get_or_try_init(py, make_bar).map(|_| ())
    }

    /// Says that a step is done: calls `update(1)`.
    ///
    /// # Errors
    /// What the bar raises.
    pub(crate) fn step(&self, py: Python<'_>) -> PyResult<()> {
        match self.bar.get(py) {
            Some(bar) => bar.call_method1(py, "update", (1,)).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Ends the work: closes the bar. An error of the work comes before one of the bar.
    ///
    /// # Errors
    /// That of the work; what the bar raises.
    pub(crate) fn close<T>(&self, py: Python<'_>, work: PyResult<T>) -> PyResult<T> {
        let closed = self.bar.get(py).map(|bar| bar.call_method0(py, "close")).transpose();
        let work = work?;
        closed.map(|_| work)
    }
}
