//! What can go wrong with a plan of the memory.

use crate::op::LayerError;
use crate::tensor::TensorError;

/// An error of planning the memory or of lending it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A layer could not say where its outputs lie.
    #[error("{op_type} `{operator}` cannot be planned: {source}")]
    Layer {
        /// The operator's type.
        op_type: String,
        /// The operator's name.
        operator: String,
        /// What is wrong.
        #[source]
        source: Box<LayerError>,
    },
    /// What is to be planned contradicts itself.
    #[error("the memory cannot be planned: {0}")]
    Problem(String),
    /// Memory that is not there, or that others use at the same time: the plan does not belong to these tensors.
    #[error("the memory plan cannot be followed: {0}; make it anew for these inputs")]
    Plan(String),
    /// A tensor that cannot be used as it is.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
