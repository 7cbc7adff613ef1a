//! The range of an operand's values.

// ANCHOR: range
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
        // ANCHOR: with_todo -- task 4: the smallest and the largest; NaN stays
        values.iter().fold(self, |range, &x| match x.is_nan() || range.least.is_nan() {
            true => Self { least: f32::NAN, largest: f32::NAN },
            false => Self { least: range.least.min(x), largest: range.largest.max(x) },
        })
        // ANCHOR_END: with_todo
    }

    /// The largest magnitude; `None` if there were no values or one was not finite.
    pub fn magnitude(self) -> Option<f32> {
        // ANCHOR: magnitude_todo -- task 4: the magnitude of the end farther from zero
        let most = self.largest.max(-self.least);
        (self.least.is_finite() && self.largest.is_finite()).then_some(most)
        // ANCHOR_END: magnitude_todo
    }
}
// ANCHOR_END: range

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_magnitude_is_that_of_the_end_farther_from_zero() {
        let range = Range::EMPTY.with(&[1.0, -3.0]).with(&[2.0]);
        assert_eq!(range, Range { least: -3.0, largest: 2.0 });
        assert_eq!(range.magnitude(), Some(3.0));
        assert_eq!(Range::EMPTY.magnitude(), None);
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(range.with(&[wrong]).with(&[1.0]).magnitude(), None, "{wrong}");
        }
    }
}
