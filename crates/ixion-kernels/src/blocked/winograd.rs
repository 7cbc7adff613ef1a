//! 3×3 convolution with Winograd's algorithm, which saves multiplications at the cost of additions.
//!
//! Results are computed in tiles of M×M. The (M + 2)² input values that a tile sees are transformed and multiplied by as
//! many transformed weights, and the sums over all channels are transformed back: instead of 9 products per result, there
//! are ((M + 2) / M)². For each of the (M + 2)² values of a transformed tile, this is a matrix product whose rows are
//! tiles.
//!
//! Tiles are processed in strips, whose transformed values stay in the second-level cache from the first step to the
//! last. A strip may span several samples: those of few tiles would otherwise be products of few rows, which take as long
//! as reading their weights.
//!
//! The transforms cost accuracy: they cancel large sums, whose rounding errors remain. Nearly all of the error is that of
//! the sums over the channels, which are therefore computed in parts of few channels. Mean errors, in multiples of those
//! of direct convolution, simulated with sums over 64, 128 and 512 channels:
//!
//! | tile | uniform noise around 0 | smooth values ≥ 0, half of them 0 | smooth values around 1 |
//! |---|---|---|---|
//! | 2×2 | 1.4, 1.3, 1.2 | 1.4, 1.5, 1.3 | 0.9, 1.1, 1.0 |
//! | 4×4 | 2.9, 2.8, 2.8 | 2.4, 2.5, 2.2 | 1.0, 1.0, 1.0 |
//! | 6×6 | 14, 14, 13 | 10, 11, 9 | 2.8, 3.0, 2.9 |

mod transform;
mod weights;

use super::BlockedShape;
use crate::isa::{Isa, isa_for};
use crate::packed::{Factors, Results, Size, SumEpilogue, Target, multiply_alone};
use crate::parallel::{for_each_number, threads};
use ixion_tensor::Limits;
use ixion_tensor::Result;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use transform::{Inputs, Outputs, Transforms, transforms};
pub use weights::WinogradWeights;

/// The maximum number of channels in a block, and of input values along an axis of a tile.
const MAX_LANES: usize = 16;
const MAX_PLACES: usize = 8;

/// Bytes of transformed values that stay in the second-level cache; and the maximum for larger weights, so that these are
/// read less often.
const CACHED: usize = 640 << 10;
const MAX_CACHED: usize = 2 << 20;

/// The size of a tile: rows and columns of results that are computed from the same transformed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tile {
    /// 2×2: 2.25 times fewer products.
    Two,
    /// 4×4: 4 times fewer.
    Four,
    /// 6×6: 5.06 times fewer.
    Six,
}

impl Tile {
    /// All sizes.
    pub const ALL: [Self; 3] = [Self::Two, Self::Four, Self::Six];

    /// Results along an axis.
    pub const fn side(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Six => 6,
        }
    }

    /// Input values along an axis that a tile sees.
    const fn places(self) -> usize {
        self.side() + 2
    }

    /// Values of a transformed tile.
    const fn numbers(self) -> usize {
        self.places() * self.places()
    }

    /// The number of channels whose products are added one after the other, before their sum is added to those of other
    /// channels. Parts of 16 channels would give 4×4 tiles 0.8 to 1 times the error, but their products would take 12 %
    /// longer.
    const fn terms(self) -> usize {
        match self {
            Self::Four => 32,
            Self::Two | Self::Six => 64,
        }
    }
}

/// A convolution of one shape.
#[derive(Debug)]
pub struct WinogradConv {
    shape: BlockedShape,
    /// The number of samples that are convolved together.
    samples: usize,
    block: usize,
    tile: Tile,
    transforms: Transforms,
    /// Blocks of input channels, and the offset of each within the plane of one value of the transformed tiles.
    planes: usize,
    pieces: Vec<usize>,
    out_planes: usize,
    /// Whether the weights stay in the second-level cache as well.
    has_few_weights: bool,
    /// The maximum number of tiles per strip, and the distance between adjacent blocks of channels.
    max_tiles: usize,
    row: usize,
}

/// Memory that threads write at disjoint positions.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// SAFETY: it points to a slice that stays borrowed while it is used; threads write disjoint elements.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn at(self, place: usize) -> *mut f32 {
        self.0.wrapping_add(place)
    }
}

/// The operands of the convolution of all samples.
struct Operands<'a> {
    input: &'a [f32],
    weights: &'a WinogradWeights,
    output: Shared,
    epilogue: &'a SumEpilogue<'a>,
    limits: &'a Limits,
}

