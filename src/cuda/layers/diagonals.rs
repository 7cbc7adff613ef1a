//! Triangles and diagonals of matrices.

use super::codegen::element;
use super::copy::copy;
use super::kernel_builder::{no_kernel, write_operand};
use super::prelude::*;
use super::scattering::has_scalar_kernel;
use super::support::{input, is_any_dtype, is_real, kernel_shape, strides};
use crate::ops::layout::diagonals::{DiagEmbed, DiagonalScatter, FillDiagonal, Place, Tril, Triu};
use crate::ops::matmul::matrices::Diag;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<Tril>::new(is_any_dtype, |layer, io| triangle(layer.diagonal, false, io)),
    &Simple::<Triu>::new(is_any_dtype, |layer, io| triangle(layer.diagonal, true, io)),
    &Simple::<DiagEmbed>::new(is_any_dtype, |layer, io| {
        let y = &io.outputs[0];
        let place = Place::new(layer.offset, layer.dim1, layer.dim2, y.shape().len())?;
        fill_zeros(y, io.context)?;
        copy(&io.inputs[0], &y.with_layout(place.layout(y.layout())?)?, io.context)
    }),
    &Simple::<DiagonalScatter>::new(is_any_dtype, |layer, io| {
        let y = &io.outputs[0];
        let place = Place::new(layer.offset, layer.dim1, layer.dim2, y.shape().len())?;
        copy(&io.inputs[0], y, io.context)?;
        copy(&input(io.inputs, layer.src.0)?, &y.with_layout(place.layout(y.layout())?)?, io.context)
    }),
    &Simple::<Diag>::new(is_any_dtype, diag),
    &Own::<FillDiagonal>::ENTRY,
];

fn unit(tensor: &DeviceTensor<'_>, is_upper: bool) -> Unit {
    let unit = Unit::new("triangle.cu", include_str!("../kernels/triangle.cu"));
    unit.define("T", element(tensor.dtype())).define("UPPER", i32::from(is_upper))
}

/// Writes one triangle of each matrix.
fn triangle(diagonal: i64, is_upper: bool, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
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
    io.context.run(&unit(y, is_upper), "triangle", Grid::over(y.num_elements()), &arguments)
}

/// Writes zeros.
fn fill_zeros(y: &DeviceTensor<'_>, context: &mut CudaContext<'_>) -> Result<()> {
    let arguments = [
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Long(y.num_elements() as i64),
    ];
    context.run(&unit(y, false), "zero_fill", Grid::over(y.num_elements()), &arguments)
}

/// Makes a matrix of its diagonal, or takes the diagonal of a matrix.
fn diag(layer: &Diag, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y, place) = (&io.inputs[0], &io.outputs[0], Place::new(layer.diagonal, 0, 1, 2)?);
    if x.shape().len() == 2 {
        return copy(&x.with_layout(place.layout(x.layout())?)?, y, io.context);
    }
    fill_zeros(y, io.context)?;
    copy(x, &y.with_layout(place.layout(y.layout())?)?, io.context)
}

/// With `wrap`, the diagonal starts again below the end of a tall matrix: this case runs on the CPU.
impl CudaLayer for FillDiagonal {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats)
    }

    fn configure(&mut self, _: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let is_unsupported = self.wrap && outputs[0].rank() == 2;
        if !is_unsupported && has_scalar_kernel(self.fill_value, outputs[0].dtype()) {
            Ok(())
        } else {
            Err(no_kernel())
        }
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let y = &io.outputs[0];
        copy(&io.inputs[0], y, io.context)?;
        let len = y.shape().iter().min().copied().unwrap_or(0);
        let stride = y.layout().strides().iter().copied().fold(0, usize::saturating_add);
        write_operand(self.fill_value, io.inputs, &y.with_axes(&[len], &[stride])?, io.context)
    }
}
