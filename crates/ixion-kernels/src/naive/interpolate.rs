//! Interpolation between elements, in any number of dimensions.

use crate::Float;
use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

/// How values between elements are interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpolation {
    /// The element before the position.
    Nearest,
    /// The element whose centre is nearest.
    NearestExact,
    /// Linear interpolation between the two elements around the position.
    Linear,
    /// Interpolation between four elements by Keys' cubic convolution (1981), with a = −3/4.
    Cubic,
}

/// How one axis is resampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// The interpolation.
    pub interpolation: Interpolation,
    /// Whether the centres of the first and last elements are aligned, instead of their edges.
    pub align_corners: bool,
    /// The number of input elements.
    pub len: usize,
    /// The number of output elements.
    pub outputs: usize,
    /// The factor from which positions are computed, if it is not `outputs / len`.
    pub factor: Option<f64>,
}

impl Resampling {
    /// The elements that output `position` is interpolated from, with their weights, as in PyTorch. They are computed in
    /// `T`, because rounding decides which element is nearest.
    pub fn taps<T: Float>(&self, position: usize) -> Vec<(usize, T)> {
        let last = self.len.saturating_sub(1);
        if let Some(source) = self.only_tap::<T>(position) {
            return vec![(source, T::one())];
        }
        match self.interpolation {
            Interpolation::Nearest | Interpolation::NearestExact => Vec::new(),
            Interpolation::Linear => self.two_taps(position).to_vec(),
            Interpolation::Cubic => {
                let at = self.source::<T>(position);
                let first = at.floor();
                let weights = cubic_weights(at - first);
                let first = first.to_i64().unwrap_or(0) - 1;
                let taps = (first..).zip(weights);
                taps.map(|(index, weight)| (usize::try_from(index).unwrap_or(0).min(last), weight)).collect()
            }
        }
    }

    /// The element that output `position` is copied from; `None` if it is interpolated.
    pub fn only_tap<T: Float>(&self, position: usize) -> Option<usize> {
        let at = T::of(position as f64);
        let half = T::of(0.5);
        match self.interpolation {
            Interpolation::Nearest => Some(self.below(self.step::<T>() * at)),
            Interpolation::NearestExact => Some(self.below(self.step::<T>() * (at + half) - half + half)),
            Interpolation::Linear if self.outputs == self.len => Some(position),
            Interpolation::Linear | Interpolation::Cubic => None,
        }
    }

    /// The two elements around output `position`, with their weights.
    pub fn two_taps<T: Float>(&self, position: usize) -> [(usize, T); 2] {
        let at = self.source::<T>(position).max(T::zero());
        let first = self.below(at);
        let second = (at - T::of(first as f64)).max(T::zero()).min(T::one());
        let next = (first + 1).min(self.len.saturating_sub(1));
        [(first, T::one() - second), (next, second)]
    }

    /// The element at or before a position.
    fn below<T: Float>(&self, at: T) -> usize {
        // Truncation rounds non-negative numbers down; negative numbers become 0.
        at.to_usize().unwrap_or(0).min(self.len.saturating_sub(1))
    }

    /// The distance between output elements, in input elements.
    fn step<T: Float>(&self) -> T {
        match self.factor {
            Some(factor) => T::of(1.0 / factor),
            None => T::of(self.len as f64) / T::of(self.outputs as f64),
        }
    }

    /// The position of an output element among the input elements.
    fn source<T: Float>(&self, position: usize) -> T {
        let position = T::of(position as f64);
        if !self.align_corners {
            return self.step::<T>() * (position + T::of(0.5)) - T::of(0.5);
        }
        match self.outputs {
            0 | 1 => T::zero(),
            outputs => position * (T::of(self.len as f64 - 1.0) / T::of(outputs as f64 - 1.0)),
        }
    }
}

/// The weights of four elements for a position that is `t` after the second.
pub(super) fn cubic_weights<T: Float>(t: T) -> [T; 4] {
    let a = T::of(-0.75);
    let (one, two, three) = (T::one(), T::of(2.0), T::of(3.0));
    let near = |x: T| ((a + two) * x - (a + three)) * x * x + one;
    let far = |x: T| ((a * x - T::of(5.0) * a) * x + T::of(8.0) * a) * x - T::of(4.0) * a;
    [far(t + one), near(t), near(one - t), far(two - t)]
}

/// Resamples the last axes, with one [`Resampling`] for each of them, as `torch.nn.functional.interpolate`.
///
/// # Panics
/// Panics if the length of an axis is not that of its resampling.
pub fn interpolate<T: Float>(input: ArrayViewD<'_, T>, axes: &[Resampling]) -> ArrayD<T> {
    let first = input.ndim() - axes.len();
    let mut shape = input.shape()[..first].to_vec();
    shape.extend(axes.iter().map(|axis| axis.outputs));
    ArrayD::from_shape_fn(IxDyn(&shape), |at| {
        let start = vec![(at.slice()[..first].to_vec(), T::one())];
        let places = axes.iter().zip(&at.slice()[first..]).fold(start, |places, (axis, &position)| {
            let taps = axis.taps::<T>(position);
            let mix = |(place, weight): &(Vec<usize>, T), tap: &(usize, T)| {
                ([&place[..], &[tap.0]].concat(), *weight * tap.1)
            };
            places
                .iter()
                .flat_map(|place| taps.iter().map(|tap| mix(place, tap)).collect::<Vec<_>>())
                .collect()
        });
        places.iter().map(|(place, weight)| input[IxDyn(place)] * *weight).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(interpolation: Interpolation, align_corners: bool, outputs: usize) -> Vec<f64> {
        let x = ArrayD::from_shape_vec(IxDyn(&[3]), vec![0.0, 4.0, 8.0]).unwrap();
        let axis = Resampling { interpolation, align_corners, len: 3, outputs, factor: None };
        interpolate(x.view(), &[axis]).into_raw_vec_and_offset().0
    }

    #[test]
    fn rows_by_hand() {
        assert_eq!(row(Interpolation::Nearest, false, 5), [0.0, 0.0, 4.0, 4.0, 8.0]);
        assert_eq!(row(Interpolation::NearestExact, false, 5), [0.0, 0.0, 4.0, 8.0, 8.0]);
        assert_eq!(row(Interpolation::Linear, true, 5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(row(Interpolation::Linear, false, 6), [0.0, 1.0, 3.0, 5.0, 7.0, 8.0]);
        assert_eq!(row(Interpolation::Cubic, true, 3), [0.0, 4.0, 8.0]);
        assert_eq!(row(Interpolation::Linear, true, 1), [0.0]);
    }
}
