//! Exceptions: one class for each kind of error, all under `ixion.Error`.

#[cfg(any(feature = "cuda", feature = "cuda-emulator"))]
use ixion::cuda::device::CudaError;
use ixion::engine::{EngineError, PlanFileError, PlanFileProblem, ScalesError, ScalesProblem};
use ixion::graph::{GraphError, Stage};
use ixion::memory::MemoryError;
use ixion::onnx::OnnxError;
use ixion::op::LayerError;
use ixion::passes::PassError;
use ixion::pnnx::{ArchiveError, PnnxError, SyntaxProblem, WeightError};
use ixion::shape::ShapeError;
use ixion::tensor::TensorError;
use ixion::vision::VisionError;
use ixion::{Error as IxionError, LimitError as Exceeded};
use pyo3::exceptions::{PyException, PyFileNotFoundError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::error::Error as StdError;
use std::io;

/// Declares exceptions: their names and bases. The comments become docstrings.
macro_rules! exceptions {
    ($($(#[doc = $doc:literal])+ $name:ident: $($base:ident),+;)+) => {
        $(
            $(#[doc = $doc])+
            pub(crate) enum $name {}

            #[allow(dead_code, reason = "not every kind is raised by its name")]
            impl $name {
                /// The exception with this message.
                pub(crate) fn new_err(message: impl Into<String>) -> PyErr {
                    raise(Self::class, message.into())
                }

                /// The class in Python.
                pub(crate) fn class(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
                    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
                    let (name, doc) = (stringify!($name), concat!($($doc),+));
                    let create = || create(py, name, doc, vec![$($base::class(py)?),+]);
                    Ok(CLASS.get_or_try_init(py, create)?.bind(py).clone())
                }
            }
        )+

        /// Adds the exceptions to the module.
        pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add(stringify!($name), $name::class(module.py())?)?;)+
            Ok(())
        }
    };
}

exceptions! {
    /// The base class of Ixion's exceptions.
    Error: PyException;
    /// A model, or another file, cannot be used: the message says which line or operator, and what to do.
    ModelError: Error;
    /// A file does not exist.
    NotFoundError: ModelError, PyFileNotFoundError;
    /// A plan file is damaged, incomplete, or of another version or machine.
    PlanError: ModelError;
    /// Inputs, output arrays or arguments do not fit the model.
    InputError: Error, PyValueError;
    /// A limit on sizes was exceeded, or memory is exhausted.
    LimitError: Error;
    /// A run or a build took longer than allowed.
    TimeoutError: Error, PyTimeoutError;
    /// A run was cancelled.
    Cancelled: Error;
    /// A GPU failed, or a plan needs one.
    DeviceError: Error;
    /// A plugin cannot be loaded, or failed.
    PluginError: Error;
}

/// A class of the standard library, as a base.
trait Builtin {
    fn class(py: Python<'_>) -> PyResult<Bound<'_, PyType>>;
}

impl<T: pyo3::PyTypeInfo> Builtin for T {
    fn class(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
        Ok(py.get_type::<T>())
    }
}

fn create(py: Python<'_>, name: &str, doc: &str, bases: Vec<Bound<'_, PyType>>) -> PyResult<Py<PyType>> {
    let namespace = PyDict::new(py);
    namespace.set_item("__module__", "ixion")?;
    namespace.set_item("__doc__", doc.trim())?;
    let class = py.get_type::<PyType>().call1((name, PyTuple::new(py, bases)?, namespace))?;
    Ok(class.cast_into::<PyType>()?.unbind())
}

fn raise(class: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyType>>, message: String) -> PyErr {
    Python::attach(|py| match class(py) {
        Ok(class) => PyErr::from_type(class, message),
        Err(error) => error,
    })
}

/// What a program in Python calls otherwise than the command, or Rust.
const IN_PYTHON: [(&str, &str); 9] = [
    ("run `ixion calibrate`", "call `ixion.calibrate`"),
    ("`ixion calibrate`", "`ixion.calibrate`"),
    ("`ixion build`", "`ixion.build`"),
    ("use --device cuda-emulator or cpu", "use device=\"cuda-emulator\" or \"cpu\""),
    ("raise the limit if you trust the file", "raise it by `limits={…}` if you trust the file"),
    ("convert it first", "convert it first, as by `.astype` or `.to`"),
    ("with `cast`", "by `.astype`"),
    ("`cast` to", "convert by `.astype` to"),
    ("`--constant NAME=VALUE`", "`constants={…}`"),
];

/// A message of the library as a program in Python needs it.
fn in_python(message: String) -> String {
    IN_PYTHON.iter().fold(message, |text, &(command, python)| text.replace(command, python))
}

/// The exception for an error of the library, with the text that the command prints, but in the words of [`IN_PYTHON`]. If an
/// operator refuses a tensor, the caller gave a wrong one.
pub(crate) fn to_py(error: impl Into<IxionError>) -> PyErr {
    exception(error.into(), Kind::Input)
}

/// As [`to_py`], for an error of building a model from its file alone: if an operator refuses a tensor, the file is wrong.
pub(crate) fn of_model(error: impl Into<IxionError>) -> PyErr {
    exception(error.into(), Kind::Model)
}

fn exception(error: IxionError, refused: Kind) -> PyErr {
    let kind = match kind_of(&error) {
        Kind::Refused => refused,
        kind => kind,
    };
    raise(|py| kind.class(py), in_python(full_message(&error)))
}

/// Raises the errors of the library as exceptions: `result.or_raise()?`.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception for the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Into<IxionError>> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(to_py)
    }
}

/// An error with all causes that its own text does not already contain.
fn full_message(error: &(dyn StdError + 'static)) -> String {
    let mut message = error.to_string().trim_start().to_owned();
    for cause in causes(error).skip(1) {
        let text = cause.to_string();
        if !message.contains(&text) {
            message.push_str("\n  because: ");
            message.push_str(&text);
        }
    }
    message
}

/// An error, its cause, the cause of that, and so on.
fn causes<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The kinds of errors, each of which has an exception.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// None of the others.
    Other,
    Model,
    NotFound,
    Plan,
    Input,
    /// An operator does not take a tensor, which may come from the caller or from the file.
    Refused,
    Limit,
    TimedOut,
    Cancelled,
    Device,
    Plugin,
}

impl Kind {
    fn class(self, py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
        match self {
            Self::Other => Error::class(py),
            Self::Model => ModelError::class(py),
            Self::NotFound => NotFoundError::class(py),
            Self::Plan => PlanError::class(py),
            Self::Input | Self::Refused => InputError::class(py),
            Self::Limit => LimitError::class(py),
            Self::TimedOut => TimeoutError::class(py),
            Self::Cancelled => Cancelled::class(py),
            Self::Device => DeviceError::class(py),
            Self::Plugin => PluginError::class(py),
        }
    }
}

// Errors contain others, down to what the system or a limit refused, which decides. The chain of `source` does not lead there:
// it passes over what is displayed transparently, and over lists.

fn kind_of(error: &IxionError) -> Kind {
    match error {
        IxionError::Archive(error) => of_archive(error),
        #[cfg(any(feature = "cuda", feature = "cuda-emulator"))]
        IxionError::Device(error) => of_device(error),
        IxionError::Engine(error) => of_engine(error),
        IxionError::Graph(error) => of_graph(error),
        IxionError::Io(error) => of_io(error.kind()),
        IxionError::Layer(error) => of_layer(error),
        IxionError::Limit(error) => of_limit(error),
        IxionError::Memory(error) => of_memory(error),
        IxionError::Pass(error) => of_pass(error),
        IxionError::PlanFile(error) => of_plan_file(error),
        IxionError::Plugin(_) | IxionError::Registry(_) => Kind::Plugin,
        IxionError::Pnnx(error) => of_pnnx(error),
        IxionError::Scales(ScalesError { problem, .. }) | IxionError::ScalesProblem(problem) => {
            of_scales(problem)
        }
        IxionError::Shape(error) => of_shape(error),
        IxionError::Tensor(error) => of_tensor(error),
        IxionError::Vision(error) => of_vision(error),
        IxionError::Weight(error) => of_weight(error),
        _ => Kind::Model,
    }
}

fn of_engine(error: &EngineError) -> Kind {
    match error {
        EngineError::Graph(error) => of_graph(error),
        EngineError::Pass(error) => of_pass(error),
        EngineError::Shape(error) => of_shape(error),
        EngineError::Memory(error) => of_memory(error),
        EngineError::OutputBuffer { .. }
        | EngineError::OutputCount { .. }
        | EngineError::GivenTwice { .. }
        | EngineError::Donation { .. } => Kind::Input,
        EngineError::Cancelled { .. } => Kind::Cancelled,
        EngineError::TimedOut { .. } | EngineError::Stuck { .. } => Kind::TimedOut,
        EngineError::Device(error) => of_device(&**error),
        EngineError::NeedsDevice { .. } => Kind::Device,
        EngineError::Threads { .. } => Kind::Limit,
        EngineError::Tensor(error) => of_tensor(error),
        EngineError::PlanFile(error) => of_plan_file(error),
        EngineError::Scales(error) => of_scales(&error.problem),
        EngineError::Limit(error) => of_limit(error),
        EngineError::Panic { .. } => Kind::Other,
        _ => Kind::Model,
    }
}

fn of_onnx(error: &OnnxError) -> Kind {
    match error {
        OnnxError::File(error) => of_archive(error),
        OnnxError::Limit { source, .. } => of_limit(source),
        _ => Kind::Model,
    }
}

fn of_graph(error: &GraphError) -> Kind {
    match error {
        GraphError::Pnnx(error) => of_pnnx(error),
        // They come together if the file and its archive do not belong together; any other kind tells more.
        GraphError::Weights(errors) => {
            errors.iter().map(of_pnnx).find(|kind| *kind != Kind::Model).unwrap_or(Kind::Model)
        }
        GraphError::NoArchive { .. } => Kind::NotFound,
        GraphError::Onnx(error) => of_onnx(error),
        GraphError::Operator { stage, source, .. } => match (of_layer(source), stage) {
            // No input is known yet.
            (Kind::Refused, Stage::Create | Stage::Restore | Stage::Initialize | Stage::Store) => Kind::Model,
            (kind, _) => kind,
        },
        GraphError::Limit { source, .. } => of_limit(source),
        GraphError::UnknownName { .. }
        | GraphError::MissingInputs { .. }
        | GraphError::TooManyInputs { .. }
        | GraphError::InputDType { .. }
        | GraphError::InputLengths { .. }
        | GraphError::InputShape { .. } => Kind::Input,
        _ => Kind::Model,
    }
}

fn of_layer(error: &LayerError) -> Kind {
    match error {
        LayerError::Shape { .. } | LayerError::DType { .. } => Kind::Refused,
        LayerError::Limit(error) | LayerError::Stuck(error) => of_limit(error),
        LayerError::Device(error) => of_device(&**error),
        LayerError::Plugin(_) => Kind::Plugin,
        LayerError::Tensor(error) => match of_tensor(error) {
            Kind::Input => Kind::Refused,
            kind => kind,
        },
        LayerError::Weight(error) => of_weight(error),
        LayerError::Panic(_) => Kind::Other,
        _ => Kind::Model,
    }
}

fn of_shape(error: &ShapeError) -> Kind {
    match error {
        ShapeError::Graph(error) => of_graph(error),
        _ => Kind::Input,
    }
}

fn of_tensor(error: &TensorError) -> Kind {
    match error {
        TensorError::Limit(error) => of_limit(error),
        TensorError::OutOfMemory { .. } => Kind::Limit,
        TensorError::File { problem, .. } => of_tensor(problem),
        TensorError::Io { kind, .. } if *kind == io::ErrorKind::NotFound => Kind::NotFound,
        _ => Kind::Input,
    }
}

fn of_vision(error: &VisionError) -> Kind {
    match error {
        VisionError::Unreadable { kind, .. } => of_io(*kind),
        VisionError::Card { .. } => Kind::Model,
        VisionError::Tensor(error) => of_tensor(error),
        _ => Kind::Input,
    }
}

fn of_memory(error: &MemoryError) -> Kind {
    match error {
        MemoryError::Layer { source, .. } => of_layer(source),
        MemoryError::Tensor(error) => of_tensor(error),
        _ => Kind::Model,
    }
}

fn of_pass(error: &PassError) -> Kind {
    match error {
        PassError::Limit { source, .. } => of_limit(source),
        PassError::Unknown { .. } => Kind::Input,
        _ => Kind::Model,
    }
}

fn of_limit(error: &Exceeded) -> Kind {
    match error {
        Exceeded::Cancelled => Kind::Cancelled,
        Exceeded::DeadlineExceeded => Kind::TimedOut,
        _ => Kind::Limit,
    }
}

fn of_plan_file(error: &PlanFileError) -> Kind {
    match &error.problem {
        PlanFileProblem::Limit(error) => of_limit(error),
        PlanFileProblem::Io { source, .. } => match of_io(source.kind()) {
            Kind::Model => Kind::Plan,
            kind => kind,
        },
        _ => Kind::Plan,
    }
}

fn of_pnnx(error: &PnnxError) -> Kind {
    match error {
        PnnxError::Io { source, .. } => of_io(source.kind()),
        PnnxError::Syntax { problem, .. } => match &**problem {
            SyntaxProblem::Limit(error) => of_limit(error),
            _ => Kind::Model,
        },
        PnnxError::Limit(error) => of_limit(error),
        PnnxError::Archive(error) => of_archive(error),
        PnnxError::Weight(error) => of_weight(error),
        _ => Kind::Model,
    }
}

fn of_weight(error: &WeightError) -> Kind {
    match error {
        WeightError::Read { source, .. } | WeightError::ReadTensor { source, .. } => of_archive(source),
        WeightError::Write(error) => of_archive(error),
        _ => Kind::Model,
    }
}

fn of_archive(error: &ArchiveError) -> Kind {
    match error {
        ArchiveError::Io { source, .. } => of_io(source.kind()),
        ArchiveError::Limit { source, .. } => of_limit(source),
        ArchiveError::OutOfMemory { .. } => Kind::Limit,
        _ => Kind::Model,
    }
}

fn of_scales(problem: &ScalesProblem) -> Kind {
    match problem {
        ScalesProblem::Io { source, .. } => of_io(source.kind()),
        ScalesProblem::Write(error) => of_pnnx(error),
        ScalesProblem::Limit(error) => of_limit(error),
        _ => Kind::Model,
    }
}

/// The kind of an error of a device, which may be that of a limit.
fn of_device(error: &(dyn StdError + Send + Sync + 'static)) -> Kind {
    #[cfg(any(feature = "cuda", feature = "cuda-emulator"))]
    if let Some(CudaError::OutOfMemory { .. }) = error.downcast_ref::<CudaError>() {
        return Kind::Limit;
    }
    match error.downcast_ref::<LayerError>().map(of_layer) {
        Some(kind @ (Kind::Limit | Kind::TimedOut | Kind::Cancelled)) => kind,
        _ => Kind::Device,
    }
}

/// The kind of what the system refused.
fn of_io(kind: io::ErrorKind) -> Kind {
    match kind {
        io::ErrorKind::NotFound => Kind::NotFound,
        io::ErrorKind::OutOfMemory => Kind::Limit,
        _ => Kind::Model,
    }
}
