//! Vectors of the floats that the sums of a panel are converted to.

use super::sizes::PANEL;

/// The number that is added to a float so that its lowest bits are the nearest integer, half to even.
const ROUNDING: f32 = 12_582_912.0;

/// A vector of [`PANEL`] floats. Operations are not fused, so that results have the same bits on every processor.
///
/// # Safety
/// Methods may only be called on processors that have the type's instructions, in functions that are compiled for these.
/// Pointers must be valid for [`PANEL`] elements, which need not be aligned.
pub(super) trait Reals: Copy {
    /// As many integers.
    type Starts: Copy;

    unsafe fn starts(from: *const i32) -> Self::Starts;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// The nearest floats of sums and what they start with.
    unsafe fn of_sums(sums: *const i32, starts: Self::Starts) -> Self;
    /// Bytes, after an exclusive or with `flip`, minus their zero point.
    unsafe fn of_bytes(from: *const u8, flip: u8, zero: i32) -> Self;
    unsafe fn add(self, x: Self) -> Self;
    unsafe fn times(self, x: Self) -> Self;
    /// Clamps to `low..=high`; NaN stays NaN.
    unsafe fn clamp(self, low: Self, high: Self) -> Self;
    /// As [`Reals::clamp`], but NaN becomes `low`.
    unsafe fn within(self, low: Self, high: Self) -> Self;
    /// The lowest bytes of the nearest integers plus `zero`; the floats must be small.
    unsafe fn to_bytes(self, zero: i32, to: *mut u8);
}

/// The fallback for processors without vectors that are supported here.
#[derive(Clone, Copy)]
pub(super) struct Plain([f32; PANEL]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Self, of: impl Fn(f32, f32) -> f32) -> Self {
        let mut numbers = self.0;
        for (number, other) in numbers.iter_mut().zip(other.0) {
            *number = of(*number, other);
        }
        Self(numbers)
    }
}

impl Reals for Plain {
    type Starts = [i32; PANEL];

