//! What a word of factors and weights contains.

use crate::isa::multiplies_pairs;

/// The contents of a word: the four bytes that are multiplied at each step of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// One `f32`.
    #[default]
    F32,
    /// Two `bf16`, the first in the lower half; their sums are `f32`. [`multiplies_pairs`] returns whether the processor
    /// supports this.
    ///
    /// [`multiplies_pairs`]: crate::multiplies_pairs
    Bf16Pairs,
}

impl Packing {
    /// The number of values in a word.
    pub fn numbers(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16Pairs => 2,
        }
    }

    /// The number of words that hold `numbers` values; the last one may be padded.
    pub fn count(self, numbers: usize) -> usize {
        numbers.div_ceil(self.numbers())
    }

    /// Returns true if the instructions of this process multiply such words.
    pub fn are_supported(self) -> bool {
        self == Self::F32 || multiplies_pairs()
    }
}
