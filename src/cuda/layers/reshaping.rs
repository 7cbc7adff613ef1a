//! Layers that only change the shape. If an output is a view of an input, nothing needs to be done; this module handles the
//! other cases.

use super::axes::Traversal;
use super::copy::{copy, unit};
use super::prelude::*;
use super::support::{is_any_dtype_in_any_order, kernel_shape, shape, strides};
use crate::ops::layout::reshaping::{
    Flatten, FlattenModule, Ravel, Reshape, ReshapeAs, Squeeze, Unflatten, UnflattenModule, Unsqueeze,
};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &in_order::<Flatten>(),
    &in_order::<FlattenModule>(),
    &in_order::<Ravel>(),
    &in_order::<Reshape>(),
    &in_order::<ReshapeAs>(),
    &in_order::<Squeeze>(),
    &in_order::<Unflatten>(),
    &in_order::<UnflattenModule>(),
    &in_order::<Unsqueeze>(),
];

/// Layers that copy the elements of the input in row-major order to another shape.
const fn in_order<L>() -> Simple<L> {
    Simple::new(is_any_dtype_in_any_order, |_, io| copy_in_order(&io.inputs[0], &io.outputs[0], io.context))
        .changing_order()
}

/// Copies elements in row-major order between tensors of different shapes.
pub(super) fn copy_in_order(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    // Usually one of the two can be viewed in the shape of the other.
    if let Some(layout) = to.layout().reshape(from.shape())? {
        return copy(from, &to.with_layout(layout)?, context);
    }
    if let Some(layout) = from.layout().reshape(to.shape())? {
        return copy(&from.with_layout(layout)?, to, context);
    }
    let arguments = [
        Argument::Read(*from),
        Argument::Strides(strides(from.layout())),
        Argument::Shape(kernel_shape(from.shape())),
        Argument::Write(*to),
        Argument::Strides(strides(to.layout())),
        Argument::Shape(kernel_shape(to.shape())),
        Argument::Long(to.num_elements() as i64),
    ];
    let unit = unit(from.dtype(), Traversal::default());
    context.run(&unit, "copy_in_order", Grid::over(to.num_elements()), &arguments)
}

/// A tensor in another shape: as a view, or as a copy in scratch memory, whose size is that of [`copy_bytes`].
pub(super) fn reshaped<'a, 'c: 'a>(
    tensor: &DeviceTensor<'a>,
    dims: &[usize],
    context: &mut CudaContext<'c>,
) -> Result<DeviceTensor<'a>> {
    let wanted = shape(dims)?;
    if let Some(layout) = tensor.layout().reshape(&wanted)? {
        return Ok(tensor.with_layout(layout)?);
    }
    let copied = context.scratch(tensor.dtype(), wanted)?;
    copy_in_order(tensor, &copied, context)?;
    Ok(copied)
}

/// A contiguous tensor as a vector.
///
/// # Errors
/// [`LayerError::Unsupported`] if it is not contiguous.
pub(super) fn flattened<'a>(tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>> {
    let fault = || LayerError::Unsupported("the tensor must be contiguous".to_owned());
    let layout = tensor.layout().reshape(&shape(&[tensor.num_elements()])?)?.ok_or_else(fault)?;
    Ok(tensor.with_layout(layout)?)
}

/// The bytes of scratch memory for a copy of a tensor.
pub(super) fn copy_bytes(meta: Option<&TensorMeta>) -> usize {
    let elements = meta.and_then(|meta| usize::try_from(meta.num_elements().fixed()?).ok());
    meta.map_or(0, |meta| scratch_bytes(meta.dtype(), elements.unwrap_or(0)))
}
