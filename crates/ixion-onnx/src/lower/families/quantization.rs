//! Quantised numbers: an integer q stands for (q − zero point) · scale.
//!
//! `QuantizeLinear` and `DequantizeLinear` keep their names: a pass recognises pairs of them, and the planner then computes in
//! int8 between them. Operators with quantised inputs and outputs become such pairs around an operator of real numbers.

use super::quantized_weights::{Scaling, dequantized};
use crate::OnnxError;
use crate::lower::call::Table;
use crate::lower::call::{Outputs, one};
use crate::lower::emit::Emit;
use crate::lower::{Call, Constant, Value};
use crate::tensors::ElementType;
use ixion_pnnx::OperandId;
use ixion_tensor::DType;

pub(super) const TABLE: Table = &[
    ("ConvInteger", conv_integer),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic_quantize),
    ("MatMulInteger", matmul_integer),
    ("QLinearConv", qlinear_conv),
    ("QLinearMatMul", qlinear_matmul),
    ("QuantizeLinear", quantize),
];

/// The same two operators among Microsoft's, whose axis is that of vectors only.
pub(super) const MICROSOFT: Table =
    &[("DequantizeLinear", dequantize), ("QLinearConv", qlinear_conv), ("QuantizeLinear", quantize)];

/// Attributes of windows, which the operators of integers share with `Conv`.
const LISTS: [&str; 4] = ["kernel_shape", "strides", "dilations", "pads"];

/// Rounds x / scale, adds the zero point, and saturates.
fn quantize(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["saturate", "precision"]);
    let (axis, block_size) = (call.int("axis")?, call.int("block_size")?);
    let output = call.int_or("output_dtype", 0)?;
    let (x, scale, zero) = (call.input(0)?, call.input(1)?, call.optional_input(2)?);
    if let Some(bits) = call.constant(2)?.filter(Constant::is_of_half_bytes) {
        let found = bits.name().to_owned();
        return Err(call.error(format!(
            "Ixion does not quantise to 4 bits, which `{found}` asks for; quantise to int8"
        )));
    }
    let mut emit = call.emit("QuantizeLinear").input(x).input(scale);
    emit = emit.param_if("axis", axis).param_if("block_size", block_size.filter(|size| *size != 0));
    match zero {
        Some(zero) => one(emit.input(zero).one()),
        None if output == 0 => one(emit.one()),
        None => {
            let emit = emit.param("output_dtype", output);
            let result = emit.one()?;
            integers(call, output)?;
            one(Ok(result))
        }
    }
}

/// Checks that a number is that of an element type that quantised tensors can have.
fn integers(call: &Call<'_>, number: i64) -> Result<(), OnnxError> {
    let kind = i32::try_from(number).map_or_else(|_| Err(format!("number {number}")), ElementType::of);
    match kind {
        Ok(ElementType::Plain(DType::U8 | DType::I8 | DType::I16 | DType::I32)) => Ok(()),
        Ok(_) => Err(call
            .error(format!("expected `output_dtype` to be an integer of 8 to 32 bits, got number {number}"))),
        Err(problem) => Err(call.error(format!("`output_dtype`: {problem}"))),
    }
}

/// Subtracts the zero point, and multiplies by the scale. Constants are computed at once, so that they can be weights.
fn dequantize(call: &mut Call<'_>) -> Outputs {
    let (axis, block_size) = (call.int("axis")?, call.int_or("block_size", 0)?);
    let output = call.int("output_dtype")?.filter(|number| *number != 0);
    let constants = (call.constant(0)?, call.constant(1)?);
    if let (Some(x), Some(scale)) = constants.clone()
        && (call.constant(2)?.is_some() || !call.has_input(2))
        && output.is_none_or(|number| number == 1)
    {
        let scaling = Scaling { scale, zero: call.constant(2)?, axis: axis.unwrap_or(1), block_size };
        if let Some(known) = dequantized(call, &x, &scaling)? {
            return Ok(vec![Value::Constant(known)]);
        }
    }
    let (x, scale, zero) = (call.input(0)?, call.input(1)?, call.optional_input(2)?);
    let emit = call.emit("DequantizeLinear").input(x).input(scale).param_if("axis", axis);
    let emit = emit.param_if("block_size", Some(block_size).filter(|size| *size != 0));
    let result = match zero {
        Some(zero) => emit.input(zero).one()?,
        None => emit.one()?,
    };
    let Some(number) = output else { return one(Ok(result)) };
    let dtype = match number {
        1 => "torch.float",
        10 => "torch.half",
        11 => "torch.double",
        16 => "torch.bfloat16",
        _ => {
            return Err(call.error(format!(
                "expected `output_dtype` to be a type of real numbers, got number {number}"
            )));
        }
    };
    one(call.operator("Tensor.to", &[result], &[("dtype", dtype.into()), ("copy", false.into())]))
}

/// Quantises to u8 by the range of the input.
fn dynamic_quantize(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let results = call.emit("DynamicQuantizeLinear").input(x).many(3)?;
    Ok(results.into_iter().map(Value::Operand).collect())
}

/// The product of integer matrices.
fn matmul_integer(call: &mut Call<'_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let (a_zero, b_zero) = (zero_point(call, 2)?, zero_point(call, 3)?);
    let emit = call.emit("MatMulInteger").input(a).named("B", b);
    one(emit.named_if("a_zero_point", a_zero).named_if("b_zero_point", b_zero).one())
}

/// A zero point, unless it is known to be 0.
fn zero_point(call: &mut Call<'_>, position: usize) -> Result<Option<OperandId>, OnnxError> {
    let known = call.constant(position)?.map(|zero| zero.i64s()).transpose()?.flatten();
    match known.is_some_and(|zeros| zeros.iter().all(|zero| *zero == 0)) {
        true => Ok(None),
        false => call.optional_input(position),
    }
}

