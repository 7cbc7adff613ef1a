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
    /// Interpolation between four elements by Keys' cubic convolution (1981), with a = −3/4, or −1/2 as a filter.
    Cubic,
    /// The sinc function, windowed by its central lobe stretched to three lobes on each side; always a filter.
    Lanczos,
}

impl Interpolation {
    /// Half the width of the filter, in elements of the shorter of input and output.
    fn reach(self) -> f64 {
        match self {
            Self::Nearest | Self::NearestExact => 0.5,
            Self::Linear => 1.0,
            Self::Cubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    /// The filter's value at a distance from its centre.
    fn filter<T: Float>(self, distance: T) -> T {
        let x = distance.abs();
        match self {
            _ if x >= T::of(self.reach()) => T::zero(),
            Self::Nearest | Self::NearestExact => T::one(),
            Self::Linear => T::one() - x,
            Self::Cubic if x < T::one() => (T::of(1.5) * x - T::of(2.5)) * x * x + T::one(),
            Self::Cubic => (((x - T::of(5.0)) * x + T::of(8.0)) * x - T::of(4.0)) * T::of(-0.5),
            Self::Lanczos => sinc(x) * sinc(x / T::of(3.0)),
        }
    }
}

/// sin(πx) / (πx), and 1 at 0.
fn sinc<T: Float>(x: T) -> T {
    let angle = x * T::of(std::f64::consts::PI);
    if x == T::zero() { T::one() } else { angle.sin() / angle }
}

/// How one axis is resampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// The interpolation.
    pub interpolation: Interpolation,
    /// Whether the centres of the first and last elements are aligned, instead of their edges.
    pub align_corners: bool,
    /// Whether the interpolation is a filter that widens as the output gets shorter than the input, so that all elements
    /// contribute; not for [`Interpolation::Nearest`] and [`Interpolation::NearestExact`].
    pub antialias: bool,
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
            _ if self.is_filter() => self.filtered(position),
            Interpolation::Linear => self.two_taps(position).to_vec(),
            Interpolation::Cubic => {
                let at = self.source::<T>(position);
                let first = at.floor();
                let weights = cubic_weights(at - first);
                let first = first.to_i64().unwrap_or(0) - 1;
                let taps = (first..).zip(weights);
                taps.map(|(index, weight)| (usize::try_from(index).unwrap_or(0).min(last), weight)).collect()
            }
            // The others copy elements.
            _ => Vec::new(),
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
            _ if self.is_filter() && self.outputs == self.len => Some(position),
            Interpolation::Linear | Interpolation::Cubic | Interpolation::Lanczos => None,
        }
    }

    /// Returns true if the interpolation is a filter, which may reach any number of elements.
    pub fn is_filter(&self) -> bool {
        match self.interpolation {
            Interpolation::Nearest | Interpolation::NearestExact => false,
            Interpolation::Linear | Interpolation::Cubic => self.antialias,
            Interpolation::Lanczos => true,
        }
    }

    /// The largest number of elements that one output element is computed from.
    pub fn most_taps(&self) -> usize {
        match self.interpolation {
            Interpolation::Nearest | Interpolation::NearestExact => 1,
            interpolation if self.is_filter() => {
                let reach = interpolation.reach() * self.distance::<f64>().max(1.0);
                // A conversion from floats saturates.
                ((2.0 * reach) as usize).saturating_add(2).min(self.len)
            }
            _ => 4,
        }
    }

    /// The elements under the filter around output `position`, with weights that sum to 1.
    fn filtered<T: Float>(&self, position: usize) -> Vec<(usize, T)> {
        let (step, half) = (self.distance::<T>(), T::of(0.5));
        let width = step.max(T::one());
        let centre = step * (T::of(position as f64) + half);
        let reach = T::of(self.interpolation.reach()) * width;
        // A negative number has no `usize`: the filter then begins at the first element.
        let first = (centre - reach + half).to_usize().unwrap_or(0);
        let end = (centre + reach + half).to_usize().unwrap_or(0).min(self.len);
        let weight = |index: usize| {
            self.interpolation.filter((T::of(index as f64) - centre + half) * (T::one() / width))
        };
        let mut taps: Vec<(usize, T)> = (first..end).map(|index| (index, weight(index))).collect();
        let sum: T = taps.iter().map(|tap| tap.1).sum();
        if sum != T::zero() {
            taps.iter_mut().for_each(|tap| tap.1 /= sum);
        }
        taps
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

    /// As [`step`](Self::step), between the corners if these are aligned.
    fn distance<T: Float>(&self) -> T {
        match self.outputs {
            _ if !self.align_corners => self.step(),
            0 | 1 => T::zero(),
            outputs => T::of(self.len as f64 - 1.0) / T::of(outputs as f64 - 1.0),
        }
    }

    /// The position of an output element among the input elements.
    fn source<T: Float>(&self, position: usize) -> T {
        let position = T::of(position as f64);
        match self.align_corners {
            true => position * self.distance::<T>(),
            false => self.distance::<T>() * (position + T::of(0.5)) - T::of(0.5),
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
        let axis =
            Resampling { interpolation, align_corners, antialias: false, len: 3, outputs, factor: None };
        interpolate(x.view(), &[axis]).into_raw_vec_and_offset().0
    }

    #[test]
    fn a_filter_widens_as_the_output_gets_shorter() {
        let resampling = |interpolation, len, outputs| Resampling {
            interpolation,
            align_corners: false,
            antialias: true,
            len,
            outputs,
            factor: None,
        };
        let halved = resampling(Interpolation::Linear, 4, 2);
        assert_eq!(halved.taps::<f64>(0), [(0, 3.0 / 7.0), (1, 3.0 / 7.0), (2, 1.0 / 7.0)]);
        assert_eq!(halved.taps::<f64>(1), [(1, 1.0 / 7.0), (2, 3.0 / 7.0), (3, 3.0 / 7.0)]);
        assert_eq!(resampling(Interpolation::Lanczos, 3, 3).taps::<f64>(1), [(1, 1.0)]);
        for interpolation in [Interpolation::Linear, Interpolation::Cubic, Interpolation::Lanczos] {
            for (len, outputs) in [(1, 1), (7, 3), (100, 7), (2, 9), (1, 5)] {
                let axis = resampling(interpolation, len, outputs);
                for position in 0..outputs {
                    let taps = axis.taps::<f64>(position);
                    assert!((1..=axis.most_taps()).contains(&taps.len()), "{axis:?}: {taps:?}");
                    let sum: f64 = taps.iter().map(|tap| tap.1).sum();
                    assert!((sum - 1.0).abs() < 1e-12 && taps.iter().all(|tap| tap.0 < len));
                }
            }
        }
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
