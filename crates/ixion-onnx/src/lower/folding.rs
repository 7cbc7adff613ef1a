//! Folding: nodes whose inputs are small constants, or lengths of axes, are computed when the model is read.
//!
//! Exporters compute lists from shapes by many small nodes: `Shape`, `Gather`, `Unsqueeze`, `Concat`, `Reshape`. Here their
//! elements are followed one by one, so that constant ones become parameters, and the others one expression such as
//! `[size(@0,0),size(@0,1),8,64]`, which is what PNNX writes. Nodes that are not folded are lowered like any other.

mod arithmetic;
mod known;
mod moves;

pub(crate) use known::Lengths;

use super::{Call, Value};
use crate::OnnxError;
use crate::tensors::ElementType;
use ixion_pnnx::Dim;
use ixion_tensor::DType;
use known::{Element, Known, MOST_ELEMENTS, count};

/// The most axes that are assumed of a tensor whose rank is not known.
const MOST_ASSUMED: i64 = 8;

/// What is known of a node's output; `None` if it is not.
type Folded = Result<Option<Known>, OnnxError>;

/// The outputs of a node of ONNX's own operators, if they can be computed.
///
/// # Errors
/// [`OnnxError::Node`] if an input or an attribute is missing or of the wrong kind.
pub(super) fn folded(call: &mut Call<'_>) -> Result<Option<Vec<Value>>, OnnxError> {
    if call.op_type() == "Shape" {
        return shape(call);
    }
    let outputs = match call.op_type() {
        "Split" => split(call)?,
        _ => folded_one(call)?.map(|known| vec![known]),
    };
    let Some(outputs) = outputs else { return Ok(None) };
    outputs.into_iter().map(|known| value(call, known)).collect()
}

/// The value of what is known; `None` if it is neither a constant nor an expression.
fn value(call: &Call<'_>, known: Known) -> Result<Option<Value>, OnnxError> {
    if let Some(constant) = known.constant(call.name())? {
        return Ok(Some(Value::Constant(constant)));
    }
    Ok(Lengths::new(call.name(), known).map(Value::Lengths))
}

fn folded_one(call: &mut Call<'_>) -> Folded {
    match call.op_type() {
        "Add" | "And" | "Div" | "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Max"
        | "Min" | "Mod" | "Mul" | "Or" | "Pow" | "Sub" | "Xor" => joined(call),
        "Abs" | "Ceil" | "Floor" | "Neg" | "Not" | "Sqrt" => {
            let op_type = call.op_type();
            Ok(known(call, 0)?.and_then(|x| arithmetic::unary(op_type, &x)))
        }
        "Cast" => cast(call),
        "Concat" => concat(call),
        "ConstantOfShape" => constant_of_shape(call),
        "Expand" => {
            with_list(call, 1, |x, shape| moves::expanded(x, &moves::broadcast(&x.shape, &lens(shape)?)?))
        }
        "Gather" => gather(call),
        "Range" => range(call),
        "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceSum" => reduce(call),
        "Reshape" => {
            let keeps_zero = call.version() >= 14 && call.flag_or("allowzero", false)?;
            with_list(call, 1, |x, shape| moves::reshaped(x, shape, keeps_zero))
        }
        "Size" => size(call),
        "Slice" => slice(call),
        "Squeeze" | "Unsqueeze" => axes(call),
        "Tile" => with_list(call, 1, moves::tiled),
        "Transpose" => {
            let perm = call.ints("perm")?;
            Ok(known(call, 0)?.and_then(|x| moves::transposed(&x, perm.as_deref())))
        }
        "Where" => select(call),
        _ => Ok(None),
    }
}

/// What is known of an input.
fn known(call: &mut Call<'_>, position: usize) -> Folded {
    match call.value(position)? {
        Value::Constant(constant) => Ok(Known::of(&constant)?),
        Value::Lengths(lengths) => Ok(lengths.known().cloned()),
        _ => Ok(None),
    }
}

/// The known integers of an input.
fn list(call: &mut Call<'_>, position: usize) -> Result<Option<Vec<i64>>, OnnxError> {
    Ok(known(call, position)?.filter(|list| list.shape.len() < 2).and_then(|list| list.ints()))
}

/// Lengths that are not negative.
fn lens(list: &[i64]) -> Option<Vec<usize>> {
    list.iter().map(|len| usize::try_from(*len).ok()).collect()
}

