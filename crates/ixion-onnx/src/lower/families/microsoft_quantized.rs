//! Microsoft's operators on quantised tensors: operators of real numbers between dequantisation and quantisation.

use super::bits::weight_of_bits;
use super::quantization::WindowAttributes;
use super::quantized_weights::{Scaling, dequantized};
use crate::OnnxError;
use crate::lower::call::{Outputs, one};
use crate::lower::{Call, Value};
use ixion_pnnx::OperandId;

/// The operand that dequantises an input with its scale and its zero point, at `at` and behind it. Constants become constants.
fn real(call: &mut Call<'_>, at: usize, axis: i64) -> Result<OperandId, OnnxError> {
    real_at(call, [at, at + 1, at + 2], axis)
}

/// As [`real`], with the positions of the input, its scale and its zero point.
fn real_at(call: &mut Call<'_>, [x, scale, zero]: [usize; 3], axis: i64) -> Result<OperandId, OnnxError> {
    let known = (call.constant(x)?, call.constant(scale)?);
    let zero_point = call.constant(zero)?;
    if let (Some(x), Some(scale)) = known
        && zero_point.is_some() == call.has_input(zero)
    {
        let scaling = Scaling { scale, zero: zero_point, axis, block_size: 0 };
        if let Some(known) = dequantized(call, &x, &scaling)? {
            return call.operand(&Value::Constant(known));
        }
    }
    let mut inputs = vec![call.input(x)?, call.input(scale)?];
    inputs.extend(call.optional_input(zero)?);
    call.operator("DequantizeLinear", &inputs, &[("axis", axis.into())])
}

/// The operand that quantises a result, with the scale at `at` and the zero point behind it.
fn quantized(call: &mut Call<'_>, x: OperandId, at: usize) -> Result<OperandId, OnnxError> {
    let mut inputs = vec![x, call.input(at)?];
    inputs.extend(call.optional_input(at + 1)?);
    call.operator("QuantizeLinear", &inputs, &[])
}

/// The sum or the product of quantised tensors.
pub(super) fn arithmetic(call: &mut Call<'_>) -> Outputs {
    let text = if call.op_type() == "QLinearMul" { "mul(@0,@1)" } else { "add(@0,@1)" };
    let (a, b) = (real(call, 0, 1)?, real(call, 3, 1)?);
    let result = call.expression(text, &[a, b])?;
    one(quantized(call, result, 6))
}

/// A function of one element.
pub(super) fn unary(call: &mut Call<'_>) -> Outputs {
    let x = real(call, 0, 1)?;
    let result = match call.op_type() {
        "QLinearSigmoid" => call.emit("F.sigmoid").named("input", x).one()?,
        _ => {
            let alpha = call.float_or("alpha", 0.01)?;
            call.emit("F.leaky_relu").named("input", x).param("negative_slope", alpha).one()?
        }
    };
    one(quantized(call, result, 3))
}

/// Softmax along an axis; before version 13 of ONNX's operators, along all axes from it on.
pub(super) fn softmax(call: &mut Call<'_>) -> Outputs {
    let (axis, version) = (call.int_or("axis", -1)?, call.int_or("opset", 13)?);
    if version < 13 && axis != -1 {
        return Err(call.error("only `axis=-1` is supported for `opset` below 13"));
    }
    let x = real(call, 0, 1)?;
    let result = call.emit("F.softmax").named("input", x).param("dim", axis).one()?;
    one(quantized(call, result, 3))
}

fn check_channels_first(call: &Call<'_>) -> Result<(), OnnxError> {
    match call.flag_or("channels_last", false)? {
        true => Err(call.error("only `channels_last=0` is supported")),
        false => Ok(()),
    }
}

/// The mean of each channel.
pub(super) fn global_average_pool(call: &mut Call<'_>) -> Outputs {
    check_channels_first(call)?;
    let x = real(call, 0, 1)?;
    let result = call.operator("GlobalAveragePool", &[x], &[])?;
    one(quantized(call, result, 3))
}

/// The mean of each window.
pub(super) fn average_pool(call: &mut Call<'_>) -> Outputs {
    check_channels_first(call)?;
    let (ceil, padded) = (call.int_or("ceil_mode", 0)?, call.int_or("count_include_pad", 0)?);
    let windows = WindowAttributes::of(call)?;
    let x = real(call, 0, 1)?;
    let emit = call.emit("AveragePool").input(x).param("ceil_mode", ceil).param("count_include_pad", padded);
    let result = windows.write_pool(emit).one()?;
    one(quantized(call, result, 3))
}

