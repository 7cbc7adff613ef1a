//! What can go wrong between a file and a result.

mod advice;

use crate::LimitError;
use crate::op::{LayerError, list};
use crate::pnnx::PnnxError;
use crate::tensor::{DType, Shape};
use advice::advice;
use std::fmt;
use std::path::PathBuf;

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
