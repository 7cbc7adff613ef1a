//! Running a graph, operator by operator.

use super::GraphError;
use super::error::Stage;
use super::live::LiveMemory;
use super::operator::{InputPort, OperandIndex, RuntimeOperator};
use super::runtime::{BuildState, RuntimeGraph};
use super::trace::{LayerTrace, Trace};
use crate::op::{CpuLayer, ForwardContext, Io, LayerError, TensorMeta, catch_panic, with_deadline};
use crate::pnnx::Dim;
use crate::tensor::{DType, Layout, Shape, Tensor, TensorView, Workspace};
use crate::{LimitError, Limits};
use std::path::Path;
use std::time::Instant;

impl RuntimeGraph {
    /// Sets an input by the name of its `pnnx.Input` operator or of its operand. The tensor is shared, not copied, and
    /// released once the last operator that reads it has run: inputs must be set again before every run.
    ///
    /// # Errors
    /// [`GraphError::NotBuilt`]; [`GraphError::UnknownName`]; [`GraphError::InputDType`] or [`GraphError::InputShape`] if the
    /// element type or the number of axes differs from the file. Other lengths than in the file are accepted if the layers
    /// accept them: the file only records the sample that the model was exported with.
    pub fn set_input(&mut self, name: &str, tensor: Tensor) -> Result<(), GraphError> {
        if self.state() != BuildState::Complete {
            return Err(GraphError::NotBuilt);
        }
        let port =
            self.inputs.iter().find(|port| port.name == name || self.operand(port.operand).name == name);
        let Some(port) = port else {
            let known = self.input_names();
            return Err(GraphError::UnknownName { what: "input", name: name.to_owned(), known });
        };
        let index = port.operand;
        self.check_input(port, tensor.dtype(), tensor.shape())?;
        self.operators.iter_mut().for_each(|operator| operator.has_run = false);
        self.operands[index.0].data = Some(tensor);
        Ok(())
    }

