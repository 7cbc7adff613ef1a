//! Errors of ONNX files.

use ixion_pnnx::{ArchiveError, GraphError, WeightError};
use ixion_tensor::LimitError;

/// An ONNX file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// A file cannot be opened or read.
    #[error("{0}")]
    File(#[from] ArchiveError),
    /// The file is not a message of the format.
    #[error("{file}: {problem} at byte {position}; is this an ONNX file, and is it complete?")]
    Damaged {
        /// The file.
        file: String,
        /// Position of the part that cannot be read.
        position: u64,
        /// What is wrong.
        problem: String,
    },
    /// Something about the whole model.
    #[error("{file}: {problem}")]
    Model {
        /// The file.
        file: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A stored tensor.
    #[error("{file}, tensor `{tensor}`: {problem}")]
    Tensor {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A node.
    #[error("{file}, node `{node}` ({op_type}): {problem}")]
    Node {
        /// The file.
        file: String,
        /// The node's name, or that of its first output.
        node: String,
        /// The operator, with its domain unless that is ONNX's own.
        op_type: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Operators that Ixion does not have.
    #[error("{file}: {}", unknown(operators))]
    Unknown {
        /// The file.
        file: String,
        /// The operators, each with the name of a node.
        operators: Vec<(String, String)>,
    },
    /// Something is larger than the limits allow.
    #[error("{file}: {source}")]
    Limit {
        /// The file.
        file: String,
        /// The limit.
        source: LimitError,
    },
    /// The weights.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// An edit of the graph that the reader builds.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

fn unknown(operators: &[(String, String)]) -> String {
    let list: Vec<String> =
        operators.iter().map(|(op_type, node)| format!("{op_type} (node `{node}`)")).collect();
    format!("Ixion has no operator for: {}", list.join(", "))
}
