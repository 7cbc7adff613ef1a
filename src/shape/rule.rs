//! Applying the shape rule of one operator, with protection against faulty layers.

use super::ShapeError;
use super::symbols::rename_unknowns;
use crate::graph::{BuildState, GraphError, InputPort, RuntimeGraph, RuntimeOperand, RuntimeOperator, Stage};
use crate::op::{LayerError, TensorMeta, catch_panic};
use crate::tensor::{DType, TensorError};
use std::borrow::Cow;

/// Applies the shape rule of an operator: returns the metadata of all outputs, given the metadata of all inputs.
///
/// A layer that panics or returns the wrong number of outputs is an error. An unknown length is named after the operator, so
/// that applying the rule again gives the same result.
///
/// # Errors
/// Returns an error if the layer rejects its inputs, or needs values that are unknown; see [`is_open`].
pub fn apply_rule(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    inputs: &[TensorMeta],
) -> Result<Vec<TensorMeta>, LayerError> {
    let Some(layer) = operator.layer() else {
        return Err(LayerError::Unsupported("the graph is not built".to_owned()));
    };
    let real = real(inputs);
    let ruled = catch_panic(|| with_constant(graph, operator, layer.infer(&real)?));
    let logged = |error: &LayerError| {
        log::debug!("{} `{}` has no shape: {error}", operator.op_type(), operator.name());
    };
    let mut outputs = ruled.inspect_err(logged)?;
    if outputs.len() != operator.outputs().len() {
        let wanted = format!("{} outputs", operator.outputs().len());
        return Err(LayerError::BrokenPromise { wanted, found: outputs.len().to_string() });
    }
    rename_unknowns(operator, &mut outputs);
    let outputs: Vec<TensorMeta> = outputs
        .into_iter()
        .zip(operator.outputs())
        .map(|(output, &operand)| stored(graph.operand(operand), output))
        .collect();
    log::trace!("{} `{}`: {}", operator.op_type(), operator.name(), Listed(&outputs));
    Ok(outputs)
}

/// Returns true if an error of a shape rule may only mean that something is not known yet, not that something is wrong.
pub fn is_open(error: &LayerError, inputs: &[TensorMeta]) -> bool {
    let needs_more =
        matches!(error, LayerError::Unsupported(_) | LayerError::Tensor(TensorError::InvalidArgument(_)));
    needs_more && inputs.iter().any(|input| !input.is_known())
}

/// Adds the operator and notes on its inputs to an error of a shape rule.
pub fn at_operator(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    error: LayerError,
    notes: &[String],
) -> ShapeError {
    graph.operator_error(operator, Stage::Infer, error, notes).into()
}

/// Checks the number of inputs, and that type and rank of each input match the file. Lengths may differ.
///
/// # Errors
/// Returns an error if the graph is not built, or if the inputs do not match.
pub fn check_inputs(graph: &RuntimeGraph, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
    if graph.state() != BuildState::Complete {
        return Err(GraphError::NotBuilt.into());
    }
    if graph.inputs().len() != inputs.len() {
        let names = graph.inputs().iter().map(|port| port.name.clone()).collect();
        return Err(ShapeError::InputCount { found: inputs.len(), names });
    }
    let mut pairs = graph.inputs().iter().zip(inputs);
    pairs.try_for_each(|(port, input)| input.as_ref().map_or(Ok(()), |input| check_input(graph, port, input)))
}

fn check_input(graph: &RuntimeGraph, port: &InputPort, input: &TensorMeta) -> Result<(), ShapeError> {
    let operand = graph.operand(port.operand);
    let found = real_dtype(input);
    if let Some(wanted) = operand.dtype().filter(|&wanted| wanted != found) {
        return Err(ShapeError::InputDType { name: port.name.clone(), wanted, found });
    }
    match operand.shape() {
        Some(wanted) if wanted.len() != input.rank() => {
            let (name, found) = (port.name.clone(), input.to_string());
            Err(ShapeError::InputRank { name, wanted: wanted.len(), found })
        }
        _ => Ok(()),
    }
}

/// The metadata of an operand in the format in which the graph stores it.
pub(super) fn stored(operand: &RuntimeOperand, meta: TensorMeta) -> TensorMeta {
    let meta = if operand.scale().is_some() { meta.with_dtype(DType::I8) } else { meta };
    meta.with_format(operand.format()).with_step(operand.step())
}

/// The metadata that a shape rule sees: quantisation chosen by an engine is hidden from it.
fn real(metas: &[TensorMeta]) -> Cow<'_, [TensorMeta]> {
    if metas.iter().all(|meta| meta.scale().is_none()) {
        return Cow::Borrowed(metas);
    }
    metas.iter().map(|meta| meta.with_dtype(real_dtype(meta)).with_format(meta.format())).collect()
}

/// The element type in the model: f32 for operands that an engine quantised.
fn real_dtype(meta: &TensorMeta) -> DType {
    if meta.scale().is_some() { DType::F32 } else { meta.dtype() }
}

/// Adds the values of small integer constants, and shapes that are only known once the constant is computed.
fn with_constant(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    mut outputs: Vec<TensorMeta>,
) -> Result<Vec<TensorMeta>, LayerError> {
    if let (Some(layer), [output], true) = (operator.layer(), &mut outputs[..], operator.inputs().is_empty())
        && (output.may_have_values() || output.shape().is_err())
        && let Some(tensor) = layer.constant(graph.limits())?
    {
        *output = TensorMeta::of(&tensor.view());
    }
    Ok(outputs)
}

/// Formats the outputs of an operator for the log.
struct Listed<'a>(&'a [TensorMeta]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts: Vec<String> = self.0.iter().map(TensorMeta::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}
