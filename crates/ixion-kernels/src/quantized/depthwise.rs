//! Depthwise convolutions of bytes.
//!
//! The bytes of four rows of the input are interleaved, so that four adjacent bytes belong to one channel, and are multiplied by
//! four weights of a column of the window. Windows at adjacent positions share interleaved bytes; so do two rows of the output
//! where a window has rows to spare, whose weights are 0. A vector that results from interleaving has four channels of each
//! sixteen; weights are packed in the same order, which packing the outputs to bytes undoes.
//!
//! AVX2 multiplies bytes in pairs, whose sums must fit 16 bits: they do if no byte is above 127. If the zero point is above 127,
//! 128 is subtracted from all bytes, and sums start with the products of 128: what follows a rectifier is at most 127 then if it is
//! signed. Once other bytes are found, all are multiplied as 16-bit integers.

mod taps;

use super::arms::{Arm, Kind, Task};
use super::bytes::SIGN;
use super::gather::Source;
use super::interleaved::{Lines, VECTORS};
use super::reals::Reals;
use super::sizes::QUAD;
use super::weights::{BLOCK, ByteWeights};
use super::writer::{Site, Waiting, Writer};
use crate::parallel::{for_each_number, threads};
use ixion_tensor::{Limits, Result};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use taps::{Ending, Taps};

/// The most output columns that are computed from interleaved bytes at a time: few enough for these to stay in a
/// first-level cache.
const COLUMNS: usize = 56;

/// The most columns of four rows that windows at such positions see, unless one window has more: interleaved bytes should not
/// take much memory for large windows.
const QUADS: usize = 16 * COLUMNS;

/// The positions for which weights are prepared together, in whole rows.
const POSITIONS: usize = 256;

/// Memory that a thread keeps.
#[derive(Default)]
struct Memory {
    /// Interleaved bytes.
    quads: Vec<u8>,
    /// Weights in the form in which they are multiplied.
    weights: Vec<u8>,
    /// What sums start with.
    starts: Vec<u8>,
    waiting: Waiting,
}

impl Memory {
    const EMPTY: Self =
        Self { quads: Vec::new(), weights: Vec::new(), starts: Vec::new(), waiting: Waiting::NONE };
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
    let has_others = &AtomicBool::new(false);
    for_each_number(strips * parts, &|number| {
        limits.check_deadline()?;
        let (band, block) = (number / parts * height, number % parts * part);
        let bands = band..(band + height).min(bands);
        let blocks = block..(block + part).min(blocks);
        let piece = Piece { source, has_others, weights, writer, together, bands, blocks };
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
    /// Whether bytes were found that are above 127 after the subtraction.
    has_others: &'a AtomicBool,
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
    /// What is subtracted from bytes that are multiplied in pairs: 128 if the zero point is as large, or else nothing.
    fn subtracted(&self) -> u8 {
        self.source.zero & SIGN
    }

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
    /// they fill at most half of the others. Bytes are multiplied in pairs, if the arm does so, until some are found that are too
    /// large.
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
                    if A::HalvedLines::IS_IN_PAIRS && !self.has_others.load(Ordering::Relaxed) {
                        let channels = first..end.min(first + A::HalvedLines::CHANNELS);
                        if compute_channels::<A::HalvedLines, A::Reals>(self, channels, &mut memory) {
                            first += A::HalvedLines::CHANNELS;
                            continue;
                        }
                        self.has_others.store(true, Ordering::Relaxed);
                    }
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

/// Computes as many channels as vectors of the type have. Returns false if they have bytes that the vectors cannot multiply; the
/// outputs must be computed again then.
///
/// # Safety
/// As [`Task::run`].
#[inline(always)]
unsafe fn compute_channels<L: Lines, R: Reals>(
    piece: &Piece<'_>,
    channels: Range<usize>,
    memory: &mut Memory,
) -> bool {
    let shape = piece.source.shape;
    let [high, wide] = shape.windows;
    let columns = shape.outputs()[1];
    let groups = high.kernel.div_ceil(QUAD);
    // SAFETY: instructions are the caller's promise.
    unsafe {
        prepare::<L>(piece, &channels, &mut memory.weights);
        if L::IS_IN_PAIRS {
            prepare_starts::<L>(piece, memory);
        }
    }
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
            if L::IS_IN_PAIRS {
                let bits = quads[..count * column_bytes].iter().fold(0, |bits, byte| bits | byte);
                if bits & SIGN != 0 {
                    return false;
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
                let starts = memory.starts.as_ptr().cast();
                let taps = Taps::<L> { quads, weights, starts, groups, columns: wide.kernel, distances };
                let waiting = &mut memory.waiting;
                match band.rows {
                    2 => taps.compute_row::<R, 2>(ending, site, columns * shape.channels, waiting),
                    _ => taps.compute_row::<R, 1>(ending, site, 0, waiting),
                }
            }
        }
    }
    true
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

/// Prepares what the sums of each row of a band and each vector start with: the products of what was subtracted from all bytes.
///
/// # Safety
/// The weights must have been prepared. Otherwise as [`Task::run`].
#[inline(always)]
unsafe fn prepare_starts<L: Lines>(piece: &Piece<'_>, memory: &mut Memory) {
    let [high, wide] = piece.source.shape.windows;
    let taps = high.kernel.div_ceil(QUAD) * wide.kernel;
    let len = piece.together * VECTORS * size_of::<L>();
    memory.starts.resize(memory.starts.len().max(len), 0);
    let (weights, starts): (*const L::Weights, *mut L) =
        (memory.weights.as_ptr().cast(), memory.starts.as_mut_ptr().cast());
    let bytes = [piece.subtracted(); BLOCK];
    for row in 0..piece.together {
        for vector in 0..VECTORS {
            // SAFETY: there is room for all starts, and a block has as many channels as a vector has bytes, or more. The rest is
            // the caller's promise.
            unsafe {
                let mut sum = L::zero();
                for tap in 0..taps {
                    let weights = weights.add((row * taps + tap) * VECTORS + vector).read_unaligned();
                    sum = sum.add_products(bytes.as_ptr(), weights);
                }
                starts.add(row * VECTORS + vector).write_unaligned(sum);
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
    // Smaller bytes than what is subtracted become larger ones than are multiplied in pairs.
    let flip = if L::IS_IN_PAIRS { input.flip ^ piece.subtracted() } else { input.flip };
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
    // Beyond the input there is padding, whose bytes can be multiplied in pairs.
    let mut copies = [padding; QUAD];
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
        unsafe { L::interleave(lines, flip, to.add(index * distance)) };
    }
}
