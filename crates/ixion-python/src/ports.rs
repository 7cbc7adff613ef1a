//! The names, shapes and element types of inputs and outputs.

use crate::array::dtype_name;
use ixion::graph::OperandIndex;
use ixion::op::TensorMeta;
use ixion::pnnx;
use ixion::tensor::{DType, Dim};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::HashMap;

/// A length of an axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Length {
    Known(i64),
    Symbol(String),
    Unknown,
}

/// The name, shape and element type of an input or output.
///
/// ``shape`` is a tuple with a length for each axis: an int, as the file states it, or a str for one that is known when the
/// model runs, where equal names are equal lengths; it is None if the number of axes is unknown. ``dtype`` is NumPy's name, such
/// as ``"float32"``, or None if it is unknown. ``sample`` is the shape as the file records it, with None for unknown lengths.
#[pyclass(module = "ixion", frozen, eq, hash)]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TensorInfo {
    name: String,
    dtype: Option<DType>,
    shape: Option<Vec<Length>>,
    sample: Option<Vec<Length>>,
}

/// The lengths that the file states for the inputs of a plan, by the symbols that stand for them.
pub(crate) struct Stated(HashMap<String, i64>);

impl Stated {
    pub(crate) fn new(plan: &ixion::Plan) -> Self {
        let mut stated = HashMap::new();
        for port in plan.inputs() {
            let index = OperandIndex::new(port.operand);
            let dims = plan.graph().operand(index).shape().unwrap_or_default();
            for (axis, dim) in dims.iter().enumerate() {
                if let Some(length) = known(dim) {
                    // The engine's name of the length of one axis.
                    stated.insert(format!("{}.{axis}", port.name), length);
                }
            }
        }
        Self(stated)
    }

    /// The length of a dimension, with what the file states.
    fn length(&self, dim: &Dim) -> Length {
        let dim = dim.replace(&|name| self.0.get(name).copied().map(Dim::Fixed));
        dim.fixed().map_or_else(|| Length::Symbol(dim.to_string()), Length::Known)
    }
}

/// A length that is a number.
fn known(dim: &pnnx::Dim) -> Option<i64> {
    match dim {
        pnnx::Dim::Fixed(length) => i64::try_from(*length).ok(),
        _ => None,
    }
}

impl TensorInfo {
    pub(crate) fn new(plan: &ixion::Plan, port: &ixion::engine::Port, stated: &Stated) -> Self {
        let index = OperandIndex::new(port.operand);
        let meta = plan.shapes().get(index);
        let lengths = |meta: &TensorMeta| meta.dims().iter().map(|dim| stated.length(dim)).collect();
        Self {
            name: port.name.clone(),
            dtype: port.dtype.or_else(|| meta.map(TensorMeta::dtype)),
            shape: meta.map(lengths),
            sample: plan.graph().operand(index).shape().map(|shape| shape.iter().map(Length::of).collect()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The name, type and shape, as in `x: float32[n, 3, 224, 224]`.
    pub(crate) fn text(&self) -> String {
        let dtype = self.dtype.map_or("?", dtype_name);
        let shape = self.shape.as_ref().map(|shape| shape.iter().map(Length::text).collect::<Vec<_>>());
        let shape = shape.map_or_else(|| "...".to_owned(), |lengths| lengths.join(", "));
        format!("{}: {dtype}[{shape}]", self.name)
    }
}

impl Length {
    /// A length as a file records it.
    fn of(dim: &pnnx::Dim) -> Self {
        match dim {
            pnnx::Dim::Named(name) => Self::Symbol(name.clone()),
            dim => known(dim).map_or(Self::Unknown, Self::Known),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Known(length) => length.to_string(),
            Self::Symbol(name) => name.clone(),
            Self::Unknown => "?".to_owned(),
        }
    }

    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Known(length) => length.into_bound_py_any(py),
            Self::Symbol(name) => name.as_str().into_bound_py_any(py),
            Self::Unknown => Ok(py.None().into_bound(py)),
        }
    }
}

fn tuple<'py>(py: Python<'py>, shape: Option<&Vec<Length>>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some(shape) = shape else { return Ok(None) };
    let lengths = shape.iter().map(|length| length.to_python(py)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, lengths).map(Some)
}

#[pymethods]
impl TensorInfo {
    /// The name.
    #[getter(name)]
    fn get_name(&self) -> &str {
        &self.name
    }

    /// NumPy's name of the element type, or None.
    #[getter(dtype)]
    fn get_dtype(&self) -> Option<&'static str> {
        self.dtype.map(dtype_name)
    }

    /// The lengths of the axes, or None.
    #[getter(shape)]
    fn get_shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        tuple(py, self.shape.as_ref())
    }

    /// The shape as the file records it, or None. A length that it does not record is None.
    #[getter(sample)]
    fn get_sample<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        tuple(py, self.sample.as_ref())
    }

    fn __repr__(&self) -> String {
        format!("<ixion.TensorInfo {}>", self.text())
    }
}
