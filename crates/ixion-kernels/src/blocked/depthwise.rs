//! Depthwise convolution in a blocked channel layout: each output channel only sees the input channel of the same index.
//!
//! The input that the windows of some rows see is copied first, with its padding, into a patch that is small enough for
//! the first-level cache. Each value is then read from there once per tap, and borders need no special handling.

use super::BlockedShape;
use crate::isa::{Isa, isa_for};
use crate::lanes::{Lanes, Plain};
use crate::packed::{Packing, Panels, SumEpilogue};
use crate::parallel::for_each_chunk;
use crate::window::Window;
use ixion_tensor::Limits;
use ixion_tensor::{Result, Tensor};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The maximum number of elements of a patch.
const PATCH: usize = 10 << 10;

/// The number of elements of a patch that leave room in the first-level cache for what is copied and what is stored.
/// A patch has more only if a single window does.
const NEAR: usize = 5 << 10;

/// Memory for a patch, aligned to cache lines so that no vector load crosses two.
#[repr(align(64))]
struct Patch([MaybeUninit<f32>; PATCH]);

/// A convolution of one shape.
#[derive(Debug)]
pub struct DepthwiseConv {
    shape: BlockedShape,
    isa: Isa,
    /// Rows and columns of outputs that are computed from one patch.
    part: [usize; 2],
}

/// The number of input elements that `positions` consecutive positions of a window span.
fn reach(window: Window, positions: usize) -> usize {
    let between = positions.saturating_sub(1).saturating_mul(window.stride);
    let within = window.kernel.saturating_sub(1).saturating_mul(window.dilation);
    between.saturating_add(within).saturating_add(1)
}

impl DepthwiseConv {
    /// Returns true if there are vectors of `block` channels, and a window fits a patch.
    pub fn suits(windows: [Window; 2], block: usize) -> bool {
        let places = windows.map(|window| reach(window, 1));
        isa_for(block).is_some() && places[0].saturating_mul(places[1]).saturating_mul(block) <= PATCH
    }

    /// Prepares everything that depends on the size of the planes. Returns `None` if there are no vectors of `block`
    /// channels, or a window does not fit a patch.
    pub fn new(shape: BlockedShape, block: usize) -> Option<Self> {
        let isa = isa_for(block)?;
        let ([rows, columns], [high, wide]) = (shape.outputs(), shape.windows);
        let area =
            |rows, columns| reach(high, rows).saturating_mul(reach(wide, columns)).saturating_mul(block);
        let most = area(1, 1).clamp(NEAR, PATCH);
        let fits = |rows, columns| area(rows, columns) <= most;
        let longest = |len: usize, fits: &dyn Fn(usize) -> bool| {
            // The longest part that fits, if the axis is split into parts of equal length.
            (1..=len).map(|parts| len.div_ceil(parts)).find(|&part| fits(part))
        };
        let columns = longest(columns.max(1), &|columns| fits(1, columns))?;
        let rows = longest(rows.max(1), &|rows| fits(rows, columns))?;
        Some(Self { shape, isa, part: [rows, columns] })
    }

    /// Packs weights C×1×KH×KW and, if given, one bias per channel.
    ///
    /// # Panics
    /// Panics if there are fewer weights or biases than the shape requires.
    pub fn weights(&self, weight: &[f32], bias: Option<&[f32]>) -> Panels {
        let (taps, channels) = (self.shape.taps(), self.shape.out_channels);
        let bias = |channel: usize| bias.map_or(0.0, |bias| bias[channel]);
        Panels::for_isa(self.isa, channels, taps, |channel, tap| weight[channel * taps + tap], bias)
    }

    /// Restores packed weights from their [elements](Panels::numbers). Returns `None` if their number does not match the
    /// shape, or if there are no vectors of `block` channels.
    pub fn stored(shape: &BlockedShape, block: usize, numbers: Tensor) -> Option<Panels> {
        Panels::stored((isa_for(block)?, Packing::F32), shape.out_channels, shape.taps(), numbers)
    }

