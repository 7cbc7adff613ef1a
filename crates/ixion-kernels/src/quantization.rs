//! How whole numbers stand for real ones: the arithmetic of one number, of which all kernels are made, the naive ones and the
//! fast ones.
//!
//! A model that was quantised brings its own numbers and their zero points ([`Quantization`]). What an engine chooses itself has
//! 8 bits whose zero is 0: q, from −127 to 127, stands for scale · q ([`quantize`], [`ChannelStep`]).

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

#[inline(always)]
// ANCHOR: quantize
/// The whole number that stands for a real one: x over the scale, rounded half to even and cut off at ±127. NaN becomes 0.
pub fn quantize(x: f32, scale: f32) -> i8 {
    // ANCHOR: quantize_todo -- task 2: divide, round half to even, cut off at ±127
    // By way of i32, which processors convert to.
    (x / scale).round_ties_even().clamp(-127.0, 127.0) as i32 as i8
    // ANCHOR_END: quantize_todo
}
// ANCHOR_END: quantize

#[inline(always)]
// ANCHOR: dequantize
/// The real number that a whole one stands for.
pub fn dequantize(q: i8, scale: f32) -> f32 {
    // ANCHOR: dequantize_todo -- task 2: the other way
    f32::from(q) * scale
    // ANCHOR_END: dequantize_todo
}
// ANCHOR_END: dequantize

// ANCHOR: channel_scale
/// The scale of an output channel's weights: their largest magnitude becomes 127. It is 0 where all are zero.
pub fn channel_scale(weights: &[f32]) -> f32 {
    // ANCHOR: channel_scale_todo -- task 2: the largest magnitude over 127
    weights.iter().fold(0.0f32, |largest, weight| largest.max(weight.abs())) / 127.0
    // ANCHOR_END: channel_scale_todo
}
// ANCHOR_END: channel_scale

// ANCHOR: channel_step
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
        // ANCHOR: channel_step_todo -- task 3: count the bias in steps of input times weight, rounded half to even
        let scale = weight_scale * input_scale;
        let steps = (f64::from(bias) / f64::from(scale)).round_ties_even();
        let counts = weight_scale.is_normal() && scale.is_normal() && (steps as f32).is_finite();
        counts.then_some(Self { bias: steps, scale })
        // ANCHOR_END: channel_step_todo
    }

    /// That of a channel whose sums are all 0: its outputs are its bias.
    pub fn of_bias(bias: f32) -> Self {
        Self { bias: f64::from(bias), scale: 1.0 }
    }

    /// The real number for a sum, which is a whole one: `f64` holds these exactly up to 2⁵³. Sum and bias become `f32`
    /// together, and are multiplied by the step.
    #[inline(always)]
    pub fn real(self, sum: f64) -> f32 {
        // ANCHOR: channel_real_todo -- task 3: add the bias first, then one product
        (sum + self.bias) as f32 * self.scale
        // ANCHOR_END: channel_real_todo
    }
}
// ANCHOR_END: channel_step

// ANCHOR: whole_channel
/// An output channel in int8: its weights as whole numbers, and what makes real numbers of their sums. Where sums don't
/// count, weights are 0 and the channel is its bias.
pub fn whole_channel(weights: &[f32], bias: f32, input_scale: f32) -> (Vec<i8>, ChannelStep) {
    // ANCHOR: whole_channel_todo -- task 3: weights by their own scale, sums by a step
    let scale = channel_scale(weights);
    match ChannelStep::new(scale, input_scale, bias) {
        Some(step) => (weights.iter().map(|&weight| quantize(weight, scale)).collect(), step),
        None => (vec![0; weights.len()], ChannelStep::of_bias(bias)),
    }
    // ANCHOR_END: whole_channel_todo
}
// ANCHOR_END: whole_channel

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_stays_zero_and_the_ends_are_alike() {
        assert_eq!(
            [0.0, 0.25, 0.75, -0.8, 1e9, -1e9, f32::NAN].map(|x| quantize(x, 0.5)),
            [0, 0, 2, -2, 127, -127, 0]
        );
        assert_eq!(dequantize(-3, 0.5), -1.5);
        assert_eq!((channel_scale(&[0.5, -2.54]), channel_scale(&[0.0])), (0.02, 0.0));
    }

    #[test]
    fn a_bias_is_counted_in_steps_of_the_products() {
        let step = ChannelStep::new(0.5, 0.25, 100.0).unwrap();
        assert_eq!(step, ChannelStep { bias: 800.0, scale: 0.125 });
        assert_eq!(step.real(-792.0), 1.0);
        // Half to even.
        assert_eq!(ChannelStep::new(1.0, 1.0, 2.5).unwrap().bias, 2.0);
        for (weight, input, bias) in
            [(0.0, 1.0, 1.0), (1e-40, 1.0, 1.0), (1e-20, 1e-20, 0.0), (1e-20, 1e-17, 1e3)]
        {
            assert_eq!(ChannelStep::new(weight, input, bias), None, "{weight} {input} {bias}");
        }
    }
}
