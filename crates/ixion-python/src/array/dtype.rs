//! Element types in NumPy.

use super::package::optional;
use ixion::tensor::DType;
use numpy::{Complex32, Complex64, PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

pub(crate) use ixion::cli::python_name as dtype_name;

/// The first number of the element types that other packages add to NumPy's.
const FIRST_ADDED: i32 = 256;

/// How to get arrays of a type that NumPy lacks.
pub(super) fn advice_for_rare(dtype: DType) -> &'static str {
    match dtype {
        DType::Bf16 => "use the type `bfloat16` of the package `ml_dtypes`, or give a PyTorch tensor",
        _ => "give a PyTorch tensor",
    }
}

/// The element type of an array, whatever its byte order; `None` if tensors do not have it. Runs no code in Python.
pub(super) fn of_descr(descr: &Bound<'_, PyArrayDescr>) -> Option<DType> {
    if !(0..FIRST_ADDED).contains(&descr.num()) {
        return is_bfloat16(descr).then_some(DType::Bf16);
    }
    match (descr.kind(), descr.itemsize()) {
        (b'f', 4) => Some(DType::F32),
        (b'f', 8) => Some(DType::F64),
        (b'f', 2) => Some(DType::F16),
        (b'i', 8) => Some(DType::I64),
        (b'i', 4) => Some(DType::I32),
        (b'i', 2) => Some(DType::I16),
        (b'i', 1) => Some(DType::I8),
        (b'u', 1) => Some(DType::U8),
        (b'b', 1) => Some(DType::Bool),
        (b'c', 8) => Some(DType::C64),
        (b'c', 16) => Some(DType::C128),
        _ => None,
    }
}

/// True for `ml_dtypes.bfloat16`, whose number is the next free one when that package is imported.
fn is_bfloat16(descr: &Bound<'_, PyArrayDescr>) -> bool {
    descr.num() >= FIRST_ADDED
        && descr.itemsize() == DType::Bf16.size()
        && descr.typeobj().name().is_ok_and(|name| name == "bfloat16")
}

/// NumPy's descriptor of an element type; `None` for c32, and for bf16 without the package ml_dtypes.
///
/// # Errors
/// What importing that package raises, if it is installed.
pub(super) fn descr<'py>(py: Python<'py>, dtype: DType) -> PyResult<Option<Bound<'py, PyArrayDescr>>> {
    Ok(Some(match dtype {
        DType::F32 => PyArrayDescr::of::<f32>(py),
        DType::F64 => PyArrayDescr::of::<f64>(py),
        DType::F16 => float16(py)?.clone(),
        DType::I64 => PyArrayDescr::of::<i64>(py),
        DType::I32 => PyArrayDescr::of::<i32>(py),
        DType::I16 => PyArrayDescr::of::<i16>(py),
        DType::I8 => PyArrayDescr::of::<i8>(py),
        DType::U8 => PyArrayDescr::of::<u8>(py),
        DType::Bool => PyArrayDescr::of::<bool>(py),
        DType::C64 => PyArrayDescr::of::<Complex32>(py),
        DType::C128 => PyArrayDescr::of::<Complex64>(py),
        DType::Bf16 => return bfloat16(py),
        DType::C32 => return Ok(None),
    }))
}

/// The descriptor of `float16`, which has no type in Rust.
fn float16(py: Python<'_>) -> PyResult<&Bound<'_, PyArrayDescr>> {
    static DESCR: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
    let descr = || PyArrayDescr::new(py, "float16").map(Bound::unbind);
    Ok(DESCR.get_or_try_init(py, descr)?.bind(py))
}

/// The descriptor of `ml_dtypes.bfloat16`, if that package is installed.
fn bfloat16(py: Python<'_>) -> PyResult<Option<Bound<'_, PyArrayDescr>>> {
    static DESCR: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
    if let Some(descr) = DESCR.get(py) {
        return Ok(Some(descr.bind(py).clone()));
    }
    // It may be installed later.
    let Some(module) = optional(py, "ml_dtypes")? else { return Ok(None) };
    let descr = PyArrayDescr::new(py, module.getattr("bfloat16")?)?;
    // Another thread may have been first, with the same descriptor.
    _ = DESCR.set(py, descr.clone().unbind());
    Ok(Some(descr))
}
