//! Looking up neighbours in a graph, and replacing operators.

use crate::passes::Facts;
use crate::pnnx::{Attribute, Graph, GraphError, OperandId, Operator, OperatorId, Parameter};
use crate::tensor::{DType, Dim};

/// The operator that computes an operand.
pub(super) fn producer(graph: &Graph, operand: OperandId) -> Option<(OperatorId, &Operator)> {
    let id = graph.get_operand(operand)?.producer()?;
    Some((id, graph.get_operator(id)?))
}

/// The operator that computes an operand, if `reader` is its only consumer and reads it once.
pub(super) fn own_producer(
    graph: &Graph,
    operand: OperandId,
    reader: OperatorId,
) -> Option<(OperatorId, &Operator)> {
    (graph.get_operand(operand)?.consumers() == [reader]).then(|| producer(graph, operand))?
}

/// The only operator that reads the only output of `operator`, and reads it once.
pub(super) fn only_reader<'g>(graph: &'g Graph, operator: &Operator) -> Option<(OperatorId, &'g Operator)> {
    let [output] = operator.outputs() else { return None };
    let [reader] = graph.get_operand(*output)?.consumers() else { return None };
    Some((*reader, graph.get_operator(*reader)?))
}

/// The rank of an operand: from the facts, else from the file, whose ranks are reliable.
pub(super) fn rank(graph: &Graph, facts: &Facts, operand: OperandId) -> Option<usize> {
    let known = facts.meta(graph, operand).map(|meta| meta.rank());
    known.or_else(|| Some(graph.get_operand(operand)?.shape()?.len()))
}

/// The number of spatial axes that an operator type states, such as 2 for `nn.Conv2d`.
pub(super) fn spatial_axes(op_type: &str) -> Option<usize> {
    let digit = op_type.strip_suffix('d')?.chars().next_back()?.to_digit(10)?;
    usize::try_from(digit).ok()
}

/// Returns true if a tensor of these dimensions can be broadcast to `to` without enlarging it.
pub(super) fn fits_into(dims: &[Dim], to: &[Dim]) -> bool {
    let pairs = dims.iter().rev().zip(to.iter().rev());
    dims.len() <= to.len() && { pairs }.all(|(own, to)| own == to || *own == Dim::Fixed(1))
}

/// Returns true if sums of this type may be reordered and regrouped without losing accuracy that a model needs.
pub(super) fn is_computed_in(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// An operator that replaces others.
#[derive(Debug)]
pub(super) struct NewOperator {
    pub(super) op_type: String,
    pub(super) name: String,
    pub(super) inputs: Vec<(OperandId, Option<String>)>,
    pub(super) params: Vec<(String, Parameter)>,
    pub(super) attrs: Vec<(String, Attribute)>,
}

impl NewOperator {
    /// An operator without inputs, parameters and attributes.
    pub(super) fn new(op_type: &str, name: &str) -> Self {
        let (op_type, name) = (op_type.to_owned(), name.to_owned());
        Self { op_type, name, inputs: Vec::new(), params: Vec::new(), attrs: Vec::new() }
    }

    /// A copy of an operator without its outputs.
    pub(super) fn like(operator: &Operator) -> Self {
        let inputs = operator.inputs().iter().copied().zip(operator.input_names().iter().cloned());
        let mut new = Self::new(operator.op_type(), operator.name());
        new.inputs = inputs.collect();
        new.params = operator.params().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        new.attrs = operator.attrs().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        new
    }

    /// Adds an input.
    pub(super) fn input(mut self, operand: OperandId, name: Option<&str>) -> Self {
        self.inputs.push((operand, name.map(str::to_owned)));
        self
    }

    /// Sets a parameter, replacing an existing one of that key.
    pub(super) fn param(mut self, key: &str, value: impl Into<Parameter>) -> Self {
        self.params.retain(|(other, _)| other != key);
        self.params.push((key.to_owned(), value.into()));
        self
    }

    /// Sets an attribute, replacing an existing one of that key.
    pub(super) fn attr(mut self, key: &str, value: Attribute) -> Self {
        self.attrs.retain(|(other, _)| other != key);
        self.attrs.push((key.to_owned(), value));
        self
    }

    /// Inserts the operator after the first of `old` and moves that one's outputs to it. Then removes `old` in order: each
    /// one may be read only by those before it in the list.
    pub(super) fn replace(self, graph: &mut Graph, old: &[OperatorId]) -> Result<(), GraphError> {
        let Some(&last) = old.first() else { return Ok(()) };
        let name = self.name.clone();
        let new = self.place(graph, last, true)?;
        let namesake = old.iter().map(|&old| graph.operator(old)).find(|old| old.name() == name);
        if let Some(line) = namesake.map(Operator::line) {
            graph.set_line(new, line)?;
        }
        for output in graph.operator(last).outputs().to_vec() {
            graph.disconnect_output(last, output)?;
            graph.connect_output(new, output)?;
        }
        for &operator in old {
            graph.remove_operator(operator)?;
        }
        match graph.operator_named(&name) {
            None => graph.rename_operator(new, &name),
            Some(_) => Ok(()),
        }
    }

    /// Inserts the operator before another one and returns its only output, which is new.
    pub(super) fn insert(self, graph: &mut Graph, at: OperatorId) -> Result<OperandId, GraphError> {
        let new = self.place(graph, at, false)?;
        let name = graph.operator(new).name().to_owned();
        let free = (0..).map(|n| format!("{name}_{n}")).find(|name| graph.operand_named(name).is_none());
        let output = graph.new_operand(&free.unwrap_or_default())?;
        graph.connect_output(new, output)?;
        Ok(output)
    }

    /// Inserts the operator before another one and makes it the producer of these operands.
    pub(super) fn insert_for(
        self,
        graph: &mut Graph,
        at: OperatorId,
        outputs: &[OperandId],
    ) -> Result<(), GraphError> {
        let new = self.place(graph, at, false)?;
        for &output in outputs {
            if let Some(old) = graph.operand(output).producer() {
                graph.disconnect_output(old, output)?;
            }
            graph.connect_output(new, output)?;
        }
        Ok(())
    }

    /// Inserts the operator after or before another one, under a free name.
    fn place(self, graph: &mut Graph, at: OperatorId, behind: bool) -> Result<OperatorId, GraphError> {
        let free = |name: &String| graph.operator_named(name).is_none();
        let others = (0..).map(|n| format!("{}_{n}", self.name));
        let name = std::iter::once(self.name.clone()).chain(others).find(free).unwrap_or_default();
        let new = match behind {
            true => graph.new_operator_after(&self.op_type, &name, at)?,
            false => graph.new_operator_before(&self.op_type, &name, at)?,
        };
        for (operand, name) in self.inputs {
            graph.connect_input(new, operand, name.as_deref())?;
        }
        for (key, value) in self.params {
            graph.set_param(new, &key, value)?;
        }
        for (key, value) in self.attrs {
            graph.set_attribute(new, &key, value)?;
        }
        Ok(new)
    }
}
