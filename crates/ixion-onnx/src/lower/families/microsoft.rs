//! Microsoft's operators that join what ONNX has several for: products, convolutions, activations and normalisations.

use super::microsoft_attention as attention;
use super::microsoft_quantized as quantized;
use super::norms::{Norm, normalized, root_mean_square};
use super::products::turned;
use super::quantization::WindowAttributes;
use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};
use ixion_pnnx::OperandId;

pub(super) const TABLE: Table = &[
    ("Attention", attention::packed),
    ("BiasGelu", gelu),
    ("DynamicQuantizeMatMul", quantized::dynamic_matmul),
    ("EmbedLayerNormalization", embed),
    ("FastGelu", gelu),
    ("FusedConv", fused_conv),
    ("FusedGemm", fused_gemm),
    ("FusedMatMul", fused_matmul),
    ("Gelu", gelu),
    ("GroupQueryAttention", attention::grouped),
    ("LayerNormalization", layer_norm),
    ("MatMulIntegerToFloat", quantized::matmul_to_float),
    ("MatMulNBits", quantized::matmul_of_bits),
    ("MultiHeadAttention", attention::multi_head),
    ("QGemm", quantized::gemm),
    ("QLinearAdd", quantized::arithmetic),
    ("QLinearAveragePool", quantized::average_pool),
    ("QLinearConcat", quantized::concat),
    ("QLinearGlobalAveragePool", quantized::global_average_pool),
    ("QLinearLeakyRelu", quantized::unary),
    ("QLinearMul", quantized::arithmetic),
    ("QLinearSigmoid", quantized::unary),
    ("QLinearSoftmax", quantized::softmax),
    ("QuickGelu", quick_gelu),
    ("RotaryEmbedding", attention::rotary),
    ("SimplifiedLayerNormalization", root_mean_square_norm),
    ("SkipLayerNormalization", skip_norm),
    ("SkipSimplifiedLayerNormalization", skip_norm),
    ("TransposeMatMul", fused_matmul),
];

/// What onnxruntime registers among ONNX's own operators.
pub(super) const UNDER_ONNX: Table = &[("SimplifiedLayerNormalization", root_mean_square_norm)];

/// x · Φ(x), with a bias that some of the operators have.
fn gelu(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let x = match call.optional_input(1)? {
        Some(bias) => call.expression("add(@0,@1)", &[x, bias])?,
        None => x,
    };
    let approximate = if call.op_type() == "FastGelu" { "tanh" } else { "none" };
    one(call.emit("F.gelu").named("input", x).param("approximate", approximate).one())
}

/// x · sigmoid(α·x).
fn quick_gelu(call: &mut Call<'_>) -> Outputs {
    let alpha = call.float_or("alpha", 1.702)?;
    let x = call.input(0)?;
    let steep = call.expression(&format!("mul(@0,{alpha:?})"), &[x])?;
    let gate = call.emit("F.sigmoid").named("input", steep).one()?;
    one(call.expression("mul(@0,@1)", &[x, gate]))
}

/// A matrix product of transposed matrices, times a number.
fn fused_matmul(call: &mut Call<'_>) -> Outputs {
    let alpha = call.float_or("alpha", 1.0)?;
    for batch in ["transBatchA", "transBatchB"] {
        if call.flag_or(batch, false)? {
            return Err(call.error(format!("only `{batch}=0` is supported")));
        }
    }
    let (turn_a, turn_b) = (call.flag_or("transA", false)?, call.flag_or("transB", false)?);
    let (a, b) = (call.input(0)?, call.input(1)?);
    let (a, b) = (turned(call, a, turn_a)?, turned(call, b, turn_b)?);
    let product = call.emit("torch.matmul").named("input", a).named("other", b).one()?;
    one(scaled(call, product, alpha))
}

fn scaled(call: &mut Call<'_>, x: OperandId, factor: f64) -> Result<OperandId, OnnxError> {
    if factor == 1.0 {
        return Ok(x);
    }
    call.expression(&format!("mul(@0,{factor:?})"), &[x])
}

