//! Direct convolution of narrow groups, such as depthwise ones, for which matrices would be too thin.
//!
//! The planes of a group are copied into scratch memory together with their padding, each row sorted by column index
//! modulo the stride. In this order, every tap sees consecutive elements at consecutive positions, and borders need no
//! special handling: a block of outputs is a weighted sum of blocks.

use super::operands::{ConvShape, Factors};
use crate::parallel::for_each_item;
use crate::window::Window;
use crate::{Float, widest};
use ixion_tensor::Limits;
use ixion_tensor::Result;
use std::array::from_fn;
use std::ops::Range;

/// Outputs computed at a time: one of the widest vectors of f32.
const BLOCK: usize = 16;

/// The maximum number of channels of a group that is convolved directly.
const NARROW: usize = 8;

/// The maximum number of elements of a padded plane per element that a window sees; a stride of 2 over three axes needs
/// 8.
const SPARSE: usize = 8;

/// Padded planes of up to this many elements are always small enough.
const SMALL: usize = 32 << 10;

/// The layout of the padded planes.
#[derive(Debug, Clone)]
struct Padded {
    windows: [Window; 3],
    lens: [usize; 3],
    positions: [usize; 3],
    /// Lengths of the two outer axes with their padding, as far as windows reach.
    outer: [usize; 2],
    /// The number of elements of a row with the same remainder.
    phase: usize,
}

impl Padded {
    fn new(shape: &ConvShape, outputs: &[usize]) -> Self {
        const ONE: Window = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
        let missing = 3 - shape.windows.len();
        let axis = |axis: usize| axis.checked_sub(missing);
        let windows = from_fn(|i| axis(i).map_or(ONE, |i| shape.windows[i]));
        let positions = from_fn(|i| axis(i).map_or(1, |i| outputs[i]));
        let reached = |i: usize| {
            let window: &Window = &windows[i];
            positions[i].saturating_sub(1) * window.stride + window.dilation * (window.kernel - 1) + 1
        };
        Self {
            outer: [reached(0), reached(1)],
            phase: reached(2).div_ceil(windows[2].stride),
            lens: from_fn(|i| axis(i).map_or(1, |i| shape.lens[i])),
            positions,
            windows,
        }
    }

    /// The distance between rows, in elements.
    fn pitch(&self) -> usize {
        self.phase.saturating_mul(self.windows[2].stride)
    }

    /// The number of elements of a padded plane.
    fn plane(&self) -> usize {
        self.outer[0].saturating_mul(self.outer[1]).saturating_mul(self.pitch())
    }

    /// The number of elements of scratch memory for this number of planes. The last block may read past their end.
    fn scratch(&self, planes: usize) -> usize {
        planes.saturating_mul(self.plane()).saturating_add(BLOCK)
    }

    /// The distance of the element that each tap sees from the element that the first tap sees.
    fn offsets(&self, planes: usize) -> Vec<usize> {
        let [deep, high, wide] = self.windows;
        let mut offsets = Vec::new();
        for plane in 0..planes {
            for (z, y) in (0..deep.kernel).flat_map(|z| (0..high.kernel).map(move |y| (z, y))) {
                let row = (z * deep.dilation * self.outer[1] + y * high.dilation) * self.pitch();
                let along = (0..wide.kernel).map(|x| {
                    let place = x * wide.dilation;
                    place % wide.stride * self.phase + place / wide.stride
                });
                offsets.extend(along.map(|along| plane * self.plane() + row + along));
            }
        }
        offsets
    }

    /// The first element that each output row sees.
    fn rows(&self) -> impl Iterator<Item = usize> {
        let [deep, high, _] = self.windows;
        let step = (deep.stride * self.outer[1], high.stride);
        (0..self.positions[0])
            .flat_map(move |z| (0..self.positions[1]).map(move |y| z * step.0 + y * step.1))
            .map(|row| row * self.pitch())
    }
}

