//! Running a model on pictures, in batches.

use super::preparation::{Preparation, fixed};
use crate::array::{Input, to_numpy};
use crate::error::{InputError, OrRaise};
use crate::plan::Plan;
use ixion::engine::PlanFile;
use ixion::graph::OperandIndex;
use ixion::tensor::Tensor;
use ixion::vision::{Frame, ModelCard, Task};
use ixion::{Limits, Picture};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;

/// The number of pictures that run together if the model does not fix it.
const BATCH: usize = 8;

/// A model with a card.
pub(super) struct Subject<'py> {
    model: Bound<'py, PyAny>,
    pub(super) card: ModelCard,
    preparation: Preparation,
    /// The batch size that the file fixes.
    batch: Option<usize>,
    /// Pictures of one size that wait until their batch is complete.
    waiting: Vec<(Tensor, Frame)>,
}

/// Pictures that ran together.
pub(super) struct Batch {
    /// The outputs, whose first axis has an entry for each picture.
    pub(super) outputs: Vec<Tensor>,
    pub(super) frames: Vec<Frame>,
}

impl<'py> Subject<'py> {
    /// A model whose card has this task.
    ///
    /// # Errors
    /// `InputError` if the model has no card, another task, or several inputs; `ModelError` if the card is not valid.
    pub(super) fn new(model: &Bound<'py, PyAny>, task: Task) -> PyResult<Self> {
        let plan = model.getattr("plan").and_then(|plan| Ok(plan.cast_into::<Plan>()?));
        let plan = plan.map_err(|_| InputError::new_err("model: expected an ixion.Model"))?;
        let plan = plan.get().built.plan();
        let Some(text) = plan.card() else {
            return Err(no_card(model));
        };
        let card = ModelCard::parse("model.toml", text).or_raise()?;
        if card.task != task {
            let (found, wanted) = (card.task.name(), task.name());
            return Err(InputError::new_err(format!(
                "the task of `{}` is \"{found}\", not \"{wanted}\"",
                card.name
            )));
        }
        let [port] = plan.inputs() else {
            let count = plan.inputs().len();
            return Err(InputError::new_err(format!(
                "expected a model with one input, for pictures, got {count} inputs"
            )));
        };
        let dims = plan.graph().operand(OperandIndex::new(port.operand)).shape().unwrap_or_default();
        let preparation = Preparation::new(&card, dims, port.dtype);
        let batch = dims.first().filter(|_| dims.len() == 4).and_then(fixed);
        Ok(Self { model: model.clone(), card, preparation, batch, waiting: Vec::new() })
    }

    /// Takes a picture. Returns the pictures before it if they make up a batch, after they have run.
    ///
    /// # Errors
    /// What the model raises; `LimitError` if a picture is too large.
    pub(super) fn take(&mut self, picture: &Picture) -> PyResult<Option<Batch>> {
        let preparation = &self.preparation;
        let prepare = || preparation.prepare(picture, &Limits::default());
        let next = self.model.py().detach(prepare).or_raise()?;
        let most = if self.preparation.is_single() { 1 } else { self.batch.unwrap_or(BATCH) };
        let is_other = self.waiting.first().is_some_and(|(first, _)| first.shape() != next.0.shape());
        let batch = if is_other || self.waiting.len() >= most { self.run()? } else { None };
        self.waiting.push(next);
        Ok(batch)
    }

    /// Runs the model on the waiting pictures, if there are any. A batch that is smaller than the file's is filled with the last
    /// of them.
    ///
    /// # Errors
    /// What the model raises.
    pub(super) fn run(&mut self) -> PyResult<Option<Batch>> {
        let (tensors, frames): (Vec<Tensor>, Vec<Frame>) = self.waiting.drain(..).unzip();
        let Some(last) = tensors.last() else { return Ok(None) };
        let count = frames.len();
        let missing = self.batch.map_or(0, |batch| batch.saturating_sub(count));
        let input = match (tensors.as_slice(), missing) {
            ([only], 0) if self.preparation.is_single() => only.select(0, 0).or_raise()?,
            ([only], 0) => only.clone(),
            (several, missing) => {
                let mut parts = several.to_vec();
                if missing > 0 {
                    // One picture, repeated without memory for each: a file may fix any batch.
                    let rest = last.shape().iter().skip(1).copied();
                    let dims: Vec<usize> = std::iter::once(missing).chain(rest).collect();
                    parts.push(last.expand(&dims).or_raise()?);
                }
                self.model.py().detach(|| Tensor::concat(&parts, 0)).or_raise()?
            }
        };
        let outputs = self.call(input)?;
        let outputs = outputs.into_iter().map(|output| self.rows(output, count, missing));
        Ok(Some(Batch { outputs: outputs.collect::<PyResult<_>>()?, frames }))
    }

    /// Calls the model.
    fn call(&self, input: Tensor) -> PyResult<Vec<Tensor>> {
        let array = to_numpy(self.model.py(), input)?;
        let found = self.model.call1((array,))?;
        let tensor =
            |output: &Bound<'py, PyAny>| Input::new(output, "output", None)?.view().to_tensor().or_raise();
        match found.cast::<PyTuple>() {
            Ok(several) => several.iter().map(|output| tensor(&output)).collect(),
            Err(_) => Ok(vec![tensor(&found)?]),
        }
    }

    /// An output with an entry for each picture: with a batch axis, and without what filled the batch.
    fn rows(&self, output: Tensor, count: usize, missing: usize) -> PyResult<Tensor> {
        if self.preparation.is_single() {
            return output.reshape(&[&[1], output.shape().dims()].concat()).or_raise();
        }
        match output.shape().first() {
            Some(&rows) if missing > 0 && rows == count + missing => output.narrow(0, 0, count).or_raise(),
            _ => Ok(output),
        }
    }
}

/// The exception for a model without a card: that of the file beside it, if loading the model has ignored that.
fn no_card(model: &Bound<'_, PyAny>) -> PyErr {
    let path = model.getattr("path").and_then(|path| path.extract::<PathBuf>());
    let ignored = path.ok().filter(|path| !PlanFile::is_plan(path)).map(ModelCard::for_model);
    if let Some(error) = ignored.and_then(|card| card.or_raise().err()) {
        return error;
    }
    InputError::new_err(
        "the model has no card: a file model.toml next to it, or the option `card` of ixion.load, says how pictures become its \
         input and what its outputs mean",
    )
}
