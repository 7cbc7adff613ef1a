//! Errors of editing a graph.

/// An error for an edit that would break the graph, or for a graph that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Two operators cannot have the same name.
    #[error("an operator named `{name}` already exists")]
    DuplicateOperator {
        /// The name.
        name: String,
    },
    /// Two operands cannot have the same name.
    #[error("an operand named `{name}` already exists")]
    DuplicateOperand {
        /// The name.
        name: String,
    },
    /// The operator was removed, or belongs to another graph.
    #[error("the operator is not, or no longer, in this graph")]
    NoSuchOperator,
    /// The operand was removed, or belongs to another graph.
    #[error("the operand is not, or no longer, in this graph")]
    NoSuchOperand,
    /// A graph holds at most 2^32 operators and 2^32 operands, including removed ones.
    #[error("the graph has more than 2^32 operators or operands")]
    TooMany,
    /// The operator has no such input.
    #[error("operator `{operator}` has no input number {index}: it has {count} input(s)")]
    NoSuchInput {
        /// The operator's name.
        operator: String,
        /// The requested input, counted from 0.
        index: usize,
        /// The operator's number of inputs.
        count: usize,
    },
    /// The number of names differs from the operator's number of inputs.
    #[error("operator `{operator}`: expected {count} input name(s), got {found}")]
    InputNames {
        /// The operator's name.
        operator: String,
        /// The number of names.
        found: usize,
        /// The operator's number of inputs.
        count: usize,
    },
    /// The operator does not compute the operand.
    #[error("operator `{operator}` does not compute `{operand}`")]
    NotAnOutput {
        /// The operator's name.
        operator: String,
        /// The operand's name.
        operand: String,
    },
    /// An operand cannot have two producers.
    #[error("`{operand}` is already computed by operator `{producer}`; disconnect it there first")]
    AlreadyProduced {
        /// The operand's name.
        operand: String,
        /// The producer's name.
        producer: String,
    },
    /// An operand that is still used cannot be removed.
    #[error("`{operand}` is still used by operator `{consumer}`; replace that input first")]
    StillUsed {
        /// The operand's name.
        operand: String,
        /// The name of one of its consumers.
        consumer: String,
    },
    /// A name or value that the `.param` text cannot hold.
    #[error("{what} `{text}` cannot be written to a .param file: {reason}")]
    Unwritable {
        /// The kind of text, such as `operator name`.
        what: &'static str,
        /// The text.
        text: String,
        /// The reason, such as `it contains a blank`.
        reason: &'static str,
    },
    /// An operator reads an operand that no operator computes.
    #[error("operator `{operator}` reads `{operand}`, which no operator computes")]
    NoProducer {
        /// The operator's name.
        operator: String,
        /// The operand's name.
        operand: String,
    },
    /// An operator reads its own output, or the output of a later operator.
    #[error(
        "operator `{operator}` reads `{operand}`, but its producer `{producer}` does not come before the operator"
    )]
    NotInOrder {
        /// The operator's name.
        operator: String,
        /// The operand's name.
        operand: String,
        /// The producer's name.
        producer: String,
    },
    /// An operand that no operator computes or reads: the text cannot hold it.
    #[error("`{operand}` is neither computed nor read by any operator; remove it")]
    Unconnected {
        /// The operand's name.
        operand: String,
    },
}
