//! Changing a graph. Every method keeps both ends of each link, the names and the order in step, and refuses
//! what would not survive being written and loaded again.

use super::{Graph, GraphError};
use crate::attribute::Attribute;
use crate::operand::{Dim, Operand, OperandId};
use crate::operator::{Operator, OperatorId};
use crate::parameter::Parameter;
use crate::text::is_blank;
use ixion_tensor::DType;
use std::sync::Arc;

type Edit<T = ()> = Result<T, GraphError>;

/// Adding, renaming and removing operators and operands.
impl Graph {
    /// Adds an operator at the end.
    ///
    /// # Errors
    /// When the name is taken, or type or name cannot be written.
    pub fn new_operator(&mut self, op_type: &str, name: &str) -> Edit<OperatorId> {
        self.insert_operator(op_type, name, self.order.len())
    }

    /// Adds an operator that is executed just before `at`, whose line of the text it is said to stand in.
    ///
    /// # Errors
    /// As [`Graph::new_operator`], and when `at` is not in the graph.
    pub fn new_operator_before(&mut self, op_type: &str, name: &str, at: OperatorId) -> Edit<OperatorId> {
        let position = self.position(at)?;
        let new = self.insert_operator(op_type, name, position)?;
        self.operator_mut(new)?.line = self.operator_mut(at)?.line;
        Ok(new)
    }

    /// Adds an operator that is executed just after `at`, whose line of the text it is said to stand in.
    ///
    /// # Errors
    /// As [`Graph::new_operator_before`].
    pub fn new_operator_after(&mut self, op_type: &str, name: &str, at: OperatorId) -> Edit<OperatorId> {
        let position = self.position(at)?;
        let new = self.insert_operator(op_type, name, position + 1)?;
        self.operator_mut(new)?.line = self.operator_mut(at)?.line;
        Ok(new)
    }

    /// Gives the inputs of an operator these names, one for each. The text cannot always tell which of two inputs is
    /// named where both are the same operand.
    ///
    /// # Errors
    /// [`GraphError`] when there is no such operator, or it has another number of inputs.
    pub fn set_input_names(&mut self, id: OperatorId, names: Vec<Option<String>>) -> Edit {
        let operator = self.operator_mut(id)?;
        let count = operator.inputs.len();
        if names.len() != count {
            let (operator, index) = (operator.name.to_string(), names.len());
            return Err(GraphError::NoSuchInput { operator, index, count });
        }
        operator.input_names = names.into_iter().collect();
        Ok(())
    }

    /// Says in which line of the text an operator stands, for one that takes the place of another.
    ///
    /// # Errors
    /// When the operator is not in the graph.
    pub fn set_line(&mut self, id: OperatorId, line: Option<usize>) -> Edit {
        self.operator_mut(id)?.line = line;
        Ok(())
    }

    fn insert_operator(&mut self, op_type: &str, name: &str, position: usize) -> Edit<OperatorId> {
        check_word("operator type", op_type)?;
        check_word("operator name", name)?;
        if self.operators_by_name.contains_key(name) {
            return Err(GraphError::DuplicateOperator { name: name.to_owned() });
        }
        let id = OperatorId::at(self.operators.len()).ok_or(GraphError::TooMany)?;
        let name: Arc<str> = name.into();
        self.operators.push(Some(Operator::new(op_type.to_owned(), Arc::clone(&name))));
        self.operators_by_name.insert(name, id);
        self.order.insert(position, id);
        Ok(id)
    }

    fn position(&self, id: OperatorId) -> Edit<usize> {
        self.order.iter().position(|&other| other == id).ok_or(GraphError::NoSuchOperator)
    }

    /// Adds an operand without producer and consumers.
    ///
    /// # Errors
    /// When the name is taken or cannot be written.
    pub fn new_operand(&mut self, name: &str) -> Edit<OperandId> {
        check_operand_name(name)?;
        if self.operands_by_name.contains_key(name) {
            return Err(GraphError::DuplicateOperand { name: name.to_owned() });
        }
        let id = OperandId::at(self.operands.len()).ok_or(GraphError::TooMany)?;
        let name: Arc<str> = name.into();
        self.operands.push(Some(Operand::new(Arc::clone(&name))));
        self.operands_by_name.insert(name, id);
        Ok(id)
    }

