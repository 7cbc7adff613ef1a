//! Operators: the steps of a model.

use super::attribute::Attribute;
use super::operand::OperandId;
use super::parameter::{FromParameter, ParamTypeError, Parameter};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Names an operator of a [`Graph`](super::Graph). It stays valid while the graph is edited, until the
/// operator is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperatorId(u32);

impl OperatorId {
    /// The id of the operator at a place of its graph's list; `None` beyond 2^32 operators.
    pub(super) fn at(place: usize) -> Option<Self> {
        u32::try_from(place).ok().map(Self)
    }

    /// The place in the list of its graph.
    pub(super) fn place(self) -> usize {
        self.0 as usize
    }
}

/// Most operators have few inputs and outputs: these are kept without an allocation.
pub(super) type Few<T> = SmallVec<[T; 4]>;

/// One step of a model: what is computed, from what, and with which settings and weights.
///
/// It is changed through the [`Graph`](super::Graph) that owns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    pub(super) op_type: String,
    pub(super) name: Arc<str>,
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

    /// What the operator reads. An operand that it uses twice is there twice.
    pub fn inputs(&self) -> &[OperandId] {
        &self.inputs
    }

    /// What the operator computes.
    pub fn outputs(&self) -> &[OperandId] {
        &self.outputs
    }

    /// The argument name of each input (`$weight=5` in the text), as many entries as there are inputs.
    pub fn input_names(&self) -> &[Option<String>] {
        &self.input_names
    }

    /// The settings by key.
    pub fn params(&self) -> &BTreeMap<String, Parameter> {
        &self.params
    }

    /// The weights and constants by key.
    pub fn attrs(&self) -> &BTreeMap<String, Attribute> {
        &self.attrs
    }

    /// The line of the `.param` text, counted from 1, or that of the operator beside which code added this one; `None` for
    /// one that was added at the end.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The setting of that key.
    pub fn param(&self, key: &str) -> Option<&Parameter> {
        self.params.get(key)
    }

    /// The weight or constant of that key.
    pub fn attr(&self, key: &str) -> Option<&Attribute> {
        self.attrs.get(key)
    }

    /// The input that has this argument name.
    pub fn named_input(&self, key: &str) -> Option<OperandId> {
        let index = self.input_names.iter().position(|name| name.as_deref() == Some(key))?;
        self.inputs.get(index).copied()
    }

    /// Whether there is a setting of that key.
    pub fn has_param(&self, key: &str) -> bool {
        self.params.contains_key(key)
    }

    /// Whether there is a weight or constant of that key.
    pub fn has_attr(&self, key: &str) -> bool {
        self.attrs.contains_key(key)
    }

    /// Whether an input has this argument name.
    pub fn has_input(&self, key: &str) -> bool {
        self.named_input(key).is_some()
    }

    /// A setting that must be there, as the type asked for.
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
    /// [`ParamError`] when it is missing or of another type.
    pub fn get<T: FromParameter>(&self, key: &str) -> Result<T, ParamError> {
        match self.param(key) {
            Some(parameter) => T::from_parameter(parameter)
                .map_err(|source| self.param_error(key, ParamProblem::Type(Box::new(source)))),
            None => Err(self.param_error(key, ParamProblem::Missing)),
        }
    }

    /// A setting as the type asked for, or `default` where the file leaves it out. PNNX leaves out what was
    /// not given in PyTorch, so PyTorch's default is right.
    ///
    /// # Errors
    /// [`ParamError`] when it is of another type.
    pub fn get_or<T: FromParameter>(&self, key: &str, default: T) -> Result<T, ParamError> {
        if self.has_param(key) { self.get(key) } else { Ok(default) }
    }

    fn param_error(&self, key: &str, problem: ParamProblem) -> ParamError {
        let (operator, op_type) = (self.name.to_string(), self.op_type.clone());
        ParamError { operator, op_type, line: self.line, key: key.to_owned(), problem }
    }
}

/// A setting that is missing or of the wrong type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operator `{operator}` ({op_type}{}), parameter `{key}`: {problem}", Line(*line))]
pub struct ParamError {
    /// The operator's name.
    pub operator: String,
    /// The operator's type.
    pub op_type: String,
    /// The line of the `.param` text.
    pub line: Option<usize>,
    /// The parameter's key.
    pub key: String,
    /// What is wrong.
    pub problem: ParamProblem,
}

/// What can be wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamProblem {
    /// It is not there.
    #[error("it is missing")]
    Missing,
    /// It is of another type.
    #[error(transparent)]
    Type(Box<ParamTypeError>),
}

/// Prints `, line 12` where the line is known.
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

    fn operand(place: usize) -> OperandId {
        OperandId::at(place).unwrap()
    }

    fn conv() -> Operator {
        let mut operator = Operator::new("nn.Conv2d".into(), "conv1".into());
        operator.params.insert("groups".into(), Parameter::parse("2"));
        operator.inputs.extend([4, 4, 5].map(operand));
        operator.input_names.extend([None, Some("mask".into()), Some("weight".into())]);
        operator
    }

    #[test]
    fn settings_are_asked_for_by_type() {
        let operator = conv();
        assert_eq!(operator.get::<i64>("groups"), Ok(2));
        assert_eq!(operator.get_or("dilation", vec![1_i64, 1]), Ok(vec![1, 1]));
        assert!(operator.get_or("groups", true).is_err());
    }

    #[test]
    fn errors_name_operator_key_wanted_and_found() {
        let mut operator = conv();
        let error = operator.get::<bool>("groups").unwrap_err().to_string();
        assert_eq!(
            error,
            "operator `conv1` (nn.Conv2d), parameter `groups`: wanted a bool, found an int: `2`"
        );
        operator.line = Some(12);
        let error = operator.get::<i64>("stride").unwrap_err().to_string();
        assert_eq!(error, "operator `conv1` (nn.Conv2d, line 12), parameter `stride`: it is missing");
    }

    #[test]
    fn inputs_are_found_by_argument_name() {
        let operator = conv();
        assert_eq!(operator.named_input("weight"), Some(operand(5)));
        assert_eq!(operator.named_input("mask"), Some(operand(4)));
        assert!(operator.has_input("mask") && !operator.has_input("bias"));
    }
}