/// The function of the first input and a list.
fn with_list(call: &mut Call<'_>, position: usize, f: impl Fn(&Known, &[i64]) -> Option<Known>) -> Folded {
    let (x, list) = (known(call, 0)?, list(call, position)?);
    Ok(x.zip(list).and_then(|(x, list)| f(&x, &list)))
}

/// The lengths of the axes of a tensor, or of those between `start` and `end`.
fn shape(call: &mut Call<'_>) -> Result<Option<Vec<Value>>, OnnxError> {
    let (start, end) = match call.version() >= 15 {
        true => (call.int_or("start", 0)?, call.int("end")?.unwrap_or(i64::MAX)),
        false => (0, i64::MAX),
    };
    let lengths = match call.value(0)? {
        Value::Constant(constant) => Known::vector(constant.shape().iter().map(|len| fixed(*len)).collect()),
        Value::Lengths(lengths) if lengths.known().is_some() => {
            let shape = lengths.known().map(|known| known.shape.as_slice()).unwrap_or_default();
            Known::vector(shape.iter().map(|len| fixed(*len)).collect())
        }
        _ => {
            let x = call.input(0)?;
            let rank = call.lengths(0)?.map(|lens| lens.len());
            match declared_lengths(call, x).or_else(|| rank.map(|rank| all_lengths(x, rank))) {
                Some(lengths) => lengths,
                None if start == 0 && end == i64::MAX => {
                    return Ok(Some(vec![Value::Lengths(Lengths::shape_of(call.name(), x))]));
                }
                None => {
                    let Some(part) = assumed(x, start, end) else { return Ok(None) };
                    return Ok(value(call, part)?.map(|value| vec![value]));
                }
            }
        }
    };
    let Some(part) = moves::sliced(&lengths, 0, start, end, 1) else { return Ok(None) };
    Ok(value(call, part)?.map(|value| vec![value]))
}

fn fixed(len: usize) -> Element {
    Element::Int(i64::try_from(len).unwrap_or(i64::MAX))
}

/// The lengths of an input of the model.
fn declared_lengths(call: &mut Call<'_>, x: ixion_pnnx::OperandId) -> Option<Known> {
    let graph = &call.lowering().graph;
    let operand = graph.operand(x);
    if graph.operator(operand.producer()?).op_type() != "pnnx.Input" {
        return None;
    }
    let length = |(axis, dim): (usize, &Dim)| match dim {
        Dim::Fixed(len) => i64::try_from(*len).ok().map(Element::Int),
        _ => Some(Element::length(x, i64::try_from(axis).ok()?)),
    };
    Some(Known::vector(operand.shape()?.iter().enumerate().map(length).collect::<Option<_>>()?))
}

/// The lengths of a tensor of a declared rank. What a file declares of the lengths themselves may be those of a sample.
fn all_lengths(x: ixion_pnnx::OperandId, rank: usize) -> Known {
    let axes = (0..rank).filter_map(|axis| i64::try_from(axis).ok());
    Known::vector(axes.map(|axis| Element::length(x, axis)).collect())
}

/// A part of the lengths of a tensor whose rank is not known, but which must have the axes that are asked for.
fn assumed(x: ixion_pnnx::OperandId, start: i64, end: i64) -> Option<Known> {
    let is_small = |bound: i64| (-MOST_ASSUMED..=MOST_ASSUMED).contains(&bound);
    let end = match end {
        // Such a part is empty.
        0 if start < 0 => return None,
        end if end >= i64::from(i32::MAX) && start < 0 => 0,
        end => end,
    };
    let is_known = (start >= 0) == (end >= 0) || (start < 0 && end == 0);
    let axes = (is_known && is_small(start) && is_small(end) && start < end).then_some(start..end)?;
    Some(Known::vector(axes.map(|axis| Element::length(x, axis)).collect()))
}

fn joined(call: &mut Call<'_>) -> Folded {
    // Before version 7, operands may be broadcast from an axis on.
    if call.version() < 7 {
        call.ignore(&["broadcast", "consumed_inputs"]);
        if call.has("axis") {
            return Ok(None);
        }
    }
    let op_type = call.op_type();
    if op_type == "Mod" && call.flag_or("fmod", false)? {
        return Ok(None);
    }
    let Some(mut result) = known(call, 0)? else { return Ok(None) };
    for position in 1..call.num_inputs() {
        if position > 1 {
            // As much work as a node of two operands.
            call.lowering().visit()?;
        }
        let next = known(call, position)?.and_then(|next| arithmetic::binary(op_type, &result, &next));
        let Some(next) = next else { return Ok(None) };
        result = next;
    }
    Ok(Some(result))
}

