//! Convolution whose output channels lie in blocks, each of which sees all channels of its group: products with packed
//! weights. The factors of a result are what the window sees, read where they lie.

use super::BlockedShape;
use crate::isa::isa_for;
use crate::packed::{Ending, Factors, Panels, Size, Target, Words, multiply, round};
use crate::parallel::for_each_chunk;
use ixion_tensor::Limits;
use ixion_tensor::{Result, Tensor};

/// How channels lie in an output and in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocking {
    /// Channels of a block of the output: as many as a vector has numbers.
    pub block: usize,
    /// Whether the input lies in the same blocks; otherwise it is plain.
    pub is_input_blocked: bool,
}

/// How a convolution is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseMethod {
    /// How channels lie.
    pub blocking: Blocking,
    /// What is multiplied: with pairs, input and weights are rounded to `bf16`.
    pub words: Words,
}

impl DenseMethod {
    /// Words of a place that lie beside each other in the input.
    fn input_block(self) -> usize {
        self.words.count(self.blocking.input_block())
    }

    /// Whether there are kernels. The pairs are channels of a block, of which none may be left alone.
    pub fn suits(self, channels: usize, out_channels: usize, groups: usize) -> bool {
        let Self { blocking, words } = self;
        let are_pairs = blocking.is_input_blocked && blocking.block == 16 && channels.is_multiple_of(2);
        blocking.suits(channels, out_channels, groups)
            && (words == Words::Singles || words.are_here() && are_pairs)
    }
}

impl Blocking {
    /// Channels of the input that lie beside each other.
    fn input_block(self) -> usize {
        if self.is_input_blocked { self.block } else { 1 }
    }

    /// Whether there are kernels for a convolution: for blocks as long as vectors are, and for groups that fill whole blocks.
    pub fn suits(self, channels: usize, out_channels: usize, groups: usize) -> bool {
        let fills = |channels: usize| channels.is_multiple_of(groups.saturating_mul(self.block));
        isa_for(self.block).is_some()
            && (groups == 1 || (groups > 1 && fills(channels) && fills(out_channels)))
    }
}

/// The weights of each group, in the order in which they are multiplied. They are the same for all sizes of planes.
#[derive(Debug)]
pub struct DenseWeights {
    method: DenseMethod,
    panels: Vec<Panels>,
}

impl DenseWeights {
    /// Orders weights O×(C/groups)×KH×KW, and as many biases as output channels or none. None where [`DenseMethod::suits`]
    /// says that there are no kernels.
    ///
    /// # Panics
    /// When there are fewer weights or biases than the shape says.
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
            match method.words {
                Words::Singles => Panels::for_isa(isa, outputs, order.len(), weight, bias),
                Words::Pairs => Panels::pairs(outputs, order.len(), weight, bias),
            }
        });
        Some(Self { method, panels: panels.collect() })
    }

    /// Weights in order that were stored: the [numbers](Panels::numbers) of all panels, one behind the other. None where
    /// there are more or fewer than the shape says, or no kernels.
    pub fn stored(shape: &BlockedShape, numbers: Tensor, method: DenseMethod) -> Option<Self> {
        let (isa, groups) = (isa_for(method.blocking.block)?, shape.groups);
        if !method.suits(shape.channels, shape.out_channels, groups) {
            return None;
        }
        let (outputs, channels) = (shape.out_channels / groups, shape.channels / groups);
        let depth = method.words.count(channels * shape.taps());
        let len = Panels::len(isa, outputs, depth);
        if numbers.num_elements() != len.checked_mul(groups)? {
            return None;
        }
        let panels = (0..groups).map(|group| {
            let part = numbers.narrow(0, group * len, len).ok()?;
            Panels::stored((isa, method.words), outputs, depth, part)
        });
        Some(Self { method, panels: panels.collect::<Option<_>>()? })
    }

    /// The panels of each group.
    pub fn panels(&self) -> &[Panels] {
        &self.panels
    }
}

/// Which of an output's weights C×K are multiplied when: block after block, and of each place of the window all channels.
fn order(channels: usize, taps: usize, block: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(channels * taps);
    for first in (0..channels).step_by(block) {
        let block = first..(first + block).min(channels);
        order.extend((0..taps).flat_map(|tap| block.clone().map(move |channel| channel * taps + tap)));
    }
    order
}

/// A convolution of one shape.
#[derive(Debug)]
pub struct DenseConv {
    shape: BlockedShape,
    method: DenseMethod,
    /// Where the pieces of what a window sees lie in a padded sample, how long they are, and how many are shorter: in words.
    pieces: Vec<usize>,
    piece: usize,
    last: (usize, usize),
}

