//! What can be wrong with a `.param` text.

use super::text::MAGIC;
use ixion_tensor::LimitError;

/// A fault at one place of a `.param` text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxProblem {
    /// There is nothing in the file.
    #[error("the file is empty; a .param text starts with {MAGIC}")]
    Empty,
    /// The file holds bytes that are no text.
    #[error("this is no text but {found}; give the .param file")]
    NotText {
        /// What it looks like.
        found: &'static str,
    },
    /// The file is a text of another kind.
    #[error("a .param text starts with {MAGIC}, found `{found}`")]
    Magic {
        /// The first line, shortened.
        found: String,
    },
    /// Something else was wanted here.
    #[error("wanted {wanted}, found {found}")]
    Unexpected {
        /// What was wanted.
        wanted: &'static str,
        /// What was found: a word in backquotes, or `the end of the line`.
        found: String,
    },
    /// The second line does not count the lines that follow.
    #[error(
        "the second line says {wanted} operator(s), found {found} line(s) of operators; is the file complete?"
    )]
    OperatorCount {
        /// What the second line says.
        wanted: usize,
        /// The number of lines.
        found: usize,
    },
    /// An input that no operator computes.
    #[error("no operator computes the input `{operand}` of operator `{operator}`")]
    UnknownOperand {
        /// The operator that reads it.
        operator: String,
        /// The operand.
        operand: String,
    },
    /// An input that is computed too late. Operators must be in topological order.
    #[error(
        "operator `{operator}` reads `{operand}`, which is computed only later, on line {line}: \
         the operators are not in topological order, or form a cycle"
    )]
    ReadBeforeComputed {
        /// The operator that reads it.
        operator: String,
        /// The operand.
        operand: String,
        /// The line of the operator that computes it.
        line: usize,
    },
    /// An operator that reads what it computes.
    #[error("operator `{operator}` reads its own output `{operand}`: that is a cycle")]
    FeedsItself {
        /// The operator.
        operator: String,
        /// The operand.
        operand: String,
    },
    /// An operand with two producers.
    #[error("operand `{operand}` is already computed on line {line}")]
    ComputedTwice {
        /// The operand.
        operand: String,
        /// The line that computes it first.
        line: usize,
    },
    /// Two operators of one name.
    #[error("operator `{operator}` is already on line {line}")]
    DuplicateOperator {
        /// The name.
        operator: String,
        /// The line that has it first.
        line: usize,
    },
    /// Two parameters, or two attributes, of one key.
    #[error("operator `{operator}` already has `{key}`")]
    DuplicateKey {
        /// The operator.
        operator: String,
        /// The key, with its `@` for an attribute.
        key: String,
    },
    /// `$key=operand` with an operand that is no input, or that has names for all its uses.
    #[error("operator `{operator}` has no unnamed input `{operand}` left that could be called `{key}`")]
    NotAnInput {
        /// The operator.
        operator: String,
        /// The argument name.
        key: String,
        /// The operand.
        operand: String,
    },
    /// `#operand=shape` with an operand that is neither input nor output.
    #[error("`{operand}` is neither input nor output of operator `{operator}`")]
    NotConnected {
        /// The operator.
        operator: String,
        /// The operand.
        operand: String,
    },
    /// A shape whose size in bytes does not fit 64 bits.
    #[error("a tensor of this shape has more than 2^63 bytes")]
    TooLarge,
    /// More than the caller allows.
    #[error(transparent)]
    Limit(#[from] LimitError),
}
