//! Depthwise convolutions of bytes.
//!
//! The bytes of four rows of the input are interleaved, so that four adjacent bytes belong to one channel, and are multiplied by
//! four weights of a column of the window. Windows at adjacent positions share interleaved bytes; so do two rows of the output
//! where a window has rows to spare, whose weights are 0. A vector that results from interleaving has four channels of each
//! sixteen; weights are packed in the same order, which packing the outputs to bytes undoes.

use super::arms::{Arm, Kind, Task};
use super::dots::{Sums, TILE};
use super::gather::Source;
use super::interleaved::{Conversion, FactorLine, Lines};
use super::reals::Reals;
use super::sizes::QUAD;
use super::weights::{BLOCK, ByteWeights};
use super::writer::{Site, Waiting, Writer, copy};
use crate::parallel::{for_each_number, threads};
use ixion_tensor::{Limits, Result};
use std::cell::Cell;
use std::ops::Range;

/// The most output columns that are computed from interleaved bytes at a time: few enough for these to stay in a
/// first-level cache.
const COLUMNS: usize = 56;

/// The most columns of four rows that windows at such positions see, unless one window has more: interleaved bytes should not
/// take much memory for large windows.
const QUADS: usize = 16 * COLUMNS;

/// The vectors that a column of interleaved bytes consists of.
const VECTORS: usize = 4;

/// The positions for which weights are prepared together, in whole rows.
const POSITIONS: usize = 256;

/// Memory that a thread keeps.
#[derive(Default)]
struct Memory {
    /// Interleaved bytes.
    quads: Vec<u8>,
    /// Weights in the form in which they are multiplied.
    weights: Vec<u8>,
    waiting: Waiting,
}

impl Memory {
    const EMPTY: Self = Self { quads: Vec::new(), weights: Vec::new(), waiting: Waiting::NONE };
}

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory::EMPTY) };
}

/// Computes a depthwise convolution of several samples.
pub(super) fn run(
    kind: Kind,
    source: &Source<'_>,
    weights: &ByteWeights,
    writer: &Writer<'_>,
    samples: usize,
    limits: &Limits,
) -> Result<()> {
    let ([rows, columns], blocks) = (source.shape.outputs(), source.shape.channels.div_ceil(BLOCK));
    let together = rows_together(source);
    let bands = samples * rows.div_ceil(together);
    // Enough pieces for all threads.
    let wanted = if threads() == 1 { 1 } else { 4 * threads() };
    let most = (POSITIONS / (together * columns).max(1)).max(1);
    let height = bands.div_ceil(wanted).clamp(1, most);
    let strips = bands.div_ceil(height);
    let parts = wanted.div_ceil(strips.max(1)).clamp(1, blocks.max(1));
    let part = blocks.div_ceil(parts);
    for_each_number(strips * parts, &|number| {
        limits.check_deadline()?;
        let (band, block) = (number / parts * height, number % parts * part);
        let bands = band..(band + height).min(bands);
        let blocks = block..(block + part).min(blocks);
        let piece = Piece { source, weights, writer, together, bands, blocks };
        // SAFETY: the processor supports the kind, and no two pieces have the same outputs.
        unsafe { kind.run(&piece) };
        Ok(())
    })
}

/// The number of rows of the output that are computed from the same interleaved bytes: two if the rows that the second one
/// sees are among those that are interleaved for the first one.
fn rows_together(source: &Source<'_>) -> usize {
    let high = source.shape.windows[0];
    let spare = high.kernel.next_multiple_of(QUAD) - high.kernel;
    if high.dilation == 1 && spare >= high.stride { 2 } else { 1 }
}

/// Some blocks of channels of some bands, which are rows of the output that are computed together. Bands are counted in all
/// samples.
struct Piece<'a> {
    source: &'a Source<'a>,
    weights: &'a ByteWeights,
    writer: &'a Writer<'a>,
    together: usize,
    bands: Range<usize>,
    blocks: Range<usize>,
}

/// Rows of the output of a sample.
#[derive(Clone, Copy)]
struct Band {
    sample: usize,
    first: usize,
    rows: usize,
}

impl Piece<'_> {
    fn bands(&self) -> impl Iterator<Item = Band> {
        let rows = self.source.shape.outputs()[0];
        let each = rows.div_ceil(self.together).max(1);
        self.bands.clone().map(move |band| {
            let first = band % each * self.together;
            Band { sample: band / each, first, rows: self.together.min(rows - first) }
        })
    }
}

