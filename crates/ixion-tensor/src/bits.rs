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

/// The first `N` bytes; missing ones count as zero.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    first
}

impl<const N: usize> sealed::Sealed for [u8; N] {}

/// Bytes as they are: the size of a word depends on the [`DType`].
impl<const N: usize> Bits for [u8; N]
where
    [u8; N]: Default,
{
    fn stands_for(dtype: DType) -> bool {
        N > 1 && dtype.size() == N
    }
    fn from_le_slice(bytes: &[u8]) -> Self {
        first(bytes)
    }
    fn push_le(self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }
}

macro_rules! words {
    ($($word:ty => $pattern:pat),* $(,)?) => {$(
        impl sealed::Sealed for $word {}
        impl Bits for $word {
            fn stands_for(dtype: DType) -> bool {
                matches!(dtype, $pattern)
            }
            fn from_le_slice(bytes: &[u8]) -> Self {
                <$word>::from_le_bytes(first(bytes))
            }
            fn push_le(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    )*};
}

words! {
    u8 => DType::U8 | DType::I8,
    u16 => DType::F16 | DType::Bf16 | DType::I16,
    u32 => DType::F32 | DType::I32,
    u64 => DType::F64 | DType::I64,
}

/// A word that is a part of complex numbers.
trait Part: Bits {}
impl Part for u16 {}
impl Part for u32 {}
impl Part for u64 {}

impl<P: Part> sealed::Sealed for [P; 2] {}

/// The real and the imaginary part of a complex number.
impl<P: Part> Bits for [P; 2] {
    fn stands_for(dtype: DType) -> bool {
        dtype.is_complex() && P::stands_for(dtype.real())
    }
    fn from_le_slice(bytes: &[u8]) -> Self {
        let (real, imaginary) = bytes.split_at(bytes.len().min(size_of::<P>()));
        [P::from_le_slice(real), P::from_le_slice(imaginary)]
    }
    fn push_le(self, bytes: &mut Vec<u8>) {
        self.into_iter().for_each(|part| part.push_le(bytes));
    }
}

/// Reverses the byte order of elements, word by word.
pub(super) fn reverse_words(bytes: &mut [u8], dtype: DType) {
    bytes.chunks_exact_mut(dtype.real().size()).for_each(<[u8]>::reverse);
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