/// α·A·B + β·C, and an activation.
fn fused_gemm(call: &mut Call<'_>) -> Outputs {
    let (alpha, beta) = (call.float_or("alpha", 1.0)?, call.float_or("beta", 1.0)?);
    let (turn_a, turn_b) = (call.flag_or("transA", false)?, call.flag_or("transB", false)?);
    let (a, b) = (call.input(0)?, call.input(1)?);
    let (a, b) = (turned(call, a, turn_a)?, turned(call, b, turn_b)?);
    let product = call.emit("torch.matmul").named("input", a).named("other", b).one()?;
    let mut sum = scaled(call, product, alpha)?;
    if let Some(c) = call.optional_input(2)? {
        let c = scaled(call, c, beta)?;
        sum = call.expression("add(@0,@1)", &[sum, c])?;
    }
    let factor = |number: Option<f32>| number.map(f64::from);
    let params =
        [call.float("activation_alpha")?, call.float("activation_beta")?, call.float("activation_gamma")?]
            .map(factor);
    one(activated(call, sum, params))
}

/// A convolution, a tensor that is added to it, and an activation.
fn fused_conv(call: &mut Call<'_>) -> Outputs {
    let windows = WindowAttributes::of(call)?;
    let (x, w, bias) = (call.input(0)?, call.input(1)?, call.optional_input(2)?);
    let mut sum = windows.write(call.emit("Conv").input(x).named("W", w).named_if("B", bias)).one()?;
    if let Some(z) = call.optional_input(3)? {
        sum = call.expression("add(@0,@1)", &[sum, z])?;
    }
    let numbers = call.floats("activation_params")?.unwrap_or_default();
    let at = |position: usize| numbers.get(position).copied().map(f64::from);
    one(activated(call, sum, [at(0), at(1), at(2)]))
}

/// The activation that the attribute `activation` names, with its parameters.
fn activated(call: &mut Call<'_>, x: OperandId, params: [Option<f64>; 3]) -> Result<OperandId, OnnxError> {
    let name = call.string_or("activation", "")?;
    let [first, second, _] = params;
    let simple = |op_type: &'static str| Ok((op_type, Vec::new()));
    let chosen = match name {
        "" => return Ok(x),
        "Relu" => simple("F.relu"),
        "Sigmoid" => simple("F.sigmoid"),
        "Tanh" => simple("F.tanh"),
        "Softplus" => simple("F.softplus"),
        "LeakyRelu" => Ok(("F.leaky_relu", vec![("negative_slope", first.unwrap_or(0.01))])),
        "Elu" => Ok(("F.elu", vec![("alpha", first.unwrap_or(1.0))])),
        "Clip" => {
            let bounds = [("min", first), ("max", second)].into_iter();
            Ok(("torch.clamp", bounds.filter_map(|(key, bound)| Some((key, bound?))).collect()))
        }
        "HardSigmoid" => {
            let (alpha, beta) = (first.unwrap_or(0.2), second.unwrap_or(0.5));
            let line = call.expression(&format!("add(mul(@0,{alpha:?}),{beta:?})"), &[x])?;
            let clamp = call.emit("torch.clamp").named("input", line);
            return clamp.param("min", 0.0).param("max", 1.0).one();
        }
        other => Err(call.error(format!("the activation `{other}` is not supported"))),
    };
    let (op_type, params): (&str, Vec<(&str, f64)>) = chosen?;
    let emit = call.emit(op_type).named("input", x);
    params.into_iter().fold(emit, |emit, (key, value)| emit.param(key, value)).one()
}

/// Checks that the axes that are normalised are those of the weight if it is known, and else the last one.
fn check_axis(call: &mut Call<'_>) -> Result<(), OnnxError> {
    let axis = call.int_or("axis", -1)?;
    let rank = call.lengths(0)?.and_then(|lens| i64::try_from(lens.len()).ok());
    let count = if axis < 0 { axis.checked_neg() } else { rank.and_then(|rank| rank.checked_sub(axis)) };
    let weight = call.constant(1)?.filter(|_| !call.has_output(1) && !call.has_output(2));
    let known = weight.and_then(|weight| i64::try_from(weight.shape().len()).ok()).unwrap_or(1);
    match count.is_none_or(|count| count == known) {
        true => Ok(()),
        false => Err(call.error(format!("`axis={axis}` is not supported with these weights or outputs"))),
    }
}

/// Layer normalisation, whose weights say which axes are normalised.
fn layer_norm(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["stash_type"]);
    check_axis(call)?;
    let norm = Norm { eps: call.float_or("epsilon", 1e-5)?, weight: call.value(1)?, bias: call.value(2)? };
    let x = call.input(0)?;
    let results = normalized(call, x, &norm, [call.has_output(1), call.has_output(2)])?;
    Ok(results)
}