    #[inline(always)]
    unsafe fn starts(from: *const i32) -> Self::Starts {
        // SAFETY: the caller's promise, here and below.
        unsafe { from.cast::<Self::Starts>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; PANEL])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as above.
        Self(unsafe { from.cast::<[f32; PANEL]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { to.cast::<[f32; PANEL]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn of_sums(sums: *const i32, starts: Self::Starts) -> Self {
        // SAFETY: as above.
        let sums = unsafe { sums.cast::<[i32; PANEL]>().read_unaligned() };
        let mut reals = [0.0; PANEL];
        for (real, (sum, start)) in reals.iter_mut().zip(sums.into_iter().zip(starts)) {
            *real = sum.wrapping_add(start) as f32;
        }
        Self(reals)
    }

    #[inline(always)]
    unsafe fn of_bytes(from: *const u8, flip: u8, zero: i32) -> Self {
        // SAFETY: as above.
        let bytes = unsafe { from.cast::<[u8; PANEL]>().read() };
        Self(bytes.map(|byte| i32::from(byte ^ flip).wrapping_sub(zero) as f32))
    }

    #[inline(always)]
    unsafe fn add(self, x: Self) -> Self {
        self.zip(x, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn times(self, x: Self) -> Self {
        self.zip(x, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn clamp(self, low: Self, high: Self) -> Self {
        let bounded = self.zip(low, |x, low| if x < low { low } else { x });
        bounded.zip(high, |x, high| if x > high { high } else { x })
    }

    #[inline(always)]
    unsafe fn within(self, low: Self, high: Self) -> Self {
        let bounded = self.zip(low, |x, low| if x > low { x } else { low });
        bounded.zip(high, |x, high| if x < high { x } else { high })
    }

    #[inline(always)]
    unsafe fn to_bytes(self, zero: i32, to: *mut u8) {
        let bytes = self.0.map(|x| ((x + ROUNDING).to_bits() as u8).wrapping_add(zero as u8));
        // SAFETY: as above.
        unsafe { to.cast::<[u8; PANEL]>().write(bytes) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{ROUNDING, Reals};
    use std::arch::x86_64::*;

    /// AVX2: two vectors of eight.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2([__m256; 2]);

    /// AVX-512.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(__m512);

    /// The number of floats of half a vector.
    const HALF: usize = 8;

    /// The floats of half as many sums.
    ///
    /// # Safety
    /// As [`Reals::of_sums`].
    #[inline(always)]
    unsafe fn half_of_sums(sums: *const i32, starts: __m256i) -> __m256 {
        // SAFETY: the caller's promise, here and below.
        unsafe { _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_loadu_si256(sums.cast()), starts)) }
    }

    /// The floats of half as many bytes.
    ///
    /// # Safety
    /// As [`Reals::of_bytes`].
    #[inline(always)]
    unsafe fn half_of_bytes(from: *const u8, flip: u8, zero: i32) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let bytes = _mm_xor_si128(_mm_loadl_epi64(from.cast()), _mm_set1_epi8(flip.cast_signed()));
            _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_set1_epi32(zero)))
        }
    }

    impl Reals for Avx2 {
        type Starts = [__m256i; 2];

        #[inline(always)]
        unsafe fn starts(from: *const i32) -> Self::Starts {
            // SAFETY: callers have checked the processor's features and promise that all elements can be read or written, here
            // and below.
            unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(HALF).cast())] }
        }

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: as above.
            Self(unsafe { [_mm256_set1_ps(x); 2] })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            Self(unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(HALF))] })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe {
                _mm256_storeu_ps(to, self.0[0]);
                _mm256_storeu_ps(to.add(HALF), self.0[1]);
            }
        }

        #[inline(always)]
        unsafe fn of_sums(sums: *const i32, starts: Self::Starts) -> Self {
            // SAFETY: as above.
            unsafe { Self([half_of_sums(sums, starts[0]), half_of_sums(sums.add(HALF), starts[1])]) }
        }

        #[inline(always)]
        unsafe fn of_bytes(from: *const u8, flip: u8, zero: i32) -> Self {
            // SAFETY: as above.
            unsafe { Self([half_of_bytes(from, flip, zero), half_of_bytes(from.add(HALF), flip, zero)]) }
        }

        #[inline(always)]
        unsafe fn add(self, x: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { [_mm256_add_ps(self.0[0], x.0[0]), _mm256_add_ps(self.0[1], x.0[1])] })
        }

        #[inline(always)]
        unsafe fn times(self, x: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { [_mm256_mul_ps(self.0[0], x.0[0]), _mm256_mul_ps(self.0[1], x.0[1])] })
        }

        #[inline(always)]
        unsafe fn clamp(self, low: Self, high: Self) -> Self {
            let (Self([low, _]), Self([high, _]), Self([a, b])) = (low, high, self);
            // SAFETY: as above. If one of two operands is NaN, the second is returned.
            unsafe {
                let [a, b] = [_mm256_max_ps(low, a), _mm256_max_ps(low, b)];
                Self([_mm256_min_ps(high, a), _mm256_min_ps(high, b)])
            }
        }

        #[inline(always)]
        unsafe fn within(self, low: Self, high: Self) -> Self {
            let (Self([low, _]), Self([high, _]), Self([a, b])) = (low, high, self);
            // SAFETY: as above.
            unsafe {
                let [a, b] = [_mm256_max_ps(a, low), _mm256_max_ps(b, low)];
                Self([_mm256_min_ps(a, high), _mm256_min_ps(b, high)])
            }
        }

        #[inline(always)]
        unsafe fn to_bytes(self, zero: i32, to: *mut u8) {
            // SAFETY: as above.
            unsafe {
                // Small integers fit 16 bits.
                let words = _mm256_packs_epi32(_mm256_cvtps_epi32(self.0[0]), _mm256_cvtps_epi32(self.0[1]));
                let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
                let words = _mm256_add_epi16(words, _mm256_set1_epi16(zero as i16));
                let bytes = _mm256_and_si256(words, _mm256_set1_epi16(0xff));
                let [a, b] = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
                _mm_storeu_si128(to.cast(), _mm_packus_epi16(a, b));
            }
        }
    }

    impl Reals for Avx512 {
        type Starts = __m512i;

        #[inline(always)]
        unsafe fn starts(from: *const i32) -> Self::Starts {
            // SAFETY: callers have checked the processor's features and promise that all elements can be read or written, here
            // and below.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_set1_ps(x) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn of_sums(sums: *const i32, starts: Self::Starts) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_loadu_si512(sums.cast()), starts)) })
        }

        #[inline(always)]
        unsafe fn of_bytes(from: *const u8, flip: u8, zero: i32) -> Self {
            // SAFETY: as above.
            Self(unsafe {
                let bytes = _mm_xor_si128(_mm_loadu_si128(from.cast()), _mm_set1_epi8(flip.cast_signed()));
                _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(zero)))
            })
        }

        #[inline(always)]
        unsafe fn add(self, x: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_add_ps(self.0, x.0) })
        }

        #[inline(always)]
        unsafe fn times(self, x: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_mul_ps(self.0, x.0) })
        }

        #[inline(always)]
        unsafe fn clamp(self, low: Self, high: Self) -> Self {
            // SAFETY: as above. If one of two operands is NaN, the second is returned.
            Self(unsafe { _mm512_min_ps(high.0, _mm512_max_ps(low.0, self.0)) })
        }

        #[inline(always)]
        unsafe fn within(self, low: Self, high: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_min_ps(_mm512_max_ps(self.0, low.0), high.0) })
        }

        #[inline(always)]
        unsafe fn to_bytes(self, zero: i32, to: *mut u8) {
            // SAFETY: as above.
            unsafe {
                let bits = _mm512_castps_si512(_mm512_add_ps(self.0, _mm512_set1_ps(ROUNDING)));
                let bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(bits, _mm512_set1_epi32(zero)));
                _mm_storeu_si128(to.cast(), bytes);
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use super::{ROUNDING, Reals};
    use std::arch::aarch64::*;
    use std::array::from_fn;

    /// Neon: four vectors of four.
    #[derive(Clone, Copy)]
    pub(crate) struct Neon([float32x4_t; 4]);

    impl Neon {
        #[inline(always)]
        fn zip(self, x: Self, of: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
            Self(from_fn(|part| of(self.0[part], x.0[part])))
        }
    }

    impl Reals for Neon {
        type Starts = [int32x4_t; 4];

        #[inline(always)]
        unsafe fn starts(from: *const i32) -> [int32x4_t; 4] {
            // SAFETY: the caller's promise: all integers can be read.
            from_fn(|part| unsafe { vld1q_s32(from.add(4 * part)) })
        }

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: every 64-bit ARM processor has the instructions, here and below.
            Self([unsafe { vdupq_n_f32(x) }; 4])
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the caller's promise: all floats can be read.
            Self(from_fn(|part| unsafe { vld1q_f32(from.add(4 * part)) }))
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            for (part, x) in self.0.into_iter().enumerate() {
                // SAFETY: the caller's promise: all floats can be written.
                unsafe { vst1q_f32(to.add(4 * part), x) }
            }
        }

        #[inline(always)]
        unsafe fn of_sums(sums: *const i32, starts: [int32x4_t; 4]) -> Self {
            // SAFETY: the caller's promise: all sums can be read.
            Self(from_fn(|part| unsafe {
                vcvtq_f32_s32(vaddq_s32(vld1q_s32(sums.add(4 * part)), starts[part]))
            }))
        }

        #[inline(always)]
        unsafe fn of_bytes(from: *const u8, flip: u8, zero: i32) -> Self {
            // SAFETY: the caller's promise: all bytes can be read.
            unsafe {
                let (bytes, zero) = (veorq_u8(vld1q_u8(from), vdupq_n_u8(flip)), vdupq_n_s32(zero));
                let [low, high] = [vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes)];
                let words = [
                    vmovl_u16(vget_low_u16(low)),
                    vmovl_high_u16(low),
                    vmovl_u16(vget_low_u16(high)),
                    vmovl_high_u16(high),
                ];
                Self(words.map(|words| vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(words), zero))))
            }
        }

        #[inline(always)]
        unsafe fn add(self, x: Self) -> Self {
            // SAFETY: as for `splat`.
            self.zip(x, |a, b| unsafe { vaddq_f32(a, b) })
        }

        #[inline(always)]
        unsafe fn times(self, x: Self) -> Self {
            // SAFETY: as for `splat`.
            self.zip(x, |a, b| unsafe { vmulq_f32(a, b) })
        }

        #[inline(always)]
        unsafe fn clamp(self, low: Self, high: Self) -> Self {
            // SAFETY: as for `splat`. Instructions for the maximum and the minimum would not keep the sign of zero.
            let bounded = self.zip(low, |x, low| unsafe { vbslq_f32(vcltq_f32(x, low), low, x) });
            // SAFETY: as for `splat`.
            bounded.zip(high, |x, high| unsafe { vbslq_f32(vcgtq_f32(x, high), high, x) })
        }

        #[inline(always)]
        unsafe fn within(self, low: Self, high: Self) -> Self {
            // SAFETY: as for `splat`.
            let bounded = self.zip(low, |x, low| unsafe { vbslq_f32(vcgtq_f32(x, low), x, low) });
            // SAFETY: as for `splat`.
            bounded.zip(high, |x, high| unsafe { vbslq_f32(vcltq_f32(x, high), x, high) })
        }

        #[inline(always)]
        unsafe fn to_bytes(self, zero: i32, to: *mut u8) {
            // SAFETY: the caller's promise: all bytes can be written.
            unsafe {
                let rounding = vdupq_n_f32(ROUNDING);
                let [a, b, c, d] = self.0.map(|x| vmovn_u32(vreinterpretq_u32_f32(vaddq_f32(x, rounding))));
                let bytes = vcombine_u8(vmovn_u16(vcombine_u16(a, b)), vmovn_u16(vcombine_u16(c, d)));
                vst1q_u8(to, vaddq_u8(bytes, vdupq_n_u8(zero as u8)));
            }
        }
    }
}
