//! Resampling, one axis at a time.

use crate::op::{CpuLayer, ForwardContext, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::choices::choices;
use ixion_tensor::{DType, Dim, Tensor, TensorView};
use ndarray::{ArrayD, Axis, Slice};
use std::ops::RangeInclusive;

choices! {
    /// The mapping from output to input positions.
    pub enum CoordinateMode {
        /// Elements are sampled at their centres.
        HalfPixel = "half_pixel",
        /// As `half_pixel`, with the centres of both axes aligned if output lengths were rounded.
        Symmetric = "half_pixel_symmetric",
        /// As `half_pixel`, but an output axis of length 1 samples the first element.
        PyTorch = "pytorch_half_pixel",
        /// The outermost elements of input and output coincide.
        AlignedCorners = "align_corners",
        /// Elements are sampled at their starts: output position x maps to x / scale.
        Asymmetric = "asymmetric",
        /// As `half_pixel`, but half an element further: up to version 12.
        HalfFurther = "tf_half_pixel_for_nn",
        /// A region of the input, whose outermost elements coincide with those of the output.
        CropAndResize = "tf_crop_and_resize",
    }
}

choices! {
    /// The rounding of a position to the nearest element.
    pub enum Rounding {
        /// To the nearer element, ties to the lower index.
        PreferFloor = "round_prefer_floor",
        /// To the nearer element, ties to the higher index.
        PreferCeil = "round_prefer_ceil",
        /// To the lower index.
        Floor = "floor",
        /// To the higher index.
        Ceil = "ceil",
        /// To the lower index, or to the higher one on an axis that becomes shorter: before version 11.
        FloorOrCeil = "floor_or_ceil",
    }
}

/// The cubic convolution kernel of Keys (1981).
#[derive(Debug, Clone, Copy)]
pub(super) struct Cubic {
    /// Its coefficient.
    pub(super) a: f64,
}

impl Cubic {
    fn at(self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), self.a);
        match x {
            _ if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            _ if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            _ => 0.0,
        }
    }
}

/// The interpolation kernel.
#[derive(Debug, Clone, Copy)]
pub(super) enum Taps {
    /// The nearest element.
    Nearest(Rounding),
    /// The two elements around a position.
    Linear,
    /// The four elements around a position.
    Cubic(Cubic),
}

impl Taps {
    /// The radius of the kernel, in elements.
    fn reach(self) -> f64 {
        match self {
            Self::Nearest(_) | Self::Linear => 1.0,
            Self::Cubic(_) => 2.0,
        }
    }

    fn weight(self, distance: f64) -> f64 {
        match self {
            Self::Nearest(_) => 1.0,
            Self::Linear => (1.0 - distance.abs()).max(0.0),
            Self::Cubic(cubic) => cubic.at(distance),
        }
    }
}

/// Resamples axes of a tensor to other lengths. The second input, if there is one, gives the region of the first to
/// sample.
#[derive(Debug, Clone)]
pub(super) struct Resample {
    /// The axes, their output lengths, and their scales if given.
    pub(super) axes: Vec<(usize, Dim, Option<f64>)>,
    pub(super) coordinates: CoordinateMode,
    pub(super) taps: Taps,
    /// Whether the kernel widens as the output gets smaller than the input (antialiasing).
    pub(super) antialias: bool,
    /// Whether elements outside the input are excluded, instead of clamped to the edge.
    pub(super) exclude_outside: bool,
    /// The value of output positions that map outside the input, for regions.
    pub(super) outside: f64,
    /// The start of the region on each axis, then its end on each axis, as fractions of the axes.
    pub(super) roi: Option<Vec<f64>>,
}

/// The elements that contribute to one output position, each with its weight; empty if it maps outside the input.
type Weights = Vec<(usize, f64)>;

/// One axis to resample.
struct Line {
    len: usize,
    size: usize,
    scale: f64,
    /// Start and end of the region, as fractions of the axis.
    part: (f64, f64),
}

impl Resample {
    /// The input position that an output position maps to.
    fn place(&self, line: &Line, position: usize) -> f64 {
        let (len, size, x) = (line.len as f64, line.size as f64, position as f64);
        let half = (x + 0.5) / line.scale - 0.5;
        match self.coordinates {
            CoordinateMode::HalfPixel => half,
            CoordinateMode::Symmetric => {
                let adjustment = size / (line.scale * len);
                len / 2.0 * (1.0 - adjustment) + half
            }
            CoordinateMode::PyTorch if line.size == 1 => 0.0,
            CoordinateMode::PyTorch => half,
            CoordinateMode::AlignedCorners if line.size == 1 => 0.0,
            CoordinateMode::AlignedCorners => x * (len - 1.0) / (size - 1.0),
            CoordinateMode::Asymmetric => x / line.scale,
            CoordinateMode::HalfFurther => (x + 0.5) / line.scale,
            CoordinateMode::CropAndResize => {
                let (start, end) = line.part;
                match line.size {
                    1 => 0.5 * (start + end) * (len - 1.0),
                    _ => start * (len - 1.0) + x * (end - start) * (len - 1.0) / (size - 1.0),
                }
            }
        }
    }

