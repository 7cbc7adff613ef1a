//! Images sampled at positions that a grid gives, and grids of affine maps.

use super::Float;
use super::naive::{Sampling, Taps, normalized};
use crate::widest;
use ixion_tensor::{LimitError, Limits};

/// Positions whose elements and weights are computed before they are read from all channels.
const BLOCK: usize = 256;

/// Samples one image C×`lens` at the positions of a grid …×axes, whose coordinates start with that of the image's last
/// axis. The output is C×positions.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn grid_sample<T: Float>(
    sampling: &Sampling,
    lens: &[usize],
    input: &[T],
    grid: &[T],
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let (places, pixels) = (grid.len() / lens.len().max(1), lens.iter().product::<usize>());
    let mut reads = Reads::default();
    for (block, grid) in grid.chunks(BLOCK * lens.len().max(1)).enumerate() {
        limits.check_deadline()?;
        reads.find(sampling, lens, grid);
        let planes = input.chunks_exact(pixels.max(1)).zip(output.chunks_exact_mut(places.max(1)));
        for (plane, output) in planes {
            let output = &mut output[block * BLOCK..];
            widest!(|| reads.read(plane, output));
        }
    }
    Ok(())
}

/// The elements and weights for each of some positions.
struct Reads<T> {
    elements: Vec<(usize, T)>,
    /// The end of the elements of each position.
    ends: Vec<usize>,
}

impl<T> Default for Reads<T> {
    fn default() -> Self {
        Self { elements: Vec::new(), ends: Vec::new() }
    }
}

impl<T: Float> Reads<T> {
    fn find(&mut self, sampling: &Sampling, lens: &[usize], grid: &[T]) {
        self.elements.clear();
        self.ends.clear();
        for coordinates in grid.chunks_exact(lens.len().max(1)) {
            let axes = lens.iter().zip(coordinates.iter().rev());
            let mut taps = [Taps::default(); 3];
            taps.iter_mut().zip(axes).for_each(|(taps, (&len, &at))| *taps = sampling.taps(at, len));
            self.join(&taps[..lens.len().min(3)], lens, 0, T::one());
            self.ends.push(self.elements.len());
        }
    }

    /// Adds all combinations of taps along the axes, with the products of their weights.
    fn join(&mut self, taps: &[Taps<T>], lens: &[usize], offset: usize, weight: T) {
        let ([first, others @ ..], [len, lens @ ..]) = (taps, lens) else {
            return self.elements.push((offset, weight));
        };
        for (index, factor) in first.inside() {
            self.join(others, lens, offset * len + index, weight * factor);
        }
    }

    #[inline(always)]
    fn read(&self, plane: &[T], output: &mut [T]) {
        let mut start = 0;
        for (output, &end) in output.iter_mut().zip(&self.ends) {
            let elements = &self.elements[start..end];
            *output = elements.iter().fold(T::zero(), |sum, &(offset, weight)| sum + plane[offset] * weight);
            start = end;
        }
    }
}

/// Writes the positions …×axes to which one affine map axes×(axes + 1) sends the elements of images of these lengths. All
/// positions are coordinates from −1 to 1, starting with that of the last axis.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn affine_grid<T: Float>(
    theta: &[T],
    lens: &[usize],
    align_corners: bool,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let axes = lens.len();
    let Some((&width, outer)) = lens.split_last() else { return Ok(()) };
    for (row, output) in output.chunks_exact_mut((width * axes).max(1)).enumerate() {
        limits.check_deadline()?;
        let mut coordinates = [T::zero(); 3];
        let mut rest = row;
        for (coordinate, &len) in coordinates[1..].iter_mut().zip(outer.iter().rev()) {
            *coordinate = normalized(rest % len.max(1), len, align_corners);
            rest /= len.max(1);
        }
        for (x, output) in output.chunks_exact_mut(axes).enumerate() {
            coordinates[0] = normalized(x, width, align_corners);
            for (output, map) in output.iter_mut().zip(theta.chunks_exact(axes + 1)) {
                let products = map.iter().zip(&coordinates[..axes]).map(|(&factor, &at)| factor * at);
                *output = products.sum::<T>() + map[axes];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::integer_noise;
    use super::*;
    use crate::naive::{self, GridMode, GridPadding};
    use ndarray::{Array3, ArrayD, IxDyn};
    use proptest::prelude::*;

    fn coordinate() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -1.5f64..1.5,
            2 => (-9i32..9).prop_map(|i| f64::from(i) / 4.0),
            1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1e30), Just(1e5)],
        ]
    }

    fn sampling() -> impl Strategy<Value = Sampling> {
        let modes = prop_oneof![Just(GridMode::Nearest), Just(GridMode::Linear), Just(GridMode::Cubic)];
        let paddings =
            prop_oneof![Just(GridPadding::Zeros), Just(GridPadding::Border), Just(GridPadding::Reflection)];
        (modes, paddings, any::<bool>(), any::<bool>()).prop_map(|(mode, padding, align_corners, volume)| {
            let is_volume = volume && mode != GridMode::Cubic;
            Sampling { mode, padding, align_corners, is_volume }
        })
    }

    proptest! {
        #[test]
        fn sampling_equals_the_naive_one(
            sampling in sampling(),
            lens in proptest::collection::vec(1usize..6, 3),
            channels in 0usize..4,
            coordinates in proptest::collection::vec(coordinate(), 0..900),
            seed: usize,
        ) {
            let axes = if sampling.is_volume { 3 } else { 2 };
            let lens = &lens[..axes];
            let places = coordinates.len() / axes;
            let grid = coordinates[..places * axes].to_vec();
            let ones = &[1, 1, 1][..axes - 1];
            let input = integer_noise(&[&[1, channels], lens].concat(), seed);
            let shape = [&[1], ones, &[places, axes]].concat();
            let array = ArrayD::from_shape_vec(IxDyn(&shape), grid.clone()).unwrap();
            let want = naive::grid_sample(input.view(), array.view(), &sampling);
            let mut got = vec![7.0; want.len()];
            grid_sample(&sampling, lens, input.as_slice().unwrap(), &grid, &mut got, &Limits::default()).unwrap();
            for (&got, &want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-9 || got.is_nan() && want.is_nan(), "{got} for {want}");
            }
        }

        #[test]
        fn grids_equal_the_naive_ones(
            lens in proptest::collection::vec(1usize..5, 2..=3),
            align_corners: bool,
            seed: usize,
        ) {
            let theta: Array3<f64> =
                integer_noise(&[1, lens.len(), lens.len() + 1], seed).into_dimensionality().unwrap();
            let want = naive::affine_grid(theta.view(), &lens, align_corners);
            let mut got = vec![7.0; want.len()];
            let map = theta.as_slice().unwrap();
            affine_grid(map, &lens, align_corners, &mut got, &Limits::default()).unwrap();
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-12, "{got} where {want} is expected");
            }
        }
    }
}