    /// Gives an operator another name. Its attributes keep their bytes.
    ///
    /// # Errors
    /// When the name is taken or cannot be written, or the operator is not in the graph.
    pub fn rename_operator(&mut self, id: OperatorId, name: &str) -> Edit {
        check_word("operator name", name)?;
        match self.operator_named(name) {
            Some(other) if other == id => return Ok(()),
            Some(_) => {
                return Err(GraphError::DuplicateOperator { name: name.to_owned() });
            }
            None => {}
        }
        let name: Arc<str> = name.into();
        let old = std::mem::replace(&mut self.operator_mut(id)?.name, Arc::clone(&name));
        self.operators_by_name.remove(&old);
        self.operators_by_name.insert(name, id);
        Ok(())
    }

    /// Gives an operand another name.
    ///
    /// # Errors
    /// When the name is taken or cannot be written, or the operand is not in the graph.
    pub fn rename_operand(&mut self, id: OperandId, name: &str) -> Edit {
        check_operand_name(name)?;
        match self.operand_named(name) {
            Some(other) if other == id => return Ok(()),
            Some(_) => {
                return Err(GraphError::DuplicateOperand { name: name.to_owned() });
            }
            None => {}
        }
        let name: Arc<str> = name.into();
        let old = std::mem::replace(&mut self.operand_mut(id)?.name, Arc::clone(&name));
        self.operands_by_name.remove(&old);
        self.operands_by_name.insert(name, id);
        Ok(())
    }

    /// Changes an operator's type and nothing else.
    ///
    /// # Errors
    /// When the type cannot be written or the operator is not in the graph.
    pub fn set_op_type(&mut self, id: OperatorId, op_type: &str) -> Edit {
        check_word("operator type", op_type)?;
        self.operator_mut(id)?.op_type = op_type.to_owned();
        Ok(())
    }

    /// Removes an operator together with its outputs, and gives it back. The outputs in it are no longer in
    /// the graph.
    ///
    /// # Errors
    /// When an output is still used, or the operator is not in the graph.
    pub fn remove_operator(&mut self, id: OperatorId) -> Edit<Operator> {
        let position = self.position(id)?;
        let outputs = self.try_operator(id)?.outputs.clone();
        for &output in &outputs {
            self.check_unused(output)?;
        }
        for index in (0..self.try_operator(id)?.inputs.len()).rev() {
            self.unlink_input(id, index)?;
        }
        for &output in &outputs {
            self.drop_operand(output);
        }
        self.order.remove(position);
        let removed =
            self.operators.get_mut(id.place()).and_then(Option::take).ok_or(GraphError::NoSuchOperator)?;
        self.operators_by_name.remove(&removed.name);
        Ok(removed)
    }

    /// Removes an operand that is neither computed nor used.
    ///
    /// # Errors
    /// When it is, or is not in the graph.
    pub fn remove_operand(&mut self, id: OperandId) -> Edit {
        self.check_unused(id)?;
        self.check_unproduced(id)?;
        self.drop_operand(id);
        Ok(())
    }

    fn drop_operand(&mut self, id: OperandId) {
        if let Some(operand) = self.operands.get_mut(id.place()).and_then(Option::take) {
            self.operands_by_name.remove(&operand.name);
        }
    }
}

/// Links between operators and operands.
impl Graph {
    /// Adds an input to an operator, after those that it has, with its argument name if it has one.
    ///
    /// # Errors
    /// When one of them is not in the graph or the name cannot be written.
    pub fn connect_input(&mut self, operator: OperatorId, operand: OperandId, name: Option<&str>) -> Edit {
        name.map_or(Ok(()), |name| check_key("input name", name))?;
        self.try_operator(operator)?;
        self.operand_mut(operand)?.add_consumer(operator);
        let operator = self.operator_mut(operator)?;
        operator.inputs.push(operand);
        operator.input_names.push(name.map(str::to_owned));
        Ok(())
    }

    /// Adds an output to an operator, after those that it has.
    ///
    /// # Errors
    /// When the operand already has a producer, or one of them is not in the graph.
    pub fn connect_output(&mut self, operator: OperatorId, operand: OperandId) -> Edit {
        self.try_operator(operator)?;
        self.check_unproduced(operand)?;
        self.operand_mut(operand)?.producer = Some(operator);
        self.operator_mut(operator)?.outputs.push(operand);
        Ok(())
    }

