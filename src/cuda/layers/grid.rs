//! Sampling grids of affine transforms, grid sampling, and `Unfold` and `Fold`.

use super::prelude::*;
use super::support::{input, int, is_any_dtype, is_float, kernel_shape, shape, strides, typed};
use super::windows::{lengths, with_three_axes};
use crate::kernels::window::Window;
use crate::ops::pooling::{Fold, Unfold};
use crate::ops::support::arguments::ParamOrInput;
use crate::ops::vision::grid::{AffineGrid, GridSample, Mode, Padding};

/// The layers of this file.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<GridSample>::new(is_float, grid_sample),
    &Own::<AffineGrid>::ENTRY,
    &Simple::<Unfold>::new(is_folded, |layer, io| fold_or_unfold("unfold", layer.windows()?, io)),
    &Simple::<Fold>::new(is_folded, |layer, io| fold_or_unfold("fold", layer.windows()?, io)),
];

fn grid_sample(layer: &GridSample, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (grid, axes) = (input(io.inputs, layer.grid.0)?, io.inputs[0].shape().len().saturating_sub(2));
    let x = with_three_axes(&io.inputs[0], axes, 2)?;
    let y = with_three_axes(&io.outputs[0], axes, 2)?;
    // The strides of N, of three spatial axes, and of the coordinates.
    let mut of_grid = KernelStrides::default();
    for (axis, &by) in grid.layout().strides().iter().enumerate() {
        let slot = if axis == 0 { 0 } else { axis + 3 - axes };
        of_grid.by.get_mut(slot).into_iter().for_each(|to| *to = by as i64);
    }
    let unit = typed(Unit::new("grid.cu", include_str!("../kernels/grid.cu")), x.dtype())?
        .define("AXES", axes)
        .define("ALIGNED", u8::from(layer.align_corners.unwrap_or(false)))
        .define(
            "MODE",
            match layer.mode {
                Mode::Bilinear => "LINEAR",
                Mode::Nearest => "NEAREST",
                Mode::Bicubic => "CUBIC",
            },
        )
        .define(
            "PADDING",
            match layer.padding_mode {
                Padding::Zeros => "ZEROS",
                Padding::Border => "BORDER",
                Padding::Reflection => "REFLECTION",
            },
        );
    let arguments = [
        Argument::Read(x),
        Argument::Strides(strides(x.layout())),
        Argument::Read(grid),
        Argument::Strides(of_grid),
        Argument::Write(y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(lengths(&y, &[0, 1, 2, 3, 4])?),
        Argument::Shape(lengths(&x, &[2, 3, 4])?),
        Argument::Long(y.num_elements() as i64),
    ];
    io.context.run(&unit, "grid_sample", Grid::over(y.num_elements()), &arguments)
}

impl CudaLayer for AffineGrid {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let is_size = position == 1 && matches!(self.size, ParamOrInput::Input(_));
        if is_size { is_any_dtype(position, formats) } else { is_float(position, formats) }
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (theta, y) = (&io.inputs[0], &io.outputs[0]);
        let unit = Unit::new("affine_grid.cu", include_str!("../kernels/affine_grid.cu"));
        let unit = typed(unit, y.dtype())?.define("ALIGNED", u8::from(self.align_corners.unwrap_or(false)));
        let arguments = [
            Argument::Read(*theta),
            Argument::Strides(strides(theta.layout())),
            Argument::Write(*y),
            Argument::Strides(strides(y.layout())),
            Argument::Shape(kernel_shape(y.shape())),
            Argument::Long(y.num_elements() as i64),
        ];
        io.context.run(&unit, "affine_grid", Grid::over(y.num_elements()), &arguments)
    }
}

/// Unfolds images into columns, or folds columns into images.
fn fold_or_unfold(kernel: &str, windows: [Window; 2], io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
    let is_fold = kernel == "fold";
    let with_batch = |tensor: &DeviceTensor<'_>, rank: usize| -> Result<Layout> {
        Ok(if tensor.shape().len() < rank { tensor.layout().unsqueeze(0)? } else { *tensor.layout() })
    };
    let (image, columns) = if is_fold { (y, x) } else { (x, y) };
    let (image, columns) = (with_batch(image, 4)?, with_batch(columns, 3)?);
    let mut window = KernelShape { rank: 8, ..KernelShape::default() };
    let mut positions = KernelShape { rank: 2, ..KernelShape::default() };
    for (axis, of_axis) in windows.iter().enumerate() {
        let values = [of_axis.kernel, of_axis.stride, of_axis.pad_before, of_axis.dilation];
        for (at, value) in values.into_iter().enumerate() {
            window.dims[2 * at + axis] = int(value)?;
        }
        let len = image.shape().get(2 + axis).copied().unwrap_or(0);
        positions.dims[axis] = int(of_axis.positions(len))?;
    }
    let unit = typed(Unit::new("folding.cu", include_str!("../kernels/folding.cu")), y.dtype())?;
    let [from, to] = if is_fold { [&columns, &image] } else { [&image, &columns] };
    let arguments = [
        Argument::Read(*x),
        Argument::Strides(strides(from)),
        Argument::Write(*y),
        Argument::Strides(strides(to)),
        Argument::Shape(kernel_shape(&shape(image.shape().dims())?)),
        Argument::Shape(window),
        Argument::Shape(positions),
        Argument::Long(y.num_elements() as i64),
    ];
    io.context.run(&unit, kernel, Grid::over(y.num_elements()), &arguments)
}

/// Returns true for floats, and for the sizes if they are an input.
fn is_folded(position: usize, formats: &[TensorFormat]) -> bool {
    let is_size = position == 1 && formats.len() > 2;
    if is_size { is_any_dtype(position, formats) } else { is_float(position, formats) }
}
