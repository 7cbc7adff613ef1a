//! Convolution of planes whose channels lie in blocks, each of which sees the input channel of the same number alone.

use super::BlockedShape;
use crate::Limits;
use crate::kernels::elementwise::Finish;
use crate::kernels::parallel::for_each_chunk;
use crate::kernels::widest;
use crate::tensor::Result;
use std::ops::Range;

/// Weights and biases with channels in blocks of `B`: ⌈C/B⌉×KH×KW×B. What fills up the last block is 0.
#[derive(Debug)]
pub struct DepthwiseWeights<const B: usize> {
    weight: Vec<[f32; B]>,
    bias: Vec<[f32; B]>,
}

impl<const B: usize> DepthwiseWeights<B> {
    /// Orders weights C×1×KH×KW, and as many biases as channels, or none.
    ///
    /// # Panics
    /// When there are fewer weights or biases than the shape says.
    pub fn new(shape: &BlockedShape, weight: &[f32], bias: Option<&[f32]>) -> Self {
        let taps = shape.taps();
        let blocks = shape.out_channels.div_ceil(B);
        let lanes = |value: &dyn Fn(usize) -> f32, block: usize| -> [f32; B] {
            std::array::from_fn(|lane| {
                let channel = block * B + lane;
                if channel < shape.out_channels { value(channel) } else { 0.0 }
            })
        };
        let positions = (0..blocks).flat_map(|block| (0..taps).map(move |tap| (block, tap)));
        Self {
            weight: positions
                .map(|(block, tap)| lanes(&|channel| weight[channel * taps + tap], block))
                .collect(),
            bias: (0..blocks)
                .map(|block| lanes(&|channel| bias.map_or(0.0, |bias| bias[channel]), block))
                .collect(),
        }
    }

    /// Convolves one sample; `finish` gets the rows of its output, the first of which is at position `first`.
    ///
    /// # Errors
    /// A deadline that has passed, checked for each row of outputs; what `finish` says.
    ///
    /// # Panics
    /// When a slice is shorter than its shape, or the weights are of another one.
    pub fn run(
        &self,
        shape: &BlockedShape,
        input: &[f32],
        output: &mut [f32],
        (finish, first): (Option<&dyn Finish<f32>>, usize),
        limits: &Limits,
    ) -> Result<()> {
        let [inputs, outputs] = shape.sample(B);
        let [rows, columns] = shape.outputs();
        let (input, output) = (input[..inputs].as_chunks::<B>().0, &mut output[..outputs]);
        let (width, taps) = (columns * B, shape.taps());
        for_each_chunk(output, width, &|start, output| {
            limits.check_deadline()?;
            let (block, row) = (start / width / rows, start / width % rows);
            let weight = &self.weight[block * taps..][..taps];
            let task = Row { shape, input, weight, bias: &self.bias[block], block, row };
            widest(|| task.compute(output.as_chunks_mut::<B>().0));
            finish.map_or(Ok(()), |finish| finish.finish(first + start, output))
        })
    }
}

/// Columns of outputs that are computed together: as many accumulators as registers are left for.
const COLUMNS: usize = 6;

/// One row of outputs of one block of channels.
///
/// The loops are written out: what is not inlined is not compiled for wide vectors, and closures may not be.
struct Row<'a, const B: usize> {
    shape: &'a BlockedShape,
    input: &'a [[f32; B]],
    weight: &'a [[f32; B]],
    bias: &'a [f32; B],
    block: usize,
    row: usize,
}

