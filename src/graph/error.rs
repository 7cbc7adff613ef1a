//! What can go wrong between a file and a result.

mod advice;

use crate::LimitError;
use crate::pnnx::{PnnxError, WeightError};
use crate::tensor::{DType, Shape, TensorError};
use advice::advice;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// An error of one layer. It does not say which operator it is about: [`GraphError::Operator`] adds that.
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

/// Which operator an error is about, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPlace {
    /// The operator's type, such as `nn.Conv2d`.
    pub op_type: String,
    /// The operator's name.
    pub name: String,
    /// The file, where there is one.
    pub file: Option<PathBuf>,
    /// The line in the file, counted from 1.
    pub line: Option<usize>,
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
    /// Where it stands.
    pub place: OperatorPlace,
    /// The registered type whose name is nearest.
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

/// What a layer was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Reading parameters and attributes.
    Create,
    /// Taking over the state that was stored with a plan.
    Restore,
    /// Preparing itself, once.
    Initialize,
    /// Deriving output shapes.
    Infer,
    /// Taking note of final shapes.
    Configure,
    /// Computing.
    Forward,
    /// Storing its state.
    Store,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Create => "cannot be built",
            Stage::Restore => "cannot take over its stored state",
            Stage::Initialize => "cannot be initialised",
            Stage::Infer => "does not fit its inputs",
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
    /// The path of the model is empty.
    #[error("the path of the model is empty; give the path of a .param file")]
    EmptyPath,
    /// The file has no operators.
    #[error("{}: the graph has no operators", file.display())]
    NoOperators {
        /// The file.
        file: PathBuf,
    },
    /// Operators that no layer is registered for: all of them.
    #[error("{} not supported:\n{}", counted(operators.len()), groups(operators))]
    UnknownOperators {
        /// Every such operator, in the order of the file.
        operators: Vec<UnknownOperator>,
    },
    /// The model has weights, but there is no archive.
    #[error("the weights are missing: there is no {}", beside.display())]
    NoArchive {
        /// Where the archive was looked for.
        beside: PathBuf,
        /// The number of weights.
        count: usize,
    },
    /// Weights that the archive lacks or that have the wrong size: all of them.
    #[error("{}", lines(.0))]
    Weights(Vec<PnnxError>),
    /// One operator failed.
    #[error("{place} {stage}: {source}{}", hint(inputs))]
    Operator {
        /// Which one.
        place: Box<OperatorPlace>,
        /// What it was doing.
        stage: Stage,
        /// What went wrong.
        #[source]
        source: Box<LayerError>,
        /// What is known of inputs that may be why: model inputs whose shape is not that of the file, or the operator's
        /// own inputs and where they come from.
        inputs: Vec<String>,
    },
    /// Operators that wait for each other.
    #[error("the graph has a cycle through {}", list(operators))]
    Cycle {
        /// Names of the operators in it.
        operators: Vec<String>,
    },
    /// An operand that nothing produces.
    #[error("operand `{operand}`, an input of {consumer}, is produced by no operator")]
    DanglingOperand {
        /// The operand.
        operand: String,
        /// Who needs it.
        consumer: Box<OperatorPlace>,
    },
    /// A tuple where a tensor is needed, or the other way round.
    #[error("{place}: {reason}")]
    Tuple {
        /// The operator that cannot use it.
        place: Box<OperatorPlace>,
        /// What is wrong.
        reason: String,
    },
    /// A method was called before the graph was ready for it.
    #[error("the graph is not built yet; call `build` first")]
    NotBuilt,
    /// The file's graph is wanted of a graph that has let go of it.
    #[error("the graph is built already and has let go of its file; hand it over before `build` is called")]
    AlreadyBuilt,
    /// An input or output that the model does not have.
    #[error("the model has no {what} `{name}`; it has {}", list(known))]
    UnknownName {
        /// Input or output.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Inputs that were not set before the run.
    #[error("not all inputs were given: {} missing", list(missing))]
    MissingInputs {
        /// Their names.
        missing: Vec<String>,
    },
    /// More inputs than the model has.
    #[error("{found} inputs were given, but the model has {wanted}: {}", list(names))]
    TooManyInputs {
        /// The number of inputs of the model.
        wanted: usize,
        /// The number that was given.
        found: usize,
        /// The names of the model's inputs.
        names: Vec<String>,
    },
    /// An input of the wrong element type.
    #[error("input `{name}` should be {wanted}, but is {found}; convert it first")]
    InputDType {
        /// The input.
        name: String,
        /// The type that the file names.
        wanted: DType,
        /// The type that was given.
        found: DType,
    },
    /// An input of the wrong number of axes.
    #[error("input `{name}` should have the shape {wanted}, but has {found}")]
    InputShape {
        /// The input.
        name: String,
        /// The shape that the file names.
        wanted: String,
        /// The shape that was given.
        found: Box<Shape>,
    },
    /// An output that was asked for before the graph ran.
    #[error("output `{0}` has no value yet; run the graph first")]
    NotRun(String),
    /// A limit that was met.
    #[error("{place}: {source}")]
    Limit {
        /// Which operator met it.
        place: Box<OperatorPlace>,
        /// The limit.
        #[source]
        source: LimitError,
    },
}

impl GraphError {
    /// The same with notes on inputs that may be the cause, where it is about an operator.
    pub(super) fn with_inputs(mut self, notes: &[String]) -> Self {
        if let Self::Operator { inputs, .. } = &mut self {
            *inputs = notes.to_vec();
        }
        self
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
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

/// The operators by their type, and for each type what can be done.
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
    fn messages_say_where_what_and_what_was_wanted() {
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
            "net.param:7: nn.Conv2d `conv1` cannot be built: parameter `stride` should be 2 integers, but is `fast`"
        );
        let unknown = UnknownOperator { place, nearest: Some("nn.Conv3d".into()) };
        assert_eq!(unknown.to_string(), "net.param:7: nn.Conv2d `conv1` (nearest known type: nn.Conv3d)");
    }
}
