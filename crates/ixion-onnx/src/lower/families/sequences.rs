//! Sequences and optional values.
//!
//! They are lists of values that exist only while a model is read: positions and lengths have to be known.

use super::super::{Call, Constant, Value};
use super::stacking::{length, slices, stack, tensors};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use ixion_pnnx::Attribute;
use ixion_tensor::DType;

pub(super) const TABLE: Table = &[
    ("ConcatFromSequence", concatenation),
    ("Optional", optional),
    ("OptionalGetElement", element_of_optional),
    ("OptionalHasElement", has_element),
    ("SequenceAt", at),
    ("SequenceConstruct", construct),
    ("SequenceEmpty", empty),
    ("SequenceErase", erase),
    ("SequenceInsert", insert),
    ("SequenceLength", count),
    ("SequenceMap", map),
    ("SplitToSequence", split),
];

/// The sequence that an input is.
fn sequence(call: &mut Call<'_>, position: usize) -> Result<Vec<Value>, OnnxError> {
    match call.value(position)? {
        Value::Sequence(items) => {
            call.spend_on(items.len())?;
            Ok(items.to_vec())
        }
        _ => Err(call.error(format!("expected input {position} to be a sequence"))),
    }
}

/// A tensor, which is the only kind of element that sequences have.
fn tensor(call: &mut Call<'_>, position: usize) -> Result<Value, OnnxError> {
    let value = call.value(position)?;
    let is_tensor = value.is_tensor();
    is_tensor.then_some(value).ok_or_else(|| call.error(format!("expected input {position} to be a tensor")))
}

/// A position in a sequence of this length; negative ones count from the end. `None` if the input is left out.
fn position(call: &mut Call<'_>, input: usize, len: usize) -> Result<Option<usize>, OnnxError> {
    if !call.has_input(input) {
        return Ok(None);
    }
    let number = call.constant_int(input)?.ok_or_else(|| {
        call.error(
            "the position in a sequence is computed by the graph; Ixion has to know it when the model is read: \
             give it as a constant",
        )
    })?;
    let from_end = i64::try_from(len).ok().and_then(|len| number.checked_add(len));
    let place = if number < 0 { from_end } else { Some(number) };
    let place = place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place <= len);
    place.map(Some).ok_or_else(|| call.error(format!("there is no position {number} in a sequence of {len}")))
}

fn empty(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["dtype"]);
    Ok(vec![Value::sequence(Vec::new())])
}

fn construct(call: &mut Call<'_>) -> Outputs {
    let items = (0..call.num_inputs()).map(|position| tensor(call, position)).collect::<Result<_, _>>()?;
    Ok(vec![Value::sequence(items)])
}

fn at(call: &mut Call<'_>) -> Outputs {
    let items = sequence(call, 0)?;
    let place =
        position(call, 1, items.len())?.ok_or_else(|| call.error("input 1 is required, but left out"))?;
    let len = items.len();
    let item = items.into_iter().nth(place);
    Ok(vec![item.ok_or_else(|| call.error(format!("there is no position {place} in a sequence of {len}")))?])
}

fn insert(call: &mut Call<'_>) -> Outputs {
    let mut items = sequence(call, 0)?;
    let item = tensor(call, 1)?;
    let place = position(call, 2, items.len())?.unwrap_or(items.len());
    items.insert(place.min(items.len()), item);
    Ok(vec![Value::sequence(items)])
}

fn erase(call: &mut Call<'_>) -> Outputs {
    let mut items = sequence(call, 0)?;
    let last = items.len().checked_sub(1).ok_or_else(|| call.error("the sequence is empty"))?;
    let place = position(call, 1, items.len())?.unwrap_or(last);
    if place > last {
        return Err(call.error(format!("there is no position {place} in a sequence of {}", items.len())));
    }
    items.remove(place);
    Ok(vec![Value::sequence(items)])
}

fn count(call: &mut Call<'_>) -> Outputs {
    let len = i64::try_from(sequence(call, 0)?.len()).unwrap_or(i64::MAX);
    Ok(vec![Value::Constant(Constant::of_i64s(call.name(), Vec::new(), &[len])?)])
}

