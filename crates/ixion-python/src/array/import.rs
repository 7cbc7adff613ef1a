//! Python values as memory: NumPy arrays, tensors, buffers, numbers and lists.

use super::dlpack::{self, Managed};
use super::dtype::{self, dtype_name};
use super::label::Label;
use super::package::numpy_module;
use super::region::Region;
use super::{numbers, torch};
use ixion::tensor::{DType, Layout, Shape, Tensor};
use numpy::npyffi::{_PyArray_GET_ITEM_DATA, NPY_ARRAY_WRITEABLE};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};

/// What keeps the memory of an array alive.
#[allow(dead_code, reason = "it is held, not read")]
pub(super) enum Owner<'py> {
    Object(Bound<'py, PyAny>),
    Managed(Managed),
    /// In a box, since inputs are moved several times.
    Tensor(Box<Tensor>),
}

/// The memory of a tensor with its owner.
fn owned<'py>((region, tensor): (Region, Managed)) -> (Region, Owner<'py>) {
    (region, Owner::Managed(tensor))
}

/// The memory of a value, for reading, and what keeps it alive. `wanted` is the type for numbers and lists.
pub(super) fn readable<'py>(
    value: &Bound<'py, PyAny>,
    label: &Label<'_>,
    wanted: Option<DType>,
) -> PyResult<(Region, Owner<'py>)> {
    let py = value.py();
    numpy_module(py)?;
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return readable_array(array, label);
    }
    if numbers::is_untyped(value) {
        return readable_array(&numbers::converted(as_array(value, label)?, label, wanted)?, label);
    }
    if torch::is_tensor(value)? {
        let tensor = torch::detached(value, label)?;
        return match torch::to_array(&tensor, label)? {
            Some(array) => readable_array(&array, label),
            None => dlpack::readable(&tensor, label).map(owned),
        };
    }
    if value.hasattr(intern!(py, "__dlpack__"))? {
        return dlpack::readable(value, label).map(owned);
    }
    if value.is_instance_of::<PyBytes>() {
        // NumPy takes bytes for a text.
        let bytes = PyMemoryView::from(value)?.into_any();
        return readable_array(&as_array(&bytes, label)?, label);
    }
    readable_array(&as_array(value, label)?, label)
}

/// The memory of an array or tensor, for writing, and what keeps it alive.
pub(super) fn writable<'py>(value: &Bound<'py, PyAny>, label: &Label<'_>) -> PyResult<(Region, Owner<'py>)> {
    numpy_module(value.py())?;
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return writable_array(array, label);
    }
    if torch::is_tensor(value)? {
        let tensor = torch::detached(value, label)?;
        return match torch::to_array(&tensor, label)? {
            Some(array) => writable_array(&array, label),
            None => dlpack::writable(&tensor, label, true).map(owned),
        };
    }
    if value.hasattr(intern!(value.py(), "__dlpack__"))? {
        return dlpack::writable(value, label, false).map(owned);
    }
    let advice = "numpy.asarray(buffer) is an array over a buffer";
    Err(label.error(format!("must be a NumPy array or a tensor, not {}; {advice}", type_name(value))))
}

/// The name of a value's type, for messages.
fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| format!("`{name}`"))
}

fn readable_array<'py>(
    array: &Bound<'py, PyUntypedArray>,
    label: &Label<'_>,
) -> PyResult<(Region, Owner<'py>)> {
    refuse_masks(array, label)?;
    if let Some(region) = region_of(array, label)? {
        return Ok((region, Owner::Object(array.clone().into_any())));
    }
    let copy = native_copy(array).map_err(|error| label.explained(array.py(), error))?;
    match region_of(&copy, label)? {
        Some(region) => Ok((region, Owner::Object(copy.into_any()))),
        None => Err(label.error("cannot be copied; give it as a contiguous array")),
    }
}

fn writable_array<'py>(
    array: &Bound<'py, PyUntypedArray>,
    label: &Label<'_>,
) -> PyResult<(Region, Owner<'py>)> {
    refuse_masks(array, label)?;
    if !is_writable(array) {
        return Err(label.error("is read-only; give a writable array"));
    }
    match region_of(array, label)? {
        Some(region) => Ok((region, Owner::Object(array.clone().into_any()))),
        None => Err(label.error(
            "is misaligned, has another byte order or strides that are negative; give a contiguous array such as numpy.empty(shape, dtype)",
        )),
    }
}