    /// Takes input number `index` away from an operator; later ones move up.
    ///
    /// # Errors
    /// When there is no such input or operator.
    pub fn disconnect_input(&mut self, operator: OperatorId, index: usize) -> Edit {
        self.check_input(operator, index)?;
        self.unlink_input(operator, index)?;
        let operator = self.operator_mut(operator)?;
        operator.inputs.remove(index);
        operator.input_names.remove(index);
        Ok(())
    }

    /// Takes an output away from an operator. The operand stays, with its consumers, and can be connected to
    /// another operator.
    ///
    /// # Errors
    /// When the operator does not compute the operand, or one of them is not in the graph.
    pub fn disconnect_output(&mut self, operator: OperatorId, operand: OperandId) -> Edit {
        let name = self.try_operand(operand)?.name.to_string();
        let found = self.operator_mut(operator)?;
        let Some(index) = found.outputs.iter().position(|&output| output == operand) else {
            return Err(GraphError::NotAnOutput { operator: found.name.to_string(), operand: name });
        };
        found.outputs.remove(index);
        self.operand_mut(operand)?.producer = None;
        Ok(())
    }

    /// Makes an operator read `operand` as its input number `index`. The input keeps its argument name.
    ///
    /// # Errors
    /// When there is no such input, or one of them is not in the graph.
    pub fn replace_input(&mut self, operator: OperatorId, index: usize, operand: OperandId) -> Edit {
        self.check_input(operator, index)?;
        self.try_operand(operand)?;
        self.unlink_input(operator, index)?;
        if let Some(input) = self.operator_mut(operator)?.inputs.get_mut(index) {
            *input = operand;
        }
        self.operand_mut(operand)?.add_consumer(operator);
        Ok(())
    }

    /// Makes everybody who reads `old` read `new`, and returns the number of uses that changed.
    ///
    /// # Errors
    /// When one of them is not in the graph.
    pub fn replace_uses(&mut self, old: OperandId, new: OperandId) -> Edit<usize> {
        self.try_operand(new)?;
        let consumers = self.try_operand(old)?.consumers.clone();
        if old == new {
            return Ok(0);
        }
        self.operand_mut(old)?.consumers.clear();
        for &consumer in &consumers {
            // An operator that uses `old` twice is there twice: the first time finds both uses.
            for input in self.operator_mut(consumer)?.inputs.iter_mut().filter(|input| **input == old) {
                *input = new;
            }
            self.operand_mut(new)?.add_consumer(consumer);
        }
        Ok(consumers.len())
    }

    /// Tells the operand of an input that one use is gone.
    fn unlink_input(&mut self, operator: OperatorId, index: usize) -> Edit {
        if let Some(&operand) = self.try_operator(operator)?.inputs.get(index) {
            self.operand_mut(operand)?.remove_consumer(operator);
        }
        Ok(())
    }
}

/// Settings, weights, shapes.
impl Graph {
    /// Sets a parameter of an operator and returns the one that it replaces.
    ///
    /// # Errors
    /// When key or value cannot be written, or the operator is not in the graph.
    pub fn set_param(
        &mut self,
        id: OperatorId,
        key: &str,
        value: impl Into<Parameter>,
    ) -> Edit<Option<Parameter>> {
        let value = value.into();
        check_key("parameter key", key)?;
        check_blanks("parameter value", value.raw())?;
        Ok(self.operator_mut(id)?.params.insert(key.to_owned(), value))
    }

    /// Removes a parameter of an operator and returns it.
    ///
    /// # Errors
    /// When the operator is not in the graph.
    pub fn remove_param(&mut self, id: OperatorId, key: &str) -> Edit<Option<Parameter>> {
        Ok(self.operator_mut(id)?.params.remove(key))
    }

    /// Sets an attribute of an operator and returns the one that it replaces.
    ///
    /// # Errors
    /// When the key cannot be written, or the operator is not in the graph.
    pub fn set_attribute(&mut self, id: OperatorId, key: &str, value: Attribute) -> Edit<Option<Attribute>> {
        check_key("attribute key", key)?;
        Ok(self.operator_mut(id)?.attrs.insert(key.to_owned(), value))
    }

    /// Removes an attribute of an operator and returns it.
    ///
    /// # Errors
    /// When the operator is not in the graph.
    pub fn remove_attribute(&mut self, id: OperatorId, key: &str) -> Edit<Option<Attribute>> {
        Ok(self.operator_mut(id)?.attrs.remove(key))
    }

