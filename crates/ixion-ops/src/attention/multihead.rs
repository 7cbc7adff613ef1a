//! Multi-head attention with its projections.

mod all_heads;
mod fields;
mod masks;
mod projections;

use crate::attention::dot_product::scratch_bytes;
use crate::op::{
    Cost, CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, Tactic, TensorMeta, exactly,
};
use crate::support::float;
use crate::support::float::with_float;
pub use fields::{FileWeight, Results, Sources};
use ixion_kernels::Float;
use ixion_kernels::attention::{Head, attend_with, scratch_len};
use ixion_kernels::gemm::gemm;
use ixion_tensor::{Dim, TensorView, TensorViewMut};
use ndarray::{Array2, Array3, ArrayView3, ArrayViewMut2, s};
pub use projections::Projections;
use std::ops::{Range, RangeInclusive};

crate::operator! {
    /// `torch.nn.MultiheadAttention` (Vaswani et al. 2017): projects queries, keys and values, computes the attention of each
    /// head on its share of their features, and projects the concatenated heads. L×N×E queries with S×N×`kdim` keys and
    /// S×N×`vdim` values give L×N×E; N is optional. The optional second output is the attention weights, averaged over the
    /// heads, N×L×S, or of each head, N×`num_heads`×L×S.
    pub struct MultiheadAttention for "nn.MultiheadAttention" {
        /// Number of heads.
        num_heads: usize,
        /// Number of features E of queries and outputs; a multiple of `num_heads`.
        embed_dim: usize,
        /// Number of features of keys, E by default; only checked against the weights.
        kdim: Option<usize> = None,
        /// Number of features of values, E by default; only checked against the weights.
        vdim: Option<usize> = None,
        /// Whether the projections have a bias.
        bias: bool = true,
        /// Whether a learnt row is appended to keys and values.
        add_bias_kv: bool = false,
        /// Whether a row of zeros is appended to keys and values.
        add_zero_attn: bool = false,
        /// Whether N is the first axis of the inputs and the output.
        batch_first: bool = false,
        /// The inputs that hold queries, keys, values and masks.
        sources as "query": Sources,
        /// The stacked projections of queries, keys and values, 3E×E.
        in_proj_weight: FileWeight = FileWeight(None),
        /// The projection of queries, E×E, instead of `in_proj_weight`.
        q_proj_weight: FileWeight = FileWeight(None),
        /// The projection of keys, E×`kdim`, instead of `in_proj_weight`.
        k_proj_weight: FileWeight = FileWeight(None),
        /// The projection of values, E×`vdim`, instead of `in_proj_weight`.
        v_proj_weight: FileWeight = FileWeight(None),
        /// The stacked biases of the three projections, 3E.
        in_proj_bias: FileWeight = FileWeight(None),
        /// The learnt row appended to the keys, 1×1×E.
        bias_k: FileWeight = FileWeight(None),
        /// The learnt row appended to the values, 1×1×E.
        bias_v: FileWeight = FileWeight(None),
        /// The output projection, E×E.
        out_weight as "out_proj.weight": FileWeight = FileWeight(None),
        /// The bias of the output projection, E.
        out_bias as "out_proj.bias": FileWeight = FileWeight(None),
        /// The outputs that the file lists.
        outputs: Results,
        /// The packed projections for execution in `f32`.
        projections: Projections,
    }
    validate |layer| {
        if layer.num_heads == 0 || layer.embed_dim == 0 || !layer.embed_dim.is_multiple_of(layer.num_heads) {
            let reason = format!("it must divide `embed_dim`, which is {}", layer.embed_dim);
            return Err(LayerError::InvalidParameter { key: "num_heads", found: layer.num_heads.to_string(), reason });
        }
        layer.check_weights()
    }
}

impl MultiheadAttention {
    /// The number of features of each head, E/`num_heads`.
    pub fn head_dim(&self) -> usize {
        self.embed_dim / self.num_heads
    }

    /// The number of rows appended to keys and values.
    pub fn extra_rows(&self) -> usize {
        usize::from(self.add_bias_kv) + usize::from(self.add_zero_attn)
    }