/// Refuses arrays of which some elements do not count.
fn refuse_masks(array: &Bound<'_, PyUntypedArray>, label: &Label<'_>) -> PyResult<()> {
    let is_masked =
        !array.is_exact_instance_of::<PyUntypedArray>() && array.hasattr(intern!(array.py(), "mask"))?;
    match is_masked {
        true => Err(label.error("is a masked array; fill in what is masked first, with `.filled(value)`")),
        false => Ok(()),
    }
}

// The functions below read an array's own fields: the attributes of a subclass may say anything, and their code could change
// the array between two looks at it.

fn is_writable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: the object is an array, whose fields are read while the thread is attached.
    let flags = unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).flags };
    flags & NPY_ARRAY_WRITEABLE != 0
}

/// The memory of an array; `None` if a tensor cannot represent it.
fn region_of(array: &Bound<'_, PyUntypedArray>, label: &Label<'_>) -> PyResult<Option<Region>> {
    let descr = array.dtype();
    let dtype = dtype::of_descr(&descr).ok_or_else(|| {
        let names = DType::ALL.map(dtype_name).join(", ");
        label.error(format!(
            "has the element type {descr}; convert it first, with `.astype`, to one of {names}"
        ))
    })?;
    let shape = Shape::new(array.shape()).map_err(|error| label.error(format!("is invalid: {error}")))?;
    if shape.num_elements() == 0 {
        return Ok(Some(Region::empty(dtype, shape)));
    }
    if descr.is_native_byteorder() == Some(false) {
        return Ok(None);
    }
    let Some(layout) = layout_of(array, dtype, shape, label)? else { return Ok(None) };
    // SAFETY: as in `is_writable`.
    let data = unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).data };
    Region::new(dtype, layout, data.cast(), label)
}

/// The layout of an array; `None` for strides that are negative or no multiples of an element.
fn layout_of(
    array: &Bound<'_, PyUntypedArray>,
    dtype: DType,
    shape: Shape,
    label: &Label<'_>,
) -> PyResult<Option<Layout>> {
    if array.is_c_contiguous() {
        return Ok(Some(Layout::contiguous(shape)));
    }
    let size = dtype.size();
    let in_elements = |(&dim, &stride): (&usize, &isize)| match usize::try_from(stride) {
        // Strides of axes of length 1 have no meaning.
        _ if dim == 1 => Some(0),
        Ok(stride) if stride.is_multiple_of(size) => Some(stride / size),
        _ => None,
    };
    let strides: Option<Vec<usize>> = array.shape().iter().zip(array.strides()).map(in_elements).collect();
    let layout = strides.map(|strides| Layout::strided(shape, &strides, 0)).transpose();
    layout.map_err(|error| label.error(format!("is invalid: {error}")))
}

/// A contiguous copy of an array, in the byte order of this machine. It is NumPy's own array, whatever the subclass.
fn native_copy<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = array.py();
    let descr = array.dtype();
    let descr = match descr.is_native_byteorder() {
        Some(false) => descr.call_method1(intern!(py, "newbyteorder"), ("=",))?,
        _ => descr.into_any(),
    };
    let options = PyDict::new(py);
    options.set_item(intern!(py, "order"), "C")?;
    options.set_item(intern!(py, "copy"), true)?;
    let copy = numpy_module(py)?.call_method(intern!(py, "array"), (array, descr), Some(&options))?;
    Ok(copy.cast_into::<PyUntypedArray>()?)
}

/// The array that NumPy makes of a value.
///
/// # Errors
/// `InputError` if it makes none of numbers.
fn as_array<'py>(value: &Bound<'py, PyAny>, label: &Label<'_>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = value.py();
    let array = numpy_module(py)?.call_method1(intern!(py, "asarray"), (value,));
    let array = array.map_err(|error| label.explained(py, error))?.cast_into::<PyUntypedArray>()?;
    if !matches!(array.dtype().kind(), b'O' | b'S' | b'U' | b'T') {
        return Ok(array);
    }
    let advice = "give a NumPy array, a tensor, or lists of numbers";
    Err(label.error(match numbers::is_untyped(value) {
        true => format!("has values that are no numbers, or too large for any type; {advice}"),
        false => format!("is no array of numbers but {}; {advice}", type_name(value)),
    }))
}
