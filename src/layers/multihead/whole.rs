//! All heads at once, in `f32`, with packed projections.

use super::super::float;
use super::super::packed::{self, Matrix, Packed, pack};
use super::MultiheadAttention;
use crate::Limits;
use crate::graph::{FieldValue, ForwardContext, LayerError, NO_KEY, OperatorReader};
use crate::kernels::attention::{Heads, Matrices, Place, Sizes};
use crate::kernels::packed::{Ending, Panels};
use crate::tensor::{TensorView, TensorViewMut};
use ndarray::ArrayViewMut2;
use std::borrow::Cow;

/// The projections as they are multiplied with.
#[derive(Debug, Clone, Default)]
pub struct Projections {
    /// Those of queries, keys and values as one.
    together: Packed,
    apart: [Packed; 3],
    back: Packed,
}

impl FieldValue for Projections {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self::default()))
    }
}

impl MultiheadAttention {
    /// Whether this way suits sizes (samples, rows, columns) and these weights.
    pub(super) fn is_whole(&self, sizes: [usize; 3], with_weights: bool) -> bool {
        let weights = [&self.in_proj_weight, &self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight];
        let others = [&self.in_proj_bias, &self.out_weight, &self.out_bias];
        let mut stored = weights.into_iter().chain(others).filter_map(|stored| stored.0.as_ref());
        !with_weights
            && self.extra_rows() == 0
            && sizes.iter().all(|&len| len > 0)
            && stored.all(|weight| packed::suits(weight.dtype()))
    }

    fn head_sizes(&self, [samples, rows, columns]: [usize; 3]) -> Sizes {
        let width = self.head_dim();
        Sizes { samples, heads: self.num_heads, rows, columns, width, out_width: width }
    }

    /// Elements of scratch memory: the projections, what the heads give, and what attention takes.
    pub(super) fn whole_scratch(&self, sizes: [usize; 3]) -> usize {
        let [samples, rows, columns] = sizes;
        let projected = rows.saturating_mul(2).saturating_add(columns.saturating_mul(2));
        let projected = projected.saturating_mul(samples).saturating_mul(self.embed_dim);
        projected.saturating_add(self.head_sizes(sizes).scratch_len())
    }

    /// Projects with the projections of queries, keys or values, or with all of them.
    fn panels(&self, part: Option<usize>) -> Result<&Panels, LayerError> {
        let e = self.embed_dim;
        let bias = self.in_proj_bias.0.as_ref();
        let missing = || LayerError::MissingWeight { key: "in_proj_weight".to_owned() };
        let all = self.in_proj_weight.0.as_ref();
        let Some(part) = part else {
            return self
                .projections
                .together
                .get_or_make(|| pack(all.ok_or_else(missing)?, bias, 0..3 * e, e));
        };
        let own = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight][part];
        let rows = part * e..(part + 1) * e;
        self.projections.apart[part].get_or_make(|| match all {
            Some(all) => pack(all, bias, rows.clone(), e),
            None => {
                let weight = own.0.as_ref().ok_or_else(missing)?;
                packed::pack_parts(
                    (weight, 0..e),
                    bias.map(|bias| (bias, rows.clone())),
                    self.lengths()[part],
                )
            }
        })
    }

    /// Attention without weights as an output.
    pub(super) fn run_whole(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (sources, e) = (self.sources, self.embed_dim);
        let sizes @ [samples, rows, columns] = self.sizes(inputs);
        let limits = context.limits().clone();
        let masks = self.masks::<f32>(inputs, [samples, rows], &limits)?;
        let views = masks.views::<f32>([samples, self.num_heads, rows, columns])?;
        let add = |at: [usize; 2], first: usize, block: ArrayViewMut2<'_, f32>| views.add(at, first, block);
        let scratch = context.scratch::<f32>(self.whole_scratch(sizes))?;
        let (queries, offered) = (samples * rows, samples * columns);
        let (projected, scratch) = scratch.split_at_mut((queries + 2 * offered) * e);
        let (joined, scratch) = scratch.split_at_mut(queries * e);
        let is_one = sources.query == sources.key && sources.key == sources.value;
        let are_samples_first = self.batch_first || inputs[sources.query].shape().rank() == 2;
        let place = |lines: usize, row: usize| {
            let [sample, row] = if are_samples_first { [lines * row, row] } else { [row, samples * row] };
            Place { sample, head: self.head_dim(), row, shared: 1 }
        };
        let [query, key, value] = if is_one && self.in_proj_weight.0.is_some() {
            let input = Matrix::of(&inputs[sources.query], queries, e)?;
            input.multiply(self.panels(None)?, (&mut *projected, 3 * e), &Ending::NONE, &limits)?;
            [0, 1, 2].map(|part| Matrices { data: &projected[part * e..], place: place(rows, 3 * e) })
        } else {
            let (query, rest) = projected.split_at_mut(queries * e);
            let (key, value) = rest.split_at_mut(offered * e);
            let parts =
                [(&mut *query, sources.query), (&mut *key, sources.key), (&mut *value, sources.value)];
            for (part, (projected, source)) in parts.into_iter().enumerate() {
                let (lines, len) = (projected.len() / e, self.lengths()[part]);
                let input = Matrix::of(&inputs[source], lines, len)?;
                input.multiply(self.panels(Some(part))?, (projected, e), &Ending::NONE, &limits)?;
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
        heads.attend((&mut *joined, place(rows, e)), scratch, &limits)?;
        self.project_whole(joined, output, &limits)
    }

    /// The last projection; rows lie in the order of the output.
    fn project_whole(
        &self,
        joined: &[f32],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        let (e, rows) = (self.embed_dim, joined.len() / self.embed_dim);
        let missing = || LayerError::MissingWeight { key: "out_proj.weight".to_owned() };
        let panels = self.projections.back.get_or_make(|| {
            pack(self.out_weight.0.as_ref().ok_or_else(missing)?, self.out_bias.0.as_ref(), 0..e, e)
        })?;
        let joined = Matrix { data: Cow::Borrowed(joined), rows, columns: e, row: e };
        float::write::<f32>(output, |output| joined.multiply(panels, (output, e), &Ending::NONE, limits))
    }
}
