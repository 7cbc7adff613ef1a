//! Regions of images pooled to one size: each bin is the largest element or the mean of those that it covers.

use super::Float;
use super::parallel::for_each_item;
use super::regions::{Region, by_position};
use ixion_tensor::{LimitError, Limits};
use std::ops::Range;

/// How a region is divided into rows and columns of bins, which begin and end between elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegionBins {
    /// Rows and columns of bins.
    pub bins: [usize; 2],
    /// The factor from coordinates of boxes to those of the image.
    pub scale: f64,
}

/// The elements of an axis that each bin covers.
type Covered = Vec<Range<usize>>;

impl RegionBins {
    /// The elements that the bins of a box cover along an axis (rows, then columns), as far as they are below `reach`. The box
    /// has `more` elements than the distance between its edges, which are rounded, and at least one.
    fn covered<T: Float>(&self, axis: usize, [from, to]: [T; 2], more: i64, reach: usize) -> Covered {
        let place = |edge: T| whole((edge * T::of(self.scale)).round());
        let (start, reach) = (place(from), i64::try_from(reach).unwrap_or(i64::MAX));
        let len = place(to).saturating_sub(start).saturating_add(more).max(1);
        let bin = T::of(len as f64) / T::of(self.bins[axis] as f64);
        let edge = |edge: T| whole(edge).saturating_add(start).clamp(0, reach) as usize;
        let covered = |index: usize| {
            edge((T::of(index as f64) * bin).floor())..edge((T::of((index + 1) as f64) * bin).ceil())
        };
        (0..self.bins[axis]).map(covered).collect()
    }
}

/// A number without a fraction as an integer; 0 for NaN.
fn whole<T: Float>(number: T) -> i64 {
    number.to_f64().unwrap_or(0.0) as i64
}

/// The largest elements of regions of images C×H×W. The outputs are K×C×`bins`: the elements, and their positions in the
/// plane. `region` returns the K regions by their indices. A bin that covers nothing is 0, and one without an element above
/// the lowest `f32` is that number; both have the position -1.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn region_max<'a, T: Float>(
    how: &RegionBins,
    [channels, height, width]: [usize; 3],
    region: impl Fn(usize) -> Region<'a, T> + Sync,
    (output, places): (&mut [T], &mut [i32]),
    limits: &Limits,
) -> Result<(), LimitError> {
    let plane = how.bins[0] * how.bins[1];
    let each = (channels * plane).max(1);
    let regions = output.chunks_exact_mut(each).zip(places.chunks_exact_mut(each)).enumerate();
    for_each_item(regions, &|(index, (output, places))| {
        let Region { picture, edges: [left, top, right, bottom] } = region(index);
        let rows = how.covered(0, [top, bottom], 1, height);
        let columns = how.covered(1, [left, right], 1, width);
        let planes = picture.chunks_exact((height * width).max(1));
        let outputs = output.chunks_exact_mut(plane).zip(places.chunks_exact_mut(plane));
        for (picture, (output, places)) in planes.zip(outputs) {
            limits.check_deadline()?;
            let bins = rows.iter().flat_map(|rows| columns.iter().map(move |columns| (rows, columns)));
            for ((output, place), (rows, columns)) in output.iter_mut().zip(places).zip(bins) {
                (*output, *place) = largest(picture, width, rows, columns);
            }
        }
        Ok(())
    })
}

/// The largest element of a part of a plane, and its position.
fn largest<T: Float>(plane: &[T], width: usize, rows: &Range<usize>, columns: &Range<usize>) -> (T, i32) {
    if rows.is_empty() || columns.is_empty() {
        return (T::zero(), -1);
    }
    let (mut best, mut place) = (T::of(f64::from(f32::MIN)), -1);
    for y in rows.clone() {
        for x in columns.clone() {
            let element = plane[y * width + x];
            if element > best {
                (best, place) = (element, i32::try_from(y * width + x).unwrap_or(i32::MAX));
            }
        }
    }
    (best, place)
}