    /// Convolves one sample.
    ///
    /// # Errors
    /// Fails if the deadline has passed or the epilogue fails.
    ///
    /// # Panics
    /// Panics if a slice is shorter than its shape requires, or the weights have another shape.
    pub fn run(
        &self,
        input: &[f32],
        weights: &Panels,
        output: &mut [f32],
        epilogue: &SumEpilogue<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let block = self.isa.lanes();
        let [inputs, outputs] = self.shape.sample(block);
        let [rows, columns] = self.shape.outputs();
        let (input, output) = (&input[..inputs], &mut output[..outputs]);
        assert_eq!(
            (weights.isa(), weights.outputs(), weights.depth()),
            (self.isa, self.shape.out_channels, self.shape.taps()),
            "the weights must have the shape of the convolution"
        );
        let epilogue = SumEpilogue { added: epilogue.added.map(|added| &added[..outputs]), ..*epilogue };
        for_each_plane(output, [rows, columns * block], self.part[0], &|plane, rows, at, output| {
            limits.check_deadline()?;
            self.part(input, weights, plane, rows, output, (&epilogue, at));
            epilogue.elementwise.map_or(Ok(()), |elementwise| elementwise.apply(epilogue.first + at, output))
        })
    }

    /// Computes some output rows of a block of channels; `at` is their position in the output of the sample.
    fn part(
        &self,
        input: &[f32],
        weights: &Panels,
        plane: usize,
        rows: Range<usize>,
        output: &mut [f32],
        (epilogue, at): (&SumEpilogue<'_>, usize),
    ) {
        let (block, columns) = (self.isa.lanes(), self.shape.outputs()[1]);
        let [high, wide] = self.shape.windows;
        let mut patch = Patch([MaybeUninit::uninit(); PATCH]);
        for first in (0..columns).step_by(self.part[1]) {
            let columns_here = self.part[1].min(columns - first);
            let lens = [reach(high, rows.len()), reach(wide, columns_here)];
            let patch =
                self.copy(input, plane, [rows.start * high.stride, first * wide.stride], lens, &mut patch.0);
            for row in 0..rows.len() {
                let place = (row * columns + first) * block;
                let line = &patch[row * high.stride * lens[1] * block..];
                let operands = Operands {
                    input: line,
                    window: [high.kernel, wide.kernel],
                    steps: [high.dilation * lens[1] * block, wide.dilation * block],
                    stride: wide.stride,
                    weights: weights.weights(plane..plane + 1),
                    bias: weights.biases(plane..plane + 1),
                    added: epilogue.added.map(|added| &added[at + place..][..columns_here * block]),
                    bounds: epilogue.bounds,
                };
                run_row(self.isa, &operands, &mut output[place..][..columns_here * block]);
            }
        }
    }

    /// Copies a rectangle of a plane to the patch. `start` counts the padding, which is 0.
    fn copy<'a>(
        &self,
        input: &[f32],
        plane: usize,
        start: [usize; 2],
        lens: [usize; 2],
        patch: &'a mut [MaybeUninit<f32>],
    ) -> &'a [f32] {
        let (block, [height, width]) = (self.isa.lanes(), self.shape.lens);
        let [top, left] = [0, 1].map(|axis| self.shape.windows[axis].pad_before);
        // Each line consists of zeros, the elements from a column on, and zeros.
        let before = left.saturating_sub(start[1]).min(lens[1]);
        let from = (start[1] + before).saturating_sub(left).min(width);
        let inside = (lens[1] - before).min(width - from);
        let patch = &mut patch[..lens[0] * lens[1] * block];
        for (row, line) in patch.chunks_exact_mut(lens[1] * block).enumerate() {
            match (start[0] + row).checked_sub(top).filter(|&row| row < height) {
                Some(row) => {
                    let source = &input[((plane * height + row) * width + from) * block..][..inside * block];
                    let (zeros, rest) = line.split_at_mut(before * block);
                    let (middle, rest) = rest.split_at_mut(inside * block);
                    zeros.fill(MaybeUninit::new(0.0));
                    // SAFETY: initialised elements are valid as possibly uninitialised ones.
                    let source = unsafe { &*(std::ptr::from_ref(source) as *const [MaybeUninit<f32>]) };
                    // A loop would use the narrow vectors of the baseline target.
                    middle.copy_from_slice(source);
                    rest.fill(MaybeUninit::new(0.0));
                }
                None => line.fill(MaybeUninit::new(0.0)),
            }
        }
        // SAFETY: every element of every line has been written.
        unsafe { std::slice::from_raw_parts(patch.as_ptr().cast(), patch.len()) }
    }
}