    pub(crate) fn lengths(&self) -> [usize; 3] {
        let length = |given: Option<usize>| given.unwrap_or(self.embed_dim);
        [self.embed_dim, length(self.kdim), length(self.vdim)]
    }

    /// Checks that the file has all weights that the parameters require, of the right shapes.
    fn check_weights(&self) -> Result<()> {
        let e = self.embed_dim;
        let [_, k, v] = self.lengths();
        let packed = self.in_proj_weight.0.is_some();
        let wanted: [(&'static str, &FileWeight, bool, &[usize]); 9] = [
            ("in_proj_weight", &self.in_proj_weight, packed, &[e.saturating_mul(3), e]),
            ("q_proj_weight", &self.q_proj_weight, !packed, &[e, e]),
            ("k_proj_weight", &self.k_proj_weight, !packed, &[e, k]),
            ("v_proj_weight", &self.v_proj_weight, !packed, &[e, v]),
            ("in_proj_bias", &self.in_proj_bias, self.bias, &[e.saturating_mul(3)]),
            ("bias_k", &self.bias_k, self.add_bias_kv, &[1, 1, e]),
            ("bias_v", &self.bias_v, self.add_bias_kv, &[1, 1, e]),
            ("out_proj.weight", &self.out_weight, true, &[e, e]),
            ("out_proj.bias", &self.out_bias, self.bias, &[e]),
        ];
        for (key, weight, needed, shape) in wanted {
            match &weight.0 {
                None if needed => return Err(LayerError::MissingWeight { key: key.to_owned() }),
                Some(weight) if weight.shape() != shape => {
                    let shape = TensorMeta::new(weight.dtype(), shape.iter().copied());
                    let found = TensorMeta::new(weight.dtype(), weight.shape().iter().copied());
                    return Err(LayerError::shape(format!("weight `{key}`"), shape, found));
                }
                _ => {}
            }
        }
        if packed && (k != e || v != e) {
            let reason = format!("with `in_proj_weight`, keys and values have length {e}");
            return Err(LayerError::InvalidParameter { key: "kdim", found: k.to_string(), reason });
        }
        Ok(())
    }

    /// The rows and the batch of an input, whose last axis must be `length`; the batch is 1 if it has no such axis.
    fn split<'a>(&self, what: &str, input: &'a TensorMeta, length: usize) -> Result<[Dim; 2]> {
        let (rows, batch, found): (&Dim, Dim, &'a Dim) = match input.dims() {
            [rows, found] => (rows, Dim::Fixed(1), found),
            [batch, rows, found] if self.batch_first => (rows, batch.clone(), found),
            [rows, batch, found] => (rows, batch.clone(), found),
            _ => return Err(LayerError::shape(what, "2 or 3 axes", input)),
        };
        if found.fixed().is_some_and(|found| usize::try_from(found) != Ok(length)) {
            return Err(LayerError::shape(what, format!("…×{length}"), input));
        }
        Ok([rows.clone(), batch])
    }

    /// An input as N×L×length, in row-major order.
    fn batches<T: Float>(&self, input: &TensorView<'_>) -> Result<Array3<T>> {
        let mut layout = *input.layout();
        if input.shape().rank() == 2 {
            layout = layout.unsqueeze(0)?;
        } else if !self.batch_first {
            layout = layout.transpose(0, 1)?;
        }
        let view = input.with_layout(layout)?;
        let shape = [view.shape()[0], view.shape()[1], view.shape()[2]];
        Ok(Array3::from_shape_vec(shape, float::read::<T>(&view)?.into_owned())?)
    }

