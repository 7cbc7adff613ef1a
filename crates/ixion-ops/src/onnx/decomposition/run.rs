//! Runs the steps of a decomposition, one after the other.

use super::{Decomposition, Step};
use crate::onnx::lowering::Source;
use crate::op::{ForwardContext, Io, LayerError, Result, TensorMeta};
use ixion_tensor::{DType, Layout, Limits, Shape, Tensor, TensorView, TensorViewMut, Workspace};

/// A step's output while a decomposition runs.
enum Value<'a> {
    /// A view of an input.
    View(TensorView<'a>),
    /// A computed tensor, or a view of one.
    Tensor(Tensor),
}

impl Value<'_> {
    fn view(&self) -> TensorView<'_> {
        match self {
            Self::View(view) => *view,
            Self::Tensor(tensor) => tensor.view(),
        }
    }

    fn part(&self, dtype: DType, layout: Layout) -> Result<Self> {
        Ok(match self {
            Self::View(view) if view.dtype() == dtype => Self::View(view.with_layout(layout)?),
            Self::View(view) => Self::Tensor(view.to_tensor()?.as_parts(dtype, layout)?),
            Self::Tensor(tensor) => Self::Tensor(tensor.as_parts(dtype, layout)?),
        })
    }
}

/// One run of a decomposition.
struct Run<'a> {
    inputs: &'a [Value<'a>],
    step_outputs: Vec<Vec<Value<'a>>>,
    workspace: Workspace,
    limits: &'a Limits,
}

impl Decomposition {
    /// Runs all steps and writes the outputs.
    ///
    /// # Errors
    /// Returns the errors of the layers, and an error if a limit is exceeded.
    pub(in crate::onnx) fn run(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        limits: &Limits,
    ) -> Result<()> {
        let inputs: Vec<Value<'_>> = inputs.iter().map(|input| Value::View(*input)).collect();
        let mut run = Run { inputs: &inputs, step_outputs: Vec::new(), workspace: Workspace::new()?, limits };
        let count = self.steps.len();
        for (position, step) in self.steps.iter_mut().enumerate() {
            let is_all =
                |(output, source): (usize, &Source)| *source == Source::StepOutput { step: position, output };
            if position + 1 == count && self.outputs.iter().enumerate().all(is_all) {
                return run.last(step, outputs);
            }
            run.next(step)?;
        }
        for (&source, output) in self.outputs.iter().zip(outputs) {
            output.copy_from(&run.get(source)?.view())?;
        }
        Ok(())
    }

    /// Runs all steps and returns the outputs, whose shapes may depend on values.
    ///
    /// # Errors
    /// As [`Decomposition::run`].
    pub(in crate::onnx) fn run_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        limits: &Limits,
    ) -> Result<Vec<Tensor>> {
        let inputs: Vec<Value<'_>> = inputs.iter().map(|input| Value::View(*input)).collect();
        let mut run = Run { inputs: &inputs, step_outputs: Vec::new(), workspace: Workspace::new()?, limits };
        self.steps.iter_mut().try_for_each(|step| run.next(step))?;
        let output = |&source: &Source| match run.get(source)? {
            Value::View(view) => Ok(view.to_tensor()?),
            Value::Tensor(tensor) => Ok(tensor.clone()),
        };
        self.outputs.iter().map(output).collect()
    }
}

