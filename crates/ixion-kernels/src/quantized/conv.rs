//! Convolution of 8-bit integers.

use super::{Block, COLUMNS, Factors, Outcome, ROWS, Rows, Strips};
use crate::columns::{Columns, TILE_BYTES};
use crate::conv::ConvShape;
use crate::parallel::for_each_chunk;
use crate::widest;
use ixion_tensor::Limits;
use ixion_tensor::Result;
use std::cell::Cell;

/// A convolution of one sample of 8-bit integers: C×… → O×…. It serves i8 and u8 alike, because zero points are
/// subtracted first.
#[derive(Debug, Clone)]
pub struct Int8Conv {
    shape: ConvShape,
    /// Positions along each axis.
    outputs: Vec<usize>,
}

thread_local! {
    /// The values that some positions see: as strips, and before they are reordered.
    static SEEN: Cell<(Strips, Vec<i16>)> = const { Cell::new((Strips::EMPTY, Vec::new())) };
}

impl Int8Conv {
    /// A convolution of these sizes.
    pub fn new(shape: ConvShape) -> Self {
        Self { outputs: shape.outputs(), shape }
    }

    /// The number of elements of a sample, and of its output.
    pub fn sample(&self) -> [usize; 2] {
        let pixels: usize = self.shape.lens.iter().product();
        [self.shape.channels * pixels, self.shape.out_channels * self.positions()]
    }

    fn positions(&self) -> usize {
        self.outputs.iter().product()
    }

    /// The number of values that a position of the window sees in a group.
    fn depth(&self) -> usize {
        let taps: usize = self.shape.windows.iter().map(|window| window.kernel).product();
        (self.shape.channels / self.shape.groups.max(1)).saturating_mul(taps)
    }

    /// The number of positions that are gathered at a time, in whole strips that stay in the cache.
    fn tile(&self) -> usize {
        let most = TILE_BYTES / self.depth().saturating_mul(2).max(1) / COLUMNS * COLUMNS;
        most.max(COLUMNS).min(self.positions().next_multiple_of(COLUMNS).max(COLUMNS))
    }

    /// The size in bytes of the values that are gathered at a time.
    pub fn held_bytes(&self) -> u64 {
        (self.tile() as u64).saturating_mul(self.depth() as u64).saturating_mul(4)
    }

    /// Convolves one sample of values minus their zero point, padded with 0. `weights` has one row per output channel,
    /// and the outcome gets the output channel as its row.
    ///
    /// # Errors
    /// Fails if the deadline, which is checked for every tile of positions, has passed, or if the outcome fails.
    ///
    /// # Panics
    /// Panics if a slice is shorter than its shape requires; callers check this beforehand.
    pub fn run<Q: Send>(
        &self,
        input: &[i16],
        weights: &Rows,
        outcome: &dyn Outcome<Q>,
        output: &mut [Q],
        limits: &Limits,
    ) -> Result<()> {
        let (mut strips, mut scratch) = SEEN.take();
        let result = self.run_with((&mut strips, &mut scratch), input, weights, outcome, output, limits);
        SEEN.set((strips, scratch));
        result
    }

    fn run_with<Q: Send>(
        &self,
        (strips, scratch): (&mut Strips, &mut Vec<i16>),
        input: &[i16],
        weights: &Rows,
        outcome: &dyn Outcome<Q>,
        output: &mut [Q],
        limits: &Limits,
    ) -> Result<()> {
        let (groups, positions) = (self.shape.groups.max(1), self.positions());
        let channels = self.sample()[0] / groups;
        let (out_channels, tile) = (self.shape.out_channels / groups, self.tile());
        for (group, start) in
            (0..groups).flat_map(|group| (0..positions).step_by(tile).map(move |at| (group, at)))
        {
            limits.check_deadline()?;
            let width = tile.min(positions - start);
            self.gather(&input[group * channels..][..channels], start, width, (strips, scratch));
            let factors = Factors { rows: weights, strips };
            let (block, first) = (Block { factors, outcome, column: start }, group * out_channels);
            let output = &mut output[first * positions..][..out_channels * positions];
            for_each_chunk(output, ROWS * positions, &|at, output| {
                block.run(first + at / positions.max(1), &mut output[start..], positions)
            })?;
        }
        Ok(())
    }

    /// Gathers what the positions from `start` on see.
    fn gather(
        &self,
        input: &[i16],
        start: usize,
        width: usize,
        (strips, scratch): (&mut Strips, &mut Vec<i16>),
    ) {
        let (depth, even) = (self.depth(), self.depth().next_multiple_of(2));
        strips.reset(width, even);
        let shape = &self.shape;
        let columns = Columns { lens: &shape.lens, positions: &self.outputs, windows: &shape.windows };
        // One more line of zeros, so that the last line has a partner.
        scratch.resize((depth + 1) * width, 0);
        let (seen, rest) = scratch.split_at_mut(depth * width);
        columns.gather(input, start..start + width, seen);
        rest.fill(0);
        let scratch = &scratch[..];
        let work = |at: usize, strip: &mut [i16]| -> std::result::Result<(), std::convert::Infallible> {
            let first = at / even.max(1);
            let count = COLUMNS.min(width - first);
            widest!(|| {
                for (pair, line) in strip.chunks_exact_mut(2 * COLUMNS).enumerate() {
                    let (a, b) =
                        (&scratch[2 * pair * width + first..], &scratch[(2 * pair + 1) * width + first..]);
                    match (a.first_chunk::<COLUMNS>(), b.first_chunk::<COLUMNS>()) {
                        (Some(a), Some(b)) if count == COLUMNS => interleave(a, b, line),
                        _ => interleave(&a[..count], &b[..count], line),
                    }
                }
            });
            Ok(())
        };
        let Ok(()) = for_each_chunk(&mut strips.values, even * COLUMNS, &work);
    }
}

/// Interleaves the values of two lines; positions beyond them keep their values.
#[inline(always)]
fn interleave(a: &[i16], b: &[i16], to: &mut [i16]) {
    let pairs = to.chunks_exact_mut(2).zip(a.iter().zip(b));
    pairs.for_each(|(pair, (&a, &b))| pair.copy_from_slice(&[a, b]));
}
