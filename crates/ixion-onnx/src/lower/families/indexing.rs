//! Elements that are selected or written by their indices.

use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Constant, Value};
use ixion_pnnx::{OperandId, Parameter};

pub(super) const TABLE: Table = &[
    ("Compress", compress),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("NonZero", non_zero),
    ("ReverseSequence", reverse_sequence),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
    ("Unique", unique),
];

/// The most indices that become a parameter.
const MOST_INDICES: usize = 64;

fn gather(call: &mut Call<'_>) -> Outputs {
    let axis = call.int_or("axis", 0)?;
    if let Some(constant) = call.constant(1)?
        && let Some(index) = index_parameter(&constant)?
    {
        let x = call.input(0)?;
        return one(call.operator("Tensor.select", &[x], &[("dim", axis.into()), ("index", index)]));
    }
    if axis == 0
        && let Some(rows) = call.constant(0)?
        && rows.dtype().is_float()
        && let [count, len] = *rows.shape()
    {
        let indices = call.input(1)?;
        let embedding =
            call.emit("nn.Embedding").input(indices).attribute("weight", rows.attribute().clone());
        let [count, len] = [count, len].map(|len| i64::try_from(len).unwrap_or(i64::MAX));
        return one(embedding.param("num_embeddings", count).param("embedding_dim", len).one());
    }
    let (x, indices) = (call.input(0)?, call.input(1)?);
    one(call.emit("Gather").input(x).named("indices", indices).param("axis", axis).one())
}

/// A single index, or a short list of them, as a parameter.
fn index_parameter(constant: &Constant) -> Result<Option<Parameter>, OnnxError> {
    let count = constant.attribute().elem_count();
    if count == 0 || count > MOST_INDICES || constant.shape().len() > 1 {
        return Ok(None);
    }
    let Some(indices) = constant.i64s()? else { return Ok(None) };
    Ok(match (constant.shape(), indices.as_slice()) {
        ([], [index]) => Some((*index).into()),
        _ => Some(indices.into()),
    })
}

fn gather_elements(call: &mut Call<'_>) -> Outputs {
    let axis = call.int_or("axis", 0)?;
    let (x, indices) = (call.input(0)?, call.input(1)?);
    one(call.emit("GatherElements").input(x).named("indices", indices).param("axis", axis).one())
}

fn gather_nd(call: &mut Call<'_>) -> Outputs {
    let batch_dims = if call.version() >= 12 { call.int_or("batch_dims", 0)? } else { 0 };
    let (x, indices) = (call.input(0)?, call.input(1)?);
    one(call.emit("GatherND").input(x).named("indices", indices).param("batch_dims", batch_dims).one())
}

fn scatter_elements(call: &mut Call<'_>) -> Outputs {
    let axis = call.int_or("axis", 0)?;
    let (inputs, reduction) = (written(call)?, reduction(call)?);
    let op_type = "ScatterElements";
    one(call
        .emit(op_type)
        .input(inputs[0])
        .named("indices", inputs[1])
        .named("updates", inputs[2])
        .param("axis", axis)
        .param("reduction", reduction)
        .one())
}

fn scatter_nd(call: &mut Call<'_>) -> Outputs {
    let (inputs, reduction) = (written(call)?, reduction(call)?);
    let scatter = call.emit("ScatterND").input(inputs[0]).named("indices", inputs[1]);
    one(scatter.named("updates", inputs[2]).param("reduction", reduction).one())
}

/// The data, the indices and the updates.
fn written(call: &mut Call<'_>) -> Result<[OperandId; 3], OnnxError> {
    Ok([call.input(0)?, call.input(1)?, call.input(2)?])
}

fn reduction<'c>(call: &Call<'c>) -> Result<&'c str, OnnxError> {
    if call.version() >= 16 { call.string_or("reduction", "none") } else { Ok("none") }
}

fn tensor_scatter(call: &mut Call<'_>) -> Outputs {
    let (axis, mode) = (call.int_or("axis", -2)?, call.string_or("mode", "linear")?);
    let (cache, update, starts) = (call.input(0)?, call.input(1)?, call.optional_input(2)?);
    let scatter = call.emit("TensorScatter").input(cache).named("update", update);
    one(scatter.named_if("write_indices", starts).param("axis", axis).param("mode", mode).one())
}

fn compress(call: &mut Call<'_>) -> Outputs {
    let axis = call.int("axis")?;
    let (x, condition) = (call.input(0)?, call.input(1)?);
    one(call.emit("Compress").input(x).named("condition", condition).param_if("axis", axis).one())
}

fn non_zero(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    one(call.operator("NonZero", &[x], &[]))
}

fn reverse_sequence(call: &mut Call<'_>) -> Outputs {
    let (batch, time) = (call.int_or("batch_axis", 1)?, call.int_or("time_axis", 0)?);
    let (x, lens) = (call.input(0)?, call.input(1)?);
    let reverse = call.emit("ReverseSequence").input(x).named("sequence_lens", lens);
    one(reverse.param("batch_axis", batch).param("time_axis", time).one())
}

fn unique(call: &mut Call<'_>) -> Outputs {
    let (axis, sorted) = (call.int("axis")?, call.flag_or("sorted", true)?);
    let (x, outputs) = (call.input(0)?, call.num_outputs());
    let unique = call.emit("Unique").input(x).param_if("axis", axis).param("sorted", i64::from(sorted));
    Ok(unique.many(outputs)?.into_iter().map(Value::Operand).collect())
}