    fn weights(&self, line: &Line, position: usize) -> Weights {
        let place = self.place(line, position);
        let last = (line.len - 1) as f64;
        if self.coordinates == CoordinateMode::CropAndResize && !(0.0..=last).contains(&place) {
            return Vec::new();
        }
        let inside = |element: f64| element.clamp(0.0, last) as usize;
        if let Taps::Nearest(rounding) = self.taps {
            let element = match rounding {
                Rounding::PreferFloor => (place - 0.5).ceil(),
                Rounding::PreferCeil => (place + 0.5).floor(),
                Rounding::FloorOrCeil if line.scale < 1.0 => place.ceil(),
                Rounding::Floor | Rounding::FloorOrCeil => place.floor(),
                Rounding::Ceil => place.ceil(),
            };
            return vec![(inside(element), 1.0)];
        }
        // At least 1 / len, so that the kernel is bounded: a file may give any scale.
        let shrink = if self.antialias { line.scale.clamp(1.0 / line.len as f64, 1.0) } else { 1.0 };
        let reach = self.taps.reach() / shrink;
        let (first, end) = ((place - reach).floor() + 1.0, (place + reach).ceil());
        let mut weights = Weights::new();
        // From 2⁵² on, an f64 has no fraction, and there is no next element.
        let count = if place.abs() < 2f64.powi(52) { (end - first).max(0.0) as usize } else { 0 };
        for step in 0..count {
            let element = first + step as f64;
            let weight = self.taps.weight((element - place) * shrink);
            if weight != 0.0 && (!self.exclude_outside || (0.0..=last).contains(&element)) {
                weights.push((inside(element), weight));
            }
        }
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        if total != 0.0 {
            weights.iter_mut().for_each(|(_, weight)| *weight /= total);
        }
        weights
    }

    /// The region on each axis, from the second input if there is one.
    fn roi(&self, inputs: &[TensorView<'_>]) -> Result<Vec<(f64, f64)>> {
        let count = self.axes.len();
        let numbers = match inputs.get(1) {
            Some(roi) => roi.to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?,
            None => self.roi.clone().unwrap_or_default(),
        };
        if self.coordinates == CoordinateMode::CropAndResize && numbers.len() != 2 * count {
            let wanted = format!("{} numbers", 2 * count);
            return Err(LayerError::shape("`roi`", wanted, numbers.len()));
        }
        let at = |place: usize, usual: f64| numbers.get(place).copied().unwrap_or(usual);
        Ok((0..count).map(|axis| (at(axis, 0.0), at(count + axis, 1.0))).collect())
    }
}

/// Resamples one axis of an array.
fn resampled(
    array: &ArrayD<f64>,
    axis: usize,
    weights: &[Weights],
    outside: f64,
    context: &ForwardContext<'_>,
) -> Result<ArrayD<f64>> {
    let mut dims = array.shape().to_vec();
    dims[axis] = weights.len();
    let elements = dims.iter().fold(8u64, |product, &len| product.saturating_mul(len as u64));
    context.limits().check_tensor("an axis of a resized tensor", elements)?;
    let mut output = ArrayD::zeros(dims);
    for (position, weights) in weights.iter().enumerate() {
        context.limits().check_deadline()?;
        let mut place = output.slice_axis_mut(Axis(axis), Slice::from(position..position + 1));
        if weights.is_empty() {
            place.fill(outside);
        }
        for &(element, weight) in weights {
            place.scaled_add(weight, &array.slice_axis(Axis(axis), Slice::from(element..element + 1)));
        }
    }
    Ok(output)
}

impl Layer for Resample {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut dims = inputs[0].dims().to_vec();
        for (axis, len, _) in &self.axes {
            let Some(dim) = dims.get_mut(*axis) else {
                return Err(LayerError::shape(
                    "the input",
                    format!("at least {} axes", axis + 1),
                    &inputs[0],
                ));
            };
            if *dim == 0usize || len.fixed().is_some_and(|len| len < 1) {
                return Err(LayerError::shape("a resized axis", "at least one element", len));
            }
            *dim = len.clone();
        }
        if inputs[0].dtype().is_complex() {
            return Err(LayerError::dtype("the input", "real numbers", inputs[0].dtype()));
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for Resample {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let parts = self.roi(io.inputs)?;
        let mut array = io.inputs[0].to_tensor()?.cast(DType::F64)?.into_array::<f64>()?;
        for ((axis, _, scale), part) in self.axes.iter().zip(parts) {
            let (len, size) = (array.shape()[*axis], io.outputs[0].shape()[*axis]);
            let line = Line { len, size, scale: scale.unwrap_or(size as f64 / len as f64), part };
            if len == 0
                || (len == size && line.scale == 1.0 && self.coordinates != CoordinateMode::CropAndResize)
            {
                continue;
            }
            let weights = (0..size).map(|position| {
                io.context.limits().check_deadline()?;
                Ok(self.weights(&line, position))
            });
            let weights = weights.collect::<Result<Vec<Weights>>>()?;
            array = resampled(&array, *axis, &weights, self.outside, &io.context)?;
        }
        Ok(io.outputs[0].cast_from(&Tensor::from_array(array)?.view())?)
    }
}
