//! PyTorch's tensors, for programs that use PyTorch: it is never imported for them.

use super::label::Label;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Returns true if the value is a PyTorch tensor. If PyTorch is not imported, nothing is.
pub(super) fn is_tensor(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match class(value.py())? {
        Some(class) => value.is_instance(class),
        None => Ok(false),
    }
}

/// `torch.Tensor`, if PyTorch is imported.
fn class(py: Python<'_>) -> PyResult<Option<&Bound<'_, PyAny>>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Some(class) = CLASS.get(py) {
        return Ok(Some(class.bind(py)));
    }
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.cast_into::<PyDict>()?;
    let Some(torch) = modules.get_item(intern!(py, "torch"))? else { return Ok(None) };
    // It may still be importing.
    let Some(class) = torch.getattr_opt(intern!(py, "Tensor"))? else { return Ok(None) };
    // Another thread may have been first, with the same class.
    _ = CLASS.set(py, class.unbind());
    Ok(CLASS.get(py).map(|class| class.bind(py)))
}

/// PyTorch, whose tensors a program has given.
///
/// # Errors
/// What importing it raises.
pub(super) fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static TORCH: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let import = || py.import("torch").map(Bound::unbind);
    Ok(TORCH.get_or_try_init(py, import)?.bind(py))
}

/// A tensor over the same memory that nobody else has. By `set_`, another thread may give the caller's own tensor other memory
/// during a run, and would free this.
///
/// # Errors
/// `InputError` for a tensor with a gradient.
pub(super) fn detached<'py>(tensor: &Bound<'py, PyAny>, label: &Label<'_>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    if tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
        return Err(label.error("requires a gradient, and Ixion computes none; give its `.detach()`"));
    }
    tensor.call_method0(intern!(py, "detach")).map_err(|error| label.explained(py, error))
}

/// The NumPy array of a tensor without a gradient, over the same memory; `None` for types that NumPy lacks.
///
/// # Errors
/// `InputError` for a tensor on a GPU, and one that is a lazy conjugate of other memory.
pub(super) fn to_array<'py>(
    tensor: &Bound<'py, PyAny>,
    label: &Label<'_>,
) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    let py = tensor.py();
    match tensor.call_method0(intern!(py, "numpy")) {
        Ok(array) => return Ok(array.cast_into::<PyUntypedArray>().ok()),
        // An interrupt is not about the tensor.
        Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
        Err(_) => {}
    }
    let device = tensor.getattr(intern!(py, "device"))?.str()?.to_string();
    if device == "meta" {
        return Err(label.error("is on the device meta, and has no elements; create it on the CPU"));
    }
    if !device.starts_with("cpu") {
        return Err(label.error(format!("is on {device}; copy it to the CPU first, with `.cpu()`")));
    }
    let is = |method: &str| tensor.call_method0(method)?.is_truthy();
    if is("is_conj")? || is("is_neg")? {
        return Err(label.error("is a lazy conjugate; give its `.resolve_conj().resolve_neg()`"));
    }
    Ok(None)
}
