//! The memory of outputs, which NumPy arrays and DLPack's consumers share.

use super::dlpack::{self, CPU};
use super::dtype::dtype_name;
use super::region::Held;
use crate::error::OrRaise;
use ixion::tensor::{DType, MAX_RANK, Tensor};
use numpy::npyffi::{self, NPY_ARRAY_WRITEABLE, NpyTypes, npy_intp};
use numpy::{PY_ARRAY_API, PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// The memory of an output: the `base` of its NumPy array.
///
/// It supports DLPack, for consumers of element types that NumPy's own `__dlpack__` refuses: for an output `y` of bf16,
/// `torch.from_dlpack(y.base)`.
#[pyclass(frozen, name = "Memory", module = "ixion")]
pub(super) struct Memory {
    held: Arc<Held>,
}

impl Memory {
    /// Takes over a tensor. Its elements are copied if it shares them with another one, or has a blocked layout.
    pub(super) fn new(tensor: Tensor) -> PyResult<Self> {
        Ok(Self { held: Arc::new(Held::new(tensor)?) })
    }

    /// The element type.
    pub(super) fn dtype(&self) -> DType {
        self.held.region.dtype
    }
}

#[pymethods]
impl Memory {
    /// A DLPack capsule over the memory, which it keeps alive; or over a copy, if ``copy`` is true.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // -1 stands for no synchronisation.
        if stream.is_some_and(|stream| !stream.extract::<i64>().is_ok_and(|stream| stream == -1)) {
            return Err(PyBufferError::new_err("the memory is on the CPU, where there are no streams"));
        }
        if dl_device.is_some_and(|device| device != (CPU, 0)) {
            return Err(PyBufferError::new_err(
                "the memory is on the CPU, and cannot be exported to a device",
            ));
        }
        let is_versioned = max_version.is_some_and(|version| version.0 >= 1);
        if copy != Some(true) {
            return dlpack::export(py, &self.held, is_versioned, false);
        }
        let copy = Self::new(self.held.tensor.deep_copy().or_raise()?)?;
        dlpack::export(py, &copy.held, is_versioned, true)
    }

    /// The device: the CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, 0)
    }

    /// The element type, such as `float32`.
    #[getter]
    fn get_dtype(&self) -> &'static str {
        dtype_name(self.dtype())
    }

    /// The length of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.held.region.layout.shape().dims())
    }

    /// The size of the elements in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.held.region.layout.shape().num_elements() * self.dtype().size()
    }

    fn __repr__(&self) -> String {
        let dims: Vec<String> = self.held.region.layout.shape().iter().map(usize::to_string).collect();
        format!("<ixion.Memory of {} [{}]>", dtype_name(self.dtype()), dims.join(", "))
    }
}

/// A NumPy array over the memory, whose base keeps it alive.
pub(super) fn array<'py>(
    memory: &Bound<'py, Memory>,
    descr: Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, region) = (memory.py(), memory.get().held.region);
    let size = region.dtype.size();
    let mut dims: [npy_intp; MAX_RANK] = [0; MAX_RANK];
    let mut strides = dims;
    for (axis, (&dim, &stride)) in region.layout.shape().iter().zip(region.layout.strides()).enumerate() {
        dims[axis] = dim as npy_intp;
        strides[axis] = (stride * size) as npy_intp;
    }
    // SAFETY: there are as many lengths and strides as axes, NumPy copies them, and the address, the type and the strides are
    // those of a tensor that the memory keeps. The call takes over the reference to the descriptor.
    let array = unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            descr.into_dtype_ptr(),
            region.layout.shape().rank() as c_int,
            dims.as_mut_ptr(),
            strides.as_mut_ptr(),
            region.data.as_ptr().cast(),
            NPY_ARRAY_WRITEABLE,
            null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, array)?
    };
    let base = memory.clone().into_any().into_ptr();
    // SAFETY: the array was just created and has no base. The call takes over the reference to the memory.
    if unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base) } != 0 {
        return Err(PyErr::fetch(py));
    }
    Ok(array)
}

/// A PyTorch tensor over the memory.
pub(super) fn tensor<'py>(
    memory: &Bound<'py, Memory>,
    torch: &Bound<'py, PyModule>,
) -> PyResult<Bound<'py, PyAny>> {
    // Every version of PyTorch takes a capsule of the older kind.
    let capsule = dlpack::export(memory.py(), &memory.get().held, false, false)?;
    torch.call_method1("from_dlpack", (capsule,))
}
