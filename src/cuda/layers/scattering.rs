//! Elements written or added at indices.

use super::codegen::compute_type;
use super::copy::{copy, element};
use super::epilogue::kernel_shape;
use super::indexing::{broadcast_index, copies_workspace, is_index, unit_of, with_axis, with_broadcast_axis};
use super::kernel_builder::{KernelBuilder, no_kernel};
use super::movement::copy_as;
use super::product::metas;
use super::support::{input, int, is_any_dtype, is_real, shape, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, Unit};
use crate::cuda::layer::scratch_bytes;
use crate::cuda::{CudaContext, CudaLayer, CudaLayers, is_plain};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::indexing::advanced::{IndexAdd, IndexFill};
use crate::ops::indexing::by_index::ScatterAdd;
use crate::ops::indexing::scattering::{IndexCopy, Scatter, SelectScatter};
use crate::ops::support::broadcast::TensorOrScalar;
use crate::tensor::{DType, Scalar, resolve_axis, resolve_index};

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
) -> Result<(), LayerError> {
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
    let kernel = context.kernel(&unit, "scatter")?;
    let outer = with_broadcast_axis(index.layout(), axis, 1)?;
    let stride =
        |tensor: &DeviceTensor<'_>| tensor.layout().strides().get(axis).map_or(0, |&stride| stride as i64);
    let along = |tensor: &DeviceTensor<'_>| -> Result<Argument<'static>, LayerError> {
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
    context.launch(&kernel, Grid::over(count), &arguments)
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
) -> Result<(), LayerError> {
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

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (base, y) = (with_axis(&inputs[0])?, with_axis(&outputs[0])?);
        let (src, index) =
            (with_axis(&input(inputs, self.src.0)?)?, with_axis(&input(inputs, self.index.0)?)?);
        let axis = y.shape().axis(self.dim)?;
        if index.num_elements() == 0 {
            return copy(&base, &y, context);
        }
        scatter_add(&base, &src, &index, &y, axis, false, context)
    }
}

/// A number of the file, or an input with one element, in scratch memory.
pub(super) fn scalar_tensor<'a>(
    factor: TensorOrScalar,
    inputs: &[DeviceTensor<'_>],
    dtype: DType,
    context: &mut CudaContext<'a>,
) -> Result<DeviceTensor<'a>, LayerError> {
    let to = context.scratch(dtype, shape(&[1])?)?;
    let metas = metas(inputs);
    let mut kernel = KernelBuilder::new(&metas);
    let value = kernel.operand(factor, dtype).ok_or_else(no_kernel)?;
    let map = kernel.map(dtype, &value).ok_or_else(no_kernel)?;
    map.run(inputs, &to, context)?;
    Ok(to)
}

/// Returns true if there is a kernel that writes this scalar.
pub(super) fn has_scalar_kernel(factor: TensorOrScalar, dtype: DType) -> bool {
    compute_type(dtype).is_some() && !matches!(factor, TensorOrScalar::Number(Scalar::Complex(_)))
}

impl CudaLayer for Scatter {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let is_plain = formats.get(position).is_some_and(is_plain);
        is_plain && (position != self.index.0 || is_index(position, formats))
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        match self.src {
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

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        copy(&inputs[0], &outputs[0], context)?;
        let (y, index) = (with_axis(&outputs[0])?, with_axis(&input(inputs, self.index.0)?)?);
        if index.num_elements() == 0 {
            return Ok(());
        }
        let axis = y.shape().axis(self.dim)?;
        let src = match self.src {
            TensorOrScalar::Input(position) if !input(inputs, position)?.shape().is_empty() => {
                input(inputs, position)?
            }
            src => {
                let scalar = scalar_tensor(src, inputs, y.dtype(), context)?;
                scalar.with_layout(scalar.layout().expand(index.shape())?)?
            }
        };
        scatter(Reduction::None, &src, &index, &y, axis, false, context)
    }
}

impl CudaLayer for IndexCopy {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let source = input(inputs, self.source.0)?;
        if outputs[0].shape().is_empty() {
            return copy(&source, &outputs[0], context);
        }
        copy(&inputs[0], &outputs[0], context)?;
        let axis = outputs[0].shape().axis(self.dim)?;
        let index = broadcast_index(&input(inputs, self.index.0)?, axis, source.shape().len())?;
        let index = index.with_layout(index.layout().expand(source.shape())?)?;
        scatter(Reduction::None, &source, &index, &outputs[0], axis, false, context)
    }
}

impl CudaLayer for SelectScatter {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats)
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let y = &outputs[0];
        copy(&inputs[0], y, context)?;
        let axis = y.shape().axis(self.dim)?;
        let index = resolve_index(self.index, y.shape().get(axis).copied().unwrap_or(1))?;
        copy(&input(inputs, self.src.0)?, &y.with_layout(y.layout().select(axis, index)?)?, context)
    }
}

/// The shape of the slices of a tensor at a vector of indices of one axis.
fn slice_dims(y: &DeviceTensor<'_>, axis: usize, index_len: usize) -> Vec<usize> {
    let mut dims = y.shape().to_vec();
    dims.get_mut(axis).into_iter().for_each(|dim| *dim = index_len);
    dims
}

impl CudaLayer for IndexFill {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        let is_vector = inputs.get(self.index.0).is_some_and(|index| index.rank() <= 1);
        let is_supported =
            is_vector && outputs[0].rank() > 0 && has_scalar_kernel(self.value, outputs[0].dtype());
        if is_supported { Ok(()) } else { Err(no_kernel()) }
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        scratch_bytes(inputs[0].dtype(), 1)
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let y = &outputs[0];
        copy(&inputs[0], y, context)?;
        let (axis, index) = (resolve_axis(self.dim, y.shape().len())?, input(inputs, self.index.0)?);
        let dims = slice_dims(y, axis, index.num_elements());
        let index = broadcast_index(&index, axis, dims.len())?;
        let index = index.with_layout(index.layout().expand(&dims)?)?;
        let value = scalar_tensor(self.value, inputs, y.dtype(), context)?;
        let value = value.with_layout(value.layout().expand(&dims)?)?;
        scatter(Reduction::None, &value, &index, y, axis, true, context)
    }
}

impl CudaLayer for IndexAdd {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats) && (position != self.index.0 || is_index(position, formats))
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
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

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let y = &outputs[0];
        let (axis, index) = (resolve_axis(self.dim, y.shape().len())?, input(inputs, self.index.0)?);
        let dims = slice_dims(y, axis, index.num_elements());
        let index = broadcast_index(&index, axis, dims.len())?;
        let index = index.with_layout(index.layout().expand(&dims)?)?;
        let source = input(inputs, self.source.0)?;
        let source = source.with_layout(source.layout().expand(&dims)?)?;
        scatter_add(&inputs[0], &source, &index, y, axis, true, context)
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<Scatter>();
    layers.register::<ScatterAdd>();
    layers.register::<IndexCopy>();
    layers.register::<SelectScatter>();
    layers.register::<IndexFill>();
    layers.register::<IndexAdd>();
}
