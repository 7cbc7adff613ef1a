//! Microsoft's attention operators, as ONNX's attention of projected queries, keys and values.

use super::attention::{Attention, attend, by_heads, past, without_heads};
use super::rotary::{Rotation, rotated, sliced};
use crate::OnnxError;
use crate::lower::Call;
use crate::lower::call::{Outputs, one};
use ixion_pnnx::{Attribute, OperandId, Parameter};

/// The number of heads that an attribute gives.
fn heads(call: &Call<'_>, key: &'static str) -> Result<i64, OnnxError> {
    let heads = call.int(key)?.ok_or_else(|| call.missing(key))?;
    match heads > 0 {
        true => Ok(heads),
        false => Err(call.error(format!("expected `{key}` to be above 0, got {heads}"))),
    }
}

/// The attribute `scale`, which is left out as 0.
fn scale(call: &Call<'_>) -> Result<Option<f64>, OnnxError> {
    Ok(call.float("scale")?.map(f64::from).filter(|scale| *scale != 0.0))
}

/// `Attention`: self-attention of one tensor, with the weights of all three projections in one matrix.
pub(super) fn packed(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["mask_filter_value"]);
    let count = heads(call, "num_heads")?;
    if call.has_input(4)
        || call.flag_or("do_rotary", false)?
        || call.flag_or("past_present_share_buffer", false)?
    {
        return Err(call.error("a cache (`past`) and `do_rotary` are not supported"));
    }
    let sizes = call.ints("qkv_hidden_sizes")?;
    let x = call.input(0)?;
    let options = Attention {
        heads: Some([count, count]),
        mask: masked(call, x, [3, 5])?,
        is_causal: call.flag_or("unidirectional", false)?,
        scale: scale(call)?,
        window: [-1, -1],
        ..Attention::default()
    };
    call.ignore(&["rotary_embedding_dim"]);
    let projected = projected(call, x)?;
    let widths = match sizes {
        Some(sizes) if sizes.len() == 3 => Parameter::from(sizes),
        Some(sizes) => return Err(call.error(format!("expected three `qkv_hidden_sizes`, got {sizes:?}"))),
        None => {
            let parts = call
                .emit("torch.chunk")
                .named("input", projected)
                .param("chunks", 3)
                .param("dim", -1)
                .many(3)?;
            return attend_parts(call, parts, &options);
        }
    };
    let emit = call.emit("torch.split").named("tensor", projected).param("split_size_or_sections", widths);
    let parts = emit.param("dim", -1).many(3)?;
    attend_parts(call, parts, &options)
}

fn attend_parts(call: &mut Call<'_>, parts: Vec<OperandId>, options: &Attention) -> Outputs {
    let parts = <[OperandId; 3]>::try_from(parts).map_err(|_| call.error("expected three projections"))?;
    let output = attend(call, parts, options)?;
    Ok(output.into_iter().take(1).collect())
}

/// The product with the weights, inputs×outputs, and the bias: a linear layer if both are known.
fn projected(call: &mut Call<'_>, x: OperandId) -> Result<OperandId, OnnxError> {
    let known = (call.constant(1)?, call.constant(2)?);
    if let (Some(weight), bias) = known
        && bias.is_some() == call.has_input(2)
        && let &[inputs, outputs] = weight.shape()
    {
        let stored = weight.attribute();
        let turned = transposed(&stored.bytes()?, inputs, outputs, stored.dtype().size());
        let len = |len: usize| i64::try_from(len).unwrap_or_default();
        let mut emit =
            call.emit("nn.Linear").input(x).param("in_features", len(inputs)).param("bias", bias.is_some());
        emit = emit.param("out_features", len(outputs));
        emit = emit.attribute("weight", Attribute::new(stored.dtype(), vec![outputs, inputs], turned)?);
        if let Some(bias) = bias {
            emit = emit.attribute("bias", bias.attribute().clone());
        }
        return emit.one();
    }
    let weight = call.input(1)?;
    let product = call.emit("torch.matmul").named("input", x).named("other", weight).one()?;
    match call.optional_input(2)? {
        Some(bias) => call.expression("add(@0,@1)", &[product, bias]),
        None => Ok(product),
    }
}

/// The elements of a matrix, columns first.
fn transposed(bytes: &[u8], rows: usize, columns: usize, size: usize) -> Vec<u8> {
    let mut turned = Vec::with_capacity(bytes.len());
    for column in 0..columns {
        for row in 0..rows {
            let start = row.saturating_mul(columns).saturating_add(column).saturating_mul(size);
            turned.extend_from_slice(bytes.get(start..start.saturating_add(size)).unwrap_or_default());
        }
    }
    turned
}

