//! Multi-head attention with its projections.

use super::arguments::OutputCount;
use super::attention::{added, scratch_bytes};
use super::float::{self, with_float};
use crate::graph::{
    Cost, CpuLayer, FieldValue, ForwardContext, Layer, LayerError, OperatorReader, Registry, RegistryError,
    RuntimeAttribute, TensorMeta,
};
use crate::kernels::Float;
use crate::kernels::attention::{Head, attend, scratch_len};
use crate::kernels::gemm::gemm;
use crate::tensor::{Dim, TensorView, TensorViewMut};
use ndarray::{Array2, Array3, ArrayD, ArrayView1, ArrayView2, ArrayView3, Axis, Ix2, s};
use std::borrow::Cow;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.MultiheadAttention` (Vaswani et al. 2017): queries, keys and values are projected, each head attends to
    /// its share of them, and the heads together are projected again. L×N×E with S×N×`kdim` and S×N×`vdim` gives L×N×E,
    /// or without N. The second output, if there is one, is the mean of the weights of all heads, N×L×S.
    pub struct MultiheadAttention for "nn.MultiheadAttention" {
        /// Number of heads.
        num_heads: usize,
        /// Length of queries and outputs.
        embed_dim: usize,
        /// Length of keys; only compared with the weights.
        kdim: Option<usize> = None,
        /// Length of values; only compared with the weights.
        vdim: Option<usize> = None,
        /// Whether the projections have a bias.
        bias: bool = true,
        /// Whether keys and values have one more row, which is learnt.
        add_bias_kv: bool = false,
        /// Whether keys and values have one more row, of zeros.
        add_zero_attn: bool = false,
        /// Whether N is the first axis.
        batch_first: bool = false,
        /// Where queries, keys, values and masks are among the inputs.
        sources as "query": Sources,
        /// The projections of queries, keys and values as one matrix, 3E×E.
        in_proj_weight: Stored = Stored(None),
        /// Instead: that of queries, E×E.
        q_proj_weight: Stored = Stored(None),
        /// That of keys, E×`kdim`.
        k_proj_weight: Stored = Stored(None),
        /// That of values, E×`vdim`.
        v_proj_weight: Stored = Stored(None),
        /// The biases of the three, 3E.
        in_proj_bias: Stored = Stored(None),
        /// The learnt row of keys, 1×1×E.
        bias_k: Stored = Stored(None),
        /// The learnt row of values, 1×1×E.
        bias_v: Stored = Stored(None),
        /// The last projection, E×E.
        out_weight as "out_proj.weight": Stored = Stored(None),
        /// Its bias, E.
        out_bias as "out_proj.bias": Stored = Stored(None),
        /// How many outputs the file lists.
        outputs: OutputCount,
    }
    validate |layer| {
        if layer.num_heads == 0 || layer.embed_dim == 0 || layer.embed_dim % layer.num_heads != 0 {
            let reason = format!("it must divide `embed_dim`, which is {}", layer.embed_dim);
            return Err(LayerError::InvalidParameter { key: "num_heads", found: layer.num_heads.to_string(), reason });
        }
        layer.check_weights()
    }
}

/// A weight of the file, if it has one of that key.
#[derive(Debug, Clone)]
pub struct Stored(Option<RuntimeAttribute>);

impl FieldValue for Stored {
    const KIND: &'static str = "a weight of the file";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self(reader.attr(key))))
    }
}

impl Stored {
    fn read<T: Float>(&self) -> Result<Option<Cow<'_, [T]>>, LayerError> {
        self.0.as_ref().map(|attribute| float::read::<T>(&attribute.decode()?.view())).transpose()
    }

    /// A matrix of so many columns.
    fn matrix<T: Float>(&self, columns: usize) -> Result<Option<Array2<T>>, LayerError> {
        let Some(values) = self.read::<T>()? else { return Ok(None) };
        let shape = (values.len() / columns.max(1), columns);
        Ok(Some(Array2::from_shape_vec(shape, values.into_owned())?))
    }
}

/// Positions of the inputs. Alone, the first is queries, keys and values; with one more, that is keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    query: usize,
    key: usize,
    value: usize,
    mask: Option<usize>,
    padding: Option<usize>,
}

impl FieldValue for Sources {
    const KIND: &'static str = "inputs, of which `$key`, `$value`, `$attn_mask` and `$key_padding_mask` may be named";

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        // Inputs without names are taken in this order.
        let key = reader.input("kv").or_else(|| reader.input("key"));
        let value = reader.input("value").or(key);
        let mask = reader.input("attn_mask");
        let padding = reader.input("key_padding_mask");
        Ok(Some(Self { query: 0, key: key.unwrap_or(0), value: value.unwrap_or(0), mask, padding }))
    }
}

impl Sources {
    fn num_inputs(&self) -> usize {
        let mut positions =
            vec![self.query, self.key, self.value, self.mask.unwrap_or(0), self.padding.unwrap_or(0)];
        positions.sort_unstable();
        positions.dedup();
        positions.len()
    }
}

impl MultiheadAttention {
    fn head_dim(&self) -> usize {
        self.embed_dim / self.num_heads
    }

    /// Rows that keys and values have beside those of the inputs.
    fn extra_rows(&self) -> usize {
        usize::from(self.add_bias_kv) + usize::from(self.add_zero_attn)
    }

    fn lengths(&self) -> [usize; 3] {
        let length = |given: Option<usize>| given.unwrap_or(self.embed_dim);
        [self.embed_dim, length(self.kdim), length(self.vdim)]
    }

    /// Checks that all weights are there that the parameters promise, and of the right size.
    fn check_weights(&self) -> Result<(), LayerError> {
        let e = self.embed_dim;
        let [_, k, v] = self.lengths();
        let packed = self.in_proj_weight.0.is_some();
        let wanted: [(&'static str, &Stored, bool, &[usize]); 9] = [
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

    /// The three dimensions rows, batch and length of an input; a batch of 1 where it has no such axis.
    fn split<'a>(&self, what: &str, input: &'a TensorMeta, length: usize) -> Result<[Dim; 2], LayerError> {
        let (rows, batch, found): (&Dim, Dim, &'a Dim) = match input.dims() {
            [rows, found] => (rows, Dim::Fixed(1), found),
            [batch, rows, found] if self.batch_first => (rows, batch.clone(), found),
            [rows, batch, found] => (rows, batch.clone(), found),
            _ => return Err(LayerError::shape(what, "2 or 3 axes", input)),
        };
        if found.fixed().is_some_and(|found| Dim::Fixed(found) != Dim::from(length)) {
            return Err(LayerError::shape(what, format!("…×{length}"), input));
        }
        Ok([rows.clone(), batch])
    }

    /// An input as N×L×length, in that order of elements.
    fn batches<T: Float>(&self, input: &TensorView<'_>) -> Result<Array3<T>, LayerError> {
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
    fn project<T: Float>(&self, input: &TensorView<'_>, part: usize, extra: usize) -> Result<Array3<T>, LayerError> {
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
            if let Some(bias) = &bias {
                result += &ArrayView1::from(&bias[part * e..(part + 1) * e]);
            }
            gemm(input, weight.t(), result, true);
        }
        Ok(result)
    }

    /// Keys or values with the learnt row; that of zeros is there already.
    fn with_learnt_row<T: Float>(&self, mut rows: Array3<T>, learnt: &Stored) -> Result<Array3<T>, LayerError> {
        if let Some(learnt) = learnt.read::<T>()? {
            let place = rows.len_of(Axis(1)) - self.extra_rows();
            let learnt = ArrayView1::from(&learnt[..]);
            rows.index_axis_mut(Axis(1), place).outer_iter_mut().for_each(|mut row| row.assign(&learnt));
        }
        Ok(rows)
    }

    /// What is added to the scores of each row and column, (N or 1)×(heads or 1)×L×S with the extra columns.
    fn mask<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        [batch, rows, columns]: [usize; 3],
    ) -> Result<Option<ArrayD<T>>, LayerError> {
        let (heads, seen) = (self.num_heads, columns - self.extra_rows());
        let mut parts = Vec::new();
        if let Some(position) = self.sources.mask {
            let mask = added::<T>(&inputs[position], false)?;
            parts.push(match mask.shape().dims() {
                [first, rows, columns] if *first == batch * heads => {
                    mask.reshape(&[batch, heads, *rows, *columns])?
                }
                _ => mask,
            });
        }
        if let Some(position) = self.sources.padding {
            let padding = added::<T>(&inputs[position], false)?;
            parts.push(padding.reshape(&[padding.num_elements() / seen.max(1), 1, 1, seen])?);
        }
        let mut mask: Option<ArrayD<T>> = None;
        for part in &parts {
            let part = part.array::<T>()?;
            let whole = [batch, heads, rows, seen];
            let part = part.broadcast(whole).ok_or_else(|| {
                LayerError::shape("the mask", format!("a shape that broadcasts to {whole:?}"), format!("{:?}", part.shape()))
            })?;
            let mut shape = whole;
            shape[3] = columns;
            let mask = mask.get_or_insert_with(|| ArrayD::from_elem(shape.to_vec(), T::zero()));
            let mut seen_part = mask.slice_axis_mut(Axis(3), ndarray::Slice::from(..seen));
            seen_part += &part;
        }
        Ok(mask)
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (sources, extra) = (self.sources, self.extra_rows());
        let query = self.project::<T>(&inputs[sources.query], 0, 0)?;
        let key = self.with_learnt_row(self.project::<T>(&inputs[sources.key], 1, extra)?, &self.bias_k)?;
        let value = self.with_learnt_row(self.project::<T>(&inputs[sources.value], 2, extra)?, &self.bias_v)?;
        let (batch, rows, _) = query.dim();
        let columns = key.len_of(Axis(1));
        let mask = self.mask::<T>(inputs, [batch, rows, columns])?;
        let mut joined = Array3::from_elem((batch, rows, self.embed_dim), T::zero());
        let with_weights = outputs.len() > 1;
        let mut weights = Array3::from_elem((if with_weights { batch } else { 0 }, rows, columns), T::zero());
        let limits = context.limits().clone();
        let scratch = context.scratch::<T>(scratch_len(columns))?;
        let share = T::of(1.0 / self.num_heads as f64);
        for (n, head) in (0..batch).flat_map(|n| (0..self.num_heads).map(move |head| (n, head))) {
            limits.check_deadline()?;
            let range = head * self.head_dim()..(head + 1) * self.head_dim();
            let part = |array: &'_ Array3<T>| -> Array2<T> { array.slice(s![n, .., range.clone()]).to_owned() };
            let (query, key, value) = (part(&query), part(&key), part(&value));
            let mask = match &mask {
                Some(mask) => Some(matrix(mask, n, head)?),
                None => None,
            };
            let head = Head {
                query: query.view(),
                key: key.view(),
                value: value.view(),
                mask,
                scale: 1.0 / (self.head_dim() as f64).sqrt(),
                causal: false,
                // PyTorch goes another way when no weights are asked for, and there a row without columns is 0.
                blind_is_zero: !with_weights,
            };
            attend(&head, scratch, joined.slice_mut(s![n, .., range]), |start, block| {
                if with_weights {
                    let mut mean = weights.slice_mut(s![n, start..start + block.nrows(), ..]);
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

    /// The last projection, written in the order of the output.
    fn project_back<T: Float>(&self, joined: Array3<T>, output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
        let missing = || LayerError::MissingWeight { key: "out_proj.weight".to_owned() };
        let weight = self.out_weight.matrix::<T>(self.embed_dim)?.ok_or_else(missing)?;
        let mut result = Array3::from_elem(joined.dim(), T::zero());
        if let Some(bias) = self.out_bias.read::<T>()? {
            result += &ArrayView1::from(&bias[..]);
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

/// One head's part of the mask.
fn matrix<T>(mask: &ArrayD<T>, n: usize, head: usize) -> Result<ArrayView2<'_, T>, LayerError> {
    let mut mask = mask.view();
    mask.index_axis_inplace(Axis(0), n);
    mask.index_axis_inplace(Axis(0), head);
    Ok(mask.into_dimensionality::<Ix2>()?)
}

/// Writes three axes, or, where the output has two, the only part of the first.
fn write<T: Float>(values: ArrayView3<'_, T>, output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
    float::write::<T>(output, |output| {
        output.iter_mut().zip(values.iter()).for_each(|(to, &from)| *to = from);
        Ok(())
    })
}

impl Layer for MultiheadAttention {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = self.sources.num_inputs();
        count..=count
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 2)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let [e, k, v] = self.lengths();
        let sources = self.sources;
        let (query, key, value) = (&inputs[sources.query], &inputs[sources.key], &inputs[sources.value]);
        float::check("the query", query)?;
        for (what, other) in [("the key", key), ("the value", value)] {
            if other.dtype() != query.dtype() || other.rank() != query.rank() {
                let wanted = format!("the type of the query {query} and as many axes");
                return Err(LayerError::shape(what, wanted, other));
            }
        }
        let [rows, batch] = self.split("the query", query, e)?;
        let [columns, key_batch] = self.split("the key", key, k)?;
        let [value_rows, value_batch] = self.split("the value", value, v)?;
        let differ = |a: &Dim, b: &Dim| a.fixed().zip(b.fixed()).is_some_and(|(a, b)| a != b);
        if differ(&columns, &value_rows) || differ(&batch, &key_batch) || differ(&batch, &value_batch) {
            return Err(LayerError::shape("the value", format!("{columns} rows and a batch of {batch}"), value));
        }
        let output = query.with_dims(query.dims().to_vec());
        let columns = columns + self.extra_rows();
        let weights = match query.rank() {
            2 => query.with_dims([rows, columns]),
            _ => query.with_dims([batch, rows, columns]),
        };
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
    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        let key = &inputs[self.sources.key];
        let columns = self.split("", key, self.lengths()[1]).ok().and_then(|[columns, _]| columns.fixed());
        let extra = i64::try_from(self.extra_rows()).unwrap_or(0);
        scratch_bytes(columns.map(|columns| columns.saturating_add(extra)), key.dtype())
    }

    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_float!(inputs[0].dtype(), T => self.run::<T>(inputs, outputs, context))
    }
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<MultiheadAttention>()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Operator, assert_close, operator, tensor, waves};
    use crate::tensor::Tensor;

    const COMMON: [(&str, &str); 2] = [("embed_dim", "4"), ("num_heads", "2")];

    /// The weights are waves over 4, as in PyTorch's numbers below.
    fn weight(shape: &[usize]) -> Tensor {
        waves(shape).map(|x: f64| x / 4.0).unwrap()
    }

    fn packed<'a>(params: &[(&'a str, &'a str)]) -> Operator<'a> {
        let params = [&COMMON[..], params].concat();
        operator("nn.MultiheadAttention", &params)
            .with_attr("in_proj_weight", weight(&[12, 4]))
            .with_attr("in_proj_bias", weight(&[12]))
            .with_attr("out_proj.weight", weight(&[4, 4]))
            .with_attr("out_proj.bias", weight(&[4]))
    }

    #[test]
    fn attention_to_itself() {
        let x = waves(&[2, 3, 4]);
        let layer = packed(&[("batch_first", "True"), ("kdim", "4"), ("vdim", "4")]).with_outputs(2);
        let outputs = layer.run(&[&x]).unwrap();
        assert_close(&outputs[0], &[2, 3, 4], SELF);
        assert_close(&outputs[1], &[2, 3, 3], SELF_WEIGHTS);
        assert_eq!(layer.run(&[&x, &x, &x]).unwrap(), outputs);
        let mask = packed(&[]).with_names(&["", "attn_mask"]);
        let unbatched = mask.run_one(&[&x.select(0, 0).unwrap(), &waves(&[3, 3])]).unwrap();
        assert_close(&unbatched, &[3, 4], UNBATCHED);
    }

    #[test]
    fn learnt_rows_and_masks() {
        let layer = packed(&[("add_bias_kv", "True"), ("add_zero_attn", "True")])
            .with_attr("bias_k", weight(&[1, 1, 4]))
            .with_attr("bias_v", weight(&[1, 1, 4]))
            .with_names(&["query", "kv", "attn_mask"])
            .with_outputs(2);
        let hidden = tensor(&[2, 3], &[false, true, false, false, false, true]);
        let outputs = layer.run(&[&waves(&[2, 3, 4]), &waves(&[3, 3, 4]), &hidden]).unwrap();
        assert_close(&outputs[0], &[2, 3, 4], EXTRA);
        assert_close(&outputs[1], &[3, 2, 5], EXTRA_WEIGHTS);
    }

    #[test]
    fn keys_and_values_of_other_lengths() {
        let params = [&COMMON[..], &[("batch_first", "True"), ("kdim", "3"), ("vdim", "2"), ("bias", "False")]].concat();
        let layer = operator("nn.MultiheadAttention", &params)
            .with_attr("q_proj_weight", weight(&[4, 4]))
            .with_attr("k_proj_weight", weight(&[4, 3]))
            .with_attr("v_proj_weight", weight(&[4, 2]))
            .with_attr("out_proj.weight", weight(&[4, 4]))
            .with_names(&["query", "key", "value", "key_padding_mask"])
            .with_outputs(2);
        let padding = [[0; 5], [1, 0, 0, 0, 1]].concat().iter().map(|&x| x == 1).collect::<Vec<_>>();
        let inputs = [waves(&[2, 3, 4]), waves(&[2, 5, 3]), waves(&[2, 5, 2]), tensor(&[2, 5], &padding)];
        let outputs = layer.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
        assert_close(&outputs[0], &[2, 3, 4], DIMS);
        assert_close(&outputs[1], &[2, 3, 5], DIMS_WEIGHTS);
        assert!(layer.run(&[&inputs[0], &inputs[1], &inputs[1], &inputs[3]]).is_err());
        let short = tensor(&[2, 4], &[false; 8]);
        assert!(layer.run(&[&inputs[0], &inputs[1], &inputs[2], &short]).is_err());
    }

    #[test]
    fn weights_are_checked() {
        assert!(operator("nn.MultiheadAttention", &COMMON).create(1).is_err());
        assert!(packed(&[("add_bias_kv", "True")]).create(1).is_err());
        assert!(packed(&[("kdim", "3")]).create(1).is_err());
        let odd = [("embed_dim", "4"), ("num_heads", "3")];
        assert!(operator("nn.MultiheadAttention", &odd).create(1).is_err());
        packed(&[]).survives(1);
        packed(&[]).survives(2);
    }

    const SELF: &[f64] = &[1.0434314309563941, -0.6052930501591526, 1.1134384297251205, -0.5114274218202837, -0.17937171205742897, -1.1886049678769628, 1.492200387287567, -1.174912087376228, 1.0615325722260305, -0.2303298623843969, 0.9048860660345075, -0.09029115020213152, -0.3370514985767554, -2.2196253443903515, 2.2639485635276406, -1.804982040883184, 1.0330763461407158, -1.1169187611677003, 2.041435938417587, -1.4045330585585951, 1.1597565964679721, 0.0737253393619314, 1.6537604566157942, -1.2282523867289576];
    const SELF_WEIGHTS: &[f64] = &[0.35537004899877145, 0.4767362769787459, 0.16789367402248276, 0.1840933973656666, 0.21243434898564378, 0.6034722536486895, 0.4210887217812648, 0.4798188873158452, 0.09909239090288999, 0.11793202715093473, 0.4155545910670112, 0.4665133817820542, 0.09791562212058308, 0.5867311177984644, 0.31535326008095244, 0.22638281542704122, 0.4820102056765416, 0.2916069788964171];
    const EXTRA: &[f64] = &[0.05962787263134839, -0.7697036234854151, 1.8523464088858845, -1.8476007524828157, 0.34728424406740244, -0.6663953949899133, 0.5172624751236077, -0.36929178677247143, -1.3310313968100327, 0.39254403552469064, 0.08261243299828956, -0.6505982686148652, 0.02313442979522784, -0.5450871338502474, 0.8980247468966558, -1.0053291062579843, 1.9204554992408802, -1.4152746231504876, 1.3845292069498096, -1.1176180719485307, -0.27470171969107493, 0.32665028243861105, 0.7865222311033211, -0.4561806712031636];
    const EXTRA_WEIGHTS: &[f64] = &[0.6032655144622145, 0.0, 0.14939126902891453, 0.11356965441057826, 0.1337735620982927, 0.311673294698822, 0.17302410388610823, 0.0, 0.24577431198378336, 0.2695282894312864, 0.1455138803849738, 0.0, 0.19522942232758378, 0.3875806706218198, 0.2716760266656227, 0.13622301947086254, 0.7012212724608597, 0.0, 0.06791842354374644, 0.09463728452453145, 0.07298247481611404, 0.0, 0.452145844555204, 0.2754692895520163, 0.19940239107666566, 0.03431315721238794, 0.23840335597523174, 0.0, 0.35472369726700714, 0.3725597895453733];
    const DIMS: &[f64] = &[-1.1011904230845166, -0.15684220963204032, 0.06277700309774917, -0.32790183887960433, -0.40505836773050763, -0.16940608496481158, 0.168452748279189, -0.20623553906876932, -0.05673426124498499, -0.008619945917347802, -0.0004823523490643236, 0.024388299939677633, -0.5876471800497924, -0.6665031440426294, 0.890341013068756, -0.49602437931558907, -0.9915801091712555, -0.7649092105513019, 0.985599478262247, -0.6274847586599581, 0.07281141534337121, -0.7308990195752056, 1.0931947144273613, -0.43140770701769926];
    const DIMS_WEIGHTS: &[f64] = &[0.37712955651400115, 0.16086216882899457, 0.18254210396239218, 0.21872125582752652, 0.06074491486708559, 0.25637560216246214, 0.3309791792418472, 0.09041471315643711, 0.12683093942151485, 0.19539956601773878, 0.12163965668184598, 0.09930386367493851, 0.39943001298776715, 0.25910520625616684, 0.12052126039928143, 0.0, 0.20247563012231926, 0.34111102921184855, 0.4564133406658322, 0.0, 0.0, 0.19804667608382803, 0.22811639076975357, 0.5738369331464184, 0.0, 0.0, 0.5445780283571121, 0.17264356886773774, 0.2827784027751502, 0.0];
    const UNBATCHED: &[f64] = &[1.104826528171365, -0.34276878756780294, 0.4161496967001533, 0.038520746794989624, -0.34445491720699495, -1.302907117991102, 1.1363556468447022, -1.1203710321496734, 1.1704217692400476, -0.18224738492669462, 0.6881534281892743, 0.04400898198341907];
}
