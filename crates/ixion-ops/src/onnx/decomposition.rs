//! The decomposition of an ONNX operator into PyTorch operators that run in sequence.

mod run;

use super::lowering::{LoweredOperator, Source};
use super::steps::{Broadcast, Reshape};
use crate::arithmetic::expression::{Compiled, Expression};
use crate::conversion::To;
use crate::op::{
    CpuLayer, Field, FromOperator, LayerError, OperatorReader, Result, RuntimeParameter, TensorMeta, View,
    Written,
};
use ixion_pnnx::Expr;
use ixion_tensor::{DType, Dim, Layout, Shape};
use std::collections::BTreeMap;

/// One layer of a decomposition, with the sources of its inputs.
#[derive(Debug)]
struct Step {
    layer: Box<dyn CpuLayer>,
    inputs: Vec<Source>,
    outputs: Vec<TensorMeta>,
    configured: Option<Vec<TensorMeta>>,
    is_initialized: bool,
}

impl Drop for Step {
    fn drop(&mut self) {
        if self.is_initialized {
            self.layer.terminate();
        }
    }
}

/// The steps that compute an ONNX operator for certain inputs. Steps are added one at a time, and each is checked as it
/// is added, so that the next one can query the types and shapes of its inputs.
#[derive(Debug)]
pub(super) struct Decomposition {
    name: String,
    inputs: Vec<TensorMeta>,
    steps: Vec<Step>,
    outputs: Vec<Source>,
    /// The steps as operators of a file, if they are recorded and a file can name all of them so far.
    record: Option<Vec<LoweredOperator>>,
}

impl Decomposition {
    /// An empty decomposition of the operator with this name, for these inputs.
    pub(super) fn new(name: &str, inputs: &[TensorMeta]) -> Self {
        Self {
            name: name.to_owned(),
            inputs: inputs.to_vec(),
            steps: Vec::new(),
            outputs: Vec::new(),
            record: None,
        }
    }

    /// Records the steps as operators of a file.
    pub(super) fn recording(self) -> Self {
        Self { record: Some(Vec::new()), ..self }
    }

    /// The recorded operators; `None` if a file cannot name all of them.
    pub(super) fn recorded(self) -> Option<Vec<LoweredOperator>> {
        self.record
    }

    /// Stops recording: the steps are right only for inputs of exactly these sizes.
    pub(super) fn depend_on_sizes(&mut self) {
        self.record = None;
    }

    /// Records a step, after it was added.
    fn note(&mut self, added: Source, operator: Option<LoweredOperator>) {
        let num_outputs = match added {
            Source::StepOutput { step, .. } => self.steps.get(step).map_or(1, |step| step.outputs.len()),
            Source::Input(_) => 1,
        };
        self.record = self.record.take().zip(operator).map(|(mut record, operator)| {
            record.push(LoweredOperator { num_outputs, ..operator });
            record
        });
    }

    /// The metadata of the operator's inputs.
    pub(super) fn inputs(&self) -> &[TensorMeta] {
        &self.inputs
    }

    /// The metadata of an input or of a step's output.
    ///
    /// # Errors
    /// [`LayerError::InputCount`] if there is no such input or output.
    pub(super) fn meta(&self, source: Source) -> Result<&TensorMeta> {
        let meta = match source {
            Source::Input(position) => self.inputs.get(position),
            Source::StepOutput { step, output } => {
                self.steps.get(step).and_then(|step| step.outputs.get(output))
            }
        };
        let position = if let Source::Input(position) = source { position } else { 0 };
        meta.ok_or_else(|| LayerError::missing_input(position, self.inputs.len()))
    }

    /// The number of axes of a source.
    pub(super) fn rank(&self, source: Source) -> Result<usize> {
        Ok(self.meta(source)?.rank())
    }

    /// The element type of a source.
    pub(super) fn dtype(&self, source: Source) -> Result<DType> {
        Ok(self.meta(source)?.dtype())
    }

