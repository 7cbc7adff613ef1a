//! Quantisation of weights and results to int8.

use super::Convolution;
use super::geometry::Geometry;
use ixion::op::{LayerError, Result};

/// The scales of the input and, if it is int8, of the output.
pub(super) type Scales = (f32, Option<f32>);

/// The largest quantised value. The range is symmetric: -128 is not used.
const INT8_MAX: f32 = 127.0;

/// Quantised weights and all scales.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quantized {
    /// The scale of the input.
    pub(super) x_scale: f32,
    /// The scale of the output; `None` if the output is f32.
    pub(super) y_scale: Option<f32>,
    /// The scale of the weights, one per output channel.
    pub(super) weight_scales: Vec<f32>,
    pub(super) weights: Vec<i8>,
    /// In units of x_scale·weight_scale.
    pub(super) bias: Vec<i32>,
}

impl Convolution {
    // ANCHOR: quantize
    /// Quantises weights and bias for the given scales of input and output.
    pub(super) fn quantize(&self, (x_scale, y_scale): Scales) -> Result<Quantized> {
        let weights = self.weight.view(&[])?.to_vec::<f32>()?;
        let bias = match &self.bias {
            Some(bias) => bias.view(&[])?.to_vec::<f32>()?,
            None => vec![0.0; self.out_channels],
        };
        let window = weights.len() / self.out_channels.max(1);
        let mut quantized =
            Quantized { x_scale, y_scale, weight_scales: vec![], weights: vec![], bias: vec![] };
        for (channel, bias) in weights.chunks(window.max(1)).zip(bias) {
            let largest = channel.iter().fold(0f32, |largest, weight| largest.max(weight.abs()));
            let scale = if largest > 0.0 { largest / INT8_MAX } else { 1.0 };
            quantized.weight_scales.push(scale);
            quantized.weights.extend(channel.iter().map(|weight| to_int8(weight / scale)));
            quantized.bias.push((bias / (x_scale * scale)).round_ties_even() as i32);
        }
        quantized.check_sums(window)?;
        Ok(quantized)
    }
    // ANCHOR_END: quantize
}

/// Rounds to the nearest integer, ties to even, and clamps to -127..=127.
pub(super) fn to_int8(x: f32) -> i8 {
    x.round_ties_even().clamp(-INT8_MAX, INT8_MAX) as i8
}

impl Quantized {
    /// Returns an error if a sum could overflow i32; the engine then uses f32.
    pub(super) fn check_sums(&self, window: usize) -> Result<()> {
        let largest = (window as u64).saturating_mul(127 * 127);
        let bias = self.bias.iter().map(|bias| u64::from(bias.unsigned_abs())).max().unwrap_or(0);
        if largest.saturating_add(bias) <= i32::MAX as u64 {
            return Ok(());
        }
        Err(LayerError::Unsupported("sums of int8 products could overflow i32".to_owned()))
    }

    /// The scales of input and output.
    pub(super) fn scales(&self) -> Scales {
        (self.x_scale, self.y_scale)
    }

    /// Returns true if the numbers of weights, biases and scales fit this geometry and sums cannot overflow.
    pub(super) fn fits(&self, geometry: &Geometry) -> bool {
        let channels = geometry.output[1];
        self.weights.len() == channels.saturating_mul(geometry.window())
            && [self.bias.len(), self.weight_scales.len()] == [channels; 2]
            && self.check_sums(geometry.window()).is_ok()
    }

    // ANCHOR: finish
    /// Rescales a row of sums to the scale of the output, which is 1 for f32.
    pub(super) fn finish<T>(&self, channel: usize, sums: &[i32], output: &mut [T], convert: fn(f32) -> T) {
        let step = self.x_scale * self.weight_scales[channel] / self.y_scale.unwrap_or(1.0);
        for (y, &sum) in output.iter_mut().zip(sums) {
            *y = convert(sum as f32 * step);
        }
    }
    // ANCHOR_END: finish
}
