//! Resampling along axes, one after the other.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::ops::support::choices::choices;
use crate::tensor::{DType, Dim, Tensor, TensorView, TensorViewMut};
use ndarray::{ArrayD, Axis, Slice};
use std::ops::RangeInclusive;

choices! {
    /// Which place of an axis of the input a place of the output looks at.
    pub enum Places {
        /// Elements lie at their middles.
        HalfPixel = "half_pixel",
        /// The same with the middles of both axes on each other, where scales were rounded.
        Symmetric = "half_pixel_symmetric",
        /// Elements lie at their middles; an axis of length 1 looks at the first element.
        PyTorch = "pytorch_half_pixel",
        /// The outermost elements fall on each other.
        AlignedCorners = "align_corners",
        /// Elements lie at their beginnings.
        Asymmetric = "asymmetric",
        /// A part of the input, whose outermost elements fall on those of the output.
        Part = "tf_crop_and_resize",
    }
}

choices! {
    /// Which of two elements is the nearest.
    pub enum Rounding {
        /// The nearer, of two equally near the one before.
        PreferFloor = "round_prefer_floor",
        /// The nearer, of two equally near the one behind.
        PreferCeil = "round_prefer_ceil",
        /// The one before.
        Floor = "floor",
        /// The one behind.
        Ceil = "ceil",
    }
}

/// The cubic of Keys (1981).
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

/// Which elements are mixed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Taps {
    /// The nearest.
    Nearest(Rounding),
    /// The two around a place.
    Linear,
    /// The four around a place.
    Cubic(Cubic),
}

impl Taps {
    /// How far from a place elements count, in elements.
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

/// Axes of a tensor resampled to other lengths; the second input, where there is one, says which part of the first.
#[derive(Debug, Clone)]
pub(super) struct Resample {
    /// The axes, their lengths in the output, and by how much they grow where that is given.
    pub(super) axes: Vec<(usize, Dim, Option<f64>)>,
    pub(super) places: Places,
    pub(super) taps: Taps,
    /// Whether the taps grow with the elements that fall on one of the output.
    pub(super) is_smooth: bool,
    /// Whether elements outside of the input count for nothing.
    pub(super) leaves_outside: bool,
    /// What stands outside of a part of the input.
    pub(super) outside: f64,
    /// Where the part begins, then where it ends, as shares of the axes.
    pub(super) roi: Option<Vec<f64>>,
}

/// Which elements one place of the output is mixed from, each with its weight; none where it lies outside.
type Mixture = Vec<(usize, f64)>;

/// One axis as it is resampled.
struct Line {
    len: usize,
    size: usize,
    scale: f64,
    /// Where the part of the input begins and ends, as shares.
    part: (f64, f64),
}

impl Resample {
    /// The place of the input that a place of the output looks at.
    fn place(&self, line: &Line, position: usize) -> f64 {
        let (len, size, x) = (line.len as f64, line.size as f64, position as f64);
        let half = (x + 0.5) / line.scale - 0.5;
        match self.places {
            Places::HalfPixel => half,
            Places::Symmetric => {
                let adjustment = size / (line.scale * len);
                len / 2.0 * (1.0 - adjustment) + half
            }
            Places::PyTorch if line.size == 1 => 0.0,
            Places::PyTorch => half,
            Places::AlignedCorners if line.size == 1 => 0.0,
            Places::AlignedCorners => x * (len - 1.0) / (size - 1.0),
            Places::Asymmetric => x / line.scale,
            Places::Part => {
                let (start, end) = line.part;
                match line.size {
                    1 => 0.5 * (start + end) * (len - 1.0),
                    _ => start * (len - 1.0) + x * (end - start) * (len - 1.0) / (size - 1.0),
                }
            }
        }
    }