    /// Projects an input to N×(L + `extra`)×E; `part` is 0 for queries, 1 for keys, 2 for values. The extra rows are 0.
    fn project<T: Float>(&self, input: &TensorView<'_>, part: usize, extra: usize) -> Result<Array3<T>> {
        let (input, e) = (self.batches::<T>(input)?, self.embed_dim);
        let own = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight][part];
        let (weight, rows) = match self.in_proj_weight.matrix::<T>(e)? {
            Some(packed) => (packed, part * e..(part + 1) * e),
            None => {
                let missing = || LayerError::MissingWeight { key: "q_proj_weight".to_owned() };
                (own.matrix::<T>(self.lengths()[part])?.ok_or_else(missing)?, 0..e)
            }
        };
        let weight = weight.slice(s![rows, ..]);
        let bias = self.in_proj_bias.read::<T>()?;
        let (batch, len, _) = input.dim();
        let mut result = Array3::from_elem((batch, len + extra, e), T::zero());
        for (input, mut result) in input.outer_iter().zip(result.outer_iter_mut()) {
            let mut result = result.slice_mut(s![..len, ..]);
            if let (Some(bias), Some(rows)) = (&bias, result.as_slice_mut()) {
                add_to_rows(rows, &bias[part * e..(part + 1) * e]);
            }
            gemm(input, weight.t(), result, true);
        }
        Ok(result)
    }

    /// Writes the learnt row into keys or values; the row of zeros is already there.
    fn with_learnt_row<T: Float>(&self, mut rows: Array3<T>, learnt: &FileWeight) -> Result<Array3<T>> {
        if let Some(learnt) = learnt.read::<T>()? {
            let (_, count, len) = rows.dim();
            let place = (count - self.extra_rows()) * len;
            let samples = rows.as_slice_mut().unwrap_or_default().chunks_exact_mut((count * len).max(1));
            samples
                .for_each(|sample| sample[place..].iter_mut().zip(learnt.iter()).for_each(|(x, &y)| *x = y));
        }
        Ok(rows)
    }

    /// The numbers of samples, rows, and columns including the appended ones.
    fn sizes(&self, inputs: &[TensorView<'_>]) -> [usize; 3] {
        let (query, key) = (inputs[self.sources.query].shape(), inputs[self.sources.key].shape());
        let [batch, rows, columns] = match (query.rank(), self.batch_first) {
            (2, _) => [1, query[0], key[0]],
            (_, true) => [query[0], query[1], key[1]],
            (_, false) => [query[1], query[0], key[0]],
        };
        [batch, rows, columns.saturating_add(self.extra_rows())]
    }

    /// As `sizes`, if the shapes are known.
    pub fn fixed_sizes(&self, inputs: &[TensorMeta]) -> Option<[usize; 3]> {
        let [_, key_len, _] = self.lengths();
        let [rows, batch] = self.split("", inputs.get(self.sources.query)?, self.embed_dim).ok()?;
        let [columns, _] = self.split("", inputs.get(self.sources.key)?, key_len).ok()?;
        let fixed = |dim: &Dim| usize::try_from(dim.fixed()?).ok();
        Some([fixed(&batch)?, fixed(&rows)?, fixed(&columns)?.saturating_add(self.extra_rows())])
    }

    /// The number of elements that a run holds in addition to masks and scratch memory: a reordered input, the three
    /// projections, the heads' results, their projection, and the weights.
    fn held(&self, [batch, rows, columns]: [usize; 3], with_weights: bool) -> usize {
        let e = self.embed_dim;
        let input = rows.max(columns).saturating_mul(self.lengths().into_iter().fold(0, usize::max));
        let projections = rows.saturating_mul(3).saturating_add(columns.saturating_mul(2)).saturating_mul(e);
        let weights =
            if with_weights { rows.saturating_mul(columns).saturating_mul(self.parts()) } else { 0 };
        batch.saturating_mul(input.saturating_add(projections).saturating_add(weights))
    }

    /// The number of weight matrices per sample of the second output.
    fn parts(&self) -> usize {
        if self.outputs.of_each_head { self.num_heads } else { 1 }
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let (sources, extra) = (self.sources, self.extra_rows());
        let [batch, rows, columns] = self.sizes(inputs);
        let with_weights = outputs.len() > 1;
        let limits = context.limits();
        let held = self.held([batch, rows, columns], with_weights).saturating_mul(size_of::<T>());
        limits.check_tensor("the projections of attention", held as u64)?;
        let query = self.project::<T>(&inputs[sources.query], 0, 0)?;
        let key = self.with_learnt_row(self.project::<T>(&inputs[sources.key], 1, extra)?, &self.bias_k)?;
        let value =
            self.with_learnt_row(self.project::<T>(&inputs[sources.value], 2, extra)?, &self.bias_v)?;
        let masks = self.masks::<T>(inputs, [batch, rows], limits)?;
        let masks = masks.views::<T>([batch, self.num_heads, rows, columns - extra])?;
        let mut joined = Array3::from_elem((batch, rows, self.embed_dim), T::zero());
        let parts = self.parts();
        let matrices = if with_weights { batch.saturating_mul(parts) } else { 0 };
        let mut weights = Array3::from_elem((matrices, rows, columns), T::zero());
        let scratch = context.scratch::<T>(scratch_len(columns))?;
        let share = T::of(parts as f64 / self.num_heads as f64);
        for (n, number) in (0..batch).flat_map(|n| (0..self.num_heads).map(move |head| (n, head))) {
            limits.check_deadline()?;
            let range = number * self.head_dim()..(number + 1) * self.head_dim();
            let part = |array: &Array3<T>| part_of(array, n, &range);
            let (query, key, value) = (part(&query)?, part(&key)?, part(&value)?);
            let head = Head {
                query: query.view(),
                key: key.view(),
                value: value.view(),
                mask: None,
                scale: 1.0 / (self.head_dim() as f64).sqrt(),
                causal: false,
                // Without weights PyTorch takes another path, in which a row that sees no column is 0.
                blind_is_zero: !with_weights,
            };
            let add = |start: usize, block: ArrayViewMut2<'_, T>| masks.add([n, number], start, block);
            attend_with(&head, scratch, joined.slice_mut(s![n, .., range]), add, |start, block| {
                if with_weights {
                    let mut mean =
                        weights.slice_mut(s![n * parts + number % parts, start..start + block.nrows(), ..]);
                    mean.scaled_add(share, &block);
                }
            });
        }
        self.project_back(joined, &mut outputs[0])?;
        match outputs.get_mut(1) {
            Some(output) => write(weights.view(), output),
            None => Ok(()),
        }
    }

    /// Applies the output projection and writes the result in the order of the output.
    fn project_back<T: Float>(&self, joined: Array3<T>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let missing = || LayerError::MissingWeight { key: "out_proj.weight".to_owned() };
        let weight = self.out_weight.matrix::<T>(self.embed_dim)?.ok_or_else(missing)?;
        let mut result = Array3::from_elem(joined.dim(), T::zero());
        if let (Some(bias), Some(rows)) = (self.out_bias.read::<T>()?, result.as_slice_mut()) {
            add_to_rows(rows, &bias);
        }
        for (joined, result) in joined.outer_iter().zip(result.outer_iter_mut()) {
            gemm(joined, weight.t(), result, true);
        }
        let mut result = result.view();
        if !self.batch_first && output.shape().rank() == 3 {
            result.swap_axes(0, 1);
        }
        write(result, output)
    }
}