    /// Sets all inputs in the order of [`RuntimeGraph::inputs`], runs, and returns all outputs.
    ///
    /// # Errors
    /// As [`RuntimeGraph::set_input`] and [`RuntimeGraph::run`]; an error for too few or too many inputs.
    pub fn run_with(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, GraphError> {
        self.set_inputs(inputs)?;
        self.run()?;
        self.output_values()
    }

    /// Sets inputs in the order of [`RuntimeGraph::inputs`].
    ///
    /// # Errors
    /// As [`RuntimeGraph::set_input`]; [`GraphError::TooManyInputs`]. Too few inputs are an error of the run.
    pub(crate) fn set_inputs(&mut self, inputs: Vec<Tensor>) -> Result<(), GraphError> {
        let names = self.input_names();
        if inputs.len() > names.len() {
            return Err(GraphError::TooManyInputs { wanted: names.len(), found: inputs.len(), names });
        }
        names.iter().zip(inputs).try_for_each(|(name, tensor)| self.set_input(name, tensor))
    }

    /// Runs all operators. Activations are released after their last consumer; outputs are kept until the next run.
    ///
    /// # Errors
    /// [`GraphError::NotBuilt`], [`GraphError::MissingInputs`], or the error of the operator that failed.
    pub fn run(&mut self) -> Result<(), GraphError> {
        self.execute(&mut |_, _, _| {}).map(|_| ())
    }

    /// Runs all operators and returns the time, shapes and cost of each, and the peak memory.
    ///
    /// # Errors
    /// As [`RuntimeGraph::run`].
    pub fn run_traced(&mut self) -> Result<Trace, GraphError> {
        let mut layers = Vec::with_capacity(self.operators.len());
        let start = Instant::now();
        let peak_bytes = self.execute(&mut |graph, index, start| layers.push(graph.traced(index, start)))?;
        Ok(Trace { layers, total: start.elapsed(), peak_bytes })
    }

    /// Runs all operators, and calls `observe` after each of them with the graph, which then holds the values of the operator's
    /// inputs and outputs.
    ///
    /// # Errors
    /// As [`RuntimeGraph::run`].
    pub fn run_observed(
        &mut self,
        observe: &mut dyn FnMut(&Self, &RuntimeOperator),
    ) -> Result<(), GraphError> {
        let mut show = |graph: &Self, index: usize, _| observe(graph, &graph.operators[index]);
        self.execute(&mut show).map(|_| ())
    }

    fn input_names(&self) -> Vec<String> {
        self.inputs.iter().map(|port| port.name.clone()).collect()
    }

    /// Checks the element type and the number of axes of an input against the file.
    pub(crate) fn check_input(
        &self,
        port: &InputPort,
        dtype: DType,
        shape: &Shape,
    ) -> Result<(), GraphError> {
        let (name, operand) = (port.name.clone(), self.operand(port.operand));
        if let Some(wanted) = operand.dtype.filter(|&wanted| wanted != dtype) {
            return Err(GraphError::InputDType { name, wanted, found: dtype });
        }
        match &operand.shape {
            Some(wanted) if wanted.len() != shape.rank() => {
                Err(GraphError::InputShape { name, wanted: display_dims(wanted), found: Box::new(*shape) })
            }
            Some(wanted) if self.breaks_declared(wanted, shape) => {
                Err(GraphError::InputLengths { name, wanted: display_dims(wanted), found: Box::new(*shape) })
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a shape differs from lengths that the file fixes: it may have computed others from them.
    fn breaks_declared(&self, wanted: &[Dim], shape: &Shape) -> bool {
        let differs = |(wanted, found): (&Dim, &usize)| match wanted {
            Dim::Fixed(len) => usize::try_from(*len) != Ok(*found),
            _ => false,
        };
        self.declares_shapes && wanted.iter().zip(shape.dims()).any(differs)
    }

    /// Runs all operators. Returns the peak memory of activations in bytes.
    fn execute(&mut self, observe: &mut dyn FnMut(&Self, usize, Instant)) -> Result<u64, GraphError> {
        let limits = self.limits.clone();
        with_deadline(&limits, || self.execute_all(observe))
    }

    fn execute_all(&mut self, observe: &mut dyn FnMut(&Self, usize, Instant)) -> Result<u64, GraphError> {
        self.check_ready()?;
        let data = self.inputs.iter().map(|port| self.operand(port.operand).data.as_ref());
        let notes = self.notes_on(data.map(|tensor| tensor.map(|tensor| *tensor.shape())));
        let mut live = LiveMemory::default();
        self.drop_old_outputs(&mut live);
        for index in 0..self.operators.len() {
            let start = Instant::now();
            self.step(index, &mut live).map_err(|error| error.with_inputs(&notes))?;
            observe(self, index, start);
            self.release(index, &mut live);
            log::debug!(
                "{} `{}` took {:?}",
                self.operators[index].op_type,
                self.operators[index].name,
                start.elapsed()
            );
        }
        Ok(live.peak())
    }

    fn check_ready(&self) -> Result<(), GraphError> {
        if self.state() != BuildState::Complete {
            return Err(GraphError::NotBuilt);
        }
        let unset = self.inputs.iter().filter(|port| self.operand(port.operand).data.is_none());
        let missing: Vec<String> = unset.map(|port| port.name.clone()).collect();
        if missing.is_empty() { Ok(()) } else { Err(GraphError::MissingInputs { missing }) }
    }

    /// Drops what the last run left, except the inputs of this run, which are counted as held.
    fn drop_old_outputs(&mut self, live: &mut LiveMemory) {
        let inputs: Vec<usize> = self.inputs.iter().map(|port| port.operand.0).collect();
        for (index, operand) in self.operands.iter_mut().enumerate() {
            match &operand.data {
                Some(tensor) if inputs.contains(&index) => live.hold(tensor),
                _ => operand.data = None,
            }
        }
    }

    fn step(&mut self, index: usize, live: &mut LiveMemory) -> Result<(), GraphError> {
        let operator = &mut self.operators[index];
        let path = self.param.as_deref();
        let limit = |source: LimitError| GraphError::Limit { place: operator.place(path), source };
        self.limits.check_deadline().map_err(limit)?;
        let value = |&index: &OperandIndex| {
            let operand = &self.operands[index.0];
            operand.data.clone().ok_or_else(|| GraphError::NotRun(operand.name.clone()))
        };
        let inputs: Vec<Tensor> = operator.inputs.iter().map(value).collect::<Result<_, _>>()?;
        let workspace = match &mut self.workspace {
            Some(workspace) => workspace,
            empty => {
                empty.insert(Workspace::new().map_err(|e| operator.error(path, Stage::Forward, e.into()))?)
            }
        };
        let outputs = operator.compute(&inputs, workspace, &self.limits, live, path)?;
        for (&output, tensor) in operator.outputs.iter().zip(outputs) {
            live.hold(&tensor);
            self.operands[output.0].data = Some(tensor);
        }
        operator.has_run = true;
        Ok(())
    }

    /// Releases the operands that are no longer needed after an operator.
    fn release(&mut self, index: usize, live: &mut LiveMemory) {
        for operand in &self.releases[index] {
            if let Some(tensor) = self.operands[operand.0].data.take() {
                live.release(&tensor);
            }
        }
    }

    /// Notes on inputs of these shapes, in the order of the model's inputs, that differ from the sample that the model was
    /// exported with: a likely cause if an operator fails.
    pub(crate) fn notes_on(&self, shapes: impl IntoIterator<Item = Option<Shape>>) -> Vec<String> {
        let notes = self.inputs.iter().zip(shapes).filter_map(|(port, shape)| {
            let (wanted, found) = (self.operand(port.operand).shape.as_ref()?, shape?);
            let fits = wanted.iter().zip(found.iter()).all(|(dim, &len)| match dim {
                Dim::Fixed(fixed) => *fixed == len as u64,
                _ => true,
            });
            let (name, wanted) = (&port.name, display_dims(wanted));
            (!fits).then(|| format!("input `{name}` is {found}, but the model was exported with {wanted}"))
        });
        notes.collect()
    }

    fn traced(&self, index: usize, start: Instant) -> LayerTrace {
        let time = start.elapsed();
        let operator = &self.operators[index];
        let metas = |operands: &[OperandIndex]| -> Vec<TensorMeta> {
            let data = operands.iter().filter_map(|&i| self.operands[i.0].data.as_ref());
            data.map(|tensor| TensorMeta::new(tensor.dtype(), tensor.shape().iter().copied())).collect()
        };
        let (inputs, outputs) = (metas(&operator.inputs), metas(&operator.outputs));
        let cost = operator.cost(&inputs, &outputs).unwrap_or_default();
        LayerTrace {
            name: operator.name.clone(),
            op_type: operator.op_type.clone(),
            time,
            inputs,
            outputs,
            cost,
        }
    }
}

impl RuntimeOperator {
    /// Infers shapes, configures the layer, allocates the outputs and computes them. Views and constants are not computed.
    fn compute(
        &mut self,
        inputs: &[Tensor],
        workspace: &mut Workspace,
        limits: &Limits,
        live: &LiveMemory,
        path: Option<&Path>,
    ) -> Result<Vec<Tensor>, GraphError> {
        let Some(layer) = &mut self.layer else { return Err(GraphError::NotBuilt) };
        let configured = &mut self.configured;
        let result = match &self.panicked {
            Some(message) => Err(LayerError::Panic(message.clone())),
            None => {
                let mut computation = Computation { layer: &mut **layer, inputs, workspace, limits, live };
                catch_panic(|| Ok(computation.run(configured)))
            }
        };
        if let Err(LayerError::Panic(message)) = &result {
            self.panicked = Some(message.clone());
        }
        let result = result.unwrap_or_else(|panic| Err((Stage::Forward, panic)));
        result.map_err(|(stage, source)| self.error(path, stage, source))
    }
}

/// One run of one layer.
struct Computation<'a> {
    layer: &'a mut dyn CpuLayer,
    inputs: &'a [Tensor],
    workspace: &'a mut Workspace,
    limits: &'a Limits,
    live: &'a LiveMemory,
}

type Staged<T> = Result<T, (Stage, LayerError)>;

fn at<E: Into<LayerError>>(stage: Stage) -> impl Fn(E) -> (Stage, LayerError) {
    move |error| (stage, error.into())
}

impl Computation<'_> {
    fn run(&mut self, configured: &mut Option<Vec<TensorMeta>>) -> Staged<Vec<Tensor>> {
        let views: Vec<TensorView<'_>> = self.inputs.iter().map(Tensor::view).collect();
        let metas: Vec<TensorMeta> = views.iter().map(TensorMeta::of).collect();
        let inferred = self.layer.infer(&metas).map_err(at(Stage::Infer))?;
        self.check_count(inferred.len())?;
        if self.inputs.is_empty() {
            let known = inferred.iter().filter_map(|meta| Some((meta.dtype(), meta.shape().ok()?)));
            self.check_bytes(&known.collect::<Vec<_>>())?;
            if let Some(constant) = self.layer.constant(self.limits).map_err(at(Stage::Forward))? {
                return self.checked(vec![constant], &inferred);
            }
        }
        if configured.as_ref() != Some(&metas) {
            self.layer.configure(&metas, &inferred).map_err(at(Stage::Configure))?;
            *configured = Some(metas.clone());
        }
        let bytes = self.layer.workspace(&metas, &inferred);
        self.limits.check_tensor("workspace", bytes as u64).map_err(at(Stage::Forward))?;
        self.workspace.reserve(bytes).map_err(at(Stage::Forward))?;
        if self.layer.is_data_dependent() {
            return self.forward_dynamic(&views, &inferred);
        }
        let shapes: Result<Vec<Shape>, _> = inferred.iter().map(TensorMeta::shape).collect();
        let shapes = shapes.map_err(at(Stage::Infer))?;
        match self.views(&inferred, &shapes)? {
            Some(outputs) => Ok(outputs),
            None => self.forward(&views, &inferred, &shapes),
        }
    }

    fn check_count(&self, found: usize) -> Staged<()> {
        let wanted = self.layer.num_outputs();
        if wanted == found {
            return Ok(());
        }
        let error =
            LayerError::BrokenPromise { wanted: format!("{wanted} outputs"), found: found.to_string() };
        Err((Stage::Infer, error))
    }

    /// The outputs, if the layer declares them as views of its inputs.
    fn views(&self, metas: &[TensorMeta], shapes: &[Shape]) -> Staged<Option<Vec<Tensor>>> {
        let layouts: Vec<(DType, Layout)> =
            self.inputs.iter().map(|tensor| (tensor.dtype(), *tensor.layout())).collect();
        let mut outputs = Vec::with_capacity(shapes.len());
        for (position, (meta, shape)) in metas.iter().zip(shapes).enumerate() {
            let view = self.layer.view_of(position, &layouts, shape).map_err(at(Stage::Infer))?;
            let Some(view) = view else { return Ok(None) };
            let source = self.inputs.get(view.input).ok_or_else(|| {
                let found = format!("a view of input {}", view.input);
                (
                    Stage::Infer,
                    LayerError::BrokenPromise { wanted: format!("{} inputs", self.inputs.len()), found },
                )
            })?;
            check_promise(shape, view.layout.shape())?;
            let bytes = (shape.num_elements() as u64).saturating_mul(meta.dtype().size() as u64);
            self.limits.check_tensor("a view, if it were copied,", bytes).map_err(at(Stage::Forward))?;
            outputs.push(source.as_parts(meta.dtype(), view.layout).map_err(at(Stage::Infer))?);
        }
        Ok(Some(outputs))
    }

    fn forward(
        &mut self,
        views: &[TensorView<'_>],
        metas: &[TensorMeta],
        shapes: &[Shape],
    ) -> Staged<Vec<Tensor>> {
        let known: Vec<(DType, Shape)> =
            metas.iter().map(TensorMeta::dtype).zip(shapes.iter().copied()).collect();
        self.check_bytes(&known)?;
        let outputs: Result<Vec<Tensor>, _> =
            known.iter().map(|(dtype, shape)| Tensor::empty(*dtype, shape)).collect();
        let mut outputs = outputs.map_err(at(Stage::Forward))?;
        let mut targets = Vec::with_capacity(outputs.len());
        for output in &mut outputs {
            targets.push(output.view_mut().map_err(at(Stage::Forward))?);
        }
        let mut context = ForwardContext::new(&mut *self.workspace, self.limits);
        self.layer.forward(&mut Io::new(views, &mut targets, &mut context)).map_err(at(Stage::Forward))?;
        drop(targets);
        Ok(outputs)
    }

    /// Checks that tensors to be allocated, together with the activations that are already held, are within the limits.
    fn check_bytes(&self, tensors: &[(DType, Shape)]) -> Staged<()> {
        let mut total = self.live.bytes();
        for (dtype, shape) in tensors {
            let bytes = (shape.num_elements() as u64).saturating_mul(dtype.size() as u64);
            total = total.saturating_add(bytes);
            self.limits.check_tensor("its output", bytes).map_err(at(Stage::Forward))?;
            self.limits.check_total("the activations", total).map_err(at(Stage::Forward))?;
        }
        Ok(())
    }

    fn forward_dynamic(&mut self, views: &[TensorView<'_>], inferred: &[TensorMeta]) -> Staged<Vec<Tensor>> {
        let mut context = ForwardContext::new(&mut *self.workspace, self.limits);
        let outputs = self.layer.forward_dynamic(views, &mut context).map_err(at(Stage::Forward))?;
        self.checked(outputs, inferred)
    }

    /// Checks that outputs allocated by the layer match the inferred shapes and types, and are within the limits.
    fn checked(&self, outputs: Vec<Tensor>, inferred: &[TensorMeta]) -> Staged<Vec<Tensor>> {
        self.check_count(outputs.len())?;
        check_returned(&outputs, inferred).map_err(at(Stage::Forward))?;
        let bytes = outputs.iter().map(|output| output.storage_bytes() as u64);
        let total = bytes.fold(self.live.bytes(), u64::saturating_add);
        self.limits.check_total("the activations", total).map_err(at(Stage::Forward))?;
        Ok(outputs)
    }
}

/// Checks that tensors that a layer allocated have the inferred shapes and types.
///
/// # Errors
/// [`LayerError::BrokenPromise`].
pub(crate) fn check_returned(outputs: &[Tensor], inferred: &[TensorMeta]) -> Result<(), LayerError> {
    if outputs.len() != inferred.len() {
        let (wanted, found) = (format!("{} outputs", inferred.len()), outputs.len().to_string());
        return Err(LayerError::BrokenPromise { wanted, found });
    }
    for (output, meta) in outputs.iter().zip(inferred) {
        let fits = |(dim, &len): (&crate::tensor::Dim, &usize)| dim.fixed().is_none() || *dim == len;
        let shape = output.shape();
        let same = output.dtype() == meta.dtype() && shape.rank() == meta.rank();
        if !same || !meta.dims().iter().zip(shape.iter()).all(fits) {
            let found = format!("{shape} {}", output.dtype());
            return Err(LayerError::BrokenPromise { wanted: meta.to_string(), found });
        }
    }
    Ok(())
}

fn check_promise(wanted: &Shape, found: &Shape) -> Staged<()> {
    if wanted == found {
        return Ok(());
    }
    let (wanted, found) = (wanted.to_string(), found.to_string());
    Err((Stage::Infer, LayerError::BrokenPromise { wanted, found }))
}

fn display_dims(dims: &[Dim]) -> String {
    if dims.is_empty() {
        return "scalar".to_owned();
    }
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    dims.join("×")
}
