//! A runtime graph under construction, to which operators and operands are added and connected.
//!
//! The operands of a file represent tensors, constants, or tuples of both. The operands of the runtime graph are tensors only,
//! so a [`Draft`] records what each operand of the file represents.

mod value;

pub use value::{Constant, Tuple, Value};

use super::operator::{InputPort, OperandIndex, OperatorIndex, OutputPort, RuntimeOperand, RuntimeOperator};
use crate::op::RuntimeAttribute;
use crate::pnnx::{self, OperandId};
use std::collections::HashMap;

// ANCHOR: draft
/// The parts of a runtime graph that have been built so far.
#[derive(Debug, Default)]
pub struct Draft {
    /// The operators, each after the operators whose results it reads.
    pub operators: Vec<RuntimeOperator>,
    /// The operands.
    pub operands: Vec<RuntimeOperand>,
    /// The model's inputs.
    pub inputs: Vec<InputPort>,
    /// The model's outputs.
    pub outputs: Vec<OutputPort>,
    /// What each operand of the file represents.
    pub values: HashMap<OperandId, Value>,
}
// ANCHOR_END: draft

// ANCHOR: translate
/// Converts an operator of the file: its name, type and line, its typed parameters, and its weights, none of which are read
/// yet. The result is not connected and has no layer.
pub fn runtime_operator(operator: &pnnx::Operator) -> RuntimeOperator {
    // ANCHOR: runtime_operator_todo -- task 1: name, type, line, parameters, and a lazy weight for each attribute
    let attrs = operator.attrs().iter();
    let attrs = attrs.map(|(key, attribute)| (key.clone(), RuntimeAttribute::from_file(attribute.clone())));
    RuntimeOperator::new(operator.name(), operator.op_type())
        .with_line(operator.line())
        .with_params(operator.params().clone())
        .with_attrs(attrs.collect())
    // ANCHOR_END: runtime_operator_todo
}

/// Converts an operand of the file: its name, and the element type and shape that the file states. The result has no producer
/// and no consumers.
pub fn runtime_operand(operand: &pnnx::Operand) -> RuntimeOperand {
    // ANCHOR: runtime_operand_todo -- task 1: the name, and the type and shape that the file states
    RuntimeOperand::new(operand.name()).with_hint(operand.dtype(), operand.shape().map(<[_]>::to_vec))
    // ANCHOR_END: runtime_operand_todo
}
// ANCHOR_END: translate

// ANCHOR: connect
/// Adds an operand, and returns its index.
pub fn add_operand(draft: &mut Draft, operand: RuntimeOperand) -> OperandIndex {
    // ANCHOR: add_operand_todo -- task 2: at the end of the list
    draft.operands.push(operand);
    OperandIndex::new(draft.operands.len() - 1)
    // ANCHOR_END: add_operand_todo
}

/// Adds an operator and connects it with its operands: it becomes a consumer of the operands that it reads, once for each use,
/// and the producer of the operands that it writes.
///
/// # Panics
/// Panics if it reads or writes an operand that is not in the draft.
pub fn connect(draft: &mut Draft, operator: RuntimeOperator) -> OperatorIndex {
    // ANCHOR: connect_todo -- task 2: pass the index that it will have to all its operands, then add it
    let index = OperatorIndex::new(draft.operators.len());
    for input in operator.inputs() {
        draft.operands[input.position()].add_consumer(index);
    }
    for output in operator.outputs() {
        draft.operands[output.position()].set_producer(index);
    }
    draft.operators.push(operator);
    index
    // ANCHOR_END: connect_todo
}
// ANCHOR_END: connect

// ANCHOR: inputs
/// Adds a tensor for an operand of the file, and records that the operand represents it.
pub fn add_tensor(draft: &mut Draft, file: &pnnx::Graph, operand: OperandId) -> OperandIndex {
    // ANCHOR: add_tensor_todo -- task 3: a runtime operand, and an entry in `values`
    let index = add_operand(draft, runtime_operand(file.operand(operand)));
    draft.values.insert(operand, Value::Tensor(index));
    index
    // ANCHOR_END: add_tensor_todo
}

