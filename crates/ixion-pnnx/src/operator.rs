//! Operators: the steps of a model.

use super::attribute::Attribute;
use super::ids::{Few, OperandId};
use super::parameter::{FromParameter, ParamTypeError, Parameter};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One step of a model: its type, its inputs and outputs, its parameters and its attributes.
///
/// It is edited through the [`Graph`](super::Graph) that owns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    pub(super) op_type: String,
    pub(super) name: Arc<str>,
    /// The name in the text, if it is another one.
    pub(super) written_name: Option<Arc<str>>,
    pub(super) inputs: Few<OperandId>,
    pub(super) outputs: Few<OperandId>,
    pub(super) input_names: SmallVec<[Option<String>; 1]>,
    pub(super) params: BTreeMap<String, Parameter>,
    pub(super) attrs: BTreeMap<String, Attribute>,
    pub(super) line: Option<usize>,
}

impl Operator {
    pub(super) fn new(op_type: String, name: Arc<str>) -> Self {
        Self {
            op_type,
            name,
            written_name: None,
            inputs: Few::new(),
            outputs: Few::new(),
            input_names: SmallVec::new(),
            params: BTreeMap::new(),
            attrs: BTreeMap::new(),
            line: None,
        }
    }

    /// The type: a PyTorch name such as `nn.Conv2d`, `F.relu` or `torch.cat`, or one of PNNX's own.
    pub fn op_type(&self) -> &str {
        &self.op_type
    }

    /// The name, unique in its graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name in the `.param` text, and in the names of the archive's entries. It is [`name`](Self::name), unless an
    /// earlier operator has that name: at optimisation level 0, PNNX writes a module that is called twice with the same name
    /// twice, and gives all tensors of a module the name of the module. The second `conv` is then called `conv@2`.
    pub fn written_name(&self) -> &str {
        self.written_name.as_deref().unwrap_or(&self.name)
    }

    /// The operands that the operator reads. An operand that it reads twice is listed twice.
    pub fn inputs(&self) -> &[OperandId] {
        &self.inputs
    }

    /// The operands that the operator computes.
    pub fn outputs(&self) -> &[OperandId] {
        &self.outputs
    }

    /// The argument name of each input (`$weight=5` in the text), one entry per input.
    pub fn input_names(&self) -> &[Option<String>] {
        &self.input_names
    }

    /// The parameters by key.
    pub fn params(&self) -> &BTreeMap<String, Parameter> {
        &self.params
    }

    /// The weights and constants by key.
    pub fn attrs(&self) -> &BTreeMap<String, Attribute> {
        &self.attrs
    }

    /// The line of the `.param` text, counted from 1. An operator that code inserted next to another has the line of that
    /// operator, one that was added at the end has `None`.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The parameter with this key.
    pub fn param(&self, key: &str) -> Option<&Parameter> {
        self.params.get(key)
    }

    /// The weight or constant with this key.
    pub fn attr(&self, key: &str) -> Option<&Attribute> {
        self.attrs.get(key)
    }

    /// The input with this argument name.
    pub fn named_input(&self, key: &str) -> Option<OperandId> {
        let index = self.input_names.iter().position(|name| name.as_deref() == Some(key))?;
        self.inputs.get(index).copied()
    }

    /// Returns true if there is a parameter with this key.
    pub fn has_param(&self, key: &str) -> bool {
        self.params.contains_key(key)
    }

    /// Returns true if there is a weight or constant with this key.
    pub fn has_attr(&self, key: &str) -> bool {
        self.attrs.contains_key(key)
    }

    /// Returns true if an input has this argument name.
    pub fn has_input(&self, key: &str) -> bool {
        self.named_input(key).is_some()
    }

