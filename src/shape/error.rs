//! What can go wrong between the shapes of inputs and those of everything else.

use crate::graph::GraphError;
use crate::tensor::DType;

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
}