impl<const B: usize> Row<'_, B> {
    /// A row of the input's planes of one block.
    #[inline(always)]
    fn line(&self, block: usize, row: usize) -> &[[f32; B]] {
        let [height, width] = self.shape.lens;
        &self.input[(block * height + row) * width..][..width]
    }

    /// The input's row that a tap looks at, which is not in the padding.
    #[inline(always)]
    fn source(&self, tap: usize) -> usize {
        let window = self.shape.windows[0];
        self.row * window.stride + tap * window.dilation - window.pad_before
    }

    /// Positions at which no tap along the columns looks at the padding.
    fn interior(&self) -> Range<usize> {
        let (window, width) = (self.shape.windows[1], self.shape.lens[1]);
        window.inside(0, width).start..window.inside(window.kernel.saturating_sub(1), width).end
    }

    /// Computes the row: several columns at a time where no tap looks at the padding, the others one by one. Where the last
    /// ones are too few, some are computed again with them.
    #[inline(always)]
    fn compute(&self, output: &mut [[f32; B]]) {
        let taps = self.shape.windows[0].taps(self.row, self.shape.lens[0]);
        let interior = self.interior();
        let (begin, end) = (interior.start.min(output.len()), interior.end.min(output.len()));
        if end < begin + COLUMNS {
            return self.border(&taps, 0, output);
        }
        self.border(&taps, 0, &mut output[..begin]);
        self.border(&taps, end, &mut output[end..]);
        let mut start = begin;
        while start < end {
            let first = start.min(end - COLUMNS);
            if let Ok(output) = <&mut [_; COLUMNS]>::try_from(&mut output[first..first + COLUMNS]) {
                self.inside(&taps, first, output);
            }
            start += COLUMNS;
        }
    }

    /// Strides that the compiler knows spare it the checks of each access.
    #[inline(always)]
    fn inside(&self, taps: &Range<usize>, start: usize, output: &mut [[f32; B]; COLUMNS]) {
        match self.shape.windows[1].stride {
            1 => self.strided::<1>(taps, start, output),
            2 => self.strided::<2>(taps, start, output),
            _ => self.border(taps, start, output),
        }
    }

    #[inline(always)]
    fn strided<const STRIDE: usize>(
        &self,
        taps: &Range<usize>,
        start: usize,
        output: &mut [[f32; B]; COLUMNS],
    ) {
        let window = self.shape.windows[1];
        // An accumulator with a name stays in a register, one of an array may not.
        let [mut a, mut b, mut c, mut d, mut e, mut f] = [*self.bias; COLUMNS];
        for tap_row in taps.clone() {
            let line = &self.line(self.block, self.source(tap_row))[start * STRIDE - window.pad_before..];
            let weights = &self.weight[tap_row * window.kernel..][..window.kernel];
            for (tap, weight) in weights.iter().enumerate() {
                let x = &line[tap * window.dilation..][..(COLUMNS - 1) * STRIDE + 1];
                add_products(&mut a, &x[0], weight);
                add_products(&mut b, &x[STRIDE], weight);
                add_products(&mut c, &x[2 * STRIDE], weight);
                add_products(&mut d, &x[3 * STRIDE], weight);
                add_products(&mut e, &x[4 * STRIDE], weight);
                add_products(&mut f, &x[5 * STRIDE], weight);
            }
        }
        *output = [a, b, c, d, e, f];
    }

    #[inline(always)]
    fn border(&self, taps: &Range<usize>, start: usize, output: &mut [[f32; B]]) {
        let (window, width) = (self.shape.windows[1], self.shape.lens[1]);
        output.fill(*self.bias);
        for tap_row in taps.clone() {
            let line = self.line(self.block, self.source(tap_row));
            for (i, sum) in output.iter_mut().enumerate() {
                let first = (start + i) * window.stride;
                for tap in window.taps(start + i, width) {
                    let weight = &self.weight[tap_row * window.kernel + tap];
                    let x = &line[first + tap * window.dilation - window.pad_before];
                    add_products(sum, x, weight);
                }
            }
        }
    }
}

/// Adds products lane by lane.
#[inline(always)]
fn add_products<const B: usize>(sum: &mut [f32; B], x: &[f32; B], weight: &[f32; B]) {
    for lane in 0..B {
        sum[lane] += x[lane] * weight[lane];
    }
}
