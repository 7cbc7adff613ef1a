//! What can go wrong between a picture and what a model found in it.

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
        /// What kind of failure the system reports.
        kind: io::ErrorKind,
        /// The system's words.
        message: String,
    },
    /// A `model.toml` that says something it may not.
    #[error("{}{}: {problem}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Card {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1, where it is known.
        line: Option<usize>,
        /// What is wrong, and what is needed.
        problem: String,
    },
    /// An output of the model is not what the task needs.
    #[error("output {index} {problem}")]
    Output {
        /// The output's place among those of the model.
        index: usize,
        /// What is wrong with it.
        problem: OutputError,
    },
    /// The model has too few outputs, or too many.
    #[error("the model has {found} outputs, but {wanted} are needed: {reason}")]
    Outputs {
        /// How many are needed.
        wanted: usize,
        /// How many there are.
        found: usize,
        /// What they are needed for.
        reason: String,
    },
    /// An error of a tensor or a picture.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Any other argument that makes no sense.
    #[error("{0}")]
    InvalidArgument(String),
}

/// What is wrong with an output, to be read after its name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// Another shape than the task needs.
    #[error("has the shape {found}, not {wanted}{}", hint(advice))]
    Shape {
        /// The output's shape.
        found: Box<Shape>,
        /// What is needed.
        wanted: String,
        /// What to do; empty where nothing is known.
        advice: String,
    },
    /// Elements that are no scores.
    #[error("holds {found}, not floats")]
    DType {
        /// The output's element type.
        found: DType,
    },
    /// Another number of classes than there are labels.
    #[error("has {found} classes, but there are {labels} labels")]
    Classes {
        /// The number of classes in the output.
        found: usize,
        /// The number of labels.
        labels: usize,
    },
    /// Another number of pictures than went in.
    #[error("has {found} pictures, but {wanted} went in")]
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
    /// The error of an output of this shape.
    pub(super) fn shape(output: &Tensor, wanted: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Shape { found: Box::new(*output.shape()), wanted: wanted.into(), advice: advice.into() }
    }

    /// The error of the output at this place.
    pub(super) fn at(self, index: usize) -> VisionError {
        VisionError::Output { index, problem: self }
    }
}

/// The result of a vision task.
pub(super) type Result<T, E = VisionError> = std::result::Result<T, E>;
