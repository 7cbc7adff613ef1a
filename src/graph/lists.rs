//! Lists of scripted models: `append`, and items of the lists that operators return.
//!
//! Traced models unpack their lists (`prim::ListUnpack`), so the number of items is in the file. Scripted models read single
//! items (`aten::__getitem__`), so the number has to follow from the arguments of the operator that returns the list.

use super::convert::literal;
use crate::pnnx::{Dim, Graph, GraphError, OperandId, Operator, OperatorId, Parameter};
use std::collections::HashMap;
use std::sync::Arc;

/// The type of a list of operands.
pub(super) const LIST: &str = "prim::ListConstruct";

/// The maximum number of items that are added, and of inputs that are changed: a small file could describe huge lists.
const MAX_CHANGES: usize = 1 << 16;

/// The lists of a file.
pub(super) struct Lists {
    /// The position of each operator of the file in the order of execution.
    positions: HashMap<OperatorId, usize>,
    /// The items of lists that were unpacked; none if the number of items is not known.
    unpacked: HashMap<OperandId, Arc<[OperandId]>>,
    /// The number of changes that are still allowed.
    room: usize,
}

impl Lists {
    /// The lists of a file, none of which has changed yet.
    pub(super) fn of(file: &Graph) -> Self {
        let positions = file.operator_ids().iter().enumerate().map(|(position, &id)| (id, position));
        Self { positions: positions.collect(), unpacked: HashMap::new(), room: MAX_CHANGES }
    }

