//! Layers that put elements elsewhere and leave them as they are. Where an output is a view of an input nothing is left to do;
//! these are the other cases.

use super::elementwise::copy;
use super::support::is_anything;
use crate::cuda::device::DeviceTensor;
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::graph::{LayerError, TensorFormat};
use crate::layers::reshaping::{
    Flatten, FlattenModule, Ravel, Reshape, ReshapeAs, Squeeze, Unflatten, UnflattenModule, Unsqueeze,
};

/// The elements of the input in row-major order under another shape.
macro_rules! reshaped {
    ($($layer:ty),* $(,)?) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_anything(position, formats)
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                in_order(&inputs[0], &outputs[0], context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
        }
    };
}

reshaped!(Flatten, FlattenModule, Ravel, Reshape, ReshapeAs, Squeeze, Unflatten, UnflattenModule, Unsqueeze);

/// Copies elements in row-major order between shapes.
pub(super) fn in_order(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    // One of both is seen in the shape of the other: outputs mostly lie in one piece.
    if let Some(layout) = to.layout().reshape(from.shape())? {
        return copy(from, &to.with_layout(layout)?, context);
    }
    match from.layout().reshape(to.shape())? {
        Some(layout) => copy(&from.with_layout(layout)?, to, context),
        None => Err(LayerError::Unsupported("neither tensor lies in one piece".to_owned())),
    }
}
