//! Shared helpers of all layers: supported tensors, weights, and strides for kernels.

use super::codegen::compute_type;
use super::prelude::*;
use crate::op::Device;
use crate::tensor::Shape;
use smallvec::SmallVec;

/// Returns true for a plain tensor of any element type.
pub(super) fn is_any_dtype(position: usize, formats: &[TensorFormat]) -> bool {
    formats.get(position).is_some_and(is_plain)
}

/// Returns true for a plain tensor of real values, with which kernels compute.
pub(super) fn is_real(position: usize, formats: &[TensorFormat]) -> bool {
    formats.get(position).is_some_and(|format| is_plain(format) && compute_type(format.dtype).is_some())
}

/// Returns true for a plain tensor of floating-point values.
pub(super) fn is_float(position: usize, formats: &[TensorFormat]) -> bool {
    formats.get(position).is_some_and(|format| is_plain(format) && format.dtype.is_float())
}

/// As [`is_any_dtype`], for layers whose kernels support any order of axes.
pub(super) fn is_any_dtype_in_any_order(position: usize, formats: &[TensorFormat]) -> bool {
    is_any_dtype(position, &row_major(formats))
}

/// As [`is_real`], for layers whose kernels support any order of axes.
pub(super) fn is_real_in_any_order(position: usize, formats: &[TensorFormat]) -> bool {
    is_real(position, &row_major(formats))
}

/// As [`is_float`], for layers whose kernels support any order of axes.
pub(super) fn is_float_in_any_order(position: usize, formats: &[TensorFormat]) -> bool {
    is_float(position, &row_major(formats))
}

/// The same formats in row-major order, for layers whose kernels support any order.
pub(super) fn row_major(formats: &[TensorFormat]) -> SmallVec<[TensorFormat; 4]> {
    formats.iter().map(|format| format.row_major()).collect()
}

/// The same formats in the CPU's memory.
pub(super) fn on_cpu(formats: &[TensorFormat]) -> SmallVec<[TensorFormat; 4]> {
    formats.iter().map(|format| format.on(Device::Cpu)).collect()
}

/// The element types and shapes of tensors.
pub(super) fn metas(tensors: &[DeviceTensor<'_>]) -> Vec<TensorMeta> {
    let meta = |tensor: &DeviceTensor<'_>| TensorMeta::new(tensor.dtype(), tensor.shape().iter().copied());
    tensors.iter().map(meta).collect()
}

/// The C++ type in which elements of a type are computed.
///
/// # Errors
/// [`LayerError::Unsupported`] for complex types.
pub(super) fn computed_in(dtype: DType) -> Result<&'static str> {
    compute_type(dtype).ok_or_else(|| LayerError::Unsupported(format!("kernels do not support {dtype}")))
}

/// Defines the element type `T` of a kernel, and the type `C` in which elements are computed.
///
/// # Errors
/// As [`computed_in`].
pub(super) fn typed(unit: Unit, dtype: DType) -> Result<Unit> {
    Ok(unit.define("T", dtype.name()).define("C", computed_in(dtype)?))
}

/// The weights that are stored in the file, in this order.
///
/// # Errors
/// Returns an error if a weight cannot be read.
pub(super) fn stored<'a>(weights: impl IntoIterator<Item = Option<&'a Weight>>) -> Result<Vec<Tensor>> {
    let attributes = weights.into_iter().filter_map(|weight| match weight {
        Some(Weight::Attribute(attribute)) => Some(attribute),
        _ => None,
    });
    attributes.map(|attribute| attribute.load()).collect()
}

/// Finds weights among the inputs, or on the device in the order of [`stored`].
#[derive(Debug, Default)]
pub(super) struct Weights {
    taken: usize,
}

impl Weights {
    /// The next weight, if there is one. All weights must be requested in the order of [`stored`].
    ///
    /// # Errors
    /// Returns an error if the input is missing.
    pub(super) fn next<'a>(
        &mut self,
        weight: Option<&Weight>,
        io: &CudaIo<'a, '_>,
    ) -> Result<Option<DeviceTensor<'a>>> {
        Ok(match weight {
            None => None,
            Some(Weight::Input(position)) => Some(input(io.inputs, *position)?),
            Some(Weight::Attribute(_)) => {
                self.taken += 1;
                Some(io.context.weight(self.taken - 1)?)
            }
        })
    }

    /// As [`Weights::next`], for a weight that must exist.
    pub(super) fn must<'a>(&mut self, weight: &Weight, io: &CudaIo<'a, '_>) -> Result<DeviceTensor<'a>> {
        let missing = || LayerError::MissingWeight { key: "weight".to_owned() };
        self.next(Some(weight), io)?.ok_or_else(missing)
    }
}

