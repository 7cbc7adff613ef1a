//! Convolutions and products of whole numbers of 8 bits.
//!
//! Zero points are taken off first, so that nothing remains but products of numbers from −255 to 255: these fit 16 bits,
//! for whose products with 32-bit sums processors have an instruction. A convolution gathers what each position sees
//! into a row; every output is then the product of a row with one of weights.

use super::columns::TILE_BYTES;
use super::naive::Requantization;
use super::parallel::for_each_chunk;
use super::wide::widest;
use super::window::Window;
use crate::{LimitError, Limits};

/// A type that holds quantised numbers.
pub trait Whole: crate::tensor::Element {
    /// The least and the largest number.
    const RANGE: [i32; 2];

    /// The number, which is in the range.
    fn of(value: i32) -> Self;

    /// The number.
    fn value(self) -> i32;
}

macro_rules! wholes {
    ($($type:ty),*) => {$(
        impl Whole for $type {
            const RANGE: [i32; 2] = [<$type>::MIN as i32, <$type>::MAX as i32];

            #[inline(always)]
            fn of(value: i32) -> Self {
                value as Self
            }

            #[inline(always)]
            fn value(self) -> i32 {
                self.into()
            }
        }
    )*};
}

wholes!(u8, i8, i32);

/// Numbers without their zero point, which is one of the type's, as are they: their difference fits 16 bits.
pub fn centered<Q: Whole>(values: &[Q], zero_point: i32) -> Vec<i16> {
    values.iter().map(|value| value.value().wrapping_sub(zero_point) as i16).collect()
}

/// So many products of numbers from −255 to 255 fit a sum of 32 bits.
const SUMMABLE: usize = 1 << 14;

#[inline(always)]
fn dot(a: &[i16], b: &[i16]) -> i64 {
    let product = |(&a, &b): (&i16, &i16)| i32::from(a).wrapping_mul(i32::from(b));
    let sum = |(a, b): (&[i16], &[i16])| {
        i64::from(a.iter().zip(b).map(product).fold(0i32, |sum, product| sum.wrapping_add(product)))
    };
    a.chunks(SUMMABLE).zip(b.chunks(SUMMABLE)).map(sum).sum()
}

/// Rows of weights O×K, and what makes their sums whole numbers.
#[derive(Debug, Clone)]
pub struct WholeWeights {
    /// The weights without their zero points.
    pub weights: Vec<i16>,
    /// One for each output.
    pub outputs: Vec<Requantization>,
}

/// Products that are worth a look at the deadline.
const PATIENCE: usize = 1 << 22;

/// Outputs that are computed while a row is at hand.
const TOGETHER: usize = 8;

/// Rows R×K times the transpose of weights O×K, as R×O whole numbers.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`].
///
/// # Panics
/// When a slice is shorter than its shape; callers have checked them.
pub fn product<Q: Whole>(
    rows: &[i16],
    weights: &WholeWeights,
    depth: usize,
    output: &mut [Q],
    limits: &Limits,
) -> Result<(), LimitError> {
    let outputs = weights.outputs.len();
    let together = (PATIENCE / depth.saturating_mul(outputs).max(1)).max(1);
    for_each_chunk(output, outputs * together, &|start, output| {
        limits.check_deadline()?;
        let first = start / outputs.max(1);
        widest(|| {
            for (at, output) in output.chunks_exact_mut(outputs.max(1)).enumerate() {
                let row = &rows[(first + at) * depth..][..depth];
                for (o, (output, how)) in output.iter_mut().zip(&weights.outputs).enumerate() {
                    *output = Q::of(how.apply(dot(row, &weights.weights[o * depth..][..depth])));
                }
            }
        });
        Ok(())
    })
}

/// The sizes of a convolution of one sample: C×H×W → O×H'×W'.
#[derive(Debug, Clone)]
pub struct WholeConv {
    /// Input channels, a multiple of the number of groups.
    pub channels: usize,
    /// Output channels, a multiple of the number of groups.
    pub out_channels: usize,
    /// Groups of channels.
    pub groups: usize,
    /// Rows and columns of the input.
    pub lens: [usize; 2],
    /// The window along rows and columns.
    pub windows: [Window; 2],
}

