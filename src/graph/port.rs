//! The named inputs and outputs of a model.

use super::operator::OperandIndex;

/// A named input of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPort {
    /// The name of the `pnnx.Input` operator. Callers may also use the name of its operand.
    pub name: String,
    /// The operand that holds the input.
    pub operand: OperandIndex,
}

/// A named output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPort {
    /// The name of the operand, or of the `pnnx.Output` operator if that returns a single operand.
    pub name: String,
    /// The operand that is returned.
    pub operand: OperandIndex,
}
