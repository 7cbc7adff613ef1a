//! Regions of images resampled to one size, by their definition.

use crate::Float;
use ndarray::{Array4, ArrayView2, ArrayView4};

/// How a region is divided into rows and columns of bins, each the mean of samples in it, as in
/// `torchvision.ops.RoIAlign`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegionAlign {
    /// Rows and columns of bins.
    pub bins: [usize; 2],
    /// The factor from coordinates of boxes to those of the image.
    pub scale: f64,
    /// The number of samples of a bin along each axis; `None` for as many as the bin covers elements.
    pub samples: Option<usize>,
    /// Whether coordinates refer to the edges of elements, the first of which is between 0 and 1. Otherwise they refer to
    /// the centres of elements, and no region is smaller than one element.
    pub aligned: bool,
}

impl RegionAlign {
    /// The samples of a region along an axis (rows, then columns) between two coordinates of a box.
    pub fn samples<T: Float>(&self, axis: usize, from: T, to: T) -> Samples<T> {
        let offset = T::of(if self.aligned { 0.5 } else { 0.0 });
        let start = from * T::of(self.scale) - offset;
        let len = to * T::of(self.scale) - offset - start;
        let len = if self.aligned { len } else { len.max(T::one()) };
        let bin = len / T::of(self.bins[axis] as f64);
        let count = self.samples.map_or_else(|| bin.ceil(), |count| T::of(count as f64));
        Samples { start, bin, count: count.max(T::zero()) }
    }
}

/// The positions of the samples of a region along one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Samples<T> {
    /// The start of the first bin.
    pub start: T,
    /// The length of a bin; negative if a box ends before it begins.
    pub bin: T,
    /// The number of samples of each bin, an integer.
    pub count: T,
}

impl<T: Float> Samples<T> {
    /// The position of a sample of a bin.
    pub fn place(&self, bin: usize, sample: usize) -> T {
        let half = T::of(0.5);
        self.start + T::of(bin as f64) * self.bin + (T::of(sample as f64) + half) * self.bin / self.count
    }

    /// The number of samples of a bin.
    pub fn per_bin(&self) -> usize {
        self.count.to_usize().unwrap_or(0)
    }
}

/// The two elements of a non-empty axis around a position, with their weights. A position up to one element outside takes
/// the value of the outermost element; further out, the result is `None`.
pub fn between<T: Float>(place: T, len: usize) -> Option<[(usize, T); 2]> {
    if !(place >= -T::one() && place <= T::of(len as f64)) {
        return None;
    }
    let (place, last) = (place.max(T::zero()), len - 1);
    let first = place.to_usize().map_or(last, |first| first.min(last));
    let second = if first == last { T::zero() } else { place.fract() };
    Some([(first, T::one() - second), ((first + 1).min(last), second)])
}

/// The regions of images N×C×H×W that boxes K×5 (index of the image, left, top, right, bottom) enclose, as K×C×`bins`.
///
/// # Panics
/// Panics if a box refers to an image that does not exist, or the images have no elements.
pub fn region_align<T: Float>(
    input: ArrayView4<'_, T>,
    boxes: ArrayView2<'_, T>,
    how: &RegionAlign,
) -> Array4<T> {
    let (_, channels, height, width) = input.dim();
    Array4::from_shape_fn((boxes.nrows(), channels, how.bins[0], how.bins[1]), |(region, channel, i, j)| {
        let place = boxes.row(region);
        let picture = place[0].to_usize().unwrap_or(usize::MAX);
        let (rows, columns) = (how.samples(0, place[2], place[4]), how.samples(1, place[1], place[3]));
        let mut sum = T::zero();
        for (y, x) in (0..rows.per_bin()).flat_map(|y| (0..columns.per_bin()).map(move |x| (y, x))) {
            let y = between(rows.place(i, y), height).into_iter().flatten();
            for (y, by_row) in y {
                for (x, by_column) in between(columns.place(j, x), width).into_iter().flatten() {
                    sum += input[(picture, channel, y, x)] * by_row * by_column;
                }
            }
        }
        sum / (rows.count * columns.count).max(T::one())
    })
}
