//! Tuples, lists and dictionaries: made, unpacked, and the lists of indices that an expression is.

use super::arguments::Arguments;
use super::values::{MAX_DEPTH, Value};
use super::{Converter, place_of};
use crate::graph::GraphError;
use crate::pnnx::{self, Expr, OperandId, OperatorId};

/// Operators that take a list of tensors, where others take one of numbers.
const TAKE_TENSORS: [&str; 17] = [
    "Tensor.index",
    "Tensor.index_put",
    "aten::block_diag",
    "aten::broadcast_tensors",
    "aten::cartesian_prod",
    "aten::column_stack",
    "aten::dstack",
    "aten::gru",
    "aten::hstack",
    "aten::linalg_multi_dot",
    "aten::lstm",
    "aten::meshgrid",
    "aten::rnn_relu",
    "aten::rnn_tanh",
    "aten::vstack",
    "pnnx.Output",
    "prim::TupleConstruct",
];

impl Converter<'_> {
    pub(super) fn add_tuple(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let tuple = Value::tuple(self.inputs_of(operator)?);
        self.set_tuple(operator, tuple)
    }

    /// The values of a dictionary in their order. Keys and values come in turns; a key is a constant.
    pub(super) fn add_dict(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let inputs = self.inputs_of(operator)?;
        let (keys, rest) = (inputs.iter().step_by(2), inputs.len() % 2);
        if rest != 0 || !keys.clone().all(|key| matches!(key, Value::Constant(_))) {
            return Err(
                self.tuple_error(operator, "a dictionary needs a constant key for each value".to_owned())
            );
        }
        let tuple = Value::tuple(inputs.into_iter().skip(1).step_by(2).collect());
        self.set_tuple(operator, tuple)
    }

    /// Whether an expression is a list that only indexing and joining take: such a list may hold `None`, masks, and tensors
    /// of different shapes.
    pub(super) fn is_index_list(&self, operator: &pnnx::Operator) -> bool {
        let is_list = operator.param("expr").is_some_and(|expr| expr.raw().starts_with('['));
        let [output] = operator.outputs() else { return false };
        let consumers = self.file.operand(*output).consumers();
        let takes_tensors = |id: &OperatorId| TAKE_TENSORS.contains(&self.file.operator(*id).op_type());
        is_list
            && !operator.inputs().is_empty()
            && !consumers.is_empty()
            && consumers.iter().all(takes_tensors)
    }

    pub(super) fn add_index_list(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let raw = operator.param("expr").map(|expr| expr.raw()).unwrap_or_default();
        let Ok(Expr::List(items)) = Expr::parse(raw) else { return self.add_layer(operator) };
        let values = self.inputs_of(operator)?;
        let mut list = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            list.push(match item {
                Expr::Input(input) if values.get(*input).is_some() => values[*input].clone(),
                item if item.input_count() == 0 => Value::constant(&item.to_string(), None),
                item => {
                    let mut arguments = Arguments::default().with_param("expr", &item.to_string());
                    let mut inputs = Vec::new();
                    values.iter().try_for_each(|value| self.flatten(operator, value, &mut inputs))?;
                    arguments.push(&inputs, None);
                    let name = format!("{}.{position}", operator.name());
                    Value::Tensor(self.insert(operator, "pnnx.Expression", name, arguments)?)
                }
            });
        }
        self.set_tuple(operator, Value::tuple(list))
    }

    fn set_tuple(&mut self, operator: &pnnx::Operator, tuple: Value) -> Result<(), GraphError> {
        if tuple.tensors() > self.limits.max_ops || tuple.depth() > MAX_DEPTH {
            let reason =
                format!("a tuple of {} tensors in {} levels is too large", tuple.tensors(), tuple.depth());
            return Err(self.tuple_error(operator, reason));
        }
        match operator.outputs() {
            [output] => drop(self.values.insert(*output, tuple)),
            outputs => {
                return Err(
                    self.tuple_error(operator, format!("{} outputs where 1 is needed", outputs.len()))
                );
            }
        }
        Ok(())
    }

    pub(super) fn unpack_tuple(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let items = match self.inputs_of(operator)?.as_slice() {
            [Value::Tuple(tuple)] => tuple.items.clone(),
            _ => return Err(self.tuple_error(operator, "its input is no tuple".to_owned())),
        };
        let outputs = operator.outputs();
        if items.len() != outputs.len() {
            let reason = format!("it unpacks {} items from a tuple of {}", outputs.len(), items.len());
            return Err(self.tuple_error(operator, reason));
        }
        for (item, &output) in items.into_iter().zip(outputs) {
            self.rename(&item, output);
            self.values.insert(output, item);
        }
        Ok(())
    }

    /// An item of a tuple that a layer returned has no name of its own until it is unpacked.
    fn rename(&mut self, item: &Value, output: OperandId) {
        let Value::Tensor(index) = item else { return };
        let runtime = &self.result.operands[index.0];
        if runtime.shape.is_none() && runtime.dtype.is_none() {
            self.name_operand(*index, output);
        }
    }

    /// The outputs of an operator; the items of the only one, where that is a tuple which the file unpacks.
    pub(super) fn outputs_in_use<'o>(&'o self, operator: &'o pnnx::Operator) -> &'o [OperandId] {
        match operator.outputs() {
            [tuple] => self.unpack_of(*tuple).map_or(operator.outputs(), pnnx::Operator::outputs),
            outputs => outputs,
        }
    }

    pub(super) fn is_unpacked(&self, operand: OperandId) -> bool {
        self.unpack_of(operand).is_some()
    }

    /// The operator that unpacks a tuple; where there are several, one that makes the most of it.
    fn unpack_of(&self, operand: OperandId) -> Option<&pnnx::Operator> {
        let consumers = self.file.operand(operand).consumers().iter().map(|&id| self.file.operator(id));
        consumers.filter(|consumer| is_unpack(consumer)).max_by_key(|unpack| unpack.outputs().len())
    }

    pub(super) fn tuple_error(&self, operator: &pnnx::Operator, reason: String) -> GraphError {
        GraphError::Tuple { place: place_of(operator, self.path), reason }
    }
}

fn is_unpack(operator: &pnnx::Operator) -> bool {
    matches!(operator.op_type(), "prim::TupleUnpack" | "prim::ListUnpack")
}