/// The input at a position.
///
/// # Errors
/// [`LayerError::InputCount`] if there is no such input.
pub(super) fn input<'a>(inputs: &[DeviceTensor<'a>], position: usize) -> Result<DeviceTensor<'a>> {
    inputs.get(position).copied().ok_or_else(|| LayerError::missing_input(position, inputs.len()))
}

/// A shape in the form of kernels.
pub(super) fn kernel_shape(shape: &Shape) -> KernelShape {
    let mut kernel = KernelShape { rank: shape.len() as i32, ..KernelShape::default() };
    for (dim, len) in kernel.dims.iter_mut().zip(shape.iter()) {
        *dim = i32::try_from(*len).unwrap_or(i32::MAX);
    }
    kernel
}

/// Lengths in the form of kernels.
///
/// # Errors
/// As [`int`].
pub(super) fn kernel_lengths(lengths: impl ExactSizeIterator<Item = usize>) -> Result<KernelShape> {
    let mut kernel = KernelShape { rank: int(lengths.len())?, ..KernelShape::default() };
    for (dim, len) in kernel.dims.iter_mut().zip(lengths) {
        *dim = int(len)?;
    }
    Ok(kernel)
}

/// Strides in the form of kernels.
pub(super) fn kernel_strides(strides: &[usize]) -> KernelStrides {
    let mut kernel = KernelStrides::default();
    kernel.by.iter_mut().zip(strides).for_each(|(by, stride)| *by = *stride as i64);
    kernel
}

/// The strides of a layout in the form of kernels.
pub(super) fn strides(layout: &Layout) -> KernelStrides {
    kernel_strides(layout.strides())
}

/// The strides of a batch of matrices in the form of kernels: those of the `batch` leading axes, and at positions 6 and 7 those
/// of rows and columns.
pub(super) fn matrix_strides(layout: &Layout, batch: usize) -> KernelStrides {
    let (of_batch, of_matrix) = layout.strides().split_at(batch);
    let mut strides = kernel_strides(of_batch);
    strides.by[6] = of_matrix.first().map_or(0, |stride| *stride as i64);
    strides.by[7] = of_matrix.last().map_or(0, |stride| *stride as i64);
    strides
}

/// The axes of a layout in memory order, the innermost last.
pub(super) fn in_memory(layout: &Layout) -> Vec<usize> {
    let stride = |&axis: &usize| std::cmp::Reverse(layout.strides().get(axis).copied().unwrap_or(0));
    let mut axes: Vec<usize> = (0..layout.shape().rank()).collect();
    axes.sort_by_key(stride);
    axes
}

/// A length as an `int` of kernels.
///
/// # Errors
/// [`LayerError::Unsupported`] if the length exceeds 31 bits.
pub(super) fn int(len: usize) -> Result<i32> {
    i32::try_from(len)
        .map_err(|_| LayerError::Unsupported(format!("a length of {len} exceeds the limits of kernels")))
}

/// A shape with these lengths.
///
/// # Errors
/// Returns an error if there are more axes than tensors support.
pub(super) fn shape(dims: &[usize]) -> Result<Shape> {
    Ok(Shape::new(dims)?)
}

/// A vector of channels as a tensor that can be broadcast to an input with the channels on this axis.
///
/// # Errors
/// Returns an error if there are more axes than tensors support.
pub(super) fn along<'a>(channels: &DeviceTensor<'a>, axis: usize, rank: usize) -> Result<DeviceTensor<'a>> {
    let mut dims = vec![1; rank];
    let mut strides = vec![0; rank];
    if let (Some(dim), Some(stride), Some(&len), Some(&by)) = (
        dims.get_mut(axis),
        strides.get_mut(axis),
        channels.shape().first(),
        channels.layout().strides().first(),
    ) {
        (*dim, *stride) = (len, by);
    }
    let layout = Layout::strided(shape(&dims)?, &strides, channels.layout().offset())?;
    Ok(channels.with_layout(layout)?)
}
