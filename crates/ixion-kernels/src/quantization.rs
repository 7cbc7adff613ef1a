//! Quantisation: the scalar arithmetic that all kernels use, the naive ones and the fast ones.
//!
//! A quantised model brings its own quantised values and zero points ([`Quantization`]). An engine that quantises a model
//! itself uses int8 with zero point 0: q, from −127 to 127, represents scale · q ([`quantize`], [`ChannelStep`]). Where a model
//! states its steps, int8 may have another zero point, and then all values from −128 to 127.
//!
//! To quantise is to multiply by the reciprocal of the scale, rounded to `f32`, and not to divide by the scale, which takes
//! processors far longer. All kernels do so, and therefore round ties alike.

/// Affine quantisation: q represents x = scale · (q − zero point).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantization {
    /// The distance between adjacent representable numbers.
    pub scale: f32,
    /// The quantised value that represents zero.
    pub zero_point: i32,
    /// The smallest and the largest quantised value.
    pub range: [i32; 2],
}

impl Quantization {
    /// Quantises a float: x times the reciprocal of the scale, in `f32`, rounded half to even, plus the zero point,
    /// saturated to the range. NaN becomes the zero point.
    #[inline(always)]
    pub fn quantize(&self, x: f32) -> i32 {
        self.place((x * (1.0 / self.scale)).round_ties_even())
    }

    /// Dequantises a value: the float that it represents.
    #[inline(always)]
    pub fn dequantize(&self, q: i32) -> f32 {
        (q.wrapping_sub(self.zero_point)) as f32 * self.scale
    }

    /// The quantised value that is `steps` away from the zero point, saturated to the range.
    #[inline(always)]
    pub fn place(&self, steps: f32) -> i32 {
        let [min, max] = self.range.map(i64::from);
        // The conversion saturates, and converts NaN to 0; after the clamp, the value fits i32.
        (steps as i64).saturating_add(i64::from(self.zero_point)).clamp(min, max) as i32
    }

    /// The float that a value of 8 bits represents.
    #[inline(always)]
    pub fn load(&self, q: i8) -> f32 {
        self.dequantize(q.into())
    }

    /// As [`Quantization::quantize`], for a range of 8 bits, by operations that compilers turn into vector instructions, as
    /// [`quantize_by_adding`].
    #[inline(always)]
    pub fn store(&self, x: f32) -> i8 {
        let [low, high] = self.range.map(|end| end.wrapping_sub(self.zero_point) as f32);
        let steps = x * self.scale.recip();
        let steps = if steps.is_nan() { 0.0 } else { steps };
        // Unlike `clamp`, these have no bounds to check.
        let steps = if steps < low { low } else { steps };
        let steps = if steps > high { high } else { steps };
        (steps + INTEGERS).to_bits().wrapping_add(self.zero_point.cast_unsigned()) as i8
    }
}

/// 1.5 · 2²³: the last bits of this number plus an integer are those of the integer.
const INTEGERS: f32 = 12_582_912.0;

/// Converts the sum of an output's products to its quantised value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requantization {
    /// The scale of the input times the scale of the weight, over the scale of the output.
    pub multiplier: f32,
    /// The bias in units of the input scale times the weight scale.
    pub bias: f32,
    /// The quantisation of the output; its scale is part of the multiplier already.
    pub output: Quantization,
}

impl Requantization {
    /// The quantised value for a sum, which is an integer.
    #[inline(always)]
    pub fn apply(&self, sum: f64) -> i32 {
        self.output.place(((sum as f32 + self.bias) * self.multiplier).round_ties_even())
    }
}

#[inline(always)]
// ANCHOR: quantize
/// Quantises a float to int8: x over the scale, rounded half to even and clamped to ±127. NaN becomes 0.
pub fn quantize(x: f32, scale: f32) -> i8 {
    // ANCHOR: quantize_todo -- task 2: divide, round half to even, clamp to ±127
    // All kernels multiply by the reciprocal, which is faster than dividing. Through i32, because processors convert
    // floats to that type.
    (x * scale.recip()).round_ties_even().clamp(-127.0, 127.0) as i32 as i8
    // ANCHOR_END: quantize_todo
}
// ANCHOR_END: quantize

/// As [`quantize`], with the same results, by operations that compilers turn into vector instructions: adding a number whose
/// neighbours are integers rounds half to even.
#[inline(always)]
pub fn quantize_by_adding(x: f32, scale: f32) -> i8 {
    let steps = (x * scale.recip()).clamp(-127.0, 127.0);
    let steps = if steps.is_nan() { 0.0 } else { steps };
    (steps + INTEGERS).to_bits() as i8
}

