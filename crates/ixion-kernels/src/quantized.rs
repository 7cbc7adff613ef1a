//! Convolutions and products of whole numbers of 8 bits.
//!
//! Zero points are taken off first, so that nothing remains but products of numbers from −255 to 255: these fit 16 bits,
//! for whose products with 32-bit sums processors have an instruction. Both kinds of operators multiply [`Rows`] with
//! [`Strips`] of columns; a convolution makes the strips of what each position sees. Sums are exact. What becomes of them
//! is for an [`Outcome`] to say.

mod conv;
mod lanes;

use super::parallel::for_each_chunk;
use super::quantization::Requantization;
use super::wide::widest;
pub use conv::WholeConv;
use ixion_tensor::Limits;
use ixion_tensor::Result;
use lanes::{COLUMNS, ROWS, sums};
use std::cell::Cell;

/// A type that holds quantised numbers.
pub trait Whole: ixion_tensor::Element {
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

/// What becomes of the sums of an output. They are whole numbers.
pub trait Outcome<Q>: Sync {
    /// Writes the outputs of a row, from a column on.
    ///
    /// # Errors
    /// What finishing says.
    fn write(&self, row: usize, column: usize, sums: &[f64], outputs: &mut [Q]) -> Result<()>;
}

/// One for each row of the output, as convolutions have it.
#[derive(Debug, Clone)]
pub struct ByRow(pub Vec<Requantization>);

/// One for each column of the output, as linear maps have it.
#[derive(Debug, Clone)]
pub struct ByColumn(pub Vec<Requantization>);

impl<Q: Whole> Outcome<Q> for ByRow {
    fn write(&self, row: usize, _: usize, sums: &[f64], outputs: &mut [Q]) -> Result<()> {
        let how = self.0[row];
        widest(|| sums.iter().zip(outputs).for_each(|(&sum, output)| *output = Q::of(how.apply(sum))));
        Ok(())
    }
}

impl<Q: Whole> Outcome<Q> for ByColumn {
    fn write(&self, _: usize, column: usize, sums: &[f64], outputs: &mut [Q]) -> Result<()> {
        let how = self.0[column..].iter();
        widest(|| {
            let outputs = sums.iter().zip(how).zip(outputs);
            outputs.for_each(|((&sum, how), output)| *output = Q::of(how.apply(sum)));
        });
        Ok(())
    }
}

/// Rows of numbers without their zero points, each filled up to an even length.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    count: usize,
    /// Numbers of a row, an even number.
    depth: usize,
    values: Vec<i16>,
}

impl Rows {
    /// So many rows of so many numbers each.
    ///
    /// # Panics
    /// When there are more or fewer numbers; callers have checked them.
    pub fn new(values: &[i16], [count, depth]: [usize; 2]) -> Self {
        assert!(values.len() == count * depth, "{} numbers are not {count}×{depth}", values.len());
        let even = depth.next_multiple_of(2);
        let mut filled = Vec::with_capacity(count * even);
        for row in values.chunks_exact(depth.max(1)) {
            filled.extend_from_slice(row);
            filled.resize(filled.len() + even - depth, 0);
        }
        Self { count, depth: even, values: filled }
    }
}

/// Columns of numbers, so many to a strip, in the order in which they are multiplied.
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

    /// Makes room for so many columns of so many numbers, an even number.
    fn reset(&mut self, columns: usize, depth: usize) {
        (self.columns, self.depth) = (columns, depth);
        self.values.resize(columns.next_multiple_of(COLUMNS) * depth, 0);
    }
}

thread_local! {
    /// The sums of some rows; a thread keeps their memory.
    static SUMS: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// The factors of a product.
#[derive(Clone, Copy)]
struct Factors<'a> {
    rows: &'a Rows,
    strips: &'a Strips,
}

/// The rows of a product that are computed at once, and where they go.
struct Block<'a, Q> {
    factors: Factors<'a>,
    outcome: &'a dyn Outcome<Q>,
    /// The place of the first column in the whole output.
    column: usize,
}

impl<Q> Block<'_, Q> {
    /// Computes the rows from `first` on, whose outputs begin `stride` apart in `outputs`.
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
    /// The sums of [`ROWS`] rows or of one, which lie one behind the other.
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
            for from in (0..depth).step_by(SUMMABLE) {
                let rows = &self.rows.values[first * depth + from..];
                let found = sums::<R>(rows, depth, &strip[from * COLUMNS..], SUMMABLE.min(depth - from));
                widest(|| {
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

/// Rows R×K times strips of O columns of K numbers, as R×O outputs.
///
/// # Errors
/// A deadline that has passed; what the outcome says.
///
/// # Panics
/// When rows and columns are of other lengths, or the output is; callers have checked them.
pub fn product<Q: Send>(
    rows: &Rows,
    strips: &Strips,
    outcome: &dyn Outcome<Q>,
    output: &mut [Q],
    limits: &Limits,
) -> Result<()> {
    assert!(rows.depth == strips.depth, "rows fit columns");
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

    fn of_pictures(
        channels: usize,
        out_channels: usize,
        groups: usize,
        lens: [usize; 2],
        windows: [Window; 2],
    ) -> WholeConv {
        let (lens, windows) = (lens.to_vec(), windows.to_vec());
        WholeConv::new(ConvShape { channels, out_channels, groups, lens, windows })
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
            let want = naive::whole_product(matrix(rows, &a).view(), matrix(outputs, &b).view());
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
            let conv = of_pictures(channels, out_channels, groups, lens, windows);
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
            let want = naive::whole_conv2d(x.view(), w.view(), &windows, groups);
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
        let conv = of_pictures(64, 3, 1, [60, 50], [window; 2]);
        assert!(conv.held_bytes() <= 2 * (512 << 10));
        let (input, weight) = (noise(64 * 60 * 50, 1), noise(3 * 64 * 9, 2));
        let how = requantizations(3, 3);
        let x = Array4::from_shape_vec((1, 64, 60, 50), input.clone()).unwrap();
        let w = Array4::from_shape_vec((3, 64, 3, 3), weight.clone()).unwrap();
        let want = naive::whole_conv2d(x.view(), w.view(), &[window; 2], 1);
        let want: Vec<u8> =
            want.indexed_iter().map(|((_, o, ..), &sum)| u8::of(how[o].apply(sum as f64))).collect();
        let (weights, how) = (Rows::new(&narrow(&weight), [3, 64 * 9]), ByRow(how));
        let mut output = vec![9u8; want.len()];
        conv.run(&narrow(&input), &weights, &how, &mut output, &Limits::default()).unwrap();
        assert_eq!(output, want);
        let late = Limits { deadline: Some(std::time::Instant::now()), ..Limits::default() };
        assert!(conv.run(&narrow(&input), &weights, &how, &mut output, &late).is_err());
    }

    /// Longer than what a sum of 32 bits can take.
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
