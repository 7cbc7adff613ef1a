//! The arguments of a call of a model, and its results.

use crate::array::{self, Input, Output, like, to_numpy};
use crate::built::{Built, Port};
use crate::error::{Error, InputError, OrRaise, to_py};
use crate::given;
use crate::hints::hinted;
use crate::slot::{Slot, Tensors};
use ixion::Tensor;
use ixion::engine::EngineError;
use ixion::graph::GraphError;
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::borrow::Cow;
use std::time::Duration;

/// The arguments of a call.
pub(crate) struct Call<'py> {
    /// In the order of the model's inputs; `None` for one whose array is also that of an output.
    inputs: Vec<Option<Input<'py>>>,
    /// The value of the first input, whose library the results are for; `None` for NumPy's.
    first: Option<Bound<'py, PyAny>>,
    /// The arrays of the caller, in the order of the model's outputs; empty if the caller gave no arrays.
    outputs: Vec<Option<Output<'py>>>,
    /// The positions of inputs, and of the outputs that have the same arrays.
    donors: Vec<(usize, usize)>,
    timeout: Option<Duration>,
}

/// The optional arguments of a call.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extra<'a, 'py> {
    /// Arrays for outputs: one, a sequence with one or None for each output, or a dictionary by name.
    pub(crate) out: Option<&'a Bound<'py, PyAny>>,
    /// The number of seconds that the run may take.
    pub(crate) timeout: Option<&'a Bound<'py, PyAny>>,
}

impl<'py> Call<'py> {
    /// Takes the inputs in the model's order, in a dictionary by name, or by keyword.
    ///
    /// # Errors
    /// `InputError` if an input is missing, unknown or given twice, or if a value is not an array that fits.
    pub(crate) fn new(
        built: &Built,
        inputs: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
        extra: Extra<'_, 'py>,
    ) -> PyResult<Self> {
        let values = values(built, inputs, named)?;
        let arrays = extra.out.map_or_else(|| Ok(Vec::new()), |out| targets(built, out))?;
        let donors = donors(&values, &arrays);
        // A fallible `collect` would reserve room for four of them, which takes longer than to allocate little memory.
        let mut inputs = Vec::with_capacity(values.len());
        for (position, (port, value)) in built.inputs.iter().zip(&values).enumerate() {
            let is_donated = donors.iter().any(|pair| pair.0 == position);
            inputs.push(match is_donated {
                true => None,
                false => Some(Input::new(value, port.info.name(), port.info.dtype())?),
            });
        }
        let mut outputs = Vec::with_capacity(arrays.len());
        for (port, array) in built.outputs.iter().zip(arrays) {
            outputs.push(array.map(|array| Output::new(&array, port.info.name())).transpose()?);
        }
        // Reading the inputs has imported NumPy, without which its arrays cannot be told from others.
        let first = values.into_iter().next().filter(|value| value.cast::<PyUntypedArray>().is_err());
        Ok(Self { inputs, first, outputs, donors, timeout: extra.timeout.map(given::seconds).transpose()? })
    }

    /// Runs the model. Returns its only output, or a tuple of all.
    ///
    /// # Errors
    /// The exceptions of a run; what a signal's handler raises.
    pub(crate) fn run(
        mut self,
        py: Python<'py>,
        built: &Built,
        slot: &mut Slot,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tensors = Tensors {
            inputs: self.inputs.iter().map(|input| input.as_ref().map(Input::view)).collect(),
            targets: self.outputs.iter_mut().map(|output| output.as_mut().map(Output::view_mut)).collect(),
            donors: &self.donors,
        };
        let outputs = slot.run(py, built, tensors, self.timeout)?;
        self.results(py, built, outputs)
    }

    /// Copies of the inputs.
    ///
    /// # Errors
    /// `LimitError` if there is no memory.
    pub(crate) fn tensors(&self) -> PyResult<Vec<Tensor>> {
        self.inputs.iter().flatten().map(|input| input.view().to_tensor().or_raise()).collect()
    }

