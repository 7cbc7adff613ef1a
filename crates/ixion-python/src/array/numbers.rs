//! Python's numbers and lists of them, which get the element type that the model wants.

use super::dtype::{self, dtype_name};
use super::label::Label;
use super::package::numpy_module;
use ixion::tensor::DType;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyTuple};

/// True for Python's own numbers, and lists and tuples, which have no element type.
pub(super) fn is_untyped(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyComplex>()
}

/// The array that NumPy made of numbers and lists, in the wanted type.
///
/// # Errors
/// `InputError` if that type cannot hold them: if they are of a wider kind, such as floats for an integer type, or out of range.
/// Floats may lose precision.
pub(super) fn converted<'py>(
    array: Bound<'py, PyUntypedArray>,
    label: &Label<'_>,
    wanted: Option<DType>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let found = array.dtype();
    let Some(wanted) = wanted.filter(|&wanted| dtype::of_descr(&found) != Some(wanted)) else {
        return Ok(array);
    };
    let name = dtype_name(wanted);
    if breadth(found.kind()) > breadth_of(wanted) && !array.is_empty() {
        return Err(label.error(format!("must have numbers of {name}, but has some of {found}")));
    }
    let Some(descr) = dtype::descr(array.py(), wanted)? else {
        let advice = dtype::advice_for_rare(wanted);
        return Err(label.error(format!("must have numbers of {name}, which NumPy lacks; {advice}")));
    };
    let result = cast(&array, &descr)?;
    match is_within_range(&array, &result, wanted)? {
        true => Ok(result),
        false => Err(label.error(format!("has numbers that {name} cannot hold"))),
    }
}

/// The kinds of numbers, by NumPy's letters, in the order in which they include each other.
fn breadth(kind: u8) -> u8 {
    match kind {
        b'b' => 0,
        b'i' | b'u' => 1,
        b'f' => 2,
        b'c' => 3,
        _ => u8::MAX,
    }
}

fn breadth_of(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => breadth(b'b'),
        _ if dtype.is_integer() => breadth(b'i'),
        _ if dtype.is_float() => breadth(b'f'),
        _ => breadth(b'c'),
    }
}

/// The elements in another type. NumPy would warn of those that are out of range.
fn cast<'py>(
    array: &Bound<'py, PyUntypedArray>,
    descr: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = array.py();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "all"), "ignore")?;
    let quiet = numpy_module(py)?.call_method(intern!(py, "errstate"), (), Some(&options))?;
    quiet.call_method0(intern!(py, "__enter__"))?;
    let result = array.call_method1(intern!(py, "astype"), (descr,));
    quiet.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None()))?;
    Ok(result?.cast_into::<PyUntypedArray>()?)
}

/// False if integers have changed, or finite numbers became infinite.
fn is_within_range<'py>(
    array: &Bound<'py, PyUntypedArray>,
    result: &Bound<'py, PyUntypedArray>,
    wanted: DType,
) -> PyResult<bool> {
    let py = array.py();
    let numpy = numpy_module(py)?;
    let is_equal = intern!(py, "array_equal");
    if wanted.is_integer() {
        return numpy.call_method1(is_equal, (array, result))?.is_truthy();
    }
    let is_finite = intern!(py, "isfinite");
    let (before, after) =
        (numpy.call_method1(is_finite, (array,))?, numpy.call_method1(is_finite, (result,))?);
    numpy.call_method1(is_equal, (before, after))?.is_truthy()
}
