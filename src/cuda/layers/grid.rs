//! Sampling grids of affine transforms, grid sampling, and `Unfold` and `Fold`.

use super::convolution::{lengths, with_three_axes};
use super::epilogue::kernel_shape;
use super::support::{computed_in, input, int, is_any_dtype, is_float, shape, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, KernelStrides, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::kernels::window::Window;
use crate::op::{LayerError, TensorFormat};
use crate::ops::pooling::{Fold, Unfold};
use crate::ops::vision::grid::{AffineGrid, GridSample, Mode, Padding};
use crate::tensor::Layout;

impl CudaLayer for GridSample {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_float(position, formats)
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (grid, axes) = (input(inputs, self.grid.0)?, inputs[0].shape().len().saturating_sub(2));
        let x = with_three_axes(&inputs[0], axes, 2)?;
        let y = with_three_axes(&outputs[0], axes, 2)?;
        // The strides of N, of three spatial axes, and of the coordinates.
        let mut of_grid = KernelStrides::default();
        for (axis, &by) in grid.layout().strides().iter().enumerate() {
            let slot = if axis == 0 { 0 } else { axis + 3 - axes };
            of_grid.by.get_mut(slot).into_iter().for_each(|to| *to = by as i64);
        }
        let unit = Unit::new("grid.cu", include_str!("../kernels/grid.cu"))
            .define("T", x.dtype().name())
            .define("C", computed_in(x.dtype())?)
            .define("AXES", axes)
            .define("ALIGNED", u8::from(self.align_corners.unwrap_or(false)))
            .define(
                "MODE",
                match self.mode {
                    Mode::Bilinear => "LINEAR",
                    Mode::Nearest => "NEAREST",
                    Mode::Bicubic => "CUBIC",
                },
            )
            .define(
                "PADDING",
                match self.padding_mode {
                    Padding::Zeros => "ZEROS",
                    Padding::Border => "BORDER",
                    Padding::Reflection => "REFLECTION",
                },
            );
        let kernel = context.kernel(&unit, "grid_sample")?;
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
        context.launch(&kernel, Grid::over(y.num_elements()), &arguments)
    }
}

impl CudaLayer for AffineGrid {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let is_size = position == 1 && self.size.num_inputs() > 0;
        if is_size { is_any_dtype(position, formats) } else { is_float(position, formats) }
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (theta, y) = (&inputs[0], &outputs[0]);
        let unit = Unit::new("affine_grid.cu", include_str!("../kernels/affine_grid.cu"))
            .define("T", y.dtype().name())
            .define("C", computed_in(y.dtype())?)
            .define("ALIGNED", u8::from(self.align_corners.unwrap_or(false)));
        let kernel = context.kernel(&unit, "affine_grid")?;
        let arguments = [
            Argument::Read(*theta),
            Argument::Strides(strides(theta.layout())),
            Argument::Write(*y),
            Argument::Strides(strides(y.layout())),
            Argument::Shape(kernel_shape(y.shape())),
            Argument::Long(y.num_elements() as i64),
        ];
        context.launch(&kernel, Grid::over(y.num_elements()), &arguments)
    }
}

/// Unfolds images into columns, or folds columns into images.
fn fold_or_unfold(
    kernel: &str,
    windows: [Window; 2],
    [x, y]: [&DeviceTensor<'_>; 2],
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let is_fold = kernel == "fold";
    let with_batch = |tensor: &DeviceTensor<'_>, rank: usize| -> Result<Layout, LayerError> {
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
    let unit = Unit::new("folding.cu", include_str!("../kernels/folding.cu"))
        .define("T", y.dtype().name())
        .define("C", computed_in(y.dtype())?);
    let kernel = context.kernel(&unit, kernel)?;
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
    context.launch(&kernel, Grid::over(y.num_elements()), &arguments)
}

macro_rules! folding {
    ($($layer:ident is $kernel:literal),*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                if position == 1 && formats.len() > 2 { is_any_dtype(position, formats) } else { is_float(position, formats) }
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                fold_or_unfold($kernel, self.windows()?, [&inputs[0], &outputs[0]], context)
            }
        }
    )*};
}

folding!(Unfold is "unfold", Fold is "fold");

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<GridSample>();
    layers.register::<AffineGrid>();
    layers.register::<Unfold>();
    layers.register::<Fold>();
}
