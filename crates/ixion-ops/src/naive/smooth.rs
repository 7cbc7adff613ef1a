//! A plugin that prepares weights, stores a configuration, serialises its state and uses scratch memory.

use super::like_the_input;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, State, TensorMeta};
use std::sync::Arc;

// ANCHOR: smooth
// ANCHOR: smooth_fields
crate::operator! {
    /// Smooths each row: an element becomes the mean of itself and its neighbours, weighted by a kernel. Beyond the ends of a
    /// row, its first and last elements are repeated.
    pub struct Smooth for "Smooth" {
        /// The weights of the neighbours, from left to right. Their sum does not matter.
        kernel: Vec<f64> = vec![1.0, 2.0, 1.0],
        /// The kernel, scaled to a sum of 1. It exists from `initialize` to `terminate` and never changes, so clones share it.
        weights: State<Option<Arc<[f32]>>>,
        /// The length of a row, which `configure` stores. Each clone has its own.
        row: State<Option<usize>>,
    }
    validate |this| {
        if this.kernel.len().is_multiple_of(2) || !this.kernel.iter().sum::<f64>().is_normal() {
            let reason = "expected an odd number of weights whose sum is not 0";
            return Err(LayerError::invalid("kernel", format!("{:?}", this.kernel), reason));
        }
        Ok(())
    }
}
// ANCHOR_END: smooth_fields

impl Smooth {
    /// The length of a row that is extended by half of the kernel on both sides.
    fn longer(&self, row: usize) -> usize {
        row.saturating_add(self.kernel.len()).saturating_sub(1)
    }
}

/// The length of a tensor's last axis, if it is a number.
fn row_of(input: &TensorMeta) -> Option<usize> {
    usize::try_from(input.dims().last()?.fixed()?).ok()
}

impl Layer for Smooth {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        match inputs[0].rank() {
            0 => Err(LayerError::shape("the input", "at least one axis", &inputs[0])),
            _ => like_the_input(inputs),
        }
    }
}

impl CpuLayer for Smooth {
    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<()> {
        // ANCHOR: configure_todo -- task 5: store the length of a row; return an error if it is not a number
        let row = row_of(&inputs[0]);
        self.row.0 =
            Some(row.ok_or_else(|| LayerError::shape("the last axis", "a known length", &inputs[0]))?);
        Ok(())
        // ANCHOR_END: configure_todo
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        // ANCHOR: workspace_todo -- task 5: return the bytes of one extended row of f32
        let row = row_of(&inputs[0]).unwrap_or(0);
        self.longer(row).saturating_mul(size_of::<f32>())
        // ANCHOR_END: workspace_todo
    }

    fn initialize(&mut self) -> Result<()> {
        // ANCHOR: initialize_todo -- task 5: store the kernel, divided by its sum
        let sum: f64 = self.kernel.iter().sum();
        self.weights.0 = Some(self.kernel.iter().map(|weight| (weight / sum) as f32).collect());
        Ok(())
        // ANCHOR_END: initialize_todo
    }

    fn terminate(&mut self) {
        // ANCHOR: terminate_todo -- task 5: drop what `initialize` created
        self.weights.0 = None;
        // ANCHOR_END: terminate_todo
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        // ANCHOR: serialize_todo -- task 5: return the length of a row as 8 bytes, or no bytes if there is none
        Ok(self.row.0.map(|row| (row as u64).to_le_bytes().to_vec()).unwrap_or_default())
        // ANCHOR_END: serialize_todo
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        // ANCHOR: deserialize_todo -- task 5: read what `serialize` wrote; return an error for anything else
        if bytes.is_empty() {
            self.row.0 = None;
            return Ok(());
        }
        let row = <[u8; 8]>::try_from(bytes).ok().map(u64::from_le_bytes);
        let row = row.and_then(|row| usize::try_from(row).ok());
        let wrong = || LayerError::Unsupported(format!("expected 8 bytes of state, got {}", bytes.len()));
        self.row.0 = Some(row.ok_or_else(wrong)?);
        Ok(())
        // ANCHOR_END: deserialize_todo
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (Some(weights), Some(row)) = (&self.weights.0, self.row.0) else {
            return Err(LayerError::Unsupported("the layer was not initialised and configured".to_owned()));
        };
        let (input, mut output) = (io.inputs[0].array::<f32>()?, io.outputs[0].array::<f32>()?);
        if input.shape().last() != Some(&row) {
            return Err(LayerError::shape(
                "the input",
                format!("rows of {row} elements"),
                io.inputs[0].shape(),
            ));
        }
        let longer = io.context.scratch::<f32>(self.longer(row))?;
        for (from, mut to) in input.rows().into_iter().zip(output.rows_mut()) {
            let Some(last) = row.checked_sub(1) else { break };
            for (at, x) in longer.iter_mut().enumerate() {
                *x = from[at.saturating_sub(weights.len() / 2).min(last)];
            }
            for (y, seen) in to.iter_mut().zip(longer.windows(weights.len())) {
                *y = seen.iter().zip(weights.iter()).map(|(x, weight)| x * weight).sum();
            }
        }
        Ok(())
    }
}
// ANCHOR_END: smooth
