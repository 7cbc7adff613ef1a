//! Merging axes.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, View};
use ixion_tensor::{Dim, Layout, Shape};

// ANCHOR: flatten
crate::operator! {
    /// `torch.flatten`: merges the axes from `start_dim` to `end_dim` into one.
    pub struct Flatten for "torch.flatten" {
        /// The first axis to merge; -1 is the last axis of the input.
        start_dim: i64 = 0,
        /// The last axis to merge; -1 is the last axis of the input.
        end_dim: i64 = -1,
    }
}

/// Resolves an axis that may count from the end: of four axes, -1 is axis 3. `None` if there is no such axis.
fn axis(dim: i64, rank: usize) -> Option<usize> {
    // ANCHOR: axis_todo -- task 4: resolve an axis that may count from the end
    let rank = rank as i64;
    let axis = if dim < 0 { dim + rank } else { dim };
    (0..rank).contains(&axis).then_some(axis as usize)
    // ANCHOR_END: axis_todo
}

impl Layer for Flatten {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        // ANCHOR: flatten_infer_todo -- task 4: return the axes before, the product of the merged axes, and the axes after
        let dims = inputs[0].dims();
        let (first, last) = match (axis(self.start_dim, dims.len()), axis(self.end_dim, dims.len())) {
            (Some(first), Some(last)) if first <= last => (first, last),
            _ => return Err(LayerError::shape("the axes to flatten", "axes of the input", &inputs[0])),
        };
        let product = dims[first..=last].iter().fold(Dim::from(1usize), |product, len| product * len.clone());
        Ok(vec![inputs[0].with_dims([&dims[..first], &[product], &dims[last + 1..]].concat())])
        // ANCHOR_END: flatten_infer_todo
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        // ANCHOR: flatten_view_todo -- task 4: view the input's elements in the new shape, if none needs to move
        let layout = inputs[0].reshape(shape)?;
        Ok(layout.map(|layout| View { input: 0, layout }))
        // ANCHOR_END: flatten_view_todo
    }
}

impl CpuLayer for Flatten {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // ANCHOR: flatten_forward_todo -- task 4: copy the elements one by one, for an input that cannot be viewed
        for (y, &x) in io.outputs[0].array::<f32>()?.iter_mut().zip(&io.inputs[0].array::<f32>()?) {
            *y = x;
        }
        Ok(())
        // ANCHOR_END: flatten_forward_todo
    }
}
// ANCHOR_END: flatten
