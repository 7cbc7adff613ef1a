//! Weights as whole numbers.

use crate::op::LayerError;
use ndarray::ArrayView2;

// ANCHOR: struct
/// Weights as whole numbers from −127 to 127, and what turns their sums into outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    /// What 1 stands for in the input, and in the output.
    pub scales: [f32; 2],
    /// For each output channel, how many steps of the output one step of its sums is.
    pub steps: Vec<f64>,
    /// For each output channel, its bias in steps of its sums.
    pub bias: Vec<i32>,
    /// A row for each output channel.
    pub weights: Vec<i8>,
}

/// The largest bias beside so many products of two bytes, such that no sum leaves the range of i32.
fn most(taps: usize) -> i64 {
    i64::from(i32::MAX) - i64::try_from(taps).unwrap_or(i64::MAX).saturating_mul(128 * 128)
}

fn too_large() -> LayerError {
    LayerError::Unsupported("the numbers are not finite, or their sums too large for 32 bits".to_owned())
}

impl Whole {
    /// As many numbers as a convolution with so many output channels and taps needs, none of them out of range.
    pub fn fits(&self, channels: usize, taps: usize) -> bool {
        let is_positive = |x: f64| x > 0.0 && x.is_finite();
        self.weights.len() == channels.saturating_mul(taps)
            && [self.bias.len(), self.steps.len()] == [channels; 2]
            && self.bias.iter().all(|&bias| i64::from(bias).abs() <= most(taps))
            && self.scales.iter().all(|&scale| is_positive(scale.into()))
            && self.steps.iter().all(|&step| is_positive(step))
    }

    /// The weights of an output channel, its bias and its step.
    ///
    /// # Errors
    /// A channel that is not there.
    pub fn channel(&self, channel: usize) -> Result<(&[i8], i32, f64), LayerError> {
        let taps = self.weights.len() / self.steps.len().max(1);
        let weights = self.weights.chunks_exact(taps.max(1)).nth(channel);
        match (weights, self.bias.get(channel), self.steps.get(channel)) {
            (Some(weights), Some(&bias), Some(&step)) => Ok((weights, bias, step)),
            _ => Err(LayerError::Unsupported(format!("there is no channel {channel}"))),
        }
    }
}
// ANCHOR_END: struct

// ANCHOR: to_whole
/// The nearest whole number from −127 to 127; of two, the even one.
pub fn to_whole(x: f64) -> i8 {
    // ANCHOR: to_whole_todo -- task 3: round half to even, and cut off at ±127
    x.round_ties_even().clamp(-127.0, 127.0) as i8
    // ANCHOR_END: to_whole_todo
}
// ANCHOR_END: to_whole

// ANCHOR: quantize
/// Makes whole numbers of weights, a row for each output channel, and of its bias, for these scales of input and output.
///
/// # Errors
/// [`LayerError::Unsupported`] for weights that are not finite, and for sums that 32 bits may not hold: an engine then stays
/// with f32.
pub fn quantize(rows: ArrayView2<'_, f32>, biases: &[f32], scales: [f32; 2]) -> Result<Whole, LayerError> {
    // ANCHOR: quantize_todo -- task 3: for each channel its scale, its weights and its bias as whole numbers, and the step of its sums
    let [x_scale, y_scale] = scales.map(f64::from);
    let mut whole = Whole { scales, steps: Vec::new(), bias: Vec::new(), weights: Vec::new() };
    for (row, bias) in rows.outer_iter().zip(biases) {
        let largest = row.fold(0f32, |largest, weight| largest.max(weight.abs()));
        let scale = if largest > 0.0 { f64::from(largest) / 127.0 } else { 1.0 };
        let steps = (f64::from(*bias) / (x_scale * scale)).round_ties_even();
        let is_finite = row.iter().chain([bias]).all(|x| x.is_finite());
        if !is_finite || steps.abs() > most(row.len()) as f64 {
            return Err(too_large());
        }
        whole.steps.push(x_scale * scale / y_scale);
        whole.bias.push(steps as i32);
        whole.weights.extend(row.iter().map(|&weight| to_whole(f64::from(weight) / scale)));
    }
    Ok(whole)
    // ANCHOR_END: quantize_todo
}
// ANCHOR_END: quantize
