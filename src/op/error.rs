//! What can go wrong in a layer.

use crate::LimitError;
use crate::pnnx::WeightError;
use crate::tensor::{DType, TensorError};
use std::fmt;
use std::ops::RangeInclusive;

/// An error of one layer. It does not say which operator it is about:
/// [`GraphError::Operator`](crate::graph::GraphError::Operator) adds that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// A parameter that has no default is absent.
    #[error("parameter `{key}` ({wanted}) is missing; the file gives {}", list(.present))]
    MissingParameter {
        /// The parameter's key.
        key: String,
        /// What kind of value it takes.
        wanted: &'static str,
        /// The keys that the file gives: one of them may be misspelt.
        present: Vec<String>,
    },
    /// A parameter is of another kind than the layer reads.
    #[error("parameter `{key}` should be {wanted}, but is `{found}`")]
    WrongParameter {
        /// The parameter's key.
        key: String,
        /// What kind of value it takes.
        wanted: String,
        /// The value as the file has it.
        found: String,
    },
    /// A parameter has a value that makes no sense.
    #[error("parameter `{key}` is {found}: {reason}")]
    InvalidParameter {
        /// The parameter's key.
        key: &'static str,
        /// The value.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Keys that the layer does not know. Ignoring them could change the result.
    #[error("{what} not understood by this operator: {}; it knows {}", list(.keys), list(.known))]
    UnknownKeys {
        /// Parameters, attributes or named inputs.
        what: &'static str,
        /// The keys that nothing reads.
        keys: Vec<String>,
        /// The keys that the layer reads.
        known: Vec<String>,
    },
    /// A weight is neither an attribute nor an input.
    #[error("weight `{key}` is missing: it is neither an attribute (`@{key}=…`) nor an input (`${key}=…`)")]
    MissingWeight {
        /// The weight's key.
        key: String,
    },
    /// More or fewer inputs than the layer takes.
    #[error("{wanted} inputs are needed, but there are {found}")]
    InputCount {
        /// How many the layer takes.
        wanted: String,
        /// How many it got.
        found: usize,
    },
    /// More or fewer outputs than the layer makes.
    #[error("the operator has {found} outputs, but makes {wanted}")]
    OutputCount {
        /// How many the layer makes.
        wanted: usize,
        /// How many the file lists.
        found: usize,
    },
    /// Shapes that do not fit the layer or each other.
    #[error("{what}: {wanted} needed, but it is {found}")]
    Shape {
        /// What was looked at, such as `axis 1 of the input`.
        what: String,
        /// What is needed.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// An element type that the layer does not take.
    #[error("{what} of {found}: this operator takes {wanted}")]
    DType {
        /// Which tensor.
        what: String,
        /// The types that it takes.
        wanted: String,
        /// The type that it got.
        found: DType,
    },
    /// The layer returned something else than its shape rule said. A fault of the layer.
    #[error("the layer's rule says {wanted}, but it returned {found}: this is a fault of the layer")]
    BrokenPromise {
        /// What the rule said.
        wanted: String,
        /// What came.
        found: String,
    },
    /// The layer wants more scratch memory than it asked for. A fault of the layer.
    #[error(
        "it wants {wanted} bytes of scratch memory, but its `workspace` asked for {found}; this is a fault of the layer"
    )]
    Workspace {
        /// The bytes that it wants.
        wanted: usize,
        /// The bytes that there are.
        found: usize,
    },
    /// There is no combination of element types and layouts that the layer takes.
    #[error(
        "there is no combination of formats that the layer takes: {0}; allow more precisions, or put an operator before it that converts"
    )]
    NoFormat(String),
    /// The code of the layer panicked. A fault of the layer.
    #[error("its code panicked: {0}; this is a fault of the layer")]
    Panic(String),
    /// A plugin did not return before the deadline. Its thread was left behind, with the layer and tensors of its own.
    #[error(
        "it did not return in time, and its thread was left behind; this is a fault of the layer, or allow more time"
    )]
    Stuck(#[source] LimitError),
    /// A plugin failed, with what it said.
    #[error("{0}")]
    Plugin(String),
    /// A device that is not the CPU failed.
    #[error(transparent)]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// The layer does not implement what was asked for.
    #[error("{0}")]
    Unsupported(String),
    /// An error of a tensor operation.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A weight that could not be read.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// A limit that was met.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl LayerError {
    /// A [`LayerError::Shape`] from anything that can be displayed.
    pub fn shape(what: impl Into<String>, wanted: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::other_shape(what.into(), &wanted, &found)
    }

    fn other_shape(what: String, wanted: &dyn fmt::Display, found: &dyn fmt::Display) -> Self {
        Self::Shape { what, wanted: wanted.to_string(), found: found.to_string() }
    }

    /// A [`LayerError::DType`] from anything that can be displayed.
    pub fn dtype(what: impl Into<String>, wanted: impl fmt::Display, found: DType) -> Self {
        Self::DType { what: what.into(), wanted: wanted.to_string(), found }
    }

    /// A [`LayerError::InvalidParameter`] from anything that can be displayed.
    pub fn invalid(key: &'static str, found: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self::InvalidParameter { key, found: found.to_string(), reason: reason.into() }
    }

    /// The error for an operator with another number of inputs than its layer takes.
    pub(crate) fn input_count(range: &RangeInclusive<usize>, found: usize) -> Self {
        let wanted = match (*range.start(), *range.end()) {
            (least, most) if least == most => least.to_string(),
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) => format!("{least} to {most}"),
        };
        Self::InputCount { wanted, found }
    }

    /// The error for an operator with too few inputs (`found`) to have one at this position.
    pub(crate) fn missing_input(position: usize, found: usize) -> Self {
        Self::InputCount { wanted: format!("at least {}", position + 1), found }
    }
}

impl From<ndarray::ShapeError> for LayerError {
    fn from(error: ndarray::ShapeError) -> Self {
        TensorError::InvalidArgument(error.to_string()).into()
    }
}

/// Names in backticks, for a message.
pub(crate) fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
