//! Spatial transformers: affine grids, and images sampled at a grid.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::choices::choices;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::naive::{GridMode, GridPadding, Sampling};
use ixion_kernels::{Float, grid};
use ixion_tensor::{Dim, Limits, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.affine_grid`: a sampling grid of affine maps; N×2×3 matrices give an N×H×W×2 grid for N×C×H×W
    /// images, N×3×4 matrices an N×D×H×W×3 grid for N×C×D×H×W volumes. Coordinates are x, y, z, from −1 to 1.
    pub struct AffineGrid for "F.affine_grid" {
        /// The shape of the output images, N×C×H×W or N×C×D×H×W.
        size: ParamOrInput<Vec<i64>>,
        /// Whether −1 and 1 are the centres of the corner elements, instead of their outer edges.
        align_corners: Option<bool> = None,
    }
}

choices! {
    /// An interpolation algorithm, which TorchScript writes as a number.
    pub enum Mode {
        /// Linear interpolation of two elements along each axis; `linear` in ONNX.
        Bilinear = "bilinear" | "linear" | "0",
        /// The nearest element; ties go to the even index.
        Nearest = "nearest" | "1",
        /// Cubic interpolation of four elements along each axis, for N×C×H×W inputs.
        Bicubic = "bicubic" | "cubic" | "2",
    }
}

choices! {
    /// The values of samples outside an image, which TorchScript writes as a number.
    pub enum Padding {
        /// Zeros.
        Zeros = "zeros" | "0",
        /// The nearest border element.
        Border = "border" | "1",
        /// The image reflected at its borders.
        Reflection = "reflection" | "2",
    }
}

crate::operator! {
    /// `torch.nn.functional.grid_sample`: samples an N×C×H×W input at the positions of an N×h×w×2 grid, giving N×C×h×w, or
    /// an N×C×D×H×W input at those of an N×d×h×w×3 grid. Coordinates are x, y, z, from −1 to 1; infinite ones and NaN give
    /// the results of PyTorch.
    pub struct GridSample for "F.grid_sample", "aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d" {
        /// The sample positions.
        grid: InputIndex,
        /// The interpolation algorithm.
        mode: Mode = Mode::Bilinear,
        /// The values of samples outside the input.
        padding_mode: Padding = Padding::Zeros,
        /// Whether −1 and 1 are the centres of the corner elements, instead of their outer edges.
        align_corners: Option<bool> = None,
    }
}

impl Layer for AffineGrid {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let theta = &inputs[0];
        float::check("the input", theta)?;
        let size = self.size.dims(inputs)?;
        let axes = size.len().saturating_sub(2);
        if !(2..=3).contains(&axes) || size.iter().any(|len| len.fixed().is_some_and(|len| len < 1)) {
            let reason = "expected 4 or 5 lengths, each at least 1".to_owned();
            return Err(LayerError::InvalidParameter { key: "size", found: format!("{size:?}"), reason });
        }
        let matrix = [Dim::from(axes), Dim::from(axes + 1)];
        match theta.dims() {
            [batch, map @ ..]
                if theta.with_dims(map.to_vec()).may_have_dims(&matrix) && !batch.differs(&size[0]) =>
            {
                let lens = size[2..].iter().cloned();
                let dims = [size[0].clone()].into_iter().chain(lens).chain([Dim::from(axes)]);
                Ok(vec![theta.with_dims(dims)])
            }
            _ => {
                let wanted = format!("{}×{axes}×{}", size[0], axes + 1);
                Err(LayerError::shape("the affine maps", wanted, theta))
            }
        }
    }
}

impl AffineGrid {
    fn run<T: Float>(
        &self,
        theta: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (theta, shape) = (float::read::<T>(theta)?, *output.shape());
        let lens = &shape[1..shape.rank() - 1];
        let (map, places) = (lens.len() * (lens.len() + 1), lens.iter().product::<usize>() * lens.len());
        float::write::<T>(output, |output| {
            for (theta, output) in theta.chunks_exact(map).zip(output.chunks_exact_mut(places.max(1))) {
                grid::affine_grid(theta, lens, self.align_corners.unwrap_or(false), output, limits)?;
            }
            Ok(())
        })
    }
}

impl CpuLayer for AffineGrid {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(&io.inputs[0], &mut io.outputs[0], io.context.limits()))
    }
}

impl Layer for GridSample {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, grid) = (&inputs[0], &inputs[self.grid.0]);
        float::check("the input", input)?;
        if grid.dtype() != input.dtype() {
            return Err(LayerError::dtype("the grid", input.dtype(), grid.dtype()));
        }
        let axes = input.rank().saturating_sub(2);
        let most = if self.mode == Mode::Bicubic { 2 } else { 3 };
        if !(2..=most).contains(&axes) || input.dims()[2..].iter().any(|len| *len == 0usize) {
            let wanted = if most == 2 { "N×C×H×W" } else { "N×C×H×W or N×C×D×H×W" };
            return Err(LayerError::shape("the input", format!("{wanted}, with elements"), input));
        }
        match grid.dims() {
            [batch, lens @ .., last]
                if lens.len() == axes
                    && !batch.differs(&input.dims()[0])
                    && !last.differs(&Dim::from(axes)) =>
            {
                Ok(vec![input.with_dims(input.dims()[..2].iter().chain(lens).cloned())])
            }
            _ => {
                let wanted =
                    format!("a batch of {}, {axes} spatial axes and {axes} coordinates", input.dims()[0]);
                Err(LayerError::shape("the grid", wanted, grid))
            }
        }
    }
}

impl GridSample {
    fn sampling(&self, axes: usize) -> Sampling {
        Sampling {
            mode: match self.mode {
                Mode::Bilinear => GridMode::Linear,
                Mode::Nearest => GridMode::Nearest,
                Mode::Bicubic => GridMode::Cubic,
            },
            padding: match self.padding_mode {
                Padding::Zeros => GridPadding::Zeros,
                Padding::Border => GridPadding::Border,
                Padding::Reflection => GridPadding::Reflection,
            },
            align_corners: self.align_corners.unwrap_or(false),
            is_volume: axes == 3,
        }
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (shape, places) =
            (*inputs[0].shape(), inputs[self.grid.0].shape()[1..].iter().product::<usize>());
        let (sample, lens) = (shape[1..].iter().product::<usize>(), &shape[2..]);
        let sampling = self.sampling(lens.len());
        let (input, grid) = (float::read::<T>(&inputs[0])?, float::read::<T>(&inputs[self.grid.0])?);
        let out_sample = shape[1] * (places / lens.len());
        float::write::<T>(output, |output| {
            let samples = input.chunks_exact(sample.max(1)).zip(grid.chunks_exact(places.max(1)));
            for ((input, grid), output) in samples.zip(output.chunks_exact_mut(out_sample.max(1))) {
                grid::grid_sample(&sampling, lens, input, grid, output, limits)?;
            }
            Ok(())
        })
    }
}

impl CpuLayer for GridSample {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

operators! { AffineGrid, GridSample }

#[cfg(test)]
mod tests;