    fn mixture(&self, line: &Line, position: usize) -> Mixture {
        let place = self.place(line, position);
        let last = (line.len - 1) as f64;
        if self.places == Places::Part && !(0.0..=last).contains(&place) {
            return Vec::new();
        }
        let inside = |element: f64| element.clamp(0.0, last) as usize;
        if let Taps::Nearest(rounding) = self.taps {
            let element = match rounding {
                Rounding::PreferFloor => (place - 0.5).ceil(),
                Rounding::PreferCeil => (place + 0.5).floor(),
                Rounding::Floor => place.floor(),
                Rounding::Ceil => place.ceil(),
            };
            return vec![(inside(element), 1.0)];
        }
        // No smaller than one element for all: parts of the input that a file gives may be of any size.
        let shrink = if self.is_smooth { line.scale.clamp(1.0 / line.len as f64, 1.0) } else { 1.0 };
        let reach = self.taps.reach() / shrink;
        let (first, end) = ((place - reach).floor() + 1.0, (place + reach).ceil());
        let mut mixture = Mixture::new();
        // Beyond 2⁵² there is nothing between two numbers, and no next element.
        let count = if place.abs() < 2f64.powi(52) { (end - first).max(0.0) as usize } else { 0 };
        for step in 0..count {
            let element = first + step as f64;
            let weight = self.taps.weight((element - place) * shrink);
            if weight != 0.0 && (!self.leaves_outside || (0.0..=last).contains(&element)) {
                mixture.push((inside(element), weight));
            }
        }
        let total: f64 = mixture.iter().map(|(_, weight)| weight).sum();
        if total != 0.0 {
            mixture.iter_mut().for_each(|(_, weight)| *weight /= total);
        }
        mixture
    }

    /// The part of each axis, from the second input where there is one.
    fn roi(&self, inputs: &[TensorView<'_>]) -> Result<Vec<(f64, f64)>, LayerError> {
        let count = self.axes.len();
        let numbers = match inputs.get(1) {
            Some(roi) => roi.to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?,
            None => self.roi.clone().unwrap_or_default(),
        };
        if self.places == Places::Part && numbers.len() != 2 * count {
            let wanted = format!("{} numbers", 2 * count);
            return Err(LayerError::shape("`roi`", wanted, numbers.len()));
        }
        let at = |place: usize, usual: f64| numbers.get(place).copied().unwrap_or(usual);
        Ok((0..count).map(|axis| (at(axis, 0.0), at(count + axis, 1.0))).collect())
    }
}

/// An array with one axis mixed anew.
fn mixed(
    array: &ArrayD<f64>,
    axis: usize,
    mixtures: &[Mixture],
    outside: f64,
    context: &ForwardContext<'_>,
) -> Result<ArrayD<f64>, LayerError> {
    let mut dims = array.shape().to_vec();
    dims[axis] = mixtures.len();
    let elements = dims.iter().fold(8u64, |product, &len| product.saturating_mul(len as u64));
    context.limits().check_tensor("an axis of a resized tensor", elements)?;
    let mut output = ArrayD::zeros(dims);
    for (position, mixture) in mixtures.iter().enumerate() {
        context.limits().check_deadline()?;
        let mut place = output.slice_axis_mut(Axis(axis), Slice::from(position..position + 1));
        if mixture.is_empty() {
            place.fill(outside);
        }
        for &(element, weight) in mixture {
            place.scaled_add(weight, &array.slice_axis(Axis(axis), Slice::from(element..element + 1)));
        }
    }
    Ok(output)
}

impl Layer for Resample {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let mut dims = inputs[0].dims().to_vec();
        for (axis, len, _) in &self.axes {
            let Some(dim) = dims.get_mut(*axis) else {
                return Err(LayerError::shape("the input", format!("an axis {axis}"), &inputs[0]));
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
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let parts = self.roi(inputs)?;
        let mut array = inputs[0].to_tensor()?.cast(DType::F64)?.into_array::<f64>()?;
        for ((axis, _, scale), part) in self.axes.iter().zip(parts) {
            let (len, size) = (array.shape()[*axis], outputs[0].shape()[*axis]);
            let line = Line { len, size, scale: scale.unwrap_or(size as f64 / len as f64), part };
            if len == 0 || (len == size && line.scale == 1.0 && self.places != Places::Part) {
                continue;
            }
            let mixtures = (0..size).map(|position| {
                context.limits().check_deadline()?;
                Ok(self.mixture(&line, position))
            });
            let mixtures = mixtures.collect::<Result<Vec<Mixture>, LayerError>>()?;
            array = mixed(&array, *axis, &mixtures, self.outside, context)?;
        }
        Ok(outputs[0].cast_from(&Tensor::from_array(array)?.view())?)
    }
}