impl Task for &Piece<'_> {
    /// Computes the piece, whose outputs nothing else may use. The last channels are computed with the vectors for few channels if
    /// they fill at most half of the others.
    #[inline(always)]
    unsafe fn run<A: Arm>(self) {
        let mut memory = MEMORY.take();
        let channels = self.source.shape.channels;
        let (all, few) = (A::Lines::CHANNELS, A::FewLines::CHANNELS);
        for block in self.blocks.clone() {
            let end = ((block + 1) * BLOCK).min(channels);
            let mut first = block * BLOCK;
            while first < end {
                // SAFETY: the caller's promise.
                unsafe {
                    if 2 * (end - first) <= all {
                        let channels = first..end.min(first + few);
                        compute_channels::<A::FewLines, A::Reals>(self, channels, &mut memory);
                        first += few;
                    } else {
                        let channels = first..end.min(first + all);
                        compute_channels::<A::Lines, A::Reals>(self, channels, &mut memory);
                        first += all;
                    }
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.writer.write_waiting::<A::Reals>(&mut memory.waiting) };
        MEMORY.set(memory);
    }
}

/// Computes as many channels as vectors of the type have.
///
/// # Safety
/// As [`Task::run`].
#[inline(always)]
unsafe fn compute_channels<L: Lines, R: Reals>(
    piece: &Piece<'_>,
    channels: Range<usize>,
    memory: &mut Memory,
) {
    let shape = piece.source.shape;
    let [high, wide] = shape.windows;
    let columns = shape.outputs()[1];
    let groups = high.kernel.div_ceil(QUAD);
    // SAFETY: instructions are the caller's promise.
    unsafe { prepare::<L>(piece, &channels, &mut memory.weights) };
    let column_bytes = groups * VECTORS * L::BYTES;
    let most = (QUADS / (groups * wide.kernel)).clamp(1, COLUMNS);
    let first_factor = channels.start / BLOCK * BLOCK;
    let factors = piece.weights.ordered_factors().block(first_factor);
    // SAFETY: a block has places for the channels of a whole vector.
    let factors = unsafe { factors.skip((channels.start - first_factor) / VECTORS) };
    let ending = Ending { writer: piece.writer, conversion: piece.writer.conversion(), factors };
    for band in piece.bands() {
        for start in (0..columns).step_by(most) {
            let here = most.min(columns - start);
            let first = start * wide.stride;
            let span = (here - 1) * wide.stride + (wide.kernel - 1) * wide.dilation + 1;
            // Columns that windows share are interleaved once, unless windows see few of those that they span.
            let is_shared = span <= here * wide.kernel;
            let count = if is_shared { span } else { here * wide.kernel };
            let [position, tap] = if is_shared { [wide.stride, wide.dilation] } else { [wide.kernel, 1] };
            let column = |index: usize| match is_shared {
                true => first + index,
                false => first + index / wide.kernel * wide.stride + index % wide.kernel * wide.dilation,
            };
            let quads = &mut memory.quads;
            quads.resize(quads.len().max(count * column_bytes), 0);
            for group in 0..groups {
                // SAFETY: there is room for `count` columns, and instructions are the caller's promise.
                unsafe {
                    let to = quads.as_mut_ptr().add(group * VECTORS * L::BYTES);
                    let columns = (0..count).map(column);
                    interleave::<L>(piece, band, group, channels.clone(), columns, (to, column_bytes));
                }
            }
            let output = (band.sample * shape.outputs()[0] + band.first) * columns + start;
            let site = Site {
                output: output * shape.channels + channels.start,
                stride: shape.channels,
                rows: here,
                columns: channels.len(),
                factors: channels.start,
            };
            // SAFETY: the quads of all columns and the weights have been written. Outputs and instructions are the caller's
            // promise.
            unsafe {
                let distances = [position * column_bytes, tap * column_bytes];
                let (quads, weights) = (quads.as_ptr(), memory.weights.as_ptr().cast());
                let taps = Taps::<L> { quads, weights, groups, columns: wide.kernel, distances };
                let waiting = &mut memory.waiting;
                match band.rows {
                    2 => taps.compute_row::<R, 2>(ending, site, columns * shape.channels, waiting),
                    _ => taps.compute_row::<R, 1>(ending, site, 0, waiting),
                }
            }
        }
    }
}

/// Prepares the weights of some channels: for each row of a band those of each group, column and vector. A row that begins
/// further down in the interleaved rows has its weights as many places later.
///
/// # Safety
/// As [`Task::run`].
#[inline(always)]
unsafe fn prepare<L: Lines>(piece: &Piece<'_>, channels: &Range<usize>, to: &mut Vec<u8>) {
    let [high, wide] = piece.source.shape.windows;
    let groups = high.kernel.div_ceil(QUAD);
    let (block, within) = (channels.start / BLOCK * BLOCK, channels.start % BLOCK);
    let column = BLOCK * QUAD;
    let weights = &piece.weights.weights()[block * groups * QUAD * wide.kernel..];
    let weights = &weights[..groups * wide.kernel * column];
    let quads = |at: usize| {
        let mut quads = [0u32; BLOCK / QUAD];
        let bytes = weights[at..][..L::BYTES].as_chunks::<QUAD>().0;
        for (quad, bytes) in quads.iter_mut().zip(bytes) {
            *quad = u32::from_le_bytes(bytes.map(i8::cast_unsigned));
        }
        quads
    };
    let len = piece.together * groups * wide.kernel * VECTORS * size_of::<L::Weights>();
    to.resize(to.len().max(len), 0);
    let mut place = to.as_mut_ptr().cast::<L::Weights>();
    for row in 0..piece.together {
        let shift = 8 * (row * high.stride) as u32;
        for at in (0..groups * wide.kernel * column).step_by(BLOCK) {
            let at = at + within * QUAD / VECTORS;
            let mut vector = quads(at);
            if shift > 0 {
                // The weights of the four rows before.
                let before = at.checked_sub(wide.kernel * column).map_or([0; BLOCK / QUAD], quads);
                for (quad, before) in vector.iter_mut().zip(before) {
                    *quad = *quad << shift | before >> (u32::BITS - shift);
                }
            }
            let vector = vector.map(u32::to_le);
            // SAFETY: there is room for all weights, and an array of integers is as long as a vector. Instructions are the
            // caller's promise.
            unsafe {
                place.write_unaligned(L::weights(vector.as_ptr().cast()));
                place = place.add(1);
            }
        }
    }
}

/// Interleaves four rows of the input that a group of window rows sees, for some columns of the padded input.
///
/// # Safety
/// `to` must have room for the vectors of a group at each column; columns are as far apart as stated. Otherwise as [`Task::run`].
#[inline(always)]
unsafe fn interleave<L: Lines>(
    piece: &Piece<'_>,
    band: Band,
    group: usize,
    channels: Range<usize>,
    columns: impl Iterator<Item = usize>,
    (to, distance): (*mut u8, usize),
) {
    let Source { shape, input, zero } = *piece.source;
    let ([high, wide], [height, width]) = (shape.windows, shape.lens);
    // With a dilation of 1, the rows that the last row of the band sees follow those that the first one sees. Without columns,
    // there is only padding.
    let seen = high.kernel + (band.rows - 1) * high.stride;
    let padding = [zero ^ input.flip; BLOCK];
    // Rows beyond the windows have weights of 0.
    let pixel = shape.channels;
    let starts = [0, 1, 2, 3].map(|index| group * QUAD + index).map(|tap| {
        let source = high.source(band.first, tap, height).filter(|_| tap < seen && width > 0)?;
        Some((band.sample * height + source) * width * pixel + channels.start)
    });
    let lines = starts.map(|start| match start {
        Some(start) => (input.data[start..].as_ptr(), pixel),
        None => (padding.as_ptr(), 0),
    });
    // In all rows, whole vectors can be read from this many columns.
    let last = starts.iter().flatten().max();
    let whole = last.map_or(width, |last| {
        let room = input.data.len().checked_sub(last + L::CHANNELS);
        room.map_or(0, |room| (room / pixel + 1).min(width))
    });
    let mut copies = [[0u8; BLOCK]; QUAD];
    for (index, column) in columns.enumerate() {
        // Columns before the first one become very large.
        let column = column.wrapping_sub(wide.pad_before);
        let mut lines = match column < width {
            true => lines.map(|(line, distance)| line.wrapping_add(column * distance)),
            false => [padding.as_ptr(); QUAD],
        };
        if (whole..width).contains(&column) {
            for ((line, start), copy) in lines.iter_mut().zip(starts).zip(&mut copies) {
                let Some(start) = start else { continue };
                let bytes = &input.data[start + column * pixel..];
                let count = bytes.len().min(L::CHANNELS);
                copy[..count].copy_from_slice(&bytes[..count]);
                *line = copy.as_ptr();
            }
        }
        // SAFETY: each line has a byte for each channel, and the room is the caller's promise.
        unsafe { L::interleave(lines, input.flip, to.add(index * distance)) };
    }
}

/// The operands of adjacent positions.
#[derive(Clone, Copy)]
struct Taps<L: Lines> {
    quads: *const u8,
    /// Prepared weights, which need not be aligned.
    weights: *const L::Weights,
    groups: usize,
    /// The columns of the window.
    columns: usize,
    /// The distances between the quads of positions and of columns of the window.
    distances: [usize; 2],
}

/// What happens to sums.
#[derive(Clone, Copy)]
struct Ending<'a> {
    writer: &'a Writer<'a>,
    conversion: Option<Conversion>,
    factors: FactorLine,
}

