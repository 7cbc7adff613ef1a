//! Convolutions and matrix products of 8-bit integers, signed or unsigned. There are two sets of kernels.
//!
//! [`ByteConv`] and [`multiply_bytes`] multiply bytes as they are: a zero point of the input changes a sum by a multiple of the
//! sum of its weights. Weights are packed in [`BytePanels`], and a [`Finish`] converts sums to outputs while they are in registers.
//! These kernels are the faster ones. They require the channels of both tensors to be innermost in memory, weights whose zero
//! points are 0, at most [`MAX_DEPTH`] products per output, and factors of the channels that are finite.
//!
//! [`Int8Conv`] and [`product`] are for all other cases: convolutions of tensors in row-major order, weights with other zero
//! points, longer sums, and epilogues that a `Finish` cannot express. Zero points are subtracted first, which leaves integers
//! from −255 to 255. These fit 16 bits, and processors have instructions that multiply 16-bit integers and accumulate in 32 bits.
//! Both multiply [`Rows`] with [`Strips`] of columns; a convolution builds the strips from what each position sees. Sums are
//! exact, and an [`Outcome`] converts them to outputs.

mod arms;
#[cfg(test)]
mod byte_tests;
mod bytes;
mod conv;
mod dense;
mod depthwise;
mod dots;
mod finish;
mod gather;
mod interleaved;
mod lanes;
mod pointwise;
mod reals;
mod sizes;
mod steps;
mod weights;
mod writer;

use super::parallel::for_each_chunk;
use super::quantization::Requantization;
use crate::widest;
pub use bytes::{Bytes, Outputs, ZeroPoint};
pub use conv::Int8Conv;
pub use dense::{ByteConv, multiply_bytes};
pub use finish::{Added, Finish};
use ixion_tensor::Limits;
use ixion_tensor::Result;
use lanes::{COLUMNS, ROWS, sums};
pub use pointwise::{BytePairs, ByteTable, PairOperation, add_bytes};
use std::cell::Cell;
pub use weights::{BytePanels, ByteWeights, ChannelFactors, MAX_DEPTH, PanelKind};

/// An element type of quantised values.
pub trait QuantizedElement: ixion_tensor::Element + Into<i32> {
    /// The smallest and the largest value.
    const RANGE: [i32; 2];

    /// Converts an integer, which must be in the range.
    fn of(value: i32) -> Self;

    /// The value as an integer.
    #[inline(always)]
    fn value(self) -> i32 {
        self.into()
    }
}

impl QuantizedElement for u8 {
    const RANGE: [i32; 2] = [u8::MIN as i32, u8::MAX as i32];

    #[inline(always)]
    fn of(value: i32) -> Self {
        value as u8
    }
}

impl QuantizedElement for i8 {
    const RANGE: [i32; 2] = [i8::MIN as i32, i8::MAX as i32];

    #[inline(always)]
    fn of(value: i32) -> Self {
        value as i8
    }
}

impl QuantizedElement for i32 {
    const RANGE: [i32; 2] = [i32::MIN, i32::MAX];

    #[inline(always)]
    fn of(value: i32) -> Self {
        value
    }
}

/// Values minus their zero point, which must be a value of the type too, so that the differences fit 16 bits.
pub fn centered<Q: QuantizedElement>(values: &[Q], zero_point: i32) -> Vec<i16> {
    values.iter().map(|value| value.value().wrapping_sub(zero_point) as i16).collect()
}

/// The number of products of integers from −255 to 255 that an `i32` sum can hold without overflow.
const MAX_PRODUCTS: usize = 1 << 14;

/// Converts the sums of an output, which are integers, to output elements.
pub trait Outcome<Q>: Sync {
    /// Writes outputs of a row, from a column on.
    ///
    /// # Errors
    /// Fails if the epilogue fails.
    fn write(&self, row: usize, column: usize, sums: &[f64], outputs: &mut [Q]) -> Result<()>;
}

/// One requantisation for each row of the output, as in convolutions.
#[derive(Debug, Clone)]
pub struct ByRow(pub Vec<Requantization>);

/// One requantisation for each column of the output, as in linear maps.
#[derive(Debug, Clone)]
pub struct ByColumn(pub Vec<Requantization>);

impl<Q: QuantizedElement> Outcome<Q> for ByRow {
    fn write(&self, row: usize, _: usize, sums: &[f64], outputs: &mut [Q]) -> Result<()> {
        let how = self.0[row];
        widest!(|| {
            for (output, &sum) in outputs.iter_mut().zip(sums) {
                *output = Q::of(how.apply(sum));
            }
        });
        Ok(())
    }
}