impl DenseConv {
    /// Everything that depends on the sizes of planes.
    pub fn new(shape: BlockedShape, method: DenseMethod) -> Self {
        let (block, channels) = (method.input_block(), shape.channels / shape.groups.max(1));
        let channels = method.words.count(channels);
        let [height, width] = shape.padded_lens();
        let [high, wide] = shape.windows;
        // In a plain input, places of a row are a piece if they lie beside each other.
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
        Self { shape, method, pieces, piece, last }
    }

    /// Numbers of scratch memory that [`DenseConv::run`] takes: a sample with the padding around it, where there is any, or in
    /// pairs.
    pub fn scratch(&self) -> usize {
        let lens = self.shape.padded_lens();
        if self.reads_in_place() {
            return 0;
        }
        let block = self.method.input_block();
        let planes = self.shape.channels.div_ceil(self.method.blocking.input_block());
        [planes, lens[0], lens[1], block].into_iter().fold(1, usize::saturating_mul)
    }

    /// Whether windows see the input itself.
    fn reads_in_place(&self) -> bool {
        self.method.words == Words::Singles && self.shape.padded_lens() == self.shape.lens
    }

    /// Convolves one sample.
    ///
    /// # Errors
    /// A deadline that has passed; what is done in the end may fail.
    ///
    /// # Panics
    /// When a slice is shorter than its shape, scratch than [`DenseConv::scratch`], or the weights are of another shape.
    pub fn run(
        &self,
        input: &[f32],
        weights: &DenseWeights,
        output: &mut [f32],
        scratch: &mut [f32],
        ending: &Ending<'_>,
        limits: &Limits,
    ) -> Result<()> {
        assert_eq!(weights.method, self.method, "weights are in the order of the convolution");
        let outputs: usize = weights.panels.iter().map(Panels::outputs).sum();
        let sizes = (weights.panels.len(), outputs);
        assert_eq!(
            sizes,
            (self.shape.groups, self.shape.out_channels),
            "weights are those of the convolution"
        );
        let (block, input_block) = (self.method.blocking.block, self.method.input_block());
        let [rows, columns] = self.shape.outputs();
        let [height, width] = self.shape.padded_lens();
        let data = if self.reads_in_place() { input } else { self.padded(input, scratch, limits)? };
        let [high, wide] = self.shape.windows;
        let (groups, plane) = (self.shape.groups, rows * columns * block);
        let group_planes = self.shape.channels / groups.max(1) / self.method.blocking.input_block();
        let row = wide.stride * input_block;
        // Without a step beyond the width, all rows of a plane are one line.
        let is_flat = self.shape.taps() == 1 && high.stride == 1 && wide.stride == 1;
        let size = match is_flat {
            true => Size { lines: 1, rows: rows * columns },
            false => Size { lines: rows, rows: columns },
        };
        let target = Target { row: block, line: columns * block, panel: plane, last: block };
        for (group, panels) in weights.panels.iter().enumerate() {
            let factors = Factors {
                data: &data[group * group_planes * height * width * input_block..],
                pieces: &self.pieces,
                piece: self.piece,
                last: self.last,
                row,
                line: high.stride * width * input_block,
            };
            let at = group * panels.count() * plane;
            let ending =
                Ending { first: ending.first + at, added: ending.added.map(|added| &added[at..]), ..*ending };
            multiply(panels, &factors, size, (&mut output[at..], target), &ending, limits)?;
        }
        Ok(())
    }

    /// The sample with zeros around its planes, in words.
    fn padded<'a>(&self, input: &[f32], scratch: &'a mut [f32], limits: &Limits) -> Result<&'a [f32]> {
        let (block, [height, width]) = (self.method.input_block(), self.shape.lens);
        let [padded_height, padded_width] = self.shape.padded_lens();
        let (line, padded_line) = (width * block, padded_width * block);
        let numbers = line * self.method.words.numbers();
        let [top, left] = self.shape.windows.map(|window| window.pad_before);
        let scratch = &mut scratch[..self.scratch()];
        for_each_chunk(scratch, padded_height * padded_line, &|start, padded: &mut [f32]| -> Result<()> {
            limits.check_deadline()?;
            let plane = start / (padded_height * padded_line);
            for (row, padded) in padded.chunks_exact_mut(padded_line).enumerate() {
                match row.checked_sub(top).filter(|&row| row < height) {
                    Some(row) => {
                        let source = &input[(plane * height + row) * numbers..][..numbers];
                        padded[..left * block].fill(0.0);
                        let words = &mut padded[left * block..][..line];
                        match self.method.words {
                            Words::Singles => words.copy_from_slice(source),
                            Words::Pairs => round(source, words),
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
