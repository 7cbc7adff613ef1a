//! Multi-head attention: projections by matrix products, and heads by the attention kernel.

use super::attention::{Attention, check, strides_of};
use super::copy::copy;
use super::elementwise::Map;
use super::prelude::*;
use super::product::write_linear;
use super::support::{computed_in, input, int, is_float, is_real, shape};
use crate::ops::attention::multihead::{FileWeight, MultiheadAttention};
use crate::tensor::Dim;

/// The layers of this file.
pub(super) const LAYERS: &[&dyn Entry] = &[&Own::<MultiheadAttention>::ENTRY];

/// The weights on the device.
struct Weights<'a> {
    /// The projections of queries, keys and values.
    in_proj: [DeviceTensor<'a>; 3],
    biases: [Option<DeviceTensor<'a>>; 3],
    kv_bias: [Option<DeviceTensor<'a>>; 2],
    out_weight: DeviceTensor<'a>,
    out_bias: Option<DeviceTensor<'a>>,
}

/// The weights of the file, in the order in which they are on the device.
fn file_weights(layer: &MultiheadAttention) -> [&FileWeight; 9] {
    [
        &layer.in_proj_weight,
        &layer.q_proj_weight,
        &layer.k_proj_weight,
        &layer.v_proj_weight,
        &layer.in_proj_bias,
        &layer.bias_k,
        &layer.bias_v,
        &layer.out_weight,
        &layer.out_bias,
    ]
}

fn device_weights<'a>(layer: &MultiheadAttention, context: &CudaContext<'a>) -> Result<Weights<'a>> {
    let mut used = 0;
    let mut found: [Option<DeviceTensor<'a>>; 9] = [None; 9];
    for (slot, weight) in found.iter_mut().zip(file_weights(layer)) {
        if weight.0.is_some() {
            *slot = Some(context.weight(used)?);
            used += 1;
        }
    }
    let [all, q, k, v, bias, bias_k, bias_v, out_weight, out_bias] = found;
    let e = layer.embed_dim;
    let missing = |key: &str| LayerError::MissingWeight { key: key.to_owned() };
    let projection = |at: usize, own: Option<DeviceTensor<'a>>| match (all, own) {
        (Some(all), _) => Ok(all.narrow(0, at * e, e)?),
        (None, own) => own.ok_or_else(|| missing("in_proj_weight")),
    };
    let bias_slice = |at: usize| bias.map(|bias| bias.narrow(0, at * e, e)).transpose();
    Ok(Weights {
        in_proj: [projection(0, q)?, projection(1, k)?, projection(2, v)?],
        biases: [bias_slice(0)?, bias_slice(1)?, bias_slice(2)?],
        kv_bias: [bias_k, bias_v],
        out_weight: out_weight.ok_or_else(|| missing("out_proj.weight"))?,
        out_bias,
    })
}

/// An input or an output with the batch axis first.
fn with_batch_first<'a>(layer: &MultiheadAttention, tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>> {
    let layout = match (tensor.shape().len(), layer.batch_first) {
        (2, _) => tensor.layout().unsqueeze(0)?,
        (_, true) => *tensor.layout(),
        (_, false) => tensor.layout().transpose(0, 1)?,
    };
    Ok(tensor.with_layout(layout)?)
}

/// The heads of a projection N×L×E, as N×heads×L×E/heads.
fn heads<'a>(layer: &MultiheadAttention, tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>> {
    let dims = tensor.shape().dims();
    let [n, len] = [dims.first(), dims.get(1)].map(|len| len.copied().unwrap_or(1));
    let split = shape(&[n, len, layer.num_heads, layer.head_dim()])?;
    let fault = || LayerError::Unsupported("heads must be contiguous".to_owned());
    let layout = tensor.layout().reshape(&split)?.ok_or_else(fault)?;
    Ok(tensor.with_layout(layout.transpose(1, 2)?)?)
}