    /// Records element type and shape of an operand. The `.param` text has no place for those of a scalar.
    ///
    /// # Errors
    /// When the operand is not in the graph or a named size cannot be written.
    pub fn set_operand_type(&mut self, id: OperandId, dtype: Option<DType>, shape: Option<Vec<Dim>>) -> Edit {
        for dim in shape.iter().flatten() {
            if let Dim::Named(name) = dim {
                check_dim_name(name)?;
            }
        }
        let operand = self.operand_mut(id)?;
        operand.dtype = dtype;
        operand.shape = shape;
        Ok(())
    }

    /// Attaches a note to an operand and returns the one that it replaces. Notes are not written.
    ///
    /// # Errors
    /// When the operand is not in the graph.
    pub fn set_operand_param(
        &mut self,
        id: OperandId,
        key: &str,
        value: impl Into<Parameter>,
    ) -> Edit<Option<Parameter>> {
        Ok(self.operand_mut(id)?.params.insert(key.to_owned(), value.into()))
    }
}

/// Look-ups that end in an error, and checks.
impl Graph {
    fn try_operator(&self, id: OperatorId) -> Edit<&Operator> {
        self.get_operator(id).ok_or(GraphError::NoSuchOperator)
    }

    fn try_operand(&self, id: OperandId) -> Edit<&Operand> {
        self.get_operand(id).ok_or(GraphError::NoSuchOperand)
    }

    /// The operator, to be changed.
    pub fn operator_mut(&mut self, id: OperatorId) -> Edit<&mut Operator> {
        self.operators.get_mut(id.place()).and_then(Option::as_mut).ok_or(GraphError::NoSuchOperator)
    }

    /// The operand, to be changed.
    pub fn operand_mut(&mut self, id: OperandId) -> Edit<&mut Operand> {
        self.operands.get_mut(id.place()).and_then(Option::as_mut).ok_or(GraphError::NoSuchOperand)
    }

    fn check_input(&self, operator: OperatorId, index: usize) -> Edit {
        let operator = self.try_operator(operator)?;
        let count = operator.inputs.len();
        if index < count {
            return Ok(());
        }
        Err(GraphError::NoSuchInput { operator: operator.name.to_string(), index, count })
    }

    fn check_unused(&self, id: OperandId) -> Edit {
        let operand = self.try_operand(id)?;
        match operand.consumers.first() {
            None => Ok(()),
            Some(&consumer) => {
                let consumer = self.try_operator(consumer)?.name.to_string();
                Err(GraphError::StillUsed { operand: operand.name.to_string(), consumer })
            }
        }
    }

    fn check_unproduced(&self, id: OperandId) -> Edit {
        let operand = self.try_operand(id)?;
        match operand.producer {
            None => Ok(()),
            Some(producer) => {
                let producer = self.try_operator(producer)?.name.to_string();
                Err(GraphError::AlreadyProduced { operand: operand.name.to_string(), producer })
            }
        }
    }
}

/// The text separates words by blanks and has no quoting.
fn check_blanks(what: &'static str, text: &str) -> Edit {
    if text.contains(|c| is_blank(c) || c == '\n') {
        return unwritable(what, text, "it contains a blank");
    }
    Ok(())
}

fn check_word(what: &'static str, text: &str) -> Edit {
    if text.is_empty() {
        return unwritable(what, text, "it is empty");
    }
    check_blanks(what, text)
}

fn check_operand_name(text: &str) -> Edit {
    check_word("operand name", text)?;
    if text.contains('=') {
        return unwritable("operand name", text, "it contains `=`");
    }
    Ok(())
}

fn check_key(what: &'static str, text: &str) -> Edit {
    check_word(what, text)?;
    if text.contains('=') {
        return unwritable(what, text, "it contains `=`");
    }
    if what == "parameter key" && text.starts_with(['@', '$', '#']) {
        return unwritable(what, text, "it starts with `@`, `$` or `#`");
    }
    Ok(())
}

fn check_dim_name(text: &str) -> Edit {
    check_word("size name", text)?;
    if text.contains([',', ')']) {
        return unwritable("size name", text, "it contains `,` or `)`");
    }
    Ok(())
}

fn unwritable(what: &'static str, text: &str, reason: &'static str) -> Edit {
    Err(GraphError::Unwritable { what, text: text.to_owned(), reason })
}

#[cfg(test)]
mod tests;
