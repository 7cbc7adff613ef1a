//! The masks of multi-head attention: their checks, and adding them to a block of scores.
//!
//! Masks are never expanded to a number for each head, row and column: that could take many times the memory of all inputs.

use super::{MultiheadAttention, Sources};
use crate::attention::dot_product::{added, check_mask};
use crate::op::{LayerError, Result, TensorMeta};
use ixion_kernels::Float;
use ixion_tensor::{Dim, Limits, Tensor, TensorView};
use ndarray::{ArrayView2, ArrayView3, ArrayViewMut2, Ix2, Ix3, s};

/// The masks as numbers, in their own shapes.
pub(super) struct Masks {
    scores: Option<Tensor>,
    padding: Option<Tensor>,
}

/// The masks of all heads, as views.
pub(super) struct MaskViews<'a, T> {
    /// (N·heads)×L×S.
    scores: Option<ArrayView3<'a, T>>,
    /// N×S.
    padding: Option<ArrayView2<'a, T>>,
    heads: usize,
    /// S, without the appended columns, which are never masked.
    seen: usize,
}

impl MultiheadAttention {
    /// Checks that the masks are bools or floats of the shapes that PyTorch accepts.
    pub(super) fn check_masks(&self, inputs: &[TensorMeta], [batch, rows, columns]: [&Dim; 3]) -> Result<()> {
        let sources = self.sources.resolved(|position| first_axis(&inputs[position]), [batch, rows]);
        if let Some(mask) = sources.mask.map(|position| &inputs[position]) {
            let all = batch.clone() * self.num_heads;
            check_mask("attn_mask", mask)?;
            if !fits(mask, &[rows, columns]) && !fits(mask, &[&all, rows, columns]) {
                let wanted = format!("{rows}×{columns} or {all}×{rows}×{columns}");
                return Err(LayerError::shape("attn_mask", wanted, mask));
            }
        }
        let Some(mask) = sources.padding.map(|position| &inputs[position]) else { return Ok(()) };
        check_mask("key_padding_mask", mask)?;
        let (fit, wanted) = match inputs[self.sources.query].rank() {
            2 => (fits(mask, &[columns]), columns.to_string()),
            _ => (fits(mask, &[batch, columns]), format!("{batch}×{columns}")),
        };
        if fit { Ok(()) } else { Err(LayerError::shape("key_padding_mask", wanted, mask)) }
    }

    /// The masks among the inputs, as numbers.
    pub(super) fn masks<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        [batch, rows]: [usize; 2],
        limits: &Limits,
    ) -> Result<Masks> {
        let first = |position: usize| {
            let shape = inputs[position].shape();
            (shape.rank(), shape.first().map(|&len| Dim::from(len)))
        };
        let sources = self.sources.resolved(first, [&Dim::from(batch), &Dim::from(rows)]);
        let read = |position: Option<usize>| {
            position.map(|position| added::<T>(&inputs[position], false, limits)).transpose()
        };
        Ok(Masks { scores: read(sources.mask)?, padding: read(sources.padding)? })
    }
}

impl Sources {
    /// Decides which mask a single mask is, if the file leaves it open, from its rank and its first axis.
    pub fn resolved(
        self,
        first_axis: impl Fn(usize) -> (usize, Option<Dim>),
        [batch, rows]: [&Dim; 2],
    ) -> Self {
        let Some(unsure) = self.unsure else { return self };
        let hides_keys = match first_axis(unsure) {
            (1, _) => true,
            (2, Some(first)) => first == *batch && first != *rows,
            _ => false,
        };
        let (mask, padding) = if hides_keys { (None, Some(unsure)) } else { (Some(unsure), None) };
        Self { mask, padding, unsure: None, ..self }
    }
}

fn first_axis(mask: &TensorMeta) -> (usize, Option<Dim>) {
    (mask.rank(), mask.dims().first().cloned())
}

fn fits(mask: &TensorMeta, dims: &[&Dim]) -> bool {
    mask.rank() == dims.len() && mask.dims().iter().zip(dims).all(|(a, b)| !a.differs(b))
}

impl Masks {
    /// Returns true if there are no masks.
    pub(super) fn is_empty(&self) -> bool {
        self.scores.is_none() && self.padding.is_none()
    }

    /// Broadcasts the masks, without a copy, to these numbers of samples, heads, rows and columns.
    pub(super) fn views<T: Float>(&self, [batch, heads, rows, seen]: [usize; 4]) -> Result<MaskViews<'_, T>> {
        let scores = match &self.scores {
            Some(mask) => {
                let layout = mask.layout().expand(&[batch.saturating_mul(heads), rows, seen])?;
                Some(mask.view().with_layout(layout)?.array::<T>()?.into_dimensionality::<Ix3>()?)
            }
            None => None,
        };
        let padding = match &self.padding {
            Some(mask) => {
                let layout = mask.layout().expand(&[batch, seen])?;
                Some(mask.view().with_layout(layout)?.array::<T>()?.into_dimensionality::<Ix2>()?)
            }
            None => None,
        };
        Ok(MaskViews { scores, padding, heads, seen })
    }
}

impl<T: Float> MaskViews<'_, T> {
    /// Adds the masks of a sample and a head to a block of scores that starts at row `start`.
    pub(super) fn add(&self, [n, head]: [usize; 2], start: usize, mut block: ArrayViewMut2<'_, T>) {
        let rows = start..start + block.nrows();
        let mut block = block.slice_mut(s![.., ..self.seen]);
        if let Some(mask) = &self.scores {
            block += &mask.slice(s![n * self.heads + head, rows, ..]);
        }
        if let Some(mask) = &self.padding {
            block += &mask.row(n);
        }
    }
}
