//! Elements selected by indices.

use super::axes::{chunk, is_chunked};
use super::copy::{copy, element};
use super::epilogue::kernel_shape;
use super::support::{input, int, is_any_dtype, shape, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, Unit};
use crate::cuda::layer::scratch_bytes;
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::indexing::by_index::{Gather, IndexSelect};
use crate::ops::indexing::taking::{Take, TakeAlongDim};
use crate::tensor::{DType, Layout};

/// Defines the type of the indices, and whether negative ones count from the end.
pub(super) fn unit_of(unit: Unit, index: DType, wraps: bool) -> Unit {
    unit.define("I", index).define("WRAPS", i32::from(wraps))
}

/// Returns true for a plain tensor of indices.
pub(super) fn is_index(position: usize, formats: &[TensorFormat]) -> bool {
    let of = |format: &TensorFormat| matches!(format.dtype, DType::I64 | DType::I32);
    is_any_dtype(position, formats) && formats.get(position).is_some_and(of)
}

/// The tensor, with an axis of length 1 if it has none.
pub(super) fn with_axis<'a>(tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>, LayerError> {
    let layout = tensor.layout();
    Ok(if layout.shape().is_empty() { tensor.with_layout(layout.unsqueeze(0)?)? } else { *tensor })
}

/// A contiguous tensor as a vector.
pub(super) fn flattened<'a>(tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>, LayerError> {
    let fault = || LayerError::Unsupported("the tensor must be contiguous".to_owned());
    let layout = tensor.layout().reshape(&shape(&[tensor.num_elements()])?)?.ok_or_else(fault)?;
    Ok(tensor.with_layout(layout)?)
}

/// A layout with another length, and stride 0, on one axis.
pub(super) fn with_broadcast_axis(layout: &Layout, axis: usize, len: usize) -> Result<Layout, LayerError> {
    let (mut dims, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    dims.get_mut(axis).into_iter().for_each(|dim| *dim = len);
    strides.get_mut(axis).into_iter().for_each(|stride| *stride = 0);
    Ok(Layout::strided(shape(&dims)?, &strides, layout.offset())?)
}

/// Writes for each element of `y` the element of `x` at an index along an axis. `index` has the shape of `y`, and so has `x`
/// except for the axis, or they are broadcast to it.
pub(super) fn gather(
    x: &DeviceTensor<'_>,
    index: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    axis: usize,
    wraps: bool,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let unit = Unit::new("indexing.cu", include_str!("../kernels/indexing.cu"));
    let unit = unit_of(unit.define("T", element(x.dtype())), index.dtype(), wraps);
    let [by_x, by_index, by_y] = [x, index, y].map(|tensor| strides(tensor.layout()));
    let last = y.shape().len().saturating_sub(1);
    // Adjacent elements along another axis that share an index can be read in chunks.
    let chunk = chunk(&[y], |chunk| {
        let is_along = axis < last && [by_x.by[last], by_y.by[last], by_index.by[last]] == [1, 1, 0];
        let is_divisible = y.shape().last().is_some_and(|len| len.is_multiple_of(chunk));
        let is_aligned = is_chunked(x, &by_x.by[..last], chunk) && is_chunked(y, &by_y.by[..last], chunk);
        is_along && is_divisible && is_aligned
    });
    let kernel = context.kernel(&unit.define("CHUNK", chunk), "gather")?;
    let [faults, operator_id] = context.faults();
    let arguments = [
        Argument::Read(*x),
        Argument::Strides(by_x),
        Argument::Read(*index),
        Argument::Strides(by_index),
        Argument::Write(*y),
        Argument::Strides(by_y),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Int(int(axis)?),
        Argument::Int(int(x.shape().get(axis).copied().unwrap_or(1))?),
        Argument::Long(y.num_elements() as i64),
        faults,
        operator_id,
    ];
    context.launch(&kernel, Grid::over(y.num_elements().div_ceil(chunk)), &arguments)
}

/// A vector of indices as a tensor that can be broadcast along all axes but one.
pub(super) fn broadcast_index<'a>(
    index: &DeviceTensor<'a>,
    axis: usize,
    rank: usize,
) -> Result<DeviceTensor<'a>, LayerError> {
    super::support::along(&with_axis(index)?, axis, rank)
}