impl<Q: QuantizedElement> Outcome<Q> for ByColumn {
    fn write(&self, _: usize, column: usize, sums: &[f64], outputs: &mut [Q]) -> Result<()> {
        let how = &self.0[column..];
        widest!(|| {
            for ((output, &sum), how) in outputs.iter_mut().zip(sums).zip(how) {
                *output = Q::of(how.apply(sum));
            }
        });
        Ok(())
    }
}

/// Rows of values minus their zero points, each padded to an even length.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    count: usize,
    /// The length of a row, an even number.
    depth: usize,
    values: Vec<i16>,
}

impl Rows {
    /// Rows of a given number and length.
    ///
    /// # Panics
    /// Panics if there are more or fewer values; callers check this beforehand.
    pub fn new(values: &[i16], [count, depth]: [usize; 2]) -> Self {
        assert!(values.len() == count * depth, "expected {count}×{depth} values, got {}", values.len());
        let even = depth.next_multiple_of(2);
        let mut filled = Vec::with_capacity(count * even);
        for row in values.chunks_exact(depth.max(1)) {
            filled.extend_from_slice(row);
            filled.resize(filled.len() + even - depth, 0);
        }
        Self { count, depth: even, values: filled }
    }
}

/// Columns of values, a fixed number per strip, in the order in which they are multiplied.
#[derive(Debug, Clone, Default)]
pub struct Strips {
    columns: usize,
    depth: usize,
    values: Vec<i16>,
}

impl Strips {
    const EMPTY: Self = Self { columns: 0, depth: 0, values: Vec::new() };

    /// Strips whose columns are these rows.
    pub fn of_rows(rows: &Rows) -> Self {
        let mut strips = Self::EMPTY;
        strips.reset(rows.count, rows.depth);
        for (column, row) in rows.values.chunks_exact(rows.depth.max(1)).enumerate() {
            let strip = &mut strips.values[column / COLUMNS * COLUMNS * rows.depth..];
            let places = strip.chunks_exact_mut(2 * COLUMNS).map(|line| &mut line[column % COLUMNS * 2..]);
            row.chunks_exact(2).zip(places).for_each(|(pair, place)| place[..2].copy_from_slice(pair));
        }
        strips
    }

    /// Makes room for `columns` columns of `depth` values, an even number.
    fn reset(&mut self, columns: usize, depth: usize) {
        (self.columns, self.depth) = (columns, depth);
        self.values.resize(columns.next_multiple_of(COLUMNS) * depth, 0);
    }
}

thread_local! {
    /// The sums of some rows, whose memory a thread keeps.
    static SUMS: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// The factors of a product.
#[derive(Clone, Copy)]
struct Factors<'a> {
    rows: &'a Rows,
    strips: &'a Strips,
}

/// The rows of a product that are computed together, and the conversion of their sums.
struct Block<'a, Q> {
    factors: Factors<'a>,
    outcome: &'a dyn Outcome<Q>,
    /// The position of the first column in the whole output.
    column: usize,
}

impl<Q> Block<'_, Q> {
    /// Computes the rows from `first` on, whose outputs are `stride` apart in `outputs`.
    fn run(&self, first: usize, outputs: &mut [Q], stride: usize) -> Result<()> {
        let (width, count) = (self.factors.strips.columns, outputs.len().div_ceil(stride.max(1)));
        let filled = width.next_multiple_of(COLUMNS);
        let mut sums = SUMS.take();
        sums.resize(filled * ROWS, 0.0);
        let mut done = 0;
        let mut result = Ok(());
        while done < count && result.is_ok() {
            let rows = if count - done >= ROWS { ROWS } else { 1 };
            self.factors.sum(rows, first + done, &mut sums);
            let outputs = outputs[done * stride..].chunks_mut(stride.max(1));
            let mut lines = sums.chunks_exact(filled.max(1)).take(rows).zip(outputs).enumerate();
            result = lines.try_for_each(|(row, (sums, outputs))| {
                self.outcome.write(first + done + row, self.column, &sums[..width], &mut outputs[..width])
            });
            done += rows;
        }
        SUMS.set(sums);
        result
    }
}