/// Division by the root mean square.
fn root_mean_square_norm(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["stash_type"]);
    check_axis(call)?;
    let norm = Norm { eps: call.float_or("epsilon", 1e-5)?, weight: call.value(1)?, bias: Value::Absent };
    let x = call.input(0)?;
    let needs = call.has_output(1);
    let [y, _, inverse] = root_mean_square(call, x, &norm, needs)?;
    Ok(vec![y, inverse])
}

/// A sum, and its normalisation.
fn skip_norm(call: &mut Call<'_>) -> Outputs {
    let is_simplified = call.op_type() == "SkipSimplifiedLayerNormalization";
    let bias_at = if is_simplified { 3 } else { 4 };
    let norm_bias = if is_simplified { Value::Absent } else { call.value(3)? };
    let norm = Norm { eps: call.float_or("epsilon", 1e-12)?, weight: call.value(2)?, bias: norm_bias };
    let (x, skip) = (call.input(0)?, call.input(1)?);
    let sum = match call.optional_input(bias_at)? {
        Some(bias) => call.expression("add(add(@0,@1),@2)", &[x, skip, bias])?,
        None => call.expression("add(@0,@1)", &[x, skip])?,
    };
    let needs = [call.has_output(1), call.has_output(2)];
    let mut results = match is_simplified {
        true => root_mean_square(call, sum, &norm, needs[1])?.to_vec(),
        false => normalized(call, sum, &norm, needs)?,
    };
    results.push(Value::Operand(sum));
    Ok(results)
}

/// The sum of the embeddings of words, positions and segments, and its normalisation.
fn embed(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["mask_index_type"]);
    let eps = call.float_or("epsilon", 1e-12)?;
    let norm = Norm { eps, weight: call.value(5)?, bias: call.value(6)? };
    let ids = call.input(0)?;
    let (segments, positions) = (call.optional_input(1)?, call.optional_input(8)?);
    let positions = match positions {
        Some(positions) => positions,
        None => {
            let ones = call.emit("torch.ones_like").named("input", ids).one()?;
            let counts = call.emit("torch.cumsum").named("input", ones).param("dim", -1).one()?;
            call.expression("sub(@0,1)", &[counts])?
        }
    };
    let words = row_of(call, ids, 2)?;
    let places = row_of(call, positions, 3)?;
    let mut sum = call.expression("add(@0,@1)", &[words, places])?;
    if let Some(segments) = segments {
        let segments = row_of(call, segments, 4)?;
        sum = call.expression("add(@0,@1)", &[sum, segments])?;
    }
    let y = normalized(call, sum, &norm, [false, false])?.into_iter().next().unwrap_or(Value::Absent);
    let mut lens = Value::Absent;
    if call.has_output(1) {
        let mask = match call.optional_input(7)? {
            Some(mask) => mask,
            None => call.emit("torch.zeros_like").named("input", ids).one()?,
        };
        let count = call
            .emit("torch.sum")
            .named("input", mask)
            .param("dim", vec![1i64])
            .param("keepdim", false)
            .one()?;
        lens = Value::Operand(call.operator(
            "Tensor.to",
            &[count],
            &[("dtype", "torch.int".into()), ("copy", false.into())],
        )?);
    }
    Ok(vec![y, lens, Value::Operand(sum)])
}

/// The rows of a matrix that `ids` select.
fn row_of(call: &mut Call<'_>, ids: OperandId, matrix: usize) -> Result<OperandId, OnnxError> {
    let Some(weight) = call.constant(matrix)? else {
        let weight = call.input(matrix)?;
        return call.emit("F.embedding").named("input", ids).named("weight", weight).one();
    };
    let &[rows, width] = weight.shape() else {
        let found = weight.shape().to_vec();
        return Err(call.error(format!("expected input {matrix} to be a matrix, got the shape {found:?}")));
    };
    let len = |len: usize| i64::try_from(len).unwrap_or_default();
    let emit = call.emit("nn.Embedding").input(ids).attribute("weight", weight.attribute().clone());
    emit.param("num_embeddings", len(rows)).param("embedding_dim", len(width)).param("sparse", false).one()
}