    /// The caller's arrays, and new ones for the other outputs.
    fn results(&self, py: Python<'py>, built: &Built, tensors: Vec<Tensor>) -> PyResult<Bound<'py, PyAny>> {
        if let ([Some(output)], [_], None) = (&self.outputs[..], &built.outputs[..], built.keys()) {
            return Ok(output.object().clone());
        }
        let mut tensors = tensors.into_iter();
        let mut results = Vec::with_capacity(built.outputs.len());
        for position in 0..built.outputs.len() {
            if let Some(output) = self.outputs.get(position).and_then(Option::as_ref) {
                results.push(output.object().clone());
                continue;
            }
            let tensor = tensors.next();
            let tensor = tensor.ok_or_else(|| Error::new_err("the run returned too few outputs"))?;
            let array = to_numpy(py, tensor)?;
            results.push(match &self.first {
                Some(first) => like(first, array)?,
                None => array,
            });
        }
        match built.keys() {
            Some(keys) => by_key(py, keys, results),
            None if results.len() == 1 => Ok(results.swap_remove(0)),
            None => Ok(PyTuple::new(py, results)?.into_any()),
        }
    }
}

/// The results as a dictionary.
fn by_key<'py>(
    py: Python<'py>,
    keys: &[String],
    results: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let found = PyDict::new(py);
    for (key, result) in keys.iter().zip(results) {
        found.set_item(key, result)?;
    }
    Ok(found.into_any())
}

/// The values of all inputs, in the model's order.
fn values<'py>(
    built: &Built,
    inputs: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let by_name = match inputs.len() {
        1 => mapping(&inputs.get_item(0)?)?,
        _ => None,
    };
    if by_name.is_none() && named.is_none() && inputs.len() == built.inputs.len() {
        return Ok(inputs.iter().collect());
    }
    let mut values: Vec<Option<Bound<'py, PyAny>>> = vec![None; built.inputs.len()];
    if let Some(given) = by_name {
        set_named(built, &mut values, &given)?;
    } else {
        let found = inputs.len();
        for (position, value) in inputs.iter().enumerate() {
            let place = values.get_mut(position).ok_or_else(|| too_many(built, found))?;
            *place = Some(value);
        }
    }
    if let Some(named) = named {
        set_named(built, &mut values, named)?;
    }
    if values.iter().any(Option::is_none) {
        return Err(missing(built, &values, inputs));
    }
    Ok(values.into_iter().flatten().collect())
}

/// The items of a dictionary, or of another mapping that is no array; `None` for any other value.
fn mapping<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    if let Ok(given) = value.cast::<PyDict>() {
        return Ok(Some(given.clone()));
    }
    let py = value.py();
    if array::is_array(value)? {
        return Ok(None);
    }
    // Arrays and tensors have the first attribute, which is found in less time than it takes to miss the second.
    if value.hasattr(intern!(py, "ndim"))? || !value.hasattr(intern!(py, "keys"))? {
        return Ok(None);
    }
    let given = py.get_type::<PyDict>().call1((value,))?;
    Ok(Some(given.cast_into::<PyDict>()?))
}

/// The positions of inputs, and of outputs that are to be written to the same array: such an input is donated.
fn donors(values: &[Bound<'_, PyAny>], arrays: &[Option<Bound<'_, PyAny>>]) -> Vec<(usize, usize)> {
    let mut donors: Vec<(usize, usize)> = Vec::new();
    for (output, array) in arrays.iter().enumerate() {
        let Some(array) = array else { continue };
        if let Some(input) = values.iter().position(|value| value.is(array)) {
            donors.push((input, output));
        }
    }
    donors
}

/// Sets inputs by name.
fn set_named<'py>(
    built: &Built,
    values: &mut [Option<Bound<'py, PyAny>>],
    given: &Bound<'py, PyDict>,
) -> PyResult<()> {
    let advice = "the names of inputs must be strings, as in model({\"x\": x})";
    let py = given.py();
    for (name, value) in given {
        let name = text(&name, advice)?;
        let position = built.plan().input(&name).ok_or_else(|| unknown_input(py, &name, &built.inputs))?;
        let Some(place) = values.get_mut(position) else { continue };
        if place.replace(value).is_some() {
            return Err(to_py(EngineError::GivenTwice { what: "input", name }));
        }
    }
    Ok(())
}

