//! Normalisation.

use crate::OnnxError;
use crate::lower::call::Table;
use crate::lower::call::{Outputs, one};
use crate::lower::emit::Emit;
use crate::lower::{Call, Constant, Value};
use ixion_pnnx::{OperandId, Parameter};

pub(super) const TABLE: Table = &[
    ("BatchNormalization", batch_normalization),
    ("GroupNormalization", group_normalization),
    ("InstanceNormalization", instance_normalization),
    ("LRN", local_response),
    ("LayerNormalization", layer_normalization),
    ("LpNormalization", lp_normalization),
    ("MeanVarianceNormalization", mean_variance),
    ("RMSNormalization", rms_normalization),
];

/// `BatchNormalization`. The number of axes is unknown here: passes turn the function with known statistics into the module.
fn batch_normalization(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let epsilon = call.float("epsilon")?.unwrap_or(1e-5);
    let momentum = call.float("momentum")?.unwrap_or(0.9);
    let trains = call.flag_or("training_mode", false)?;
    // Before version 7, this said that a model is not trained, and 0 was the default all the same.
    call.ignore(&["is_test"]);
    if call.int_or("spatial", 1)? != 1 {
        return Err(
            call.error("statistics for each element (`spatial=0`) are not supported, only for each channel")
        );
    }
    let constants = (1..5).map(|position| call.constant(position)).collect::<Result<Vec<_>, _>>()?;
    let types: Vec<_> = constants.iter().flatten().map(Constant::dtype).collect();
    let is_of_one_type = types.windows(2).all(|pair| pair.first() == pair.last());
    let [scale, bias, mean, variance] = [call.input(1)?, call.input(2)?, call.input(3)?, call.input(4)?];
    if !trains && is_of_one_type {
        let emit = call.emit("F.batch_norm").named("input", x).named("running_mean", mean);
        let emit = emit.named("running_var", variance).named("weight", scale).named("bias", bias);
        return one(emit.param("eps", epsilon).one());
    }
    let outputs = if trains { call.num_outputs().clamp(1, 3) } else { 1 };
    let emit = call.emit("BatchNormalization").input(x).named("scale", scale).named("B", bias);
    let emit = emit.named("input_mean", mean).named("input_var", variance);
    let emit = emit.param("epsilon", epsilon).param("momentum", momentum);
    let outputs = emit.param("training_mode", i64::from(trains)).many(outputs)?;
    Ok(outputs.into_iter().map(Value::Operand).collect())
}

/// `InstanceNormalization`.
fn instance_normalization(call: &mut Call<'_>) -> Outputs {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let epsilon = call.float("epsilon")?.unwrap_or(1e-5);
    let emit = call.emit("F.instance_norm").named("input", x).named("weight", scale).named("bias", bias);
    one(emit.param("running_mean", "None").param("running_var", "None").param("eps", epsilon).one())
}

/// `GroupNormalization`: up to version 20 scales and biases are those of groups, and then those of channels.
fn group_normalization(call: &mut Call<'_>) -> Outputs {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let epsilon = call.float("epsilon")?.unwrap_or(1e-5);
    let groups = call.int("num_groups")?.ok_or_else(|| call.missing("num_groups"))?;
    if groups < 1 {
        return Err(call.error(format!("expected `num_groups` to be at least 1, got {groups}")));
    }
    // Halves are normalised in single precision.
    call.ignore(&["stash_type"]);
    if call.version() >= 21 {
        let emit = call.emit("F.group_norm").named("input", x).named("weight", scale).named("bias", bias);
        return one(emit.param("num_groups", groups).param("eps", epsilon).one());
    }
    let plain = call.emit("F.group_norm").named("input", x).param("num_groups", groups).param("eps", epsilon);
    let plain = plain.param("weight", "None").param("bias", "None").one()?;
    let grouped = vec![0, groups, -1];
    let y = call.emit("Tensor.reshape").named("input", plain).param("shape", grouped).one()?;
    let column = |call: &mut Call<'_>, operand| {
        call.emit("Tensor.reshape").named("input", operand).param("shape", vec![groups, 1]).one()
    };
    let (scale, bias) = (column(call, scale)?, column(call, bias)?);
    let y = call.expression("add(mul(@0,@1),@2)", &[y, scale, bias])?;
    one(call.emit("Tensor.reshape_as").named("input", y).named("other", x).one())
}

/// The attributes of `LayerNormalization` and `RMSNormalization`, which normalise along the last axes.
struct LastAxes {
    x: OperandId,
    scale: OperandId,
    epsilon: f32,
    axis: i64,
    /// The scale and the lengths of its axes, if these are the ones along which the input is normalised.
    known: Option<(Constant, Vec<i64>)>,
}