/// Adds an input of the model: a tensor and a port with the operator's name for each output of a `pnnx.Input`.
pub fn add_input(draft: &mut Draft, file: &pnnx::Graph, operator: &pnnx::Operator) {
    // ANCHOR: add_input_todo -- task 3: a tensor and a port for each output
    for &output in operator.outputs() {
        let operand = add_tensor(draft, file, output);
        draft.inputs.push(InputPort { name: operator.name().to_owned(), operand });
    }
    // ANCHOR_END: add_input_todo
}

/// The values of an operator's inputs, in order.
///
/// # Errors
/// Returns the first input without a value: no preceding operator produces it.
pub fn inputs_of(draft: &Draft, operator: &pnnx::Operator) -> Result<Vec<Value>, OperandId> {
    // ANCHOR: inputs_of_todo -- task 3: look up each of them
    let value = |input: &OperandId| draft.values.get(input).cloned().ok_or(*input);
    operator.inputs().iter().map(value).collect()
    // ANCHOR_END: inputs_of_todo
}
// ANCHOR_END: inputs

// ANCHOR: tuples
/// Records the tuple that an operator constructs as the value of its only output. No operator is added.
///
/// # Errors
/// Returns a message if the operator does not have exactly one output.
pub fn pack(draft: &mut Draft, operator: &pnnx::Operator, items: Vec<Value>) -> Result<(), String> {
    // ANCHOR: pack_todo -- task 4: one output, which represents all items
    let &[output] = operator.outputs() else {
        return Err(format!("expected 1 output, got {}", operator.outputs().len()));
    };
    draft.values.insert(output, Value::tuple(items));
    Ok(())
    // ANCHOR_END: pack_todo
}

/// Records the items of a tuple as the values of the outputs of an operator that unpacks it. No operator is added.
///
/// # Errors
/// Returns a message if `tuple` is not a tuple, or if the number of items differs from the number of outputs.
pub fn unpack(draft: &mut Draft, operator: &pnnx::Operator, tuple: &Value) -> Result<(), String> {
    // ANCHOR: unpack_todo -- task 4: as many items as outputs, one for each
    let (outputs, Value::Tuple(tuple)) = (operator.outputs(), tuple) else {
        return Err("its input is not a tuple".to_owned());
    };
    if outputs.len() != tuple.items.len() {
        return Err(format!("it unpacks {} items from a tuple of {}", outputs.len(), tuple.items.len()));
    }
    for (&output, item) in outputs.iter().zip(&tuple.items) {
        draft.values.insert(output, item.clone());
    }
    Ok(())
    // ANCHOR_END: unpack_todo
}

/// Appends all tensors and constants of a value to a list, depth first: a tuple is replaced by its items.
pub fn flatten<'v>(value: &'v Value, into: &mut Vec<&'v Value>) {
    // ANCHOR: flatten_todo -- task 4: the items of a tuple one by one, anything else as it is
    match value {
        Value::Tuple(tuple) => tuple.items.iter().for_each(|item| flatten(item, into)),
        leaf => into.push(leaf),
    }
    // ANCHOR_END: flatten_todo
}
// ANCHOR_END: tuples

// ANCHOR: outputs
/// Adds operands as outputs of the model, in this order. The port of a `pnnx.Output` with a single operand has the operator's
/// name; if there are several operands, each port has the name of its operand.
///
/// # Panics
/// Panics if an operand is not in the draft.
pub fn add_outputs(draft: &mut Draft, operator: &pnnx::Operator, operands: &[OperandIndex]) {
    // ANCHOR: add_outputs_todo -- task 5: mark the operand, and name the port
    for &operand in operands {
        let runtime = &mut draft.operands[operand.position()];
        runtime.mark_output();
        let name = if operands.len() == 1 { operator.name() } else { runtime.name() };
        draft.outputs.push(OutputPort { name: name.to_owned(), operand });
    }
    // ANCHOR_END: add_outputs_todo
}
// ANCHOR_END: outputs
