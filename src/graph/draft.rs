//! A runtime graph in the making: operators and operands are added one after the other, and connected.
//!
//! The operands of a file stand for tensors, for constants or for tuples of both. The runtime graph passes tensors and
//! nothing else, so a [`Draft`] knows what each of them stands for.

mod value;

pub use value::{Constant, Tuple, Value};

use super::operator::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};
use super::runtime::{InputPort, OutputPort};
use crate::op::RuntimeAttribute;
use crate::pnnx::{self, OperandId};
use std::collections::HashMap;

// ANCHOR: draft
/// The parts of a runtime graph, as far as they have been made.
#[derive(Debug, Default)]
pub struct Draft {
    /// The operators, each after those whose results it reads.
    pub operators: Vec<RuntimeOperator>,
    /// The operands.
    pub operands: Vec<RuntimeOperand>,
    /// The model's inputs.
    pub inputs: Vec<InputPort>,
    /// The model's outputs.
    pub outputs: Vec<OutputPort>,
    /// What the operands of the file stand for.
    pub values: HashMap<OperandId, Value>,
}
// ANCHOR_END: draft

// ANCHOR: translate
/// The operator that an operator of the file describes: its name, type and line, its typed settings, and its weights, of
/// which nothing is read. It is not connected and has no layer.
pub fn runtime_operator(operator: &pnnx::Operator) -> RuntimeOperator {
    // ANCHOR: runtime_operator_todo -- task 1: name, type, line, settings, and a lazy weight for each attribute
    let attrs = operator.attrs().iter();
    let attrs = attrs.map(|(key, attribute)| (key.clone(), RuntimeAttribute::from_file(attribute.clone())));
    RuntimeOperator::new(operator.name(), operator.op_type())
        .with_line(operator.line())
        .with_params(operator.params().clone())
        .with_attrs(attrs.collect())
    // ANCHOR_END: runtime_operator_todo
}

/// The operand that an operand of the file describes: its name, and the element type and shape that the file names.
/// Nobody writes or reads it yet.
pub fn runtime_operand(operand: &pnnx::Operand) -> RuntimeOperand {
    // ANCHOR: runtime_operand_todo -- task 1: the name, and what the file says of type and shape
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

/// Adds an operator, and tells its operands: those that it reads have a consumer more, one for each use; those that it
/// writes have it as their producer.
///
/// # Panics
/// When it reads or writes an operand that the draft does not have.
pub fn connect(draft: &mut Draft, operator: RuntimeOperator) -> OperatorIndex {
    // ANCHOR: connect_todo -- task 2: the index that it will have, told to all its operands; then add it
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
/// Adds a tensor for an operand of the file, which stands for it from now on.
pub fn add_tensor(draft: &mut Draft, file: &pnnx::Graph, operand: OperandId) -> OperandIndex {
    // ANCHOR: add_tensor_todo -- task 3: a runtime operand, and a note in `values`
    let index = add_operand(draft, runtime_operand(file.operand(operand)));
    draft.values.insert(operand, Value::Tensor(index));
    index
    // ANCHOR_END: add_tensor_todo
}

/// Adds an input of the model: for each output of a `pnnx.Input` a tensor, and a port with the operator's name.
pub fn add_input(draft: &mut Draft, file: &pnnx::Graph, operator: &pnnx::Operator) {
    // ANCHOR: add_input_todo -- task 3: a tensor and a port for each output
    for &output in operator.outputs() {
        let operand = add_tensor(draft, file, output);
        draft.inputs.push(InputPort { name: operator.name().to_owned(), operand });
    }
    // ANCHOR_END: add_input_todo
}

/// What the inputs of an operator stand for, in their order.
///
/// # Errors
/// The first input that stands for nothing: no operator before this one made it.
pub fn inputs_of(draft: &Draft, operator: &pnnx::Operator) -> Result<Vec<Value>, OperandId> {
    // ANCHOR: inputs_of_todo -- task 3: look up each of them
    let value = |input: &OperandId| draft.values.get(input).cloned().ok_or(*input);
    operator.inputs().iter().map(value).collect()
    // ANCHOR_END: inputs_of_todo
}
// ANCHOR_END: inputs

// ANCHOR: tuples
/// Lets the only output of an operator that makes a tuple stand for it. No operator is added.
///
/// # Errors
/// In words, when the operator has not one output.
pub fn pack(draft: &mut Draft, operator: &pnnx::Operator, items: Vec<Value>) -> Result<(), String> {
    // ANCHOR: pack_todo -- task 4: one output, which stands for all items
    let &[output] = operator.outputs() else {
        return Err(format!("{} outputs where 1 is needed", operator.outputs().len()));
    };
    draft.values.insert(output, Value::tuple(items));
    Ok(())
    // ANCHOR_END: pack_todo
}

/// Lets each output of an operator that takes a tuple apart stand for one item of it. No operator is added.
///
/// # Errors
/// In words, when `tuple` is none, or has another number of items.
pub fn unpack(draft: &mut Draft, operator: &pnnx::Operator, tuple: &Value) -> Result<(), String> {
    // ANCHOR: unpack_todo -- task 4: as many items as outputs, one for each
    let (outputs, Value::Tuple(tuple)) = (operator.outputs(), tuple) else {
        return Err("its input is no tuple".to_owned());
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

/// Adds all tensors and constants of a value to a list, depth first: the items of a tuple in the place of the tuple.
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
/// Makes operands outputs of the model, in this order. The port of a `pnnx.Output` with a single operand has the
/// operator's name; where there are several, each has the name of its operand.
///
/// # Panics
/// When the draft does not have the operands.
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