impl Factors<'_> {
    /// Computes the sums of [`ROWS`] rows, or of one row, one after the other.
    fn sum(self, rows: usize, first: usize, to: &mut [f64]) {
        match rows {
            ROWS => self.sums_of::<ROWS>(first, to),
            _ => self.sums_of::<1>(first, to),
        }
    }

    fn sums_of<const R: usize>(self, first: usize, to: &mut [f64]) {
        let (depth, line) = (self.strips.depth, self.strips.columns.next_multiple_of(COLUMNS));
        if depth == 0 {
            to[..R * line].fill(0.0);
        }
        for (index, strip) in self.strips.values.chunks_exact((depth * COLUMNS).max(1)).enumerate() {
            for from in (0..depth).step_by(MAX_PRODUCTS) {
                let rows = &self.rows.values[first * depth + from..];
                let found = sums::<R>(rows, depth, &strip[from * COLUMNS..], MAX_PRODUCTS.min(depth - from));
                widest!(|| {
                    for (row, found) in found.iter().enumerate() {
                        let to = to[row * line + index * COLUMNS..][..COLUMNS].iter_mut().zip(found);
                        match from {
                            0 => to.for_each(|(to, &sum)| *to = f64::from(sum)),
                            _ => to.for_each(|(to, &sum)| *to += f64::from(sum)),
                        }
                    }
                });
            }
        }
    }
}

/// Multiplies rows R×K with strips of O columns of K values, to R×O outputs.
///
/// # Errors
/// Fails if the deadline has passed or the outcome fails.
///
/// # Panics
/// Panics if rows and columns differ in length, or the output has another size; callers check this beforehand.
pub fn product<Q: Send>(
    rows: &Rows,
    strips: &Strips,
    outcome: &dyn Outcome<Q>,
    output: &mut [Q],
    limits: &Limits,
) -> Result<()> {
    assert!(rows.depth == strips.depth, "rows and columns must have the same length");
    let block = Block { factors: Factors { rows, strips }, outcome, column: 0 };
    for_each_chunk(output, ROWS * strips.columns, &|start, output| {
        limits.check_deadline()?;
        block.run(start / strips.columns.max(1), output, strips.columns)
    })
}

#[cfg(test)]
mod tests {
    use super::super::conv::ConvShape;
    use super::super::window::Window;
    use super::super::{naive, quantization::Quantization};
    use super::*;
    use crate::parallel::tests::on_threads;
    use ndarray::{Array2, Array4};
    use proptest::prelude::*;

    /// Pseudo-random integers from −255 to 255.
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