/// Copies a plane into the interior of a padded plane; the padding stays as it is.
#[inline(always)]
fn fill<T: Float>(layout: &Padded, plane: &[T], padded: &mut [T]) {
    let Padded { windows: [deep, high, wide], lens, outer, phase, .. } = layout;
    let pitch = layout.pitch();
    let depth = lens[0].min(outer[0].saturating_sub(deep.pad_before));
    let height = lens[1].min(outer[1].saturating_sub(high.pad_before));
    for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
        let row = &plane[(z * lens[1] + y) * lens[2]..][..lens[2]];
        let target = (z + deep.pad_before) * outer[1] + y + high.pad_before;
        let target = &mut padded[target * pitch..][..pitch];
        for (remainder, target) in target.chunks_exact_mut(*phase).enumerate() {
            let first = (remainder + wide.stride - wide.pad_before % wide.stride) % wide.stride;
            let place = (wide.pad_before + first) / wide.stride;
            let (Some(row), Some(target)) = (row.get(first..), target.get_mut(place..)) else { continue };
            copy_strided(row, wide.stride, target);
        }
    }
}

#[inline(always)]
fn copy_strided<T: Float>(from: &[T], stride: usize, to: &mut [T]) {
    match stride {
        1 => to.iter_mut().zip(from).for_each(|(to, &from)| *to = from),
        2 => to.iter_mut().zip(from.iter().step_by(2)).for_each(|(to, &from)| *to = from),
        _ => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, &from)| *to = from),
    }
}

/// Returns true if padded planes are not much larger than the part that the windows see. Large strides or dilations would
/// leave most of a plane unused. Like the scratch memory, this depends on positions and not on lengths.
fn is_dense(shape: &ConvShape, outputs: &[usize]) -> bool {
    let axes = shape.windows.iter().zip(outputs);
    let seen = axes.fold(SPARSE, |seen, (window, &positions)| {
        seen.saturating_mul(positions).saturating_mul(window.kernel)
    });
    Padded::new(shape, outputs).plane() <= seen.max(SMALL)
}

/// A direct convolution, ready to run.
#[derive(Debug, Clone)]
pub(super) struct Direct {
    padded: Padded,
    offsets: Vec<usize>,
    /// Input and output channels of a group.
    channels: usize,
    out_channels: usize,
}

/// The operands of the convolution of one sample.
struct Sample<'a, T> {
    input: &'a [T],
    factors: &'a Factors<'a, T>,
    limits: &'a Limits,
    pixels: usize,
    positions: usize,
}

impl Direct {
    /// Returns true if groups are too narrow for matrix products, and their padded planes do not become too large.
    pub(super) fn suits(shape: &ConvShape, outputs: &[usize]) -> bool {
        let groups = shape.groups.max(1);
        let narrow = |channels: usize| (1..=NARROW).contains(&(channels / groups));
        groups > 1 && narrow(shape.channels) && narrow(shape.out_channels) && is_dense(shape, outputs)
    }

    pub(super) fn new(shape: &ConvShape, outputs: &[usize]) -> Self {
        let groups = shape.groups.max(1);
        let (padded, channels) = (Padded::new(shape, outputs), shape.channels / groups);
        Self {
            offsets: padded.offsets(channels),
            padded,
            channels,
            out_channels: shape.out_channels / groups,
        }
    }

    /// The number of elements of scratch memory for one thread.
    pub(super) fn scratch(&self) -> usize {
        self.padded.scratch(self.channels)
    }

    /// Convolves one sample; as [`ConvPlan::run`](super::ConvPlan::run), on as many threads as there are lanes of
    /// scratch memory.
    pub(super) fn run<T: Float>(
        &self,
        shape: &ConvShape,
        input: &[T],
        factors: &Factors<'_, T>,
        output: &mut [T],
        (scratch, lanes): (&mut [T], usize),
        limits: &Limits,
    ) -> Result<()> {
        let (pixels, positions) = (shape.lens.iter().product(), self.padded.positions.iter().product());
        let sample = Sample { input, factors, limits, pixels, positions };
        let (lane, of_group) = (scratch.len() / lanes.max(1), self.out_channels * positions);
        if lanes <= 1 || lane == 0 {
            return self.groups_here(&sample, 0..shape.groups, output, scratch);
        }
        let groups = shape.groups.div_ceil(lanes).max(1);
        let outputs = output[..shape.groups * of_group].chunks_mut((groups * of_group).max(1));
        let parts = outputs.zip(scratch.chunks_mut(lane)).enumerate();
        for_each_item(parts, &|(part, (output, scratch))| {
            let first = part * groups;
            self.groups_here(&sample, first..(first + groups).min(shape.groups), output, scratch)
        })
    }

