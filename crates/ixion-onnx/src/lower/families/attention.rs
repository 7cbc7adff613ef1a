//! Attention, and the rotation of queries and keys by their positions.

use super::rotary::{Rotation, rotated};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};
use ixion_pnnx::{OperandId, Parameter};

pub(super) const TABLE: Table = &[("Attention", attention), ("RotaryEmbedding", rotary)];

/// What attention reads, and how its scores become weights.
#[derive(Debug, Default, Clone)]
pub(super) struct Attention {
    /// Numbers of heads of queries and of keys, if these are batch×steps×heads·size; else they are batch×heads×steps×size.
    pub(super) heads: Option<[i64; 2]>,
    pub(super) mask: Option<OperandId>,
    pub(super) past: Option<[OperandId; 2]>,
    pub(super) lens: Option<OperandId>,
    pub(super) is_causal: bool,
    pub(super) scale: Option<f64>,
    pub(super) softcap: f64,
    /// How far queries see to the left and to the right; −1 without a bound.
    pub(super) window: [i64; 2],
    /// The results that are wanted after the output: both caches, and the scores at the stage that the mode says.
    pub(super) needs: [bool; 3],
    pub(super) mode: i64,
}

/// `Attention` of ONNX.
fn attention(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["softmax_precision"]);
    let heads = (call.int("q_num_heads")?, call.int("kv_num_heads")?);
    let heads = match heads {
        (Some(queries), Some(keys)) => Some([queries, keys]),
        (Some(queries), None) => Some([queries, queries]),
        _ => None,
    };
    let past = past(call, [4, 5])?;
    let mode = call.int_or("qk_matmul_output_mode", 0)?;
    let options = Attention {
        heads,
        mask: call.optional_input(3)?,
        past,
        lens: call.optional_input(6)?,
        is_causal: call.flag_or("is_causal", false)?,
        scale: call.float("scale")?.map(f64::from),
        softcap: call.float_or("softcap", 0.0)?,
        window: [call.int_or("left_window_size", -1)?, call.int_or("right_window_size", -1)?],
        needs: [call.has_output(1), call.has_output(2), call.has_output(3)],
        mode,
    };
    let tensors = [call.input(0)?, call.input(1)?, call.input(2)?];
    attend(call, tensors, &options)
}

/// Attention: the output, and the results that are wanted.
///
/// # Errors
/// [`OnnxError`] if the operators cannot be added.
pub(super) fn attend(call: &mut Call<'_>, tensors: [OperandId; 3], options: &Attention) -> Outputs {
    let has_bounds = options.window != [-1, -1] || options.lens.is_some();
    let is_masked_twice = options.is_causal && (options.mask.is_some() || options.past.is_some());
    let is_plain = !has_bounds && !is_masked_twice && options.softcap == 0.0 && !options.needs[2];
    if is_plain { plain(call, tensors, options) } else { whole(call, tensors, options) }
}

/// PyTorch's operator, between the axes that it needs.
fn plain(call: &mut Call<'_>, [q, k, v]: [OperandId; 3], options: &Attention) -> Outputs {
    let (q, mut k, mut v) = match options.heads {
        Some([queries, keys]) => (split(call, q, queries)?, split(call, k, keys)?, split(call, v, keys)?),
        None => (q, k, v),
    };
    if let Some([past_key, past_value]) = options.past {
        k = call.operator("torch.cat", &[past_key, k], &[("dim", 2.into())])?;
        v = call.operator("torch.cat", &[past_value, v], &[("dim", 2.into())])?;
    }
    let shares = options.heads.is_none_or(|[queries, keys]| queries != keys);
    let emit =
        call.emit("F.scaled_dot_product_attention").named("query", q).named("key", k).named("value", v);
    let emit = emit
        .named_if("attn_mask", options.mask)
        .param("dropout_p", 0.0)
        .param("is_causal", options.is_causal);
    let emit = emit.param_if("scale", options.scale);
    let y = if shares { emit.param("enable_gqa", true).one()? } else { emit.one()? };
    let y = if options.heads.is_some() { joined(call, y)? } else { y };
    Ok([y, k, v].map(Value::Operand).to_vec())
}

