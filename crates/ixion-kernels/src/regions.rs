//! Regions of images resampled to one size.
//!
//! The weight of an element is the product of a weight for its row and a weight for its column. The weights of all
//! samples of a bin are therefore added for each axis first. Every row of bins is then computed from one combined row of
//! the image, and every bin is a sum along that row.

use super::Float;
use super::naive::{RegionAlign, Samples, between};
use super::parallel::for_each_chunk;
use crate::widest;
use ixion_tensor::{LimitError, Limits};
use std::ops::Range;

/// Samples between checks of the deadline.
const SAMPLES_PER_CHECK: usize = 1 << 12;

/// One region: its image C×H×W, and its left, top, right and bottom coordinates.
#[derive(Debug, Clone, Copy)]
pub struct Region<'a, T> {
    /// The image.
    pub picture: &'a [T],
    /// Left, top, right, bottom.
    pub edges: [T; 4],
}

/// Resamples regions of images C×H×W to one size. The output is K×C×`bins`; `region` returns the K regions by their
/// indices.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn region_align<'a, T: Float>(
    how: &RegionAlign,
    [channels, height, width]: [usize; 3],
    region: impl Fn(usize) -> Region<'a, T> + Sync,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let plane = how.bins[0] * how.bins[1];
    let each = channels * plane;
    for_each_chunk(output, each, &|start, output| {
        let Region { picture, edges: [left, top, right, bottom] } = region(start / each);
        let rows = Weights::of(&how.samples(0, top, bottom), how.bins[0], height, limits)?;
        let columns = Weights::of(&how.samples(1, left, right), how.bins[1], width, limits)?;
        let mut mixed = vec![T::zero(); columns.covered.len()];
        for (picture, output) in picture.chunks_exact(height * width).zip(output.chunks_exact_mut(plane)) {
            limits.check_deadline()?;
            widest!(|| read(picture, width, (&rows, &columns), &mut mixed, output));
        }
        Ok(())
    })
}

/// Resamples regions as [`region_align`], but reads every bin from a channel of its own: element n of the output of a region,
/// which is C elements in rows and columns of `bins`, is read from channel n of the image. With as many samples as a bin covers
/// elements, a bin without any is NaN.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn region_align_by_position<'a, T: Float>(
    how: &RegionAlign,
    [channels, height, width]: [usize; 3],
    region: impl Fn(usize) -> Region<'a, T> + Sync,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let weights = |[left, top, right, bottom]: [T; 4]| {
        let samples = [how.samples(0, top, bottom), how.samples(1, left, right)];
        let covers_nothing = |samples: &Samples<T>| samples.bin.ceil() == T::zero();
        if how.samples.is_none() && samples.iter().any(covers_nothing) {
            return Ok(None);
        }
        let rows = Weights::of(&samples[0], how.bins[0], height, limits)?;
        Ok(Some([rows, Weights::of(&samples[1], how.bins[1], width, limits)?]))
    };
    let bin = |[rows, columns]: &[Weights<T>; 2], plane: &[T], [row, column]: [usize; 2]| {
        bin_of(plane, width, rows.of_bin(row), columns.of_bin(column))
    };
    by_position(how.bins, [channels, height, width], region, weights, bin, output, limits)
}

/// Computes regions of images C×H×W, every bin of which is read from a channel of its own: element n of the output of a region,
/// which is C elements in rows and columns of `bins`, is what `bin` returns for channel n and for its row and column. `bin` is
/// also given what `prepare` returns for the edges of the region; if that is nothing, all elements are NaN.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub(crate) fn by_position<'a, T: Float, P>(
    bins: [usize; 2],
    [channels, height, width]: [usize; 3],
    region: impl Fn(usize) -> Region<'a, T> + Sync,
    prepare: impl Fn([T; 4]) -> Result<Option<P>, LimitError> + Sync,
    bin: impl Fn(&P, &[T], [usize; 2]) -> T + Sync,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    for_each_chunk(output, channels, &|start, output| {
        let Region { picture, edges } = region(start / channels.max(1));
        let Some(prepared) = prepare(edges)? else {
            output.fill(T::nan());
            return Ok(());
        };
        let planes = picture.chunks_exact((height * width).max(1));
        for (index, (plane, output)) in planes.zip(output).enumerate() {
            limits.check_deadline()?;
            *output = bin(&prepared, plane, [index / bins[1] % bins[0], index % bins[1]]);
        }
        Ok(())
    })
}