/// Splits the output planes into parts of `part` rows, and calls `work` with the plane, the rows, their position in the
/// output and the outputs themselves.
fn for_each_plane(
    output: &mut [f32],
    [rows, row]: [usize; 2],
    part: usize,
    work: &(impl Fn(usize, Range<usize>, usize, &mut [f32]) -> Result<()> + Sync),
) -> Result<()> {
    let plane = rows * row;
    for_each_chunk(output, plane, &|start, output| {
        for_each_chunk(output, part * row, &|within, output| {
            let first = within / row.max(1);
            work(start / plane.max(1), first..first + output.len() / row.max(1), start + within, output)
        })
    })
}

/// The operands of an output row, whose sums stay in registers. Distances are in elements.
#[derive(Debug, Clone, Copy)]
struct Operands<'a> {
    /// The input that the windows of the row see, starting at the first tap of the first window.
    input: &'a [f32],
    /// Rows and columns of a window.
    window: [usize; 2],
    /// The distances between the rows and between the columns of a window.
    steps: [usize; 2],
    /// The distance between adjacent windows, in pixels.
    stride: usize,
    /// One vector per tap.
    weights: &'a [f32],
    bias: &'a [f32],
    /// Values to add to the row.
    added: Option<&'a [f32]>,
    bounds: [f32; 2],
}

/// Columns per tile: enough independent sums to hide the latency of a multiply-add.
const COLUMNS: usize = 8;

/// Computes an output row, one vector per column.
///
/// # Panics
/// Panics if the operands are too short, or the processor lacks the instructions.
fn run_row(isa: Isa, operands: &Operands<'_>, output: &mut [f32]) {
    let (lanes, columns) = (isa.lanes(), output.len() / isa.lanes());
    let [rows, taps] = operands.window;
    let Some(last) = columns.checked_sub(1) else { return };
    let end = last * operands.stride * lanes
        + rows.saturating_sub(1) * operands.steps[0]
        + taps.saturating_sub(1) * operands.steps[1]
        + lanes;
    assert!(
        isa.is_supported() && output.len() == columns * lanes,
        "the output must consist of whole vectors, and the processor must have the instructions"
    );
    assert!(rows * taps == 0 || end <= operands.input.len(), "the input is too short");
    assert!(rows * taps * lanes <= operands.weights.len() && lanes <= operands.bias.len(), "too few weights");
    assert!(operands.added.is_none_or(|added| added.len() >= output.len()), "too few values to add");
    // Adjacent columns of a window of a usual width are visited without a loop.
    let adjacent = if operands.steps[1] == lanes { taps } else { 0 };
    let row = select(isa, (operands.stride, adjacent));
    // SAFETY: the processor has the instructions, and everything that is read and written is within the operands.
    unsafe { row(operands, output) }
}