/// Adds numbers to each row.
fn add_to_rows<T: Float>(rows: &mut [T], numbers: &[T]) {
    for row in rows.chunks_exact_mut(numbers.len().max(1)) {
        row.iter_mut().zip(numbers).for_each(|(x, &number)| *x += number);
    }
}

/// A range of the columns of a sample.
fn part_of<T: Float>(array: &Array3<T>, sample: usize, range: &Range<usize>) -> Result<Array2<T>> {
    let (_, count, len) = array.dim();
    let rows = array.as_slice().unwrap_or_default().get(sample * count * len..).unwrap_or_default();
    let rows = rows.chunks_exact(len.max(1)).take(count);
    let part = rows.flat_map(|row| &row[range.clone()]).copied().collect();
    Ok(Array2::from_shape_vec((count, range.len()), part)?)
}

/// Writes an array of three axes; the first has length 1 if the output has two axes.
fn write<T: Float>(values: ArrayView3<'_, T>, output: &mut TensorViewMut<'_>) -> Result<()> {
    float::write::<T>(output, |output| {
        output.iter_mut().zip(values.iter()).for_each(|(to, &from)| *to = from);
        Ok(())
    })
}

impl Layer for MultiheadAttention {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        // The field `sources` takes all inputs, the query too.
        exactly(self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        self.outputs.count.clamp(1, 2)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [e, k, v] = self.lengths();
        let sources = self.sources;
        let (query, key, value) = (&inputs[sources.query], &inputs[sources.key], &inputs[sources.value]);
        float::check("the query", query)?;
        for (what, other) in [("the key", key), ("the value", value)] {
            if other.dtype() != query.dtype() || other.rank() != query.rank() {
                let wanted = format!("the type and rank of the query {query}");
                return Err(LayerError::shape(what, wanted, other));
            }
        }
        let [rows, batch] = self.split("the query", query, e)?;
        let [columns, key_batch] = self.split("the key", key, k)?;
        let [value_rows, value_batch] = self.split("the value", value, v)?;
        if columns.differs(&value_rows) || batch.differs(&key_batch) || batch.differs(&value_batch) {
            return Err(LayerError::shape(
                "the value",
                format!("{columns} rows and a batch of {batch}"),
                value,
            ));
        }
        self.check_masks(inputs, [&batch, &rows, &columns])?;
        let output = query.with_dims(query.dims().to_vec());
        let columns = columns + self.extra_rows();
        let heads = self.outputs.of_each_head.then(|| Dim::from(self.num_heads));
        let batch = (query.rank() > 2).then_some(batch);
        let weights = query.with_dims(batch.into_iter().chain(heads).chain([rows, columns]));
        Ok([output, weights].into_iter().take(self.num_outputs()).collect())
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let macs = || {
            let [e, k, v] = self.lengths().map(|length| length as u64);
            let sources = self.sources;
            let [rows, batch] = self.split("", inputs.get(sources.query)?, self.embed_dim).ok()?;
            let [columns, _] = self.split("", inputs.get(sources.key)?, self.lengths()[1]).ok()?;
            let [rows, columns, batch] =
                [rows, columns, batch].map(|dim| dim.fixed().and_then(|dim| u64::try_from(dim).ok()));
            let (rows, columns, batch) = (rows?, columns?, batch?);
            let projections = (2 * rows * e + columns * k + columns * v).saturating_mul(e);
            Some(batch.saturating_mul(projections + rows.saturating_mul(columns).saturating_mul(2 * e)))
        };
        Cost::of_moving(inputs, outputs).with_macs(macs().unwrap_or(0))
    }
}