/// Consecutive tiles within one row of tiles.
struct Segment {
    /// The position of the first tile within the strip.
    at: usize,
    sample: usize,
    row: usize,
    columns: Range<usize>,
}

impl WinogradConv {
    /// Returns true if the algorithm applies to the windows and groups of this shape.
    pub fn suits(shape: &BlockedShape) -> bool {
        let is_simple = |axis: usize| {
            let window = shape.windows[axis];
            window.kernel == 3 && window.stride == 1 && window.dilation == 1
        };
        shape.groups == 1 && is_simple(0) && is_simple(1)
    }

    /// Prepares everything that depends on the number of samples and the size of the planes. Returns `None` if there are no
    /// kernels for blocks of `block` channels, or if [`WinogradConv::suits`] is false.
    pub fn new(shape: BlockedShape, samples: usize, (tile, block): (Tile, usize)) -> Option<Self> {
        Some(Self::for_isa(isa_for(block).filter(|_| Self::suits(&shape))?, (shape, samples), tile))
    }

    fn for_isa(isa: Isa, (shape, samples): (BlockedShape, usize), tile: Tile) -> Self {
        let block = isa.lanes();
        let (planes, out_planes) = (shape.channels.div_ceil(block), shape.out_channels.div_ceil(block));
        let bytes =
            |channels: usize| tile.numbers().saturating_mul(channels).saturating_mul(size_of::<f32>());
        let weights = bytes(shape.channels.saturating_mul(shape.out_channels));
        let [rows, columns] = shape.outputs().map(|len| len.div_ceil(tile.side()));
        let tiles = rows.saturating_mul(columns).saturating_mul(samples).max(1);
        let max_tiles = weights.clamp(CACHED, MAX_CACHED) / bytes((planes + out_planes) * block).max(1);
        let max_tiles = max_tiles.clamp(1, tiles);
        // An odd distance spreads the values that are written together over all sets of the first-level cache.
        let row = (max_tiles | 1) * block;
        let pieces = (0..planes).map(|plane| plane * row).collect();
        let transforms = transforms(isa, tile.side());
        let has_few_weights = weights <= CACHED;
        Self {
            shape,
            samples,
            block,
            tile,
            transforms,
            planes,
            pieces,
            out_planes,
            has_few_weights,
            max_tiles,
            row,
        }
    }

    /// The number of samples that are convolved together.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The tiles of all samples.
    fn count(&self) -> usize {
        let [rows, columns] = self.tiles();
        rows.saturating_mul(columns).saturating_mul(self.samples)
    }

    /// Rows and columns of the tiles of a sample.
    fn tiles(&self) -> [usize; 2] {
        self.shape.outputs().map(|len| len.div_ceil(self.tile.side()))
    }

    /// The distance between the planes of adjacent values of transformed tiles, before and after the product.
    fn distances(&self) -> [usize; 2] {
        [self.planes, self.out_planes]
            .map(|planes| planes.saturating_mul(self.row).saturating_add(self.block))
    }

    /// The number of elements of scratch memory that [`WinogradConv::run`] needs on one thread.
    pub fn least_scratch(&self) -> usize {
        let [before, after] = self.distances();
        before.saturating_add(after).saturating_mul(self.tile.numbers())
    }

    /// The number of elements of scratch memory that the threads of the current pool can make use of. For a larger input with
    /// as many channels, it is no smaller, so that memory for the largest input suffices for all: strips hold as many tiles or
    /// more, and once there are enough strips for all threads, there always are.
    pub fn scratch(&self) -> usize {
        let threads = threads();
        self.least_scratch().saturating_mul(if self.strips(threads) < threads { 1 } else { threads })
    }

    /// The number of strips for `threads` threads. If it is smaller than `threads`, all threads compute each strip
    /// together, because each of them would otherwise have to read all weights from a distant cache.
    fn strips(&self, threads: usize) -> usize {
        let tiles = self.count();
        let strips = tiles.div_ceil(self.max_tiles);
        match strips >= threads || self.has_few_weights {
            true => strips.next_multiple_of(threads.max(1)).min(tiles),
            false => strips,
        }
    }

