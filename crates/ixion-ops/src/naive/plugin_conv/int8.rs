//! Quantised weights.

use crate::op::{LayerError, Result};
use ndarray::ArrayView2;

// ANCHOR: struct
/// Weights quantised to −127..=127, and what converts their sums to outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedWeights {
    /// The scales of the input and of the output.
    pub scales: [f32; 2],
    /// For each output channel, the factor from its sums to quantised outputs.
    pub steps: Vec<f64>,
    /// For each output channel, its bias, quantised like its sums.
    pub bias: Vec<i32>,
    /// The quantised weights, one row for each output channel.
    pub weights: Vec<i8>,
}

/// The largest bias that can be added to this number of products of two int8 values without overflow of an i32.
fn max_bias(taps: usize) -> i64 {
    i64::from(i32::MAX) - i64::try_from(taps).unwrap_or(i64::MAX).saturating_mul(128 * 128)
}

fn too_large() -> LayerError {
    LayerError::Unsupported("the weights are not finite, or their sums may overflow 32 bits".to_owned())
}

impl QuantizedWeights {
    /// Returns true if there are as many values as a convolution with this number of output channels and taps needs, and none
    /// of them is out of range.
    pub fn fits(&self, channels: usize, taps: usize) -> bool {
        let is_positive = |x: f64| x > 0.0 && x.is_finite();
        self.weights.len() == channels.saturating_mul(taps)
            && [self.bias.len(), self.steps.len()] == [channels; 2]
            && self.bias.iter().all(|&bias| i64::from(bias).abs() <= max_bias(taps))
            && self.scales.iter().all(|&scale| is_positive(scale.into()))
            && self.steps.iter().all(|&step| is_positive(step))
    }

    /// The weights of an output channel, its bias and its step.
    ///
    /// # Errors
    /// Returns an error if there is no such channel.
    pub fn channel(&self, channel: usize) -> Result<(&[i8], i32, f64)> {
        let taps = self.weights.len() / self.steps.len().max(1);
        let weights = self.weights.chunks_exact(taps.max(1)).nth(channel);
        match (weights, self.bias.get(channel), self.steps.get(channel)) {
            (Some(weights), Some(&bias), Some(&step)) => Ok((weights, bias, step)),
            _ => Err(LayerError::Unsupported(format!("there is no channel {channel}"))),
        }
    }
}
// ANCHOR_END: struct

// ANCHOR: to_int8
/// Rounds to the nearest integer, half to even, and clamps it to −127..=127.
pub fn to_int8(x: f64) -> i8 {
    // ANCHOR: to_int8_todo -- task 3: round half to even, and clamp to ±127
    x.round_ties_even().clamp(-127.0, 127.0) as i8
    // ANCHOR_END: to_int8_todo
}
// ANCHOR_END: to_int8

// ANCHOR: quantize
/// Quantises the weights, one row for each output channel, and the biases, for these scales of input and output.
///
/// # Errors
/// [`LayerError::Unsupported`] if a weight or a bias is not finite, or if a sum may overflow 32 bits: the engine then keeps
/// `f32`.
pub fn quantize(rows: ArrayView2<'_, f32>, biases: &[f32], scales: [f32; 2]) -> Result<QuantizedWeights> {
    // ANCHOR: quantize_todo -- task 3: for each channel, compute its scale, its quantised weights and bias, and the step of its sums
    let [x_scale, y_scale] = scales.map(f64::from);
    let mut quantized = QuantizedWeights { scales, steps: Vec::new(), bias: Vec::new(), weights: Vec::new() };
    for (row, bias) in rows.outer_iter().zip(biases) {
        let largest = row.fold(0f32, |largest, weight| largest.max(weight.abs()));
        let scale = if largest > 0.0 { f64::from(largest) / 127.0 } else { 1.0 };
        let steps = (f64::from(*bias) / (x_scale * scale)).round_ties_even();
        let is_finite = row.iter().chain([bias]).all(|x| x.is_finite());
        if !is_finite || steps.abs() > max_bias(row.len()) as f64 {
            return Err(too_large());
        }
        quantized.steps.push(x_scale * scale / y_scale);
        quantized.bias.push(steps as i32);
        quantized.weights.extend(row.iter().map(|&weight| to_int8(f64::from(weight) / scale)));
    }
    Ok(quantized)
    // ANCHOR_END: quantize_todo
}
// ANCHOR_END: quantize