/// One bin: the sum of the elements of a plane in these rows and columns, times the weights of both.
fn bin_of<T: Float>(plane: &[T], width: usize, rows: &[(usize, T)], columns: &[(usize, T)]) -> T {
    rows.iter().fold(T::zero(), |sum, &(y, by_row)| {
        let row = &plane[y * width..][..width];
        let along = columns.iter().fold(T::zero(), |sum, &(x, by_column)| sum + row[x] * by_column);
        sum + along * by_row
    })
}

/// Computes all bins of one plane.
#[inline(always)]
fn read<T: Float>(
    plane: &[T],
    width: usize,
    (rows, columns): (&Weights<T>, &Weights<T>),
    mixed: &mut [T],
    output: &mut [T],
) {
    for (i, output) in output.chunks_exact_mut(columns.ends.len()).enumerate() {
        mixed.fill(T::zero());
        for &(y, weight) in rows.of_bin(i) {
            let row = &plane[y * width..][columns.covered.clone()];
            mixed.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x * weight);
        }
        for (j, output) in output.iter_mut().enumerate() {
            let elements = columns.of_bin(j).iter();
            *output =
                elements.fold(T::zero(), |sum, &(x, weight)| sum + mixed[x - columns.covered.start] * weight);
        }
    }
}

/// The elements of an axis that each bin is computed from, with their weights.
#[derive(Debug)]
struct Weights<T> {
    elements: Vec<(usize, T)>,
    /// The end of the elements of each bin.
    ends: Vec<usize>,
    /// The range of the elements that any bin is computed from.
    covered: Range<usize>,
}

impl<T: Float> Weights<T> {
    fn of(samples: &Samples<T>, bins: usize, len: usize, limits: &Limits) -> Result<Self, LimitError> {
        let mut weights = Self { elements: Vec::new(), ends: Vec::with_capacity(bins), covered: 0..0 };
        for bin in 0..bins {
            limits.check_deadline()?;
            let start = weights.elements.len();
            for (index, sample) in inside(samples, bin, len).enumerate() {
                if index % SAMPLES_PER_CHECK == SAMPLES_PER_CHECK - 1 {
                    limits.check_deadline()?;
                }
                let taps = between(samples.place(bin, sample), len).into_iter().flatten();
                taps.for_each(|(element, weight)| weights.add(start, element, weight / samples.count));
            }
            weights.ends.push(weights.elements.len());
        }
        let elements = weights.elements.iter().map(|element| element.0);
        let first = elements.clone().min().unwrap_or(0);
        weights.covered = first..elements.max().map_or(first, |last| last + 1);
        Ok(weights)
    }

    /// Adds to the weight of an element in the bin that begins at `start`. Samples move in one direction, so that an
    /// element that was added before is among the last.
    fn add(&mut self, start: usize, element: usize, weight: T) {
        let known = self.elements[start..].iter_mut().rev().take(3).find(|known| known.0 == element);
        match known {
            Some(known) => known.1 += weight,
            None => self.elements.push((element, weight)),
        }
    }

    #[inline(always)]
    fn of_bin(&self, bin: usize) -> &[(usize, T)] {
        let start = bin.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.elements[start..self.ends[bin]]
    }
}