fn cast(call: &mut Call<'_>) -> Folded {
    // They matter only for float8, which is refused.
    call.ignore(&["round_mode", "saturate"]);
    let to = call.int("to")?.and_then(|number| i32::try_from(number).ok());
    let Some(ElementType::Plain(dtype)) = to.and_then(|number| ElementType::of(number).ok()) else {
        return Ok(None);
    };
    Ok(known(call, 0)?.and_then(|x| arithmetic::cast(&x, dtype)))
}

fn concat(call: &mut Call<'_>) -> Folded {
    let axis = call.int_or("axis", 0)?;
    let (mut parts, mut total) = (Vec::new(), 0);
    for position in 0..call.num_inputs() {
        let Some(part) = known(call, position)? else { return Ok(None) };
        total += part.elements.len();
        // One constant may be an input any number of times.
        if total > MOST_ELEMENTS {
            return Ok(None);
        }
        parts.push(part);
    }
    Ok(moves::concatenated(&parts, axis))
}

fn constant_of_shape(call: &mut Call<'_>) -> Folded {
    let value = match call.tensor("value")? {
        Some(value) => Known::of(&value)?,
        None => Some(Known { dtype: DType::F32, shape: vec![1], elements: vec![Element::Float(0.0)] }),
    };
    let shape = list(call, 0)?.and_then(|shape| lens(&shape));
    Ok(value.zip(shape).and_then(|(value, shape)| {
        let [element] = value.elements.as_slice() else { return None };
        Some(Known { dtype: value.dtype, elements: vec![element.clone(); count(&shape)?], shape })
    }))
}

fn gather(call: &mut Call<'_>) -> Folded {
    let axis = call.int_or("axis", 0)?;
    let Some(indices) = known(call, 1)? else { return Ok(None) };
    if let Value::Lengths(lengths) = call.value(0)?
        && let Some(tensor) = lengths.tensor()
    {
        let elements =
            indices.ints().map(|axes| axes.into_iter().map(|axis| Element::length(tensor, axis)).collect());
        return Ok(elements.map(|elements| Known { dtype: DType::I64, shape: indices.shape, elements }));
    }
    Ok(known(call, 0)?.and_then(|x| moves::gathered(&x, &indices, axis)))
}

fn range(call: &mut Call<'_>) -> Folded {
    let ends = [known(call, 0)?, known(call, 1)?, known(call, 2)?];
    let [Some(start), Some(limit), Some(delta)] = ends else { return Ok(None) };
    let ends = [&start, &limit, &delta].map(|end| end.elements.first().and_then(Element::int));
    let ([Some(start), Some(limit), Some(delta)], dtype) = (ends, start.dtype) else { return Ok(None) };
    let is_before = |place: i64| if delta > 0 { place < limit } else { place > limit };
    let mut elements = Vec::new();
    let mut next = (delta != 0).then_some(start);
    while let Some(place) = next.filter(|place| is_before(*place)) {
        if elements.len() == MOST_ELEMENTS {
            return Ok(None);
        }
        elements.push(Element::Int(place));
        next = place.checked_add(delta);
    }
    Ok((delta != 0).then(|| Known { dtype, shape: vec![elements.len()], elements }))
}

fn reduce(call: &mut Call<'_>) -> Folded {
    let since = if call.op_type() == "ReduceSum" { 13 } else { 18 };
    let keeps = call.flag_or("keepdims", true)?;
    let (axes, keeps_all) = match call.version() >= since {
        false => (call.ints("axes")?, false),
        true if call.has_input(1) => {
            let Some(axes) = list(call, 1)? else { return Ok(None) };
            (Some(axes), call.flag_or("noop_with_empty_axes", false)?)
        }
        true => (None, call.flag_or("noop_with_empty_axes", false)?),
    };
    let axes = axes.unwrap_or_default();
    let op_type = call.op_type();
    Ok(known(call, 0)?.and_then(|x| match axes.is_empty() && keeps_all {
        true => Some(x),
        false => arithmetic::reduced(op_type, &x, &axes, keeps),
    }))
}

