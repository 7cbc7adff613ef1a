//! Elements written or added at indices.

use super::codegen::{compute_type, element};
use super::copy::copy;
use super::indexing::{
    broadcast_index, copies_workspace, is_any_or_index, is_index, unit_of, with_axis, with_broadcast_axis,
};
use super::kernel_builder::{no_kernel, write_operand};
use super::movement::copy_as;
use super::prelude::*;
use super::support::{input, int, is_any_dtype, is_real, kernel_shape, shape, strides};
use crate::ops::indexing::advanced::{IndexAdd, IndexFill};
use crate::ops::indexing::by_index::ScatterAdd;
use crate::ops::indexing::scattering::{IndexCopy, Scatter, SelectScatter};
use crate::ops::support::broadcast::TensorOrScalar;
use crate::tensor::{Scalar, resolve_axis, resolve_index};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Own::<Scatter>::ENTRY,
    &Own::<ScatterAdd>::ENTRY,
    &Own::<IndexCopy>::ENTRY,
    &Simple::<SelectScatter>::new(is_any_dtype, select_scatter),
    &Own::<IndexFill>::ENTRY,
    &Own::<IndexAdd>::ENTRY,
];

/// How a written element is combined with the existing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reduction {
    None,
    Add,
}

/// Writes the elements of `x` to `y` at indices along an axis. All three tensors have the same axes; only the leading part of
/// `x` and `y` that `index` covers is used.
fn scatter(
    reduction: Reduction,
    x: &DeviceTensor<'_>,
    index: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    axis: usize,
    wraps: bool,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let unit = Unit::new("scattering.cu", include_str!("../kernels/scattering.cu"));
    let (stored, combined) = match reduction {
        Reduction::None => (element(x.dtype()), "b"),
        Reduction::Add if x.dtype() == DType::Bool => (x.dtype().name(), "a | b"),
        Reduction::Add if compute_type(x.dtype()) == Some("i64") => {
            (x.dtype().name(), "(T)((unsigned long long)a + (unsigned long long)b)")
        }
        Reduction::Add => (x.dtype().name(), "a + b"),
    };
    let unit = unit_of(unit.define("T", stored).define("COMBINE(a, b)", combined), index.dtype(), wraps);
    let outer = with_broadcast_axis(index.layout(), axis, 1)?;
    let stride =
        |tensor: &DeviceTensor<'_>| tensor.layout().strides().get(axis).map_or(0, |&stride| stride as i64);
    let along = |tensor: &DeviceTensor<'_>| -> Result<Argument<'static>> {
        Ok(Argument::Strides(strides(&with_broadcast_axis(tensor.layout(), axis, 1)?)))
    };
    let index_len = index.shape().get(axis).copied().unwrap_or(1);
    let count = if index.num_elements() == 0 { 0 } else { outer.shape().num_elements() };
    let [faults, operator_id] = context.faults();
    let arguments = [
        Argument::Read(*x),
        along(x)?,
        Argument::Long(stride(x)),
        Argument::Read(*index),
        along(index)?,
        Argument::Long(stride(index)),
        Argument::Write(*y),
        along(y)?,
        Argument::Long(stride(y)),
        Argument::Shape(kernel_shape(outer.shape())),
        Argument::Int(int(index_len)?),
        Argument::Int(int(y.shape().get(axis).copied().unwrap_or(1))?),
        Argument::Long(count as i64),
        faults,
        operator_id,
    ];
    context.run(&unit, "scatter", Grid::over(count), &arguments)
}

/// The type in which sums are accumulated.
pub(super) fn accumulator_dtype(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::Bf16) { DType::F32 } else { dtype }
}

/// The bytes of scratch memory for sums and addends, in a type that is more precise than half precision.
fn accumulator_workspace(sum: &TensorMeta, addend: &TensorMeta) -> usize {
    let wide = |meta: &TensorMeta| meta.with_dtype(accumulator_dtype(meta.dtype()));
    copies_workspace(&[wide(sum), wide(addend)])
}

/// Adds the elements of `x` to the input at indices along an axis.
fn scatter_add(
    base: &DeviceTensor<'_>,
    x: &DeviceTensor<'_>,
    index: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    axis: usize,
    wraps: bool,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let wide = accumulator_dtype(y.dtype());
    if wide == y.dtype() {
        copy(base, y, context)?;
        return scatter(Reduction::Add, x, index, y, axis, wraps, context);
    }
    let (sum, source) = (context.scratch(wide, *y.shape())?, context.scratch(wide, *x.shape())?);
    copy_as(base, &sum, context)?;
    copy_as(x, &source, context)?;
    scatter(Reduction::Add, &source, index, &sum, axis, wraps, context)?;
    copy_as(&sum, y, context)
}

impl CudaLayer for ScatterAdd {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        inputs.get(self.src.0).map_or(0, |src| accumulator_workspace(&inputs[0], src))
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (base, y) = (with_axis(&io.inputs[0])?, with_axis(&io.outputs[0])?);
        let (src, index) =
            (with_axis(&input(io.inputs, self.src.0)?)?, with_axis(&input(io.inputs, self.index.0)?)?);
        let axis = y.shape().axis(self.dim)?;
        if index.num_elements() == 0 {
            return copy(&base, &y, io.context);
        }
        scatter_add(&base, &src, &index, &y, axis, false, io.context)
    }
}