impl WholeConv {
    fn outputs(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.windows[axis].positions(self.lens[axis]))
    }

    /// What a position of the window sees in a group.
    fn depth(&self) -> usize {
        let taps: usize = self.windows.iter().map(|window| window.kernel).product();
        (self.channels / self.groups.max(1)).saturating_mul(taps)
    }

    /// Positions whose rows are gathered at once: as many as stay in the cache.
    fn tile(&self) -> usize {
        let positions: usize = self.outputs().iter().product();
        (TILE_BYTES / self.depth().saturating_mul(2).max(1)).max(TOGETHER).min(positions.max(1))
    }

    /// Bytes of the rows that [`WholeConv::run`] gathers.
    pub fn held_bytes(&self) -> u64 {
        (self.tile() as u64).saturating_mul(self.depth() as u64).saturating_mul(2)
    }

    /// Convolves one sample of numbers without their zero point; what lies around them is 0.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`], looked at for every tile of positions.
    ///
    /// # Panics
    /// When a slice is shorter than its shape; callers have checked them.
    pub fn run<Q: Whole>(
        &self,
        input: &[i16],
        weights: &WholeWeights,
        output: &mut [Q],
        limits: &Limits,
    ) -> Result<(), LimitError> {
        let (groups, depth, tile) = (self.groups.max(1), self.depth(), self.tile());
        let positions: usize = self.outputs().iter().product();
        let (size, outputs) = (self.lens[0] * self.lens[1], self.out_channels / groups);
        let mut rows = vec![0; tile * depth];
        for (group, start) in
            (0..groups).flat_map(|group| (0..positions).step_by(tile).map(move |at| (group, at)))
        {
            limits.check_deadline()?;
            let channels = self.channels / groups;
            let width = tile.min(positions - start);
            let rows = &mut rows[..width * depth];
            self.gather(&input[group * channels * size..][..channels * size], start, rows);
            let first = group * outputs;
            let output = &mut output[first * positions..][..outputs * positions];
            for_each_chunk(output, TOGETHER * positions, &|at, output| {
                let first = first + at / positions.max(1);
                widest(|| multiply(rows, weights, (first, depth), (start, width, positions), output));
                limits.check_deadline()
            })?;
        }
        Ok(())
    }

    /// What the positions from `start` on see, one row after the other.
    fn gather(&self, input: &[i16], start: usize, rows: &mut [i16]) {
        let ([height, width], depth) = (self.lens, self.depth());
        let [kernel, across] = [0, 1].map(|axis| self.windows[axis].kernel);
        let columns = self.outputs()[1];
        let work = |at: usize, row: &mut [i16]| -> Result<(), std::convert::Infallible> {
            let position = start + at / depth;
            let (i, j) = (position / columns.max(1), position % columns.max(1));
            row.fill(0);
            for (y, at) in (0..kernel).filter_map(|y| Some((y, self.windows[0].source(i, y, height)?))) {
                for (x, column) in (0..across).filter_map(|x| Some((x, self.windows[1].source(j, x, width)?)))
                {
                    let seen = input.iter().skip(at * width + column).step_by((height * width).max(1));
                    let taps = row.iter_mut().skip(y * across + x).step_by((kernel * across).max(1));
                    taps.zip(seen).for_each(|(tap, &seen)| *tap = seen);
                }
            }
            Ok(())
        };
        let Ok(()) = for_each_chunk(rows, depth, &work);
    }
}

