//! Lesson 05: the runtime graph.
//!
//! The page of the book: `book/src/lessons/05_runtime_graph.md`. Replace each `todo!` by code. This is the only file to
//! edit.
//!
//! A [`Draft`] holds the parts of a runtime graph while it is made. `pnnx::Operator` is an operator of the file,
//! [`RuntimeOperator`] one of the runtime graph.

use ixion::graph::draft::{Draft, Value};
use ixion::graph::{InputPort, OperandIndex, OperatorIndex, OutputPort, RuntimeOperand, RuntimeOperator};
use ixion::op::RuntimeAttribute;
use ixion::pnnx::{self, OperandId};

// Task 1: operators and operands, each by itself.

/// The operator that an operator of the file describes: its name, type and line, its typed settings, and its weights, of
/// which nothing is read. It is not connected and has no layer.
pub fn runtime_operator(operator: &pnnx::Operator) -> RuntimeOperator {
    todo!(
        "lesson 05, task 1: name, type, line, settings, and a lazy weight for each attribute (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// The operand that an operand of the file describes: its name, and the element type and shape that the file names.
/// Nobody writes or reads it yet.
pub fn runtime_operand(operand: &pnnx::Operand) -> RuntimeOperand {
    todo!(
        "lesson 05, task 1: the name, and what the file says of type and shape (book chapter 5; stuck? cargo learn hint 5)"
    )
}

// Task 2: operators and operands that know each other.

/// Adds an operand, and returns its index.
pub fn add_operand(draft: &mut Draft, operand: RuntimeOperand) -> OperandIndex {
    todo!("lesson 05, task 2: at the end of the list (book chapter 5; stuck? cargo learn hint 5)")
}

/// Adds an operator, and tells its operands: those that it reads have a consumer more, one for each use; those that it
/// writes have it as their producer.
///
/// # Panics
/// When it reads or writes an operand that the draft does not have.
pub fn connect(draft: &mut Draft, operator: RuntimeOperator) -> OperatorIndex {
    todo!(
        "lesson 05, task 2: the index that it will have, told to all its operands; then add it (book chapter 5; stuck? cargo learn hint 5)"
    )
}

// Task 3: what an input stands for.

/// Adds a tensor for an operand of the file, which stands for it from now on.
pub fn add_tensor(draft: &mut Draft, file: &pnnx::Graph, operand: OperandId) -> OperandIndex {
    todo!(
        "lesson 05, task 3: a runtime operand, and a note in `values` (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// Adds an input of the model: for each output of a `pnnx.Input` a tensor, and a port with the operator's name.
pub fn add_input(draft: &mut Draft, file: &pnnx::Graph, operator: &pnnx::Operator) {
    todo!(
        "lesson 05, task 3: a tensor and a port for each output (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// What the inputs of an operator stand for, in their order.
///
/// # Errors
/// The first input that stands for nothing: no operator before this one made it.
pub fn inputs_of(draft: &Draft, operator: &pnnx::Operator) -> Result<Vec<Value>, OperandId> {
    todo!("lesson 05, task 3: look up each of them (book chapter 5; stuck? cargo learn hint 5)")
}

// Task 4: tuples.

/// Lets the only output of an operator that makes a tuple stand for it. No operator is added.
///
/// # Errors
/// In words, when the operator has not one output.
pub fn pack(draft: &mut Draft, operator: &pnnx::Operator, items: Vec<Value>) -> Result<(), String> {
    todo!(
        "lesson 05, task 4: one output, which stands for all items (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// Lets each output of an operator that takes a tuple apart stand for one item of it. No operator is added.
///
/// # Errors
/// In words, when `tuple` is none, or has another number of items.
pub fn unpack(draft: &mut Draft, operator: &pnnx::Operator, tuple: &Value) -> Result<(), String> {
    todo!(
        "lesson 05, task 4: as many items as outputs, one for each (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// Adds all tensors and constants of a value to a list, depth first: the items of a tuple in the place of the tuple.
pub fn flatten<'v>(value: &'v Value, into: &mut Vec<&'v Value>) {
    todo!(
        "lesson 05, task 4: the items of a tuple one by one, anything else as it is (book chapter 5; stuck? cargo learn hint 5)"
    )
}

// Task 5: the model's outputs.

/// Makes operands outputs of the model, in this order. The port of a `pnnx.Output` with a single operand has the
/// operator's name; where there are several, each has the name of its operand.
///
/// # Panics
/// When the draft does not have the operands.
pub fn add_outputs(draft: &mut Draft, operator: &pnnx::Operator, operands: &[OperandIndex]) {
    todo!(
        "lesson 05, task 5: mark the operand, and name the port (book chapter 5; stuck? cargo learn hint 5)"
    )
}