/// The means of regions of images C×H×W, every bin of which is read from a channel of its own: element n of the output of a
/// region, which is C elements in rows and columns of `bins`, is read from channel n of the image. `region` returns the K
/// regions by their indices. Bins do not reach the last row and column, as in torchvision; one that covers nothing is 0.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn region_mean_by_position<'a, T: Float>(
    how: &RegionBins,
    [channels, height, width]: [usize; 3],
    region: impl Fn(usize) -> Region<'a, T> + Sync,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let covered = |[left, top, right, bottom]: [T; 4]| {
        let rows = how.covered(0, [top, bottom], 0, height.saturating_sub(1));
        Ok(Some([rows, how.covered(1, [left, right], 0, width.saturating_sub(1))]))
    };
    let bin = |[rows, columns]: &[Covered; 2], plane: &[T], [row, column]: [usize; 2]| {
        mean(plane, width, &rows[row], &columns[column])
    };
    by_position(how.bins, [channels, height, width], region, covered, bin, output, limits)
}

/// The mean of a part of a plane; 0 if the part is empty.
fn mean<T: Float>(plane: &[T], width: usize, rows: &Range<usize>, columns: &Range<usize>) -> T {
    if rows.is_empty() || columns.is_empty() {
        return T::zero();
    }
    let parts = rows.clone().map(|y| &plane[y * width..][columns.clone()]);
    let sum = parts.fold(T::zero(), |sum, part| part.iter().fold(sum, |sum, &x| sum + x));
    sum / T::of((rows.len() * columns.len()) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::on_threads;

    const BOXES: [[f64; 4]; 4] =
        [[1.0, 1.0, 6.0, 5.0], [-3.0, 2.5, 3.0, 2.5], [20.0, 0.0, 30.0, 4.0], [6.0, 5.0, 1.0, 1.0]];

    /// Numbers that look random, in planes of 4×5.
    fn picture(channels: usize) -> Vec<f64> {
        (0..channels * 20).map(|index| (index * 7 % 23) as f64 - 5.0).collect()
    }

    /// The results are those of torchvision.
    #[test]
    fn largest_elements() {
        let (picture, how) = (picture(1), RegionBins { bins: [2, 2], scale: 0.5 });
        let run = || {
            let (mut output, mut places) = (vec![7.0; 16], vec![7; 16]);
            let region = |index: usize| Region { picture: &picture, edges: BOXES[index] };
            let outputs = (&mut output[..], &mut places[..]);
            region_max(&how, [1, 4, 5], region, outputs, &Limits::default()).unwrap();
            (output, places)
        };
        let ((output, places), pooled) = on_threads(&[3], run);
        assert_eq!(
            output,
            [14.0, 17.0, 15.0, 17.0, 7.0, 14.0, 7.0, 14.0, 0.0, 0.0, 0.0, 0.0, 6.0, 6.0, 6.0, 6.0]
        );
        assert_eq!(places, [6, 13, 16, 13, 5, 6, 5, 6, -1, -1, -1, -1, 18, 18, 18, 18]);
        assert_eq!(pooled, [(output, places)]);
    }

    #[test]
    fn means_by_position() {
        let (picture, how) = (picture(4), RegionBins { bins: [2, 2], scale: 0.5 });
        let run = || {
            let mut output = vec![7.0; 16];
            let region = |index: usize| Region { picture: &picture, edges: BOXES[index] };
            region_mean_by_position(&how, [4, 4, 5], region, &mut output, &Limits::default()).unwrap();
            output
        };
        let (output, pooled) = on_threads(&[3], run);
        assert_eq!(
            output,
            [14.0, 0.0, 7.0, 16.0, 0.0, 12.5, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(pooled, [output]);
    }

    #[test]
    fn boxes_and_elements_that_are_not_finite() {
        let how = RegionBins { bins: [1, 1], scale: 1.0 };
        let nan = [f32::NAN, f32::NEG_INFINITY, f32::NAN, f32::NEG_INFINITY];
        let (mut output, mut place) = ([0.0f32], [0]);
        let region = |_| Region { picture: &nan, edges: [0.0, 0.0, 1.0, 1.0] };
        let outputs = (&mut output[..], &mut place[..]);
        region_max(&how, [1, 2, 2], region, outputs, &Limits::default()).unwrap();
        assert_eq!((output, place), ([f32::MIN], [-1]));
        for far in [1e30, f32::INFINITY, f32::NAN, f32::NEG_INFINITY] {
            let region = |_| Region { picture: &nan, edges: [-far, 0.0, far, far] };
            let outputs = (&mut output[..], &mut place[..]);
            region_max(&how, [1, 2, 2], region, outputs, &Limits::default()).unwrap();
            region_mean_by_position(&how, [1, 2, 2], region, &mut output, &Limits::default()).unwrap();
        }
    }
}
