//! Convolution of planes whose channels lie in blocks: N, ⌈C/b⌉, H, W, b.
//!
//! The numbers of one block are what a vector register holds, so that one loop over a row of outputs serves b output
//! channels at a time, without gathering columns and without ends of vectors to care for.

use super::parallel::for_each_chunk;
use super::widest;
use super::window::Window;
use crate::{LimitError, Limits};
use std::ops::Range;

/// The sizes of a convolution over two axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedShape {
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub out_channels: usize,
    /// Whether each output channel sees the input channel of the same number alone. Otherwise it sees all of them.
    pub is_depthwise: bool,
    /// Lengths of the input's planes.
    pub lens: [usize; 2],
    /// The window along both axes.
    pub windows: [Window; 2],
}

/// Weights and biases with output channels in blocks of `B`: ⌈O/B⌉×C×KH×KW×B, of a depthwise convolution without C. What
/// fills up the last block is 0.
#[derive(Debug)]
pub struct BlockedWeights<const B: usize> {
    weight: Vec<[f32; B]>,
    bias: Vec<[f32; B]>,
}

impl<const B: usize> BlockedWeights<B> {
    /// Orders weights O×C×KH×KW, of a depthwise convolution O×1×KH×KW, and as many biases as output channels, or none.
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
}

/// Columns of outputs that are computed together: as many accumulators as registers are left for.
const COLUMNS: usize = 6;