/// Computes a projection, with its rows in addition to those of the input.
fn project<'a>(
    layer: &MultiheadAttention,
    projection: usize,
    x: &DeviceTensor<'a>,
    y: &DeviceTensor<'a>,
    weights: &Weights<'a>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let (x, rows) = (with_batch_first(layer, x)?, y.shape().get(1).copied().unwrap_or(0));
    let input_rows = x.shape().get(1).copied().unwrap_or(0);
    let target = y.narrow(1, 0, input_rows)?;
    write_linear(&x, &weights.in_proj[projection], weights.biases[projection], &target, context)?;
    let mut next = input_rows;
    if let Some(kv_bias) = projection.checked_sub(1).and_then(|at| weights.kv_bias[at]) {
        let row = y.narrow(1, next, 1)?;
        copy(&kv_bias.expand(row.shape())?, &row, context)?;
        next += 1;
    }
    if next < rows {
        fill_zeros(&y.narrow(1, next, rows - next)?, context)?;
    }
    Ok(())
}

/// The attention mask of the heads, N×heads×L×S, and the padding mask, the same for all rows.
fn masks_of<'a>(
    layer: &MultiheadAttention,
    inputs: &[DeviceTensor<'a>],
    [n, rows, mask_columns]: [usize; 3],
) -> Result<[Option<DeviceTensor<'a>>; 2]> {
    let first = |position: usize| {
        let dims = inputs.get(position).map_or(&[][..], |tensor| tensor.shape().dims());
        (dims.len(), dims.first().map(|&len| Dim::from(len)))
    };
    let sources = layer.sources.resolved(first, [&Dim::from(n), &Dim::from(rows)]);
    let find = |position: Option<usize>| position.map(|position| input(inputs, position)).transpose();
    let mask = match find(sources.mask)? {
        Some(mask) => {
            let all = mask.layout().expand(&[n * layer.num_heads, rows, mask_columns])?;
            let heads = shape(&[n, layer.num_heads, rows, mask_columns])?;
            let fault = || LayerError::Unsupported("the mask must be contiguous".to_owned());
            let layout = match mask.shape().len() {
                2 => mask.layout().expand(&heads)?,
                _ => all.reshape(&heads)?.ok_or_else(fault)?,
            };
            Some(mask.with_layout(layout)?)
        }
        None => None,
    };
    let padding = match find(sources.padding)? {
        Some(padding) => {
            let layout = padding.layout().expand(&[n, mask_columns])?.unsqueeze(1)?.unsqueeze(1)?;
            Some(padding.with_layout(layout)?)
        }
        None => None,
    };
    Ok([mask, padding])
}

/// Writes the attention weights of the heads, or their mean.
fn write_weights<'a>(
    layer: &MultiheadAttention,
    attention: &Attention<'a>,
    y: &DeviceTensor<'a>,
    [n, rows, columns]: [usize; 3],
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let unit = attention
        .unit("attention_weights.cu", include_str!("../kernels/attention_weights.cu"))?
        .define("PER_HEAD", u8::from(layer.outputs.of_each_head));
    let batch = [n, layer.num_heads];
    let width = layer.head_dim();
    let mut layout = *y.layout();
    if layout.shape().len() == 2 + usize::from(layer.outputs.of_each_head) {
        layout = layout.unsqueeze(0)?;
    }
    let by = layout.strides();
    let mut strides = KernelStrides::default();
    let last = by.len().saturating_sub(2);
    strides.by[0] = by.first().map_or(0, |stride| *stride as i64);
    strides.by[1] = by.get(1).map_or(0, |stride| *stride as i64);
    strides.by[6] = by.get(last).map_or(0, |stride| *stride as i64);
    strides.by[7] = by.get(last + 1).map_or(0, |stride| *stride as i64);
    let [mask, mask_strides, padding, padding_strides] = attention.masks(&batch, rows)?;
    let arguments = [
        Argument::Read(attention.query),
        strides_of(attention.query.layout(), &batch, [rows, width])?,
        Argument::Read(attention.key),
        strides_of(attention.key.layout(), &batch, [columns, width])?,
        mask,
        mask_strides,
        padding,
        padding_strides,
        Argument::Write(*y),
        Argument::Strides(strides),
        Argument::Long(n as i64),
        Argument::Int(int(layer.num_heads)?),
        Argument::Int(int(rows)?),
        Argument::Int(int(columns)?),
        Argument::Int(int(attention.mask_columns)?),
        Argument::Int(int(width)?),
        Argument::Double(attention.scale),
    ];
    let threads = columns.clamp(1, 128).next_multiple_of(32) as u32;
    context.run(&unit, "attention_weights", Grid::of(n * rows, threads), &arguments)
}

