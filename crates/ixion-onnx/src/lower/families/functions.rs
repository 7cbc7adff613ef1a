//! Functions of one element, activations among them.

use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};
use ixion_pnnx::{OperandId, Parameter};
use ixion_tensor::DType;

pub(super) const TABLE: Table = &[
    ("Abs", expression),
    ("Acos", expression),
    ("Acosh", expression),
    ("Asin", expression),
    ("Asinh", expression),
    ("Atan", expression),
    ("Atanh", expression),
    ("BitwiseNot", plain),
    ("Ceil", expression),
    ("Celu", scaled),
    ("Cos", expression),
    ("Cosh", expression),
    ("Dropout", dropout),
    ("Elu", scaled),
    ("Erf", expression),
    ("Exp", expression),
    ("Floor", expression),
    ("Gelu", gelu),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", plain),
    ("Identity", identity),
    ("IsInf", is_inf),
    ("IsNaN", plain),
    ("LeakyRelu", scaled),
    ("Log", expression),
    ("Mish", plain),
    ("Neg", expression),
    ("Not", plain),
    ("Reciprocal", expression),
    ("Relu", plain),
    ("Round", expression),
    ("Selu", selu),
    ("Shrink", shrink),
    ("Sigmoid", plain),
    ("Sign", sign),
    ("Sin", expression),
    ("Sinh", expression),
    ("Softplus", plain),
    ("Softsign", plain),
    ("Sqrt", expression),
    ("SwiGLU", swiglu),
    ("Swish", swish),
    ("Tan", expression),
    ("Tanh", plain),
    ("ThresholdedRelu", thresholded_relu),
];

/// A function of expressions whose name is that of the operator in lower case.
fn expression(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["consumed_inputs"]);
    let function = call.op_type().to_ascii_lowercase();
    let x = call.input(0)?;
    one(call.expression(&format!("{function}(@0)"), &[x]))
}

/// The sign. In PyTorch, that of NaN is 0.
fn sign(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let sign = call.expression("sign(@0)", &[x])?;
    let is_nan = call.operator("torch.isnan", &[x], &[])?;
    one(call.emit("torch.where").input(is_nan).named("input", x).named("other", sign).one())
}

/// An operator of one input, without attributes that matter.
fn plain(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["consumed_inputs"]);
    let op_type = match call.op_type() {
        "BitwiseNot" => "torch.bitwise_not",
        "HardSwish" => "F.hardswish",
        "IsNaN" => "torch.isnan",
        "Mish" => "F.mish",
        "Not" => "torch.logical_not",
        "Relu" => "F.relu",
        "Sigmoid" => "F.sigmoid",
        "Softplus" => "F.softplus",
        "Softsign" => "F.softsign",
        _ => "F.tanh",
    };
    let x = call.input(0)?;
    one(call.operator(op_type, &[x], &[]))
}

/// A number of the file as PNNX writes it.
fn factor(call: &Call<'_>, name: &'static str, default: f32) -> Result<f32, OnnxError> {
    Ok(call.float(name)?.unwrap_or(default))
}

/// An activation with one factor.
fn scaled(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["consumed_inputs"]);
    let (op_type, key, default) = match call.op_type() {
        "Celu" => ("F.celu", "alpha", 1.0),
        "Elu" => ("F.elu", "alpha", 1.0),
        _ => ("F.leaky_relu", "negative_slope", 0.01),
    };
    let alpha = factor(call, "alpha", default)?;
    let x = call.input(0)?;
    one(call.operator(op_type, &[x], &[(key, alpha.into())]))
}

fn gelu(call: &mut Call<'_>) -> Outputs {
    let approximate = call.string_or("approximate", "none")?;
    if !matches!(approximate, "none" | "tanh") {
        return Err(call.error(format!("expected `approximate` to be none or tanh, got `{approximate}`")));
    }
    let x = call.input(0)?;
    one(call.operator("F.gelu", &[x], &[("approximate", approximate.into())]))
}

fn hard_sigmoid(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["consumed_inputs"]);
    let (alpha, beta) = (factor(call, "alpha", 0.2)?, factor(call, "beta", 0.5)?);
    let x = call.input(0)?;
    // Exporters write 1/6 with few digits.
    if (alpha - 1.0 / 6.0).abs() < 1e-6 && (beta - 0.5).abs() < 1e-6 {
        return one(call.operator("F.hardsigmoid", &[x], &[]));
    }
    let (alpha, beta) = (Parameter::from(alpha), Parameter::from(beta));
    let line = call.expression(&format!("add(mul(@0,{}),{})", alpha.raw(), beta.raw()), &[x])?;
    one(call.operator("torch.clamp", &[line], &[("min", 0.0f32.into()), ("max", 1.0f32.into())]))
}

