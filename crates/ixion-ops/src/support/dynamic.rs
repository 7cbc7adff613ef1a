//! Layers whose outputs have sizes that depend on the values of their inputs.

use crate::op::Result;
use ixion_tensor::{Tensor, TensorViewMut};

/// Implements [`CpuLayer`](crate::op::CpuLayer) by the layers' method `compute`, which returns all outputs, given the inputs and
/// the limits of the run.
macro_rules! dynamic_layers {
    ($($name:ident),+ $(,)?) => {$(
        impl $crate::op::CpuLayer for $name {
            fn forward(&mut self, io: &mut $crate::op::Io<'_, '_>) -> $crate::op::Result<()> {
                let results = self.compute(io.inputs, io.context.limits())?;
                $crate::support::dynamic::copy(&results, io.outputs)
            }

            fn forward_dynamic(
                &mut self,
                inputs: &[$crate::tensor::TensorView<'_>],
                context: &mut $crate::op::ForwardContext<'_>,
            ) -> $crate::op::Result<Vec<$crate::tensor::Tensor>> {
                self.compute(inputs, context.limits())
            }
        }
    )+};
}

pub(crate) use dynamic_layers;

/// Copies results to outputs of their shapes and types.
///
/// # Errors
/// [`TensorError::ShapeMismatch`](ixion_tensor::TensorError::ShapeMismatch) if an output has another shape.
pub(crate) fn copy(results: &[Tensor], outputs: &mut [TensorViewMut<'_>]) -> Result<()> {
    for (result, output) in results.iter().zip(outputs) {
        output.copy_from(&result.view())?;
    }
    Ok(())
}
