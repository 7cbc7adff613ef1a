//! Between the memories of devices: the operator that an engine puts where one device makes what another reads.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::tensor::{TensorView, TensorViewMut};

/// The same tensor in the memory of another device. An engine does the copying; on the CPU alone it is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer;

impl Transfer {
    /// The type that graphs show for this operator.
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