    /// A required parameter, converted to `T`.
    ///
    /// ```
    /// # use ixion_pnnx::Graph;
    /// # use ixion_tensor::Limits;
    /// let text = "7767517\n1 1\npnnx.Input in 0 1 x dim=-1 p=2 alpha=None\n";
    /// let graph = Graph::parse(text, &Limits::default())?;
    /// let (_, operator) = graph.operators().next().unwrap();
    /// assert_eq!(operator.get::<i64>("dim")?, -1);
    /// assert_eq!(operator.get::<f64>("p")?, 2.0);
    /// assert_eq!(operator.get::<Option<f64>>("alpha")?, None);
    /// assert!(operator.get_or("keepdim", true)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ParamError`] if the parameter is missing or has another type.
    pub fn get<T: FromParameter>(&self, key: &str) -> Result<T, ParamError> {
        match self.param(key) {
            Some(parameter) => T::from_parameter(parameter)
                .map_err(|source| self.param_error(key, ParamProblem::Type(Box::new(source)))),
            None => Err(self.param_error(key, ParamProblem::Missing)),
        }
    }

    /// A parameter converted to `T`, or `default` if the file omits it. PNNX omits arguments that were not given
    /// in PyTorch, so `default` should be PyTorch's default.
    ///
    /// # Errors
    /// [`ParamError`] if the parameter has another type.
    pub fn get_or<T: FromParameter>(&self, key: &str, default: T) -> Result<T, ParamError> {
        if self.has_param(key) { self.get(key) } else { Ok(default) }
    }

    fn param_error(&self, key: &str, problem: ParamProblem) -> ParamError {
        let (operator, op_type) = (self.name.to_string(), self.op_type.clone());
        ParamError { operator, op_type, line: self.line, key: key.to_owned(), problem }
    }
}

/// An error for a parameter that is missing or has the wrong type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operator `{operator}` ({op_type}{}), parameter `{key}`: {problem}", Line(*line))]
pub struct ParamError {
    /// The operator's name.
    pub operator: String,
    /// The operator's type.
    pub op_type: String,
    /// The operator's line; see [`Operator::line`].
    pub line: Option<usize>,
    /// The parameter's key.
    pub key: String,
    /// What is wrong.
    pub problem: ParamProblem,
}

/// What is wrong with a parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamProblem {
    /// The parameter is missing.
    #[error("missing")]
    Missing,
    /// The parameter has another type.
    #[error(transparent)]
    Type(Box<ParamTypeError>),
}

/// Formats as `, line 12`, or as nothing if the line is unknown.
struct Line(Option<usize>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(line) => write!(f, ", line {line}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(index: usize) -> OperandId {
        OperandId::at(index).unwrap()
    }

    fn conv() -> Operator {
        let mut operator = Operator::new("nn.Conv2d".into(), "conv1".into());
        operator.params.insert("groups".into(), Parameter::parse("2"));
        operator.inputs.extend([4, 4, 5].map(operand));
        operator.input_names.extend([None, Some("mask".into()), Some("weight".into())]);
        operator
    }

    #[test]
    fn parameters_are_converted_by_type() {
        let operator = conv();
        assert_eq!(operator.get::<i64>("groups"), Ok(2));
        assert_eq!(operator.get_or("dilation", vec![1_i64, 1]), Ok(vec![1, 1]));
        assert!(operator.get_or("groups", true).is_err());
    }

    #[test]
    fn errors_name_operator_key_and_both_types() {
        let mut operator = conv();
        let error = operator.get::<bool>("groups").unwrap_err().to_string();
        assert_eq!(
            error,
            "operator `conv1` (nn.Conv2d), parameter `groups`: expected a bool, found an int: `2`"
        );
        operator.line = Some(12);
        let error = operator.get::<i64>("stride").unwrap_err().to_string();
        assert_eq!(error, "operator `conv1` (nn.Conv2d, line 12), parameter `stride`: missing");
    }

    #[test]
    fn inputs_are_found_by_argument_name() {
        let operator = conv();
        assert_eq!(operator.named_input("weight"), Some(operand(5)));
        assert_eq!(operator.named_input("mask"), Some(operand(4)));
        assert!(operator.has_input("mask") && !operator.has_input("bias"));
    }
}