impl LastAxes {
    fn of(call: &mut Call<'_>) -> Result<Self, OnnxError> {
        let (x, scale, constant) = (call.input(0)?, call.input(1)?, call.constant(1)?);
        let axis = call.int_or("axis", -1)?;
        let signed = |&len: &usize| i64::try_from(len).unwrap_or(i64::MAX);
        let known = constant.and_then(|constant| {
            let lens: Vec<i64> = constant.shape().iter().map(signed).collect();
            // The scale is broadcast, so that it may be shorter than the input.
            let is_whole =
                i64::try_from(lens.len()).ok() == axis.checked_neg() && lens.iter().all(|len| *len > 1);
            (is_whole && constant.dtype().is_float()).then_some((constant, lens))
        });
        Ok(Self { x, scale, epsilon: call.float("epsilon")?.unwrap_or(1e-5), axis, known })
    }

    /// The module with the known scale.
    fn module<'c>(&self, call: &'c mut Call<'_>, op_type: &str) -> Option<Emit<'c>> {
        let (scale, lens) = self.known.as_ref()?;
        let emit =
            call.emit(op_type).input(self.x).param("elementwise_affine", true).param("eps", self.epsilon);
        Some(emit.param("normalized_shape", lens.as_slice()).attribute("weight", scale.attribute().clone()))
    }

    /// The operator under its own name.
    fn row<'c>(&self, call: &'c mut Call<'_>) -> Emit<'c> {
        let op_type = call.op_type();
        let emit = call.emit(op_type).input(self.x).named("scale", self.scale);
        emit.param("axis", self.axis).param("epsilon", self.epsilon)
    }
}

/// `LayerNormalization`: a module if its weights are known.
fn layer_normalization(call: &mut Call<'_>) -> Outputs {
    let layer = LastAxes::of(call)?;
    let (bias, b) = (call.constant(2)?, call.optional_input(2)?);
    let stash_type = call.int_or("stash_type", 1)?;
    let has_statistics = call.has_output(1) || call.has_output(2);
    let fits = match (&layer.known, &bias) {
        (Some((scale, _)), Some(bias)) => bias.dtype() == scale.dtype() && bias.shape() == scale.shape(),
        _ => b.is_none(),
    };
    if fits
        && !has_statistics
        && let Some(module) = layer.module(call, "nn.LayerNorm")
    {
        return one(match &bias {
            Some(bias) => module.attribute("bias", bias.attribute().clone()),
            None => module,
        }
        .one());
    }
    let outputs = call.num_outputs().clamp(1, 3);
    let outputs = layer.row(call).named_if("B", b).param("stash_type", stash_type).many(outputs)?;
    Ok(outputs.into_iter().map(Value::Operand).collect())
}

/// `RMSNormalization`: a module if its weights are known.
fn rms_normalization(call: &mut Call<'_>) -> Outputs {
    let layer = LastAxes::of(call)?;
    let stash_type = call.int_or("stash_type", 1)?;
    match layer.module(call, "nn.RMSNorm") {
        Some(module) => one(module.one()),
        None => one(layer.row(call).param("stash_type", stash_type).one()),
    }
}

/// `LRN`. For an even size, PyTorch has one more channel before than after, and ONNX the other way round.
fn local_response(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let size = call.int("size")?.ok_or_else(|| call.missing("size"))?;
    if size < 1 {
        return Err(call.error(format!("expected `size` to be at least 1, got {size}")));
    }
    let (alpha, beta) = (call.float("alpha")?.unwrap_or(1e-4), call.float("beta")?.unwrap_or(0.75));
    let bias = call.float("bias")?.unwrap_or(1.0);
    let flipped = |call: &mut Call<'_>, x| match size % 2 {
        0 => call.emit("torch.flip").named("input", x).param("dims", vec![1]).one(),
        _ => Ok(x),
    };
    let x = flipped(call, x)?;
    let params: [(&str, Parameter); 4] =
        [("alpha", alpha.into()), ("beta", beta.into()), ("k", bias.into()), ("size", size.into())];
    let y = call.operator("nn.LocalResponseNorm", &[x], &params)?;
    one(flipped(call, y))
}

/// `LpNormalization`.
fn lp_normalization(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let (axis, p) = (call.int_or("axis", -1)?, call.int_or("p", 2)?);
    let emit = call.emit("F.normalize").named("input", x).param("dim", axis).param("eps", 1e-12_f32);
    one(emit.param("p", p as f32).one())
}

/// `MeanVarianceNormalization`, under its own name.
fn mean_variance(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let axes = call.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    one(call.operator("MeanVarianceNormalization", &[x], &[("axes", axes.into())]))
}
