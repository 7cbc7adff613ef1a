//! Runs of a context whose inputs, output buffers and donations are given by name.

use super::context::{Bound, Targets};
use super::{Context, EngineError};
use crate::graph::GraphError;
use crate::memory::InputBinding;
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use smallvec::SmallVec;

impl<'p> Context<'p> {
    /// Starts a run whose inputs, buffers and donations are given by name.
    pub fn request(&mut self) -> Request<'_, 'p> {
        let inputs = self.plan().inputs().iter().map(|_| None).collect();
        let outputs = self.plan().outputs().iter().map(|_| None).collect();
        Request { context: self, inputs, outputs }
    }
}

/// One run of a [`Context`], whose inputs and outputs are given by name.
///
/// ```
/// use ixion::engine::Builder;
/// use ixion::tensor::{DType, Tensor};
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
/// let plan = Builder::new(path).build()?;
/// let mut context = plan.context()?;
/// let x = Tensor::zeros(DType::F32, &[1, 32])?;
/// let mut y = Tensor::zeros(DType::F32, &[1, 128])?;
/// let (input, output) = (&plan.inputs()[0].name, &plan.outputs()[0].name);
/// context.request().input(input, x.view())?.output(output, y.view_mut()?)?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Request<'a, 'p> {
    context: &'a mut Context<'p>,
    inputs: SmallVec<[Option<InputBinding<'a>>; 4]>,
    outputs: Targets<'a>,
}

/// The outputs of a run that were not written to a buffer of the caller.
#[derive(Debug, Clone)]
pub struct Outputs {
    names: Vec<(String, Option<Tensor>)>,
}

impl Outputs {
    /// The output of this name; `None` if it was written to a buffer of the caller.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.names.iter().find(|(known, _)| known == name)?.1.as_ref()
    }

    /// The outputs in the order of [`Plan::outputs`](super::Plan::outputs), without those written to a buffer of the caller.
    pub fn into_tensors(self) -> Vec<Tensor> {
        self.names.into_iter().filter_map(|(_, tensor)| tensor).collect()
    }
}

impl<'a> Request<'a, '_> {
    /// Sets an input.
    ///
    /// # Errors
    /// [`GraphError::UnknownName`]; [`EngineError::GivenTwice`].
    pub fn input(mut self, name: &str, tensor: TensorView<'a>) -> Result<Self, EngineError> {
        let position = self.context.plan().known_input(name)?;
        self.bind(position, name, InputBinding::Shared(tensor))?;
        Ok(self)
    }

    fn bind(&mut self, position: usize, name: &str, input: InputBinding<'a>) -> Result<(), EngineError> {
        let place = &mut self.inputs[position];
        if place.is_some() {
            return Err(EngineError::GivenTwice { what: "input", name: name.to_owned() });
        }
        *place = Some(input);
        Ok(())
    }

    /// Writes an output to a buffer of the caller, which must have the output's type and shape.
    ///
    /// # Errors
    /// [`GraphError::UnknownName`]; [`EngineError::GivenTwice`]. Whether the buffer fits is checked when the request runs.
    pub fn output(mut self, name: &str, buffer: TensorViewMut<'a>) -> Result<Self, EngineError> {
        let position = self.context.plan().known_output(name)?;
        if self.outputs[position].is_some() {
            return Err(EngineError::GivenTwice { what: "the buffer for output", name: name.to_owned() });
        }
        self.outputs[position] = Some(buffer);
        Ok(self)
    }

    /// Donates an input: after the run, its memory holds the output. The pair must have been declared with
    /// [`Builder::with_donation`](super::Builder::with_donation). The output is written there directly if the operators allow
    /// it, else it is copied.
    ///
    /// # Errors
    /// [`GraphError::UnknownName`]; [`EngineError::Donation`] if the pair was not declared or the tensor is not contiguous;
    /// [`EngineError::GivenTwice`].
    pub fn donate(
        mut self,
        input: &str,
        output: &str,
        tensor: TensorViewMut<'a>,
    ) -> Result<Self, EngineError> {
        let plan = self.context.plan();
        let pair = (plan.known_input(input)?, plan.known_output(output)?);
        let refuse = |reason: &str| EngineError::Donation {
            input: input.to_owned(),
            output: output.to_owned(),
            reason: reason.to_owned(),
        };
        if !plan.donations.contains(&pair) {
            return Err(refuse("declare the pair with `Builder::with_donation` first"));
        }
        if !tensor.layout().is_contiguous() {
            return Err(refuse("its elements must be contiguous"));
        }
        self.bind(pair.0, input, InputBinding::Donated(tensor))?;
        Ok(self)
    }

    /// Runs the model.
    ///
    /// # Errors
    /// As [`Context::run`]; [`EngineError::OutputBuffer`].
    pub fn run(mut self) -> Result<Outputs, EngineError> {
        let ports = self.context.plan().inputs();
        let unset = ports.iter().zip(&self.inputs).filter(|(_, input)| input.is_none());
        let missing: Vec<String> = unset.map(|(port, _)| port.name.clone()).collect();
        if !missing.is_empty() {
            return Err(GraphError::MissingInputs { missing }.into());
        }
        let mut inputs: Bound<'_> = self.inputs.iter_mut().flatten().map(InputBinding::reborrow).collect();
        self.context.run_bound(&mut inputs, &mut self.outputs, None)?;
        drop(inputs);
        Ok(self.collect())
    }

    /// Takes the outputs that were not written to a buffer of the caller.
    fn collect(self) -> Outputs {
        let Self { context, inputs, outputs } = self;
        let is_donated = |position: usize| {
            let pair = context.plan().donations.iter().find(|pair| pair.1 == position);
            pair.is_some_and(|pair| matches!(inputs[pair.0], Some(InputBinding::Donated(_))))
        };
        let kept = outputs.iter().enumerate();
        let kept: Vec<bool> = kept.map(|(at, given)| given.is_none() && !is_donated(at)).collect();
        let tensors =
            context.buffers.iter_mut().zip(kept).map(|(it, kept)| if kept { it.take() } else { None });
        let tensors: Vec<Option<Tensor>> = tensors.collect();
        let names = context.plan().outputs().iter().map(|port| port.name.clone());
        Outputs { names: names.zip(tensors).collect() }
    }
}
