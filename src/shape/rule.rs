//! One operator's rule, applied with the care that code of others needs.

use super::ShapeError;
use super::symbols::settle;
use crate::graph::{BuildState, GraphError, InputPort, RuntimeGraph, RuntimeOperand, RuntimeOperator, Stage};
use crate::op::{LayerError, TensorMeta, catch_panic};
use crate::tensor::{DType, TensorError};
use std::borrow::Cow;

/// What the layer of an operator says of its outputs, one description for each, given those of all inputs.
///
/// A layer that panics or returns another number of outputs than the operator has is an error. A length that no rule tells
/// is named after the operator, so that applying the rule again gives the same.
///
/// # Errors
/// Inputs that the layer cannot take, and values that it needs and that are not known, see [`is_open`].
pub fn apply_rule(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    inputs: &[TensorMeta],
) -> Result<Vec<TensorMeta>, LayerError> {
    let Some(layer) = operator.layer() else {
        return Err(LayerError::Unsupported("its graph is not built".to_owned()));
    };
    let real = real(inputs);
    let ruled = catch_panic(|| with_constant(graph, operator, layer.infer(&real)?));
    let logged = |error: &LayerError| {
        log::debug!("{} `{}` gives no shape: {error}", operator.op_type(), operator.name());
    };
    let mut outputs = ruled.inspect_err(logged)?;
    if outputs.len() != operator.outputs().len() {
        let wanted = format!("{} outputs", operator.outputs().len());
        return Err(LayerError::BrokenPromise { wanted, found: outputs.len().to_string() });
    }
    settle(operator, &mut outputs);
    let outputs: Vec<TensorMeta> = outputs
        .into_iter()
        .zip(operator.outputs())
        .map(|(output, &operand)| stored(graph.operand(operand), output))
        .collect();
    log::trace!("{} `{}`: {}", operator.op_type(), operator.name(), Listed(&outputs));
    Ok(outputs)
}

/// Whether an error of a rule says that something is not known yet, and not that something known is wrong.
pub fn is_open(error: &LayerError, inputs: &[TensorMeta]) -> bool {
    let needs_more =
        matches!(error, LayerError::Unsupported(_) | LayerError::Tensor(TensorError::InvalidArgument(_)));
    needs_more && inputs.iter().any(|input| !input.is_known())
}

/// The error of a rule with the operator that it is about, and with notes on its inputs.
pub fn at_operator(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    error: LayerError,
    notes: &[String],
) -> ShapeError {
    graph.operator_error(operator, Stage::Infer, error, notes).into()
}

/// Checks that there are as many inputs as the model has, and that they may be its inputs: type and rank are those of the
/// file, lengths may be others.
///
/// # Errors
/// A graph that is not built, and inputs that are not the model's.
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

/// The description of an operand in the format that the graph stores it in.
pub(super) fn stored(operand: &RuntimeOperand, meta: TensorMeta) -> TensorMeta {
    let meta = if operand.scale().is_some() { meta.with_dtype(DType::I8) } else { meta };
    meta.with_format(operand.format()).with_scale(operand.scale())
}

/// What a rule sees: whole numbers that an engine chose for real ones are its own affair.
fn real(metas: &[TensorMeta]) -> Cow<'_, [TensorMeta]> {
    if metas.iter().all(|meta| meta.scale().is_none()) {
        return Cow::Borrowed(metas);
    }
    metas.iter().map(|meta| meta.with_dtype(real_dtype(meta)).with_format(meta.format())).collect()
}

/// The element type that a model knows of.
fn real_dtype(meta: &TensorMeta) -> DType {
    if meta.scale().is_some() { DType::F32 } else { meta.dtype() }
}

/// Adds the values of small integers that do not depend on anything, and sizes that only computing them tells.
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

/// The outputs of an operator as the log names them.
struct Listed<'a>(&'a [TensorMeta]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts: Vec<String> = self.0.iter().map(TensorMeta::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}
