//! Adding operators to the graph.

use super::names::writable;
use super::{Call, Lowering, Params, Value};
use crate::OnnxError;
use ixion_pnnx::{Attribute, OperandId, OperatorId, Parameter};
use std::collections::BTreeMap;

/// An operator that is about to be added.
#[derive(Debug)]
#[must_use]
pub(crate) struct Emit<'e> {
    lowering: &'e mut Lowering,
    op_type: String,
    name: String,
    inputs: Inputs,
    params: Params,
    attributes: BTreeMap<&'static str, Attribute>,
}

impl Call<'_> {
    /// An operator of this type, to be completed and added.
    pub(crate) fn emit(&mut self, op_type: &str) -> Emit<'_> {
        let name = self.name().to_owned();
        Emit {
            lowering: self.lowering(),
            op_type: op_type.to_owned(),
            name,
            inputs: Vec::new(),
            params: Params::new(),
            attributes: BTreeMap::new(),
        }
    }
}

impl<'e> Emit<'e> {
    /// The next input, without a name.
    pub(crate) fn input(mut self, operand: OperandId) -> Self {
        self.inputs.push((None, operand));
        self
    }

    /// The next input, with PyTorch's name of the argument.
    pub(crate) fn named(mut self, name: &'static str, operand: OperandId) -> Self {
        self.inputs.push((Some(name), operand));
        self
    }

    /// The next input, if it is there.
    pub(crate) fn named_if(self, name: &'static str, operand: Option<OperandId>) -> Self {
        match operand {
            Some(operand) => self.named(name, operand),
            None => self,
        }
    }

    /// A parameter.
    pub(crate) fn param(mut self, key: &str, value: impl Into<Parameter>) -> Self {
        self.params.insert(key.to_owned(), value.into());
        self
    }

    /// A parameter, if it has a value.
    pub(crate) fn param_if(self, key: &str, value: Option<impl Into<Parameter>>) -> Self {
        match value {
            Some(value) => self.param(key, value),
            None => self,
        }
    }

    /// Weights of the operator.
    pub(crate) fn attribute(mut self, key: &'static str, value: Attribute) -> Self {
        self.attributes.insert(key, value);
        self
    }

    /// Adds the operator with one output.
    ///
    /// # Errors
    /// [`OnnxError::Graph`] if a parameter cannot be written.
    pub(crate) fn one(self) -> Result<OperandId, OnnxError> {
        let (lowering, operator, name) = self.added()?;
        lowering.output(operator, &name)
    }

    /// Adds the operator with `outputs` outputs.
    ///
    /// # Errors
    /// As [`Emit::one`].
    pub(crate) fn many(self, outputs: usize) -> Result<Vec<OperandId>, OnnxError> {
        let (lowering, operator, name) = self.added()?;
        let output = |position| {
            let name = if position == 0 { name.clone() } else { lowering.names.free(&name) };
            lowering.output(operator, &name)
        };
        (0..outputs).map(output).collect()
    }

    /// Adds the operator without outputs; returns its name, too.
    fn added(self) -> Result<(&'e mut Lowering, OperatorId, String), OnnxError> {
        let Self { lowering, op_type, name, inputs, params, attributes } = self;
        let inputs = lowering.told_apart(&name, inputs)?;
        let name = lowering.names.free(&name);
        let operator = lowering.graph.new_operator(&op_type, &name)?;
        for (argument, operand) in inputs {
            lowering.graph.connect_input(operator, operand, argument)?;
        }
        for (key, value) in params {
            lowering.graph.set_param(operator, &key, value)?;
        }
        for (key, value) in attributes {
            lowering.graph.set_attribute(operator, key, value)?;
        }
        Ok((lowering, operator, name))
    }
}

/// The inputs of an operator, with their names.
type Inputs = Vec<(Option<&'static str>, OperandId)>;

impl Lowering {
    /// A new output of an operator.
    fn output(&mut self, operator: OperatorId, name: &str) -> Result<OperandId, OnnxError> {
        let operand = self.graph.new_operand(name)?;
        self.graph.connect_output(operator, operand)?;
        Ok(operand)
    }

    /// The inputs, with a copy of each named one that is also an input without a name: a `.param` text could not say which of the
    /// two has the name.
    fn told_apart(&mut self, name: &str, mut inputs: Inputs) -> Result<Inputs, OnnxError> {
        let unnamed: Vec<OperandId> =
            inputs.iter().filter(|(argument, _)| argument.is_none()).map(|(_, operand)| *operand).collect();
        for (argument, operand) in &mut inputs {
            if argument.is_none() || !unnamed.contains(operand) {
                continue;
            }
            let copy = self.names.free(name);
            let operator = self.graph.new_operator("torch.clone", &copy)?;
            self.graph.connect_input(operator, *operand, Some("input"))?;
            *operand = self.output(operator, &copy)?;
        }
        Ok(inputs)
    }

    /// Gives the operand of a node's output the name that it has in the file, unless it is the output of another operator, too.
    /// In functions and loops, names are not unique: there, it may get the name of what they return later.
    pub(super) fn name_output(&mut self, name: &str, value: &Value) -> Result<(), OnnxError> {
        let Value::Operand(operand) = value else { return Ok(()) };
        if !self.is_outermost() {
            return Ok(());
        }
        let (name, operand) = (writable(name), *operand);
        let known = self.graph.operand(operand);
        let is_input = known.producer().is_some_and(|producer| {
            matches!(self.graph.operator(producer).op_type(), "pnnx.Input" | "pnnx.Attribute")
        });
        let is_named = self.named.contains(&operand);
        if is_input || is_named || self.graph.operand_named(&name).is_some() {
            return Ok(());
        }
        self.graph.rename_operand(operand, &name)?;
        self.names.take(&name);
        self.named.insert(operand);
        Ok(())
    }
}
