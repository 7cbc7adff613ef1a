//! Applying the shape rules of all operators in order.
//!
//! The metadata of the operands is a list with an entry for each operand, by position; `None` if unknown.

use super::ShapeError;
use super::rule::{apply_rule, at_operator, check_inputs, is_open};
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator};
use crate::op::TensorMeta;

// ANCHOR: known_inputs
/// The metadata of an operator's inputs, in order; `None` if one of them is unknown.
pub fn known_inputs(operator: &RuntimeOperator, metas: &[Option<TensorMeta>]) -> Option<Vec<TensorMeta>> {
    // ANCHOR: known_inputs_todo -- task 3: the metadata of each input, or `None`
    operator.inputs().iter().map(|input| metas.get(input.position())?.clone()).collect()
    // ANCHOR_END: known_inputs_todo
}
// ANCHOR_END: known_inputs

// ANCHOR: origin
/// The producer and the metadata of an operand, as text for messages.
pub fn origin(graph: &RuntimeGraph, index: OperandIndex, metas: &[Option<TensorMeta>]) -> String {
    let operand = graph.operand(index);
    let meta = metas.get(index.position()).and_then(Option::as_ref);
    let shape = meta.map_or_else(|| "unknown".to_owned(), TensorMeta::to_string);
    match operand.producer().map(|producer| graph.operator(producer)) {
        Some(producer) => {
            format!("`{}` from {} `{}` is {shape}", operand.name(), producer.op_type(), producer.name())
        }
        None => {
            let port = graph.inputs().iter().find(|port| port.operand == index);
            format!("input `{}` is {shape}", port.map_or(operand.name(), |port| &port.name))
        }
    }
}
// ANCHOR_END: origin

// ANCHOR: infer_operator
/// Infers the outputs of one operator; `None` if its rule needs something that is unknown.
///
/// # Errors
/// Returns an error if the operator rejects its inputs, with the operator and the producers of its inputs.
pub fn infer_operator(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    metas: &[Option<TensorMeta>],
) -> Result<Option<Vec<TensorMeta>>, ShapeError> {
    // ANCHOR: infer_operator_todo -- task 3: apply the rule; unknown inputs are not an error, and an error names the operator
    let Some(inputs) = known_inputs(operator, metas) else { return Ok(None) };
    match apply_rule(graph, operator, &inputs) {
        Ok(outputs) => Ok(Some(outputs)),
        Err(error) if is_open(&error, &inputs) => Ok(None),
        Err(error) => {
            let origins = operator.inputs().iter().map(|&input| origin(graph, input, metas));
            Err(at_operator(graph, operator, error, &origins.collect::<Vec<_>>()))
        }
    }
    // ANCHOR_END: infer_operator_todo
}
// ANCHOR_END: infer_operator

// ANCHOR: infer_all
/// Infers the metadata of all operands, by position, given the model's inputs in order.
///
/// # Errors
/// As [`check_inputs`]; the error of the first operator that rejects its inputs.
pub fn infer_all(
    graph: &RuntimeGraph,
    inputs: &[Option<TensorMeta>],
) -> Result<Vec<Option<TensorMeta>>, ShapeError> {
    // ANCHOR: infer_all_todo -- task 3: check and set the inputs, then infer the operators in order
    check_inputs(graph, inputs)?;
    let mut metas = vec![None; graph.operands().len()];
    for (port, input) in graph.inputs().iter().zip(inputs) {
        metas[port.operand.position()] = input.clone();
    }
    for operator in graph.operators() {
        let Some(outputs) = infer_operator(graph, operator, &metas)? else { continue };
        for (operand, output) in operator.outputs().iter().zip(outputs) {
            metas[operand.position()] = Some(output);
        }
    }
    Ok(metas)
    // ANCHOR_END: infer_all_todo
}
// ANCHOR_END: infer_all
