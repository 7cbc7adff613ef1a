//! Lesson 17: f16, bf16 and int8.
//!
//! The page of the book: `book/src/lessons/17_low_precision.md`. Replace each `todo!` by code. This is the only file to edit.

use ndarray::{Array2, ArrayView2};
use std::cmp::Ordering;

// Task 1: sixteen bits.

/// The bits of the nearest `bf16`, ties to even. A `bf16` is the upper half of an `f32`. NaN stays NaN.
pub fn bf16_bits(x: f32) -> u16 {
    todo!(
        "lesson 17, task 1: add half a step, and drop the lower half (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The value of a `bf16` given by its bits, without loss.
pub fn bf16_value(bits: u16) -> f32 {
    todo!(
        "lesson 17, task 1: the bits become the upper half of an `f32`'s (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The bits of the nearest IEEE `binary16` number, ties to even: a sign, 5 bits of exponent, 10 of fraction. Magnitudes
/// of 65520 or more become infinite; NaN stays NaN.
///
/// Numbers with exponent e are 2^(e − 10) apart; numbers below 2^−14 are as far apart as those with exponent −14. Counted
/// in such steps, the numbers with exponent e begin at 1024. The bits of a number are therefore (e + 14) · 1024 + steps,
/// whatever e is.
pub fn f16_bits(x: f32) -> u16 {
    todo!(
        "lesson 17, task 1: count x in steps of its exponent, round half to even (book chapter 17; stuck? cargo learn hint 17)"
    )
}

// Task 2: eight bits and a scale.

/// Quantises a float to int8: x over the scale, rounded half to even and clamped to ±127. NaN becomes 0.
pub fn quantize(x: f32, scale: f32) -> i8 {
    todo!(
        "lesson 17, task 2: divide, round half to even, clamp to ±127 (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// Dequantises an int8 value: the float that it represents.
pub fn dequantize(q: i8, scale: f32) -> f32 {
    todo!("lesson 17, task 2: the inverse of quantize (book chapter 17; stuck? cargo learn hint 17)")
}

/// The scale of an output channel's weights, which maps their largest magnitude to 127. It is 0 if all weights are 0.
pub fn channel_scale(weights: &[f32]) -> f32 {
    todo!("lesson 17, task 2: the largest magnitude over 127 (book chapter 17; stuck? cargo learn hint 17)")
}

// Task 3: the sum is an integer.

/// Converts an output channel's sums, Σ input q · weight q, to floats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelStep {
    /// The bias in steps, which is added to a sum. It is an integer, unless the sums are all 0.
    pub bias: f64,
    /// The size of a step: what 1 in a sum represents.
    pub scale: f32,
}

impl ChannelStep {
    /// The step of a channel: the scale of the weights times the scale of the input. Returns `None` if the channel cannot
    /// be computed from sums, because the scale of the weights or the step is not a normal number, or because the bias in
    /// steps exceeds `f32`.
    pub fn new(weight_scale: f32, input_scale: f32, bias: f32) -> Option<Self> {
        todo!(
            "lesson 17, task 3: express the bias in steps of input scale · weight scale, rounded half to even (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// The step of a channel whose sums are all 0: its outputs are its bias.
    pub fn of_bias(bias: f32) -> Self {
        Self { bias: f64::from(bias), scale: 1.0 }
    }

    /// The float for a sum, which is an integer; `f64` holds integers exactly up to 2⁵³. The bias is added, the result is
    /// rounded to `f32`, and then multiplied by the scale.
    #[inline(always)]
    pub fn real(self, sum: f64) -> f32 {
        todo!(
            "lesson 17, task 3: add the bias first, then multiply once (book chapter 17; stuck? cargo learn hint 17)"
        )
    }
}

/// Quantises an output channel: its weights in int8, and the step that converts their sums to floats. If there is no
/// step, the weights are 0, and the outputs are the bias.
pub fn quantize_channel(weights: &[f32], bias: f32, input_scale: f32) -> (Vec<i8>, ChannelStep) {
    todo!(
        "lesson 17, task 3: quantise the weights by their own scale, and compute the step of their sums (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The exact product of quantised rows R×I with the transpose of quantised weights O×I. All zero points are 0.
pub fn int8_matmul(rows: ArrayView2<'_, i32>, weight: ArrayView2<'_, i32>) -> Array2<i64> {
    todo!(
        "lesson 17, task 3: each row times each row of weights, in i64 (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// A linear layer in int8: inputs R×I, weights O×I and O biases give outputs R×O.
///
/// # Panics
/// Panics if there are fewer biases than rows of weights, or the rows of weights differ in length from those of the
/// input.
pub fn int8_linear(
    input: ArrayView2<'_, f32>,
    weight: ArrayView2<'_, f32>,
    bias: &[f32],
    input_scale: f32,
) -> Array2<f32> {
    todo!(
        "lesson 17, task 3: quantise inputs and channels, sum exactly, convert the sums to floats (book chapter 17; stuck? cargo learn hint 17)"
    )
}

// Task 4: range and histogram.

/// The smallest and the largest of some values. Both are NaN if one of the values is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The smallest value.
    pub least: f32,
    /// The largest value.
    pub largest: f32,
}

impl Range {
    /// The range of no values.
    pub const EMPTY: Self = Self { least: f32::INFINITY, largest: f32::NEG_INFINITY };

    /// Extends the range to these values.
    #[must_use]
    pub fn with(self, values: &[f32]) -> Self {
        todo!(
            "lesson 17, task 4: the smallest and the largest; NaN stays (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// The largest magnitude; `None` if there were no values or one was not finite.
    pub fn magnitude(self) -> Option<f32> {
        todo!(
            "lesson 17, task 4: the magnitude of the end farther from zero (book chapter 17; stuck? cargo learn hint 17)"
        )
    }
}

/// Counts of magnitudes in bins of equal width, from zero to the largest.
///
/// Zeros are not counted: every scale represents them exactly, and after a ReLU they would dominate the distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    largest: f32,
    counts: Vec<u64>,
}

impl Histogram {
    /// The number of bins.
    pub const BINS: usize = 2048;

    /// Creates an empty histogram for magnitudes up to `largest`.
    pub fn new(largest: f32) -> Self {
        Self { largest, counts: vec![0; Self::BINS] }
    }

    /// Counts these values, except zeros and NaN. Magnitudes above the largest go into the last bin.
    pub fn add(&mut self, values: &[f32]) {
        todo!(
            "lesson 17, task 4: one more in the bin of each magnitude above zero (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// The number of values in each bin.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The magnitude at which a bin begins.
    pub fn edge(&self, bin: usize) -> f32 {
        todo!("lesson 17, task 4: all bins have the same width (book chapter 17; stuck? cargo learn hint 17)")
    }

    /// The fraction of the counted values in bins that begin at this magnitude or above.
    pub fn share_above(&self, threshold: f32) -> f64 {
        let above = self.counts.iter().enumerate().filter(|&(bin, _)| self.edge(bin) >= threshold);
        let above: u64 = above.map(|(_, count)| count).sum();
        above as f64 / self.counts.iter().sum::<u64>().max(1) as f64
    }
}

// Task 5: where to clip.

/// The number of magnitudes in int8: 0 to 127.
const STEPS: usize = 128;

/// The distance between two thresholds that are tried, in bins.
const STRIDE: usize = 16;

/// The largest fraction of the values that may be clipped. If all values are far from zero, the divergence would allow clipping
/// all of them into one bin.
const MAX_CLIPPED: f64 = 0.01;

/// The counts of the first `bins` bins, the last of which also gets all counts after it. Empty for 0 bins.
pub fn clipped(counts: &[u64], bins: usize) -> Vec<u64> {
    todo!(
        "lesson 17, task 5: the clipped counts go into the last bin (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The counts at the resolution of `steps` steps: step s covers the bins from s · bins / steps, rounded down, to the start
/// of the next one. The values kept in a step are spread evenly over those of its bins that aren't empty after clipping.
pub fn in_steps(kept: &[u64], clipped: &[u64], steps: usize) -> Vec<f64> {
    todo!(
        "lesson 17, task 5: each step spreads its values over its bins that aren't empty (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// Σ P·ln(P/Q) of two distributions given as counts; `None` if Q is zero in a bin where P is not.
pub fn divergence(p: &[u64], q: &[f64]) -> Option<f64> {
    todo!(
        "lesson 17, task 5: shares first, then the sum; bins where P is zero add nothing (book chapter 17; stuck? cargo learn hint 17)"
    )
}

// Given: the loss of one candidate.

/// The information that is lost if only the first `bins` bins are kept. `None` if it is undefined, because values are clipped
/// into a step in which none are kept, or if too many are clipped.
pub fn loss(counts: &[u64], bins: usize) -> Option<f64> {
    let (kept, cut) = counts.split_at(bins.min(counts.len()));
    let (outside, all) = (cut.iter().sum::<u64>(), counts.iter().sum::<u64>());
    if outside as f64 > MAX_CLIPPED * all as f64 {
        return None;
    }
    let clipped = clipped(counts, bins);
    divergence(&clipped, &in_steps(kept, &clipped, STEPS))
}

/// The best magnitude at which to clip; `None` if there are no values other than zeros.
///
/// Every 16th bin from 128 on is a candidate. If none of them can be judged, nothing is clipped.
pub fn threshold(histogram: &Histogram) -> Option<f32> {
    todo!(
        "lesson 17, task 5: the candidate that loses the least (book chapter 17; stuck? cargo learn hint 17)"
    )
}

// Task 6: what was lost.

/// The error of an operator's output in int8, compared with `f32`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loss {
    /// The operator.
    pub operator: String,
    /// Its type.
    pub op_type: String,
    /// The sum of the squares of the output in `f32`.
    pub signal: f64,
    /// The sum of the squares of the differences.
    pub noise: f64,
}

impl Loss {
    /// The signal-to-noise ratio in decibels; infinite if nothing is lost.
    pub fn decibels(&self) -> f64 {
        todo!(
            "lesson 17, task 6: ten times the logarithm of the ratio (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// Returns true if the ratio is below this number of decibels, or NaN: the output is then unusable.
    pub fn is_below(&self, decibels: f64) -> bool {
        todo!(
            "lesson 17, task 6: a ratio that cannot be compared is below everything (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// Adds the outputs in `f32`, `wanted`, and in int8, `found`.
    pub fn add(&mut self, wanted: &[f32], found: &[f32]) {
        todo!("lesson 17, task 6: sums of squares, in f64 (book chapter 17; stuck? cargo learn hint 17)")
    }
}

/// The names of the operators that must stay in `f32`, because they are below this number of decibels.
pub fn too_lossy<'a>(losses: impl IntoIterator<Item = &'a Loss>, decibels: f64) -> Vec<String> {
    todo!(
        "lesson 17, task 6: the names of those that are below (book chapter 17; stuck? cargo learn hint 17)"
    )
}
