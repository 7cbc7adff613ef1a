//! What the positions of a window see, gathered as rows of factors.

use super::bytes::Bytes;
use super::dots::{CHUNK, Dots};
use crate::blocked::BlockedShape;
use crate::window::Window;
use std::ops::Range;

/// The samples of a convolution, whose channels are innermost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) shape: &'a BlockedShape,
    pub(super) input: Bytes<'a>,
    /// The unsigned byte that pads the input.
    pub(super) zero: u8,
}

impl Source<'_> {
    /// Returns true if each position sees the channels of one pixel, in the order of the pixels.
    pub(super) fn is_pointwise(&self) -> bool {
        let sees_itself = |window: &Window| {
            [window.kernel, window.stride, window.pad_before, window.pad_after] == [1, 1, 0, 0]
        };
        self.shape.groups <= 1 && self.shape.windows.iter().all(sees_itself)
    }

    /// Gathers what some positions, counted in all samples, see of a group of channels, as rows that are `stride` factors
    /// apart. Window rows, window columns and channels are in this order.
    ///
    /// # Safety
    /// The processor must have the instructions of `L`, which must be enabled where the function is inlined.
    ///
    /// # Panics
    /// Panics if the input is too short, or `to` has fewer than `stride` factors per position and [`CHUNK`] more.
    #[inline(always)]
    pub(super) unsafe fn gather<L: Dots>(
        &self,
        positions: Range<usize>,
        group: usize,
        stride: usize,
        to: &mut [u8],
    ) {
        let ([rows, columns], pixel) = (self.shape.outputs(), self.shape.channels);
        if self.is_pointwise() && stride == pixel {
            // SAFETY: the caller's promise, here and below.
            unsafe { self.copy::<L>(positions.start * pixel, positions.len() * pixel, to) };
            return;
        }
        let mut done = positions.start;
        while done < positions.end {
            let (row, column) = (done / columns, done % columns);
            let count = (columns - column).min(positions.end - done);
            let to = &mut to[(done - positions.start) * stride..];
            let row = Row { source: self, sample: row / rows, row: row % rows, group, stride };
            // SAFETY: as above.
            unsafe { row.gather::<L>(column..column + count, to) };
            done += count;
        }
    }

    /// Copies `count` bytes as factors; those that follow in `to` may be overwritten.
    ///
    /// # Safety
    /// As [`Source::gather`].
    #[inline(always)]
    unsafe fn copy<L: Dots>(&self, from: usize, count: usize, to: &mut [u8]) {
        let Bytes { data, flip } = self.input;
        let data = &data[from..];
        let rounded = count.next_multiple_of(CHUNK);
        let whole =
            if rounded <= data.len() && rounded <= to.len() { rounded } else { count / CHUNK * CHUNK };
        assert!(whole <= data.len() && whole <= to.len(), "the input and the factors must be long enough");
        for at in (0..whole).step_by(CHUNK) {
            // SAFETY: the caller's promise; chunks below `whole` are within both slices.
            unsafe { L::copy(data.as_ptr().add(at), flip, to.as_mut_ptr().add(at)) };
        }
        if whole < count {
            for (to, from) in to[whole..count].iter_mut().zip(&data[whole..count]) {
                *to = from ^ flip;
            }
        }
    }
}

/// A row of positions, and the group of channels that they see.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    source: &'a Source<'a>,
    sample: usize,
    row: usize,
    group: usize,
    stride: usize,
}

impl Row<'_> {
    /// Gathers what some columns see.
    ///
    /// # Safety
    /// As [`Source::gather`].
    #[inline(always)]
    unsafe fn gather<L: Dots>(self, columns: Range<usize>, to: &mut [u8]) {
        let Source { shape, zero, .. } = *self.source;
        let (window, width, channels) = (shape.windows[1], shape.lens[1], shape.channels);
        // Taps that are adjacent in memory are copied together.
        let is_run = window.dilation == 1 && shape.groups <= 1;
        let last = window.kernel.saturating_sub(1);
        let inner = window.inside(0, width).start..window.inside(last, width).end;
        let len = window.kernel * (channels / shape.groups.max(1));
        let taps = shape.windows[0].taps(self.row, shape.lens[0]);
        let mut after = (shape.windows[0].kernel - taps.end) * len;
        if L::IS_IN_PAIRS {
            // What follows a row is multiplied by weights of 0, but must not extend the range of factors.
            after += self.stride - shape.windows[0].kernel * len;
        }
        for (index, column) in columns.enumerate() {
            // Copies may overwrite what follows, which is written later.
            let mut to = &mut to[index * self.stride..];
            to[..taps.start * len].fill(zero);
            to = &mut to[taps.start * len..];
            for tap in taps.clone() {
                // SAFETY: the caller's promise.
                unsafe {
                    if is_run && inner.contains(&column) {
                        let from = self.line(tap) + (column * window.stride - window.pad_before) * channels;
                        self.source.copy::<L>(from, len, to);
                    } else {
                        self.gather_line::<L>(tap, column, &mut to[..len]);
                    }
                }
                to = &mut to[len..];
            }
            to[..after].fill(zero);
        }
    }

    /// Where the line of the input begins that a row of taps sees.
    #[inline(always)]
    fn line(self, tap: usize) -> usize {
        let BlockedShape { channels, lens: [height, width], windows: [window, _], .. } = *self.source.shape;
        // The taps are those that see a line.
        let row = (self.row * window.stride + tap * window.dilation).saturating_sub(window.pad_before);
        (self.sample * height + row) * width * channels
    }

    /// Gathers what a row of taps sees, one tap after the other.
    ///
    /// # Safety
    /// As [`Source::gather`].
    #[inline(always)]
    unsafe fn gather_line<L: Dots>(self, tap: usize, column: usize, to: &mut [u8]) {
        let BlockedShape { channels, groups, lens: [_, width], windows: [_, window], .. } =
            *self.source.shape;
        let group = channels / groups.max(1);
        let line = self.line(tap) + self.group * group;
        for (tap, to) in to.chunks_exact_mut(group.max(1)).enumerate() {
            match window.source(column, tap, width) {
                // SAFETY: the caller's promise.
                Some(source) => unsafe { self.source.copy::<L>(line + source * channels, group, to) },
                None => to.fill(self.source.zero),
            }
        }
    }
}
