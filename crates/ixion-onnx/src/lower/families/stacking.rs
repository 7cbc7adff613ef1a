//! Joining values that iterations or sequences have, and taking them apart.

use super::super::scope::lengths;
use super::super::{Call, Constant, Value};
use crate::OnnxError;
use crate::schema::{ValueInfoProto, ValueType};
use crate::tensors::ElementType;
use ixion_pnnx::{Attribute, OperandId};

/// Tensors of one shape along a new axis.
///
/// # Errors
/// [`OnnxError::Node`] if a value is not a tensor.
pub(super) fn stack(call: &mut Call<'_>, values: Vec<Value>, axis: i64) -> Result<Value, OnnxError> {
    if axis == 0
        && let Some(constant) = stacked_constant(call, &values)?
    {
        return Ok(Value::Constant(constant));
    }
    let operands = tensors(call, &values)?;
    Ok(Value::Operand(call.operator("torch.stack", &operands, &[("dim", axis.into())])?))
}

/// The operands of values that must be tensors.
///
/// # Errors
/// [`OnnxError::Node`] if one is not.
pub(super) fn tensors(call: &mut Call<'_>, values: &[Value]) -> Result<Vec<OperandId>, OnnxError> {
    let each = values.iter().map(|value| match value.is_tensor() {
        true => call.operand(value),
        false => Err(call.error("expected tensors, got a sequence or an empty optional")),
    });
    each.collect()
}

/// Tensors along a new first axis, if all are known, as the counts of a loop may be.
fn stacked_constant(call: &Call<'_>, values: &[Value]) -> Result<Option<Constant>, OnnxError> {
    let known =
        |value: &Value| if let Value::Constant(constant) = value { Some(constant.clone()) } else { None };
    let Some(constants) = values.iter().map(known).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some(first) = constants.first() else { return Ok(None) };
    let is_alike = |other: &Constant| (other.dtype(), other.shape()) == (first.dtype(), first.shape());
    if !constants.iter().all(is_alike) {
        return Ok(None);
    }
    let bytes = (first.attribute().byte_len() as u64).saturating_mul(constants.len() as u64);
    call.check_tensor(bytes)?;
    let mut all = Vec::new();
    for constant in &constants {
        all.extend_from_slice(&constant.attribute().bytes()?);
    }
    let shape = [&[constants.len()], first.shape()].concat();
    Ok(Some(Constant::new(call.name(), Attribute::new(first.dtype(), shape, all)?)))
}

/// The result of stacking nothing, of the type that the graph of a loop declares for its elements.
///
/// # Errors
/// [`OnnxError::Node`] if the graph declares no type, or no shape.
pub(super) fn empty(call: &Call<'_>, declared: &ValueInfoProto) -> Result<Value, OnnxError> {
    let name = declared.name.as_deref().unwrap_or_default();
    let unknown =
        || call.error(format!("it has no iterations, and the shape of its output `{name}` is not declared"));
    let kind = declared.r#type.as_ref().ok_or_else(unknown)?;
    let Some(ValueType::Tensor(tensor)) = &kind.value else { return Err(unknown()) };
    let dtype =
        ElementType::of(tensor.elem_type.unwrap_or_default()).map_err(|problem| call.error(problem))?.dtype();
    let shape = lengths(kind).and_then(|lengths| lengths.into_iter().collect::<Option<Vec<usize>>>());
    let shape = [vec![0], shape.ok_or_else(unknown)?].concat();
    Ok(Value::Constant(Constant::new(name, Attribute::new(dtype, shape, Vec::new())?)))
}

/// The length of an axis of an input; `None` if it is not known.
///
/// # Errors
/// [`OnnxError::Node`] if there is no such axis.
pub(super) fn length(call: &mut Call<'_>, position: usize, axis: i64) -> Result<Option<usize>, OnnxError> {
    let Some(lengths) = call.lengths(position)? else { return Ok(None) };
    let rank = lengths.len();
    let from_end =
        if axis < 0 { i64::try_from(rank).ok().and_then(|rank| axis.checked_add(rank)) } else { Some(axis) };
    let found = from_end.and_then(|axis| lengths.get(usize::try_from(axis).ok()?).copied());
    found.ok_or_else(|| call.error(format!("input {position} has {rank} axes, and so no axis {axis}")))
}

/// The slices of a tensor along an axis, which they do not have. There must be `count` of them.
///
/// # Errors
/// [`OnnxError::Limit`] if there are too many.
pub(super) fn slices(
    call: &mut Call<'_>,
    operand: OperandId,
    axis: i64,
    count: usize,
) -> Result<Vec<Value>, OnnxError> {
    call.check_count(count)?;
    let parts = call.emit("torch.unbind").input(operand).param("dim", axis).many(count)?;
    Ok(parts.into_iter().map(Value::Operand).collect())
}
