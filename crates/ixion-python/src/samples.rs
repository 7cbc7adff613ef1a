//! Samples for calibration: arrays, pictures and files, as inputs of a model.

use crate::array::Input;
use crate::command::raise;
use crate::error::{InputError, OrRaise};
use crate::given;
use crate::vision::{Preparation, picture_of};
use ixion::cli;
use ixion::engine::EngineError;
use ixion::graph::{GraphError, InputPort, RuntimeGraph};
use ixion::tensor::DType;
use ixion::vision::ModelCard;
use ixion::{Limits, Picture, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMapping, PyTuple};
use std::path::PathBuf;

/// Samples, which are converted when they are needed.
pub(crate) struct Samples<'py> {
    samples: Vec<Sample<'py>>,
    card: Option<ModelCard>,
    limits: Limits,
}

enum Sample<'py> {
    File(PathBuf),
    Object(Bound<'py, PyAny>),
}

impl<'py> Samples<'py> {
    /// Collects samples: those of an iterable, at most `max` from its beginning; or the files in a folder, at most `max`, evenly
    /// spaced. An array, a picture or a mapping is a single sample. `graph` is that of the model.
    ///
    /// # Errors
    /// Fails if the folder cannot be read or has no files, or if the samples are neither; what a signal's handler raises.
    pub(crate) fn new(
        samples: &Bound<'py, PyAny>,
        max: Option<usize>,
        graph: &RuntimeGraph,
        card: Option<ModelCard>,
        limits: Limits,
    ) -> PyResult<Self> {
        if let Ok(folder) = samples.extract::<PathBuf>() {
            let files = cli::samples_in(&folder, max).map_err(raise)?;
            return Ok(Self { samples: files.into_iter().map(Sample::File).collect(), card, limits });
        }
        if is_single(samples)? {
            return Ok(Self { samples: vec![Sample::Object(samples.clone())], card, limits });
        }
        let several = samples.try_iter().map_err(|_| {
            let name = graph.inputs().first().map(|port| port.name.as_str()).unwrap_or_default();
            InputError::new_err(format!(
                "samples: expected an iterable of samples, such as a list of arrays for the input `{name}`, or the path of a \
                 folder"
            ))
        })?;
        let mut found = Vec::new();
        for object in several.take(max.unwrap_or(usize::MAX)) {
            let object = object?;
            // An iterator that runs no Python code may be endless.
            object.py().check_signals()?;
            found.push(match object.extract::<PathBuf>() {
                Ok(path) => Sample::File(path),
                Err(_) => Sample::Object(object),
            });
        }
        Ok(Self { samples: found, card, limits })
    }

    /// The number of samples.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The inputs of a sample, in the order of the model's.
    ///
    /// # Errors
    /// `InputError` if the sample does not have what the model needs; a file's own errors.
    pub(crate) fn inputs(
        &self,
        py: Python<'py>,
        place: usize,
        graph: &RuntimeGraph,
    ) -> PyResult<Vec<Tensor>> {
        match self.samples.get(place) {
            Some(Sample::File(path)) => {
                let (card, limits) = (self.card.as_ref(), &self.limits);
                py.detach(|| cli::inputs_of(path, graph, card, limits)).map_err(raise)
            }
            Some(Sample::Object(object)) => self.of_object(object, graph),
            None => Err(InputError::new_err(format!("there is no sample {place}"))),
        }
    }

    /// The exception with a note that says which sample it is about.
    pub(crate) fn noted(&self, py: Python<'py>, error: PyErr, place: usize) -> PyErr {
        let note = match self.samples.get(place) {
            Some(Sample::File(path)) => format!("in the sample {}", path.display()),
            _ => format!("in sample {place}"),
        };
        // Before Python 3.11, there are no notes.
        _ = error.value(py).call_method1("add_note", (note,));
        error
    }