/// A number of the file, or an input with one element, in scratch memory.
pub(super) fn scalar_tensor<'a>(
    factor: TensorOrScalar,
    inputs: &[DeviceTensor<'_>],
    dtype: DType,
    context: &mut CudaContext<'a>,
) -> Result<DeviceTensor<'a>> {
    let to = context.scratch(dtype, shape(&[1])?)?;
    write_operand(factor, inputs, &to, context)?;
    Ok(to)
}

/// Returns true if there is a kernel that writes this scalar.
pub(super) fn has_scalar_kernel(factor: TensorOrScalar, dtype: DType) -> bool {
    compute_type(dtype).is_some() && !matches!(factor, TensorOrScalar::Number(Scalar::Complex(_)))
}

impl CudaLayer for Scatter {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_or_index(self.index.0, position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        match self.src {
            _ if self.reduce.is_some() => Err(no_kernel()),
            TensorOrScalar::Input(position) if inputs.get(position).is_some_and(|src| src.rank() > 0) => {
                Ok(())
            }
            src if has_scalar_kernel(src, outputs[0].dtype()) => Ok(()),
            _ => Err(no_kernel()),
        }
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        scratch_bytes(inputs[0].dtype(), 1)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        copy(&io.inputs[0], &io.outputs[0], io.context)?;
        let (y, index) = (with_axis(&io.outputs[0])?, with_axis(&input(io.inputs, self.index.0)?)?);
        if index.num_elements() == 0 {
            return Ok(());
        }
        let axis = y.shape().axis(self.dim)?;
        let src = match self.src {
            TensorOrScalar::Input(position) if !input(io.inputs, position)?.shape().is_empty() => {
                input(io.inputs, position)?
            }
            src => scalar_tensor(src, io.inputs, y.dtype(), io.context)?.expand(index.shape())?,
        };
        scatter(Reduction::None, &src, &index, &y, axis, false, io.context)
    }
}

impl CudaLayer for IndexCopy {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_or_index(self.index.0, position, formats)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let source = input(io.inputs, self.source.0)?;
        if io.outputs[0].shape().is_empty() {
            return copy(&source, &io.outputs[0], io.context);
        }
        copy(&io.inputs[0], &io.outputs[0], io.context)?;
        let axis = io.outputs[0].shape().axis(self.dim)?;
        let index = broadcast_index(&input(io.inputs, self.index.0)?, axis, source.shape())?;
        scatter(Reduction::None, &source, &index, &io.outputs[0], axis, false, io.context)
    }
}

fn select_scatter(layer: &SelectScatter, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let y = &io.outputs[0];
    copy(&io.inputs[0], y, io.context)?;
    let axis = y.shape().axis(layer.dim)?;
    let index = resolve_index(layer.index, y.shape().get(axis).copied().unwrap_or(1))?;
    copy(&input(io.inputs, layer.src.0)?, &y.select(axis, index)?, io.context)
}

/// The shape of the slices of a tensor at a vector of indices of one axis, and the indices, broadcast to it.
fn slices<'a>(
    y: &DeviceTensor<'_>,
    axis: usize,
    index: &DeviceTensor<'a>,
) -> Result<(Vec<usize>, DeviceTensor<'a>)> {
    let mut dims = y.shape().to_vec();
    dims.get_mut(axis).into_iter().for_each(|dim| *dim = index.num_elements());
    let index = broadcast_index(index, axis, &dims)?;
    Ok((dims, index))
}

impl CudaLayer for IndexFill {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let is_vector = inputs.get(self.index.0).is_some_and(|index| index.rank() <= 1);
        let is_supported =
            is_vector && outputs[0].rank() > 0 && has_scalar_kernel(self.value, outputs[0].dtype());
        if is_supported { Ok(()) } else { Err(no_kernel()) }
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        scratch_bytes(inputs[0].dtype(), 1)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let y = &io.outputs[0];
        copy(&io.inputs[0], y, io.context)?;
        let axis = resolve_axis(self.dim, y.shape().len())?;
        let (dims, index) = slices(y, axis, &input(io.inputs, self.index.0)?)?;
        let value = scalar_tensor(self.value, io.inputs, y.dtype(), io.context)?.expand(&dims)?;
        scatter(Reduction::None, &value, &index, y, axis, true, io.context)
    }
}

impl CudaLayer for IndexAdd {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let is_vector = inputs.get(self.index.0).is_some_and(|index| index.rank() <= 1);
        let is_supported = is_vector && outputs[0].rank() > 0 && self.alpha == Scalar::Int(1);
        if is_supported { Ok(()) } else { Err(no_kernel()) }
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        // Repeated indices may make the addends larger than the sums; both are broadcast.
        let [y, index] = [inputs.first(), inputs.get(self.index.0)];
        let (Some(y), Some(index)) = (y, index) else { return 0 };
        let mut dims = y.dims().to_vec();
        let axis = resolve_axis(self.dim, dims.len()).unwrap_or(0);
        dims.get_mut(axis).into_iter().for_each(|dim| *dim = index.num_elements());
        accumulator_workspace(y, &y.with_dims(dims))
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let y = &io.outputs[0];
        let axis = resolve_axis(self.dim, y.shape().len())?;
        let (dims, index) = slices(y, axis, &input(io.inputs, self.index.0)?)?;
        let source = input(io.inputs, self.source.0)?.expand(&dims)?;
        scatter_add(&io.inputs[0], &source, &index, y, axis, true, io.context)
    }
}
