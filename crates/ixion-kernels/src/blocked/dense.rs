//! Dense convolution with blocked output channels, each of which sees all channels of its group: products with packed
//! weights. The input values that a window sees are read in place.

use super::{BlockedShape, Window};
use crate::isa::isa_for;
use crate::packed::{Factors, Packing, Panels, Size, SumEpilogue, Target, multiply, round};
use crate::parallel::for_each_chunk;
use ixion_tensor::Limits;
use ixion_tensor::{Result, Tensor};

/// The channel layout of an output and an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocking {
    /// Channels per block of the output: the number of lanes of a vector.
    pub block: usize,
    /// Whether the input has the same blocks; otherwise it is plain.
    pub is_input_blocked: bool,
}

/// The channel layout and the packing that a convolution uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseMethod {
    /// The channel layout.
    pub blocking: Blocking,
    /// The type that is multiplied: with pairs, input and weights are rounded to `bf16`.
    pub packing: Packing,
}

impl DenseMethod {
    /// The number of adjacent words per pixel of the input.
    fn input_block(self) -> usize {
        self.packing.count(self.blocking.input_block())
    }

    /// Returns true if the input needs neither padding nor conversion.
    fn reads_in_place(self, shape: &BlockedShape) -> bool {
        self.packing == Packing::F32 && shape.padded_lens() == shape.lens
    }

    /// The number of words of a row of all channels, with its padding.
    fn padded_line(self, shape: &BlockedShape) -> usize {
        let planes = shape.channels.div_ceil(self.blocking.input_block());
        [planes, shape.padded_lens()[1], self.input_block()].into_iter().fold(1, usize::saturating_mul)
    }

    /// Returns true if there is a kernel. Pairs consist of channels of one block, so the number of channels must be even.
    pub fn suits(self, channels: usize, out_channels: usize, groups: usize) -> bool {
        let Self { blocking, packing } = self;
        let are_pairs = blocking.is_input_blocked && blocking.block == 16 && channels.is_multiple_of(2);
        blocking.suits(channels, out_channels, groups)
            && (packing == Packing::F32 || packing.are_supported() && are_pairs)
    }
}

impl Blocking {
    /// The number of adjacent channels per pixel of the input.
    fn input_block(self) -> usize {
        if self.is_input_blocked { self.block } else { 1 }
    }

    /// Returns true if there are kernels for a convolution: blocks must be as long as vectors, and groups must fill whole
    /// blocks.
    pub fn suits(self, channels: usize, out_channels: usize, groups: usize) -> bool {
        let fills = |channels: usize| channels.is_multiple_of(groups.saturating_mul(self.block));
        isa_for(self.block).is_some()
            && (groups == 1 || (groups > 1 && fills(channels) && fills(out_channels)))
    }
}

/// The weights of each group, packed in the order in which they are multiplied. They do not depend on the size of the
/// planes.
#[derive(Debug)]
pub struct DenseWeights {
    method: DenseMethod,
    panels: Vec<Panels>,
}

impl DenseWeights {
    /// Packs weights O×(C/groups)×KH×KW and, if given, one bias per output channel. Returns `None` if
    /// [`DenseMethod::suits`] is false.
    ///
    /// # Panics
    /// Panics if there are fewer weights or biases than the shape requires.
    pub fn new(
        shape: &BlockedShape,
        (weight, bias): (&[f32], Option<&[f32]>),
        method: DenseMethod,
    ) -> Option<Self> {
        let (groups, taps) = (shape.groups, shape.taps());
        let isa = isa_for(method.blocking.block)?;
        if !method.suits(shape.channels, shape.out_channels, groups) {
            return None;
        }
        let (channels, outputs) = (shape.channels / groups, shape.out_channels / groups);
        let order = order(channels, taps, method.blocking.input_block());
        let panels = (0..groups).map(|group| {
            let weights = &weight[group * outputs * channels * taps..][..outputs * channels * taps];
            let weight = |o: usize, k: usize| weights[o * channels * taps + order[k]];
            let bias = |o: usize| bias.map_or(0.0, |bias| bias[group * outputs + o]);
            match method.packing {
                Packing::F32 => Panels::for_isa(isa, outputs, order.len(), weight, bias),
                Packing::Bf16Pairs => Panels::pairs(outputs, order.len(), weight, bias),
            }
        });
        Some(Self { method, panels: panels.collect() })
    }