    fn of_object(&self, object: &Bound<'py, PyAny>, graph: &RuntimeGraph) -> PyResult<Vec<Tensor>> {
        let ports = graph.inputs();
        if object.cast::<PyMapping>().is_ok() {
            return self.of_names(given::mapping(object, "sample")?, graph);
        }
        // A list may also be an array, but hardly that of a model with several inputs.
        let is_list = ports.len() > 1 && object.is_instance_of::<PyList>();
        let arrays = match is_list || object.is_instance_of::<PyTuple>() {
            true => object.try_iter()?.collect::<PyResult<Vec<_>>>()?,
            false => vec![object.clone()],
        };
        let names = || ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
        if arrays.len() > ports.len() {
            let (wanted, found) = (ports.len(), arrays.len());
            return Err(GraphError::TooManyInputs { wanted, found, names: names() }).or_raise();
        }
        if arrays.len() < ports.len() {
            let missing = names().split_off(arrays.len());
            return Err(GraphError::MissingInputs { missing }).or_raise();
        }
        arrays.iter().zip(ports).map(|(array, port)| self.tensor(array, graph, port)).collect()
    }

    /// The tensors of named values, in the order of the inputs.
    fn of_names(
        &self,
        named: Vec<(String, Bound<'py, PyAny>)>,
        graph: &RuntimeGraph,
    ) -> PyResult<Vec<Tensor>> {
        let ports = graph.inputs();
        let mut tensors: Vec<Option<Tensor>> = vec![None; ports.len()];
        for (name, value) in named {
            let is_called =
                |port: &InputPort| port.name == name || graph.operand(port.operand).name() == name;
            let place = ports.iter().position(is_called);
            let Some((port, tensor)) = place.and_then(|at| Some((ports.get(at)?, tensors.get_mut(at)?)))
            else {
                let known = ports.iter().map(|port| port.name.clone()).collect();
                return Err(GraphError::UnknownName { what: "input", name, known }).or_raise();
            };
            if tensor.replace(self.tensor(&value, graph, port)?).is_some() {
                return Err(EngineError::GivenTwice { what: "input", name }).or_raise();
            }
        }
        let is_missing =
            |(port, tensor): (&InputPort, &Option<Tensor>)| tensor.is_none().then(|| port.name.clone());
        let missing: Vec<String> = ports.iter().zip(&tensors).filter_map(is_missing).collect();
        match missing.is_empty() {
            true => Ok(tensors.into_iter().flatten().collect()),
            false => Err(GraphError::MissingInputs { missing }).or_raise(),
        }
    }

    /// The tensor of an array or a picture for an input.
    fn tensor(&self, value: &Bound<'py, PyAny>, graph: &RuntimeGraph, port: &InputPort) -> PyResult<Tensor> {
        let operand = graph.operand(port.operand);
        let dtype: Option<DType> = operand.dtype();
        let Some(picture) = picture_of(value)? else {
            return Input::new(value, &port.name, dtype)?.view().to_tensor().or_raise();
        };
        let card = self.card.as_ref().ok_or_else(|| {
            InputError::new_err(
                "a picture needs a card, model.toml next to the model, which says how it becomes an input; give an array instead",
            )
        })?;
        let preparation = Preparation::new(card, operand.shape().unwrap_or_default(), dtype);
        self.prepared(value.py(), &preparation, &picture)
    }

    fn prepared(&self, py: Python<'py>, preparation: &Preparation, picture: &Picture) -> PyResult<Tensor> {
        let limits = &self.limits;
        let prepare = || {
            let (tensor, _) = preparation.prepare(picture, limits)?;
            if preparation.is_single() { tensor.select(0, 0) } else { Ok(tensor) }
        };
        py.detach(prepare).or_raise()
    }
}

/// Returns true for an array, a picture or a mapping, which could also be iterated.
fn is_single(samples: &Bound<'_, PyAny>) -> PyResult<bool> {
    for attribute in ["__array__", "__array_interface__", "__dlpack__"] {
        if samples.hasattr(attribute)? {
            return Ok(true);
        }
    }
    Ok(samples.cast::<PyMapping>().is_ok())
}
