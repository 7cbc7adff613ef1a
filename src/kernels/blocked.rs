//! Convolution of planes whose channels lie in blocks: N, ⌈C/b⌉, H, W, b.
//!
//! The numbers of one block are what a vector register holds, so that one loop over a row of outputs serves b output
//! channels at a time, without gathering columns and without ends of vectors to care for.

use super::parallel::for_each_chunk;
use super::widest;
use super::window::Window;
use crate::{LimitError, Limits};

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
            let output = output.as_chunks_mut::<B>().0;
            if self.is_depthwise {
                widest(|| task.depthwise(output))
            } else {
                widest(|| task.dense(output))
            }
            Ok(())
        })
    }
}

/// One row of outputs of one block of channels.
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

    /// The taps that look at rows of the input, each with that row.
    #[inline(always)]
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let (window, height, row) = (self.shape.windows[0], self.shape.lens[0], self.row);
        window
            .taps(row, height)
            .map(move |tap| (tap, row * window.stride + tap * window.dilation - window.pad_before))
    }

    /// Calls `add` with every tap along the columns, the first of `COLUMNS` outputs that look at the input there, how many
    /// do, and the place that the first one looks at.
    #[inline(always)]
    fn columns(&self, start: usize, count: usize, mut add: impl FnMut(usize, usize, usize, usize)) {
        let (window, width) = (self.shape.windows[1], self.shape.lens[1]);
        for tap in 0..window.kernel {
            let inside = window.inside(tap, width);
            let (first, end) = (inside.start.max(start), inside.end.min(start + count));
            if first < end {
                let place = first * window.stride + tap * window.dilation - window.pad_before;
                add(tap, first - start, end - first, place);
            }
        }
    }

    #[inline(always)]
    fn depthwise(&self, output: &mut [[f32; B]]) {
        let (kernel, stride) = (self.shape.windows[1].kernel, self.shape.windows[1].stride);
        for (index, output) in output.chunks_mut(COLUMNS).enumerate() {
            let mut sums = [*self.bias; COLUMNS];
            for (tap_row, row) in self.rows() {
                let line = self.line(self.block, row);
                self.columns(index * COLUMNS, output.len(), |tap, first, count, place| {
                    let weight = &self.weight[tap_row * kernel + tap];
                    let places = line[place..].iter().step_by(stride);
                    for (sum, x) in sums[first..first + count].iter_mut().zip(places) {
                        (0..B).for_each(|lane| sum[lane] += x[lane] * weight[lane]);
                    }
                });
            }
            output.copy_from_slice(&sums[..output.len()]);
        }
    }

    #[inline(always)]
    fn dense(&self, output: &mut [[f32; B]]) {
        let [high, wide] = self.shape.windows.map(|window| window.kernel);
        let stride = self.shape.windows[1].stride;
        for (index, output) in output.chunks_mut(COLUMNS).enumerate() {
            let mut sums = [*self.bias; COLUMNS];
            for channel in 0..self.shape.channels {
                let lane = channel % B;
                for (tap_row, row) in self.rows() {
                    let line = self.line(channel / B, row);
                    let weights = &self.weight[(channel * high + tap_row) * wide..][..wide];
                    self.columns(index * COLUMNS, output.len(), |tap, first, count, place| {
                        let weight = &weights[tap];
                        if count == COLUMNS {
                            // Known in number, the sums stay in registers.
                            for (i, sum) in sums.iter_mut().enumerate() {
                                let x = line[place + i * stride][lane];
                                (0..B).for_each(|lane| sum[lane] += x * weight[lane]);
                            }
                            return;
                        }
                        for (i, sum) in sums[first..first + count].iter_mut().enumerate() {
                            let x = line[place + i * stride][lane];
                            (0..B).for_each(|lane| sum[lane] += x * weight[lane]);
                        }
                    });
                }
            }
            output.copy_from_slice(&sums[..output.len()]);
        }
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
