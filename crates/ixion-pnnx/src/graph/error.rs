//! Why an edit is refused.

/// An edit that would break the graph, or a graph that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Two operators cannot have the same name.
    #[error("there is already an operator called `{name}`")]
    DuplicateOperator {
        /// The name.
        name: String,
    },
    /// Two operands cannot have the same name.
    #[error("there is already an operand called `{name}`")]
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
    /// A graph holds at most 2^32 operators and as many operands, counting those that were removed.
    #[error("the graph has more than 2^32 operators or operands")]
    TooMany,
    /// The operator has fewer inputs.
    #[error("operator `{operator}` has no input number {index}, only {count}")]
    NoSuchInput {
        /// The operator's name.
        operator: String,
        /// The number asked for, from 0.
        index: usize,
        /// How many inputs it has.
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
    /// An operand has one producer.
    #[error("`{operand}` is already computed by operator `{producer}`; disconnect it there first")]
    AlreadyProduced {
        /// The operand's name.
        operand: String,
        /// The producer's name.
        producer: String,
    },
    /// What is still used cannot be removed.
    #[error("`{operand}` is still used by operator `{consumer}`; give that another input first")]
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
        /// Why not.
        reason: &'static str,
    },
    /// An operator reads something that nobody computes.
    #[error("operator `{operator}` reads `{operand}`, which no operator computes")]
    NoProducer {
        /// The operator's name.
        operator: String,
        /// The operand's name.
        operand: String,
    },
    /// An operator is executed before, or is itself, the one whose result it reads.
    #[error(
        "operator `{operator}` reads `{operand}`, but `{producer}`, which computes it, does not come before it"
    )]
    NotInOrder {
        /// The operator's name.
        operator: String,
        /// The operand's name.
        operand: String,
        /// The producer's name.
        producer: String,
    },
    /// An operand that nobody computes and nobody reads: the text has no place for it.
    #[error("`{operand}` is neither computed nor read by any operator; remove it")]
    Unconnected {
        /// The operand's name.
        operand: String,
    },
}
