//! Arrays in and out, without a copy wherever the memory allows it.
//!
//! | value | as an input |
//! |---|---|
//! | NumPy array, any strides from 0 up | used in place |
//! | NumPy array with negative or odd strides, misaligned, or of the other byte order | copied |
//! | PyTorch tensor on the CPU, and any other object with `__dlpack__` | used in place |
//! | buffer, such as `bytes` or `memoryview`, and what `numpy.asarray` knows | used in place if it allows that |
//! | Python numbers and nested lists of them | converted to the input's type, unless they are out of its range |
//! | any of these with bools | copied, since only two bytes are bools, and a program may write others while a run reads them |
//! | masked array, array of objects or text, tensor on a GPU or with a gradient | [`InputError`] |
//!
//! A run itself copies inputs that are not contiguous, but without the interpreter.
//!
//! Outputs are NumPy arrays over the memory of the tensor, which they own. While a run uses an array, no other run of this
//! process can write to it, nor use it if the first one writes.

mod claims;
mod dlpack;
mod dtype;
mod import;
mod label;
mod memory;
mod numbers;
mod package;
mod region;
mod torch;

use crate::error::{InputError, OrRaise};
use claims::{Access, Claim};
use import::Owner;
use ixion::tensor::{DType, Tensor, TensorError, TensorView, TensorViewMut};
use label::Label;
use memory::Memory;
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use region::Region;

pub(crate) use dtype::dtype_name;

/// Adds the class of the memory of outputs.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Memory>()
}

/// An array or tensor of the caller, used as an input.
///
/// Its memory stays valid, and no run writes to it, until this is dropped. Python code that writes to the array meanwhile
/// makes the results meaningless, as with NumPy's own functions that release the interpreter's lock.
pub(crate) struct Input<'py> {
    region: Region,
    /// `None` for a copy, which nothing else knows.
    _claim: Option<Claim>,
    _owner: Owner<'py>,
}

impl<'py> Input<'py> {
    /// The input of this name from any value of the table above. `wanted` is the type of the model's input, to which numbers
    /// and lists are converted; arrays and tensors keep theirs.
    ///
    /// # Errors
    /// [`InputError`] if the value is no array of a type that tensors have, or if a run is writing to it.
    pub(crate) fn new(value: &Bound<'py, PyAny>, name: &str, wanted: Option<DType>) -> PyResult<Self> {
        let label = Label { kind: "input", name };
        let (region, owner) = import::readable(value, &label, wanted)?;
        check_rare(&label, wanted, region.dtype)?;
        let claim = Claim::new(region.extent(), Access::Read).ok_or_else(|| {
            label.error("shares memory with an array that this or another run writes to; give a copy of it")
        })?;
        Self { region, _claim: Some(claim), _owner: owner }.with_valid_bools(value.py())
    }

    /// The input; of bools, a copy with the bytes 0 and 1 alone. NumPy takes all others for true, while a kernel may do anything
    /// when it reads one, and those of the caller's array may change during the run.
    fn with_valid_bools(self, py: Python<'_>) -> PyResult<Self> {
        if self.region.dtype != DType::Bool {
            return Ok(self);
        }
        // SAFETY: as in `view`.
        let bytes = unsafe { self.region.bytes() };
        let mut tensor = py.detach(|| bools_of(&bytes)).or_raise()?;
        let copy = Region::of_tensor(&mut tensor)?;
        // Without repetitions, the copy is contiguous; else it is one of the memory.
        let is_whole = bytes.shape() == self.region.layout.shape();
        let layout = if is_whole { copy.layout } else { self.region.layout };
        let region = Region { dtype: DType::Bool, layout, ..copy };
        Ok(Self { region, _claim: None, _owner: Owner::Tensor(Box::new(tensor)) })
    }

    /// The elements.
    pub(crate) fn view(&self) -> TensorView<'_> {
        let Region { dtype, layout, data } = self.region;
        // SAFETY: `import` checked type, alignment and strides, and the owner keeps the memory. The claim excludes writers
        // among runs; Python code that writes all the same breaks the promise of `Input`.
        unsafe { TensorView::from_raw(dtype, layout, data.as_ptr(), layout.span()) }
    }
}

/// A copy of bytes in which all that are not 0 are 1.
fn bools_of(bytes: &TensorView<'_>) -> Result<Tensor, TensorError> {
    let mut tensor = bytes.to_tensor()?;
    let mut view = tensor.view_mut()?;
    view.array::<u8>()?.mapv_inplace(|byte| u8::from(byte != 0));
    Ok(tensor)
}

/// An array or tensor of the caller, to which an output is written.
pub(crate) struct Output<'py> {
    region: Region,
    object: Bound<'py, PyAny>,
    _claim: Claim,
    _owner: Owner<'py>,
}

