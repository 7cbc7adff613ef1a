//! Tuples, lists and dictionaries: construction, unpacking, and expressions that are lists of indices.

use super::Converter;
use super::arguments::{Arguments, reads_as_parameter};
use crate::graph::draft::{Value, pack, unpack};
use crate::graph::{GraphError, OperatorPlace};
use crate::pnnx::{self, Expr, OperandId, OperatorId};

/// The maximum nesting depth of tuples. PyTorch models have two or three levels.
const MAX_DEPTH: usize = 64;

impl Converter<'_> {
    pub(super) fn add_tuple(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let items = self.inputs_of(operator)?;
        self.set_tuple(operator, items)
    }

    /// Adds the values of a dictionary as a tuple, in order. The inputs are alternating keys and values; keys are constants.
    pub(super) fn add_dict(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let inputs = self.inputs_of(operator)?;
        let (keys, rest) = (inputs.iter().step_by(2), inputs.len() % 2);
        if rest != 0 || !keys.clone().all(|key| matches!(key, Value::Constant(_))) {
            return Err(self.tuple_error(
                operator,
                "expected a constant key for each value of the dictionary".to_owned(),
            ));
        }
        self.set_tuple(operator, inputs.into_iter().skip(1).step_by(2).collect())
    }

    /// Returns true if an expression is a list that is only read by operators that take lists of tensors: such a list may
    /// contain `None`, masks, and tensors of different shapes.
    pub(super) fn is_index_list(&self, operator: &pnnx::Operator) -> bool {
        let is_list = operator.param("expr").is_some_and(|expr| expr.raw().starts_with('['));
        let [output] = operator.outputs() else { return false };
        let consumers = self.file.operand(*output).consumers();
        let takes_tensors = |id: &OperatorId| {
            let consumer = self.file.operator(*id);
            let creator = self.registry.known(consumer.op_type());
            match consumer.op_type() {
                "pnnx.Output" | "prim::TupleConstruct" => true,
                // Such an operator may have lists of numbers as well.
                _ if creator.is_some_and(|creator| reads_as_parameter(consumer, creator, *output)) => false,
                op_type => self.fact_holds(op_type, |creator| creator.takes_tensors),
            }
        };
        // With other parameters, the layer of the expression reports the error.
        let has_no_others = operator.params().len() == 1;
        is_list
            && has_no_others
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
        self.set_tuple(operator, list)
    }

    fn set_tuple(&mut self, operator: &pnnx::Operator, items: Vec<Value>) -> Result<(), GraphError> {
        let tensors = items.iter().map(Value::tensors).fold(0, usize::saturating_add);
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        if tensors > self.limits.max_ops || depth > MAX_DEPTH {
            let reason = format!("a tuple of {tensors} tensors in {depth} levels is too large");
            return Err(self.tuple_error(operator, reason));
        }
        pack(&mut self.draft, operator, items).map_err(|reason| self.tuple_error(operator, reason))
    }

    pub(super) fn unpack_tuple(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let values = self.inputs_of(operator)?;
        let [tuple] = values.as_slice() else {
            return Err(self.tuple_error(operator, "its input is not a tuple".to_owned()));
        };
        unpack(&mut self.draft, operator, tuple).map_err(|reason| self.tuple_error(operator, reason))?;
        for &output in operator.outputs() {
            self.rename(output);
        }
        Ok(())
    }

    /// Names an item of a tuple that a layer returned: it has no name until it is unpacked.
    pub(super) fn rename(&mut self, output: OperandId) {
        let Some(&Value::Tensor(index)) = self.draft.values.get(&output) else { return };
        let runtime = &self.draft.operands[index.0];
        if runtime.shape.is_none() && runtime.dtype.is_none() {
            self.name_operand(index, output);
        }
    }

    /// The outputs of an operator. If the only or the last one is a tuple that the file unpacks, its items are in its place.
    pub(super) fn outputs_in_use(&self, operator: &pnnx::Operator) -> Vec<OperandId> {
        let Some((last, others)) = operator.outputs().split_last() else { return Vec::new() };
        let items = self.items_of(*last).unwrap_or(std::slice::from_ref(last));
        [others, items].concat()
    }

    /// The items of a tuple that the file unpacks.
    pub(super) fn items_of(&self, operand: OperandId) -> Option<&[OperandId]> {
        self.unpack_of(operand).map(pnnx::Operator::outputs)
    }

    pub(super) fn is_unpacked(&self, operand: OperandId) -> bool {
        self.unpack_of(operand).is_some()
    }

    /// The operator that unpacks a tuple; if there are several, one with the most outputs.
    fn unpack_of(&self, operand: OperandId) -> Option<&pnnx::Operator> {
        let consumers = self.file.operand(operand).consumers().iter().map(|&id| self.file.operator(id));
        consumers.filter(|consumer| is_unpack(consumer)).max_by_key(|unpack| unpack.outputs().len())
    }

    pub(super) fn tuple_error(&self, operator: &pnnx::Operator, reason: String) -> GraphError {
        GraphError::Tuple { place: OperatorPlace::of(operator, self.path), reason }
    }
}

fn is_unpack(operator: &pnnx::Operator) -> bool {
    matches!(operator.op_type(), "prim::TupleUnpack" | "prim::ListUnpack")
}