impl<L: Lines> Taps<L> {
    /// Computes the outputs of adjacent positions in a number of rows that are `distance` outputs apart.
    ///
    /// # Safety
    /// The operands must be there, and nothing else may use the outputs. The processor must have the instructions of both types,
    /// which must be enabled where the function is inlined.
    #[inline(always)]
    unsafe fn compute_row<R: Reals, const ROWS: usize>(
        self,
        ending: Ending<'_>,
        site: Site,
        distance: usize,
        waiting: &mut Waiting,
    ) {
        let at_once = (L::POSITIONS / ROWS).max(1);
        let (mut done, mut taps) = (0, self);
        while done < site.rows {
            let count = if site.rows - done >= at_once { at_once } else { 1 };
            let here = Site { output: site.output + done * site.stride, rows: count, ..site };
            // SAFETY: the caller's promise.
            unsafe {
                match count {
                    1 => taps.compute::<R, ROWS, 1>(ending, here, distance, waiting),
                    2 => taps.compute::<R, ROWS, 2>(ending, here, distance, waiting),
                    _ => taps.compute::<R, ROWS, 4>(ending, here, distance, waiting),
                }
            }
            // After the last position, this may be beyond the quads, which end with those that it sees.
            taps.quads = taps.quads.wrapping_add(count * taps.distances[0]);
            done += count;
        }
    }

