//! Contexts: the state of one run at a time.

use crate::built::Built;
use crate::call::{Call, Extra};
use crate::error::InputError;
use crate::ports::TensorInfo;
use crate::release::LastOwner;
use crate::slot::Slot;
use ixion::CancelToken;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Context>()
}

/// Runs a model in one thread at a time, with memory of its own for activations.
///
/// ``context(*inputs, out=None, timeout=None, **named)`` runs the model, as calling a ``Model`` does. It raises ``InputError`` if
/// another thread is using the context, and ``Cancelled`` if ``cancel`` ended the run.
///
/// A model has a context for each thread that calls it, and takes one for every call. With a context of its own, a thread always
/// runs in the same memory, and another thread can cancel its runs. Two threads must not use a context at once.
#[pyclass(module = "ixion", frozen, weakref)]
pub(crate) struct Context {
    built: Arc<Built>,
    slot: Arc<Mutex<Slot>>,
    cancel: CancelToken,
    _last: LastOwner<Mutex<Slot>>,
}

impl Context {
    pub(crate) fn new(py: Python<'_>, built: &Arc<Built>) -> PyResult<Self> {
        let slot = Slot::new(py, built)?;
        let cancel = slot.cancel_token();
        let slot = Arc::new(Mutex::new(slot));
        let _last = LastOwner::of(&slot);
        Ok(Self { built: Arc::clone(built), slot, cancel, _last })
    }

    /// The slot, if no other call uses it.
    fn slot(&self) -> PyResult<MutexGuard<'_, Slot>> {
        match self.slot.try_lock() {
            Ok(slot) => Ok(slot),
            Err(TryLockError::Poisoned(slot)) => Ok(slot.into_inner()),
            Err(TryLockError::WouldBlock) => Err(InputError::new_err(
                "another call is running in this context; create one for each thread by `model.context()`, or call the \
                 model, which threads may share",
            )),
        }
    }
}

#[pymethods]
impl Context {
    #[pyo3(signature = (*inputs, out=None, timeout=None, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.built.check_process()?;
        // Locked before the arguments are read: those of two threads may be the same arrays, which is not what is wrong.
        let mut slot = self.slot()?;
        let call = Call::new(&self.built, inputs, named, Extra { out, timeout })?;
        call.run(py, &self.built, &mut slot)
    }

    /// End the run in progress, or the next one if there is none: it raises ``Cancelled``. May be called in any thread.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Discard what is known of the shapes that were seen. The memory for activations is kept.
    ///
    /// Raises ``InputError`` if another thread is using the context.
    fn clear(&self) -> PyResult<()> {
        self.slot()?.clear();
        Ok(())
    }

    /// The bytes of the memory for activations.
    ///
    /// Raises ``InputError`` if another thread is using the context.
    #[getter]
    fn arena_bytes(&self) -> PyResult<usize> {
        Ok(self.slot()?.arena_bytes())
    }

    /// The inputs: a list of ``TensorInfo``.
    #[getter]
    fn inputs(&self) -> Vec<TensorInfo> {
        self.built.input_infos()
    }

    /// The outputs: a list of ``TensorInfo``.
    #[getter]
    fn outputs(&self) -> Vec<TensorInfo> {
        self.built.output_infos()
    }

    fn __repr__(&self) -> String {
        format!("<ixion.Context {}>", self.built.text())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a context can be neither copied nor pickled; pickle its model, and call `model.context()` for another one",
        ))
    }
}
