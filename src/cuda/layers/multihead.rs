//! Multi-head attention: projections by matrix products, and heads by the attention kernel.

use super::attention::{Attention, check, strides_of};
use super::copy::copy;
use super::elementwise::Map;
use super::epilogue::{Arguments, EpilogueCode};
use super::product::linear;
use super::support::{computed_in, input, int, is_float, is_real, shape};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelStrides};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers, scratch_bytes};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::attention::multihead::{FileWeight, MultiheadAttention};
use crate::tensor::{DType, Dim, Tensor};
use std::ops::Deref;

/// The weights on the device.
struct Weights<'a> {
    /// The projections of queries, keys and values.
    parts: [DeviceTensor<'a>; 3],
    biases: [Option<DeviceTensor<'a>>; 3],
    learnt: [Option<DeviceTensor<'a>>; 2],
    back: DeviceTensor<'a>,
    back_bias: Option<DeviceTensor<'a>>,
}

/// The layer, with what its parts are on a device.
struct OnDevice<'l>(&'l MultiheadAttention);

impl Deref for OnDevice<'_> {
    type Target = MultiheadAttention;

    fn deref(&self) -> &MultiheadAttention {
        self.0
    }
}

impl OnDevice<'_> {
    /// The weights of the file, in the order in which they are on the device.
    fn file_weights(&self) -> [&FileWeight; 9] {
        [
            &self.in_proj_weight,
            &self.q_proj_weight,
            &self.k_proj_weight,
            &self.v_proj_weight,
            &self.in_proj_bias,
            &self.bias_k,
            &self.bias_v,
            &self.out_weight,
            &self.out_bias,
        ]
    }

    fn device_weights<'a>(&self, context: &CudaContext<'a>) -> Result<Weights<'a>, LayerError> {
        let mut taken = 0;
        let mut found: [Option<DeviceTensor<'a>>; 9] = [None; 9];
        for (place, weight) in found.iter_mut().zip(self.file_weights()) {
            if weight.0.is_some() {
                *place = Some(context.weight(taken)?);
                taken += 1;
            }
        }
        let [all, q, k, v, bias, bias_k, bias_v, back, back_bias] = found;
        let e = self.embed_dim;
        let missing = |key: &str| LayerError::MissingWeight { key: key.to_owned() };
        let part = |at: usize, own: Option<DeviceTensor<'a>>| match (all, own) {
            (Some(all), _) => Ok(all.with_layout(all.layout().narrow(0, at * e, e)?)?),
            (None, own) => own.ok_or_else(|| missing("in_proj_weight")),
        };
        let share = |at: usize| -> Result<Option<DeviceTensor<'a>>, LayerError> {
            let share = |bias: DeviceTensor<'a>| -> Result<DeviceTensor<'a>, LayerError> {
                Ok(bias.with_layout(bias.layout().narrow(0, at * e, e)?)?)
            };
            bias.map(share).transpose()
        };
        Ok(Weights {
            parts: [part(0, q)?, part(1, k)?, part(2, v)?],
            biases: [share(0)?, share(1)?, share(2)?],
            learnt: [bias_k, bias_v],
            back: back.ok_or_else(|| missing("out_proj.weight"))?,
            back_bias,
        })
    }

    /// An input or an output with the batch axis first.
    fn samples_first<'a>(&self, tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>, LayerError> {
        let layout = match (tensor.shape().len(), self.batch_first) {
            (2, _) => tensor.layout().unsqueeze(0)?,
            (_, true) => *tensor.layout(),
            (_, false) => tensor.layout().transpose(0, 1)?,
        };
        Ok(tensor.with_layout(layout)?)
    }

    /// The heads of a projection N×L×E, as N×heads×L×E/heads.
    fn heads<'a>(&self, tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>, LayerError> {
        let dims = tensor.shape().dims();
        let [n, len] = [dims.first(), dims.get(1)].map(|len| len.copied().unwrap_or(1));
        let parts = shape(&[n, len, self.num_heads, self.head_dim()])?;
        let fault = || LayerError::Unsupported("heads must be contiguous".to_owned());
        let layout = tensor.layout().reshape(&parts)?.ok_or_else(fault)?;
        Ok(tensor.with_layout(layout.transpose(1, 2)?)?)
    }

    /// Computes a projection, with its rows in addition to those of the input.
    fn project_on<'a>(
        &self,
        part: usize,
        x: &DeviceTensor<'a>,
        y: &DeviceTensor<'a>,
        weights: &Weights<'a>,
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (x, rows) = (self.samples_first(x)?, y.shape().get(1).copied().unwrap_or(0));
        let own = x.shape().get(1).copied().unwrap_or(0);
        let target = y.with_layout(y.layout().narrow(1, 0, own)?)?;
        let product = linear(&x, &weights.parts[part], weights.biases[part], &target)?;
        product.run(&EpilogueCode::default(), Arguments::new(), context)?;
        let mut next = own;
        if let Some(learnt) = part.checked_sub(1).and_then(|at| weights.learnt[at]) {
            let row = y.with_layout(y.layout().narrow(1, next, 1)?)?;
            let learnt = learnt.with_layout(learnt.layout().expand(row.shape())?)?;
            copy(&learnt, &row, context)?;
            next += 1;
        }
        if next < rows {
            let row = y.with_layout(y.layout().narrow(1, next, rows - next)?)?;
            fill(&row, context)?;
        }
        Ok(())
    }

    /// The attention mask of the heads, N×heads×L×S, and the padding mask, the same for all rows.
    fn masks_of<'a>(
        &self,
        inputs: &[DeviceTensor<'a>],
        [n, rows, seen]: [usize; 3],
    ) -> Result<[Option<DeviceTensor<'a>>; 2], LayerError> {
        let first = |position: usize| {
            let dims = inputs.get(position).map_or(&[][..], |tensor| tensor.shape().dims());
            (dims.len(), dims.first().map(|&len| Dim::from(len)))
        };
        let sources = self.sources.resolved(first, [&Dim::from(n), &Dim::from(rows)]);
        let find = |position: Option<usize>| position.map(|position| input(inputs, position)).transpose();
        let mask = match find(sources.mask)? {
            Some(mask) => {
                let all = mask.layout().expand(&[n * self.num_heads, rows, seen])?;
                let heads = shape(&[n, self.num_heads, rows, seen])?;
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
                let layout = padding.layout().expand(&[n, seen])?.unsqueeze(1)?.unsqueeze(1)?;
                Some(padding.with_layout(layout)?)
            }
            None => None,
        };
        Ok([mask, padding])
    }

    /// Writes the attention weights of the heads, or their mean.
    fn write_weights<'a>(
        &self,
        attention: &Attention<'a>,
        y: &DeviceTensor<'a>,
        [n, rows, columns]: [usize; 3],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let unit = attention
            .unit("attention_weights.cu", include_str!("../kernels/attention_weights.cu"))?
            .define("OF_EACH_HEAD", u8::from(self.outputs.of_each_head));
        let kernel = context.kernel(&unit, "attention_weights")?;
        let batch = [n, self.num_heads];
        let width = self.head_dim();
        let mut layout = *y.layout();
        if layout.shape().len() == 2 + usize::from(self.outputs.of_each_head) {
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
            Argument::Int(int(self.num_heads)?),
            Argument::Int(int(rows)?),
            Argument::Int(int(columns)?),
            Argument::Int(int(attention.seen)?),
            Argument::Int(int(width)?),
            Argument::Double(attention.scale),
        ];
        let threads = columns.clamp(1, 128).next_multiple_of(32) as u32;
        context.launch(&kernel, Grid::of(n * rows, threads), &arguments)
    }

    /// The shapes of the tensors in scratch memory: the projections of queries, keys and values, and the output of the heads.
    fn scratch_shapes(&self, [n, rows, columns]: [usize; 3]) -> [[usize; 3]; 4] {
        let e = self.embed_dim;
        [[n, rows, e], [n, columns, e], [n, columns, e], [n, rows, e]]
    }
}

