//! Slices of bytes that are signed or unsigned.
//!
//! Kernels compute with unsigned bytes: a signed one is 128 less than the unsigned one that differs from it in the highest bit.

/// Values of 8 bits.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a> {
    /// The bytes as they are in memory.
    pub(super) data: &'a [u8],
    /// What makes a byte unsigned by an exclusive or.
    pub(super) flip: u8,
}

/// The bit by which signed and unsigned bytes differ.
pub(super) const SIGN: u8 = 0x80;

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(data: &'a [u8]) -> Self {
        Self { data, flip: 0 }
    }
}

impl<'a> From<&'a [i8]> for Bytes<'a> {
    fn from(data: &'a [i8]) -> Self {
        // SAFETY: both types have one byte, and any bits are valid.
        let data = unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), data.len()) };
        Self { data, flip: SIGN }
    }
}

/// The type of a quantised tensor, and the value that represents 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroPoint {
    /// Signed values.
    I8(i8),
    /// Unsigned values.
    U8(u8),
}

impl ZeroPoint {
    /// The zero point of the values as unsigned bytes.
    pub(super) fn unsigned(self) -> u8 {
        match self {
            Self::I8(value) => value.cast_unsigned() ^ SIGN,
            Self::U8(value) => value,
        }
    }
}

/// Where the outputs of a product are stored.
#[derive(Debug)]
pub enum Outputs<'a> {
    /// Signed bytes.
    I8(&'a mut [i8]),
    /// Unsigned bytes.
    U8(&'a mut [u8]),
    /// Floats.
    F32(&'a mut [f32]),
}

impl Outputs<'_> {
    /// The number of outputs.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::I8(values) => values.len(),
            Self::U8(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }
}
