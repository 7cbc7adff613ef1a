//! Elements selected by indices.

use super::axes::{chunk, is_chunked};
use super::codegen::element;
use super::copy::copy;
use super::prelude::*;
use super::reshaping::{flattened, reshaped};
use super::support::{along, input, int, is_any_dtype, kernel_shape, shape, strides};
use crate::ops::indexing::by_index::{Gather, IndexSelect};
use crate::ops::indexing::taking::{Take, TakeAlongDim};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] =
    &[&Own::<IndexSelect>::ENTRY, &Own::<Gather>::ENTRY, &Own::<TakeAlongDim>::ENTRY, &Own::<Take>::ENTRY];

/// Defines the type of the indices, and whether negative ones count from the end.
pub(super) fn unit_of(unit: Unit, index: DType, wraps: bool) -> Unit {
    unit.define("I", index).define("WRAPS", i32::from(wraps))
}

/// Returns true for a plain tensor of indices.
pub(super) fn is_index(position: usize, formats: &[TensorFormat]) -> bool {
    let of = |format: &TensorFormat| matches!(format.dtype, DType::I64 | DType::I32);
    is_any_dtype(position, formats) && formats.get(position).is_some_and(of)
}

/// Returns true for a plain tensor of any element type, or of indices at the position `index`.
pub(super) fn is_any_or_index(index: usize, position: usize, formats: &[TensorFormat]) -> bool {
    is_any_dtype(position, formats) && (position != index || is_index(position, formats))
}

/// The tensor, with an axis of length 1 if it has none.
pub(super) fn with_axis<'a>(tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>> {
    Ok(if tensor.shape().is_empty() { tensor.unsqueeze(0)? } else { *tensor })
}

/// A layout with another length, and stride 0, on one axis.
pub(super) fn with_broadcast_axis(layout: &Layout, axis: usize, len: usize) -> Result<Layout> {
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
) -> Result<()> {
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
    let (unit, grid) = (unit.define("CHUNK", chunk), Grid::over(y.num_elements().div_ceil(chunk)));
    context.run(&unit, "gather", grid, &arguments)
}

/// A vector of indices as a tensor that is broadcast to these lengths along all axes but one.
pub(super) fn broadcast_index<'a>(
    index: &DeviceTensor<'a>,
    axis: usize,
    dims: &[usize],
) -> Result<DeviceTensor<'a>> {
    Ok(along(&with_axis(index)?, axis, dims.len())?.expand(dims)?)
}

impl CudaLayer for IndexSelect {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_or_index(self.index.0, position, formats)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (x, y) = (with_axis(&io.inputs[0])?, with_axis(&io.outputs[0])?);
        let axis = x.shape().axis(self.dim)?;
        let index = broadcast_index(&input(io.inputs, self.index.0)?, axis, y.shape())?;
        gather(&x, &index, &y, axis, false, io.context)
    }
}

impl CudaLayer for Gather {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_or_index(self.index.0, position, formats)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        if io.outputs[0].num_elements() == 0 {
            return Ok(());
        }
        let (x, y) = (with_axis(&io.inputs[0])?, with_axis(&io.outputs[0])?);
        let axis = x.shape().axis(self.dim)?;
        gather(&x, &with_axis(&input(io.inputs, self.index.0)?)?, &y, axis, false, io.context)
    }
}

impl CudaLayer for TakeAlongDim {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_or_index(self.indices.0, position, formats)
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        if self.dim.is_some() { 0 } else { copies_workspace(inputs) }
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (y, index) = (&io.outputs[0], input(io.inputs, self.indices.0)?);
        if y.num_elements() == 0 {
            return Ok(());
        }
        let Some(dim) = self.dim else {
            let x = as_vector(&io.inputs[0], io.context)?;
            let index = as_vector(&index, io.context)?;
            return gather(&x, &index, y, 0, false, io.context);
        };
        let axis = y.shape().axis(dim)?;
        let index = index.expand(y.shape())?;
        // Along the axis the input keeps its length; along the others it is broadcast to the output.
        let mut dims = y.shape().to_vec();
        let len = io.inputs[0].shape().get(axis).copied().unwrap_or(1);
        dims.get_mut(axis).into_iter().for_each(|dim| *dim = len);
        gather(&io.inputs[0].expand(&dims)?, &index, y, axis, false, io.context)
    }
}

/// The bytes of scratch memory for copies of all inputs.
pub(super) fn copies_workspace(inputs: &[TensorMeta]) -> usize {
    let count = |meta: &TensorMeta| meta.shape().map_or(usize::MAX, |shape| shape.num_elements());
    inputs.iter().fold(0, |sum, meta| sum.saturating_add(scratch_bytes(meta.dtype(), count(meta))))
}

/// The elements as a vector: in place if they are contiguous, else copied to scratch memory.
fn as_vector<'t, 'c: 't>(
    tensor: &DeviceTensor<'t>,
    context: &mut CudaContext<'c>,
) -> Result<DeviceTensor<'t>> {
    reshaped(tensor, &[tensor.num_elements()], context)
}

impl CudaLayer for Take {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_or_index(self.index.0, position, formats)
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        copies_workspace(inputs).saturating_add(copies_workspace(outputs))
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (x, y) = (as_vector(&io.inputs[0], io.context)?, &io.outputs[0]);
        let index = as_vector(&input(io.inputs, self.index.0)?, io.context)?;
        if let Ok(y) = flattened(y) {
            return gather(&x, &index, &y, 0, true, io.context);
        }
        let taken = io.context.scratch(y.dtype(), *y.shape())?;
        gather(&x, &index, &flattened(&taken)?, 0, true, io.context)?;
        copy(&taken, y, io.context)
    }
}