/// The shapes of the tensors in scratch memory: the projections of queries, keys and values, and the output of the heads.
fn scratch_shapes(layer: &MultiheadAttention, [n, rows, columns]: [usize; 3]) -> [[usize; 3]; 4] {
    let e = layer.embed_dim;
    [[n, rows, e], [n, columns, e], [n, columns, e], [n, rows, e]]
}

/// Fills a tensor with zeros.
pub(super) fn fill_zeros(y: &DeviceTensor<'_>, context: &mut CudaContext<'_>) -> Result<()> {
    let unsupported = || LayerError::Unsupported("this element type has no kernel".to_owned());
    let zero = format!("({})0", computed_in(y.dtype())?);
    Map::new(Vec::new(), y.dtype(), "", &zero).ok_or_else(unsupported)?.run(&[], y, context)
}

impl CudaLayer for MultiheadAttention {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let sources = self.sources;
        let is_mask = [sources.mask, sources.padding, sources.unsure].contains(&Some(position));
        if is_mask { is_real(position, formats) } else { is_float(position, formats) }
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        file_weights(self).iter().filter_map(|weight| weight.0.as_ref()).map(|weight| weight.load()).collect()
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<()> {
        let dtype = inputs.get(self.sources.query).map_or(DType::F32, TensorMeta::dtype);
        check(dtype, self.head_dim(), self.head_dim())
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        let (Some(sizes), Some(query)) = (self.fixed_sizes(inputs), inputs.get(self.sources.query)) else {
            return 0;
        };
        let bytes = scratch_shapes(self, sizes).map(|dims| {
            let elements = dims.into_iter().fold(1, usize::saturating_mul);
            scratch_bytes(query.dtype(), elements)
        });
        bytes.into_iter().fold(0, usize::saturating_add)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let sources = self.sources;
        let query = input(io.inputs, sources.query)?;
        let (key, value) = (input(io.inputs, sources.key)?, input(io.inputs, sources.value)?);
        let sizes = [with_batch_first(self, &query)?, with_batch_first(self, &key)?];
        let len = |of: usize, axis: usize| sizes[of].shape().get(axis).copied().unwrap_or(1);
        let (n, rows, mask_columns) = (len(0, 0), len(0, 1), len(1, 1));
        let columns = mask_columns + self.extra_rows();
        let weights = device_weights(self, io.context)?;
        let mut scratch = Vec::with_capacity(4);
        for dims in scratch_shapes(self, [n, rows, columns]) {
            scratch.push(io.context.scratch(query.dtype(), shape(&dims)?)?);
        }
        let [q, k, v, concatenated] = scratch.as_slice() else { return Ok(()) };
        for (projection, (x, y)) in [(&query, q), (&key, k), (&value, v)].into_iter().enumerate() {
            project(self, projection, x, y, &weights, io.context)?;
        }
        let [mask, padding] = masks_of(self, io.inputs, [n, rows, mask_columns])?;
        let attention = Attention {
            query: heads(self, q)?,
            key: heads(self, k)?,
            value: heads(self, v)?,
            mask,
            padding,
            mask_keep: false,
            mask_columns,
            scale: 1.0 / (self.head_dim() as f64).sqrt(),
            is_causal: false,
            // Without weights as an output, PyTorch takes another path, in which a row without columns is 0.
            masked_row_is_zero: io.outputs.len() < 2,
        };
        attention.run(&heads(self, concatenated)?, io.context)?;
        let y = with_batch_first(self, &io.outputs[0])?;
        write_linear(concatenated, &weights.out_weight, weights.out_bias, &y, io.context)?;
        match io.outputs.get(1) {
            Some(y) => write_weights(self, &attention, y, [n, rows, columns], io.context),
            None => Ok(()),
        }
    }
}
