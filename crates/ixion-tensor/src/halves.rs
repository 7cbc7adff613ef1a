//! Conversion of half-precision slices, with the processor's instructions for it or at least vectorised.

use super::{Element, bf16, f16};
use crate::widest;
#[cfg(target_arch = "aarch64")]
use arm::Instructions;
use half::slice::HalfFloatSliceExt;
#[cfg(target_arch = "x86_64")]
use x86::Instructions;

/// A half-precision type with conversions of whole slices, up to the end of the shorter slice.
pub trait Half: Element {
    /// Converts to `f32`, without loss.
    fn load_all(from: &[Self], to: &mut [f32]);

    /// Rounds to the nearest elements, ties to even.
    fn store_all(from: &[f32], to: &mut [Self]);

    /// Rounds numbers in place, as if they were stored and loaded again.
    fn round_all(numbers: &mut [f32]);
}

impl Half for f16 {
    fn load_all(from: &[Self], to: &mut [f32]) {
        let len = from.len().min(to.len());
        let (from, to) = (&from[..len], &mut to[..len]);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(instructions) = Instructions::found() {
            return instructions.load(from, to);
        }
        from.convert_to_f32_slice(to);
    }

    fn store_all(from: &[f32], to: &mut [Self]) {
        let len = from.len().min(to.len());
        let (from, to) = (&from[..len], &mut to[..len]);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(instructions) = Instructions::found() {
            return instructions.store(from, to);
        }
        to.convert_from_f32_slice(from);
    }

    fn round_all(numbers: &mut [f32]) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(instructions) = Instructions::found() {
            return instructions.round(numbers);
        }
        numbers.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
    }
}

/// A `bf16` is the upper half of an `f32`.
impl Half for bf16 {
    fn load_all(from: &[Self], to: &mut [f32]) {
        widest!(|| {
            for (to, from) in to.iter_mut().zip(from) {
                *to = bf16_value(from.to_bits());
            }
        });
    }

    fn store_all(from: &[f32], to: &mut [Self]) {
        widest!(|| {
            for (to, &from) in to.iter_mut().zip(from) {
                *to = bf16::from_bits(bf16_bits(from));
            }
        });
    }

    fn round_all(numbers: &mut [f32]) {
        widest!(|| {
            for x in numbers {
                *x = bf16_value(bf16_bits(*x));
            }
        });
    }
}

