//! Editing a graph. Every method keeps both ends of each link, the names and the order consistent, and rejects
//! edits that could not be written and loaded again.

use super::{Graph, GraphError};
use crate::attribute::Attribute;
use crate::ids::{OperandId, OperatorId};
use crate::operand::{Dim, Operand};
use crate::operator::Operator;
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
    /// Returns an error if the name is taken, or the type or name cannot be written.
    pub fn new_operator(&mut self, op_type: &str, name: &str) -> Edit<OperatorId> {
        self.insert_operator(op_type, name, self.order.len())
    }

    /// Adds an operator that is executed just before `at`, and takes its line number from `at`.
    ///
    /// # Errors
    /// Same as [`Graph::new_operator`], and if `at` is not in the graph.
    pub fn new_operator_before(&mut self, op_type: &str, name: &str, at: OperatorId) -> Edit<OperatorId> {
        let position = self.position(at)?;
        let new = self.insert_operator(op_type, name, position)?;
        self.operator_mut(new)?.line = self.operator_mut(at)?.line;
        Ok(new)
    }

    /// Adds an operator that is executed just after `at`, and takes its line number from `at`.
    ///
    /// # Errors
    /// Same as [`Graph::new_operator_before`].
    pub fn new_operator_after(&mut self, op_type: &str, name: &str, at: OperatorId) -> Edit<OperatorId> {
        let position = self.position(at)?;
        let new = self.insert_operator(op_type, name, position + 1)?;
        self.operator_mut(new)?.line = self.operator_mut(at)?.line;
        Ok(new)
    }

    /// Sets the argument names of all inputs of an operator. The text cannot always express which of two inputs has a
    /// name if both are the same operand.
    ///
    /// # Errors
    /// [`GraphError`] if the operator is not in the graph, or does not have as many inputs as there are names.
    pub fn set_input_names(&mut self, id: OperatorId, names: Vec<Option<String>>) -> Edit {
        let operator = self.operator_mut(id)?;
        let count = operator.inputs.len();
        if names.len() != count {
            let (operator, found) = (operator.name.to_string(), names.len());
            return Err(GraphError::InputNames { operator, found, count });
        }
        operator.input_names = names.into_iter().collect();
        Ok(())
    }

    /// Sets the line number of an operator, for an operator that replaces another.
    ///
    /// # Errors
    /// Returns an error if the operator is not in the graph.
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

    /// Adds an operand without producer or consumers.
    ///
    /// # Errors
    /// Returns an error if the name is taken or cannot be written.
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

    /// Renames an operator, also in the text. Its attributes keep their bytes.
    ///
    /// # Errors
    /// Returns an error if the name is taken or cannot be written, or the operator is not in the graph.
    pub fn rename_operator(&mut self, id: OperatorId, name: &str) -> Edit {
        check_word("operator name", name)?;
        match self.operator_named(name) {
            Some(other) if other == id => {
                self.operator_mut(id)?.written_name = None;
                return Ok(());
            }
            Some(_) => {
                return Err(GraphError::DuplicateOperator { name: name.to_owned() });
            }
            None => {}
        }
        let name: Arc<str> = name.into();
        let operator = self.operator_mut(id)?;
        operator.written_name = None;
        let old = std::mem::replace(&mut operator.name, Arc::clone(&name));
        self.operators_by_name.remove(&old);
        self.operators_by_name.insert(name, id);
        Ok(())
    }

    /// Writes every operator with its unique name from now on, also those whose names the text repeated: see
    /// [`Operator::written_name`].
    pub fn write_unique_names(&mut self) {
        self.operators.iter_mut().flatten().for_each(|operator| operator.written_name = None);
    }

    /// Renames an operand.
    ///
    /// # Errors
    /// Returns an error if the name is taken or cannot be written, or the operand is not in the graph.
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
    /// Returns an error if the type cannot be written or the operator is not in the graph.
    pub fn set_op_type(&mut self, id: OperatorId, op_type: &str) -> Edit {
        check_word("operator type", op_type)?;
        self.operator_mut(id)?.op_type = op_type.to_owned();
        Ok(())
    }

    /// Removes an operator together with its outputs, and returns it. Its output ids are no longer in the graph.
    ///
    /// # Errors
    /// Returns an error if an output is still used, or the operator is not in the graph.
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
            self.operators.get_mut(id.index()).and_then(Option::take).ok_or(GraphError::NoSuchOperator)?;
        self.operators_by_name.remove(&removed.name);
        Ok(removed)
    }

    /// Removes an operand that has neither a producer nor consumers.
    ///
    /// # Errors
    /// Returns an error if the operand has any, or is not in the graph.
    pub fn remove_operand(&mut self, id: OperandId) -> Edit {
        self.check_unused(id)?;
        self.check_unproduced(id)?;
        self.drop_operand(id);
        Ok(())
    }

    fn drop_operand(&mut self, id: OperandId) {
        if let Some(operand) = self.operands.get_mut(id.index()).and_then(Option::take) {
            self.operands_by_name.remove(&operand.name);
        }
    }
}

/// Links between operators and operands.
impl Graph {
    /// Appends an input to an operator, with an optional argument name.
    ///
    /// # Errors
    /// Returns an error if the operator or operand is not in the graph, or the name cannot be written.
    pub fn connect_input(&mut self, operator: OperatorId, operand: OperandId, name: Option<&str>) -> Edit {
        name.map_or(Ok(()), |name| check_key("input name", name))?;
        self.try_operator(operator)?;
        self.operand_mut(operand)?.add_consumer(operator);
        let operator = self.operator_mut(operator)?;
        operator.inputs.push(operand);
        operator.input_names.push(name.map(str::to_owned));
        Ok(())
    }

