//! Convolution of planes whose channels lie in blocks, each of which sees the input channel of the same number alone.
//!
//! What the windows of some rows see is copied first, with the padding around it: little enough to stay in the first-level
//! cache, from where each number is read once for each place of the window. So there are no borders to care for.

mod tile;

use super::BlockedShape;
use crate::isa::{Isa, isa_for};
use crate::packed::{Ending, Panels, Words};
use crate::parallel::for_each_chunk;
use crate::window::Window;
use ixion_tensor::Limits;
use ixion_tensor::{Result, Tensor};
use std::mem::MaybeUninit;
use std::ops::Range;
use tile::Operands;

/// Numbers of what is copied at a time.
const PATCH: usize = 10 << 10;

/// Room for what is copied. Vectors begin where cache lines do, so that no load crosses two.
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

/// The places that so many positions of a window look at.
fn reach(window: Window, positions: usize) -> usize {
    let between = positions.saturating_sub(1).saturating_mul(window.stride);
    let within = window.kernel.saturating_sub(1).saturating_mul(window.dilation);
    between.saturating_add(within).saturating_add(1)
}

impl DepthwiseConv {
    /// Whether there are vectors of so many channels, and windows whose places can be copied.
    pub fn suits(windows: [Window; 2], block: usize) -> bool {
        let places = windows.map(|window| reach(window, 1));
        isa_for(block).is_some() && places[0].saturating_mul(places[1]).saturating_mul(block) <= PATCH
    }

    /// Everything that depends on the sizes of planes. None where there are no vectors of so many channels, or a window
    /// reaches too far.
    pub fn new(shape: BlockedShape, block: usize) -> Option<Self> {
        let isa = isa_for(block)?;
        let ([rows, columns], [high, wide]) = (shape.outputs(), shape.windows);
        let fits = |rows, columns| {
            let area = reach(high, rows).saturating_mul(reach(wide, columns));
            area.saturating_mul(block) <= PATCH
        };
        let most = |len: usize, fits: &dyn Fn(usize) -> bool| {
            // Parts of equal length, as long as they fit.
            (1..=len).map(|parts| len.div_ceil(parts)).find(|&part| fits(part))
        };
        let columns = most(columns.max(1), &|columns| fits(1, columns))?;
        let rows = most(rows.max(1), &|rows| fits(rows, columns))?;
        Some(Self { shape, isa, part: [rows, columns] })
    }

    /// Orders weights C×1×KH×KW, and as many biases as channels or none.
    ///
    /// # Panics
    /// When there are fewer weights or biases than the shape says.
    pub fn weights(&self, weight: &[f32], bias: Option<&[f32]>) -> Panels {
        let (taps, channels) = (self.shape.taps(), self.shape.out_channels);
        let bias = |channel: usize| bias.map_or(0.0, |bias| bias[channel]);
        Panels::for_isa(self.isa, channels, taps, |channel, tap| weight[channel * taps + tap], bias)
    }

    /// Weights in order that were stored: their [numbers](Panels::numbers). None where there are more or fewer than the
    /// shape says.
    pub fn stored(shape: &BlockedShape, block: usize, numbers: Tensor) -> Option<Panels> {
        Panels::stored((isa_for(block)?, Words::Singles), shape.out_channels, shape.taps(), numbers)
    }

    /// Convolves one sample.
    ///
    /// # Errors
    /// A deadline that has passed; what is done in the end may fail.
    ///
    /// # Panics
    /// When a slice is shorter than its shape, or the weights are of another one.
    pub fn run(
        &self,
        input: &[f32],
        weights: &Panels,
        output: &mut [f32],
        ending: &Ending<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let block = self.isa.lanes();
        let [inputs, outputs] = self.shape.sample(block);
        let [rows, columns] = self.shape.outputs();
        let (input, output) = (&input[..inputs], &mut output[..outputs]);
        assert_eq!(
            (weights.isa(), weights.outputs(), weights.depth()),
            (self.isa, self.shape.out_channels, self.shape.taps()),
            "weights are those of the convolution"
        );
        let ending = Ending { added: ending.added.map(|added| &added[..outputs]), ..*ending };
        for_each_plane(output, [rows, columns * block], self.part[0], &|plane, rows, at, output| {
            limits.check_deadline()?;
            self.part(input, weights, plane, rows, output, (&ending, at));
            ending.finish.map_or(Ok(()), |finish| finish.finish(ending.first + at, output))
        })
    }

    /// Some rows of outputs of a block of channels, which begin at a position of the sample.
    fn part(
        &self,
        input: &[f32],
        weights: &Panels,
        plane: usize,
        rows: Range<usize>,
        output: &mut [f32],
        (ending, at): (&Ending<'_>, usize),
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
                    added: ending.added.map(|added| &added[at + place..][..columns_here * block]),
                    bounds: ending.bounds,
                };
                tile::run(self.isa, &operands, &mut output[place..][..columns_here * block]);
            }
        }
    }

    /// Copies places of a plane from a position on, counted with the padding; those in the padding are 0.
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
        // Of each line: zeros, what is there from a column on, zeros.
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
                    // SAFETY: numbers that are there are also some that may be missing.
                    let source = unsafe { &*(std::ptr::from_ref(source) as *const [MaybeUninit<f32>]) };
                    // A loop over them would go in the narrowest vectors of its target.
                    middle.copy_from_slice(source);
                    rest.fill(MaybeUninit::new(0.0));
                }
                None => line.fill(MaybeUninit::new(0.0)),
            }
        }
        // SAFETY: each number of each line has been written.
        unsafe { std::slice::from_raw_parts(patch.as_ptr().cast(), patch.len()) }
    }
}

/// Cuts the planes of outputs into parts of so many rows, and calls `work` with the plane, the rows, where they begin and
/// the outputs themselves.
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
