//! Errors of loading, building and running a graph.

mod advice;

use crate::LimitError;
use crate::op::{LayerError, list};
use crate::pnnx::{Operator, PnnxError};
use crate::tensor::{DType, Shape};
pub(super) use advice::advice;
use std::fmt;
use std::path::{Path, PathBuf};

/// The operator that an error is about, and its position in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPlace {
    /// The operator's type, such as `nn.Conv2d`.
    pub op_type: String,
    /// The operator's name.
    pub name: String,
    /// The file, if the graph was read from one.
    pub file: Option<PathBuf>,
    /// The line in the file, counted from 1.
    pub line: Option<usize>,
}

impl OperatorPlace {
    /// The place of an operator of this file.
    pub(super) fn of(operator: &Operator, file: Option<&Path>) -> Box<Self> {
        Box::new(Self {
            op_type: operator.op_type().to_owned(),
            name: operator.name().to_owned(),
            file: file.map(Path::to_path_buf),
            line: operator.line(),
        })
    }
}

impl fmt::Display for OperatorPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            write!(f, "{}:{line}: ", file.display())?;
        }
        write!(f, "{} `{}`", self.op_type, self.name)
    }
}

/// An operator that no layer is registered for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownOperator {
    /// The operator and its position in the file.
    pub place: OperatorPlace,
    /// The registered type with the most similar name.
    pub nearest: Option<String>,
}

impl fmt::Display for UnknownOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        match &self.nearest {
            Some(nearest) => write!(f, " (nearest known type: {nearest})"),
            None => Ok(()),
        }
    }
}

/// The stage in which a layer failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Reading parameters and attributes.
    Create,
    /// Restoring the state that was stored with a plan.
    Restore,
    /// One-time initialisation.
    Initialize,
    /// Inferring output shapes.
    Infer,
    /// Being configured for the final shapes.
    Configure,
    /// Computing the outputs.
    Forward,
    /// Serialising its state.
    Store,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Create => "cannot be built",
            Stage::Restore => "cannot restore its stored state",
            Stage::Initialize => "cannot be initialised",
            Stage::Infer => "rejects its inputs",
            Stage::Configure => "cannot be configured",
            Stage::Forward => "failed",
            Stage::Store => "cannot store its state",
        })
    }
}

