//! One error for all parts of the library.

#[cfg(feature = "gpu")]
use crate::cuda::device::CudaError;
use crate::engine::{EngineError, PlanFileError, ScalesError, ScalesProblem};
use crate::graph::GraphError;
use crate::memory::MemoryError;
use crate::op::{LayerError, RegistryError};
use crate::passes::{PassError, PatternError};
use crate::plugin::PluginError;
use crate::pnnx::{
    self, ArchiveError, ExpressionError, ParamError, ParamTypeError, PnnxError, PythonError, WeightError,
};
use crate::shape::ShapeError;
use crate::tensor::{LimitError, TensorError};
#[cfg(feature = "vision")]
use crate::vision::VisionError;

/// Any error of this crate, with the message of its source.
///
/// Functions return the errors of their module, which say more. All of them convert to this one with `?`, and so does
/// [`std::io::Error`]:
///
/// ```
/// use ixion::{Error, Model};
///
/// fn load(path: &str) -> ixion::Result<Model> {
///     Ok(Model::load(path)?)
/// }
///
/// let error = load("missing.param").unwrap_err();
/// assert!(matches!(error, Error::Engine(_)));
/// assert!(error.to_string().starts_with("missing.param: cannot "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An archive of weights could not be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A device failed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] CudaError),
    /// An edit would break the graph of a file.
    #[error(transparent)]
    Edit(#[from] pnnx::GraphError),
    /// A plan could not be built or run.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An expression is invalid.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// A graph could not be loaded, built or run.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The operating system failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A layer could not be created, or failed.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// A limit was exceeded, or a run was cancelled.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Memory could not be planned or lent.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A parameter of an operator is missing or has the wrong type.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A parameter has the wrong type.
    #[error(transparent)]
    ParamType(#[from] ParamTypeError),
    /// A pass failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The pattern or the replacement of a pass is invalid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A plan could not be saved or loaded.
    #[error(transparent)]
    PlanFile(#[from] PlanFileError),
    /// A library cannot be used as a plugin.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// A PNNX model could not be read, changed or written.
    #[error(transparent)]
    Pnnx(#[from] PnnxError),
    /// Operators cannot be written as Python.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// A layer could not be registered or found.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Scales could not be loaded, saved or used.
    #[error(transparent)]
    Scales(#[from] ScalesError),
    /// The text of scales is invalid.
    #[error(transparent)]
    ScalesProblem(#[from] ScalesProblem),
    /// Shapes could not be inferred, or the model does not accept them.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// An operation on a tensor or a picture failed.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A vision task failed.
    #[cfg(feature = "vision")]
    #[error(transparent)]
    Vision(#[from] VisionError),
    /// The weights of an operator are missing or damaged.
    #[error(transparent)]
    Weight(#[from] WeightError),
}

/// The result of a program or function that uses several parts of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pnnx::{Expr, Graph};
    use crate::{Limits, Model, Tensor};

    #[test]
    fn errors_of_all_parts_convert_and_keep_their_messages() {
        let tensor = || -> Result<Tensor> { Ok(Tensor::from_vec(vec![0f32; 2], &[3])?) };
        let model = || -> Result<Model> { Ok(Model::load("missing.param")?) };
        let graph = || -> Result<Graph> { Ok(Graph::parse("7767518\n", &Limits::default())?) };
        let expression = || -> Result<Expr> { Ok(Expr::parse("add(@0")?) };
        assert!(matches!(tensor(), Err(Error::Tensor(_))));
        assert!(matches!(model(), Err(Error::Engine(_))));
        assert!(matches!(expression(), Err(Error::Expression(_))));
        let direct = Graph::parse("7767518\n", &Limits::default()).unwrap_err();
        let converted = graph().unwrap_err();
        assert!(matches!(converted, Error::Pnnx(_)));
        assert_eq!(converted.to_string(), direct.to_string());
    }

    #[test]
    fn an_error_can_go_to_another_thread_and_is_small_enough_to_return() {
        fn is_sendable<T: std::error::Error + Send + Sync + 'static>() {}
        is_sendable::<Error>();
        // The limit of clippy's lint `result_large_err`.
        assert!(size_of::<Error>() < 128, "{} bytes", size_of::<Error>());
    }
}