/// The parts of a tensor along an axis: all of length 1, or of one length, or of given lengths.
fn split(call: &mut Call<'_>) -> Outputs {
    let axis = call.int_or("axis", 0)?;
    let keeps_axis = call.flag_or("keepdims", true)?;
    let x = call.input(0)?;
    if !call.has_input(1) {
        let len = known_length(call, axis)?;
        if !keeps_axis {
            return Ok(vec![Value::sequence(slices(call, x, axis, len)?)]);
        }
        return parts(call, axis, 1.into(), len);
    }
    let lengths = call.lengths(1)?;
    let is_scalar = lengths.as_ref().is_some_and(Vec::is_empty);
    let Some(sizes) = call.constant_ints(1)? else {
        return match lengths.as_deref() {
            Some([Some(count)]) => computed_parts(call, axis, *count),
            _ => Err(call.error(
                "the lengths of its parts are computed by the graph, and their number is not known; Ixion has to know it when the \
                 model is read: give the lengths as a constant",
            )),
        };
    };
    if !is_scalar {
        let count = sizes.len();
        return parts(call, axis, sizes.into(), count);
    }
    let size = sizes.first().copied().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
    let size = size.ok_or_else(|| call.error("the length of its parts must be at least 1"))?;
    let len = known_length(call, axis)?;
    let count = len.div_ceil(size);
    parts(call, axis, i64::try_from(size).unwrap_or(i64::MAX).into(), count)
}

/// Parts whose lengths the graph computes, but not their number.
fn computed_parts(call: &mut Call<'_>, axis: i64, count: usize) -> Outputs {
    call.check_count(count)?;
    let (x, sizes) = (call.input(0)?, call.input(1)?);
    let sizes = call.operator("Tensor.to", &[sizes], &[("dtype", DType::I64.torch_name().into())])?;
    let ends = call.operator("torch.cumsum", &[sizes], &[("dim", 0.into())])?;
    let bounds = [("dim", 0.into()), ("start", 0.into()), ("end", (-1).into()), ("step", 1.into())];
    let ends = call.operator("Tensor.slice", &[ends], &bounds)?;
    let emit =
        call.emit("aten::tensor_split").input(x).named("tensor_indices_or_sections", ends).param("dim", axis);
    Ok(vec![Value::sequence(emit.many(count)?.into_iter().map(Value::Operand).collect())])
}

fn parts(call: &mut Call<'_>, axis: i64, sizes: ixion_pnnx::Parameter, count: usize) -> Outputs {
    call.check_count(count)?;
    let x = call.input(0)?;
    let emit = call.emit("torch.split").input(x).param("split_size_or_sections", sizes).param("dim", axis);
    Ok(vec![Value::sequence(emit.many(count)?.into_iter().map(Value::Operand).collect())])
}

fn known_length(call: &mut Call<'_>, axis: i64) -> Result<usize, OnnxError> {
    match length(call, 0, axis)?.filter(|len| *len > 0) {
        Some(len) => Ok(len),
        None => Err(call.error(format!(
            "the length of axis {axis} is not known when the model is read, or is 0; give inputs a fixed shape and infer shapes \
             (`onnx.shape_inference`)"
        ))),
    }
}

/// The elements of a sequence, along an axis or stacked along a new one.
fn concatenation(call: &mut Call<'_>) -> Outputs {
    let axis = call.int("axis")?.ok_or_else(|| call.missing("axis"))?;
    let is_new = call.flag_or("new_axis", false)?;
    let items = sequence(call, 0)?;
    if items.is_empty() {
        return Err(call.error("the sequence is empty, so that the type of the result is not known"));
    }
    if is_new {
        return Ok(vec![stack(call, items, axis)?]);
    }
    let operands = tensors(call, &items)?;
    one(call.operator("torch.cat", &operands, &[("dim", axis.into())]))
}

/// A graph for each element of a sequence. Further inputs are sequences of the same length, or the same for all elements.
fn map(call: &mut Call<'_>) -> Outputs {
    let body = call.body("body")?;
    let len = sequence(call, 0)?.len();
    let inputs = call.values()?;
    let mut columns: Vec<Vec<Value>> = vec![Vec::new(); body.graph.output.len()];
    for step in 0..len {
        let item = |value: &Value| match value {
            Value::Sequence(items) => items.get(step).cloned(),
            value => Some(value.clone()),
        };
        let values: Option<Vec<Value>> = inputs.iter().map(item).collect();
        let values = values.ok_or_else(|| call.error("its sequences have different lengths"))?;
        let results = call.run(&body, values)?;
        // Sequences in sequences could be nested without end, and dropping them would overflow the stack.
        if !results.iter().all(Value::is_tensor) {
            return Err(call.error("expected its graph to return tensors"));
        }
        columns.iter_mut().zip(results).for_each(|(column, value)| column.push(value));
    }
    Ok(columns.into_iter().map(Value::sequence).collect())
}

fn optional(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["type"]);
    Ok(vec![call.value(0)?])
}

fn element_of_optional(call: &mut Call<'_>) -> Outputs {
    match call.value(0)? {
        Value::Absent => Err(call.error("the optional value is empty")),
        value => Ok(vec![value]),
    }
}

fn has_element(call: &mut Call<'_>) -> Outputs {
    let is_there = !matches!(call.value(0)?, Value::Absent);
    let attribute = Attribute::new(DType::Bool, Vec::new(), vec![u8::from(is_there)])?;
    Ok(vec![Value::Constant(Constant::new(call.name(), attribute))])
}
