//! Errors of layers.

use ixion_pnnx::WeightError;
use ixion_tensor::{DType, LimitError, TensorError};
use std::fmt;
use std::ops::RangeInclusive;

/// The result of a method of a layer.
pub type Result<T, E = LayerError> = std::result::Result<T, E>;

/// An error of one layer. It does not name the operator:
/// `GraphError::Operator` of the crate `ixion` adds that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// A parameter without a default is absent.
    #[error("missing parameter `{key}` ({wanted}); the file sets {}", list(.present))]
    MissingParameter {
        /// The parameter's key.
        key: String,
        /// The expected kind of value.
        wanted: &'static str,
        /// The keys in the file; one of them may be misspelt.
        present: Vec<String>,
    },
    /// The value of a parameter has the wrong kind.
    #[error("parameter `{key}`: expected {wanted}, got `{found}`")]
    WrongParameter {
        /// The parameter's key.
        key: String,
        /// The expected kind of value.
        wanted: String,
        /// The value as written in the file.
        found: String,
    },
    /// The value of a parameter is invalid.
    #[error("parameter `{key}` is {found}: {reason}")]
    InvalidParameter {
        /// The parameter's key.
        key: &'static str,
        /// The value.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Keys that the layer does not read. Ignoring them could change the result.
    #[error("unknown {what}: {}; supported: {}", list(.keys), list(.known))]
    UnknownKeys {
        /// `parameters`, `attributes` or `named inputs`.
        what: &'static str,
        /// The keys that the layer does not read.
        keys: Vec<String>,
        /// The keys that the layer reads.
        known: Vec<String>,
    },
    /// A weight is neither an attribute nor an input.
    #[error("missing weight `{key}`: expected an attribute `@{key}=…` or an input `${key}=…`")]
    MissingWeight {
        /// The weight's key.
        key: String,
    },
    /// More or fewer inputs than the layer takes.
    #[error("wrong number of inputs: expected {wanted}, got {found}")]
    InputCount {
        /// The number that the layer takes, such as `at least 2`.
        wanted: String,
        /// The number that the operator has.
        found: usize,
    },
    /// More or fewer outputs than the layer produces.
    #[error("wrong number of outputs: expected {wanted}, got {found}")]
    OutputCount {
        /// The number that the layer produces.
        wanted: usize,
        /// The number that the file lists.
        found: usize,
    },
    /// Shapes that do not fit the layer or each other.
    #[error("{what}: expected {wanted}, got {found}")]
    Shape {
        /// What was checked, such as `axis 1 of the input`.
        what: String,
        /// The expected shape or length.
        wanted: String,
        /// The actual one.
        found: String,
    },
    /// An element type that the layer does not support.
    #[error("{what}: expected {wanted}, got {found}")]
    DType {
        /// The tensor, such as `the input`.
        what: String,
        /// The supported types.
        wanted: String,
        /// The actual type.
        found: DType,
    },
    /// The layer broke its contract, for instance by returning another shape than its shape rule. A bug in the layer.
    #[error("the layer broke its contract: expected {wanted}, got {found}; this is a bug in the layer")]
    BrokenPromise {
        /// What the contract requires.
        wanted: String,
        /// What the layer returned.
        found: String,
    },
    /// The layer used more scratch memory than it had requested. A bug in the layer.
    #[error(
        "the layer needs {wanted} bytes of scratch memory, but its `workspace` requested {found}; this is a bug in the layer"
    )]
    Workspace {
        /// The number of bytes that it needs.
        wanted: usize,
        /// The number of bytes available.
        found: usize,
    },
    /// The layer supports none of the possible combinations of element types and layouts.
    #[error(
        "the layer supports no combination of formats: {0}; allow more precisions, or insert a conversion before the operator"
    )]
    NoFormat(String),
    /// The layer panicked. A bug in the layer.
    #[error("the layer panicked: {0}; this is a bug in the layer")]
    Panic(String),
    /// A plugin did not return before the deadline. Its thread was abandoned, together with the layer and its copies of the
    /// tensors.
    #[error(
        "the layer did not return in time and its thread was abandoned; allow more time or fix the layer"
    )]
    Stuck(#[source] LimitError),
    /// A plugin failed, with its message.
    #[error("{0}")]
    Plugin(String),
    /// A device that is not the CPU failed.
    #[error(transparent)]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// The layer does not support the request.
    #[error("{0}")]
    Unsupported(String),
    /// An error of a tensor operation.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A weight could not be read.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// A limit was exceeded, or the run was cancelled.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl LayerError {
    /// A [`LayerError::Shape`] from values that can be displayed.
    pub fn shape(what: impl Into<String>, wanted: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::other_shape(what.into(), &wanted, &found)
    }

    fn other_shape(what: String, wanted: &dyn fmt::Display, found: &dyn fmt::Display) -> Self {
        Self::Shape { what, wanted: wanted.to_string(), found: found.to_string() }
    }

    /// A [`LayerError::DType`] from values that can be displayed.
    pub fn dtype(what: impl Into<String>, wanted: impl fmt::Display, found: DType) -> Self {
        Self::DType { what: what.into(), wanted: wanted.to_string(), found }
    }

    /// A [`LayerError::InvalidParameter`] from values that can be displayed.
    pub fn invalid(key: &'static str, found: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self::InvalidParameter { key, found: found.to_string(), reason: reason.into() }
    }

    /// The error for an operator whose number of inputs is outside the range that its layer takes.
    pub fn input_count(range: &RangeInclusive<usize>, found: usize) -> Self {
        let wanted = match (*range.start(), *range.end()) {
            (min, max) if min == max => min.to_string(),
            (min, usize::MAX) => format!("at least {min}"),
            (min, max) => format!("{min} to {max}"),
        };
        Self::InputCount { wanted, found }
    }

    /// The error for an operator that has only `found` inputs and needs one at this position.
    pub fn missing_input(position: usize, found: usize) -> Self {
        Self::InputCount { wanted: format!("at least {}", position + 1), found }
    }
}

impl From<ndarray::ShapeError> for LayerError {
    fn from(error: ndarray::ShapeError) -> Self {
        TensorError::InvalidArgument(error.to_string()).into()
    }
}

/// The names in backticks, separated by commas; `none` if there are none.
pub fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
