//! Weights of a few bits each, with a scale for each block of a row.

use crate::OnnxError;
use crate::lower::{Call, Constant};
use half::{bf16, f16};
use ixion_pnnx::Attribute;
use ixion_tensor::DType;

/// The sizes that the attributes give.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    rows: usize,
    columns: usize,
    bits: usize,
    block: usize,
}

impl Sizes {
    fn of(call: &Call<'_>) -> Result<Self, OnnxError> {
        let sizes = [call.int("N")?, call.int("K")?, call.int("block_size")?, Some(call.int_or("bits", 4)?)];
        let positive =
            |size: Option<i64>| size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
        let [Some(rows), Some(columns), Some(block), Some(bits)] = sizes.map(positive) else {
            return Err(
                call.error("the attributes `N`, `K` and `block_size` are required, and must be above 0")
            );
        };
        match bits {
            2 | 4 | 8 => Ok(Self { rows, columns, bits, block }),
            _ => Err(call.error(format!("expected `bits` to be 2, 4 or 8, got {bits}"))),
        }
    }

    fn blocks(self) -> usize {
        self.columns.div_ceil(self.block)
    }

    /// The bytes of a block, which are whole.
    fn bytes_of_block(self) -> usize {
        self.block.saturating_mul(self.bits).div_ceil(8)
    }

    /// The bytes with the zero points of a row.
    fn bytes_of_zeros(self) -> usize {
        self.blocks().saturating_mul(self.bits).div_ceil(8)
    }

    /// The number at a position in packed bytes.
    fn packed(self, bytes: &[u8], position: usize) -> u8 {
        let bit = position.saturating_mul(self.bits);
        let byte = bytes.get(bit / 8).copied().unwrap_or_default();
        (byte >> (bit % 8)) & (u8::MAX >> (8 - self.bits.min(8)))
    }
}

/// Checks the number of elements of an input.
fn check_count(call: &Call<'_>, name: &str, found: usize, wanted: Option<usize>) -> Result<(), OnnxError> {
    match wanted {
        Some(wanted) if wanted == found => Ok(()),
        Some(wanted) => Err(call.error(format!("expected {wanted} elements in `{name}`, got {found}"))),
        None => Err(call.error("the size of the weights overflows")),
    }
}

/// The weights of `MatMulNBits`, rows×columns, in the type of their scales.
///
/// # Errors
/// [`OnnxError`] if the inputs do not fit the attributes, or are too large.
pub(super) fn weight_of_bits(call: &mut Call<'_>) -> Result<Attribute, OnnxError> {
    let sizes = Sizes::of(call)?;
    let (Some(packed), Some(scales)) = (call.constant(1)?, call.constant(2)?) else {
        return Err(call.error("the quantised weights and their scales must be stored in the file"));
    };
    let blocks = sizes.rows.checked_mul(sizes.blocks());
    let wanted = blocks.and_then(|blocks| blocks.checked_mul(sizes.bytes_of_block()));
    check_count(call, "B", packed.attribute().byte_len(), wanted)?;
    check_count(call, "scales", scales.attribute().elem_count(), blocks)?;
    let count = sizes
        .rows
        .checked_mul(sizes.columns)
        .ok_or_else(|| call.error("the size of the weights overflows"))?;
    call.check_tensor((count as u64).saturating_mul(4))?;
    let zeros = zero_points(call, sizes)?;
    let factors = scales.f64s()?.ok_or_else(|| call.error("expected the scales to be real numbers"))?;
    let stored = packed.attribute().bytes()?;
    let mut weights: Vec<f32> = Vec::with_capacity(count);
    for (at, block) in stored.chunks_exact(sizes.bytes_of_block().max(1)).enumerate() {
        let scale = factors.get(at).copied().unwrap_or_default() as f32;
        let zero = zeros.get(at).copied().unwrap_or_default();
        let used = sizes.columns.saturating_sub(at % sizes.blocks() * sizes.block).min(sizes.block);
        weights.extend((0..used).map(|position| (f32::from(sizes.packed(block, position)) - zero) * scale));
    }
    encoded(call, &scales, sizes, &weights)
}

/// The zero point of each block: the middle of the range if the input is absent.
fn zero_points(call: &mut Call<'_>, sizes: Sizes) -> Result<Vec<f32>, OnnxError> {
    let blocks = sizes.rows.saturating_mul(sizes.blocks());
    let Some(zeros) = call.constant(3)? else {
        return Ok(vec![f32::from(1u8 << (sizes.bits - 1)); blocks]);
    };
    if zeros.dtype() != DType::U8 {
        check_count(call, "zero_points", zeros.attribute().elem_count(), Some(blocks))?;
        let numbers =
            zeros.f64s()?.ok_or_else(|| call.error("expected the zero points to be real numbers"))?;
        return Ok(numbers.into_iter().map(|number| number as f32).collect());
    }
    let row = sizes.bytes_of_zeros();
    check_count(call, "zero_points", zeros.attribute().elem_count(), sizes.rows.checked_mul(row))?;
    let bytes = zeros.attribute().bytes()?;
    let rows = bytes.chunks_exact(row.max(1));
    Ok(rows.flat_map(|row| (0..sizes.blocks()).map(|at| f32::from(sizes.packed(row, at)))).collect())
}

/// The weights in the type of their scales.
fn encoded(
    call: &Call<'_>,
    scales: &Constant,
    sizes: Sizes,
    weights: &[f32],
) -> Result<Attribute, OnnxError> {
    let shape = vec![sizes.rows, sizes.columns];
    let bytes: Vec<u8> = match scales.dtype() {
        DType::F32 => return Ok(Attribute::from_f32s(shape, weights)?),
        DType::F16 => weights.iter().flat_map(|weight| f16::from_f32(*weight).to_le_bytes()).collect(),
        DType::Bf16 => weights.iter().flat_map(|weight| bf16::from_f32(*weight).to_le_bytes()).collect(),
        other => return Err(call.error(format!("expected scales of f32, f16 or bf16, got {other}"))),
    };
    Ok(Attribute::new(scales.dtype(), shape, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_packed_from_the_lowest_bit() {
        let of = |bits| Sizes { rows: 1, columns: 4, bits, block: 16 };
        let all =
            |bits, bytes: &[u8], count| (0..count).map(|at| of(bits).packed(bytes, at)).collect::<Vec<_>>();
        assert_eq!(all(4, &[0x21, 0xf3], 4), [1, 2, 3, 15]);
        assert_eq!(all(8, &[7, 255], 2), [7, 255]);
        assert_eq!(all(2, &[0b1110_0100], 4), [0, 1, 2, 3]);
    }
}