    fn image_conv(
        channels: usize,
        out_channels: usize,
        groups: usize,
        lens: [usize; 2],
        windows: [Window; 2],
    ) -> Int8Conv {
        let (lens, windows) = (lens.to_vec(), windows.to_vec());
        Int8Conv::new(ConvShape { channels, out_channels, groups, lens, windows })
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
        fn products_equal_the_naive_ones(rows in 0usize..20, depth in 0usize..70, outputs in 0usize..70, seed: usize) {
            let seed = seed % (1 << 40);
            let (a, b) = (noise(rows * depth, seed), noise(outputs * depth, seed ^ 1));
            let how = requantizations(outputs, seed);
            let strips = Strips::of_rows(&Rows::new(&narrow(&b), [outputs, depth]));
            let matrix = |rows, values: &[i32]| Array2::from_shape_vec((rows, depth), values.to_vec()).unwrap();
            let want = naive::int8_matmul(matrix(rows, &a).view(), matrix(outputs, &b).view());
            let want: Vec<u8> =
                want.indexed_iter().map(|((_, o), &sum)| u8::of(how[o].apply(sum as f64))).collect();
            let (x, how) = (Rows::new(&narrow(&a), [rows, depth]), ByColumn(how));
            let run = || {
                let mut output = vec![9u8; rows * outputs];
                product(&x, &strips, &how, &mut output, &Limits::default()).unwrap();
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
            lens in [1usize..12, 1usize..12],
            seed: usize,
        ) {
            let seed = seed % (1 << 40);
            let (channels, out_channels) = (groups * each, groups * outputs);
            let conv = image_conv(channels, out_channels, groups, lens, windows);
            prop_assume!(conv.sample()[1] > 0);
            let input = noise(conv.sample()[0], seed);
            let kernel = [windows[0].kernel, windows[1].kernel];
            let depth = each * kernel[0] * kernel[1];
            let weight = noise(out_channels * depth, seed ^ 1);
            let how = requantizations(out_channels, seed);
            let array = |dims, values: &[i32]| Array4::from_shape_vec(dims, values.to_vec()).unwrap();
            let (x, w) = (
                array((1, channels, lens[0], lens[1]), &input),
                array((out_channels, each, kernel[0], kernel[1]), &weight),
            );
            let want = naive::int8_conv2d(x.view(), w.view(), &windows, groups);
            let want: Vec<u8> =
                want.indexed_iter().map(|((_, o, ..), &sum)| u8::of(how[o].apply(sum as f64))).collect();
            let (weights, how) = (Rows::new(&narrow(&weight), [out_channels, depth]), ByRow(how));
            let run = || {
                let mut output = vec![9u8; want.len()];
                conv.run(&narrow(&input), &weights, &how, &mut output, &Limits::default()).unwrap();
                output
            };
            let (alone, pooled) = on_threads(&[3], run);
            prop_assert_eq!(&alone, &pooled[0]);
            prop_assert_eq!(alone, want);
        }

        /// Every quantised value survives a round trip, and every float within the range is represented with an error of
        /// at most half a step.
        #[test]
        fn values_survive_a_round_trip(scale in 1e-6f32..1e6, zero_point in 0i32..256, x in -1.0f32..1.0) {
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
    fn halves_round_to_even_and_large_numbers_saturate() {
        let how = Quantization { scale: 0.5, zero_point: 10, range: i8::RANGE };
        let found: Vec<i32> =
            [0.25, 0.75, 1.25, -0.25, -0.75, 1e9, -1e9].iter().map(|&x| how.quantize(x)).collect();
        assert_eq!(found, [10, 12, 12, 10, 8, 127, -128]);
        let ends = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN].map(|x| how.quantize(x));
        assert_eq!(ends, [127, -128, 10]);
    }

    /// An image of several tiles.
    #[test]
    fn large_images_are_gathered_in_parts() {
        let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let conv = image_conv(64, 3, 1, [60, 50], [window; 2]);
        assert!(conv.held_bytes() <= 2 * (512 << 10));
        let (input, weight) = (noise(64 * 60 * 50, 1), noise(3 * 64 * 9, 2));
        let how = requantizations(3, 3);
        let x = Array4::from_shape_vec((1, 64, 60, 50), input.clone()).unwrap();
        let w = Array4::from_shape_vec((3, 64, 3, 3), weight.clone()).unwrap();
        let want = naive::int8_conv2d(x.view(), w.view(), &[window; 2], 1);
        let want: Vec<u8> =
            want.indexed_iter().map(|((_, o, ..), &sum)| u8::of(how[o].apply(sum as f64))).collect();
        let (weights, how) = (Rows::new(&narrow(&weight), [3, 64 * 9]), ByRow(how));
        let mut output = vec![9u8; want.len()];
        conv.run(&narrow(&input), &weights, &how, &mut output, &Limits::default()).unwrap();
        assert_eq!(output, want);
        let late = Limits { deadline: Some(std::time::Instant::now()), ..Limits::default() };
        assert!(conv.run(&narrow(&input), &weights, &how, &mut output, &late).is_err());
    }

    /// Positions that see nothing but padding, after others have used the memory.
    #[test]
    fn an_image_without_pixels_is_padded() {
        let window = Window { kernel: 2, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let (weights, how) = (Rows::new(&[1i16; 4], [1, 4]), ByRow(requantizations(1, 3)));
        let run = |lens: [usize; 2]| {
            let conv = image_conv(1, 1, 1, lens, [window; 2]);
            let [sample, out_sample] = conv.sample();
            let (input, mut output) = (vec![200i16; sample], vec![9u8; out_sample]);
            conv.run(&input, &weights, &how, &mut output, &Limits::default()).unwrap();
            output
        };
        run([3, 1]);
        assert_eq!(run([3, 0]), [u8::of(how.0[0].apply(0.0)); 4]);
    }

    /// Longer than what an `i32` sum can hold.
    #[test]
    fn long_sums_do_not_overflow() {
        struct Sums;
        impl Outcome<f64> for Sums {
            fn write(&self, _: usize, _: usize, sums: &[f64], outputs: &mut [f64]) -> Result<()> {
                outputs.copy_from_slice(sums);
                Ok(())
            }
        }
        let row = Rows::new(&[255i16; 40_000], [1, 40_000]);
        let mut output = [0.0];
        product(&row, &Strips::of_rows(&row), &Sums, &mut output, &Limits::default()).unwrap();
        assert_eq!(output, [255.0 * 255.0 * 40_000.0]);
    }
}