/// Loops over vectors of a number of elements. They are whole loops, because a function that converts a single vector would be
/// called for each. Slices are as long as each other; their ends are padded to a vector.
macro_rules! loops {
    ($($name:ident of $lanes:literal with $features:literal:
        $load:ident, $store:ident, $load_halves:ident, $store_halves:ident, $widen:ident, $narrow:path;
    )*) => {$(
        mod $name {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn load(from: &[f16], to: &mut [f32]) {
                let ((vectors, rest), (places, last)) = (from.as_chunks(), to.as_chunks_mut());
                for (vector, place) in vectors.iter().zip(places) {
                    load_vector(vector, place);
                }
                let (mut padded, mut place) = ([f16::ZERO; $lanes], [0.0; $lanes]);
                padded[..rest.len()].copy_from_slice(rest);
                load_vector(&padded, &mut place);
                last.copy_from_slice(&place[..last.len()]);
            }

            #[target_feature(enable = $features)]
            pub(super) fn store(from: &[f32], to: &mut [f16]) {
                let ((vectors, rest), (places, last)) = (from.as_chunks(), to.as_chunks_mut());
                for (vector, place) in vectors.iter().zip(places) {
                    store_vector(vector, place);
                }
                let (mut padded, mut place) = ([0.0; $lanes], [f16::ZERO; $lanes]);
                padded[..rest.len()].copy_from_slice(rest);
                store_vector(&padded, &mut place);
                last.copy_from_slice(&place[..last.len()]);
            }

            #[target_feature(enable = $features)]
            pub(super) fn round(numbers: &mut [f32]) {
                let (vectors, rest) = numbers.as_chunks_mut();
                for vector in vectors {
                    round_vector(vector);
                }
                let mut padded = [0.0; $lanes];
                padded[..rest.len()].copy_from_slice(rest);
                round_vector(&mut padded);
                rest.copy_from_slice(&padded[..rest.len()]);
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn load_vector(from: &[f16; $lanes], to: &mut [f32; $lanes]) {
                // SAFETY: both arrays are as long as the vectors, here and below.
                unsafe { $store(to.as_mut_ptr(), $widen($load_halves(from.as_ptr().cast()))) }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn store_vector(from: &[f32; $lanes], to: &mut [f16; $lanes]) {
                // SAFETY: as above.
                unsafe {
                    let halves = $narrow($load(from.as_ptr()));
                    $store_halves(to.as_mut_ptr().cast(), halves);
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn round_vector(numbers: &mut [f32; $lanes]) {
                // SAFETY: as above.
                unsafe {
                    let halves = $narrow($load(numbers.as_ptr()));
                    $store(numbers.as_mut_ptr(), $widen(halves));
                }
            }
        }
    )*};
}

/// The processor's instructions for `f16`.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::f16;
    use crate::isa::{Isa, isa};
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_loadu_ps, _mm256_loadu_si256, _mm256_storeu_ps, _mm256_storeu_si256, _mm512_cvtph_ps,
        _mm512_cvtps_ph, _mm512_loadu_ps, _mm512_storeu_ps,
    };

    /// Instructions that this processor has: only [`Instructions::found`] makes such values.
    #[derive(Clone, Copy)]
    pub(super) enum Instructions {
        /// F16C: 8 numbers at a time.
        F16c,
        /// AVX-512 F: 16 numbers at a time.
        Avx512,
    }

    impl Instructions {
        /// The widest instructions of the instruction set of this process; `None` if it has none.
        pub(super) fn found() -> Option<Self> {
            match isa() {
                Isa::Avx512 => Some(Self::Avx512),
                Isa::Avx2 if is_x86_feature_detected!("f16c") => Some(Self::F16c),
                _ => None,
            }
        }

        pub(super) fn load(self, from: &[f16], to: &mut [f32]) {
            // SAFETY: there is a value, so the processor has the instructions, here and below.
            unsafe {
                match self {
                    Self::F16c => eight::load(from, to),
                    Self::Avx512 => sixteen::load(from, to),
                }
            }
        }

        pub(super) fn store(self, from: &[f32], to: &mut [f16]) {
            // SAFETY: as above.
            unsafe {
                match self {
                    Self::F16c => eight::store(from, to),
                    Self::Avx512 => sixteen::store(from, to),
                }
            }
        }

        pub(super) fn round(self, numbers: &mut [f32]) {
            // SAFETY: as above.
            unsafe {
                match self {
                    Self::F16c => eight::round(numbers),
                    Self::Avx512 => sixteen::round(numbers),
                }
            }
        }
    }

    loops! {
        eight of 8 with "avx,f16c": _mm256_loadu_ps, _mm256_storeu_ps, _mm_loadu_si128, _mm_storeu_si128,
            _mm256_cvtph_ps, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>;
        sixteen of 16 with "avx512f": _mm512_loadu_ps, _mm512_storeu_ps, _mm256_loadu_si256, _mm256_storeu_si256,
            _mm512_cvtph_ps, _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>;
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::f16;
    use std::arch::{aarch64::*, asm};

    /// Neon, which every processor of the architecture has: 4 numbers at a time.
    #[derive(Clone, Copy)]
    pub(super) struct Instructions;

    impl Instructions {
        pub(super) fn found() -> Option<Self> {
            Some(Self)
        }

        pub(super) fn load(self, from: &[f16], to: &mut [f32]) {
            // SAFETY: every processor of the architecture has the instructions, here and below.
            unsafe { four::load(from, to) }
        }

        pub(super) fn store(self, from: &[f32], to: &mut [f16]) {
            // SAFETY: as above.
            unsafe { four::store(from, to) }
        }

        pub(super) fn round(self, numbers: &mut [f32]) {
            // SAFETY: as above.
            unsafe { four::round(numbers) }
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn widen(halves: uint16x4_t) -> float32x4_t {
        let singles;
        // SAFETY: the instruction reads and writes these registers, and flags for exceptions of floats.
        unsafe {
            asm!(
                "fcvtl {0:v}.4s, {1:v}.4h",
                out(vreg) singles,
                in(vreg) halves,
                options(pure, nomem, nostack),
            );
        }
        singles
    }

    /// Rounds to nearest, ties to even, as Rust's functions require of the processor.
    #[inline]
    #[target_feature(enable = "neon")]
    fn narrow(singles: float32x4_t) -> uint16x4_t {
        let halves;
        // SAFETY: as above.
        unsafe {
            asm!(
                "fcvtn {0:v}.4h, {1:v}.4s",
                out(vreg) halves,
                in(vreg) singles,
                options(pure, nomem, nostack),
            );
        }
        halves
    }

    loops! {
        four of 4 with "neon": vld1q_f32, vst1q_f32, vld1_u16, vst1_u16, widen, narrow;
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
    use proptest::test_runner::TestCaseResult;

    fn rounds_like_stored_numbers<H: Half>(singles: &[f32]) -> TestCaseResult {
        let (mut rounded, mut stored) = (singles.to_vec(), vec![H::default(); singles.len()]);
        H::round_all(&mut rounded);
        H::store_all(singles, &mut stored);
        let mut loaded = vec![0.0; singles.len()];
        H::load_all(&stored, &mut loaded);
        for (rounded, loaded) in rounded.iter().zip(&loaded) {
            prop_assert!(rounded.to_bits() == loaded.to_bits() || (rounded.is_nan() && loaded.is_nan()));
        }
        Ok(())
    }

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
            rounds_like_stored_numbers::<f16>(&singles)?;
            rounds_like_stored_numbers::<bf16>(&singles)?;
        }
    }
}