/// An error of loading, building or running a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The file could not be read.
    #[error(transparent)]
    Pnnx(#[from] PnnxError),
    /// The ONNX file could not be read.
    #[cfg(feature = "onnx")]
    #[error(transparent)]
    Onnx(#[from] ixion_onnx::OnnxError),
    /// The file is an ONNX file, and this build cannot read it.
    #[cfg(not(feature = "onnx"))]
    #[error("{} is an ONNX file, which this build of Ixion does not read; enable its feature `onnx`", model.display())]
    NoOnnx {
        /// The file.
        model: PathBuf,
    },
    /// Only inputs of ONNX files can be fixed.
    #[cfg(feature = "onnx")]
    #[error("{} is not an ONNX file; only inputs of ONNX files can be fixed to constants", model.display())]
    Constants {
        /// The file.
        model: PathBuf,
    },
    /// An ONNX file contains its weights.
    #[error("{} is an ONNX file, which does not need the archive {}; leave it out", model.display(), bin.display())]
    Archive {
        /// The ONNX file.
        model: PathBuf,
        /// The archive.
        bin: PathBuf,
    },
    /// The model path is empty.
    #[error("the model path is empty; expected the path of a .param file")]
    EmptyPath,
    /// The file has no operators.
    #[error("{}: the graph has no operators", file.display())]
    NoOperators {
        /// The file.
        file: PathBuf,
    },
    /// No layer is registered for these operators.
    #[error("{} not supported:\n{}", counted(operators.len()), groups(operators))]
    UnknownOperators {
        /// All such operators, in file order.
        operators: Vec<UnknownOperator>,
    },
    /// The model has weights, but there is no archive.
    #[error("missing weights: {} does not exist", beside.display())]
    NoArchive {
        /// The path of the expected archive.
        beside: PathBuf,
        /// The number of weights.
        count: usize,
    },
    /// The archive lacks these weights, or their sizes are wrong.
    #[error("{}", lines(.0))]
    Weights(Vec<PnnxError>),
    /// One operator failed.
    #[error("{place} {stage}: {source}{}", hint(inputs))]
    Operator {
        /// The operator.
        place: Box<OperatorPlace>,
        /// The stage in which it failed.
        stage: Stage,
        /// The error of the layer.
        #[source]
        source: Box<LayerError>,
        /// Notes on inputs that may be the cause: model inputs whose shapes differ from the file's, or the operator's own
        /// inputs and their producers.
        inputs: Vec<String>,
    },
    /// Operators that depend on each other.
    #[error("the graph has a cycle through {}", list(operators))]
    Cycle {
        /// The names of the operators on the cycle.
        operators: Vec<String>,
    },
    /// An operand that no operator produces.
    #[error("operand `{operand}`, an input of {consumer}, has no producer")]
    DanglingOperand {
        /// The operand.
        operand: String,
        /// The operator that reads it.
        consumer: Box<OperatorPlace>,
    },
    /// A tuple instead of a tensor, or a tensor instead of a tuple.
    #[error("{place}: {reason}")]
    Tuple {
        /// The operator that cannot use it.
        place: Box<OperatorPlace>,
        /// The reason.
        reason: String,
    },
    /// The graph has not been built yet.
    #[error("the graph is not built yet; call `build` first")]
    NotBuilt,
    /// The graph is already built and no longer holds the file's graph.
    #[error("the graph is already built and has dropped its file; hand it over before calling `build`")]
    AlreadyBuilt,
    /// An input or output that the model does not have.
    #[error("the model has no {what} `{name}`; it has {}", list(known))]
    UnknownName {
        /// `input` or `output`.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Inputs that were not set before the run.
    #[error("missing inputs: {}", list(missing))]
    MissingInputs {
        /// The names of these inputs.
        missing: Vec<String>,
    },
    /// More inputs than the model has.
    #[error("too many inputs: expected {wanted} ({}), got {found}", list(names))]
    TooManyInputs {
        /// The number of inputs of the model.
        wanted: usize,
        /// The number of inputs given.
        found: usize,
        /// The names of the model's inputs.
        names: Vec<String>,
    },
    /// An input of the wrong element type.
    #[error("input `{name}`: expected {wanted}, got {found}; convert it first")]
    InputDType {
        /// The input.
        name: String,
        /// The type in the file.
        wanted: DType,
        /// The type of the given tensor.
        found: DType,
    },
    /// An input with other lengths than an ONNX file fixes.
    #[error("input `{name}`: wrong lengths of its axes: expected {wanted}, got {found}")]
    InputLengths {
        /// The input.
        name: String,
        /// The shape in the file.
        wanted: String,
        /// The shape of the given tensor.
        found: Box<Shape>,
    },
    /// An input with the wrong number of axes.
    #[error("input `{name}`: wrong number of axes: expected {wanted}, got {found}")]
    InputShape {
        /// The input.
        name: String,
        /// The shape in the file.
        wanted: String,
        /// The shape of the given tensor.
        found: Box<Shape>,
    },
    /// An output was requested before the graph ran.
    #[error("output `{0}` has no value yet; run the graph first")]
    NotRun(String),
    /// A limit was exceeded, or the run was cancelled.
    #[error("{place}: {source}")]
    Limit {
        /// The operator at which this happened.
        place: Box<OperatorPlace>,
        /// The limit.
        #[source]
        source: LimitError,
    },
}

impl GraphError {
    /// The error for an operator of this file whose layer cannot be created.
    pub(super) fn in_creation(operator: &Operator, file: Option<&Path>, source: LayerError) -> Self {
        let place = OperatorPlace::of(operator, file);
        Self::Operator { place, stage: Stage::Create, source: Box::new(source), inputs: Vec::new() }
    }

    /// Adds notes on inputs that may be the cause, if the error is about an operator. They come first, and replace notes that
    /// say less about the same input.
    pub(crate) fn with_inputs(mut self, notes: &[String]) -> Self {
        if let Self::Operator { inputs, .. } = &mut self {
            let is_of = |note: &String, known: &String| {
                note.split_once(',').is_some_and(|(start, _)| known.starts_with(start))
            };
            inputs.retain(|known| !notes.iter().any(|note| is_of(note, known)));
            let less = std::mem::replace(inputs, notes.to_vec());
            inputs.extend(less);
        }
        self
    }
}

fn lines<T: fmt::Display>(items: &[T]) -> String {
    let lines: Vec<String> = items.iter().map(|item| format!("  {item}")).collect();
    lines.join("\n")
}

fn counted(operators: usize) -> String {
    match operators {
        1 => "1 operator is".to_owned(),
        count => format!("{count} operators are"),
    }
}

/// The operators grouped by type, with advice for each type.
fn groups(operators: &[UnknownOperator]) -> String {
    let mut types: Vec<&str> = Vec::new();
    for operator in operators {
        if !types.contains(&operator.place.op_type.as_str()) {
            types.push(&operator.place.op_type);
        }
    }
    let group = |op_type: &&str| {
        let of_type = operators.iter().filter(|operator| operator.place.op_type == *op_type);
        let places: Vec<String> = of_type.map(|operator| format!("  {operator}")).collect();
        format!("{}\n    {}", places.join("\n"), advice(op_type))
    };
    types.iter().map(group).collect::<Vec<_>>().join("\n")
}

fn hint(inputs: &[String]) -> String {
    if inputs.is_empty() { String::new() } else { format!("\n  note: {}", inputs.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_location_operator_and_cause() {
        let place = OperatorPlace {
            op_type: "nn.Conv2d".into(),
            name: "conv1".into(),
            file: Some("net.param".into()),
            line: Some(7),
        };
        let source = LayerError::WrongParameter {
            key: "stride".into(),
            wanted: "2 integers".into(),
            found: "fast".into(),
        };
        let error = GraphError::Operator {
            place: Box::new(place.clone()),
            stage: Stage::Create,
            source: Box::new(source),
            inputs: vec![],
        };
        assert_eq!(
            error.to_string(),
            "net.param:7: nn.Conv2d `conv1` cannot be built: parameter `stride`: expected 2 integers, got `fast`"
        );
        let unknown = UnknownOperator { place, nearest: Some("nn.Conv3d".into()) };
        assert_eq!(unknown.to_string(), "net.param:7: nn.Conv2d `conv1` (nearest known type: nn.Conv3d)");
    }
}
