//! Transfer between device memories: the operator that the engine inserts if one device writes a tensor that another reads.

use crate::op::{CpuLayer, Io, Layer, Result, TensorMeta};

/// Copies a tensor to the memory of another device. The engine performs the transfer; on the CPU it is a plain copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer;

impl Transfer {
    /// The operator type that graphs show.
    pub const TYPE: &'static str = "ixion.Transfer";
}

impl Layer for Transfer {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].clone()])
    }
}

impl CpuLayer for Transfer {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }
}