    fn groups_here<T: Float>(
        &self,
        sample: &Sample<'_, T>,
        groups: Range<usize>,
        output: &mut [T],
        scratch: &mut [T],
    ) -> Result<()> {
        let scratch = &mut scratch[..self.scratch()];
        scratch.fill(T::zero());
        let of_group = (self.out_channels * sample.positions).max(1);
        for (group, output) in groups.zip(output.chunks_exact_mut(of_group)) {
            sample.limits.check_deadline()?;
            let planes = &sample.input[group * self.channels * sample.pixels..];
            let planes = planes.chunks_exact(sample.pixels.max(1)).take(self.channels);
            for (plane, target) in planes.zip(scratch.chunks_exact_mut(self.padded.plane().max(1))) {
                widest!(|| fill(&self.padded, plane, target));
            }
            let first = group * self.out_channels;
            for (channel, output) in (first..).zip(output.chunks_exact_mut(sample.positions.max(1))) {
                let weight = &sample.factors.weight[channel * self.offsets.len()..][..self.offsets.len()];
                let start = sample.factors.bias.map_or(T::zero(), |bias| bias[channel]);
                let factors = (&*self.offsets, weight);
                widest!(|| channel_sums(&self.padded, factors, scratch, start, output));
            }
            sample.factors.apply_epilogue(first * sample.positions, output)?;
        }
        Ok(())
    }
}

/// Computes the outputs of one channel from padded planes; each weight belongs to an offset.
#[inline(always)]
fn channel_sums<T: Float>(
    layout: &Padded,
    (offsets, weight): (&[usize], &[T]),
    planes: &[T],
    start: T,
    output: &mut [T],
) {
    let wide = layout.positions[2].max(1);
    for (row, first) in output.chunks_exact_mut(wide).zip(layout.rows()) {
        let planes = &planes[first..];
        let (blocks, rest) = row.as_chunks_mut::<BLOCK>();
        for (index, block) in blocks.iter_mut().enumerate() {
            *block = block_sums(&planes[index * BLOCK..], offsets, weight, start);
        }
        if rest.is_empty() {
            continue;
        }
        // The last block overlaps the one before it. A row that is shorter than a block is stored in part.
        let last = block_sums(&planes[wide.saturating_sub(BLOCK)..], offsets, weight, start);
        match row.last_chunk_mut::<BLOCK>() {
            Some(block) => *block = last,
            None => row.copy_from_slice(&last[..wide]),
        }
    }
}

/// Weighted sums of elements for consecutive positions.
#[inline(always)]
fn block_sums<T: Float>(elements: &[T], offsets: &[usize], weight: &[T], start: T) -> [T; BLOCK] {
    let mut sums = [start; BLOCK];
    for (&offset, &weight) in offsets.iter().zip(weight) {
        let elements = &elements[offset..][..BLOCK];
        sums.iter_mut().zip(elements).for_each(|(sum, &x)| *sum += weight * x);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_narrow_groups_are_convolved_directly() {
        for (kernel, stride, dilation, len) in
            [(3, 1, 1, 7), (3, 2, 1, 56), (1, 2, 1, 14), (3, 1, 36, 33), (7, 4, 1, 9)]
        {
            let pad = dilation * (kernel / 2);
            let window = Window { kernel, stride, dilation, pad_before: pad, pad_after: pad };
            let windows = vec![window; 2];
            let shape = ConvShape { channels: 8, out_channels: 8, groups: 8, lens: vec![len; 2], windows };
            assert!(Direct::suits(&shape, &shape.outputs()), "{window:?}");
        }
    }
}
