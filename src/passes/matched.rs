//! A match of a pattern.

use super::PassContext;
use super::pattern::{Found, Pattern};
use crate::op::TensorMeta;
use crate::pnnx::{Attribute, FromParameter, Graph, Operand, OperandId, Operator, OperatorId, Parameter};
use crate::tensor::Dim;

/// A match of a pattern, as passed to checks and replacements. Everything is looked up by its name in the pattern.
///
/// Errors are texts, so that `?` in a check refuses the match with a reason.
#[derive(Debug, Clone, Copy)]
pub struct Match<'a> {
    pub(super) graph: &'a Graph,
    pub(super) context: &'a PassContext,
    pub(super) pattern: &'a Pattern,
    pub(super) found: &'a Found,
}

impl<'a> Match<'a> {
    /// The graph.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// The context of the run.
    pub fn context(&self) -> &'a PassContext {
        self.context
    }

    /// A captured parameter.
    ///
    /// # Errors
    /// Fails if the pattern has no capture of this name, or the captured parameter is optional and missing.
    pub fn param(&self, capture: &str) -> Result<&'a Parameter, String> {
        self.found.params.get(capture).ok_or_else(|| format!("no parameter was captured as `{capture}`"))
    }

    /// A captured parameter, converted to `T`.
    ///
    /// # Errors
    /// As [`Match::param`], or if the parameter has another type.
    pub fn get<T: FromParameter>(&self, capture: &str) -> Result<T, String> {
        T::from_parameter(self.param(capture)?).map_err(|error| format!("`{capture}`: {error}"))
    }

    /// A captured dimension of an operand or an attribute.
    ///
    /// # Errors
    /// Fails if the pattern has no capture of this name.
    pub fn dim(&self, capture: &str) -> Result<&'a Dim, String> {
        self.found.dims.get(capture).ok_or_else(|| format!("no dimension was captured as `{capture}`"))
    }

    /// The id of an operator.
    ///
    /// # Errors
    /// Fails if the pattern has no operator of this name.
    pub fn operator_id(&self, name: &str) -> Result<OperatorId, String> {
        self.found.operator(self.pattern, name).ok_or_else(|| format!("the pattern has no operator `{name}`"))
    }

    /// An operator, with all its parameters and attributes.
    ///
    /// # Errors
    /// As [`Match::operator_id`].
    pub fn operator(&self, name: &str) -> Result<&'a Operator, String> {
        self.operator_id(name).map(|id| self.graph.operator(id))
    }

    /// The id of an operand. `conv.1` is the second input of the operator `conv`.
    ///
    /// # Errors
    /// Fails if the pattern has no operand of this name.
    pub fn operand_id(&self, name: &str) -> Result<OperandId, String> {
        let further = || {
            let (operator, position) = name.rsplit_once('.')?;
            self.operator(operator).ok()?.inputs().get(position.parse::<usize>().ok()?).copied()
        };
        let found = self.found.operand(self.pattern, name).or_else(further);
        found.ok_or_else(|| format!("the pattern has no operand `{name}`"))
    }

    /// The inputs of an operator that `...` represents: their argument names, and names such as `conv.1` to look them up.
    pub(super) fn further_inputs(&self, name: &str) -> Result<Vec<(Option<String>, String)>, String> {
        let operator = self.operator(name)?;
        if operator.op_type() == "pnnx.Expression" {
            return Err(format!("`...` is ambiguous: the inputs of `{}` have no order", operator.name()));
        }
        let keys = operator.input_names().iter().cloned().enumerate();
        let further = keys.skip(self.pattern.input_count(name));
        Ok(further.map(|(position, key)| (key, format!("{name}.{position}"))).collect())
    }

    /// An operand.
    ///
    /// # Errors
    /// As [`Match::operand_id`].
    pub fn operand(&self, name: &str) -> Result<&'a Operand, String> {
        self.operand_id(name).map(|id| self.graph.operand(id))
    }

    /// The element type and dimensions of an operand.
    ///
    /// # Errors
    /// As [`Match::operand_id`], or if they are unknown.
    pub fn meta(&self, operand: &str) -> Result<&'a TensorMeta, String> {
        let name = self.operand(operand)?.name();
        self.context
            .facts(self.graph)
            .get(name)
            .ok_or_else(|| format!("type and shape of `{name}` are unknown"))
    }

    /// A parameter of an operator, converted to `T`, or `default` if the file omits it.
    ///
    /// # Errors
    /// As [`Match::operator_id`], or if the parameter has another type.
    pub fn setting<T: FromParameter>(&self, operator: &str, key: &str, default: T) -> Result<T, String> {
        self.operator(operator)?.get_or(key, default).map_err(|error| error.to_string())
    }

    /// An attribute of an operator.
    ///
    /// # Errors
    /// As [`Match::operator_id`], or if the operator has no attribute of this key.
    pub fn attribute(&self, operator: &str, key: &str) -> Result<&'a Attribute, String> {
        let found = self.operator(operator)?;
        found.attr(key).ok_or_else(|| format!("`{}` has no attribute `{key}`", found.name()))
    }

    /// A weight of an operator: an attribute, or the constant connected to the input of this argument name. `None` if the
    /// operator has neither, like a convolution without a bias.
    ///
    /// # Errors
    /// As [`Match::operator_id`], or if the input is not a constant.
    pub fn weight(&self, operator: &str, key: &str) -> Result<Option<&'a Attribute>, String> {
        let found = self.operator(operator)?;
        if let Some(attribute) = found.attr(key) {
            return Ok(Some(attribute));
        }
        let Some(input) = found.named_input(key) else { return Ok(None) };
        let name = self.graph.operand(input).name();
        constant(self.graph, input).map(Some).ok_or_else(|| format!("`{name}` is not a constant"))
    }

    /// The value of an operand that is a constant.
    ///
    /// # Errors
    /// As [`Match::operand_id`], or if the operand is not a constant.
    pub fn constant(&self, operand: &str) -> Result<&'a Attribute, String> {
        let id = self.operand_id(operand)?;
        constant(self.graph, id)
            .ok_or_else(|| format!("`{}` is not a constant", self.graph.operand(id).name()))
    }
}

/// The value of an operand that a `pnnx.Attribute` returns, if that operator has exactly one attribute.
pub(super) fn constant(graph: &Graph, operand: OperandId) -> Option<&Attribute> {
    let producer = graph.operator(graph.get_operand(operand)?.producer()?);
    let mut attributes = producer.attrs().values();
    let only = attributes.next().filter(|_| producer.op_type() == "pnnx.Attribute");
    only.filter(|_| attributes.next().is_none())
}