/// The mask from a padding mask, batch×steps with 0 for padding, and a tensor that is added to the scores.
fn masked(
    call: &mut Call<'_>,
    keys: OperandId,
    [padding, bias]: [usize; 2],
) -> Result<Option<OperandId>, OnnxError> {
    let bias = call.optional_input(bias)?;
    let Some(mask) = call.optional_input(padding)? else { return Ok(bias) };
    // Its number of axes says what it is: lengths, a row for all queries, or one for each of them.
    let wide = call.emit("PaddingMask").input(mask).named("keys", keys).one()?;
    let Some(bias) = bias else { return Ok(Some(wide)) };
    let emit = call.emit("torch.where").named("condition", wide).named("input", bias);
    emit.param("other", f64::NEG_INFINITY).one().map(Some)
}

/// `MultiHeadAttention`: attention of projected queries, keys and values.
pub(super) fn multi_head(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["mask_filter_value"]);
    let count = heads(call, "num_heads")?;
    if !call.has_input(1) || !call.has_input(2) {
        return Err(call.error("queries, keys and values in one tensor are not supported; give all three"));
    }
    if call.has_input(8) || call.has_input(9) {
        return Err(call.error(
            "a cache in a shared buffer (`past_sequence_length`, `cache_indirection`) is not supported",
        ));
    }
    let past = past(call, [6, 7])?;
    let (mut q, mut k, mut v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let options = Attention {
        heads: Some([count, count]),
        mask: masked(call, k, [4, 5])?,
        past,
        is_causal: call.flag_or("unidirectional", false)?,
        scale: scale(call)?,
        window: [-1, -1],
        needs: [call.has_output(1), call.has_output(2), false],
        ..Attention::default()
    };
    if call.has_output(3) {
        return Err(call.error("the output `qk` is not supported"));
    }
    if [k, v].iter().any(|operand| call.rank_of(*operand).is_some_and(|rank| rank != 3)) {
        return Err(call.error("keys and values of more than three axes are not supported"));
    }
    if let Some(bias) = call.optional_input(3)? {
        let parts =
            call.emit("torch.chunk").named("input", bias).param("chunks", 3).param("dim", 0).many(3)?;
        if let [query, key, value] = parts.as_slice() {
            q = call.expression("add(@0,@1)", &[q, *query])?;
            k = call.expression("add(@0,@1)", &[k, *key])?;
            v = call.expression("add(@0,@1)", &[v, *value])?;
        }
    }
    attend(call, [q, k, v], &options)
}

/// `GroupQueryAttention`: causal attention with a cache, whose heads several heads of queries share. All sequences of a batch
/// must be equally long, and fill the cache.
pub(super) fn grouped(call: &mut Call<'_>) -> Outputs {
    let counts = [heads(call, "num_heads")?, heads(call, "kv_num_heads")?];
    call.ignore(&["k_quant_type", "v_quant_type", "kv_cache_bit_width"]);
    for (key, default) in [("smooth_softmax", 0), ("qk_output", 0)] {
        if call.int_or(key, default)? > 0 {
            return Err(call.error(format!("only `{key}={default}` is supported")));
        }
    }
    if (11..call.num_inputs()).any(|at| call.has_input(at)) {
        return Err(call.error(
            "only the first eleven inputs are supported, without `head_sink` and scales of the cache",
        ));
    }
    let past = past(call, [3, 4])?;
    warn_of_lengths(call)?;
    let [mut q, mut k, v] = queries_keys_values(call, counts)?;
    let window = call.int_or("local_window_size", -1)?;
    let options = Attention {
        heads: Some(counts),
        mask: call.optional_input(10)?,
        past,
        is_causal: true,
        scale: scale(call)?,
        softcap: call.float_or("softcap", 0.0)?,
        window: [if window > 0 { window - 1 } else { -1 }, -1],
        needs: [call.has_output(1), call.has_output(2), false],
        ..Attention::default()
    };
    let is_interleaved = call.flag_or("rotary_interleaved", false)?;
    if call.flag_or("do_rotary", false)? {
        let positions = match call.optional_input(9)? {
            Some(positions) => positions,
            None => positions(call, q)?,
        };
        let caches = [call.input(7)?, call.input(8)?];
        let rotation =
            Rotation { is_interleaved, size: rotated_size(call)?, positions: Some(positions), caches };
        q = rotated_heads(call, q, counts[0], &rotation)?;
        k = rotated_heads(call, k, counts[1], &rotation)?;
    }
    attend(call, [q, k, v], &options)
}

