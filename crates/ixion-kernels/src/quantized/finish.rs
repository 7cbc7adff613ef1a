//! What happens to the numbers that sums represent before they are stored.
//!
//! All of it is computed in `f32`, without fused operations, so that it has the same bits on every processor.

use super::bytes::Bytes;

/// The operations on the float that a sum represents, in this order, and the quantisation of the result. As a quantised output,
/// NaN becomes the smallest value.
#[derive(Clone, Copy)]
pub struct Finish<'a> {
    /// Quantised values that are added, in the layout of the outputs.
    pub added: Option<Added<'a>>,
    /// A function of each element, which is given any number of them at a time.
    pub function: Option<&'a (dyn Fn(&mut [f32]) + Sync)>,
    /// The bounds to which results are clamped.
    pub bounds: [f32; 2],
    /// The number of steps that 1 is, for quantised outputs: the reciprocal of their scale, which must be a normal number.
    pub inverse: f32,
    /// The quantised output that represents 0.
    pub zero_point: i32,
    /// The smallest and the largest quantised output.
    pub range: [i32; 2],
}

/// Quantised values that are added to the outputs.
#[derive(Debug, Clone, Copy)]
pub struct Added<'a> {
    /// The values.
    pub values: Bytes<'a>,
    /// The distance between adjacent representable numbers.
    pub scale: f32,
    /// The value that represents 0.
    pub zero_point: i32,
}

impl Finish<'_> {
    /// Leaves the numbers unchanged. Quantised outputs from −127 to 127 represent themselves.
    pub const NONE: Self = Self {
        added: None,
        function: None,
        bounds: [f32::NEG_INFINITY, f32::INFINITY],
        inverse: 1.0,
        zero_point: 0,
        range: [-127, 127],
    };

    /// The quantised output for a number: the number of steps, rounded half to even, plus the zero point, saturated to the
    /// range. NaN becomes the smallest value.
    #[cfg(test)]
    pub(super) fn quantized(&self, x: f32) -> i32 {
        let [low, high] = self.range.map(|end| (end - self.zero_point) as f32);
        let steps = if x.is_nan() { low } else { (x * self.inverse).clamp(low, high) };
        steps.round_ties_even() as i32 + self.zero_point
    }
}

impl std::fmt::Debug for Finish<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finish")
            .field("added", &self.added)
            .field("function", &self.function.is_some())
            .field("bounds", &self.bounds)
            .field("inverse", &self.inverse)
            .field("zero_point", &self.zero_point)
            .field("range", &self.range)
            .finish()
    }
}