    /// Computes the outputs of P positions in each row.
    ///
    /// # Safety
    /// As [`Taps::compute_row`].
    #[inline(always)]
    unsafe fn compute<R: Reals, const ROWS: usize, const P: usize>(
        self,
        ending: Ending<'_>,
        site: Site,
        distance: usize,
        waiting: &mut Waiting,
    ) {
        // SAFETY: the caller's promise.
        let sums = unsafe { self.sum::<ROWS, P>() };
        let Some(how) = ending.conversion else {
            let mut tile: Sums = [[0; TILE[1]]; TILE[0]];
            for (row, sums) in sums.into_iter().enumerate() {
                // SAFETY: a row of the tile has places for all channels of four vectors. The rest is the caller's promise.
                unsafe {
                    for (sums, to) in sums.into_iter().zip(&mut tile) {
                        L::store(sums, to.as_mut_ptr());
                    }
                    let output = site.output + row * distance;
                    ending.writer.write::<R>(&tile, Site { output, ..site }, waiting);
                }
            }
            return;
        };
        let last = site.output + (ROWS - 1) * distance + (P - 1) * site.stride;
        let first = ending.writer.bytes(site.output..last + site.columns);
        for (row, sums) in sums.into_iter().enumerate() {
            for (position, [a, b, c, d]) in sums.into_iter().enumerate() {
                // SAFETY: the outputs are there, as checked above. Factors of a block are as far apart as its vectors.
                unsafe {
                    let line = |vector: usize| ending.factors.skip(vector * (BLOCK / VECTORS));
                    let steps = [
                        a.steps(line(0), how),
                        b.steps(line(1), how),
                        c.steps(line(2), how),
                        d.steps(line(3), how),
                    ];
                    let to = first.add(row * distance + position * site.stride);
                    if site.columns >= L::CHANNELS {
                        L::pack(steps, how, to);
                    } else {
                        let mut few = [0; BLOCK];
                        L::pack(steps, how, few.as_mut_ptr());
                        copy(few.as_ptr(), to, site.columns);
                    }
                }
            }
        }
    }

    /// Computes the sums of P positions in each row. Loops run over indices, because iterators over arrays would be compiled
    /// for each P.
    ///
    /// # Safety
    /// As [`Taps::compute_row`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "see above")]
    unsafe fn sum<const ROWS: usize, const P: usize>(self) -> [[[L; VECTORS]; P]; ROWS] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [[[L::zero(); VECTORS]; P]; ROWS];
            let mut weights = self.weights;
            let row_weights = self.groups * self.columns * VECTORS;
            for group in 0..self.groups {
                for column in 0..self.columns {
                    let quads = self.quads.add(column * self.distances[1] + group * VECTORS * L::BYTES);
                    for vector in 0..VECTORS {
                        for row in 0..ROWS {
                            let factors = weights.add(row * row_weights + vector).read_unaligned();
                            for p in 0..P {
                                let quads = quads.add(p * self.distances[0] + vector * L::BYTES);
                                sums[row][p][vector] = sums[row][p][vector].add_products(quads, factors);
                            }
                        }
                    }
                    weights = weights.add(VECTORS);
                }
            }
            sums
        }
    }
}
