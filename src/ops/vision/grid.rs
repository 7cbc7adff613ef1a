//! Spatial transformers: grids of affine maps, and pictures read at the places of a grid.

use crate::Limits;
use crate::kernels::naive::{GridMode, GridPadding, Sampling};
use crate::kernels::{Float, grid};
use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::ops::support::arguments::{Argument, Operand};
use crate::ops::support::choices::choices;
use crate::ops::support::float;
use crate::ops::support::float::with_float;
use crate::tensor::{Dim, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.affine_grid`: where affine maps N×2×3 send the elements of pictures N×C×H×W, as N×H×W×2; or
    /// maps N×3×4 those of N×C×D×H×W, as N×D×H×W×3. Coordinates are x, y, z, from −1 to 1.
    pub struct AffineGrid for "F.affine_grid" {
        /// The shape N×C×H×W or N×C×D×H×W of the pictures.
        size: Argument<Vec<i64>>,
        /// Whether −1 and 1 are the middles of the outermost elements, instead of their edges.
        align_corners: Option<bool> = None,
    }
}

choices! {
    /// How elements are mixed.
    pub enum Mode {
        /// Two elements along each axis; `linear` in ONNX.
        Bilinear = "bilinear" | "linear",
        /// The nearest element; of two that are as near, the one of even index.
        Nearest = "nearest",
        /// Four elements along each axis, of N×C×H×W.
        Bicubic = "bicubic" | "cubic",
    }
}

choices! {
    /// What lies outside of a picture.
    pub enum Padding {
        /// Zeros.
        Zeros = "zeros",
        /// The edge elements repeated.
        Border = "border",
        /// The picture mirrored at its edges.
        Reflection = "reflection",
    }
}

crate::operator! {
    /// `torch.nn.functional.grid_sample`: N×C×H×W read at the places of a grid N×h×w×2, as N×C×h×w; or N×C×D×H×W at those
    /// of N×d×h×w×3. Coordinates are x, y, z, from −1 to 1; those that are infinite or no number give what PyTorch gives.
    pub struct GridSample for "F.grid_sample" {
        /// The places.
        grid: Operand,
        /// How elements are mixed.
        mode: Mode = Mode::Bilinear,
        /// What lies outside of the picture.
        padding_mode: Padding = Padding::Zeros,
        /// Whether −1 and 1 are the middles of the outermost elements, instead of their edges.
        align_corners: Option<bool> = None,
    }
}

impl Layer for AffineGrid {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.size.num_inputs();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let theta = &inputs[0];
        float::check("the input", theta)?;
        let size = self.size.dims(inputs)?;
        let axes = size.len().saturating_sub(2);
        if !(2..=3).contains(&axes) || size.iter().any(|len| len.fixed().is_some_and(|len| len < 1)) {
            let reason = "4 or 5 lengths are needed, each at least 1".to_owned();
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
    ) -> Result<(), LayerError> {
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
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_float!(inputs[0].dtype(), T => self.run::<T>(&inputs[0], &mut outputs[0], context.limits()))
    }
}

impl Layer for GridSample {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (input, grid) = (&inputs[0], &inputs[self.grid.0]);
        float::check("the input", input)?;
        if grid.dtype() != input.dtype() {
            return Err(LayerError::dtype("the grid", input.dtype(), grid.dtype()));
        }
        let axes = input.rank().saturating_sub(2);
        let most = if self.mode == Mode::Bicubic { 2 } else { 3 };
        if !(2..=most).contains(&axes) || input.dims()[2..].iter().any(|len| *len == 0usize) {
            let wanted = if most == 2 { "N×C×H×W" } else { "N×C×H×W or N×C×D×H×W" };
            return Err(LayerError::shape("the input", format!("{wanted}, with elements,"), input));
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
                    format!("{} of {axes} axes of places, and {axes} coordinates each,", input.dims()[0]);
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
    ) -> Result<(), LayerError> {
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
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_float!(inputs[0].dtype(), T => self.run::<T>(inputs, &mut outputs[0], context.limits()))
    }
}

operators! { AffineGrid, GridSample }

#[cfg(test)]
mod tests;