#[inline(always)]
// ANCHOR: dequantize
/// Dequantises an int8 value: the float that it represents.
pub fn dequantize(q: i8, scale: f32) -> f32 {
    // ANCHOR: dequantize_todo -- task 2: the inverse of quantize
    f32::from(q) * scale
    // ANCHOR_END: dequantize_todo
}
// ANCHOR_END: dequantize

// ANCHOR: channel_scale
/// The scale of an output channel's weights, which maps their largest magnitude to 127. It is 0 if all weights are 0.
pub fn channel_scale(weights: &[f32]) -> f32 {
    // ANCHOR: channel_scale_todo -- task 2: the largest magnitude over 127
    weights.iter().fold(0.0f32, |largest, weight| largest.max(weight.abs())) / 127.0
    // ANCHOR_END: channel_scale_todo
}
// ANCHOR_END: channel_scale

// ANCHOR: channel_step
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
        // ANCHOR: channel_step_todo -- task 3: express the bias in steps of input scale · weight scale, rounded half to even
        let scale = weight_scale * input_scale;
        let steps = (f64::from(bias) / f64::from(scale)).round_ties_even();
        let counts = weight_scale.is_normal() && scale.is_normal() && (steps as f32).is_finite();
        counts.then_some(Self { bias: steps, scale })
        // ANCHOR_END: channel_step_todo
    }

    /// The step of a channel whose sums are all 0: its outputs are its bias.
    pub fn of_bias(bias: f32) -> Self {
        Self { bias: f64::from(bias), scale: 1.0 }
    }

    /// The float for a sum, which is an integer; `f64` holds integers exactly up to 2⁵³. The bias is added, the result is
    /// rounded to `f32`, and then multiplied by the scale.
    #[inline(always)]
    pub fn real(self, sum: f64) -> f32 {
        // ANCHOR: channel_real_todo -- task 3: add the bias first, then multiply once
        (sum + self.bias) as f32 * self.scale
        // ANCHOR_END: channel_real_todo
    }
}
// ANCHOR_END: channel_step

// ANCHOR: quantize_channel
/// Quantises an output channel: its weights in int8, and the step that converts their sums to floats. If there is no
/// step, the weights are 0, and the outputs are the bias.
pub fn quantize_channel(weights: &[f32], bias: f32, input_scale: f32) -> (Vec<i8>, ChannelStep) {
    // ANCHOR: quantize_channel_todo -- task 3: quantise the weights by their own scale, and compute the step of their sums
    let scale = channel_scale(weights);
    match ChannelStep::new(scale, input_scale, bias) {
        Some(step) => (weights.iter().map(|&weight| quantize(weight, scale)).collect(), step),
        None => (vec![0; weights.len()], ChannelStep::of_bias(bias)),
    }
    // ANCHOR_END: quantize_channel_todo
}
// ANCHOR_END: quantize_channel

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
    fn both_ways_of_quantising_give_the_same_results() {
        for bits in (0..=u32::MAX).step_by(99_991) {
            let x = f32::from_bits(bits);
            for scale in [1.0, 0.041, 3e-5, 7e6] {
                assert_eq!(quantize_by_adding(x, scale), quantize(x, scale), "{x} by {scale}");
            }
        }
        for quarters in -600..600 {
            let x = quarters as f32 * 0.25;
            assert_eq!(quantize_by_adding(x, 0.5), quantize(x, 0.5), "{x}");
        }
    }

    #[test]
    fn values_of_8_bits_are_stored_with_any_zero_point() {
        let bytes = [-128, 127];
        for (zero_point, range) in [(0, [-127, 127]), (-128, bytes), (127, bytes), (-7, [-100, 50])] {
            let how = Quantization { scale: 0.5, zero_point, range };
            for x in (-1200..1200).map(|eighths| eighths as f32 * 0.125) {
                assert_eq!(i32::from(how.store(x)), how.quantize(x), "{x}, zero point {zero_point}");
            }
            for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30] {
                assert_eq!(i32::from(how.store(x)), how.quantize(x), "{x}, zero point {zero_point}");
            }
            for q in i8::MIN..=i8::MAX {
                assert_eq!(how.load(q), (i32::from(q) - zero_point) as f32 * 0.5);
            }
        }
    }

    #[test]
    fn ties_are_rounded_alike() {
        for scale in [0.3f32, 0.041, 0.007] {
            let how = Quantization { scale, zero_point: 0, range: [-127, 127] };
            for steps in -126..126 {
                let x = scale * (steps as f32 + 0.5);
                assert_eq!(i32::from(quantize(x, scale)), how.quantize(x), "{x} by {scale}");
                assert_eq!(i32::from(quantize_by_adding(x, scale)), how.quantize(x), "{x} by {scale}");
            }
        }
        // The quotient is less than 117.5, and the product with the reciprocal is not.
        assert_eq!((quantize(35.25, 0.3), (35.25f32 / 0.3).round_ties_even()), (118, 117.0));
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
