//! Layers that only change the shape. If an output is a view of an input, nothing needs to be done; this module handles the
//! other cases.

use super::axes::Traversal;
use super::copy::{copy, unit};
use super::epilogue::kernel_shape;
use super::support::{is_any_dtype, row_major, shape, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers, scratch_bytes};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::layout::reshaping::{
    Flatten, FlattenModule, Ravel, Reshape, ReshapeAs, Squeeze, Unflatten, UnflattenModule, Unsqueeze,
};

/// Copies the elements of the input in row-major order to another shape.
macro_rules! reshaping {
    ($($layer:ty),* $(,)?) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_any_dtype(position, &row_major(formats))
            }

            fn changes_order(&self) -> bool {
                true
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                copy_in_order(&inputs[0], &outputs[0], context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
        }
    };
}

reshaping!(Flatten, FlattenModule, Ravel, Reshape, ReshapeAs, Squeeze, Unflatten, UnflattenModule, Unsqueeze);

/// Copies elements in row-major order between tensors of different shapes.
pub(super) fn copy_in_order(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    // Usually one of the two can be viewed in the shape of the other.
    if let Some(layout) = to.layout().reshape(from.shape())? {
        return copy(from, &to.with_layout(layout)?, context);
    }
    if let Some(layout) = from.layout().reshape(to.shape())? {
        return copy(&from.with_layout(layout)?, to, context);
    }
    let kernel = context.kernel(&unit(from.dtype(), Traversal::default()), "copy_in_order")?;
    let arguments = [
        Argument::Read(*from),
        Argument::Strides(strides(from.layout())),
        Argument::Shape(kernel_shape(from.shape())),
        Argument::Write(*to),
        Argument::Strides(strides(to.layout())),
        Argument::Shape(kernel_shape(to.shape())),
        Argument::Long(to.num_elements() as i64),
    ];
    context.launch(&kernel, Grid::over(to.num_elements()), &arguments)
}

/// A tensor in another shape: as a view, or as a copy in scratch memory, whose size is that of [`copy_bytes`].
pub(super) fn reshaped<'a, 'c: 'a>(
    tensor: &DeviceTensor<'a>,
    dims: &[usize],
    context: &mut CudaContext<'c>,
) -> Result<DeviceTensor<'a>, LayerError> {
    let wanted = shape(dims)?;
    if let Some(layout) = tensor.layout().reshape(&wanted)? {
        return Ok(tensor.with_layout(layout)?);
    }
    let copied = context.scratch(tensor.dtype(), wanted)?;
    copy_in_order(tensor, &copied, context)?;
    Ok(copied)
}

/// The bytes of scratch memory for a copy of a tensor.
pub(super) fn copy_bytes(meta: Option<&TensorMeta>) -> usize {
    let elements = meta.and_then(|meta| usize::try_from(meta.num_elements().fixed()?).ok());
    meta.map_or(0, |meta| scratch_bytes(meta.dtype(), elements.unwrap_or(0)))
}