fn size(call: &mut Call<'_>) -> Folded {
    let lengths = match call.value(0)? {
        Value::Constant(constant) => {
            Some(Known::vector(constant.shape().iter().map(|len| fixed(*len)).collect()))
        }
        Value::Operand(x) => declared_lengths(call, x),
        _ => None,
    };
    Ok(lengths.and_then(|lengths| arithmetic::reduced("ReduceProd", &lengths, &[], false)))
}

fn slice(call: &mut Call<'_>) -> Folded {
    let is_new = call.version() >= 10;
    let mut part = |position: usize, name: &'static str| match is_new {
        true if call.has_input(position) => list(call, position).map(|list| list.map(Some)),
        true => Ok(Some(None)),
        false if name == "steps" => Ok(Some(None)),
        false => call.ints(name).map(Some),
    };
    let parts = [part(1, "starts")?, part(2, "ends")?, part(3, "axes")?, part(4, "steps")?];
    let [Some(Some(starts)), Some(Some(ends)), Some(axes), Some(steps)] = parts else { return Ok(None) };
    let axes =
        axes.unwrap_or_else(|| (0..starts.len()).filter_map(|axis| i64::try_from(axis).ok()).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Ok(None);
    }
    if let Value::Lengths(lengths) = call.value(0)?
        && let Some(tensor) = lengths.tensor()
    {
        let ([start], [end], [1]) = (&*starts, &*ends, &*steps) else { return Ok(None) };
        return Ok(assumed(tensor, *start, *end));
    }
    let Some(mut x) = known(call, 0)? else { return Ok(None) };
    for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let Some(part) = moves::sliced(&x, *axis, *start, *end, *step) else { return Ok(None) };
        x = part;
    }
    Ok(Some(x))
}

fn axes(call: &mut Call<'_>) -> Folded {
    let axes = match (call.version() >= 13, call.has_input(1)) {
        (false, _) => call.ints("axes")?,
        (true, false) => None,
        (true, true) => match list(call, 1)? {
            Some(axes) => Some(axes),
            None => return Ok(None),
        },
    };
    let is_squeeze = call.op_type() == "Squeeze";
    Ok(known(call, 0)?.and_then(|x| match is_squeeze {
        true => moves::squeezed(&x, axes.as_deref()),
        false => moves::unsqueezed(&x, &axes?),
    }))
}

/// Elements of two tensors, by a condition.
fn select(call: &mut Call<'_>) -> Folded {
    let inputs = [known(call, 0)?, known(call, 1)?, known(call, 2)?];
    let [Some(condition), Some(a), Some(b)] = inputs else { return Ok(None) };
    let Some(shape) =
        moves::broadcast(&a.shape, &b.shape).and_then(|ab| moves::broadcast(&condition.shape, &ab))
    else {
        return Ok(None);
    };
    let all = [&condition, &a, &b].map(|x| moves::expanded(x, &shape));
    let [Some(condition), Some(a), Some(b)] = all else { return Ok(None) };
    let pairs = condition.elements.iter().zip(a.elements.into_iter().zip(b.elements));
    let elements = pairs.map(|(condition, (a, b))| Some(if condition.int()? != 0 { a } else { b }));
    let elements: Option<Vec<Element>> = elements.collect();
    Ok(elements.filter(|_| a.dtype == b.dtype).map(|elements| Known { dtype: a.dtype, shape, elements }))
}

fn split(call: &mut Call<'_>) -> Result<Option<Vec<Known>>, OnnxError> {
    let axis = call.int_or("axis", 0)?;
    let Some(x) = known(call, 0)? else { return Ok(None) };
    let given = match call.version() >= 13 {
        true if call.has_input(1) => list(call, 1)?,
        true => return Ok(None),
        false => call.ints("split")?,
    };
    let Some(given) = given else { return Ok(None) };
    let mut start = 0i64;
    let parts = given.iter().map(|len| {
        let end = start.checked_add(*len).filter(|end| *end >= start)?;
        let part = moves::sliced(&x, axis, start, end, 1);
        start = end;
        part
    });
    let parts: Option<Vec<Known>> = parts.collect();
    let len = moves::axis_of(axis, x.shape.len()).and_then(|axis| i64::try_from(x.shape[axis]).ok());
    let is_whole = len == given.iter().try_fold(0i64, |sum, len| sum.checked_add(*len));
    Ok(parts.filter(|parts| parts.len() == call.num_outputs() && is_whole))
}