    /// Adds a PyTorch operator that reads these sources; returns its first output.
    ///
    /// # Errors
    /// Returns the layer's error if it rejects its parameters or these inputs.
    pub(super) fn then<L: FromOperator + CpuLayer + 'static>(
        &mut self,
        layer: L,
        inputs: &[Source],
    ) -> Result<Source> {
        if L::VALIDATES {
            layer.validate()?;
        }
        let written = if self.record.is_some() { layer.written() } else { Vec::new() };
        self.add_written(L::TYPES, L::FIELDS, written, Box::new(layer), inputs)
    }

    /// As [`Decomposition::then`], with the operator's type if it is not the layer's first one.
    ///
    /// # Errors
    /// As [`Decomposition::then`].
    pub(super) fn then_as<L: FromOperator + CpuLayer + 'static>(
        &mut self,
        op_type: String,
        layer: L,
        inputs: &[Source],
    ) -> Result<Source> {
        let added = self.then(layer, inputs)?;
        if let Some(operator) = self.record.as_mut().and_then(|record| record.last_mut()) {
            operator.op_type = op_type;
        }
        Ok(added)
    }

    /// The part of [`Decomposition::then`] that does not depend on the layer: `types` and `fields` are those of its operator,
    /// and `written` is what a file says about them, if steps are recorded.
    fn add_written(
        &mut self,
        types: &[&str],
        fields: &[Field],
        written: Vec<(&'static str, Written)>,
        layer: Box<dyn CpuLayer>,
        inputs: &[Source],
    ) -> Result<Source> {
        let is_recorded = self.record.is_some();
        let operator =
            if is_recorded { LoweredOperator::written(types, fields, written, inputs) } else { None };
        self.add_recorded(layer, inputs, operator)
    }

    /// As [`Decomposition::then`], with a layer that files cannot name.
    ///
    /// # Errors
    /// Returns the layer's error if it rejects these inputs.
    pub(super) fn step<L: CpuLayer + 'static>(&mut self, layer: L, inputs: &[Source]) -> Result<Source> {
        self.step_as(layer, inputs, None)
    }

    /// As [`Decomposition::step`], with an operator that does the same.
    ///
    /// # Errors
    /// As [`Decomposition::step`].
    pub(super) fn step_as<L: CpuLayer + 'static>(
        &mut self,
        layer: L,
        inputs: &[Source],
        operator: Option<LoweredOperator>,
    ) -> Result<Source> {
        self.add_recorded(Box::new(layer), inputs, operator)
    }

    /// Reshapes a source. Lengths may be symbolic.
    ///
    /// # Errors
    /// As [`Decomposition::step`].
    pub(super) fn reshape(&mut self, dims: Vec<Dim>, source: Source) -> Result<Source> {
        let operator = LoweredOperator::reshape(&dims, source);
        self.step_as(Reshape(dims), &[source], operator)
    }

    /// Repeats axes of length 1, and adds axes before the others. Lengths may be symbolic.
    ///
    /// # Errors
    /// As [`Decomposition::step`].
    pub(super) fn broadcast(&mut self, dims: Vec<Dim>, source: Source) -> Result<Source> {
        let operator = LoweredOperator::broadcast(&dims, self.meta(source)?, source);
        self.step_as(Broadcast(dims), &[source], operator)
    }

    /// Adds a step that an operator of a file describes, if there is one.
    fn add_recorded(
        &mut self,
        layer: Box<dyn CpuLayer>,
        inputs: &[Source],
        operator: Option<LoweredOperator>,
    ) -> Result<Source> {
        let added = self.add(layer, inputs)?;
        self.note(added, operator);
        Ok(added)
    }

    fn add(&mut self, layer: Box<dyn CpuLayer>, inputs: &[Source]) -> Result<Source> {
        let metas: Vec<TensorMeta> =
            inputs.iter().map(|&input| self.meta(input).cloned()).collect::<Result<_, _>>()?;
        let wanted = layer.num_inputs();
        if !wanted.contains(&metas.len()) {
            return Err(LayerError::input_count(&wanted, metas.len()));
        }
        let outputs = layer.infer(&metas)?;
        self.steps.push(Step {
            layer,
            inputs: inputs.to_vec(),
            outputs,
            configured: None,
            is_initialized: false,
        });
        Ok(Source::StepOutput { step: self.steps.len() - 1, output: 0 })
    }

    /// As [`Decomposition::then`], with a layer that is built from the text of its parameters, as if read from a file
    /// with this number of outputs. Inputs may be named. It is not recorded: most of these layers draw random numbers, which
    /// depend on the operator's name.
    ///
    /// # Errors
    /// As [`Decomposition::then`].
    pub(super) fn call<L: FromOperator + CpuLayer + 'static>(
        &mut self,
        params: &[(&str, &str)],
        inputs: &[(Option<&str>, Source)],
        outputs: usize,
    ) -> Result<Source> {
        let added =
            self.read(params, inputs, outputs, L::TYPES.first().copied().unwrap_or_default(), create::<L>)?;
        self.record = None;
        Ok(added)
    }

    fn read(
        &mut self,
        params: &[(&str, &str)],
        inputs: &[(Option<&str>, Source)],
        outputs: usize,
        op_type: &str,
        create: fn(&mut OperatorReader<'_>) -> Result<Box<dyn CpuLayer>>,
    ) -> Result<Source> {
        let mut all = BTreeMap::new();
        for (key, raw) in params {
            all.insert((*key).to_owned(), RuntimeParameter::parse(raw));
        }
        let names: Vec<Option<String>> = inputs.iter().map(|(name, _)| name.map(str::to_owned)).collect();
        let attrs = BTreeMap::new();
        let mut reader =
            OperatorReader::new(&all, &attrs, &names, outputs).with_name(&self.name).with_op_type(op_type);
        let layer = create(&mut reader)?;
        self.add(layer, &inputs.iter().map(|(_, source)| *source).collect::<Vec<_>>())
    }

    /// Adds an expression of these sources, such as `mul(@0,@0)`.
    ///
    /// # Errors
    /// Returns an error if the expression does not parse or rejects these inputs.
    pub(super) fn compute(&mut self, expression: &str, inputs: &[Source]) -> Result<Source> {
        let parsed = Expr::parse(expression).map_err(|error| LayerError::Unsupported(error.to_string()))?;
        let params = [("expr", RuntimeParameter::parse(expression))];
        let operator = LoweredOperator::new("pnnx.Expression", &params, inputs);
        self.step_as(Expression::new(Compiled::new(&parsed)?), inputs, Some(operator))
    }

    /// Converts a source to another element type; returns the source itself if it already has that type.
    ///
    /// # Errors
    /// As [`Decomposition::then`].
    pub(super) fn cast(&mut self, source: Source, dtype: DType) -> Result<Source> {
        if self.dtype(source)? == dtype {
            return Ok(source);
        }
        self.then(To { dtype: Some(dtype), copy: false, memory_format: None, non_blocking: false }, &[source])
    }

    /// Sets the sources of the operator's outputs.
    pub(super) fn returning(mut self, outputs: Vec<Source>) -> Self {
        self.outputs = outputs;
        self
    }

    /// The metadata of the operator's outputs.
    ///
    /// # Errors
    /// As [`Decomposition::meta`].
    pub(super) fn outputs(&self) -> Result<Vec<TensorMeta>> {
        self.outputs.iter().map(|&output| self.meta(output).cloned()).collect()
    }

    /// Returns true if this is the decomposition for these inputs.
    pub(super) fn fits(&self, inputs: &[TensorMeta]) -> bool {
        self.inputs == inputs
    }

    /// The number of multiply-accumulate operations of all steps.
    pub(super) fn macs(&self) -> u64 {
        let macs = self.steps.iter().map(|step| {
            let inputs: Result<Vec<TensorMeta>, _> =
                step.inputs.iter().map(|&input| self.meta(input).cloned()).collect();
            inputs.map_or(0, |inputs| step.layer.cost(&inputs, &step.outputs).macs)
        });
        macs.fold(0, u64::saturating_add)
    }

    /// The output as a view of an input, if the decomposition has no steps or a single one that is a view.
    ///
    /// # Errors
    /// Returns the error of the step's layer.
    pub(super) fn view_of(
        &self,
        output: usize,
        inputs: &[(DType, Layout)],
        shape: &Shape,
    ) -> Result<Option<View>> {
        let input_of = |source: Option<&Source>| match source {
            Some(Source::Input(position)) => Some(*position),
            _ => None,
        };
        match (self.steps.as_slice(), self.outputs.get(output)) {
            ([], source) => {
                let view = input_of(source).and_then(|input| Some((input, inputs.get(input)?.1)));
                Ok(view.map(|(input, layout)| View { input, layout }))
            }
            ([step], Some(Source::StepOutput { output, .. })) => {
                let known: Option<Vec<(DType, Layout)>> = step
                    .inputs
                    .iter()
                    .map(|source| input_of(Some(source)).and_then(|input| inputs.get(input).copied()))
                    .collect();
                let Some(known) = known else { return Ok(None) };
                let view = step.layer.view_of(*output, &known, shape)?;
                Ok(view.and_then(|view| Some(View { input: input_of(step.inputs.get(view.input))?, ..view })))
            }
            _ => Ok(None),
        }
    }
}

/// Builds a layer; fails if it leaves any parameter unread.
fn create<L: FromOperator + CpuLayer + 'static>(
    reader: &mut OperatorReader<'_>,
) -> Result<Box<dyn CpuLayer>> {
    let layer = L::from_operator(reader)?;
    reader.finish()?;
    layer.validate()?;
    Ok(Box::new(layer))
}
