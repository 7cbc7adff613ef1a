//! Elements as bits, for kernels that only move elements.

use super::DType;

mod sealed {
    pub trait Sealed {}
}

/// A type that represents all element types of its size where elements are only moved.
///
/// Kernels that copy elements (concatenation, gathering, flipping) are compiled for five sizes instead of 13 types:
/// [`with_bits`] binds byte arrays, which need no alignment. `bool` is separate from `u8` because its
/// bytes may only be 0 or 1.
pub trait Bits: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// Returns true if elements of `dtype` may be read and written as this type.
    fn stands_for(dtype: DType) -> bool;

    /// The element with the given little-endian bytes; missing bytes count as zero.
    fn from_le_slice(bytes: &[u8]) -> Self;

    /// Appends the element's little-endian bytes.
    fn push_le(self, bytes: &mut Vec<u8>);
}

macro_rules! bits {
    ($($word:ty, $pattern:pat => $pair:pat),* $(,)?) => {$(
        impl sealed::Sealed for $word {}
        impl Bits for $word {
            fn stands_for(dtype: DType) -> bool {
                matches!(dtype, $pattern)
            }
            fn from_le_slice(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<$word>()];
                word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                <$word>::from_le_bytes(word)
            }
            fn push_le(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }

        impl sealed::Sealed for [$word; 2] {}
        impl Bits for [$word; 2] {
            fn stands_for(dtype: DType) -> bool {
                matches!(dtype, $pair)
            }
            fn from_le_slice(bytes: &[u8]) -> Self {
                let (real, imaginary) = bytes.split_at(bytes.len().min(size_of::<$word>()));
                [<$word as Bits>::from_le_slice(real), <$word as Bits>::from_le_slice(imaginary)]
            }
            fn push_le(self, bytes: &mut Vec<u8>) {
                self.into_iter().for_each(|word| word.push_le(bytes));
            }
        }
    )*};
}

// For each size a word, and a pair of words (the two parts of a complex number).
bits! {
    u16, DType::F16 | DType::Bf16 | DType::I16 => DType::C32,
    u32, DType::F32 | DType::I32 => DType::C64,
    u64, DType::F64 | DType::I64 => DType::C128,
}

macro_rules! bytes {
    ($($size:literal => $pattern:pat),* $(,)?) => {$(
        impl sealed::Sealed for [u8; $size] {}
        impl Bits for [u8; $size] {
            fn stands_for(dtype: DType) -> bool {
                matches!(dtype, $pattern)
            }
            /// The bytes unchanged: the size of a word depends on the [`DType`].
            fn from_le_slice(bytes: &[u8]) -> Self {
                let mut word = [0; $size];
                word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                word
            }
            fn push_le(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self);
            }
        }
    )*};
}

bytes! {
    2 => DType::F16 | DType::Bf16 | DType::I16,
    4 => DType::F32 | DType::I32 | DType::C32,
    8 => DType::F64 | DType::I64 | DType::C64,
    16 => DType::C128,
}

/// Reverses the byte order of elements, word by word.
pub(super) fn reverse_words(bytes: &mut [u8], dtype: DType) {
    bytes.chunks_exact_mut(dtype.real().size()).for_each(<[u8]>::reverse);
}

impl sealed::Sealed for u8 {}
impl Bits for u8 {
    fn stands_for(dtype: DType) -> bool {
        matches!(dtype, DType::U8 | DType::I8)
    }
    fn from_le_slice(bytes: &[u8]) -> Self {
        bytes.first().copied().unwrap_or(0)
    }
    fn push_le(self, bytes: &mut Vec<u8>) {
        bytes.push(self);
    }
}

impl sealed::Sealed for bool {}
impl Bits for bool {
    fn stands_for(dtype: DType) -> bool {
        matches!(dtype, DType::Bool)
    }
    fn from_le_slice(bytes: &[u8]) -> Self {
        <u8 as Bits>::from_le_slice(bytes) != 0
    }
    fn push_le(self, bytes: &mut Vec<u8>) {
        bytes.push(self.into());
    }
}

/// Runs an expression with `$B` bound to the [`Bits`] type of a [`DType`].
#[macro_export]
#[doc(hidden)]
macro_rules! __with_bits {
    ($dtype:expr, $B:ident => $body:expr) => {
        match $dtype {
            $crate::DType::Bool => {
                type $B = bool;
                $body
            }
            $crate::DType::U8 | $crate::DType::I8 => {
                type $B = u8;
                $body
            }
            $crate::DType::F16 | $crate::DType::Bf16 | $crate::DType::I16 => {
                type $B = [u8; 2];
                $body
            }
            $crate::DType::F32 | $crate::DType::I32 | $crate::DType::C32 => {
                type $B = [u8; 4];
                $body
            }
            $crate::DType::F64 | $crate::DType::I64 | $crate::DType::C64 => {
                type $B = [u8; 8];
                $body
            }
            $crate::DType::C128 => {
                type $B = [u8; 16];
                $body
            }
        }
    };
}

#[doc(inline)]
pub use __with_bits as with_bits;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_has_exactly_one_type_of_bits() {
        for dtype in DType::ALL {
            let size = with_bits!(dtype, B => { assert!(B::stands_for(dtype)); size_of::<B>() });
            assert_eq!(size, dtype.size(), "{dtype}");
        }
    }

    #[test]
    fn little_endian_bytes_round_trip() {
        let mut bytes = Vec::new();
        [1u32, 0x0203_0405].push_le(&mut bytes);
        assert_eq!(bytes, [1, 0, 0, 0, 5, 4, 3, 2]);
        assert_eq!(<[u32; 2] as Bits>::from_le_slice(&bytes), [1, 0x0203_0405]);
        assert_eq!(<u16 as Bits>::from_le_slice(&[7]), 7);
    }
}
