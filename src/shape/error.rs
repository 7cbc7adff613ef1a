//! Errors of shape inference.

use crate::graph::GraphError;
use crate::op::list;
use crate::tensor::{DType, Dim};

/// An error of shape inference, or an input shape that the model does not accept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// An operator rejects its inputs, or the graph is not built.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// More or fewer shapes than the model has inputs.
    #[error("wrong number of input shapes: expected {} ({}), got {found}", names.len(), list(names))]
    InputCount {
        /// The number of shapes given.
        found: usize,
        /// The names of the model's inputs.
        names: Vec<String>,
    },
    /// An input of the wrong element type.
    #[error("input `{name}`: expected {wanted}, got {found}; convert it first")]
    InputDType {
        /// The input.
        name: String,
        /// The type in the file.
        wanted: DType,
        /// The type given.
        found: DType,
    },
    /// An input with the wrong number of axes.
    #[error("input `{name}`: expected {wanted} axes, got {found}")]
    InputRank {
        /// The input.
        name: String,
        /// The number of axes in the file.
        wanted: usize,
        /// The shape and type given.
        found: String,
    },
    /// The shape of an input is given more than once.
    #[error("the shape of input `{0}` is given twice; give it once")]
    GivenTwice(String),
    /// An invalid shape range.
    #[error("profile of input `{name}`: {reason}")]
    Profile {
        /// The input.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A length that an ONNX file fixes, and from which it computes others.
    #[error(
        "input `{name}`: the file fixes the length of axis {axis} to {declared}, so that it cannot be {found}; \
         export the model with a dynamic axis"
    )]
    Declared {
        /// The input.
        name: String,
        /// The axis.
        axis: usize,
        /// The length in the file.
        declared: u32,
        /// The length that was given.
        found: String,
    },
    /// A length that the profile or a fixed shape does not allow.
    #[error("axis {axis} of input `{name}` is {found}, but {}", allowed(*min, *max))]
    OutOfRange {
        /// The input.
        name: String,
        /// The axis.
        axis: usize,
        /// The given length.
        found: Dim,
        /// The smallest length.
        min: usize,
        /// The largest length.
        max: usize,
    },
    /// A symbol would have two different values.
    #[error(
        "conflicting values for `{symbol}`: axis {} of input `{}` is {}, but axis {} of input `{}` is {}",
        first.1, first.0, first.2, second.1, second.0, second.2
    )]
    Contradiction {
        /// The symbol.
        symbol: String,
        /// Input, axis and length of the first occurrence.
        first: (String, usize, i64),
        /// Input, axis and length of the conflicting occurrence.
        second: (String, usize, i64),
    },
    /// A text that is not a valid shape.
    #[error("`{text}` is not a valid input shape: {reason}")]
    Syntax {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

fn allowed(min: usize, max: usize) -> String {
    if min == max { format!("it is fixed to {min}") } else { format!("the profile allows {min} to {max}") }
}
