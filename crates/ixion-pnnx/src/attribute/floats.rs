//! Little-endian bytes of float elements to and from f32.

use half::{bf16, f16};
use ixion_tensor::DType;

// ANCHOR: decode
/// Little-endian elements as f32. Rounds f64.
///
/// `None` when the elements are no floats. Bytes at the end that do not make up an element are left out.
pub fn decode_floats(dtype: DType, bytes: &[u8]) -> Option<Vec<f32>> {
    // ANCHOR: decode_todo -- task 4: by the element type: 4, 8 or 2 bytes for each element
    match dtype {
        DType::F32 => Some(chunks(bytes, f32::from_le_bytes)),
        DType::F64 => Some(chunks(bytes, |bytes| f64::from_le_bytes(bytes) as f32)),
        DType::F16 => Some(chunks(bytes, |bytes| f16::from_le_bytes(bytes).to_f32())),
        DType::Bf16 => Some(chunks(bytes, |bytes| bf16::from_le_bytes(bytes).to_f32())),
        _ => None,
    }
    // ANCHOR_END: decode_todo
}

/// Cuts bytes into pieces of `N` and makes an element of each.
fn chunks<const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (elements, _rest) = bytes.as_chunks::<N>();
    elements.iter().map(|&bytes| element(bytes)).collect()
}
// ANCHOR_END: decode

/// The bytes of elements of another float type; `None` when that type holds no floats.
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