impl CudaLayer for IndexSelect {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (x, y) = (with_axis(&inputs[0])?, with_axis(&outputs[0])?);
        let axis = x.shape().axis(self.dim)?;
        let index = broadcast_index(&input(inputs, self.index.0)?, axis, x.shape().len())?;
        let index = index.with_layout(index.layout().expand(y.shape())?)?;
        gather(&x, &index, &y, axis, false, context)
    }
}

impl CudaLayer for Gather {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        if outputs[0].num_elements() == 0 {
            return Ok(());
        }
        let (x, y) = (with_axis(&inputs[0])?, with_axis(&outputs[0])?);
        let axis = x.shape().axis(self.dim)?;
        gather(&x, &with_axis(&input(inputs, self.index.0)?)?, &y, axis, false, context)
    }
}

impl CudaLayer for TakeAlongDim {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && (position != self.indices.0 || is_index(position, formats))
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        if self.dim.is_some() { 0 } else { copies_workspace(inputs) }
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (y, index) = (&outputs[0], input(inputs, self.indices.0)?);
        if y.num_elements() == 0 {
            return Ok(());
        }
        let Some(dim) = self.dim else {
            let (x, index) = (ravel(&inputs[0], context)?, ravel(&index, context)?);
            return gather(&x, &index, y, 0, false, context);
        };
        let axis = y.shape().axis(dim)?;
        let index = index.with_layout(index.layout().expand(y.shape())?)?;
        // Along the axis the input keeps its length; along the others it is broadcast to the output.
        let mut dims = y.shape().to_vec();
        let len = inputs[0].shape().get(axis).copied().unwrap_or(1);
        dims.get_mut(axis).into_iter().for_each(|dim| *dim = len);
        let x = inputs[0].with_layout(inputs[0].layout().expand(&dims)?)?;
        gather(&x, &index, y, axis, false, context)
    }
}

/// The bytes of scratch memory for copies of all inputs.
pub(super) fn copies_workspace(inputs: &[TensorMeta]) -> usize {
    let count = |meta: &TensorMeta| meta.shape().map_or(usize::MAX, |shape| shape.num_elements());
    inputs.iter().fold(0, |sum, meta| sum.saturating_add(scratch_bytes(meta.dtype(), count(meta))))
}

/// The elements as a vector: in place if they are contiguous, else copied to scratch memory.
pub(super) fn ravel<'t, 'c: 't>(
    tensor: &DeviceTensor<'t>,
    context: &mut CudaContext<'c>,
) -> Result<DeviceTensor<'t>, LayerError> {
    if let Ok(flattened) = flattened(tensor) {
        return Ok(flattened);
    }
    let copied = context.scratch(tensor.dtype(), *tensor.shape())?;
    copy(tensor, &copied, context)?;
    flattened(&copied)
}

impl CudaLayer for Take {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        copies_workspace(inputs).saturating_add(copies_workspace(outputs))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (x, y) = (ravel(&inputs[0], context)?, &outputs[0]);
        let index = ravel(&input(inputs, self.index.0)?, context)?;
        if let Ok(y) = flattened(y) {
            return gather(&x, &index, &y, 0, true, context);
        }
        let taken = context.scratch(y.dtype(), *y.shape())?;
        gather(&x, &index, &flattened(&taken)?, 0, true, context)?;
        copy(&taken, y, context)
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<IndexSelect>();
    layers.register::<Gather>();
    layers.register::<TakeAlongDim>();
    layers.register::<Take>();
}
