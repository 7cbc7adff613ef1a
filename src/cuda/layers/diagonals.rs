//! Triangles and diagonals of matrices.

use super::copy::{copy, element};
use super::epilogue::kernel_shape;
use super::kernel_builder::{KernelBuilder, no_kernel};
use super::product::metas;
use super::scattering::has_scalar_kernel;
use super::support::{input, is_any_dtype, is_real, shape, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::layout::diagonals::{DiagEmbed, DiagonalScatter, FillDiagonal, Place, Tril, Triu};
use crate::ops::matmul::matrices::Diag;
use crate::tensor::Layout;

fn unit(tensor: &DeviceTensor<'_>, is_upper: bool) -> Unit {
    let unit = Unit::new("triangle.cu", include_str!("../kernels/triangle.cu"));
    unit.define("T", element(tensor.dtype())).define("UPPER", i32::from(is_upper))
}

/// Writes one triangle of each matrix.
fn triangle(
    diagonal: i64,
    is_upper: bool,
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let kernel = context.kernel(&unit(y, is_upper), "triangle")?;
    let mut last = y.shape().iter().rev().map(|&len| len as i64);
    let (columns, rows) = (last.next().unwrap_or(1), last.next().unwrap_or(1));
    let arguments = [
        Argument::Read(*x),
        Argument::Strides(strides(x.layout())),
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Long(diagonal),
        Argument::Long(rows),
        Argument::Long(columns),
        Argument::Long(y.num_elements() as i64),
    ];
    context.launch(&kernel, Grid::over(y.num_elements()), &arguments)
}

/// Writes zeros.
fn fill_zeros(y: &DeviceTensor<'_>, context: &mut CudaContext<'_>) -> Result<(), LayerError> {
    let kernel = context.kernel(&unit(y, false), "zero_fill")?;
    let arguments = [
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Long(y.num_elements() as i64),
    ];
    context.launch(&kernel, Grid::over(y.num_elements()), &arguments)
}

/// Implements a layer of tensors of any type.
macro_rules! diagonals {
    ($($layer:ident |$this:ident, $inputs:ident, $y:ident, $context:ident| $run:expr;)*) => {
        $(
            impl CudaLayer for $layer {
                fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                    is_any_dtype(position, formats)
                }

                fn forward(
                    &mut self,
                    $inputs: &[DeviceTensor<'_>],
                    outputs: &[DeviceTensor<'_>],
                    $context: &mut CudaContext<'_>,
                ) -> Result<(), LayerError> {
                    let ($this, $y) = (&*self, &outputs[0]);
                    $run
                }
            }
        )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
            layers.register::<FillDiagonal>();
        }
    };
}

diagonals! {
    Tril |layer, inputs, y, context| triangle(layer.diagonal, false, &inputs[0], y, context);
    Triu |layer, inputs, y, context| triangle(layer.diagonal, true, &inputs[0], y, context);
    DiagEmbed |layer, inputs, y, context| {
        let place = Place::new(layer.offset, layer.dim1, layer.dim2, y.shape().len())?;
        fill_zeros(y, context)?;
        copy(&inputs[0], &y.with_layout(place.layout(y.layout())?)?, context)
    };
    DiagonalScatter |layer, inputs, y, context| {
        let place = Place::new(layer.offset, layer.dim1, layer.dim2, y.shape().len())?;
        copy(&inputs[0], y, context)?;
        copy(&input(inputs, layer.src.0)?, &y.with_layout(place.layout(y.layout())?)?, context)
    };
    Diag |layer, inputs, y, context| {
        let (x, place) = (&inputs[0], Place::new(layer.diagonal, 0, 1, 2)?);
        if x.shape().len() == 2 {
            return copy(&x.with_layout(place.layout(x.layout())?)?, y, context);
        }
        fill_zeros(y, context)?;
        copy(x, &y.with_layout(place.layout(y.layout())?)?, context)
    };
}

/// With `wrap`, the diagonal starts again below the end of a tall matrix: this case runs on the CPU.
impl CudaLayer for FillDiagonal {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats)
    }

    fn configure(&mut self, _: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        let is_unsupported = self.wrap && outputs[0].rank() == 2;
        if !is_unsupported && has_scalar_kernel(self.fill_value, outputs[0].dtype()) {
            Ok(())
        } else {
            Err(no_kernel())
        }
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let y = &outputs[0];
        copy(&inputs[0], y, context)?;
        let len = y.shape().iter().min().copied().unwrap_or(0);
        let stride = y.layout().strides().iter().copied().fold(0, usize::saturating_add);
        let diagonal = Layout::strided(shape(&[len])?, &[stride], y.layout().offset())?;
        let metas = metas(inputs);
        let mut kernel = KernelBuilder::new(&metas);
        let value = kernel.operand(self.fill_value, y.dtype()).ok_or_else(no_kernel)?;
        let map = kernel.map(y.dtype(), &value).ok_or_else(no_kernel)?;
        map.run(inputs, &y.with_layout(diagonal)?, context)
    }
}
