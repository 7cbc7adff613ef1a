//! Element types of attributes.

use crate::OnnxError;
use crate::lower::{Call, Constant, Value};
use crate::tensors::ElementType;
use ixion_pnnx::OperandId;
use ixion_tensor::DType;

/// The element type that an attribute gives as ONNX's number.
///
/// # Errors
/// [`OnnxError::Node`] if Ixion does not have the type.
pub(super) fn of_attribute(call: &Call<'_>, name: &'static str) -> Result<Option<DType>, OnnxError> {
    call.int(name)?.map(|number| of_number(call, name, number)).transpose()
}

/// The element type with a number.
///
/// # Errors
/// [`OnnxError::Node`] if Ixion does not have the type. Types of four bits are read from files, but cannot be computed.
pub(super) fn of_number(call: &Call<'_>, name: &'static str, number: i64) -> Result<DType, OnnxError> {
    let known = i32::try_from(number).map_err(|_| format!("{number} is no element type"));
    match known.and_then(ElementType::of) {
        Ok(ElementType::Plain(dtype)) => Ok(dtype),
        Ok(ElementType::HalfByte { .. }) => {
            Err(call.error(format!("`{name}`: results of four bits are not supported; use int8")))
        }
        Err(problem) => Err(call.error(format!("`{name}`: {problem}"))),
    }
}

/// An input as 64-bit integers, which PyTorch's operators take where ONNX also allows other types.
///
/// # Errors
/// As [`Call::input`].
pub(super) fn long(call: &mut Call<'_>, position: usize) -> Result<OperandId, OnnxError> {
    if let Some(constant) = call.constant(position)? {
        if constant.dtype() == DType::I64 {
            return call.input(position);
        }
        if let Some(values) = call.constant_floats(position)? {
            let values: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
            let known = Constant::of_i64s(constant.name(), constant.shape().to_vec(), &values)?;
            return call.operand(&Value::Constant(known));
        }
    }
    let input = call.input(position)?;
    call.operator("Tensor.to", &[input], &[("dtype", DType::I64.torch_name().into())])
}