    /// Turns `append` into a list of all items, which all later operators read. It stays as it is if the items of the list are
    /// not known, or if another list or tuple contains the list.
    ///
    /// # Errors
    /// Fails if the graph rejects an edit.
    pub(super) fn append(&mut self, file: &mut Graph, id: OperatorId) -> Result<(), GraphError> {
        let operator = file.operator(id);
        let (&[list, item], &[longer]) = (operator.inputs(), operator.outputs()) else { return Ok(()) };
        let Some(mut items) = constructed(file, list) else { return Ok(()) };
        let is_later = |consumer: &OperatorId| self.positions.get(consumer) > self.positions.get(&id);
        let consumers = file.operand(list).consumers().iter().copied().filter(|&consumer| consumer != id);
        let (later, earlier): (Vec<OperatorId>, Vec<OperatorId>) = consumers.partition(is_later);
        let contains = |&consumer: &OperatorId| file.operator(consumer).op_type().starts_with("prim::");
        let Some(room) = self.room.checked_sub(items.len() + later.len()) else { return Ok(()) };
        if earlier.iter().any(contains) {
            return Ok(());
        }
        self.room = room;
        items.push(item);
        file.set_op_type(id, LIST)?;
        file.disconnect_input(id, 1)?;
        file.disconnect_input(id, 0)?;
        for item in items {
            file.connect_input(id, item, None)?;
        }
        if earlier.is_empty() {
            file.replace_uses(list, longer)?;
            return Ok(());
        }
        for consumer in later {
            for index in 0..file.operator(consumer).inputs().len() {
                if file.operator(consumer).inputs().get(index) == Some(&list) {
                    file.replace_input(consumer, index, longer)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the consumers of an item of a list that an operator returns read an output of a `prim::ListUnpack`. Returns true
    /// if the operator that reads the item is then unused. It stays as it is if the number of items is not known.
    ///
    /// # Errors
    /// Fails if the graph rejects an edit.
    pub(super) fn unpack(&mut self, file: &mut Graph, id: OperatorId) -> Result<bool, GraphError> {
        let operator = file.operator(id);
        let (&[list, index], &[item]) = (operator.inputs(), operator.outputs()) else { return Ok(false) };
        let Some(Ok(index)) = constant(file, index).map(|index| index.as_i64()) else { return Ok(false) };
        let items = match self.unpacked.get(&list) {
            Some(items) => Arc::clone(items),
            None => {
                let items: Arc<[OperandId]> = self.items(file, list)?.into();
                self.unpacked.insert(list, Arc::clone(&items));
                items
            }
        };
        let Some(&unpacked) = position(index, items.len()).and_then(|position| items.get(position)) else {
            return Ok(false);
        };
        let (dtype, shape) = (file.operand(item).dtype(), file.operand(item).shape().map(<[_]>::to_vec));
        file.set_operand_type(unpacked, dtype, shape)?;
        file.replace_uses(item, unpacked)?;
        Ok(true)
    }

    /// Unpacks a list that an operator returns. Returns the items, or none if their number is not known.
    fn items(&mut self, file: &mut Graph, list: OperandId) -> Result<Vec<OperandId>, GraphError> {
        let operand = file.operand(list);
        let producer = operand.producer().filter(|&producer| file.operator(producer).outputs().len() == 1);
        let counted = producer.and_then(|producer| Some((producer, count(file, file.operator(producer))?)));
        let room = counted.and_then(|(_, count)| self.room.checked_sub(count));
        let (Some((producer, count)), Some(room)) = (counted, room) else { return Ok(Vec::new()) };
        self.room = room;
        let (name, of) = (file.operator(producer).name().to_owned(), operand.name().to_owned());
        let name = fresh(&format!("{name}.items"), |name| file.operator_named(name).is_some());
        let unpack = file.new_operator_after("prim::ListUnpack", &name, producer)?;
        file.connect_input(unpack, list, None)?;
        let mut items = Vec::new();
        for number in 0..count {
            let name = fresh(&format!("{of}.{number}"), |name| file.operand_named(name).is_some());
            let item = file.new_operand(&name)?;
            file.connect_output(unpack, item)?;
            items.push(item);
        }
        Ok(items)
    }
}

/// The items of a list that the file constructs. PNNX writes `None` for an empty one.
fn constructed(file: &Graph, list: OperandId) -> Option<Vec<OperandId>> {
    let producer = file.operator(file.operand(list).producer()?);
    match literal(producer) {
        Some(raw) => matches!(raw.as_str(), "None" | "()" | "[]").then(Vec::new),
        None => (producer.op_type() == LIST).then(|| producer.inputs().to_vec()),
    }
}

/// The value of an operand that is a constant.
fn constant(file: &Graph, operand: OperandId) -> Option<Parameter> {
    let producer = file.operand(operand).producer()?;
    literal(file.operator(producer)).map(|raw| Parameter::parse(&raw))
}

/// The number of items of the list that an operator returns, which follows from the number of chunks, from the lengths of the
/// parts, or from the length of the axis that is divided.
fn count(file: &Graph, operator: &Operator) -> Option<usize> {
    let argument = |key: &str| match operator.param(key) {
        Some(parameter) => Some(parameter.clone()),
        None => constant(file, operator.named_input(key)?),
    };
    let divided = || {
        let shape = file.operand(*operator.inputs().first()?).shape()?;
        let dim = match argument("dim") {
            Some(dim) => dim.as_i64().ok()?,
            None if operator.named_input("dim").is_none() => 0,
            None => return None,
        };
        match shape.get(position(dim, shape.len())?)? {
            Dim::Fixed(len) => Some(*len),
            Dim::Unknown | Dim::Named(_) => None,
        }
    };
    if let Some(chunks) = argument("chunks") {
        let chunks = u64::try_from(chunks.as_i64().ok()?).ok()?;
        // All but the last have the length of the first, so there may be fewer: 5 elements in 4 chunks are 2, 2 and 1.
        let fewer = divided().filter(|&len| len > 0 && chunks > 0);
        let fewer = fewer.map(|len| len.div_ceil(len.div_ceil(chunks)));
        return usize::try_from(fewer.unwrap_or(chunks)).ok();
    }
    let length = match argument("split_size_or_sections") {
        Some(parameter) => match parameter.as_i64s() {
            Ok(lengths) => return Some(lengths.len()),
            Err(_) => u64::try_from(parameter.as_i64().ok()?).ok().filter(|&length| length > 0)?,
        },
        None if operator.op_type() == "torch.unbind" => 1,
        None => return None,
    };
    usize::try_from(divided()?.div_ceil(length).max(1)).ok()
}

/// The position for an index, which counts from the end if it is negative; `None` if it is out of range.
pub(super) fn position(index: i64, len: usize) -> Option<usize> {
    let from_start = if index < 0 { index.checked_add(i64::try_from(len).ok()?)? } else { index };
    usize::try_from(from_start).ok().filter(|&position| position < len)
}

/// The name, with a number if it is taken.
pub(super) fn fresh(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut free = name.to_owned();
    let mut number = 2usize;
    while is_taken(&free) {
        free = format!("{name}@{number}");
        number += 1;
    }
    free
}
