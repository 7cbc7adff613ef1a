//! Errors of writing a graph as Python source.

use crate::expression::ExpressionError;
use crate::operator::Operator;
use std::fmt;

/// The error for a graph with operators that cannot be written as Python. It lists all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be written as Python:{}", counted(operators.len()), lines(operators))]
pub struct PythonError {
    /// The operators, in execution order.
    pub operators: Vec<Unwritten>,
}

/// An operator that cannot be written as Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwritten {
    /// The operator's name.
    pub operator: String,
    /// The operator's type.
    pub op_type: String,
    /// The operator's line; see [`Operator::line`](crate::Operator::line).
    pub line: Option<usize>,
    /// The reason.
    pub problem: PythonProblem,
}

/// The reason why an operator cannot be written as Python.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PythonProblem {
    /// The type is not the name of a function, a method or a module.
    #[error("PyTorch has nothing of this name")]
    Unknown,
    /// PNNX kept a module of the model as one operator.
    #[error("a module of the model, which PNNX kept whole; export it without `moduleop`")]
    KeptModule,
    /// An operator of ONNX, or a module that PNNX kept whole, whose name has no dots either.
    #[error(
        "no operator of ONNX that can be written; a module of the model must be exported without `moduleop`"
    )]
    Onnx,
    /// A statement of TorchScript, such as a branch or a loop.
    #[error(
        "a statement of TorchScript, of which the file lacks the body; trace the model instead of scripting it"
    )]
    Statement,
    /// A required input or parameter is missing.
    #[error("missing `{key}`")]
    Missing {
        /// The key of the parameter, or the name of the input.
        key: &'static str,
    },
    /// The operator has a wrong number of inputs.
    #[error("expected {wanted}, found {found}")]
    Inputs {
        /// The expected inputs.
        wanted: &'static str,
        /// The number of inputs found.
        found: usize,
    },
    /// The operator has a wrong number of outputs.
    #[error("expected {wanted}, found {found}")]
    Outputs {
        /// The expected outputs.
        wanted: &'static str,
        /// The number of outputs found.
        found: usize,
    },
    /// A parameter has a value that PyTorch has no form for.
    #[error("parameter `{key}`: expected {wanted}, found `{found}`")]
    Parameter {
        /// The key.
        key: &'static str,
        /// The expected value.
        wanted: &'static str,
        /// The value found.
        found: String,
    },
    /// An expression is invalid.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
}

/// The result of writing a part of an operator.
pub(super) type Written<T = ()> = Result<T, PythonProblem>;

impl Unwritten {
    pub(super) fn new(operator: &Operator, problem: PythonProblem) -> Self {
        Self {
            operator: operator.name().to_owned(),
            op_type: operator.op_type().to_owned(),
            line: operator.line(),
            problem,
        }
    }
}

/// Formats as ``line 7: prim::If `branch`: …``.
impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{} `{}`: {}", self.op_type, self.operator, self.problem)
    }
}

fn counted(operators: usize) -> String {
    match operators {
        1 => "1 operator".to_owned(),
        count => format!("{count} operators"),
    }
}

fn lines(operators: &[Unwritten]) -> String {
    operators.iter().map(|operator| format!("\n  {operator}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_has_a_line_of_its_own() {
        let operator = |op_type: &str, line, problem| Unwritten {
            operator: "a".into(),
            op_type: op_type.into(),
            line,
            problem,
        };
        let missing = PythonProblem::Missing { key: "dim" };
        let error = PythonError {
            operators: vec![
                operator("models.Block", Some(7), PythonProblem::KeptModule),
                operator("Tensor.slice", None, missing),
            ],
        };
        assert_eq!(
            error.to_string(),
            "2 operators cannot be written as Python:\n  \
             line 7: models.Block `a`: a module of the model, which PNNX kept whole; export it without `moduleop`\n  \
             Tensor.slice `a`: missing `dim`"
        );
    }
}
