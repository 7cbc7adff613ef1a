//! The element types that an engine may choose for f32.

use crate::tensor::DType;
use std::fmt;
use std::str::FromStr;

/// An element type that an engine may choose where a model has f32; see
/// [`Builder::with_precisions`](super::Builder::with_precisions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Precision {
    /// As in the model. Always allowed.
    F32,
    /// IEEE 754 binary16: 11 bits of precision, up to 65504.
    F16,
    /// bfloat16: 8 bits of precision, the range of f32.
    Bf16,
    /// Integers from -127 to 127 times a scale, for operands with [`Scales`](super::Scales).
    Int8,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::Int8];

    /// Its name: `f32`, `f16`, `bf16` or `int8`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// The element type of a layer's weights and tensors, if it is a float type other than f32.
    pub(super) fn narrow(self) -> Option<DType> {
        match self {
            Self::F16 => Some(DType::F16),
            Self::Bf16 => Some(DType::Bf16),
            Self::F32 | Self::Int8 => None,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|precision| precision.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|precision| precision.name()).collect();
            format!("unknown precision `{text}`; expected one of {}", known.join(", "))
        })
    }
}