    /// Restores packed weights from the concatenated [elements](Panels::numbers) of all panels. Returns `None` if their
    /// number does not match the shape, or if there is no kernel.
    pub fn stored(shape: &BlockedShape, numbers: Tensor, method: DenseMethod) -> Option<Self> {
        let (isa, groups) = (isa_for(method.blocking.block)?, shape.groups);
        if !method.suits(shape.channels, shape.out_channels, groups) {
            return None;
        }
        let (outputs, channels) = (shape.out_channels / groups, shape.channels / groups);
        let depth = method.packing.count(channels * shape.taps());
        let len = Panels::len(isa, outputs, depth);
        if numbers.num_elements() != len.checked_mul(groups)? {
            return None;
        }
        let panels = (0..groups).map(|group| {
            let part = numbers.narrow(0, group * len, len).ok()?;
            Panels::stored((isa, method.packing), outputs, depth, part)
        });
        Some(Self { method, panels: panels.collect::<Option<_>>()? })
    }

    /// The panels of each group.
    pub fn panels(&self) -> &[Panels] {
        &self.panels
    }
}

/// The rows of the output that are computed at a time, and the rows of the padded sample that they see: all of them if they
/// are read in place, or take no more than `room` bytes.
fn band(shape: &BlockedShape, method: DenseMethod, room: usize) -> [usize; 2] {
    let (rows, height, window) = (shape.outputs()[0].max(1), shape.padded_lens()[0], shape.windows[0]);
    let seen = room / method.padded_line(shape).saturating_mul(size_of::<f32>()).max(1);
    if method.reads_in_place(shape) || seen >= height {
        return [rows, height];
    }
    let (stride, reach) = (window.stride.max(1), reach(window));
    let most = seen.saturating_sub(reach) / stride + 1;
    let band = rows.div_ceil(rows.div_ceil(most));
    [band, (band - 1) * stride + reach]
}

/// The number of elements from the first to the last that a window looks at.
fn reach(window: Window) -> usize {
    window.dilation * window.kernel.saturating_sub(1) + 1
}

/// The words of scratch memory for the rows that a band sees. Smaller samples may have longer bands, for which it suffices too.
fn scratch(shape: &BlockedShape, method: DenseMethod, room: usize) -> usize {
    if method.reads_in_place(shape) {
        return 0;
    }
    let (line, height) = (method.padded_line(shape), shape.padded_lens()[0]);
    let least = line.saturating_mul(reach(shape.windows[0]));
    line.saturating_mul(height).min(least.max(room / size_of::<f32>()))
}

/// The order in which the C×K weights of an output are multiplied: block by block, and within a block all channels of one
/// tap after the other.
fn order(channels: usize, taps: usize, block: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(channels * taps);
    for first in (0..channels).step_by(block) {
        let block = first..(first + block).min(channels);
        order.extend((0..taps).flat_map(|tap| block.clone().map(move |channel| channel * taps + tap)));
    }
    order
}

/// Bytes of a padded sample that stay in the second-level cache until they have been multiplied.
const CACHED: usize = 512 << 10;

/// A convolution of one shape.
#[derive(Debug)]
pub struct DenseConv {
    shape: BlockedShape,
    method: DenseMethod,
    /// The rows of the output that are computed at a time, and the rows of the padded sample that they see.
    band: usize,
    height: usize,
    /// The words of scratch memory.
    scratch: usize,
    /// The offsets of the pieces of these rows that a window sees, their length, and the number and length of shorter last
    /// pieces, all in words.
    pieces: Vec<usize>,
    piece: usize,
    last: (usize, usize),
}

impl DenseConv {
    /// Prepares everything that depends on the size of the planes.
    pub fn new(shape: BlockedShape, method: DenseMethod) -> Self {
        // The weights are read again for each band of rows.
        let channels = shape.channels / shape.groups.max(1);
        let weights = [channels, shape.out_channels, shape.taps(), size_of::<f32>()];
        let weights = weights.into_iter().fold(1, usize::saturating_mul);
        Self::in_bands(shape, method, weights.max(CACHED))
    }

    /// As [`DenseConv::new`], with no more than `room` bytes of the padded sample at a time, unless a single row of the output
    /// sees more.
    pub(super) fn in_bands(shape: BlockedShape, method: DenseMethod, room: usize) -> Self {
        let (block, channels) = (method.input_block(), shape.channels / shape.groups.max(1));
        let channels = method.packing.count(channels);
        let ([band, height], scratch) = (band(&shape, method, room), scratch(&shape, method, room));
        let width = shape.padded_lens()[1];
        let [high, wide] = shape.windows;
        // In a plain input, the taps of a row form one piece if they are adjacent.
        let is_row_a_piece = block == 1 && wide.dilation == 1;
        let columns = if is_row_a_piece { 1 } else { wide.kernel };
        let mut pieces = Vec::new();
        for plane in 0..channels.div_ceil(block) {
            for row in 0..high.kernel {
                let line = plane * height * width + row * high.dilation * width;
                pieces.extend((0..columns).map(|column| (line + column * wide.dilation) * block));
            }
        }
        let (piece, rest) = (if is_row_a_piece { wide.kernel } else { block }, channels % block);
        let last = if rest > 0 { (shape.taps(), rest) } else { (0, 0) };
        Self { shape, method, band, height, scratch, pieces, piece, last }
    }