/// Quantised tensors one after the other.
pub(super) fn concat(call: &mut Call<'_>) -> Outputs {
    let axis = call.int("axis")?.ok_or_else(|| call.missing("axis"))?;
    let count = call.num_inputs();
    if count < 5 || !(count - 2).is_multiple_of(3) {
        return Err(call.error(format!(
            "expected a scale and a zero point, and three inputs for each tensor, got {count}"
        )));
    }
    let tensors = (2..count).step_by(3).map(|at| real(call, at, 1)).collect::<Result<Vec<_>, _>>()?;
    let result = call.operator("torch.cat", &tensors, &[("dim", axis.into())])?;
    one(quantized(call, result, 0))
}

/// α·A·B + C of quantised matrices, with a quantised result if there is a scale for it.
pub(super) fn gemm(call: &mut Call<'_>) -> Outputs {
    let alpha = call.float_or("alpha", 1.0)?;
    let (turn_a, turn_b) = (call.flag_or("transA", false)?, call.flag_or("transB", false)?);
    let (a, b) = (real(call, 0, 1)?, real(call, 3, if turn_b { 0 } else { 1 })?);
    let (a, b) = (super::products::turned(call, a, turn_a)?, super::products::turned(call, b, turn_b)?);
    let mut sum = call.emit("torch.matmul").named("input", a).named("other", b).one()?;
    if let Some(c) = call.optional_input(6)? {
        // The unit of the summand is the product of both scales.
        let (a_scale, b_scale) = (call.input(1)?, call.input(4)?);
        let unit = call.expression("mul(@0,@1)", &[a_scale, b_scale])?;
        let c = call.expression("mul(@0,@1)", &[c, unit])?;
        sum = call.expression("add(@0,@1)", &[sum, c])?;
    }
    if alpha != 1.0 {
        sum = call.expression(&format!("mul(@0,{alpha:?})"), &[sum])?;
    }
    match call.has_input(7) {
        true => one(quantized(call, sum, 7)),
        false => one(Ok(sum)),
    }
}

/// The product of a matrix that is quantised by its own range and one that is stored quantised.
pub(super) fn dynamic_matmul(call: &mut Call<'_>) -> Outputs {
    let a = call.input(0)?;
    let parts = call.emit("DynamicQuantizeLinear").input(a).many(3)?;
    let a = call.operator("DequantizeLinear", &parts, &[])?;
    let b = real_at(call, [1, 2, 3], -1)?;
    one(biased_product(call, [a, b], 4))
}

/// The product of integer matrices with their scales.
pub(super) fn matmul_to_float(call: &mut Call<'_>) -> Outputs {
    let a = real_at(call, [0, 2, 4], -2)?;
    let b = real_at(call, [1, 3, 5], -1)?;
    one(biased_product(call, [a, b], 6))
}

fn biased_product(call: &mut Call<'_>, [a, b]: [OperandId; 2], bias: usize) -> Result<OperandId, OnnxError> {
    let product = call.emit("torch.matmul").named("input", a).named("other", b).one()?;
    match call.optional_input(bias)? {
        Some(bias) => call.expression("add(@0,@1)", &[product, bias]),
        None => Ok(product),
    }
}

/// A linear layer whose weights are stored as 2, 4 or 8 bits with a scale for each block.
pub(super) fn matmul_of_bits(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["accuracy_level"]);
    if call.flag_or("weight_prepacked", false)? {
        return Err(call.error("only `weight_prepacked=0` is supported"));
    }
    if call.has_input(4) {
        return Err(
            call.error("columns in another order (`g_idx`) are not supported; quantise without `act_order`")
        );
    }
    if !is_known(call)? {
        return Err(
            call.error("the quantised weights, their scales and zero points must be stored in the file")
        );
    }
    let weight = weight_of_bits(call)?;
    let len = |len: usize| i64::try_from(len).unwrap_or_default();
    let &[rows, columns] = weight.shape() else { return Err(call.error("expected weights of two axes")) };
    let bias = call.constant(5)?;
    let x = call.input(0)?;
    let mut emit =
        call.emit("nn.Linear").input(x).param("in_features", len(columns)).param("out_features", len(rows));
    emit = emit.param("bias", bias.is_some()).attribute("weight", weight);
    if let Some(bias) = &bias {
        emit = emit.attribute("bias", bias.attribute().clone());
    }
    let y = emit.one()?;
    match call.optional_input(5)? {
        Some(other) if bias.is_none() => one(call.expression("add(@0,@1)", &[y, other])),
        _ => one(Ok(y)),
    }
}

fn is_known(call: &mut Call<'_>) -> Result<bool, OnnxError> {
    let zeros = call.constant(3)?.is_some() == call.has_input(3);
    Ok(zeros && call.constant(1)?.is_some() && call.constant(2)?.is_some())
}
