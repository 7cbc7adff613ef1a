//! Numbers of half precision by the slice: processors have instructions for that, or at least vectors.

use super::{Element, bf16, f16};
use half::slice::HalfFloatSliceExt;

/// A type of half precision, converted many at a time: as far as both slices go.
pub trait Half: Element {
    /// The elements as `f32`, without loss.
    fn load_all(from: &[Self], to: &mut [f32]);

    /// The nearest elements, ties to even.
    fn store_all(from: &[f32], to: &mut [Self]);
}

impl Half for f16 {
    fn load_all(from: &[Self], to: &mut [f32]) {
        let len = from.len().min(to.len());
        from[..len].convert_to_f32_slice(&mut to[..len]);
    }

    fn store_all(from: &[f32], to: &mut [Self]) {
        let len = from.len().min(to.len());
        to[..len].convert_from_f32_slice(&from[..len]);
    }
}

/// The upper half of an `f32`.
impl Half for bf16 {
    fn load_all(from: &[Self], to: &mut [f32]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = f32::from_bits(u32::from(from.to_bits()) << 16));
    }

    fn store_all(from: &[f32], to: &mut [Self]) {
        for (to, from) in to.iter_mut().zip(from) {
            let bits = from.to_bits();
            let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
            // Rounding could carry a NaN into the exponent.
            let quiet = bits >> 16 | 0x40;
            *to = Self::from_bits(if from.is_nan() { quiet } else { nearest } as u16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_are_converted_as_single_numbers_are(bits: Vec<u32>, halves: Vec<u16>) {
            let singles: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            let mut stored = vec![bf16::ZERO; singles.len()];
            bf16::store_all(&singles, &mut stored);
            let want: Vec<u16> = singles.iter().map(|&x| bf16::from_f32(x).to_bits()).collect();
            prop_assert_eq!(stored.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), want);
            let brains: Vec<bf16> = halves.iter().map(|&bits| bf16::from_bits(bits)).collect();
            let mut loaded = vec![0.0; brains.len()];
            bf16::load_all(&brains, &mut loaded);
            for (loaded, brain) in loaded.iter().zip(&brains) {
                prop_assert!(*loaded == brain.to_f32() || (loaded.is_nan() && brain.is_nan()));
            }
            let mut short = vec![f16::ZERO; singles.len()];
            f16::store_all(&singles, &mut short);
            for (short, single) in short.iter().zip(&singles) {
                let want = f16::from_f32(*single);
                prop_assert!(*short == want || (short.is_nan() && want.is_nan()));
            }
        }
    }
}