impl<'py> Output<'py> {
    /// The array for the output of this name: a NumPy array, or a tensor with `__dlpack__`. Whether type and shape fit is
    /// checked by the run.
    ///
    /// # Errors
    /// [`InputError`] if the value is no such array, read-only, misaligned, of the other byte order, or has negative strides
    /// or elements that overlap; or if a run uses its memory, such as for an input.
    pub(crate) fn new(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let label = Label { kind: "the array for output", name };
        let (region, owner) = import::writable(value, &label)?;
        if !region.layout.is_injective() {
            return Err(label.error("has elements that overlap; give one such as numpy.empty(shape, dtype)"));
        }
        let claim = Claim::new(region.extent(), Access::Write).ok_or_else(|| {
            label.error("shares memory with an input or output of this or another run; give another one")
        })?;
        let output = Self { region, object: value.clone(), _claim: claim, _owner: owner };
        output.with_valid_bools()
    }

    /// The output, whose bools are 0 and 1: those of `numpy.empty` may be any byte.
    fn with_valid_bools(self) -> PyResult<Self> {
        let Region { dtype, layout, data } = self.region;
        if dtype == DType::Bool {
            // SAFETY: as in `view_mut`; every byte is a valid `u8`.
            let mut bytes =
                unsafe { TensorViewMut::from_raw(DType::U8, layout, data.as_ptr(), layout.span()) };
            let mut bytes = bytes.array::<u8>().or_raise()?;
            if bytes.fold(0u8, |all, &byte| all | byte) > 1 {
                // As NumPy reads them: the array may be that of an input.
                bytes.mapv_inplace(|byte| u8::from(byte != 0));
            }
        }
        Ok(self)
    }

    /// The elements, for writing.
    pub(crate) fn view_mut(&mut self) -> TensorViewMut<'_> {
        let Region { dtype, layout, data } = self.region;
        // SAFETY: as in `Input::view`; the memory is writable, the layout injective, and the claim exclusive.
        unsafe { TensorViewMut::from_raw(dtype, layout, data.as_ptr(), layout.span()) }
    }

    /// The caller's object.
    pub(crate) fn object(&self) -> &Bound<'py, PyAny> {
        &self.object
    }
}

/// Says how to get arrays of the types that NumPy lacks. All other types are compared by the run.
fn check_rare(label: &Label<'_>, wanted: Option<DType>, found: DType) -> PyResult<()> {
    match wanted {
        Some(wanted @ (DType::Bf16 | DType::C32)) if wanted != found => {
            let (name, found, advice) =
                (dtype_name(wanted), dtype_name(found), dtype::advice_for_rare(wanted));
            Err(label.error(format!("must have the element type {name}, but has {found}; {advice}")))
        }
        _ => Ok(()),
    }
}

/// A NumPy array over the memory of a tensor, which it owns: nothing is copied unless another tensor shares the memory.
///
/// bf16 has the type `ml_dtypes.bfloat16`. Without that package, and for c32, which NumPy lacks, the result is a PyTorch
/// tensor.
///
/// # Errors
/// [`InputError`] if neither NumPy nor an installed package has the element type.
pub(crate) fn to_numpy<'py>(py: Python<'py>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
    package::numpy_module(py)?;
    let dtype = tensor.dtype();
    let memory = Bound::new(py, Memory::new(tensor)?)?;
    if let Some(descr) = dtype::descr(py, dtype)? {
        return memory::array(&memory, descr);
    }
    if let Some(torch) = package::optional(py, "torch")? {
        return memory::tensor(&memory, &torch);
    }
    let advice = if dtype == DType::Bf16 { "install `ml_dtypes` or PyTorch" } else { "install PyTorch" };
    Err(InputError::new_err(format!("NumPy has no type for an output of {}; {advice}", dtype_name(dtype))))
}

/// Returns true if the value is a NumPy array.
///
/// # Errors
/// An exception if NumPy is missing.
pub(crate) fn is_array(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    package::numpy_module(value.py())?;
    Ok(value.cast::<PyUntypedArray>().is_ok())
}

/// The array as the kind of `first`: a PyTorch tensor over the same memory if `first` is a PyTorch tensor, else unchanged.
///
/// # Errors
/// What PyTorch raises.
pub(crate) fn like<'py>(first: &Bound<'py, PyAny>, array: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = first.py();
    // What NumPy lacks is a PyTorch tensor already.
    if first.is_exact_instance_of::<PyUntypedArray>()
        || !torch::is_tensor(first)?
        || torch::is_tensor(&array)?
    {
        return Ok(array);
    }
    let torch = torch::module(py)?;
    let base = array.getattr(intern!(py, "base"))?;
    match base.cast::<Memory>() {
        Ok(memory) if memory.get().dtype() == DType::Bf16 => memory::tensor(memory, torch),
        _ => torch.call_method1(intern!(py, "from_numpy"), (array,)),
    }
}