fn is_inf(call: &mut Call<'_>) -> Outputs {
    let (negative, positive) = (call.int_or("detect_negative", 1)?, call.int_or("detect_positive", 1)?);
    let x = call.input(0)?;
    if negative != 0 && positive != 0 {
        return one(call.operator("torch.isinf", &[x], &[]));
    }
    let flags = [("detect_negative", negative), ("detect_positive", positive)];
    one(call.operator("IsInf", &[x], &flags.map(|(key, flag)| (key, i64::from(flag != 0).into()))))
}

fn selu(call: &mut Call<'_>) -> Outputs {
    const ALPHA: f32 = 1.673_263_2;
    const GAMMA: f32 = 1.050_701;
    call.ignore(&["consumed_inputs"]);
    let (alpha, gamma) = (factor(call, "alpha", ALPHA)?, factor(call, "gamma", GAMMA)?);
    let x = call.input(0)?;
    let is_usual = (alpha - ALPHA).abs() < 1e-6 && (gamma - GAMMA).abs() < 1e-6;
    match is_usual {
        true => one(call.operator("F.selu", &[x], &[])),
        false => one(call.operator("Selu", &[x], &[("alpha", alpha.into()), ("gamma", gamma.into())])),
    }
}

fn shrink(call: &mut Call<'_>) -> Outputs {
    let (bias, lambd) = (factor(call, "bias", 0.0)?, factor(call, "lambd", 0.5)?);
    let x = call.input(0)?;
    one(call.operator("Shrink", &[x], &[("bias", bias.into()), ("lambd", lambd.into())]))
}

fn thresholded_relu(call: &mut Call<'_>) -> Outputs {
    let alpha = factor(call, "alpha", 1.0)?;
    let x = call.input(0)?;
    one(call.operator("F.threshold", &[x], &[("threshold", alpha.into()), ("value", 0.0f32.into())]))
}

/// x · sigmoid(alpha · x).
fn swish(call: &mut Call<'_>) -> Outputs {
    let gate = factor(call, "alpha", 1.0)?;
    let x = call.input(0)?;
    one(gated(call, x, gate))
}

/// The second input times the swish of the first.
fn swiglu(call: &mut Call<'_>) -> Outputs {
    let gate = factor(call, "alpha", 1.0)?;
    let (a, b) = (call.input(0)?, call.input(1)?);
    let gated = gated(call, a, gate)?;
    one(call.expression("mul(@0,@1)", &[gated, b]))
}

fn gated(call: &mut Call<'_>, x: OperandId, alpha: f32) -> Result<OperandId, OnnxError> {
    let is_silu = (alpha - 1.0).abs() < f32::EPSILON;
    match is_silu {
        true => call.operator("F.silu", &[x], &[]),
        false => call.operator("Swish", &[x], &[("alpha", alpha.into())]),
    }
}

/// The input itself.
fn identity(call: &mut Call<'_>) -> Outputs {
    Ok(vec![call.value(0)?])
}

/// The input itself, and a mask if it is asked for: nothing is dropped in inference.
fn dropout(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["consumed_inputs", "is_test", "ratio", "seed"]);
    if call.has_input(2) && call.constant_int(2)? != Some(0) {
        let drops_nothing = call.constant_float(1)?.is_some_and(|ratio| ratio == 0.0);
        if !drops_nothing {
            return Err(call.error("training is not supported: `training_mode` must be a constant, false"));
        }
    }
    let x = call.value(0)?;
    if !call.has_output(1) {
        return Ok(vec![x]);
    }
    let like = call.input(0)?;
    // Before version 12 the mask says nothing in inference; onnxruntime fills it with zeros. Before 10 it has the input's type.
    let op_type = if call.version() < 12 { "torch.zeros_like" } else { "torch.ones_like" };
    let dtype = (call.version() >= 10).then(|| DType::Bool.torch_name());
    let mask = call.emit(op_type).input(like).param_if("dtype", dtype).one()?;
    Ok(vec![x, Value::Operand(mask)])
}

#[cfg(test)]
mod tests {
    use crate::lower::testing::{boolean, graph, lines, node, refusal};
    use crate::schema::GraphProto;

    #[test]
    fn dropout_is_for_inference() {
        let of = |training: bool| {
            let nodes = vec![
                node("Dropout", &["x", "", "training"], &["a", "m"], Vec::new()),
                node("Relu", &["a"], &["y"], Vec::new()),
            ];
            GraphProto { initializer: vec![boolean("training", training)], ..graph(&["x"], nodes, &["y"]) }
        };
        assert!(lines(of(false)).contains(&"F.relu x -> y".to_owned()));
        assert!(refusal(of(true)).contains("training is not supported"));
    }
}
