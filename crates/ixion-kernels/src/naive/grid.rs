//! Images sampled at positions that a grid gives, and grids of affine maps, by their definition.

use super::interpolate::cubic_weights;
use crate::Float;
use ndarray::{ArrayD, ArrayView3, ArrayViewD, Axis, Dimension, IxDyn};

/// How values between elements are interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridMode {
    /// The nearest element; of two equally near ones, the one with the even index.
    Nearest,
    /// Linear interpolation between two elements along each axis.
    Linear,
    /// Interpolation between four elements along each axis by Keys' cubic convolution (1981), with a = −3/4.
    Cubic,
}

/// The values outside of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The edge elements repeated.
    Border,
    /// The image mirrored at its edges.
    Reflection,
}

/// How an image is sampled at the positions of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// The interpolation.
    pub mode: GridMode,
    /// The values outside of the image.
    pub padding: GridPadding,
    /// Whether −1 and 1 are the centres of the outermost elements, instead of their edges.
    pub align_corners: bool,
    /// Whether the image has three axes. PyTorch then treats infinite and NaN coordinates differently.
    pub is_volume: bool,
}

impl Sampling {
    /// The elements of an axis that a coordinate from −1 to 1 is interpolated from, with their weights; `None` for those
    /// outside.
    pub fn taps<T: Float>(&self, coordinate: T, len: usize) -> Taps<T> {
        let place = self.place(coordinate, len);
        match self.mode {
            GridMode::Nearest => {
                Taps::new([(index(round_half_even(self.inside(place, len)), len), T::one())])
            }
            GridMode::Linear => {
                let at = self.inside(place, len);
                if !at.is_finite() {
                    let weight = if self.is_volume { T::zero() } else { T::nan() };
                    return Taps::new([((!self.is_volume).then_some(0), weight)]);
                }
                let (first, second) = (at.floor(), at - at.floor());
                Taps::new([(index(first, len), T::one() - second), (index(first + T::one(), len), second)])
            }
            GridMode::Cubic if !place.is_finite() => Taps::new([(Some(0), T::nan())]),
            GridMode::Cubic => {
                let first = place.floor();
                let weights = cubic_weights(place - first);
                let tap = |i: usize| {
                    let at = self.inside(first + T::of(i as f64 - 1.0), len);
                    (index(at, len), weights[i])
                };
                Taps::new([tap(0), tap(1), tap(2), tap(3)])
            }
        }
    }

    /// The position among the elements that a coordinate from −1 to 1 denotes.
    fn place<T: Float>(&self, coordinate: T, len: usize) -> T {
        let (one, two) = (T::one(), T::of(2.0));
        match self.align_corners {
            true => (coordinate + one) / two * T::of(len as f64 - 1.0),
            false => ((coordinate + one) * T::of(len as f64) - one) / two,
        }
    }

    /// Maps a position that may be outside of the axis according to the padding.
    fn inside<T: Float>(&self, place: T, len: usize) -> T {
        let last = T::of(len as f64 - 1.0);
        let place = match self.padding {
            GridPadding::Zeros => return place,
            GridPadding::Border => place,
            GridPadding::Reflection if self.align_corners => reflect(place, T::zero(), last),
            GridPadding::Reflection => reflect(place, T::of(-0.5), last + T::one()),
        };
        match place.is_nan() {
            true if self.is_volume => last,
            true => T::zero(),
            false => place.max(T::zero()).min(last),
        }
    }
}

/// The elements of one axis that a position is interpolated from, with their weights: at most four, with `None` for those
/// outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taps<T> {
    taps: [(Option<usize>, T); 4],
    count: usize,
}

impl<T: Float> Default for Taps<T> {
    fn default() -> Self {
        Self::new([])
    }
}

impl<T: Float> Taps<T> {
    fn new<const N: usize>(some: [(Option<usize>, T); N]) -> Self {
        let mut taps = [(None, T::zero()); 4];
        taps.iter_mut().zip(some).for_each(|(to, from)| *to = from);
        Self { taps, count: N.min(4) }
    }

    /// The elements inside the axis, with their weights.
    pub fn inside(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        self.taps[..self.count].iter().filter_map(|&(index, weight)| Some((index?, weight)))
    }
}

/// A position mirrored at `low` and `low + span` until it is between them.
fn reflect<T: Float>(place: T, low: T, span: T) -> T {
    if span == T::zero() {
        return T::zero();
    }
    let distance = (place - low).abs();
    let (extra, flips) = (distance % span, (distance / span).floor());
    if flips % T::of(2.0) == T::zero() { low + extra } else { low + span - extra }
}

fn round_half_even<T: Float>(x: T) -> T {
    if x.fract().abs() == T::of(0.5) { (x / T::of(2.0)).round() * T::of(2.0) } else { x.round() }
}

fn index<T: Float>(at: T, len: usize) -> Option<usize> {
    (at >= T::zero()).then(|| at.to_usize()).flatten().filter(|&index| index < len)
}

/// Samples N×C×… at the positions of a grid N×…×axes, whose coordinates start with that of the input's last axis, as
/// `torch.nn.functional.grid_sample`.
///
/// # Panics
/// Panics if shapes do not match, or the input has no elements.
pub fn grid_sample<T: Float>(
    input: ArrayViewD<'_, T>,
    grid: ArrayViewD<'_, T>,
    sampling: &Sampling,
) -> ArrayD<T> {
    let axes = input.ndim() - 2;
    let shape = [&input.shape()[..2], &grid.shape()[1..=axes]].concat();
    ArrayD::from_shape_fn(IxDyn(&shape), |at| {
        let at = at.slice();
        let coordinates = grid.view().into_dyn();
        let coordinates = (at[2..].iter())
            .fold(coordinates.index_axis_move(Axis(0), at[0]), |grid, &i| grid.index_axis_move(Axis(0), i));
        let start = vec![(vec![at[0], at[1]], T::one())];
        let places = (0..axes).fold(start, |places, axis| {
            let taps = sampling.taps(coordinates[axes - 1 - axis], input.shape()[axis + 2]);
            let joined = places.iter().flat_map(|(place, weight)| {
                taps.inside().map(move |(index, factor)| ([&place[..], &[index]].concat(), *weight * factor))
            });
            joined.collect()
        });
        places.iter().map(|(place, weight)| input[IxDyn(place)] * *weight).sum()
    })
}

/// The positions N×…×axes to which affine maps N×axes×(axes + 1) send the elements of images of these lengths, as
/// `torch.nn.functional.affine_grid`. All positions are coordinates from −1 to 1, starting with that of the last axis.
///
/// # Panics
/// Panics if `theta` has another number of axes.
pub fn affine_grid<T: Float>(theta: ArrayView3<'_, T>, lens: &[usize], align_corners: bool) -> ArrayD<T> {
    let shape = [&[theta.dim().0], lens, &[lens.len()]].concat();
    ArrayD::from_shape_fn(IxDyn(&shape), |at| {
        let (map, row) = (at[0], at[lens.len() + 1]);
        let products = lens.iter().enumerate().rev().enumerate().map(|(column, (axis, &len))| {
            theta[[map, row, column]] * normalized(at[axis + 1], len, align_corners)
        });
        products.sum::<T>() + theta[[map, row, lens.len()]]
    })
}

/// The coordinate from −1 to 1 of an element of an axis.
pub fn normalized<T: Float>(index: usize, len: usize, align_corners: bool) -> T {
    if len < 2 {
        return T::zero();
    }
    let places = if align_corners { len as f64 - 1.0 } else { len as f64 };
    T::of((2.0 * index as f64 - (len as f64 - 1.0)) / places)
}
