//! Lesson 05: the runtime graph.
//!
//! The page of the book: `book/src/lessons/05_runtime_graph.md`. Replace each `todo!` by code. This is the only file to
//! edit.
//!
//! A [`Draft`] holds the parts of a runtime graph under construction. `pnnx::Operator` is an operator of the file,
//! [`RuntimeOperator`] an operator of the runtime graph.

use ixion::course::draft::{Draft, Value};
use ixion::graph::{InputPort, OperandIndex, OperatorIndex, OutputPort, RuntimeOperand, RuntimeOperator};
use ixion::op::RuntimeAttribute;
use ixion::pnnx::{self, OperandId};

// Task 1: operators and operands, each by itself.

/// Converts an operator of the file: its name, type and line, its typed parameters, and its weights, none of which are read
/// yet. The result is not connected and has no layer.
pub fn runtime_operator(operator: &pnnx::Operator) -> RuntimeOperator {
    todo!(
        "lesson 05, task 1: name, type, line, parameters, and a lazy weight for each attribute (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// Converts an operand of the file: its name, and the element type and shape that the file states. The result has no producer
/// and no consumers.
pub fn runtime_operand(operand: &pnnx::Operand) -> RuntimeOperand {
    todo!(
        "lesson 05, task 1: the name, and the type and shape that the file states (book chapter 5; stuck? cargo learn hint 5)"
    )
}

// Task 2: operators and operands that know each other.

/// Adds an operand, and returns its index.
pub fn add_operand(draft: &mut Draft, operand: RuntimeOperand) -> OperandIndex {
    todo!("lesson 05, task 2: at the end of the list (book chapter 5; stuck? cargo learn hint 5)")
}

/// Adds an operator and connects it with its operands: it becomes a consumer of the operands that it reads, once for each use,
/// and the producer of the operands that it writes.
///
/// # Panics
/// Panics if it reads or writes an operand that is not in the draft.
pub fn connect(draft: &mut Draft, operator: RuntimeOperator) -> OperatorIndex {
    todo!(
        "lesson 05, task 2: pass the index that it will have to all its operands, then add it (book chapter 5; stuck? cargo learn hint 5)"
    )
}

// Task 3: what an input represents.

/// Adds a tensor for an operand of the file, and records that the operand represents it.
pub fn add_tensor(draft: &mut Draft, file: &pnnx::Graph, operand: OperandId) -> OperandIndex {
    todo!(
        "lesson 05, task 3: a runtime operand, and an entry in `values` (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// Adds an input of the model: a tensor and a port with the operator's name for each output of a `pnnx.Input`.
pub fn add_input(draft: &mut Draft, file: &pnnx::Graph, operator: &pnnx::Operator) {
    todo!(
        "lesson 05, task 3: a tensor and a port for each output (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// The values of an operator's inputs, in order.
///
/// # Errors
/// Returns the first input without a value: no preceding operator produces it.
pub fn inputs_of(draft: &Draft, operator: &pnnx::Operator) -> Result<Vec<Value>, OperandId> {
    todo!("lesson 05, task 3: look up each of them (book chapter 5; stuck? cargo learn hint 5)")
}

// Task 4: tuples.

/// Records the tuple that an operator constructs as the value of its only output. No operator is added.
///
/// # Errors
/// Returns a message if the operator does not have exactly one output.
pub fn pack(draft: &mut Draft, operator: &pnnx::Operator, items: Vec<Value>) -> Result<(), String> {
    todo!(
        "lesson 05, task 4: one output, which represents all items (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// Records the items of a tuple as the values of the outputs of an operator that unpacks it. No operator is added.
///
/// # Errors
/// Returns a message if `tuple` is not a tuple, or if the number of items differs from the number of outputs.
pub fn unpack(draft: &mut Draft, operator: &pnnx::Operator, tuple: &Value) -> Result<(), String> {
    todo!(
        "lesson 05, task 4: as many items as outputs, one for each (book chapter 5; stuck? cargo learn hint 5)"
    )
}

/// Appends all tensors and constants of a value to a list, depth first: a tuple is replaced by its items.
pub fn flatten<'v>(value: &'v Value, into: &mut Vec<&'v Value>) {
    todo!(
        "lesson 05, task 4: the items of a tuple one by one, anything else as it is (book chapter 5; stuck? cargo learn hint 5)"
    )
}

// Task 5: the model's outputs.

/// Adds operands as outputs of the model, in this order. The port of a `pnnx.Output` with a single operand has the operator's
/// name; if there are several operands, each port has the name of its operand.
///
/// # Panics
/// Panics if an operand is not in the draft.
pub fn add_outputs(draft: &mut Draft, operator: &pnnx::Operator, operands: &[OperandIndex]) {
    todo!(
        "lesson 05, task 5: mark the operand, and name the port (book chapter 5; stuck? cargo learn hint 5)"
    )
}
