//! The runs of a context: on inputs in order, or with inputs, output buffers and donations by name.

use super::context::Bound;
use super::{Context, EngineError, Trace};
use crate::graph::GraphError;
use crate::memory::InputBinding;
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use smallvec::SmallVec;
use std::time::{Duration, Instant};

/// Buffers for the outputs of one run.
type Targets<'a> = SmallVec<[Option<TensorViewMut<'a>>; 4]>;

impl<'p> Context<'p> {
    /// Runs the model on its inputs, in the order of [`Plan::inputs`](super::Plan::inputs), and returns all outputs in the
    /// order of [`Plan::outputs`](super::Plan::outputs).
    ///
    /// # Errors
    /// [`EngineError::Graph`] if inputs are missing or do not fit, or if an operator fails; [`EngineError::Shape`] if shapes
    /// are outside of a profile; [`EngineError::Panic`], [`EngineError::Cancelled`], [`EngineError::TimedOut`].
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, EngineError> {
        let mut request = self.request();
        for (position, input) in inputs.iter().enumerate() {
            request.set_input(position, input.view())?;
        }
        Ok(request.run()?.into_tensors())
    }

    /// As [`Context::run`], but writes to buffers that the context keeps; the next run overwrites them. On one thread, a
    /// run with shapes that were seen before does not allocate, unless sizes in the model depend on values.
    ///
    /// # Errors
    /// As [`Context::run`].
    pub fn run_reusing(&mut self, inputs: &[TensorView<'_>]) -> Result<&[Option<Tensor>], EngineError> {
        let mut bound: Bound<'_> = inputs.iter().copied().map(InputBinding::Shared).collect();
        let mut none: Targets<'_> = self.plan().outputs.iter().map(|_| None).collect();
        self.run_bound(&mut bound, &mut none, None)?;
        Ok(self.outputs())
    }

    /// As [`Context::run`], but writes to buffers of the caller, which have the outputs' types and shapes, in the order of
    /// [`Plan::outputs`](super::Plan::outputs).
    ///
    /// # Errors
    /// As [`Context::run`]; [`EngineError::OutputBuffer`] and [`EngineError::OutputCount`].
    pub fn run_into(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<(), EngineError> {
        if outputs.len() != self.plan().outputs.len() {
            return Err(EngineError::OutputCount { wanted: self.plan().outputs.len(), found: outputs.len() });
        }
        let mut bound: Bound<'_> = inputs.iter().copied().map(InputBinding::Shared).collect();
        let mut targets: Targets<'_> = outputs.iter_mut().map(|output| Some(output.reborrow())).collect();
        self.run_bound(&mut bound, &mut targets, None)
    }

    /// As [`Context::run_reusing`], but also reports when each operator ran and how long it took.
    ///
    /// # Errors
    /// As [`Context::run`].
    pub fn run_traced(&mut self, inputs: &[TensorView<'_>]) -> Result<Trace, EngineError> {
        let mut trace = Trace { start: Instant::now(), total: Duration::ZERO, steps: Vec::new() };
        let mut bound: Bound<'_> = inputs.iter().copied().map(InputBinding::Shared).collect();
        let mut none: Targets<'_> = self.plan().outputs.iter().map(|_| None).collect();
        self.run_bound(&mut bound, &mut none, Some(&mut trace))?;
        Ok(trace)
    }

    /// Starts a run whose inputs, buffers and donations are given by name.
    pub fn request(&mut self) -> Request<'_, 'p> {
        Request::new(self)
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

impl<'a, 'p> Request<'a, 'p> {
    fn new(context: &'a mut Context<'p>) -> Self {
        let inputs = context.plan().inputs().iter().map(|_| None).collect();
        let outputs = context.plan().outputs().iter().map(|_| None).collect();
        Self { context, inputs, outputs }
    }

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

    /// Sets an input by its position.
    fn set_input(&mut self, position: usize, tensor: TensorView<'a>) -> Result<(), EngineError> {
        let (wanted, names) = (self.inputs.len(), self.names());
        match self.inputs.get_mut(position) {
            Some(input) => *input = Some(InputBinding::Shared(tensor)),
            None => return Err(GraphError::TooManyInputs { wanted, found: position + 1, names }.into()),
        }
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
        self.check()?;
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
        let kept: Vec<bool> = outputs
            .iter()
            .enumerate()
            .map(|(position, given)| given.is_none() && !is_donated(position))
            .collect();
        let mut names = Vec::with_capacity(outputs.len());
        for (position, kept) in kept.into_iter().enumerate() {
            let name = context.plan().outputs()[position].name.clone();
            names.push((name, if kept { context.take_output(position) } else { None }));
        }
        Outputs { names }
    }

    fn check(&self) -> Result<(), EngineError> {
        let ports = self.context.plan().inputs();
        let unset = ports.iter().zip(&self.inputs).filter(|(_, input)| input.is_none());
        let missing: Vec<String> = unset.map(|(port, _)| port.name.clone()).collect();
        if missing.is_empty() { Ok(()) } else { Err(GraphError::MissingInputs { missing }.into()) }
    }

    fn names(&self) -> Vec<String> {
        self.context.plan().inputs().iter().map(|port| port.name.clone()).collect()
    }
}
