//! What the elements of a quantised tensor represent.

/// The step of a tensor that an engine quantised: the int8 value q represents `scale · (q − zero_point)`.
///
/// With the zero point 0, values are from −127 to 127, and each has a negative; with another, they are from −128 to 127.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The distance between adjacent representable numbers.
    pub scale: f32,
    /// The value that represents 0.
    pub zero_point: i8,
}

impl Step {
    /// The smallest and the largest value.
    pub fn range(self) -> [i8; 2] {
        match self.zero_point {
            0 => [-i8::MAX, i8::MAX],
            _ => [i8::MIN, i8::MAX],
        }
    }
}

/// The step of this scale with the zero point 0.
impl From<f32> for Step {
    fn from(scale: f32) -> Self {
        Self { scale, zero_point: 0 }
    }
}