/// The samples of a bin that may be inside of an axis: a box may be far larger than its image.
fn inside<T: Float>(samples: &Samples<T>, bin: usize, len: usize) -> Range<usize> {
    let (first, step) = (samples.place(bin, 0), samples.bin / samples.count);
    if step == T::zero() {
        return 0..samples.per_bin();
    }
    let (a, b) = ((-T::one() - first) / step, (T::of(len as f64) - first) / step);
    // A few more, because of rounding.
    let index = |at: T| at.max(T::zero()).to_usize().unwrap_or(usize::MAX).min(samples.per_bin());
    index(a.min(b) - T::of(2.0))..index(a.max(b) + T::of(3.0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::integer_noise;
    use super::*;
    use crate::naive;
    use crate::parallel::tests::on_threads;
    use ndarray::{Array2, Array4};
    use proptest::prelude::*;

    fn edge() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -4.0f64..24.0,
            3 => (-4i32..24).prop_map(|edge| f64::from(edge) / 2.0),
            1 => -300.0f64..300.0,
        ]
    }

    fn how() -> impl Strategy<Value = RegionAlign> {
        let samples = proptest::option::of(1usize..5);
        let scale = prop_oneof![Just(1.0), Just(0.5), Just(0.25), 0.1..2.0];
        (1usize..5, 1usize..5, scale, samples, any::<bool>()).prop_map(
            |(rows, columns, scale, samples, aligned)| RegionAlign {
                bins: [rows, columns],
                scale,
                samples,
                aligned,
            },
        )
    }

    fn run(how: &RegionAlign, input: &Array4<f64>, boxes: &Array2<f64>) -> Vec<f64> {
        let (_, channels, height, width) = input.dim();
        let sample = channels * height * width;
        let mut output = vec![7.0; boxes.nrows() * channels * how.bins[0] * how.bins[1]];
        let region = |index: usize| {
            let place = boxes.row(index);
            let picture = &input.as_slice().unwrap()[place[0] as usize * sample..][..sample];
            Region { picture, edges: [place[1], place[2], place[3], place[4]] }
        };
        let lens = [channels, height, width];
        region_align(how, lens, region, &mut output, &Limits::default()).unwrap();
        output
    }

    proptest! {
        #[test]
        fn regions_equal_the_naive_ones(
            how in how(),
            channels in 0usize..3,
            lens in (1usize..9, 1usize..9),
            edges in proptest::collection::vec((0u8..2, edge(), edge(), edge(), edge()), 0..5),
            seed: usize,
        ) {
            let input = integer_noise(&[2, channels, lens.0, lens.1], seed).into_dimensionality().unwrap();
            let rows = edges.iter().flat_map(|&(n, a, b, c, d)| [f64::from(n), a, b, c, d]).collect();
            let boxes = Array2::from_shape_vec((edges.len(), 5), rows).unwrap();
            let want = naive::region_align(input.view(), boxes.view(), &how);
            let (alone, pooled) = on_threads(&[3], || run(&how, &input, &boxes));
            prop_assert_eq!(alone.len(), want.len());
            prop_assert_eq!(&alone, &pooled[0]);
            for (&got, &want) in alone.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-9, "{} for {}", got, want);
            }
        }
    }

    /// Every channel of the ordinary regions has the bin that is read by position.
    #[test]
    fn bins_are_read_from_channels_of_their_own() {
        let input: Array4<f64> = integer_noise(&[2, 12, 5, 6], 3).into_dimensionality().unwrap();
        let places = vec![0.0, -1.0, 0.5, 4.0, 3.0, 1.0, 2.0, 1.0, 9.0, 8.0];
        let boxes = Array2::from_shape_vec((2, 5), places).unwrap();
        for samples in [None, Some(2)] {
            let how = RegionAlign { bins: [2, 3], scale: 0.75, samples, aligned: true };
            let all = naive::region_align(input.view(), boxes.view(), &how);
            let region = |index: usize| {
                let place = boxes.row(index);
                let picture = &input.as_slice().unwrap()[place[0] as usize * 360..][..360];
                Region { picture, edges: [place[1], place[2], place[3], place[4]] }
            };
            let mut output = vec![7.0; 24];
            let limits = Limits::default();
            region_align_by_position(&how, [12, 5, 6], region, &mut output, &limits).unwrap();
            for (index, &got) in output.iter().enumerate() {
                let (channel, bin) = (index % 12, index % 6);
                let want = all[(index / 12, channel, bin / 3, bin % 3)];
                assert!((got - want).abs() < 1e-12, "{got} for {want} at {index}");
            }
        }
    }

    #[test]
    fn infinite_boxes_terminate() {
        let how = |samples| RegionAlign { bins: [2, 2], scale: 1.0, samples, aligned: true };
        let input = Array4::from_elem((1, 1, 3, 3), 1.0);
        for far in [1e30, f64::INFINITY, f64::NAN, -1e30, f64::MAX] {
            let boxes = Array2::from_shape_vec((1, 5), vec![0.0, -1.0, -far, 2.0, far]).unwrap();
            for samples in [None, Some(2)] {
                assert!(run(&how(samples), &input, &boxes).iter().all(|x| x.is_finite()), "{far}");
            }
        }
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        let region = |_| Region { picture: &[1.0f32], edges: [0.0, 0.0, 1.0, 1.0] };
        let ended = region_align(&how(Some(usize::MAX)), [1, 1, 1], region, &mut [0.0; 4], &late);
        assert_eq!(ended, Err(LimitError::DeadlineExceeded));
    }
}