impl<'a> Run<'a> {
    fn get(&self, source: Source) -> Result<&Value<'a>> {
        find(self.inputs, &self.step_outputs, source)
    }

    /// Initialises and configures a step's layer for its inputs; returns the metadata of its outputs.
    fn prepare(&mut self, step: &mut Step, views: &[TensorView<'_>]) -> Result<Vec<TensorMeta>> {
        self.limits.check_deadline()?;
        if !step.is_initialized {
            step.layer.initialize()?;
            step.is_initialized = true;
        }
        let metas = TensorMeta::of_all(views);
        let outputs = step.layer.infer(&metas)?;
        let bytes = step.layer.workspace(&metas, &outputs);
        if step.configured.as_ref() != Some(&metas) {
            step.layer.configure(&metas, &outputs)?;
            step.configured = Some(metas);
        }
        self.limits.check_tensor("workspace", bytes as u64)?;
        self.workspace.reserve(bytes)?;
        Ok(outputs)
    }

    /// Runs the last step: it writes directly to the operator's outputs, unless its outputs are views.
    fn last(mut self, step: &mut Step, outputs: &mut [TensorViewMut<'_>]) -> Result<()> {
        let step_outputs = std::mem::take(&mut self.step_outputs);
        let views = views_of(self.inputs, &step_outputs, &step.inputs)?;
        let layouts: Vec<_> = views.iter().map(|view| (view.dtype(), *view.layout())).collect();
        let shapes: Vec<Shape> = outputs.iter().map(|output| *output.shape()).collect();
        let has_views = match shapes.first() {
            Some(shape) => step.layer.view_of(0, &layouts, shape)?.is_some(),
            None => true,
        };
        if !has_views && !step.layer.is_data_dependent() && step.outputs.len() == outputs.len() {
            self.prepare(step, &views)?;
            let mut context = ForwardContext::new(&mut self.workspace, self.limits);
            return step.layer.forward(&mut Io::new(&views, outputs, &mut context));
        }
        let results = self.results(step, &step_outputs)?;
        results.iter().zip(outputs).try_for_each(|(result, output)| Ok(output.copy_from(&result.view())?))
    }

    fn next(&mut self, step: &mut Step) -> Result<()> {
        let step_outputs = std::mem::take(&mut self.step_outputs);
        let results = self.results(step, &step_outputs);
        self.step_outputs = step_outputs;
        self.step_outputs.push(results?);
        Ok(())
    }

    fn results(&mut self, step: &mut Step, step_outputs: &[Vec<Value<'a>>]) -> Result<Vec<Value<'a>>> {
        let views = views_of(self.inputs, step_outputs, &step.inputs)?;
        let metas = self.prepare(step, &views)?;
        if step.layer.is_data_dependent() {
            let mut context = ForwardContext::new(&mut self.workspace, self.limits);
            let outputs = step.layer.forward_dynamic(&views, &mut context)?;
            return Ok(outputs.into_iter().map(Value::Tensor).collect());
        }
        let shapes: Vec<Shape> = metas.iter().map(TensorMeta::shape).collect::<Result<_, _>>()?;
        let layouts: Vec<_> = views.iter().map(|view| (view.dtype(), *view.layout())).collect();
        let mut parts = Vec::with_capacity(metas.len());
        for (position, (meta, shape)) in metas.iter().zip(&shapes).enumerate() {
            let Some(view) = step.layer.view_of(position, &layouts, shape)? else { break };
            let source = step.inputs.get(view.input).copied().unwrap_or(Source::Input(usize::MAX));
            let whole = find(self.inputs, step_outputs, source)?;
            parts.push(whole.part(meta.dtype(), view.layout)?);
        }
        if parts.len() == metas.len() {
            return Ok(parts);
        }
        let mut outputs = Vec::with_capacity(metas.len());
        for (meta, shape) in metas.iter().zip(&shapes) {
            self.limits.check_tensor("an intermediate result", meta.byte_len().unwrap_or(u64::MAX))?;
            outputs.push(Tensor::empty(meta.dtype(), shape)?);
        }
        let mut targets: Vec<TensorViewMut<'_>> =
            outputs.iter_mut().map(Tensor::view_mut).collect::<Result<_, _>>()?;
        let mut context = ForwardContext::new(&mut self.workspace, self.limits);
        step.layer.forward(&mut Io::new(&views, &mut targets, &mut context))?;
        drop(targets);
        Ok(outputs.into_iter().map(Value::Tensor).collect())
    }
}

fn find<'m, 'a>(
    inputs: &'m [Value<'a>],
    step_outputs: &'m [Vec<Value<'a>>],
    source: Source,
) -> Result<&'m Value<'a>> {
    let found = match source {
        Source::Input(position) => inputs.get(position),
        Source::StepOutput { step, output } => step_outputs.get(step).and_then(|outputs| outputs.get(output)),
    };
    found.ok_or_else(|| LayerError::missing_input(0, inputs.len()))
}

fn views_of<'m>(
    inputs: &'m [Value<'_>],
    step_outputs: &'m [Vec<Value<'_>>],
    sources: &[Source],
) -> Result<Vec<TensorView<'m>>> {
    sources.iter().map(|&source| Ok(find(inputs, step_outputs, source)?.view())).collect()
}
