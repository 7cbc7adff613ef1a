//! Errors in a `.param` text.

use super::text::MAGIC;
use ixion_tensor::LimitError;

/// An error at one position of a `.param` text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxProblem {
    /// The file is empty, or has only blank lines.
    #[error("the file is empty; a .param text starts with {MAGIC}")]
    Empty,
    /// The file is not UTF-8 text.
    #[error("expected a .param text file, found {found}")]
    NotText {
        /// What the bytes look like, such as `a PNG image`.
        found: &'static str,
    },
    /// The file is text, but not a `.param` text.
    #[error("a .param text starts with {MAGIC}, found `{found}`")]
    Magic {
        /// The first line, shortened.
        found: String,
    },
    /// The grammar expects something else here.
    #[error("expected {wanted}, found {found}")]
    Unexpected {
        /// The expected item.
        wanted: &'static str,
        /// The item found: a word in backquotes, or `the end of the line`.
        found: String,
    },
    /// The operator count on the second line differs from the number of operator lines.
    #[error(
        "the second line counts {wanted} operator(s), but {found} operator line(s) follow; is the file complete?"
    )]
    OperatorCount {
        /// The count on the second line.
        wanted: usize,
        /// The number of operator lines.
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
    /// An input that a later operator computes. Operators must be in topological order.
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
    /// An operator that reads its own output.
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
    /// Two operators with the same name.
    #[error("operator `{operator}` is already defined on line {line}")]
    DuplicateOperator {
        /// The name.
        operator: String,
        /// The line of the first definition.
        line: usize,
    },
    /// Two parameters, or two attributes, with the same key.
    #[error("operator `{operator}` already has `{key}`")]
    DuplicateKey {
        /// The operator.
        operator: String,
        /// The key, with its `@` for an attribute.
        key: String,
    },
    /// `$key=operand` with an operand that is not an input, or whose uses are all named.
    #[error("operator `{operator}` has no unnamed input `{operand}` left for the argument name `{key}`")]
    NotAnInput {
        /// The operator.
        operator: String,
        /// The argument name.
        key: String,
        /// The operand.
        operand: String,
    },
    /// `#operand=shape` with an operand that is neither an input nor an output.
    #[error("`{operand}` is neither an input nor an output of operator `{operator}`")]
    NotConnected {
        /// The operator.
        operator: String,
        /// The operand.
        operand: String,
    },
    /// A shape whose size in bytes does not fit an `i64`.
    #[error("a tensor of this shape has 2^63 bytes or more")]
    TooLarge,
    /// The model exceeds the caller's limits.
    #[error(transparent)]
    Limit(#[from] LimitError),
}