/// What some positions from the `start` on are in the planes of some outputs from the `first` on.
#[inline(always)]
fn multiply<Q: Whole>(
    rows: &[i16],
    weights: &WholeWeights,
    (first, depth): (usize, usize),
    (start, width, positions): (usize, usize, usize),
    output: &mut [Q],
) {
    for at in 0..width {
        let row = &rows[at * depth..][..depth];
        for (o, plane) in output.chunks_exact_mut(positions.max(1)).enumerate() {
            let sum = dot(row, &weights.weights[(first + o) * depth..][..depth]);
            plane[start + at] = Q::of(weights.outputs[first + o].apply(sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::naive::{self, Quantization};
    use super::*;
    use crate::kernels::parallel::tests::on_threads;
    use ndarray::{Array2, Array4};
    use proptest::prelude::*;

    /// Numbers from −255 to 255 that look like noise.
    fn noise(count: usize, seed: usize) -> Vec<i32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % 511) as i32 - 255
        };
        (0..count).map(|_| next()).collect()
    }

    fn narrow(values: &[i32]) -> Vec<i16> {
        values.iter().map(|&value| value as i16).collect()
    }

    fn requantizations(count: usize, seed: usize) -> Vec<Requantization> {
        let of = |o: usize| Requantization {
            multiplier: ((o + seed) % 7 + 1) as f32 * 1e-3,
            bias: ((o * 13 + seed) % 31) as f32 - 15.5,
            output: Quantization { scale: 1.0, zero_point: (seed % 40) as i32, range: u8::RANGE },
        };
        (0..count).map(of).collect()
    }

    fn window() -> impl Strategy<Value = Window> {
        (1usize..4, 1usize..3, 1usize..3, 0usize..3).prop_map(|(kernel, stride, dilation, pad)| Window {
            kernel,
            stride,
            dilation,
            pad_before: pad,
            pad_after: pad,
        })
    }

    proptest! {
        #[test]
        fn products_equal_the_naive_ones(rows in 0usize..5, depth in 0usize..70, outputs in 0usize..12, seed: usize) {
            let seed = seed % (1 << 40);
            let (a, b) = (noise(rows * depth, seed), noise(outputs * depth, seed ^ 1));
            let weights = WholeWeights { weights: narrow(&b), outputs: requantizations(outputs, seed) };
            let matrix = |rows, values: &[i32]| Array2::from_shape_vec((rows, depth), values.to_vec()).unwrap();
            let want = naive::whole_product(matrix(rows, &a).view(), matrix(outputs, &b).view());
            let want: Vec<u8> =
                want.indexed_iter().map(|((_, o), &sum)| u8::of(weights.outputs[o].apply(sum))).collect();
            let run = || {
                let mut output = vec![9u8; rows * outputs];
                product(&narrow(&a), &weights, depth, &mut output, &Limits::default()).unwrap();
                output
            };
            let (alone, pooled) = on_threads(&[3], run);
            prop_assert_eq!(&alone, &pooled[0]);
            prop_assert_eq!(alone, want);
        }

        #[test]
        fn convolutions_equal_the_naive_ones(
            windows in [window(), window()],
            (groups, each, outputs) in (1usize..4, 1usize..4, 1usize..11),
            lens in [1usize..9, 1usize..9],
            seed: usize,
        ) {
            let seed = seed % (1 << 40);
            let conv = WholeConv { channels: groups * each, out_channels: groups * outputs, groups, lens, windows };
            let [rows, columns] = conv.outputs();
            prop_assume!(rows * columns > 0);
            let input = noise(groups * each * lens[0] * lens[1], seed);
            let kernel = [windows[0].kernel, windows[1].kernel];
            let weight = noise(conv.out_channels * conv.depth(), seed ^ 1);
            let weights = WholeWeights { weights: narrow(&weight), outputs: requantizations(conv.out_channels, seed) };
            let array = |dims, values: &[i32]| Array4::from_shape_vec(dims, values.to_vec()).unwrap();
            let (x, w) = (
                array((1, conv.channels, lens[0], lens[1]), &input),
                array((conv.out_channels, each, kernel[0], kernel[1]), &weight),
            );
            let want = naive::whole_conv2d(x.view(), w.view(), &windows, groups);
            let want: Vec<u8> =
                want.indexed_iter().map(|((_, o, ..), &sum)| u8::of(weights.outputs[o].apply(sum))).collect();
            let run = || {
                let mut output = vec![9u8; want.len()];
                conv.run(&narrow(&input), &weights, &mut output, &Limits::default()).unwrap();
                output
            };
            let (alone, pooled) = on_threads(&[3], run);
            prop_assert_eq!(&alone, &pooled[0]);
            prop_assert_eq!(alone, want);
        }

        /// Every whole number stands for itself, and every real one within the range for a number half a step away at
        /// most.
        #[test]
        fn numbers_go_there_and_back(scale in 1e-6f32..1e6, zero_point in 0i32..256, x in -1.0f32..1.0) {
            let how = Quantization { scale, zero_point, range: u8::RANGE };
            for q in 0..256 {
                prop_assert_eq!(how.quantize(how.dequantize(q)), q);
            }
            let real = x * scale * 100.0;
            let q = how.quantize(real);
            if q > 0 && q < 255 {
                prop_assert!((how.dequantize(q) - real).abs() <= 0.5001 * scale);
            }
        }
    }

    #[test]
    fn halves_go_to_the_even_number_and_far_ones_to_the_ends() {
        let how = Quantization { scale: 0.5, zero_point: 10, range: i8::RANGE };
        let found: Vec<i32> =
            [0.25, 0.75, 1.25, -0.25, -0.75, 1e9, -1e9].iter().map(|&x| how.quantize(x)).collect();
        assert_eq!(found, [10, 12, 12, 10, 8, 127, -128]);
        let ends = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN].map(|x| how.quantize(x));
        assert_eq!(ends, [127, -128, 10]);
    }

    /// A picture of several tiles.
    #[test]
    fn large_pictures_are_gathered_in_parts() {
        let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let conv =
            WholeConv { channels: 64, out_channels: 3, groups: 1, lens: [60, 50], windows: [window; 2] };
        assert!(conv.held_bytes() <= TILE_BYTES as u64 && conv.tile() < 60 * 50 / 2);
        let (input, weight) = (noise(64 * 60 * 50, 1), noise(3 * 64 * 9, 2));
        let weights = WholeWeights { weights: narrow(&weight), outputs: requantizations(3, 3) };
        let x = Array4::from_shape_vec((1, 64, 60, 50), input.clone()).unwrap();
        let w = Array4::from_shape_vec((3, 64, 3, 3), weight).unwrap();
        let want = naive::whole_conv2d(x.view(), w.view(), &[window; 2], 1);
        let want: Vec<u8> =
            want.indexed_iter().map(|((_, o, ..), &sum)| u8::of(weights.outputs[o].apply(sum))).collect();
        let mut output = vec![9u8; want.len()];
        conv.run(&narrow(&input), &weights, &mut output, &Limits::default()).unwrap();
        assert_eq!(output, want);
        let late = Limits { deadline: Some(std::time::Instant::now()), ..Limits::default() };
        assert!(conv.run(&narrow(&input), &weights, &mut output, &late).is_err());
    }

    /// Longer than what a sum of 32 bits can take.
    #[test]
    fn long_sums_do_not_overflow() {
        let row = vec![255i16; 40_000];
        assert_eq!(dot(&row, &row), 255 * 255 * 40_000);
    }
}