/// A kernel for a row of columns.
type Row = unsafe fn(&Operands<'_>, &mut [f32]);

/// Computes a row in tiles of nearly equal size. A stride of 0 means any stride, and 0 taps any columns of a window;
/// otherwise, these are adjacent.
///
/// # Safety
/// [`run_row`] must have checked the operands, and the function must be inlined where the instructions of `L` are enabled.
#[inline(always)]
unsafe fn row<L: Lanes, const STRIDE: usize, const TAPS: usize>(operands: &Operands<'_>, output: &mut [f32]) {
    let columns = output.len() / L::COUNT;
    let tiles = columns.div_ceil(COLUMNS);
    let (size, longer) = (columns / tiles, columns % tiles);
    let mut first = 0;
    for index in 0..tiles {
        let len = size + usize::from(index < longer);
        // SAFETY: the caller's promise: these columns are within the row.
        unsafe {
            match len {
                1 => tile::<L, STRIDE, TAPS, 1>(operands, first, output),
                2 => tile::<L, STRIDE, TAPS, 2>(operands, first, output),
                3 => tile::<L, STRIDE, TAPS, 3>(operands, first, output),
                4 => tile::<L, STRIDE, TAPS, 4>(operands, first, output),
                5 => tile::<L, STRIDE, TAPS, 5>(operands, first, output),
                6 => tile::<L, STRIDE, TAPS, 6>(operands, first, output),
                7 => tile::<L, STRIDE, TAPS, 7>(operands, first, output),
                _ => tile::<L, STRIDE, TAPS, COLUMNS>(operands, first, output),
            }
        }
        first += len;
    }
}

/// Computes a tile of C columns. Loops run over indices, because iterators over arrays would be compiled for each C.
///
/// # Safety
/// As [`row`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
unsafe fn tile<L: Lanes, const STRIDE: usize, const TAPS: usize, const C: usize>(
    operands: &Operands<'_>,
    first: usize,
    output: &mut [f32],
) {
    let ([rows, taps], [down, right]) = (operands.window, operands.steps);
    let (taps, right) = if TAPS > 0 { (TAPS, L::COUNT) } else { (taps, right) };
    let stride = if STRIDE > 0 { STRIDE } else { operands.stride } * L::COUNT;
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [L::load(operands.bias.as_ptr()); C];
        let mut weights = operands.weights.as_ptr();
        let input = operands.input.as_ptr().add(first * stride);
        for row in 0..rows {
            for tap in 0..taps {
                let (weight, places) = (L::load(weights), input.add(row * down + tap * right));
                for c in 0..C {
                    sums[c] = sums[c].add_product(L::load(places.add(c * stride)), weight);
                }
                weights = weights.add(L::COUNT);
            }
        }
        let [low, high] = operands.bounds;
        let (low, high) = (L::splat(low), L::splat(high));
        for c in 0..C {
            let (mut sum, at) = (sums[c], (first + c) * L::COUNT);
            if let Some(added) = operands.added {
                sum = sum.add(L::load(added.as_ptr().add(at)));
            }
            sum.clamp(low, high).store(output.as_mut_ptr().add(at));
        }
    }
}

macro_rules! rows {
    ($select:ident, $lanes:ty $(, $feature:literal)?) => {
        fn $select(steps: (usize, usize)) -> Row {
            $(#[target_feature(enable = $feature)])?
            unsafe fn kernel<const STRIDE: usize, const TAPS: usize>(
                operands: &Operands<'_>,
                output: &mut [f32],
            ) {
                // SAFETY: the caller's promise.
                unsafe { row::<$lanes, STRIDE, TAPS>(operands, output) }
            }
            match steps {
                (1, 3) => kernel::<1, 3>,
                (2, 3) => kernel::<2, 3>,
                (1, 5) => kernel::<1, 5>,
                (2, 5) => kernel::<2, 5>,
                (1, _) => kernel::<1, 0>,
                (2, _) => kernel::<2, 0>,
                _ => kernel::<0, 0>,
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
rows!(avx512, crate::lanes::x86::Avx512, "avx512f");
#[cfg(target_arch = "x86_64")]
rows!(avx2, crate::lanes::x86::Avx2, "avx2,fma");
#[cfg(target_arch = "aarch64")]
rows!(neon, crate::lanes::arm::Neon, "neon");
rows!(plain, Plain);

/// The kernel for an instruction set, a stride, and the number of adjacent columns of a window.
fn select(isa: Isa, steps: (usize, usize)) -> Row {
    match isa {
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => neon(steps),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2(steps),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512(steps),
        _ => plain(steps),
    }
}
