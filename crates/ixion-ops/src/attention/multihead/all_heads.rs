//! Multi-head attention of all heads together, in `f32`, with packed projections.

use super::MultiheadAttention;
use super::projections::Part;
use crate::op::{ForwardContext, Result};
use crate::support::float;
use crate::support::packed;
use crate::support::packed::Matrix;
use ixion_kernels::attention::{Heads, Matrices, Place, Sizes};
use ixion_kernels::packed::SumEpilogue;
use ixion_tensor::{Limits, TensorView, TensorViewMut};
use ndarray::ArrayViewMut2;
use std::borrow::Cow;

impl MultiheadAttention {
    /// Returns true if this algorithm supports these sizes (samples, rows, columns) and the layer's projections. It cannot
    /// return attention weights.
    pub(super) fn suits_all_heads(&self, sizes: [usize; 3], with_weights: bool) -> bool {
        !with_weights
            && self.extra_rows() == 0
            && sizes.iter().all(|&len| len > 0)
            && self.stored().all(|weight| packed::suits(weight.dtype()))
    }

    fn head_sizes(&self, [samples, rows, columns]: [usize; 3]) -> Sizes {
        let width = self.head_dim();
        Sizes { samples, heads: self.num_heads, rows, columns, width, out_width: width }
    }

    /// The number of elements of scratch memory, required and useful: for the projections, the heads' results, and either the
    /// attention or the rounded factors of a projection.
    pub(super) fn all_heads_scratch(&self, sizes: [usize; 3]) -> [usize; 2] {
        let [samples, rows, columns] = sizes;
        let projected = rows.saturating_mul(2).saturating_add(columns.saturating_mul(2));
        let projected = projected.saturating_mul(samples).saturating_mul(self.embed_dim);
        let (rounded, sizes) = (self.rounded(sizes), self.head_sizes(sizes));
        [sizes.least_scratch(), sizes.scratch()].map(|len| projected.saturating_add(len.max(rounded)))
    }

    /// The largest number of elements for the rounded factors of one projection; 0 if they are not rounded.
    fn rounded(&self, [samples, rows, columns]: [usize; 3]) -> usize {
        let lines = [rows, columns, columns, rows].map(|lines| lines.saturating_mul(samples));
        let [query, key, value] = self.lengths();
        let rounded = lines.into_iter().zip([query, key, value, self.embed_dim]);
        rounded.map(|(lines, len)| self.early().scratch(lines, len)).max().unwrap_or(0)
    }

    /// Runs attention without the weights as an output.
    pub(super) fn run_all_heads(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let (sources, e) = (self.sources, self.embed_dim);
        let sizes @ [samples, rows, columns] = self.sizes(inputs);
        let limits = context.limits();
        let masks = self.masks::<f32>(inputs, [samples, rows], limits)?;
        let views = masks.views::<f32>([samples, self.num_heads, rows, columns])?;
        let add = |at: [usize; 2], first: usize, block: ArrayViewMut2<'_, f32>| views.add(at, first, block);
        let [required, useful] = self.all_heads_scratch(sizes);
        let scratch = context.scratch_between::<f32>(required, useful)?;
        let (queries, offered) = (samples * rows, samples * columns);
        let (projected, scratch) = scratch.split_at_mut((queries + 2 * offered) * e);
        let (joined, scratch) = scratch.split_at_mut(queries * e);
        let rounded = self.rounded(sizes);
        let are_samples_first = self.batch_first || inputs[sources.query].shape().rank() == 2;
        let place = |lines: usize, row: usize| {
            let [sample, row] = if are_samples_first { [lines * row, row] } else { [row, samples * row] };
            Place { sample, head: self.head_dim(), row, shared: 1 }
        };
        let [query, key, value] = if self.is_one() {
            let input = Matrix::of(&inputs[sources.query], queries, e)?;
            let weights = (self.panels(Part::Together)?, &mut scratch[..rounded]);
            input.multiply(weights, (&mut *projected, 3 * e), &SumEpilogue::NONE, limits)?;
            [0, 1, 2].map(|part| Matrices { data: &projected[part * e..], place: place(rows, 3 * e) })
        } else {
            let (query, rest) = projected.split_at_mut(queries * e);
            let (key, value) = rest.split_at_mut(offered * e);
            let parts =
                [(&mut *query, sources.query), (&mut *key, sources.key), (&mut *value, sources.value)];
            for (part, (projected, source)) in parts.into_iter().enumerate() {
                let (lines, len) = (projected.len() / e, self.lengths()[part]);
                let input = Matrix::of(&inputs[source], lines, len)?;
                let weights = (self.panels(Part::Apart(part))?, &mut scratch[..rounded]);
                input.multiply(weights, (projected, e), &SumEpilogue::NONE, limits)?;
            }
            [(&*query, rows), (&*key, columns), (&*value, columns)]
                .map(|(data, lines)| Matrices { data, place: place(lines, e) })
        };
        let heads = Heads {
            sizes: self.head_sizes(sizes),
            query,
            key,
            value,
            mask: (!masks.is_empty()).then_some(&add),
            scale: (1.0 / (self.head_dim() as f64).sqrt()) as f32,
            causal: false,
            blind_is_zero: true,
        };
        heads.attend((&mut *joined, place(rows, e)), scratch, limits)?;
        self.project_all_heads(joined, output, &mut scratch[..rounded], limits)
    }

    /// Applies the output projection; rows are written in the order of the output.
    fn project_all_heads(
        &self,
        joined: &[f32],
        output: &mut TensorViewMut<'_>,
        scratch: &mut [f32],
        limits: &Limits,
    ) -> Result<()> {
        let (e, rows) = (self.embed_dim, joined.len() / self.embed_dim);
        let panels = self.panels(Part::Back)?;
        let joined = Matrix { data: Cow::Borrowed(joined), rows, columns: e, row: e };
        float::write::<f32>(output, |output| {
            joined.multiply((panels, scratch), (output, e), &SumEpilogue::NONE, limits)
        })
    }
}