impl BlockedShape {
    /// Rows and columns of the output.
    pub fn outputs(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.windows[axis].positions(self.lens[axis]))
    }

    /// Weights of one output channel.
    fn taps(&self) -> usize {
        let channels = if self.is_depthwise { 1 } else { self.channels };
        channels * self.windows[0].kernel * self.windows[1].kernel
    }

    /// Elements of a sample in memory, and of its output.
    pub fn sample<const B: usize>(&self) -> [usize; 2] {
        let [rows, columns] = self.outputs();
        [
            self.channels.div_ceil(B) * self.lens[0] * self.lens[1] * B,
            self.out_channels.div_ceil(B) * rows * columns * B,
        ]
    }

    /// Convolves one sample.
    ///
    /// # Errors
    /// A deadline that has passed, checked for each row of outputs.
    ///
    /// # Panics
    /// When a slice is shorter than its shape, or the weights are of another one.
    pub fn run<const B: usize>(
        &self,
        input: &[f32],
        weights: &BlockedWeights<B>,
        output: &mut [f32],
        limits: &Limits,
    ) -> Result<(), LimitError> {
        let [inputs, outputs] = self.sample::<B>();
        let [rows, columns] = self.outputs();
        let (input, output) = (input[..inputs].as_chunks::<B>().0, &mut output[..outputs]);
        let (width, taps) = (columns * B, self.taps());
        for_each_chunk(output, width, &|start, output| {
            limits.check_deadline()?;
            let (block, row) = (start / width / rows, start / width % rows);
            let weight = &weights.weight[block * taps..][..taps];
            let task = Row { shape: self, input, weight, bias: &weights.bias[block], block, row };
            widest(|| task.compute(output.as_chunks_mut::<B>().0));
            Ok(())
        })
    }
}

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
        match (self.shape.is_depthwise, self.shape.windows[1].stride) {
            (true, 1) => self.depthwise_inside::<1>(taps, start, output),
            (true, 2) => self.depthwise_inside::<2>(taps, start, output),
            (false, 1) => self.dense_inside::<1>(taps, start, output),
            (false, 2) => self.dense_inside::<2>(taps, start, output),
            _ => self.border(taps, start, output),
        }
    }

    #[inline(always)]
    fn border(&self, taps: &Range<usize>, start: usize, output: &mut [[f32; B]]) {
        match self.shape.is_depthwise {
            true => self.depthwise(taps, start, output),
            false => self.dense(taps, start, output),
        }
    }

    #[inline(always)]
    fn depthwise_inside<const STRIDE: usize>(
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
    fn depthwise(&self, taps: &Range<usize>, start: usize, output: &mut [[f32; B]]) {
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

    #[inline(always)]
    fn dense_inside<const STRIDE: usize>(
        &self,
        taps: &Range<usize>,
        start: usize,
        output: &mut [[f32; B]; COLUMNS],
    ) {
        let [high, wide] = self.shape.windows;
        let [mut a, mut b, mut c, mut d, mut e, mut f] = [*self.bias; COLUMNS];
        for channel in 0..self.shape.channels {
            let lane = channel % B;
            for tap_row in taps.clone() {
                let line = &self.line(channel / B, self.source(tap_row))[start * STRIDE - wide.pad_before..];
                let weights = &self.weight[(channel * high.kernel + tap_row) * wide.kernel..][..wide.kernel];
                for (tap, weight) in weights.iter().enumerate() {
                    let x = &line[tap * wide.dilation..][..(COLUMNS - 1) * STRIDE + 1];
                    add_multiple(&mut a, x[0][lane], weight);
                    add_multiple(&mut b, x[STRIDE][lane], weight);
                    add_multiple(&mut c, x[2 * STRIDE][lane], weight);
                    add_multiple(&mut d, x[3 * STRIDE][lane], weight);
                    add_multiple(&mut e, x[4 * STRIDE][lane], weight);
                    add_multiple(&mut f, x[5 * STRIDE][lane], weight);
                }
            }
        }
        *output = [a, b, c, d, e, f];
    }

    #[inline(always)]
    fn dense(&self, taps: &Range<usize>, start: usize, output: &mut [[f32; B]]) {
        let ([high, wide], width) = (self.shape.windows, self.shape.lens[1]);
        for (i, output) in output.iter_mut().enumerate() {
            let (first, columns) = ((start + i) * wide.stride, wide.taps(start + i, width));
            let mut sum = *self.bias;
            for channel in 0..self.shape.channels {
                let lane = channel % B;
                for tap_row in taps.clone() {
                    let line = self.line(channel / B, self.source(tap_row));
                    let weights = &self.weight[(channel * high.kernel + tap_row) * wide.kernel..];
                    for tap in columns.clone() {
                        let x = line[first + tap * wide.dilation - wide.pad_before][lane];
                        let weight = &weights[tap];
                        add_multiple(&mut sum, x, weight);
                    }
                }
            }
            *output = sum;
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

/// Adds the same multiple of every lane.
#[inline(always)]
fn add_multiple<const B: usize>(sum: &mut [f32; B], x: f32, weight: &[f32; B]) {
    for lane in 0..B {
        sum[lane] += x * weight[lane];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive;
    use crate::kernels::parallel::tests::on_threads;
    use crate::kernels::reformat::{Cut, reformat};
    use crate::kernels::testing::whole_noise;
    use ndarray::Ix4;
    use proptest::prelude::*;

    fn check<const B: usize>(shape: &BlockedShape, with_bias: bool) {
        let [rows, columns] = shape.outputs();
        let ([height, width], limits) = (shape.lens, Limits::default());
        let input = whole_noise(&[1, shape.channels, height, width], 1);
        let (per_output, groups) = if shape.is_depthwise { (1, shape.channels) } else { (shape.channels, 1) };
        let kernel = shape.windows.map(|window| window.kernel);
        let weight = whole_noise(&[shape.out_channels, per_output, kernel[0], kernel[1]], 2);
        let bias = whole_noise(&[shape.out_channels], 3);
        let bias = with_bias.then(|| bias.as_slice().unwrap());
        let views = [&input, &weight].map(|array| array.view().into_dimensionality::<Ix4>().unwrap());
        let want = naive::conv2d(views[0], views[1], bias, &shape.windows, groups);

        let single = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let plain = Cut { outer: 1, len: shape.channels, inner: height * width, block: None };
        let mut blocked = vec![0.0; shape.sample::<B>()[0]];
        let source = single(input.as_slice().unwrap());
        let cut = Cut { block: Some(B), ..plain };
        reformat((plain, &source), (cut, &mut blocked), f32::NAN, &limits, |x| x).unwrap();
        let bias = bias.map(single);
        let weights = BlockedWeights::<B>::new(shape, &single(weight.as_slice().unwrap()), bias.as_deref());
        let (alone, pooled) = on_threads(&[1, 3], || {
            let mut output = vec![7.0; shape.sample::<B>()[1]];
            shape.run(&blocked, &weights, &mut output, &limits).unwrap();
            output
        });
        let plain = Cut { outer: 1, len: shape.out_channels, inner: rows * columns, block: None };
        let mut got = vec![0.0; want.len()];
        reformat((Cut { block: Some(B), ..plain }, &alone), (plain, &mut got), 0.0, &limits, |x| x).unwrap();
        assert_eq!(got, single(&want.iter().copied().collect::<Vec<_>>()), "{shape:?}");
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        assert!(pooled.iter().all(|pooled| bits(pooled) == bits(&alone)));
    }

    fn window() -> impl Strategy<Value = Window> {
        (1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3).prop_map(
            |(kernel, stride, dilation, a, b)| Window {
                kernel,
                stride,
                dilation,
                pad_before: a,
                pad_after: b,
            },
        )
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_convolution(
            channels in 1usize..20, others in 1usize..20, is_depthwise: bool, with_bias: bool,
            lens in [1usize..18, 1usize..18], windows in [window(), window()], eight: bool,
        ) {
            let out_channels = if is_depthwise { channels } else { others };
            let shape = BlockedShape { channels, out_channels, is_depthwise, lens, windows };
            prop_assume!(shape.outputs().iter().all(|&len| len > 0));
            if eight { check::<8>(&shape, with_bias) } else { check::<16>(&shape, with_bias) }
        }
    }
}
