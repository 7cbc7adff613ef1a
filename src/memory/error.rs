//! Errors of memory planning and of lending planned memory.

use crate::op::LayerError;
use crate::tensor::TensorError;

/// An error of planning memory or of lending it to an operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A layer failed when asked for the layouts of its outputs.
    #[error("cannot plan the memory of {op_type} `{operator}`: {source}")]
    Layer {
        /// The operator's type.
        op_type: String,
        /// The operator's name.
        operator: String,
        /// The error of the layer.
        #[source]
        source: Box<LayerError>,
    },
    /// The planning problem is inconsistent.
    #[error("cannot plan the memory: {0}")]
    Problem(String),
    /// The plan refers to memory that does not exist or is in use: it does not match the given tensors.
    #[error("invalid memory plan: {0}; create a new plan for these inputs")]
    Plan(String),
    /// A tensor cannot be used as it is.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
