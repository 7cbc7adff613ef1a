//! Shared helpers of all layers: supported tensors, weights, and strides for kernels.

use super::codegen::compute_type;
use crate::cuda::device::{DeviceTensor, KernelStrides};
use crate::cuda::{CudaContext, is_plain};
use crate::op::{Device, LayerError, TensorFormat, TensorMeta, Weight};
use crate::tensor::{DType, Layout, Shape, Tensor};
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

/// The same formats in row-major order, for layers whose kernels support any order.
pub(super) fn row_major(formats: &[TensorFormat]) -> SmallVec<[TensorFormat; 4]> {
    formats.iter().map(|format| format.row_major()).collect()
}

/// The same formats in the CPU's memory.
pub(super) fn on_cpu(formats: &[TensorFormat]) -> SmallVec<[TensorFormat; 4]> {
    formats.iter().map(|format| format.on(Device::Cpu)).collect()
}

/// Tensors as epilogues see them: if `is_int8`, i8 tensors are quantised, and count as f32.
pub(super) fn dequantized(metas: &[TensorMeta], is_int8: bool) -> Vec<TensorMeta> {
    let dequantized = |meta: &TensorMeta| match meta.dtype() {
        DType::I8 if is_int8 => meta.with_dtype(DType::F32).with_scale(None),
        _ => meta.clone(),
    };
    metas.iter().map(dequantized).collect()
}

/// The C++ type in which elements of a type are computed.
///
/// # Errors
/// [`LayerError::Unsupported`] for complex types.
pub(super) fn computed_in(dtype: DType) -> Result<&'static str, LayerError> {
    compute_type(dtype).ok_or_else(|| LayerError::Unsupported(format!("kernels do not support {dtype}")))
}

/// The weights that are stored in the file, in this order.
///
/// # Errors
/// Returns an error if a weight cannot be read.
pub(super) fn stored<'a>(
    weights: impl IntoIterator<Item = Option<&'a Weight>>,
) -> Result<Vec<Tensor>, LayerError> {
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
        inputs: &[DeviceTensor<'a>],
        context: &CudaContext<'a>,
    ) -> Result<Option<DeviceTensor<'a>>, LayerError> {
        Ok(match weight {
            None => None,
            Some(Weight::Input(position)) => Some(input(inputs, *position)?),
            Some(Weight::Attribute(_)) => {
                self.taken += 1;
                Some(context.weight(self.taken - 1)?)
            }
        })
    }

    /// As [`Weights::next`], for a weight that must exist.
    pub(super) fn must<'a>(
        &mut self,
        weight: &Weight,
        inputs: &[DeviceTensor<'a>],
        context: &CudaContext<'a>,
    ) -> Result<DeviceTensor<'a>, LayerError> {
        let missing = || LayerError::MissingWeight { key: "weight".to_owned() };
        self.next(Some(weight), inputs, context)?.ok_or_else(missing)
    }
}

/// The input at a position.
///
/// # Errors
/// [`LayerError::InputCount`] if there is no such input.
pub(super) fn input<'a>(
    inputs: &[DeviceTensor<'a>],
    position: usize,
) -> Result<DeviceTensor<'a>, LayerError> {
    inputs.get(position).copied().ok_or_else(|| LayerError::missing_input(position, inputs.len()))
}

/// The strides of a layout in the form of kernels.
pub(super) fn strides(layout: &Layout) -> KernelStrides {
    let mut strides = KernelStrides::default();
    for (by, stride) in strides.by.iter_mut().zip(layout.strides()) {
        *by = *stride as i64;
    }
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
pub(super) fn int(len: usize) -> Result<i32, LayerError> {
    i32::try_from(len)
        .map_err(|_| LayerError::Unsupported(format!("a length of {len} exceeds the limits of kernels")))
}

/// A shape with these lengths.
///
/// # Errors
/// Returns an error if there are more axes than tensors support.
pub(super) fn shape(dims: &[usize]) -> Result<Shape, LayerError> {
    Ok(Shape::new(dims)?)
}

/// A vector of channels as a tensor that can be broadcast to an input with the channels on this axis.
///
/// # Errors
/// Returns an error if there are more axes than tensors support.
pub(super) fn along<'a>(
    channels: &DeviceTensor<'a>,
    axis: usize,
    rank: usize,
) -> Result<DeviceTensor<'a>, LayerError> {
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
