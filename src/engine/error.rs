//! What can go wrong between a builder and a result.

use super::{PlanFileError, ScalesError};
use crate::graph::{GraphError, OperatorPlace};
use crate::memory::MemoryError;
use crate::op::LayerError;
use crate::passes::PassError;
use crate::pnnx::PnnxError;
use crate::shape::ShapeError;
use crate::tensor::TensorError;
use crate::{LimitError, graph};

/// An error of building or running a plan. The context that returned it can run again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The model could not be read or built, or one of its operators failed.
    #[error(transparent)]
    Graph(GraphError),
    /// A pass failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The shapes of inputs do not fit the model, a profile or each other.
    #[error(transparent)]
    Shape(ShapeError),
    /// The memory of a run could not be planned or had.
    #[error(transparent)]
    Memory(MemoryError),
    /// A buffer that the caller gave for an output is of another type or shape.
    #[error("the buffer for output `{name}` is {found}, but the output is {wanted}")]
    OutputBuffer {
        /// The output.
        name: String,
        /// What it is.
        wanted: String,
        /// What the buffer is.
        found: String,
    },
    /// More or fewer buffers than outputs.
    #[error("{found} buffers were given for {wanted} outputs")]
    OutputCount {
        /// The number of outputs of the model.
        wanted: usize,
        /// The number of buffers.
        found: usize,
    },
    /// An input, or the buffer for an output, that a request has already.
    #[error("{what} `{name}` is given twice; give it once")]
    GivenTwice {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// An input and an output that cannot share memory.
    #[error("input `{input}` cannot be donated to output `{output}`: {reason}")]
    Donation {
        /// The input.
        input: String,
        /// The output.
        output: String,
        /// Why not.
        reason: String,
    },
    /// A network in code that cannot be.
    #[error("the network cannot be built: {0}")]
    Network(String),
    /// The code of a layer panicked. The context has a new copy of that layer and can run again.
    #[error("{place} panicked: {message}; this is a fault of the layer")]
    Panic {
        /// Which operator.
        place: Box<OperatorPlace>,
        /// What the panic said.
        message: String,
    },
    /// The run was cancelled from another thread.
    #[error("the run was cancelled at {place}")]
    Cancelled {
        /// The operator that was running or next.
        place: Box<OperatorPlace>,
    },
    /// Building or running took longer than it was allowed to.
    #[error("the time limit was reached at {place}; allow more time, or use a smaller input")]
    TimedOut {
        /// The operator that was running or next.
        place: Box<OperatorPlace>,
    },
    /// A plugin did not return before the deadline. Its thread was left behind with the layer and tensors of its own; the
    /// context runs nothing any more.
    #[error(
        "{place} did not return in time, and its thread was left behind: this context runs nothing any more; make a new one, allow more time, or leave the plugin out"
    )]
    Stuck {
        /// Which operator.
        place: Box<OperatorPlace>,
    },
    /// A device that is not the CPU failed.
    #[error(transparent)]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// A plan that was made for a device, in a program without it.
    #[error(
        "operator `{operator}` runs on a GPU in this plan: load the plan with a device, or build it for the CPU"
    )]
    NeedsDevice {
        /// The operator.
        operator: String,
    },
    /// Threads could not be started.
    #[error("{count} threads cannot be started: {reason}")]
    Threads {
        /// How many.
        count: usize,
        /// What the system said.
        reason: String,
    },
    /// A tensor of the caller that cannot be used.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A plan that could not be saved or loaded.
    #[error(transparent)]
    PlanFile(#[from] PlanFileError),
    /// Scales that could not be loaded, saved or used.
    #[error(transparent)]
    Scales(#[from] ScalesError),
    /// Scales that were made for a model with another graph or other weights.
    #[error("the scales were made for another model: {0} differ; `ixion calibrate` makes some for this one")]
    OtherModel(&'static str),
    /// A limit that was met.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl From<PnnxError> for EngineError {
    fn from(error: PnnxError) -> Self {
        Self::Graph(error.into())
    }
}

impl EngineError {
    /// A device that fails outside of operators.
    pub(super) fn of_device(source: LayerError) -> Self {
        match source {
            LayerError::Device(source) => Self::Device(source),
            other => Self::Device(Box::new(other)),
        }
    }

    /// The error of an operator; what has a name of its own gets that.
    pub(super) fn of_operator(
        operator: &graph::RuntimeOperator,
        path: Option<&std::path::Path>,
        stage: graph::Stage,
        source: LayerError,
    ) -> Self {
        match Self::named(&source, || operator.place(path)) {
            Some(error) => error,
            None => Self::Graph(operator.error(path, stage, source)),
        }
    }

    fn of_graph(error: &GraphError) -> Option<Self> {
        match error {
            GraphError::Operator { place, source, .. } => Self::named(source, || place.clone()),
            _ => None,
        }
    }

    /// What ends a run or a build at an operator whatever it was doing there: a limit of time, a panic, a plugin that hangs.
    fn named(source: &LayerError, place: impl FnOnce() -> Box<OperatorPlace>) -> Option<Self> {
        match (ending(source), source) {
            (Some(LimitError::Cancelled), _) => Some(Self::Cancelled { place: place() }),
            (Some(LimitError::DeadlineExceeded), _) => Some(Self::TimedOut { place: place() }),
            (_, LayerError::Panic(message)) => Some(Self::Panic { place: place(), message: message.clone() }),
            (_, LayerError::Stuck(_)) => Some(Self::Stuck { place: place() }),
            _ => None,
        }
    }
}

impl From<GraphError> for EngineError {
    fn from(error: GraphError) -> Self {
        match Self::of_graph(&error) {
            // What a layer was doing when it panicked is worth more than the name.
            None | Some(Self::Panic { .. }) => Self::Graph(error),
            Some(named) => named,
        }
    }
}

impl From<ShapeError> for EngineError {
    fn from(error: ShapeError) -> Self {
        let named = match &error {
            ShapeError::Graph(error) => Self::of_graph(error),
            _ => None,
        };
        named.unwrap_or(Self::Shape(error))
    }
}

impl From<MemoryError> for EngineError {
    fn from(error: MemoryError) -> Self {
        let named = match &error {
            MemoryError::Layer { op_type, operator: name, source } => Self::named(source, || {
                let (op_type, name) = (op_type.clone(), name.clone());
                Box::new(OperatorPlace { op_type, name, file: None, line: None })
            }),
            _ => None,
        };
        named.unwrap_or(Self::Memory(error))
    }
}

/// The limit behind an error, where there is one.
fn ending(error: &LayerError) -> Option<&LimitError> {
    match error {
        LayerError::Limit(limit) | LayerError::Tensor(TensorError::Limit(limit)) => Some(limit),
        _ => None,
    }
}
