//! Errors of building and running plans.

use super::{PlanFileError, ScalesError};
use crate::LimitError;
use crate::graph::{GraphError, OperatorPlace, RuntimeGraph, RuntimeOperator, Stage};
use crate::memory::MemoryError;
use crate::op::LayerError;
use crate::passes::PassError;
use crate::pnnx::PnnxError;
use crate::shape::ShapeError;
use crate::tensor::TensorError;

/// An error of building or running a plan. A context that returns one can run again, except after [`EngineError::Stuck`].
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
    /// The memory of a run could not be planned or allocated.
    #[error(transparent)]
    Memory(MemoryError),
    /// The caller's buffer for an output has the wrong type or shape.
    #[error("the buffer for output `{name}` is {found}, but the output is {wanted}")]
    OutputBuffer {
        /// The output.
        name: String,
        /// The output's shape and type.
        wanted: String,
        /// The buffer's shape and type.
        found: String,
    },
    /// The number of buffers is not the number of outputs.
    #[error("wrong number of output buffers: expected {wanted}, got {found}")]
    OutputCount {
        /// The number of outputs of the model.
        wanted: usize,
        /// The number of buffers.
        found: usize,
    },
    /// An input, or the buffer for an output, was given to a request twice.
    #[error("{what} `{name}` is given twice; give it once")]
    GivenTwice {
        /// The kind, such as `input`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// An input and an output cannot share memory.
    #[error("input `{input}` cannot be donated to output `{output}`: {reason}")]
    Donation {
        /// The input.
        input: String,
        /// The output.
        output: String,
        /// The reason.
        reason: String,
    },
    /// A [`Network`](super::Network) is invalid.
    #[error("the network cannot be built: {0}")]
    Network(String),
    /// The code of a layer panicked. The context has a new copy of that layer and can run again.
    #[error("{place} panicked: {message}; this is a bug in the layer")]
    Panic {
        /// The operator.
        place: Box<OperatorPlace>,
        /// The message of the panic.
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
    /// A plugin did not return before the deadline. Its thread was abandoned, with the layer and its own copies of tensors;
    /// the context cannot run again.
    #[error(
        "{place} did not return in time, and its thread was abandoned: this context cannot run again; create a new one, allow more time, or remove the plugin"
    )]
    Stuck {
        /// The operator.
        place: Box<OperatorPlace>,
    },
    /// A device that is not the CPU failed.
    #[error(transparent)]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// A plan was built for a device, but none is given.
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
        /// The number of threads.
        count: usize,
        /// The system's message.
        reason: String,
    },
    /// A tensor of the caller cannot be used.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A plan could not be saved or loaded.
    #[error(transparent)]
    PlanFile(#[from] PlanFileError),
    /// Scales could not be loaded, saved or used.
    #[error(transparent)]
    Scales(#[from] ScalesError),
    /// The scales were computed for a model with another graph or other weights.
    #[error("the scales belong to another model: the {0} differ; run `ixion calibrate` for this one")]
    OtherModel(&'static str),
    /// The scales name an operand or an operator that the model does not have, neither in its file nor after the passes.
    #[error(
        "{scales}: the model has no {kind} `{name}`; {} `ixion calibrate` again, with the passes of this build",
        advice_for_unknown(nearest.as_deref())
    )]
    UnknownName {
        /// The file of the scales, if they were read from one.
        scales: String,
        /// What is named: `operand` or `operator`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The most similar name of the model.
        nearest: Option<String>,
    },
    /// A limit was exceeded.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// The beginning of the advice for a name that scales should not have.
fn advice_for_unknown(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? If not, run"),
        None => "run".to_owned(),
    }
}

impl From<PnnxError> for EngineError {
    fn from(error: PnnxError) -> Self {
        Self::Graph(error.into())
    }
}

impl EngineError {
    /// The error of a device that failed outside of any operator.
    pub(super) fn of_device(source: LayerError) -> Self {
        match source {
            LayerError::Device(source) => Self::Device(source),
            other => Self::Device(Box::new(other)),
        }
    }

    /// The error of a device that failed in the operator at this position, if it is known.
    pub(super) fn on_device(
        graph: &RuntimeGraph,
        stage: Stage,
        (position, source): (Option<usize>, LayerError),
    ) -> Self {
        match position.and_then(|position| graph.operators().get(position)) {
            Some(operator) => Self::at(graph, operator, stage)(source),
            None => Self::of_device(source),
        }
    }

    /// Converts the errors of an operator, to a dedicated variant if there is one.
    pub(super) fn at(
        graph: &RuntimeGraph,
        operator: &RuntimeOperator,
        stage: Stage,
    ) -> impl Fn(LayerError) -> Self {
        move |source| match Self::named(&source, || operator.place(graph.path())) {
            Some(error) => error,
            None => Self::Graph(operator.error(graph.path(), stage, source)),
        }
    }

    /// Adds notes on inputs that may be the cause, if the error is about an operator.
    pub(super) fn with_notes(self, notes: &[String]) -> Self {
        match self {
            Self::Graph(error) => Self::Graph(error.with_inputs(notes)),
            Self::Shape(ShapeError::Graph(error)) => Self::Shape(ShapeError::Graph(error.with_inputs(notes))),
            other => other,
        }
    }

    fn of_graph(error: &GraphError) -> Option<Self> {
        match error {
            GraphError::Operator { place, source, .. } => Self::named(source, || place.clone()),
            _ => None,
        }
    }

    /// The dedicated variant of an error that ends a run or build at any stage: cancellation, a deadline, a panic, a hanging
    /// plugin.
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
            // For a panic, the stage is worth more than the dedicated variant.
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

/// The limit that caused an error, if any.
fn ending(error: &LayerError) -> Option<&LimitError> {
    match error {
        LayerError::Limit(limit) | LayerError::Tensor(TensorError::Limit(limit)) => Some(limit),
        _ => None,
    }
}
