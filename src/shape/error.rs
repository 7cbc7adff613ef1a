//! What can go wrong between the shapes of inputs and those of everything else.

use crate::graph::GraphError;
use crate::tensor::{DType, Dim};

/// An error of shape inference, or of shapes that a model cannot take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// An operator does not fit its inputs, or the graph is not ready.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// More or fewer shapes than the model has inputs.
    #[error("{found} input shapes were given, but the model has {}: {}", names.len(), names.join(", "))]
    InputCount {
        /// How many were given.
        found: usize,
        /// The names of the model's inputs.
        names: Vec<String>,
    },
    /// An input of the wrong element type.
    #[error("input `{name}` should be {wanted}, but is {found}; convert it first")]
    InputDType {
        /// The input.
        name: String,
        /// The type that the file names.
        wanted: DType,
        /// The type that was given.
        found: DType,
    },
    /// An input of the wrong number of axes.
    #[error("input `{name}` should have {wanted} axes, but is {found}")]
    InputRank {
        /// The input.
        name: String,
        /// How many axes the file names.
        wanted: usize,
        /// What was given.
        found: String,
    },
    /// An input whose shape was said already.
    #[error("the shape of input `{0}` is given twice; give it once")]
    GivenTwice(String),
    /// A range of shapes that is none.
    #[error("the profile of input `{name}`: {reason}")]
    Profile {
        /// The input.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A length that a profile, or a shape that was fixed, does not allow.
    #[error("axis {axis} of input `{name}` is {found}, but {}", allowed(*min, *max))]
    OutOfRange {
        /// The input.
        name: String,
        /// The axis.
        axis: usize,
        /// Its length.
        found: Dim,
        /// The smallest length.
        min: usize,
        /// The largest length.
        max: usize,
    },
    /// One symbol that would be two numbers.
    #[error(
        "`{symbol}` cannot be two numbers: axis {} of input `{}` is {}, and axis {} of input `{}` is {}",
        first.1, first.0, first.2, second.1, second.0, second.2
    )]
    Contradiction {
        /// The symbol.
        symbol: String,
        /// Input, axis and length where it stands first.
        first: (String, usize, i64),
        /// Input, axis and length that disagree.
        second: (String, usize, i64),
    },
    /// A text that describes no shape.
    #[error("`{text}` is not the shape of an input: {reason}")]
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