/// The three inputs, which may be in one tensor.
fn queries_keys_values(call: &mut Call<'_>, [queries, keys]: [i64; 2]) -> Result<[OperandId; 3], OnnxError> {
    let first = call.input(0)?;
    if call.has_input(1) {
        return Ok([first, call.input(1)?, call.input(2)?]);
    }
    // Heads first of the queries, then of the keys, then of the values.
    let total = queries.saturating_add(keys.saturating_mul(2));
    let all = by_heads(call, first, total)?;
    let counts = Parameter::from(vec![queries, keys, keys]);
    let emit = call.emit("torch.split").named("tensor", all).param("split_size_or_sections", counts);
    let parts = emit.param("dim", 2).many(3)?;
    let parts = <[OperandId; 3]>::try_from(parts).map_err(|_| call.error("expected three parts"))?;
    let mut joined = parts;
    for part in &mut joined {
        *part = without_heads(call, *part)?;
    }
    Ok(joined)
}

/// The position of each query: the number of keys in the cache, and on.
fn positions(call: &mut Call<'_>, q: OperandId) -> Result<OperandId, OnnxError> {
    let total = call.input(6)?;
    let column = sliced(call, q, [Some(0), Some(1), None])?;
    let column = call.emit("torch.squeeze").named("input", column).param("dim", -1).one()?;
    let long = [("dtype", "torch.long".into())];
    let ones = call.emit("torch.ones_like").named("input", column).param("dtype", "torch.long").one()?;
    let counts = call.emit("torch.cumsum").named("input", ones).param("dim", 1).one()?;
    let length =
        call.emit("torch.sum").named("input", ones).param("dim", vec![1i64]).param("keepdim", true).one()?;
    let total = call.operator("Tensor.to", &[total], &long)?;
    call.expression("sub(add(@0,@1),add(@2,1))", &[counts, total, length])
}

fn rotated_size(call: &mut Call<'_>) -> Result<i64, OnnxError> {
    call.int_or("rotary_embedding_dim", 0)
}

/// Rotates batch×steps×heads·size.
fn rotated_heads(
    call: &mut Call<'_>,
    x: OperandId,
    heads: i64,
    rotation: &Rotation,
) -> Result<OperandId, OnnxError> {
    let parts = by_heads(call, x, heads)?;
    let turned = rotated(call, parts, rotation)?;
    without_heads(call, turned)
}

/// Warns that `seqlens_k` is not read, unless there is a single sequence.
fn warn_of_lengths(call: &mut Call<'_>) -> Result<(), OnnxError> {
    let batch = call.lengths(0)?.and_then(|lengths| lengths.first().copied().flatten());
    if batch != Some(1) {
        log::warn!(
            "`{}`: all sequences of a batch must be equally long: `seqlens_k` is not read",
            call.name()
        );
    }
    Ok(())
}

/// `RotaryEmbedding`.
pub(super) fn rotary(call: &mut Call<'_>) -> Outputs {
    let (count, size) = (call.int_or("num_heads", 0)?, call.int_or("rotary_embedding_dim", 0)?);
    if call.flag_or("is_packed_batching", false)? || call.float_or("scale", 1.0)? != 1.0 {
        return Err(call.error("only `is_packed_batching=0` and `scale=1` are supported"));
    }
    let is_interleaved = call.flag_or("interleaved", false)?;
    let (x, caches) = (call.input(0)?, [call.input(2)?, call.input(3)?]);
    let positions = call.input(1)?;
    // Without a part that stays, the caches say how long a head is, and the number of axes where the heads are.
    let is_known = size > 0 && count > 0 && call.rank_of(x) != Some(4);
    let parts = match is_known {
        true => by_heads(call, x, count)?,
        false => call.emit("RotaryHeads").input(x).named("cos", caches[0]).one()?,
    };
    let positions = match call.rank_of(positions) {
        Some(2) => positions,
        _ => call.emit("RotaryPositions").input(positions).named("x", parts).one()?,
    };
    let rotation = Rotation { is_interleaved, size, positions: Some(positions), caches };
    let turned = rotated(call, parts, &rotation)?;
    match is_known {
        true => one(without_heads(call, turned)),
        false => one(call.emit("RotaryJoined").input(turned).named("like", x).one()),
    }
}