/// Fills a tensor with zeros.
pub(super) fn fill(y: &DeviceTensor<'_>, context: &mut CudaContext<'_>) -> Result<(), LayerError> {
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

    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        OnDevice(self)
            .file_weights()
            .iter()
            .filter_map(|weight| weight.0.as_ref())
            .map(|weight| weight.load())
            .collect()
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<(), LayerError> {
        let dtype = inputs.get(self.sources.query).map_or(DType::F32, TensorMeta::dtype);
        check(dtype, self.head_dim(), self.head_dim())
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        let (Some(sizes), Some(query)) = (self.fixed_sizes(inputs), inputs.get(self.sources.query)) else {
            return 0;
        };
        let bytes = OnDevice(self).scratch_shapes(sizes).map(|dims| {
            let elements = dims.into_iter().fold(1, usize::saturating_mul);
            scratch_bytes(query.dtype(), elements)
        });
        bytes.into_iter().fold(0, usize::saturating_add)
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        run(&OnDevice(self), inputs, outputs, context)
    }
}

fn run(
    layer: &OnDevice<'_>,
    inputs: &[DeviceTensor<'_>],
    outputs: &[DeviceTensor<'_>],
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let sources = layer.sources;
    let [query, key, value] = [sources.query, sources.key, sources.value].map(|at| input(inputs, at));
    let (query, key, value) = (query?, key?, value?);
    let sizes = [layer.samples_first(&query)?, layer.samples_first(&key)?];
    let len = |of: usize, axis: usize| sizes[of].shape().get(axis).copied().unwrap_or(1);
    let (n, rows, seen) = (len(0, 0), len(0, 1), len(1, 1));
    let columns = seen + layer.extra_rows();
    let weights = layer.device_weights(context)?;
    let mut scratch = Vec::with_capacity(4);
    for dims in layer.scratch_shapes([n, rows, columns]) {
        scratch.push(context.scratch(query.dtype(), shape(&dims)?)?);
    }
    let [q, k, v, joined] = scratch.as_slice() else { return Ok(()) };
    for (part, (x, y)) in [(&query, q), (&key, k), (&value, v)].into_iter().enumerate() {
        layer.project_on(part, x, y, &weights, context)?;
    }
    let [mask, padding] = layer.masks_of(inputs, [n, rows, seen])?;
    let attention = Attention {
        query: layer.heads(q)?,
        key: layer.heads(k)?,
        value: layer.heads(v)?,
        mask,
        padding,
        shows: false,
        seen,
        scale: 1.0 / (layer.head_dim() as f64).sqrt(),
        is_causal: false,
        // Without weights as an output, PyTorch takes another path, in which a row without columns is 0.
        blind_is_zero: outputs.len() < 2,
    };
    attention.run(&layer.heads(joined)?, context)?;
    let back = layer.samples_first(&outputs[0])?;
    linear(joined, &weights.back, weights.back_bias, &back)?.run(
        &EpilogueCode::default(),
        Arguments::new(),
        context,
    )?;
    match outputs.get(1) {
        Some(y) => layer.write_weights(&attention, y, [n, rows, columns], context),
        None => Ok(()),
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<MultiheadAttention>();
}
