//! Conversion between f32 and the little-endian bytes of float elements.

use half::{bf16, f16};
use ixion_tensor::DType;

// ANCHOR: decode
/// Decodes little-endian elements to f32. Rounds f64.
///
/// `None` if `dtype` is not f32, f64, f16 or bf16. Trailing bytes that do not form a complete element are ignored.
pub fn decode_floats(dtype: DType, bytes: &[u8]) -> Option<Vec<f32>> {
    // ANCHOR: decode_todo -- task 4: depending on the element type, 4, 8 or 2 bytes per element
    match dtype {
        DType::F32 => Some(chunks(bytes, f32::from_le_bytes)),
        DType::F64 => Some(chunks(bytes, |bytes| f64::from_le_bytes(bytes) as f32)),
        DType::F16 => Some(chunks(bytes, |bytes| f16::from_le_bytes(bytes).to_f32())),
        DType::Bf16 => Some(chunks(bytes, |bytes| bf16::from_le_bytes(bytes).to_f32())),
        _ => None,
    }
    // ANCHOR_END: decode_todo
}

/// Splits bytes into chunks of `N`, and decodes one element from each.
fn chunks<const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (elements, _rest) = bytes.as_chunks::<N>();
    elements.iter().map(|&bytes| element(bytes)).collect()
}
// ANCHOR_END: decode

/// Encodes f32 values as little-endian elements of `dtype`; `None` if `dtype` is not f32, f64, f16 or bf16.
pub(super) fn encode_floats(dtype: DType, values: &[f32]) -> Option<Vec<u8>> {
    match dtype {
        DType::F32 => Some(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        DType::F64 => Some(values.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect()),
        DType::F16 => Some(values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect()),
        DType::Bf16 => Some(values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_types_round_to_their_precision() {
        let back =
            |dtype, value: f32| decode_floats(dtype, &encode_floats(dtype, &[value])?)?.first().copied();
        assert_eq!(back(DType::F32, 0.1), Some(0.1));
        assert_eq!(back(DType::F64, 0.1), Some(0.1));
        assert_eq!(back(DType::F16, 0.1), Some(0.099_975_586));
        assert_eq!(back(DType::Bf16, 0.1), Some(0.100_097_656));
        assert_eq!(back(DType::F16, 1e6), Some(f32::INFINITY));
        assert_eq!(back(DType::I32, 1.0), None);
    }
}