    /// Appends an output to an operator.
    ///
    /// # Errors
    /// Returns an error if the operand already has a producer, or the operator or operand is not in the graph.
    pub fn connect_output(&mut self, operator: OperatorId, operand: OperandId) -> Edit {
        self.try_operator(operator)?;
        self.check_unproduced(operand)?;
        self.operand_mut(operand)?.producer = Some(operator);
        self.operator_mut(operator)?.outputs.push(operand);
        Ok(())
    }

    /// Removes input number `index`, counted from 0, of an operator; later inputs move up.
    ///
    /// # Errors
    /// Returns an error if there is no such input or operator.
    pub fn disconnect_input(&mut self, operator: OperatorId, index: usize) -> Edit {
        self.check_input(operator, index)?;
        self.unlink_input(operator, index)?;
        let operator = self.operator_mut(operator)?;
        operator.inputs.remove(index);
        operator.input_names.remove(index);
        Ok(())
    }

    /// Removes an output of an operator. The operand keeps its consumers, and can be connected to another
    /// operator.
    ///
    /// # Errors
    /// Returns an error if the operator does not compute the operand, or one of them is not in the graph.
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

    /// Replaces input number `index` of an operator by `operand`. The input keeps its argument name.
    ///
    /// # Errors
    /// Returns an error if there is no such input, or the operator or operand is not in the graph.
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

    /// Replaces all uses of `old` by `new`, and returns their number.
    ///
    /// # Errors
    /// Returns an error if one of them is not in the graph.
    pub fn replace_uses(&mut self, old: OperandId, new: OperandId) -> Edit<usize> {
        self.try_operand(new)?;
        let consumers = self.try_operand(old)?.consumers.clone();
        if old == new {
            return Ok(0);
        }
        self.operand_mut(old)?.consumers.clear();
        for &consumer in &consumers {
            // An operator that uses `old` twice is listed twice; the first visit replaces both uses.
            for input in self.operator_mut(consumer)?.inputs.iter_mut().filter(|input| **input == old) {
                *input = new;
            }
            self.operand_mut(new)?.add_consumer(consumer);
        }
        Ok(consumers.len())
    }

    /// Removes one use by `operator` from the operand of its input number `index`.
    fn unlink_input(&mut self, operator: OperatorId, index: usize) -> Edit {
        if let Some(&operand) = self.try_operator(operator)?.inputs.get(index) {
            self.operand_mut(operand)?.remove_consumer(operator);
        }
        Ok(())
    }
}

/// Parameters, attributes and shapes.
impl Graph {
    /// Sets a parameter of an operator and returns the previous one.
    ///
    /// # Errors
    /// Returns an error if the key or value cannot be written, or the operator is not in the graph.
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
    /// Returns an error if the operator is not in the graph.
    pub fn remove_param(&mut self, id: OperatorId, key: &str) -> Edit<Option<Parameter>> {
        Ok(self.operator_mut(id)?.params.remove(key))
    }

    /// Sets an attribute of an operator and returns the previous one.
    ///
    /// # Errors
    /// Returns an error if the key cannot be written, or the operator is not in the graph.
    pub fn set_attribute(&mut self, id: OperatorId, key: &str, value: Attribute) -> Edit<Option<Attribute>> {
        check_key("attribute key", key)?;
        Ok(self.operator_mut(id)?.attrs.insert(key.to_owned(), value))
    }

    /// Removes an attribute of an operator and returns it.
    ///
    /// # Errors
    /// Returns an error if the operator is not in the graph.
    pub fn remove_attribute(&mut self, id: OperatorId, key: &str) -> Edit<Option<Attribute>> {
        Ok(self.operator_mut(id)?.attrs.remove(key))
    }

    /// Sets the element type and shape of an operand. The `.param` text cannot hold those of a scalar.
    ///
    /// # Errors
    /// Returns an error if the operand is not in the graph, or a named size cannot be written.
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

    /// Attaches a note to an operand and returns the previous one. Notes are not written to the `.param` text.
    ///
    /// # Errors
    /// Returns an error if the operand is not in the graph.
    pub fn set_operand_param(
        &mut self,
        id: OperandId,
        key: &str,
        value: impl Into<Parameter>,
    ) -> Edit<Option<Parameter>> {
        Ok(self.operand_mut(id)?.params.insert(key.to_owned(), value.into()))
    }
}

/// Fallible look-ups, and checks.
impl Graph {
    fn try_operator(&self, id: OperatorId) -> Edit<&Operator> {
        self.get_operator(id).ok_or(GraphError::NoSuchOperator)
    }

    fn try_operand(&self, id: OperandId) -> Edit<&Operand> {
        self.get_operand(id).ok_or(GraphError::NoSuchOperand)
    }

    /// The operator with this id, for editing.
    ///
    /// # Errors
    /// [`GraphError::NoSuchOperator`] if the operator is not in the graph.
    pub fn operator_mut(&mut self, id: OperatorId) -> Edit<&mut Operator> {
        self.operators.get_mut(id.index()).and_then(Option::as_mut).ok_or(GraphError::NoSuchOperator)
    }

    /// The operand with this id, for editing.
    ///
    /// # Errors
    /// [`GraphError::NoSuchOperand`] if the operand is not in the graph.
    pub fn operand_mut(&mut self, id: OperandId) -> Edit<&mut Operand> {
        self.operands.get_mut(id.index()).and_then(Option::as_mut).ok_or(GraphError::NoSuchOperand)
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

/// Rejects blanks: the text separates words by blanks and has no quoting.
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