    /// Convolves all samples, on as many threads of the current pool as there is scratch memory for.
    ///
    /// # Errors
    /// Fails if the deadline has passed or the epilogue fails.
    ///
    /// # Panics
    /// Panics if a slice is shorter than its shape requires, scratch is shorter than [`WinogradConv::least_scratch`], or
    /// the weights have another shape.
    pub fn run(
        &self,
        input: &[f32],
        weights: &WinogradWeights,
        output: &mut [f32],
        scratch: &mut [f32],
        epilogue: &SumEpilogue<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let [inputs, outputs] = self.shape.sample(self.block).map(|len| len.saturating_mul(self.samples));
        let tiles = self.count();
        if outputs == 0 || tiles == 0 {
            return Ok(());
        }
        assert!(
            weights.tile == self.tile
                && weights.is_of(self.shape.channels, self.shape.out_channels, self.block),
            "the weights must have the shape of the convolution"
        );
        assert!(epilogue.added.is_none_or(|added| added.len() >= outputs), "too few values to add");
        let output = Shared(output[..outputs].as_mut_ptr());
        let operands = Operands { input: &input[..inputs], weights, output, epilogue, limits };
        let slot = self.least_scratch();
        assert!(scratch.len() >= slot, "scratch memory is too short");
        let slots = threads().min(scratch.len() / slot);
        let strips = self.strips(slots);
        let strip = |at: usize| tiles * at / strips..tiles * (at + 1) / strips;
        if slots == 1 || strips < slots {
            let (scratch, is_shared) = (&mut scratch[..slot], threads() > 1);
            return (0..strips).try_for_each(|at| self.strip(&operands, strip(at), scratch, is_shared));
        }
        let (next, scratch) = (AtomicUsize::new(0), Shared(scratch.as_mut_ptr()));
        each(slots, true, &|at| {
            // SAFETY: there is memory for `slots` slots, and each is used by one call only.
            let scratch = unsafe { std::slice::from_raw_parts_mut(scratch.at(at * slot), slot) };
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= strips {
                    return Ok(());
                }
                self.strip(&operands, strip(at), scratch, false)?;
            }
        })
    }

    /// Convolves some tiles with [`WinogradConv::least_scratch`] elements of scratch memory. If `is_shared`, threads
    /// share the work.
    fn strip(
        &self,
        operands: &Operands<'_>,
        tiles: Range<usize>,
        scratch: &mut [f32],
        is_shared: bool,
    ) -> Result<()> {
        assert!(tiles.len() <= self.max_tiles && scratch.len() >= self.least_scratch());
        let [before, after] = self.distances();
        let (seen, sums) = scratch.split_at_mut(before * self.tile.numbers());
        let (seen_at, sums_at) = (Shared(seen.as_mut_ptr()), Shared(sums.as_mut_ptr()));
        each(self.planes, is_shared, &|plane| {
            operands.limits.check_deadline()?;
            self.transform_input(operands.input, tiles.clone(), plane, seen_at);
            Ok(())
        })?;
        let size = Size { lines: 1, rows: tiles.len() };
        let target = Target { row: self.block, line: 0, panel: self.row, last: self.block };
        let rest = self.shape.channels % self.block;
        each(self.tile.numbers(), is_shared, &|number| {
            let factors = Factors {
                data: &seen[number * before..][..before],
                pieces: &self.pieces,
                piece: self.block,
                last: if rest > 0 { (1, rest) } else { (0, 0) },
                row: self.block,
                line: 0,
            };
            let panels = operands.weights.of_number(number).view();
            let (output, terms) = (sums_at.at(number * after), self.tile.terms());
            let results = Results { output, len: after, target, is_far: true, terms };
            // SAFETY: there is memory for the sums of each value, and nothing else writes these.
            unsafe { multiply_alone(panels, &factors, size, results, operands.limits) }
        })?;
        let sums = &*sums;
        each(self.out_planes, is_shared, &|plane| {
            operands.limits.check_deadline()?;
            self.store(operands, tiles.clone(), plane, sums)
        })
    }

    /// Splits a range of tiles by rows of tiles.
    fn segments(&self, tiles: Range<usize>) -> impl Iterator<Item = Segment> + use<> {
        let [down, across] = self.tiles();
        (tiles.start / across..tiles.end.div_ceil(across)).map(move |row| {
            let start = tiles.start.max(row * across);
            let end = tiles.end.min((row + 1) * across);
            Segment {
                at: start - tiles.start,
                sample: row / down,
                row: row % down,
                columns: start - row * across..end - row * across,
            }
        })
    }

    /// Transforms the input that tiles see of a block of channels.
    fn transform_input(&self, input: &[f32], tiles: Range<usize>, plane: usize, seen: Shared) {
        let [height, width] = self.shape.lens;
        let (len, places, block) = (self.tile.side(), self.tile.places(), self.block);
        let [top, left] = self.shape.windows.map(|window| window.pad_before);
        let plane_len = height * width * block;
        for segment in self.segments(tiles) {
            let input = &input[(segment.sample * self.planes + plane) * plane_len..][..plane_len];
            let first = segment.row * len;
            let is_within = first >= top && first - top + places <= height;
            // Columns of tiles that see no padding.
            let begin = left.div_ceil(len);
            let end = (width + left).checked_sub(places).map_or(0, |last| last / len + 1);
            let (begin, end) = match is_within {
                true => (begin.max(segment.columns.start), end.min(segment.columns.end)),
                false => (0, 0),
            };
            let to = |column: usize| {
                seen.at(plane * self.row + (segment.at + column - segment.columns.start) * block)
            };
            let mut column = segment.columns.start;
            while column < segment.columns.end {
                if column == begin && begin < end {
                    let from = ((first - top) * width + begin * len - left) * block;
                    let tiles = Inputs {
                        from: input[from..].as_ptr(),
                        line: width * block,
                        to: to(column),
                        plane: self.distances()[0],
                        count: end - begin,
                    };
                    // SAFETY: the processor has the instructions for these blocks. All input of these tiles is within the
                    // plane, and there is room for the values of all tiles of the strip; nothing else writes those of
                    // this block of channels.
                    unsafe { (self.transforms.inputs)(&tiles) };
                    column = end;
                    continue;
                }
                self.transform_border(input, [first, column * len], to(column));
                column += 1;
            }
        }
    }

    /// Transforms the input of one tile, a part of which is padding. `first` is its position in the padded plane.
    fn transform_border(&self, plane: &[f32], first: [usize; 2], to: *mut f32) {
        let mut patch = [0.0; MAX_PLACES * MAX_PLACES * MAX_LANES];
        let (places, block, width) = (self.tile.places(), self.block, self.shape.lens[1]);
        // The part that is not padding: its start in the tile, its start in the plane, and its length.
        let [rows, columns] = [0, 1].map(|axis| {
            let before = self.shape.windows[axis].pad_before;
            let (skip, start) = (before.saturating_sub(first[axis]), first[axis].saturating_sub(before));
            let len = places.saturating_sub(skip).min(self.shape.lens[axis].saturating_sub(start));
            (skip, start, len)
        });
        if columns.2 > 0 {
            for row in 0..rows.2 {
                let from = ((rows.1 + row) * width + columns.1) * block;
                let at = ((rows.0 + row) * places + columns.0) * block;
                patch[at..][..columns.2 * block].copy_from_slice(&plane[from..][..columns.2 * block]);
            }
        }
        let tiles =
            Inputs { from: patch.as_ptr(), line: places * block, to, plane: self.distances()[0], count: 1 };
        // SAFETY: as in `transform_input`; the patch is as large as a tile.
        unsafe { (self.transforms.inputs)(&tiles) }
    }

    /// Transforms the sums of a block of output channels back, applies the epilogue and stores the results.
    fn store(&self, operands: &Operands<'_>, tiles: Range<usize>, plane: usize, sums: &[f32]) -> Result<()> {
        let [rows, columns] = self.shape.outputs();
        let (len, block, epilogue) = (self.tile.side(), self.block, operands.epilogue);
        for segment in self.segments(tiles) {
            let (row, column) = (segment.row * len, segment.columns.start * len);
            let (stored, across) = (len.min(rows - row), (segment.columns.end * len).min(columns) - column);
            let out_plane = segment.sample * self.out_planes + plane;
            let at = ((out_plane * rows + row) * columns + column) * block;
            let tiles = Outputs {
                from: sums[plane * self.row + segment.at * block..].as_ptr(),
                plane: self.distances()[1],
                bias: operands.weights.biases(plane).as_ptr(),
                added: epilogue.added.map_or(std::ptr::null(), |added| added[at..].as_ptr()),
                bounds: epilogue.bounds,
                to: operands.output.at(at),
                line: columns * block,
                rows: stored,
                columns: across,
            };
            // SAFETY: the processor has the instructions for these blocks. There are sums of all values of all tiles of
            // the strip; the stored results are within the output, nothing else writes them, and `added` is as long.
            unsafe { (self.transforms.outputs)(&tiles) };
            let Some(elementwise) = epilogue.elementwise else { continue };
            for row in 0..stored {
                let at = at + row * columns * block;
                // SAFETY: these results are within the output, and no other thread uses them.
                let piece = unsafe { std::slice::from_raw_parts_mut(operands.output.at(at), across * block) };
                elementwise.apply(epilogue.first + at, piece)?;
            }
        }
        Ok(())
    }
}

/// Calls `work` with each number below `count`, on the threads of the current pool if `is_shared`.
fn each(count: usize, is_shared: bool, work: &(impl Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    if is_shared { for_each_number(count, work) } else { (0..count).try_for_each(work) }
}

#[cfg(test)]
mod tests;
