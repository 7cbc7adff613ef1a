//! Constants without axes as literals.
//!
//! PNNX writes `mul(@0,2.0)` where a file has a constant of one number, and passes look for such literals. A literal decides only
//! the kind of a result's element type. Both operands of an ONNX operator have the same type, so a literal changes no type as
//! long as it is an integer where the constant is, and the other operand is a tensor.

use crate::OnnxError;
use crate::lower::{Call, Constant, Value};
use ixion_pnnx::{OperandId, Parameter};
use ixion_tensor::DType;

/// An operand: a literal or a tensor.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Literal(Parameter),
    Tensor(OperandId),
}

/// A constant without axes as a literal.
///
/// # Errors
/// [`OnnxError::Weight`] if its bytes cannot be read.
pub(super) fn literal(constant: &Constant) -> Result<Option<Parameter>, OnnxError> {
    if constant.shape().is_empty() { number(constant) } else { Ok(None) }
}

/// The first element of a constant as a literal, whatever its shape; `None` if it is empty, a bool or complex.
///
/// # Errors
/// [`OnnxError::Weight`] if its bytes cannot be read.
pub(super) fn number(constant: &Constant) -> Result<Option<Parameter>, OnnxError> {
    if constant.dtype() == DType::Bool {
        return Ok(None);
    }
    if let Some(integers) = constant.i64s()? {
        return Ok(integers.first().map(|value| Parameter::from(*value)));
    }
    let floats = constant.f64s()?.unwrap_or_default();
    // The shortest text that reads back as the same number of this type.
    Ok(floats.first().map(|value| match constant.dtype() {
        DType::F32 => Parameter::from(*value as f32),
        _ => Parameter::from(*value),
    }))
}

/// The inputs of an operator, at least one of them a tensor.
///
/// # Errors
/// As [`Call::input`].
pub(super) fn operands(call: &mut Call<'_>) -> Result<Vec<Operand>, OnnxError> {
    let values = call.values()?;
    let all_known = values.iter().all(|value| matches!(value, Value::Constant(_)));
    let operand = |(position, value): (usize, &Value)| {
        if let Value::Constant(constant) = value
            && !all_known
            && let Some(literal) = literal(constant)?
        {
            return Ok(Operand::Literal(literal));
        }
        Ok(Operand::Tensor(call.input(position)?))
    };
    values.iter().enumerate().map(operand).collect()
}

/// The two inputs of an operator, at least one of them a tensor.
///
/// # Errors
/// [`OnnxError::Node`] if there are more or fewer.
pub(super) fn two_operands(call: &mut Call<'_>) -> Result<[Operand; 2], OnnxError> {
    let found = call.num_inputs();
    let operands = match axis_before_7(call)? {
        Some(axis) => aligned(call, axis)?,
        None => operands(call)?,
    };
    <[Operand; 2]>::try_from(operands).map_err(|_| call.error(format!("expected 2 inputs, got {found}")))
}

/// The axis of the first operand from which the second one is broadcast, which a node before version 7 may state.
fn axis_before_7(call: &mut Call<'_>) -> Result<Option<i64>, OnnxError> {
    if call.version() >= 7 {
        return Ok(None);
    }
    call.ignore(&["consumed_inputs"]);
    let (is_broadcast, axis) = (call.flag_or("broadcast", false)?, call.int("axis")?);
    Ok(axis.filter(|_| is_broadcast))
}

/// The operands, with axes of length 1 behind those of the second one.
fn aligned(call: &mut Call<'_>, axis: i64) -> Result<Vec<Operand>, OnnxError> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let b = call.emit("Align").input(b).named("A", a).param("axis", axis).one()?;
    Ok(vec![Operand::Tensor(a), Operand::Tensor(b)])
}

/// The expression of a function of these operands: its text and its inputs.
///
/// # Errors
/// As [`Call::operator`].
pub(super) fn apply(
    call: &mut Call<'_>,
    function: &str,
    operands: &[Operand],
) -> Result<OperandId, OnnxError> {
    let mut inputs: Vec<OperandId> = Vec::new();
    let mut arguments = Vec::new();
    for operand in operands {
        arguments.push(match operand {
            Operand::Literal(literal) => literal.raw().to_owned(),
            Operand::Tensor(tensor) => {
                let known = inputs.iter().position(|input| input == tensor);
                let place = known.unwrap_or(inputs.len());
                if known.is_none() {
                    inputs.push(*tensor);
                }
                format!("@{place}")
            }
        });
    }
    call.expression(&format!("{function}({})", arguments.join(",")), &inputs)
}
