//! Lesson 17: f16, bf16 and int8.
//!
//! The page of the book: `book/src/lessons/17_low_precision.md`. Replace each `todo!` by code. This is the only file to edit.

use ndarray::{Array2, ArrayView2};
use std::cmp::Ordering;

// Task 1: sixteen bits.

/// The bits of the nearest `bf16`, ties to even: the upper half of those of an `f32`. NaN stays NaN.
pub fn bf16_bits(x: f32) -> u16 {
    todo!(
        "lesson 17, task 1: add half a step, and drop the lower half (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The number that the bits of a `bf16` are, without loss.
pub fn bf16_value(bits: u16) -> f32 {
    todo!(
        "lesson 17, task 1: the bits become the upper half of an `f32`'s (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The bits of the nearest number of IEEE's `binary16`, ties to even: a sign, 5 bits of exponent, 10 of fraction. What
/// would be 65520 or more is infinite; NaN stays NaN.
///
/// Numbers of exponent e lie 2^(e − 10) apart, and those below 2^−14 as far as those of exponent −14. Counted in such
/// steps, a number of exponent e begins at 1024: so its bits are (e + 14) · 1024 + steps, whatever e is.
pub fn f16_bits(x: f32) -> u16 {
    todo!(
        "lesson 17, task 1: count in steps of the number's exponent, round half to even (book chapter 17; stuck? cargo learn hint 17)"
    )
}

// Task 2: eight bits and a scale.

/// The whole number that stands for a real one: x over the scale, rounded half to even and cut off at ±127. NaN becomes 0.
pub fn quantize(x: f32, scale: f32) -> i8 {
    todo!(
        "lesson 17, task 2: divide, round half to even, cut off at ±127 (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The real number that a whole one stands for.
pub fn dequantize(q: i8, scale: f32) -> f32 {
    todo!("lesson 17, task 2: the other way (book chapter 17; stuck? cargo learn hint 17)")
}

/// The scale of an output channel's weights: their largest magnitude becomes 127. It is 0 where all are zero.
pub fn channel_scale(weights: &[f32]) -> f32 {
    todo!("lesson 17, task 2: the largest magnitude over 127 (book chapter 17; stuck? cargo learn hint 17)")
}

// Task 3: the sum is a whole number.

/// What makes real numbers of an output channel's sums, Σ input q · weight q.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelStep {
    /// What is added to a sum: the bias, counted in steps. It is a whole number, unless the sums are all 0.
    pub bias: f64,
    /// What one more in a sum stands for.
    pub scale: f32,
}

impl ChannelStep {
    /// That of a channel, where its sums count. One step is the weights' scale times the input's. Sums don't count where the
    /// weights' scale or the step is no normal number, or where the bias, counted in steps, is beyond `f32`.
    pub fn new(weight_scale: f32, input_scale: f32, bias: f32) -> Option<Self> {
        todo!(
            "lesson 17, task 3: count the bias in steps of input times weight, rounded half to even (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// That of a channel whose sums are all 0: its outputs are its bias.
    pub fn of_bias(bias: f32) -> Self {
        Self { bias: f64::from(bias), scale: 1.0 }
    }

    /// The real number for a sum, which is a whole one: `f64` holds these exactly up to 2⁵³. Sum and bias become `f32`
    /// together, and are multiplied by the step.
    #[inline(always)]
    pub fn real(self, sum: f64) -> f32 {
        todo!(
            "lesson 17, task 3: add the bias first, then one product (book chapter 17; stuck? cargo learn hint 17)"
        )
    }
}

/// An output channel in int8: its weights as whole numbers, and what makes real numbers of their sums. Where sums don't
/// count, weights are 0 and the channel is its bias.
pub fn whole_channel(weights: &[f32], bias: f32, input_scale: f32) -> (Vec<i8>, ChannelStep) {
    todo!(
        "lesson 17, task 3: weights by their own scale, sums by a step (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The sums of rows R×I times the transpose of O×I weights of whole numbers whose zero is 0.
pub fn whole_product(rows: ArrayView2<'_, i32>, weight: ArrayView2<'_, i32>) -> Array2<i64> {
    todo!(
        "lesson 17, task 3: each row times each row of weights, in i64 (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// A linear layer in int8: rows R×I of inputs, weights O×I and O biases make R×O outputs.
///
/// # Panics
/// When there are fewer biases than rows of weights, or the rows have other lengths than those of the input.
pub fn whole_linear(
    input: ArrayView2<'_, f32>,
    weight: ArrayView2<'_, f32>,
    bias: &[f32],
    input_scale: f32,
) -> Array2<f32> {
    todo!(
        "lesson 17, task 3: whole inputs, whole channels, exact sums, real outputs (book chapter 17; stuck? cargo learn hint 17)"
    )
}

// Task 4: range and histogram.

/// The least and the largest of some numbers. NaN makes both of them NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least number.
    pub least: f32,
    /// The largest number.
    pub largest: f32,
}

impl Range {
    /// That of no numbers.
    pub const EMPTY: Self = Self { least: f32::INFINITY, largest: f32::NEG_INFINITY };

    /// The range of these numbers and of those before.
    #[must_use]
    pub fn with(self, values: &[f32]) -> Self {
        todo!(
            "lesson 17, task 4: the least and the largest; NaN stays (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// The largest magnitude; none where there were no numbers, or one of them was not finite.
    pub fn magnitude(self) -> Option<f32> {
        todo!(
            "lesson 17, task 4: that of the end farther from zero (book chapter 17; stuck? cargo learn hint 17)"
        )
    }
}

/// Counts of magnitudes in bins of equal width, from zero to the largest.
///
/// Zeros are left out: every scale holds them exactly, and behind a ReLU they would drown the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    largest: f32,
    counts: Vec<u64>,
}

impl Histogram {
    /// The number of bins.
    pub const BINS: usize = 2048;

    /// One for magnitudes up to the `largest`.
    pub fn new(largest: f32) -> Self {
        Self { largest, counts: vec![0; Self::BINS] }
    }

    /// Counts these numbers, but neither zeros nor NaN. One above the largest magnitude goes into the last bin.
    pub fn add(&mut self, values: &[f32]) {
        todo!(
            "lesson 17, task 4: one more in the bin of each magnitude above zero (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// How many numbers are in each bin.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The magnitude at which a bin begins.
    pub fn edge(&self, bin: usize) -> f32 {
        todo!("lesson 17, task 4: bins are all as wide (book chapter 17; stuck? cargo learn hint 17)")
    }

    /// Which part of the numbers, zeros left out, lies in bins that begin at this magnitude or above.
    pub fn share_above(&self, threshold: f32) -> f64 {
        let above = self.counts.iter().enumerate().filter(|&(bin, _)| self.edge(bin) >= threshold);
        let above: u64 = above.map(|(_, count)| count).sum();
        above as f64 / self.counts.iter().sum::<u64>().max(1) as f64
    }
}

// Task 5: where to cut off.

/// What is left of the magnitudes in int8: 0 to 127.
const STEPS: usize = 128;

/// Thresholds are tried this many bins apart.
const STRIDE: usize = 16;

/// So much is cut off at most. Where all numbers lie far from zero, the divergence has nothing to say against all of them in
/// one bin.
const MOST_CUT: f64 = 0.01;

/// The counts of so many bins, the last of which also gets all that lies behind it. No bins have no counts.
pub fn clipped(counts: &[u64], bins: usize) -> Vec<u64> {
    todo!(
        "lesson 17, task 5: what is cut off goes into the last bin (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// The counts as so many steps can tell them apart: step s has the bins from s · bins / steps on, rounded down, up to where
/// the next begins. The numbers that are kept in them are spread evenly over those that aren't empty once it is clipped.
pub fn in_steps(kept: &[u64], clipped: &[u64], steps: usize) -> Vec<f64> {
    todo!(
        "lesson 17, task 5: each step spreads what it has over its bins that aren't empty (book chapter 17; stuck? cargo learn hint 17)"
    )
}

/// Σ P·ln(P/Q) of two distributions that are given as counts; none where Q has nothing at a place where P has something.
pub fn divergence(p: &[u64], q: &[f64]) -> Option<f64> {
    todo!(
        "lesson 17, task 5: shares first, then the sum; places without P add nothing (book chapter 17; stuck? cargo learn hint 17)"
    )
}

// Given: what one candidate loses.

/// What is lost where only so many bins are kept; none where that cannot be told, because numbers are cut off and none is
/// left beside them, and where too many are.
pub fn loss(counts: &[u64], bins: usize) -> Option<f64> {
    let (kept, cut) = counts.split_at(bins.min(counts.len()));
    let (outside, all) = (cut.iter().sum::<u64>(), counts.iter().sum::<u64>());
    if outside as f64 > MOST_CUT * all as f64 {
        return None;
    }
    let clipped = clipped(counts, bins);
    divergence(&clipped, &in_steps(kept, &clipped, STEPS))
}

/// The magnitude beyond which numbers are best cut off; none where there are no numbers but zeros.
///
/// Every 16 bins from 128 on is a candidate. Where none of them can be judged, nothing is cut off.
pub fn threshold(histogram: &Histogram) -> Option<f32> {
    todo!(
        "lesson 17, task 5: the candidate that loses the least (book chapter 17; stuck? cargo learn hint 17)"
    )
}

// Task 6: what was lost.

/// What an operator's output is in int8, compared with `f32`.
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
    /// The ratio of signal to noise in decibels: infinite where nothing is lost.
    pub fn decibels(&self) -> f64 {
        todo!(
            "lesson 17, task 6: ten times the logarithm of the ratio (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// Whether the ratio is below so many decibels; one that is no number is, for then the output is none.
    pub fn is_below(&self, decibels: f64) -> bool {
        todo!(
            "lesson 17, task 6: what compares as nothing is below everything (book chapter 17; stuck? cargo learn hint 17)"
        )
    }

    /// Adds outputs in `f32`, and what they are in int8.
    pub fn add(&mut self, wanted: &[f32], found: &[f32]) {
        todo!("lesson 17, task 6: sums of squares, in f64 (book chapter 17; stuck? cargo learn hint 17)")
    }
}

/// The operators that are to stay in `f32`, because they are below so many decibels.
pub fn too_lossy<'a>(losses: impl IntoIterator<Item = &'a Loss>, decibels: f64) -> Vec<String> {
    todo!(
        "lesson 17, task 6: the names of those that are below (book chapter 17; stuck? cargo learn hint 17)"
    )
}
