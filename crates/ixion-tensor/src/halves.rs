//! Conversion of half-precision slices, with the processor's instructions for it or at least vectorised.

use super::{Element, bf16, f16};
use half::slice::HalfFloatSliceExt;

/// A half-precision type with conversions of whole slices, up to the end of the shorter slice.
pub trait Half: Element {
    /// Converts to `f32`, without loss.
    fn load_all(from: &[Self], to: &mut [f32]);

    /// Rounds to the nearest elements, ties to even.
    fn store_all(from: &[f32], to: &mut [Self]);
}

impl Half for f16 {
    fn load_all(from: &[Self], to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx") {
            // SAFETY: the processor has the instructions.
            return unsafe { x86::load_f16(from, to) };
        }
        let len = from.len().min(to.len());
        from[..len].convert_to_f32_slice(&mut to[..len]);
    }

    fn store_all(from: &[f32], to: &mut [Self]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx") {
            // SAFETY: the processor has the instructions.
            return unsafe { x86::store_f16(from, to) };
        }
        let len = from.len().min(to.len());
        to[..len].convert_from_f32_slice(&from[..len]);
    }
}

/// A `bf16` is the upper half of an `f32`.
impl Half for bf16 {
    fn load_all(from: &[Self], to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instructions.
            return unsafe { x86::load_bf16(from, to) };
        }
        load_bf16(from, to);
    }

    fn store_all(from: &[f32], to: &mut [Self]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instructions.
            return unsafe { x86::store_bf16(from, to) };
        }
        store_bf16(from, to);
    }
}

#[inline(always)]
fn load_bf16(from: &[bf16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = bf16_value(from.to_bits());
    }
}

#[inline(always)]
fn store_bf16(from: &[f32], to: &mut [bf16]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = bf16::from_bits(bf16_bits(from));
    }
}

/// The same for wider vectors. The functions are whole loops, because one that converts a single vector would be called
/// for each.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{bf16, f16};
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_loadu_ps, _mm256_storeu_ps,
    };

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn load_f16(from: &[f16], to: &mut [f32]) {
        let len = from.len().min(to.len());
        let (vectors, rest) = from[..len].as_chunks::<8>();
        let (places, last) = to[..len].as_chunks_mut::<8>();
        for (vector, place) in vectors.iter().zip(places) {
            load_vector(vector, place);
        }
        let (mut padded, mut place) = ([f16::ZERO; 8], [0.0; 8]);
        padded[..rest.len()].copy_from_slice(rest);
        load_vector(&padded, &mut place);
        last.copy_from_slice(&place[..last.len()]);
    }

    #[inline]
    #[target_feature(enable = "avx,f16c")]
    fn load_vector(from: &[f16; 8], to: &mut [f32; 8]) {
        // SAFETY: both arrays are as long as the vectors.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()))) }
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn store_f16(from: &[f32], to: &mut [f16]) {
        let len = from.len().min(to.len());
        let (vectors, rest) = from[..len].as_chunks::<8>();
        let (places, last) = to[..len].as_chunks_mut::<8>();
        for (vector, place) in vectors.iter().zip(places) {
            store_vector(vector, place);
        }
        let (mut padded, mut place) = ([0.0; 8], [f16::ZERO; 8]);
        padded[..rest.len()].copy_from_slice(rest);
        store_vector(&padded, &mut place);
        last.copy_from_slice(&place[..last.len()]);
    }

    #[inline]
    #[target_feature(enable = "avx,f16c")]
    fn store_vector(from: &[f32; 8], to: &mut [f16; 8]) {
        // SAFETY: both arrays are as long as the vectors.
        unsafe {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
            _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn load_bf16(from: &[bf16], to: &mut [f32]) {
        super::load_bf16(from, to);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn store_bf16(from: &[f32], to: &mut [bf16]) {
        super::store_bf16(from, to);
    }
}

#[inline(always)]
// ANCHOR: bf16_bits
/// The bits of the nearest `bf16`, ties to even. A `bf16` is the upper half of an `f32`. NaN stays NaN.
pub fn bf16_bits(x: f32) -> u16 {
    // ANCHOR: bf16_bits_todo -- task 1: add half a step, and drop the lower half
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    // Rounding could carry a NaN into the exponent.
    let quiet = bits >> 16 | 0x40;
    (if x.is_nan() { quiet } else { nearest }) as u16
    // ANCHOR_END: bf16_bits_todo
}
// ANCHOR_END: bf16_bits

#[inline(always)]
// ANCHOR: bf16_value
/// The value of a `bf16` given by its bits, without loss.
pub fn bf16_value(bits: u16) -> f32 {
    // ANCHOR: bf16_value_todo -- task 1: the bits become the upper half of an `f32`'s
    f32::from_bits(u32::from(bits) << 16)
    // ANCHOR_END: bf16_value_todo
}
// ANCHOR_END: bf16_value

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_are_converted_like_single_numbers(bits: Vec<u32>, halves: Vec<u16>) {
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
            let halves: Vec<f16> = halves.iter().map(|&bits| f16::from_bits(bits)).collect();
            let mut loaded = vec![0.0; halves.len()];
            f16::load_all(&halves, &mut loaded);
            for (loaded, half) in loaded.iter().zip(&halves) {
                prop_assert!(*loaded == half.to_f32() || (loaded.is_nan() && half.is_nan()));
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
