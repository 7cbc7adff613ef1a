//! Errors of vision tasks.

use ixion_tensor::{DType, Shape, Tensor, TensorError};
use std::io;
use std::path::PathBuf;

/// An error of a vision task.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VisionError {
    /// A `model.toml` could not be read.
    #[error("{}: cannot read the file: {message}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kind of failure, as reported by the system.
        kind: io::ErrorKind,
        /// The system's message.
        message: String,
    },
    /// A `model.toml` with invalid contents.
    #[error("{}{}: {problem}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Card {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1, if known.
        line: Option<usize>,
        /// The problem, and what was expected.
        problem: String,
    },
    /// An output of the model does not fit the task.
    #[error("output {index} {problem}")]
    Output {
        /// The index of the output among the model's outputs.
        index: usize,
        /// The problem.
        problem: OutputError,
    },
    /// The model has too few or too many outputs.
    #[error("wrong number of outputs: expected {wanted} ({reason}), got {found}")]
    Outputs {
        /// The expected number.
        wanted: usize,
        /// The actual number.
        found: usize,
        /// The reason for the expected number.
        reason: String,
    },
    /// An error of a tensor or a picture.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Any other invalid argument.
    #[error("{0}")]
    InvalidArgument(String),
}

/// A problem with an output. The message follows the output's name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The shape does not fit the task.
    #[error("has the shape {found}, not {wanted}{}", hint(advice))]
    Shape {
        /// The output's shape.
        found: Box<Shape>,
        /// The expected shape.
        wanted: String,
        /// The advice; may be empty.
        advice: String,
    },
    /// The elements cannot be scores.
    #[error("holds {found}, not floats")]
    DType {
        /// The output's element type.
        found: DType,
    },
    /// The number of classes differs from the number of labels.
    #[error("has {found} classes, but there are {labels} labels")]
    Classes {
        /// The number of classes in the output.
        found: usize,
        /// The number of labels.
        labels: usize,
    },
    /// The batch size differs from the number of pictures passed in.
    #[error("has a batch of {found}, expected {wanted}")]
    Batch {
        /// The length of the output's first axis.
        found: usize,
        /// The number of pictures.
        wanted: usize,
    },
}

fn hint(advice: &str) -> String {
    if advice.is_empty() { String::new() } else { format!("; {advice}") }
}

impl OutputError {
    /// The error for the shape of an output.
    pub(super) fn shape(output: &Tensor, wanted: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Shape { found: Box::new(*output.shape()), wanted: wanted.into(), advice: advice.into() }
    }

    /// The error for the output at `index`.
    pub(super) fn at(self, index: usize) -> VisionError {
        VisionError::Output { index, problem: self }
    }
}

/// The result of a vision task.
pub(super) type Result<T, E = VisionError> = std::result::Result<T, E>;