    /// The number of elements of scratch memory that [`DenseConv::run`] needs for inputs of this size and for all smaller ones:
    /// for rows that are padded or converted to pairs, and 0 if the input is read in place.
    pub fn scratch(&self) -> usize {
        self.scratch
    }

    /// Convolves one sample.
    ///
    /// # Errors
    /// Fails if the deadline has passed or the epilogue fails.
    ///
    /// # Panics
    /// Panics if a slice is shorter than its shape requires, scratch is shorter than [`DenseConv::scratch`], or the
    /// weights have another shape or packing.
    pub fn run(
        &self,
        input: &[f32],
        weights: &DenseWeights,
        output: &mut [f32],
        scratch: &mut [f32],
        epilogue: &SumEpilogue<'_>,
        limits: &Limits,
    ) -> Result<()> {
        assert_eq!(
            weights.method, self.method,
            "the weights must be packed for the method of the convolution"
        );
        let outputs: usize = weights.panels.iter().map(Panels::outputs).sum();
        let sizes = (weights.panels.len(), outputs);
        assert_eq!(
            sizes,
            (self.shape.groups, self.shape.out_channels),
            "the weights must have the shape of the convolution"
        );
        let (block, input_block) = (self.method.blocking.block, self.method.input_block());
        let [rows, columns] = self.shape.outputs();
        let (height, width) = (self.height, self.shape.padded_lens()[1]);
        let [high, wide] = self.shape.windows;
        let (groups, plane) = (self.shape.groups, rows * columns * block);
        let group_planes = self.shape.channels / groups.max(1) / self.method.blocking.input_block();
        let row = wide.stride * input_block;
        // If the convolution is pointwise and has no stride, all rows of a plane form one line.
        let is_flat = self.shape.taps() == 1 && high.stride == 1 && wide.stride == 1;
        let target = Target { row: block, line: columns * block, panel: plane, last: block };
        for first in (0..rows).step_by(self.band) {
            let data = match self.method.reads_in_place(&self.shape) {
                true => input,
                false => self.padded(input, first * high.stride, scratch, limits)?,
            };
            let count = self.band.min(rows - first);
            let size = match is_flat {
                true => Size { lines: 1, rows: count * columns },
                false => Size { lines: count, rows: columns },
            };
            for (group, panels) in weights.panels.iter().enumerate() {
                let factors = Factors {
                    data: &data[group * group_planes * height * width * input_block..],
                    pieces: &self.pieces,
                    piece: self.piece,
                    last: self.last,
                    row,
                    line: high.stride * width * input_block,
                };
                let at = group * panels.count() * plane + first * columns * block;
                let epilogue = SumEpilogue {
                    first: epilogue.first + at,
                    added: epilogue.added.map(|added| &added[at..]),
                    ..*epilogue
                };
                multiply(panels, &factors, size, (&mut output[at..], target), &epilogue, limits)?;
            }
        }
        Ok(())
    }

    /// The rows of the sample with zero padding that a band sees, from row `start` on, in words.
    fn padded<'a>(
        &self,
        input: &[f32],
        start: usize,
        scratch: &'a mut [f32],
        limits: &Limits,
    ) -> Result<&'a [f32]> {
        let (block, [height, width]) = (self.method.input_block(), self.shape.lens);
        let (padded_height, padded_width) = (self.height, self.shape.padded_lens()[1]);
        let (line, padded_line) = (width * block, padded_width * block);
        let numbers = line * self.method.packing.numbers();
        let [top, left] = self.shape.windows.map(|window| window.pad_before);
        let scratch = &mut scratch[..self.method.padded_line(&self.shape) * self.height];
        for_each_chunk(scratch, padded_height * padded_line, &|at, padded: &mut [f32]| -> Result<()> {
            limits.check_deadline()?;
            let plane = at / (padded_height * padded_line);
            for (row, padded) in padded.chunks_exact_mut(padded_line).enumerate() {
                match (start + row).checked_sub(top).filter(|&row| row < height) {
                    Some(row) => {
                        let source = &input[(plane * height + row) * numbers..][..numbers];
                        padded[..left * block].fill(0.0);
                        let words = &mut padded[left * block..][..line];
                        match self.method.packing {
                            Packing::F32 => words.copy_from_slice(source),
                            Packing::Bf16Pairs => round(source, words),
                        }
                        padded[left * block + line..].fill(0.0);
                    }
                    None => padded.fill(0.0),
                }
            }
            Ok(())
        })?;
        Ok(scratch)
    }
}
