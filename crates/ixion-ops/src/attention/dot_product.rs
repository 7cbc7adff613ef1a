//! Scaled dot-product attention.

mod all_heads;

use crate::op::{
    Cost, CpuLayer, FieldValue, ForwardContext, FromOperator, Io, Layer, LayerError, OperatorReader, Result,
    TensorMeta, Written, exactly,
};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, broadcast, broadcasts};
use crate::support::float;
use crate::support::float::with_float;
use all_heads::{AllHeads, matrices, of_all_heads, sizes_of};
use ixion_kernels::Float;
use ixion_kernels::attention::{Head, attend, scratch_len};
use ixion_tensor::{DType, Dim, Layout, Limits, MAX_RANK, Shape, Tensor, TensorView, TensorViewMut};
use ndarray::{ArrayView2, ArrayViewD, ArrayViewMut2, Axis, Ix2, IxDyn};
use smallvec::SmallVec;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.scaled_dot_product_attention` (Vaswani et al. 2017): softmax(scale · query·keyᵀ + mask) ·
    /// value; …×L×E queries with …×S×E keys and …×S×V values give …×L×V. The batch axes are broadcast. Rows that see no
    /// column are 0.
    ///
    /// Scores are computed for a block of rows at a time, so that memory grows with S instead of L·S.
    pub struct ScaledDotProductAttention for "F.scaled_dot_product_attention", "aten::scaled_dot_product_attention" {
        /// The keys.
        key: InputIndex,
        /// The values.
        value: InputIndex,
        /// The attention mask, …×L×S: bools are true for the columns that a row attends to, floats are added to the scores.
        attn_mask: OptionalInput = OptionalInput(None),
        /// Accepted for compatibility: inference has no dropout.
        dropout_p: f64 = 0.0,
        /// Whether row i only attends to columns 0 to i.
        is_causal: bool = false,
        /// Factor of the products; 1/√E by default.
        scale: Option<f64> = None,
        /// Grouped-query attention: whether keys and values may have fewer heads (axis −3) than queries, each shared by
        /// adjacent query heads.
        enable_gqa: bool = false,
    }
    validate |layer| {
        if layer.is_causal && layer.attn_mask.0.is_some() {
            return Err(LayerError::invalid("is_causal", "True", "it must be False if `attn_mask` is given: include the causal mask in `attn_mask`"));
        }
        Ok(())
    }
}

/// Lengths of axes.
type Axes = SmallVec<[usize; MAX_RANK]>;

/// An optional input, which may be absent or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalInput(pub Option<usize>);

impl FieldValue for OptionalInput {
    const KIND: &'static str = "an input or None";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        match reader.param(key) {
            Some(parameter) if parameter.is_none() => Ok(Some(Self(None))),
            Some(parameter) => Err(LayerError::WrongParameter {
                key: key.to_owned(),
                wanted: Self::KIND.to_owned(),
                found: parameter.raw().to_owned(),
            }),
            None => Ok(Some(Self(reader.later_input(key)?))),
        }
    }

    fn num_inputs(&self) -> usize {
        usize::from(self.0.is_some())
    }

    fn written(&self) -> Written {
        self.0.map_or_else(Written::none, Written::Input)
    }
}

/// A mask as numbers to add to scores; a bool becomes 0 if it equals `visible`, otherwise −∞.
pub(crate) fn added<T: Float>(mask: &TensorView<'_>, visible: bool, limits: &Limits) -> Result<Tensor> {
    limits.check_tensor("the mask", (mask.num_elements() as u64).saturating_mul(size_of::<T>() as u64))?;
    let mut numbers = Tensor::empty(T::DTYPE, mask.shape())?;
    write_added::<T>(mask, visible, numbers.view_mut()?.slice()?)?;
    Ok(numbers)
}

/// As [`added`], in row-major order.
fn write_added<T: Float>(mask: &TensorView<'_>, visible: bool, numbers: &mut [T]) -> Result<()> {
    if mask.dtype() != DType::Bool {
        let layout = Layout::contiguous(*mask.shape());
        return Ok(TensorViewMut::from_slice(numbers, layout)?.cast_from(mask)?);
    }
    let number = |&x: &bool| if x == visible { T::zero() } else { T::neg_infinity() };
    let mask = mask.array::<bool>()?;
    numbers.iter_mut().zip(&mask).for_each(|(to, from)| *to = number(from));
    Ok(())
}

/// Checks that a mask is bool or float.
pub(crate) fn check_mask(what: &str, mask: &TensorMeta) -> Result<()> {
    if mask.dtype() == DType::Bool || mask.dtype().is_float() {
        return Ok(());
    }
    Err(LayerError::dtype(what, "bool and floats", mask.dtype()))
}

/// Splits the dimensions into batch, rows and columns.
fn split(meta: &TensorMeta) -> Result<(&[Dim], &Dim, &Dim)> {
    match meta.dims() {
        [batch @ .., rows, columns] => Ok((batch, rows, columns)),
        _ => Err(LayerError::shape("query, key and value", "at least two axes", meta)),
    }
}

impl ScaledDotProductAttention {
    /// The number of query heads that share a head of keys or values.
    ///
    /// # Errors
    /// [`LayerError::Shape`] if the number of query heads is not a multiple of `others`, the number of the other heads.
    pub fn shared_heads(&self, heads: Option<i64>, others: Option<i64>) -> Result<i64> {
        let (Some(heads), Some(others)) = (heads, others) else { return Ok(1) };
        if !self.enable_gqa || heads == others {
            return Ok(1);
        }
        if others > 0 && heads % others == 0 {
            return Ok(heads / others);
        }
        Err(LayerError::shape("keys and values", format!("a number of heads that divides {heads}"), others))
    }

    /// The batch axes of the output.
    fn batch(&self, inputs: &[TensorMeta]) -> Result<Vec<Dim>> {
        let (mut batch, ..) = split(&inputs[0])?;
        let mut dims = batch.to_vec();
        for position in [self.key.0, self.value.0] {
            (batch, ..) = split(&inputs[position])?;
            let mut other = batch.to_vec();
            let heads = |dims: &[Dim]| dims.last().and_then(Dim::fixed);
            let shared = self.shared_heads(heads(&dims), heads(batch))?;
            if let Some(heads) = other.last_mut() {
                *heads = heads.clone() * shared;
            }
            dims = broadcast(&dims, &other)?;
        }
        Ok(dims)
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let shape = *output.shape();
        let rank = shape.rank();
        let batch = &shape[..rank - 2];
        let heads = |view: &TensorView<'_>| {
            let heads = view.shape().iter().rev().nth(2)?;
            i64::try_from(*heads).ok()
        };
        let positions = [0, self.key.0, self.value.0];
        let mut shared = [1; 3];
        for (shared, position) in shared.iter_mut().zip(positions) {
            let heads = self.shared_heads(heads(&inputs[0]), heads(&inputs[position]))?;
            *shared = usize::try_from(heads).unwrap_or(1).max(1);
        }
        let convert = |i: usize| Converted::of(&inputs[positions[i]], T::DTYPE);
        let (query, key, value) = (convert(0)?, convert(1)?, convert(2)?);
        let query = expanded(&query, batch, shared[0])?;
        let (key, value) = (expanded(&key, batch, shared[1])?, expanded(&value, batch, shared[2])?);
        let parts = [(&query, shared[0]), (&key, shared[1]), (&value, shared[2])];
        let parts = parts.map(|(view, shared)| matrices(view, shared));
        let (query, key, value) = (query.array::<T>()?, key.array::<T>()?, value.array::<T>()?);
        let (columns, width) = (key.shape()[rank - 2], query.shape()[rank - 1]);
        let sizes = sizes_of(&shape, columns, width).filter(|_| T::DTYPE == DType::F32);
        let [query_part, key_part, value_part] = parts;
        let parts = query_part?.zip(key_part?).zip(value_part?);
        let all_heads = sizes.zip(parts);
        let [required, useful] = match all_heads {
            Some((sizes, _)) => [sizes.least_scratch(), sizes.scratch()],
            None => [scratch_len(columns); 2],
        };
        let mask = self.attn_mask.0.map(|position| inputs[position]);
        let converted = mask.filter(|mask| mask.dtype() != T::DTYPE).map_or(0, |mask| mask.num_elements());
        let limits = context.limits();
        let scratch = context.scratch_between::<T>(required + converted, useful + converted)?;
        let (scratch, numbers) = scratch.split_at_mut(scratch.len() - converted);
        let mask = match mask {
            Some(mask) if mask.dtype() != T::DTYPE => {
                write_added(&mask, true, numbers)?;
                Some(TensorView::from_slice(numbers, Layout::contiguous(*mask.shape()))?)
            }
            mask => mask,
        };
        let mut full = Axes::from_slice(batch);
        full.extend([shape[rank - 2], columns]);
        let full = Shape::new(&full)?;
        let mask = mask.map(|mask| mask.with_layout(mask.layout().expand(&full)?)).transpose()?;
        let scale = self.scale.unwrap_or(1.0 / (width as f64).sqrt());
        if let Some((sizes, ((query, key), value))) = all_heads {
            let mask = mask.map(|mask| of_all_heads(mask.array::<f32>()?)).transpose()?;
            let parts = [query, key, value];
            let all_heads = AllHeads { sizes, parts, mask, scale, causal: self.is_causal };
            let layout = Layout::contiguous(Shape::new(&[scratch.len()])?);
            let mut scratch = TensorViewMut::from_slice(scratch, layout)?;
            return float::write::<f32>(output, |output| all_heads.run(output, scratch.slice()?, limits));
        }
        let mask = mask.map(|mask| mask.array::<T>()).transpose()?;
        float::write::<T>(output, |output| {
            let size = shape[rank - 2] * shape[rank - 1];
            let heads = ndarray::indices(IxDyn(batch)).into_iter().zip(output.chunks_exact_mut(size.max(1)));
            for (at, output) in heads {
                limits.check_deadline()?;
                let at = ndarray::Dimension::slice(&at);
                let head = Head {
                    query: matrix(&query, at, 1)?,
                    key: matrix(&key, at, shared[1])?,
                    value: matrix(&value, at, shared[2])?,
                    mask: mask.as_ref().map(|mask| matrix(mask, at, 1)).transpose()?,
                    scale,
                    causal: self.is_causal,
                    blind_is_zero: true,
                };
                let output = ArrayViewMut2::from_shape((shape[rank - 2], shape[rank - 1]), output)?;
                attend(&head, scratch, output);
            }
            Ok(())
        })
    }
}

/// A tensor with its batch axes broadcast to `batch`, where each head is shared by `shared` heads of `batch`.
fn expanded<'a>(tensor: &'a Converted<'_>, batch: &[usize], shared: usize) -> Result<TensorView<'a>> {
    let mut shape = Axes::from_slice(batch);
    if let Some(heads) = shape.last_mut() {
        *heads /= shared;
    }
    let own = tensor.view();
    shape.extend(own.shape().iter().copied().skip(own.shape().rank() - 2));
    tensor.expanded(&Shape::new(&shape)?)
}

/// One matrix of a batch.
fn matrix<'a, T>(array: &ArrayViewD<'a, T>, at: &[usize], shared: usize) -> Result<ArrayView2<'a, T>> {
    let mut matrix = array.clone();
    for (axis, &index) in at.iter().enumerate() {
        let index = if axis + 1 == at.len() { index / shared } else { index };
        matrix.index_axis_inplace(Axis(0), index);
    }
    Ok(matrix.into_dimensionality::<Ix2>()?)
}

impl Layer for ScaledDotProductAttention {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [query, key, value] = [0, self.key.0, self.value.0].map(|position| &inputs[position]);
        float::check("the query", query)?;
        for (what, other) in [("the key", key), ("the value", value)] {
            if other.dtype() != query.dtype() {
                return Err(LayerError::dtype(what, query.dtype(), other.dtype()));
            }
        }
        let ((_, rows, width), (_, columns, key_width), (_, value_rows, out)) =
            (split(query)?, split(key)?, split(value)?);
        if width.differs(key_width) {
            return Err(LayerError::shape("the key", format!("…×{width} to match the query {query}"), key));
        }
        if columns.differs(value_rows) {
            return Err(LayerError::shape(
                "the value",
                format!("…×{columns}×V to match the key {key}"),
                value,
            ));
        }
        let mut dims = self.batch(inputs)?;
        if let Some(mask) = self.attn_mask.0.map(|position| &inputs[position]) {
            let scores: Vec<Dim> = dims.iter().chain([rows, columns]).cloned().collect();
            check_mask("the mask", mask)?;
            if !broadcasts(mask.dims(), &scores) {
                let scores = query.with_dims(scores);
                return Err(LayerError::shape(
                    "the mask",
                    format!("a shape that broadcasts to {scores}"),
                    mask,
                ));
            }
        }
        dims.extend([rows.clone(), out.clone()]);
        Ok(vec![query.with_dims(dims)])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let macs = || {
            let width = inputs[0].dims().last()?.clone();
            let columns = inputs.get(self.key.0)?.dims().iter().rev().nth(1)?.clone();
            let [.., rows, out] = outputs.first()?.dims() else { return None };
            let batch = outputs[0].num_elements().floor_div(rows.clone() * out.clone());
            u64::try_from((batch * rows.clone() * columns * (width + out.clone())).fixed()?).ok()
        };
        Cost::of_moving(inputs, outputs).with_macs(macs().unwrap_or(0))
    }
}

/// The scratch memory for attention over `columns` columns, in bytes.
pub(crate) fn scratch_bytes(columns: Option<i64>, dtype: DType) -> usize {
    let columns = columns.and_then(|columns| usize::try_from(columns).ok()).unwrap_or(0);
    let size = if dtype == DType::F64 { 8 } else { 4 };
    scratch_len(columns).saturating_mul(size)
}

impl CpuLayer for ScaledDotProductAttention {
    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let columns =
            inputs.get(self.key.0).and_then(|key| key.dims().iter().rev().nth(1)).and_then(Dim::fixed);
        let mask = self.attn_mask.0.and_then(|position| inputs.get(position));
        let mask = mask.and_then(|mask| usize::try_from(mask.num_elements().fixed()?).ok()).unwrap_or(0);
        let mask = mask.saturating_mul(float::computed_size(inputs[0].dtype()));
        let all_heads = || {
            let output = outputs.first()?.shape().ok()?;
            let width = inputs[0].dims().last()?.fixed()?;
            let [columns, width] = [columns?, width].map(|len| usize::try_from(len).unwrap_or(0));
            Some(sizes_of(&output, columns, width)?.scratch().saturating_mul(size_of::<f32>()))
        };
        let all_heads = all_heads().unwrap_or(0);
        scratch_bytes(columns, inputs[0].dtype()).max(all_heads).saturating_add(mask)
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0], &mut io.context))
    }
}

operators! { ScaledDotProductAttention }

#[cfg(test)]
mod tests;