/// A name in a dictionary, or an exception with this text.
fn text(name: &Bound<'_, PyAny>, advice: &str) -> PyResult<String> {
    let name = name.cast::<PyString>().ok().and_then(|name| name.to_cow().ok().map(Cow::into_owned));
    name.ok_or_else(|| InputError::new_err(advice))
}

fn names(ports: &[Port]) -> Vec<String> {
    ports.iter().map(|port| port.info.name().to_owned()).collect()
}

fn unknown(what: &'static str, name: &str, ports: &[Port]) -> PyErr {
    to_py(GraphError::UnknownName { what, name: name.to_owned(), known: names(ports) })
}

/// The exception for an input that the model does not have, which may be a misspelt argument of the call.
fn unknown_input(py: Python<'_>, name: &str, ports: &[Port]) -> PyErr {
    let inputs = ports.iter().map(|port| port.info.name());
    let known: Vec<&str> = inputs.chain(["out", "timeout"]).collect();
    hinted(py, unknown("input", name, ports), name, &known)
}

fn too_many(built: &Built, found: usize) -> PyErr {
    let wanted = built.inputs.len();
    to_py(GraphError::TooManyInputs { wanted, found, names: names(&built.inputs) })
}

/// The exception for inputs that have no value. A list of all inputs was taken for the first one.
fn missing(built: &Built, values: &[Option<Bound<'_, PyAny>>], inputs: &Bound<'_, PyTuple>) -> PyErr {
    let missing = built.inputs.iter().zip(values).filter(|(_, value)| value.is_none());
    let missing = missing.map(|(port, _)| port.info.name().to_owned()).collect();
    let error = to_py(GraphError::MissingInputs { missing });
    let is_list =
        |value: &Bound<'_, PyAny>| value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if inputs.len() != 1 || !inputs.iter().all(|value| is_list(&value)) {
        return error;
    }
    let hint = "a list is one input; give several as model(a, b), or by name, as model({\"a\": a, \"b\": b})";
    let text = format!("{}\n  hint: {hint}", error.value(inputs.py()));
    PyErr::from_type(error.get_type(inputs.py()), text)
}

/// `out`: the caller's arrays, in the order of the model's outputs.
fn targets<'py>(built: &Built, out: &Bound<'py, PyAny>) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let by_name = mapping(out)?;
    let is_sequence = out.is_instance_of::<PyTuple>() || out.is_instance_of::<PyList>();
    if by_name.is_none() && !is_sequence && built.outputs.len() == 1 {
        return Ok(vec![Some(out.clone()).filter(|array| !array.is_none())]);
    }
    let mut arrays: Vec<Option<Bound<'py, PyAny>>> = vec![None; built.outputs.len()];
    if let Some(given) = by_name {
        for (name, array) in given {
            let name = text(&name, "the names in `out` must be strings, as in out={\"y\": y}")?;
            let position = built.plan().output(&name);
            let position = position.ok_or_else(|| unknown("output", &name, &built.outputs))?;
            let Some(place) = arrays.get_mut(position) else { continue };
            if place.replace(array).is_some() {
                return Err(to_py(EngineError::GivenTwice { what: "the buffer for output", name }));
            }
        }
    } else {
        let given = match is_sequence {
            true => out.try_iter()?.collect::<PyResult<Vec<_>>>()?,
            false => vec![out.clone()],
        };
        let (wanted, found) = (arrays.len(), given.len());
        if wanted != found {
            return Err(to_py(EngineError::OutputCount { wanted, found }));
        }
        arrays = given.into_iter().map(Some).collect();
    }
    Ok(arrays.into_iter().map(|array| array.filter(|array| !array.is_none())).collect())
}