/// The convolution of integers.
fn conv_integer(call: &mut Call<'_>) -> Outputs {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let (x_zero, w_zero) = (zero_point(call, 2)?, zero_point(call, 3)?);
    let windows = WindowAttributes::of(call)?;
    let emit = call.emit("ConvInteger").input(x).named("w", w);
    one(windows.write(emit.named_if("x_zero_point", x_zero).named_if("w_zero_point", w_zero)).one())
}

/// The attributes of a convolution.
pub(super) struct WindowAttributes {
    lists: Vec<(&'static str, Vec<i64>)>,
    auto_pad: Option<String>,
    group: i64,
}

impl WindowAttributes {
    pub(super) fn of(call: &Call<'_>) -> Result<Self, OnnxError> {
        let mut lists = Vec::new();
        for key in LISTS {
            lists.extend(call.ints(key)?.map(|list| (key, list)));
        }
        let auto_pad = call.string("auto_pad")?.map(str::to_owned);
        Ok(Self { lists, auto_pad, group: call.int_or("group", 1)? })
    }

    pub(super) fn write<'e>(self, emit: Emit<'e>) -> Emit<'e> {
        let group = self.group;
        self.write_pool(emit).param("group", group)
    }

    /// As [`WindowAttributes::write`], for pooling, which has no groups.
    pub(super) fn write_pool<'e>(self, emit: Emit<'e>) -> Emit<'e> {
        let emit = emit.param_if("auto_pad", self.auto_pad);
        self.lists.into_iter().fold(emit, |emit, (key, list)| emit.param(key, list))
    }
}

/// The operand that dequantises an input with one scale.
pub(super) fn real(call: &mut Call<'_>, [x, scale, zero]: [OperandId; 3]) -> Result<OperandId, OnnxError> {
    call.operator("DequantizeLinear", &[x, scale, zero], &[])
}

/// The operand that quantises a result.
pub(super) fn quantized(
    call: &mut Call<'_>,
    [x, scale, zero]: [OperandId; 3],
) -> Result<OperandId, OnnxError> {
    call.operator("QuantizeLinear", &[x, scale, zero], &[])
}

/// Returns true if an input is a known f32 number.
pub(super) fn is_number(call: &mut Call<'_>, position: usize) -> Result<bool, OnnxError> {
    let constant = call.constant(position)?;
    Ok(constant.is_some_and(|scale| scale.attribute().elem_count() == 1 && scale.dtype() == DType::F32))
}

/// The convolution of quantised tensors: of real numbers if all that makes the weights is known.
fn qlinear_conv(call: &mut Call<'_>) -> Outputs {
    if call.flag_or("channels_last", false)? {
        return Err(call.error("only `channels_last=0` is supported"));
    }
    let windows = WindowAttributes::of(call)?;
    let weights = (call.constant(3)?, call.constant(4)?, call.constant(5)?);
    let bias = call.constant(8)?;
    let is_known = (bias.is_some() || !call.has_input(8)) && is_number(call, 1)? && is_number(call, 6)?;
    if let (Some(w), Some(scale), Some(zero)) = weights
        && is_known
    {
        let scaling = Scaling { scale, zero: Some(zero), axis: 0, block_size: 0 };
        let bias = bias.map(|bias| scaling.bias(call, &bias)).transpose()?;
        if let (Some(w), false) = (dequantized(call, &w, &scaling)?, matches!(bias, Some(None))) {
            return conv_of_reals(call, windows, w, bias.flatten());
        }
    }
    let required = (0..8).map(|position| call.input(position)).collect::<Result<Vec<_>, OnnxError>>()?;
    let inputs: Vec<OperandId> = required.into_iter().chain(call.optional_input(8)?).collect();
    let mut emit = call.emit("QLinearConv");
    for input in inputs {
        emit = emit.input(input);
    }
    one(windows.write(emit).one())
}

fn conv_of_reals(
    call: &mut Call<'_>,
    windows: WindowAttributes,
    w: Constant,
    bias: Option<Constant>,
) -> Outputs {
    let x = [call.input(0)?, call.input(1)?, call.input(2)?];
    let x = real(call, x)?;
    let w = call.operand(&Value::Constant(w))?;
    let bias = bias.map(|bias| call.operand(&Value::Constant(bias))).transpose()?;
    let sums = windows.write(call.emit("Conv").input(x).named("W", w).named_if("B", bias)).one()?;
    let (scale, zero) = (call.input(6)?, call.input(7)?);
    one(quantized(call, [sums, scale, zero]))
}

/// The product of quantised matrices: of real numbers if the second one is known.
fn qlinear_matmul(call: &mut Call<'_>) -> Outputs {
    let weights = (call.constant(3)?, call.constant(4)?, call.constant(5)?);
    let is_known = is_number(call, 1)? && is_number(call, 6)?;
    if let (Some(b), Some(scale), Some(zero)) = weights
        && is_known
    {
        let scaling = Scaling { scale, zero: Some(zero), axis: -1, block_size: 0 };
        if let Some(b) = dequantized(call, &b, &scaling)? {
            let a = [call.input(0)?, call.input(1)?, call.input(2)?];
            let a = real(call, a)?;
            let b = call.operand(&Value::Constant(b))?;
            let product = call.emit("torch.matmul").named("input", a).named("other", b).one()?;
            let (scale, zero) = (call.input(6)?, call.input(7)?);
            return one(quantized(call, [product, scale, zero]));
        }
    }
    let inputs = call.inputs_from(0)?;
    one(call.operator("QLinearMatMul", &inputs, &[]))
}
