//! Conversions between element types.

use super::types;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};
use ixion_tensor::DType;

pub(super) const TABLE: Table = &[("BitCast", bit_cast), ("Cast", cast), ("CastLike", cast_like)];

/// `saturate` and `round_mode` matter only for float8, which is refused.
const OF_FLOAT8: [&str; 2] = ["round_mode", "saturate"];

fn cast(call: &mut Call<'_>) -> Outputs {
    call.ignore(&OF_FLOAT8);
    let dtype = types::of_attribute(call, "to")?;
    let dtype = dtype.ok_or_else(|| call.missing("to"))?;
    to(call, dtype)
}

/// The input in an element type.
fn to(call: &mut Call<'_>, dtype: DType) -> Outputs {
    if call.constant(0)?.is_some_and(|constant| constant.dtype() == dtype) {
        return Ok(vec![call.value(0)?]);
    }
    let x = call.input(0)?;
    one(call.operator("Tensor.to", &[x], &[("dtype", dtype.torch_name().into())]))
}

fn cast_like(call: &mut Call<'_>) -> Outputs {
    call.ignore(&OF_FLOAT8);
    if let Value::Constant(like) = call.value(1)? {
        let dtype = like.dtype();
        return to(call, dtype);
    }
    let (x, like) = (call.input(0)?, call.input(1)?);
    one(call.emit("CastLike").input(x).named("target_type", like).one())
}

/// The same bits as another type.
fn bit_cast(call: &mut Call<'_>) -> Outputs {
    // Checked: the operator takes ONNX's number.
    types::of_attribute(call, "to")?.ok_or_else(|| call.missing("to"))?;
    let number = call.int_or("to", 0)?;
    let x = call.input(0)?;
    one(call.operator("BitCast", &[x], &[("to", number.into())]))
}