/// batch×steps×heads·size as batch×heads×steps×size.
pub(super) fn split(call: &mut Call<'_>, x: OperandId, heads: i64) -> Result<OperandId, OnnxError> {
    if heads <= 0 {
        return Err(call.error(format!("the number of heads must be above 0, got {heads}")));
    }
    let parts = by_heads(call, x, heads)?;
    swapped(call, parts)
}

/// The keys and values of earlier steps, which are inputs at these positions.
///
/// # Errors
/// [`OnnxError::Node`] if only one of them is given.
pub(super) fn past(
    call: &mut Call<'_>,
    [key, value]: [usize; 2],
) -> Result<Option<[OperandId; 2]>, OnnxError> {
    match (call.optional_input(key)?, call.optional_input(value)?) {
        (Some(key), Some(value)) => Ok(Some([key, value])),
        (None, None) => Ok(None),
        _ => Err(call.error("`past_key` and `past_value` are given together or not at all")),
    }
}

/// batch×steps×heads·size as batch×steps×heads×size.
pub(super) fn by_heads(call: &mut Call<'_>, x: OperandId, heads: i64) -> Result<OperandId, OnnxError> {
    let sizes = Parameter::from(vec![heads, -1]);
    call.emit("Tensor.unflatten").named("input", x).param("dim", -1).param("sizes", sizes).one()
}

/// batch×steps×heads×size as batch×steps×heads·size.
pub(super) fn without_heads(call: &mut Call<'_>, x: OperandId) -> Result<OperandId, OnnxError> {
    call.emit("torch.flatten").named("input", x).param("start_dim", 2).param("end_dim", 3).one()
}

/// batch×heads×steps×size as batch×steps×heads·size.
pub(super) fn joined(call: &mut Call<'_>, x: OperandId) -> Result<OperandId, OnnxError> {
    let steps_first = swapped(call, x)?;
    without_heads(call, steps_first)
}

/// The second and the third of four axes exchanged.
pub(super) fn swapped(call: &mut Call<'_>, x: OperandId) -> Result<OperandId, OnnxError> {
    call.emit("torch.permute").named("input", x).param("dims", vec![0i64, 2, 1, 3]).one()
}

/// Ixion's operator for all that ONNX allows: types and sizes decide what it becomes.
fn whole(call: &mut Call<'_>, [q, k, v]: [OperandId; 3], options: &Attention) -> Outputs {
    let past = options.past.map_or([None, None], |past| past.map(Some));
    let emit =
        call.emit("Attention").input(q).named("K", k).named("V", v).named_if("attn_mask", options.mask);
    let emit = emit.named_if("past_key", past[0]).named_if("past_value", past[1]);
    let emit = emit.named_if("nonpad_kv_seqlen", options.lens);
    let emit = emit.param("is_causal", i64::from(options.is_causal)).param("softcap", options.softcap);
    let emit = emit.param_if("scale", options.scale).param("qk_matmul_output_mode", options.mode);
    let emit =
        emit.param("left_window_size", options.window[0]).param("right_window_size", options.window[1]);
    let emit = emit.param_if("q_num_heads", options.heads.map(|heads| heads[0]));
    let emit = emit.param_if("kv_num_heads", options.heads.map(|heads| heads[1]));
    let last = options.needs.iter().rposition(|needed| *needed).map_or(0, |last| last + 1);
    let results = emit.many(last + 1)?;
    Ok(results.into_iter().map(Value::Operand).collect())
}

/// `RotaryEmbedding` of ONNX.
fn rotary(call: &mut Call<'_>) -> Outputs {
    let heads = call.int_or("num_heads", 0)?;
    let rotation = Rotation {
        is_interleaved: call.flag_or("interleaved", false)?,
        size: call.int_or("rotary_embedding_dim", 0)?,
        positions: call.optional_input(3)?,
        caches: [call.input(1)?, call.input(2)?],
    };
    let x = call.input(0)?;
    // The number of heads says nothing about four axes, which have one for them.
    if heads > 0 && call.rank_of(x) != Some(4) {
        let parts = by_heads(call, x, heads)?;
        let turned = rotated(call, parts, &rotation)?;
        return one(without_heads(call, turned));
    }
    let steps_first = swapped(call, x)?;
    let turned = rotated(call, steps_first, &rotation)?;
    one(swapped(call, turned))
}