impl CpuLayer for MultiheadAttention {
    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<()> {
        self.configure_projections(inputs)
    }

    fn tactics(&self) -> Vec<Tactic> {
        self.tactics_of_projections()
    }

    fn set_tactic(&mut self, id: u32) -> Result<()> {
        self.select_tactic(id)
    }

    /// Projections account for most multiplications.
    fn efficiency(&self, _: &[TensorMeta], _: &[TensorMeta]) -> f64 {
        self.early().gain(self.embed_dim)
    }

    fn initialize(&mut self) -> Result<()> {
        self.initialize_projections()
    }

    fn packed(&self) -> Result<Option<Vec<f32>>> {
        Ok(self.packed_projections())
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.projections_to_bytes())
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        self.restore_projections(bytes)
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        if let Some(sizes) = self.fixed_sizes(inputs)
            && crate::support::packed::suits(inputs[self.sources.query].dtype())
            && self.suits_all_heads(sizes, outputs.len() > 1)
        {
            return self.all_heads_scratch(sizes)[1].saturating_mul(size_of::<f32>());
        }
        let key = &inputs[self.sources.key];
        let columns = self.split("", key, self.lengths()[1]).ok().and_then(|[columns, _]| columns.fixed());
        let extra = i64::try_from(self.extra_rows()).unwrap_or(0);
        scratch_bytes(columns.map(|columns| columns.saturating_add(extra)), key.dtype())
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let dtype = io.inputs[self.sources.query].dtype();
        if crate::support::packed::suits(dtype)
            && self.suits_all_heads(self.sizes(io.inputs), io.outputs.len() > 1)
        {
            return self.run_all_heads(io.inputs, &mut io.outputs[0], &mut io.context);
        }
        with_float!(dtype, T => self.run::<T>(io.inputs, io.outputs, &mut io.context))
    }
}

operators! { MultiheadAttention }

#[cfg(test)]
mod tests;
