//! Transfer between device memories: the operator that the engine inserts if one device writes a tensor that another reads.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use ixion_tensor::{TensorView, TensorViewMut};

/// Copies a tensor to the memory of another device. The engine performs the transfer; on the CPU it is a plain copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer;

impl Transfer {
    /// The operator type that graphs show.
    pub const TYPE: &'static str = "ixion.Transfer";
}

impl Layer for Transfer {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].clone()])
    }
}

impl CpuLayer for Transfer {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        Ok(outputs[0].copy_from(&inputs[0])?)
    }
}
