//! Columns of an image (im2col): what each tap of a window sees, with one row per channel and tap, and one column per
//! position.
//!
//! A convolution gathers columns from its input and multiplies them; a transposed convolution multiplies its input into
//! columns and adds them to its output. Both iterate over the same runs.

use super::Float;
use super::window::Window;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use num_traits::Zero;
use std::cell::Cell;
use std::ops::Range;

/// The target size of a tile of columns in bytes: a part of a typical second-level cache, which the other operands need
/// as well.
pub(super) const TILE_BYTES: usize = 512 << 10;

/// A window that slides over the planes of an image of up to three axes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns<'a> {
    /// Lengths of a plane's axes.
    pub(super) lens: &'a [usize],
    /// Number of positions along each axis.
    pub(super) positions: &'a [usize],
    /// The window along each axis.
    pub(super) windows: &'a [Window],
}

/// Consecutive positions along the last axis at which a tap sees elements of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The first position, relative to the start of the range.
    position: usize,
    /// Its element in the plane; the elements of the other positions follow at the stride of the last window.
    element: usize,
    count: usize,
}

thread_local! {
    /// A buffer for runs, which each thread keeps so that it is allocated once.
    static RUNS: Cell<Vec<Run>> = const { Cell::new(Vec::new()) };
}

impl Columns<'_> {
    /// Writes the columns of a range of positions as rows of `range.len()` elements; 0 in the padding.
    pub(super) fn gather<T: Copy + Zero>(&self, image: &[T], range: Range<usize>, columns: &mut [T]) {
        let (taps, pixels, width) = (self.taps(), self.pixels(), range.len());
        if pixels == 0 {
            // There is only padding.
            columns.fill(T::zero());
            return;
        }
        let mut runs = RUNS.take();
        for tap in 0..taps {
            self.find_runs(tap, range.clone(), &mut runs);
            let padded = runs.iter().map(|run| run.count).sum::<usize>() < width;
            let lines = columns.chunks_exact_mut(width.max(1)).skip(tap).step_by(taps);
            for (plane, line) in image.chunks_exact(pixels.max(1)).zip(lines) {
                if padded {
                    line.fill(T::zero());
                }
                runs.iter().for_each(|run| self.read(run, plane, line));
            }
        }
        RUNS.set(runs);
    }

    /// Adds the columns of a range of positions to the elements of the image that the taps see there.
    pub(super) fn scatter<T: Float>(&self, columns: &[T], range: Range<usize>, image: &mut [T]) {
        let (taps, pixels, width) = (self.taps(), self.pixels(), range.len());
        let mut runs = RUNS.take();
        for tap in 0..taps {
            self.find_runs(tap, range.clone(), &mut runs);
            let lines = columns.chunks_exact(width.max(1)).skip(tap).step_by(taps);
            for (plane, line) in image.chunks_exact_mut(pixels.max(1)).zip(lines) {
                runs.iter().for_each(|run| self.add(run, line, plane));
            }
        }
        RUNS.set(runs);
    }

    fn read<T: Copy>(&self, run: &Run, plane: &[T], line: &mut [T]) {
        let (line, plane) = (&mut line[run.position..][..run.count], &plane[run.element..]);
        match self.stride() {
            1 => line.copy_from_slice(&plane[..run.count]),
            stride => line.iter_mut().zip(plane.iter().step_by(stride)).for_each(|(to, &from)| *to = from),
        }
    }

    fn add<T: Float>(&self, run: &Run, line: &[T], plane: &mut [T]) {
        let (line, plane) = (&line[run.position..][..run.count], &mut plane[run.element..]);
        match self.stride() {
            1 => plane.iter_mut().zip(line).for_each(|(to, &from)| *to += from),
            stride => plane.iter_mut().step_by(stride).zip(line).for_each(|(to, &from)| *to += from),
        }
    }

    /// Finds the runs that a tap sees in a range of positions.
    fn find_runs(&self, tap: usize, range: Range<usize>, found: &mut Vec<Run>) {
        let taps = unravel(tap, self.windows.iter().map(|window| window.kernel));
        let outer = self.positions.len() - 1;
        let (len, window, positions) = (self.lens[outer], self.windows[outer], self.positions[outer].max(1));
        let inside = window.inside(taps[outer], len);
        let rows = range.start / positions..range.end.div_ceil(positions);
        let runs = rows.filter_map(|row| {
            let first = range.start.max(row * positions + inside.start);
            let end = range.end.min(row * positions + inside.end.min(positions));
            let count = end.checked_sub(first).filter(|&count| count > 0)?;
            let along = window.source(first - row * positions, taps[outer], len)?;
            let element = self.row(row, &taps)? * len + along;
            Some(Run { position: first - range.start, element, count })
        });
        found.clear();
        found.extend(runs);
    }

    /// The row of the plane that a tap sees at a row of positions, unless it sees the padding.
    fn row(&self, row: usize, taps: &[usize; 3]) -> Option<usize> {
        let outer = self.positions.len() - 1;
        let places = unravel(row, self.positions[..outer].iter().copied());
        let axes = self.windows[..outer].iter().zip(self.lens).zip(places).zip(taps);
        axes.into_iter().try_fold(0, |index, (((window, &len), place), &tap)| {
            Some(index * len + window.source(place, tap, len)?)
        })
    }

    fn stride(&self) -> usize {
        self.windows.last().map_or(1, |window| window.stride)
    }

    fn taps(&self) -> usize {
        self.windows.iter().map(|window| window.kernel).product()
    }

    fn pixels(&self) -> usize {
        self.lens.iter().product()
    }
}

/// Row-major coordinates of a flat index.
fn unravel(mut index: usize, lens: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator) -> [usize; 3] {
    let mut coordinates = [0; 3];
    let last = lens.len();
    for (axis, len) in (0..last).rev().zip(lens.rev()) {
        coordinates[axis] = index % len.max(1);
        index /= len.max(1);
    }
    coordinates
}

/// A `rows`×`cols` view of `data` whose rows are `stride` elements apart; a matrix without elements needs no data.
///
/// # Panics
/// Panics if `data` is too short; callers check this beforehand.
pub(super) fn matrix<T>(data: &[T], rows: usize, cols: usize, stride: usize) -> ArrayView2<'_, T> {
    let view = match rows == 0 || cols == 0 {
        true => ArrayView2::from_shape((rows, cols), &[]),
        false => ArrayView2::from_shape((rows, cols).strides((stride, 1)), data),
    };
    view.unwrap_or_else(|error| unreachable!("a matrix outside of its slice: {error}"))
}

/// As [`matrix`], for writing.
pub(super) fn matrix_mut<T>(data: &mut [T], rows: usize, cols: usize, stride: usize) -> ArrayViewMut2<'_, T> {
    let view = match rows == 0 || cols == 0 {
        true => ArrayViewMut2::from_shape((rows, cols), &mut []),
        false => ArrayViewMut2::from_shape((rows, cols).strides((stride, 1)), data),
    };
    view.unwrap_or_else(|error| unreachable!("a matrix outside of its slice: {error}"))
}
