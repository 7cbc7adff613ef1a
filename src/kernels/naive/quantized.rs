//! Whole numbers that stand for real ones, by their definition.

use crate::kernels::window::Window;
use ndarray::{Array2, Array4, ArrayView2, ArrayView4};

/// How whole numbers stand for real ones: x = scale · (q − zero point).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantization {
    /// The distance between two numbers that are told apart.
    pub scale: f32,
    /// What stands for zero.
    pub zero_point: i32,
    /// The least and the largest whole number.
    pub range: [i32; 2],
}

impl Quantization {
    /// The whole number for a real one: x times the reciprocal of the scale, in `f32`, rounded half to even; then the zero
    /// point is added, and what lies outside the range becomes its end. NaN becomes the zero point.
    #[inline(always)]
    pub fn quantize(&self, x: f32) -> i32 {
        self.place((x * (1.0 / self.scale)).round_ties_even())
    }

    /// The real number that a whole one stands for.
    #[inline(always)]
    pub fn dequantize(&self, q: i32) -> f32 {
        (q.wrapping_sub(self.zero_point)) as f32 * self.scale
    }

    /// The whole number at a distance from the zero point, saturated.
    #[inline(always)]
    pub fn place(&self, steps: f32) -> i32 {
        let [least, most] = self.range.map(i64::from);
        // The conversion saturates and takes NaN to 0; the clamp leaves what fits i32.
        (steps as i64).saturating_add(i64::from(self.zero_point)).clamp(least, most) as i32
    }
}

/// What turns the sum of an output's products into its whole number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requantization {
    /// Scale of the input times that of the weight, over that of the output.
    pub multiplier: f32,
    /// The bias, counted in steps of input times weight.
    pub bias: f32,
    /// The output's; its scale is in the multiplier already.
    pub output: Quantization,
}

impl Requantization {
    /// The whole number of a sum, which is whole itself.
    #[inline(always)]
    pub fn apply(&self, sum: f64) -> i32 {
        self.output.place(((sum as f32 + self.bias) * self.multiplier).round_ties_even())
    }
}

/// The sums of a convolution N×C×H×W by O×(C/groups)×h×w of whole numbers whose zero is 0.
pub fn whole_conv2d(
    input: ArrayView4<'_, i32>,
    weight: ArrayView4<'_, i32>,
    windows: &[Window; 2],
    groups: usize,
) -> Array4<i64> {
    let (samples, _, height, width) = input.dim();
    let (outputs, channels, kernel, across) = weight.dim();
    let positions = [windows[0].positions(height), windows[1].positions(width)];
    Array4::from_shape_fn((samples, outputs, positions[0], positions[1]), |(n, o, i, j)| {
        let first = o / (outputs / groups) * channels;
        let mut sum = 0;
        for (c, y, x) in ndarray::indices((channels, kernel, across)) {
            let row = windows[0].source(i, y, height);
            let column = windows[1].source(j, x, width);
            if let (Some(row), Some(column)) = (row, column) {
                sum += i64::from(input[(n, first + c, row, column)]) * i64::from(weight[(o, c, y, x)]);
            }
        }
        sum
    })
}

// ANCHOR: whole_product
/// The sums of rows R×I times the transpose of O×I weights of whole numbers whose zero is 0.
pub fn whole_product(rows: ArrayView2<'_, i32>, weight: ArrayView2<'_, i32>) -> Array2<i64> {
    // ANCHOR: whole_product_todo -- task 3: each row times each row of weights, in i64
    Array2::from_shape_fn((rows.nrows(), weight.nrows()), |(row, output)| {
        let pairs = rows.row(row).into_iter().zip(weight.row(output));
        pairs.map(|(&x, &w)| i64::from(x) * i64::from(w)).sum()
    })
    // ANCHOR_END: whole_product_todo
}
// ANCHOR_END: whole_product
