//! Weights and results as whole numbers of 8 bits.

use super::Convolution;
use super::geometry::Geometry;
use ixion::op::LayerError;

/// What 1 stands for in the input, and in the output if that is whole as well.
pub(super) type Scales = (f32, Option<f32>);

/// The largest whole number: -128 is left out, so that the range is symmetric.
const LARGEST: f32 = 127.0;

/// The weights as whole numbers, and what these and those of the tensors stand for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quantized {
    /// What 1 stands for in the input.
    pub(super) x_scale: f32,
    /// What 1 stands for in the output; none where the output is f32.
    pub(super) y_scale: Option<f32>,
    /// What 1 stands for in the weights of each output channel.
    pub(super) weight_scales: Vec<f32>,
    pub(super) weights: Vec<i8>,
    /// In steps of x_scale·weight_scale.
    pub(super) bias: Vec<i32>,
}

impl Convolution {
    // ANCHOR: quantize
    /// Makes whole numbers of weights and bias, for these scales of input and output.
    pub(super) fn quantize(&self, (x_scale, y_scale): Scales) -> Result<Quantized, LayerError> {
        let weights = self.weight.view(&[])?.to_vec::<f32>()?;
        let bias = match &self.bias {
            Some(bias) => bias.view(&[])?.to_vec::<f32>()?,
            None => vec![0.0; self.out_channels],
        };
        let window = weights.len() / self.out_channels.max(1);
        let mut made = Quantized { x_scale, y_scale, weight_scales: vec![], weights: vec![], bias: vec![] };
        for (channel, bias) in weights.chunks(window.max(1)).zip(bias) {
            let largest = channel.iter().fold(0f32, |largest, weight| largest.max(weight.abs()));
            let scale = if largest > 0.0 { largest / LARGEST } else { 1.0 };
            made.weight_scales.push(scale);
            made.weights.extend(channel.iter().map(|weight| to_whole(weight / scale)));
            made.bias.push((bias / (x_scale * scale)).round_ties_even() as i32);
        }
        made.check_sums(window)?;
        Ok(made)
    }
    // ANCHOR_END: quantize
}

/// The nearest whole number from -127 to 127.
pub(super) fn to_whole(x: f32) -> i8 {
    x.round_ties_even().clamp(-LARGEST, LARGEST) as i8
}

impl Quantized {
    /// Refuses weights whose sums could leave the range of i32. An engine then takes f32.
    pub(super) fn check_sums(&self, window: usize) -> Result<(), LayerError> {
        let largest = (window as u64).saturating_mul(127 * 127);
        let bias = self.bias.iter().map(|bias| u64::from(bias.unsigned_abs())).max().unwrap_or(0);
        if largest.saturating_add(bias) <= i32::MAX as u64 {
            return Ok(());
        }
        Err(LayerError::Unsupported("sums of whole numbers could be larger than 32 bits hold".to_owned()))
    }

    /// What 1 stands for in input and output.
    pub(super) fn scales(&self) -> Scales {
        (self.x_scale, self.y_scale)
    }

    /// Whether there is as much of everything as a convolution of these sizes needs.
    pub(super) fn fits(&self, geometry: &Geometry) -> bool {
        let channels = geometry.output[1];
        self.weights.len() == channels.saturating_mul(geometry.window())
            && [self.bias.len(), self.weight_scales.len()] == [channels; 2]
            && self.check_sums(geometry.window()).is_ok()
    }

    // ANCHOR: finish
    /// Brings a row of sums to the steps of the output, which are 1 where it is f32.
    pub(super) fn finish<T>(&self, channel: usize, sums: &[i32], output: &mut [T], number: fn(f32) -> T) {
        let step = self.x_scale * self.weight_scales[channel] / self.y_scale.unwrap_or(1.0);
        for (y, &sum) in output.iter_mut().zip(sums) {
            *y = number(sum as f32 * step);
        }
    }
    // ANCHOR_END: finish
}
