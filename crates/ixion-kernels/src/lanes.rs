//! Vectors of `f32`, with the same interface for every instruction set.

/// A vector of `f32` lanes.
///
/// # Safety
/// Methods may only be called on processors that have the type's instructions, in functions that are compiled for these.
/// Pointers must be valid for [`Lanes::COUNT`] elements, which need not be aligned.
pub(super) trait Lanes: Copy {
    /// The number of lanes.
    const COUNT: usize;

    /// Sets all lanes to `x`.
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn add(self, x: Self) -> Self;
    /// Adds the product of `a` and `b`, fused with the sum if there is an instruction for it.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// Clamps all lanes to `low..=high`; NaN stays NaN.
    unsafe fn clamp(self, low: Self, high: Self) -> Self;
    /// Hints that a cache line should be prefetched into the second-level cache. Any address is allowed.
    #[inline(always)]
    fn fetch(_: *const f32) {}
}

/// The fallback for processors without vectors that are supported here. The compiler uses what the target has.
#[derive(Clone, Copy)]
pub(super) struct Plain([f32; 8]);

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

impl Lanes for Plain {
    const COUNT: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, x: Self) -> Self {
        self.zip(x, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        self.zip(a.zip(b, |a, b| a * b), |sum, product| sum + product)
    }

    #[inline(always)]
    unsafe fn clamp(self, low: Self, high: Self) -> Self {
        let bounded = self.zip(low, |x, low| if x < low { low } else { x });
        bounded.zip(high, |x, high| if x > high { high } else { x })
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    macro_rules! lanes {
        ($(
            $(#[$doc:meta])*
            $name:ident($vector:ty) of $count:literal:
            $splat:ident, $load:ident, $store:ident, $add:ident, $fma:ident, $max:ident, $min:ident;
        )*) => {$(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(crate) struct $name(pub(crate) $vector);

            impl Lanes for $name {
                const COUNT: usize = $count;

                #[inline(always)]
                unsafe fn splat(x: f32) -> Self {
                    // SAFETY: callers have checked the processor's features, here and below.
                    Self(unsafe { $splat(x) })
                }

                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    // SAFETY: the caller's promise: `COUNT` elements can be read.
                    Self(unsafe { $load(from) })
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut f32) {
                    // SAFETY: the caller's promise: `COUNT` elements can be written.
                    unsafe { $store(to, self.0) }
                }

                #[inline(always)]
                unsafe fn add(self, x: Self) -> Self {
                    // SAFETY: as for `splat`.
                    Self(unsafe { $add(self.0, x.0) })
                }

                #[inline(always)]
                unsafe fn add_product(self, a: Self, b: Self) -> Self {
                    // SAFETY: as for `splat`.
                    Self(unsafe { $fma(a.0, b.0, self.0) })
                }

                #[inline(always)]
                fn fetch(from: *const f32) {
                    // SAFETY: every x86-64 processor has the instruction, which never faults.
                    unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
                }

                #[inline(always)]
                unsafe fn clamp(self, low: Self, high: Self) -> Self {
                    // SAFETY: as for `splat`. If one of two operands is NaN, the second is returned.
                    Self(unsafe { $min(high.0, $max(low.0, self.0)) })
                }
            }
        )*};
    }

    lanes! {
        /// AVX2 with FMA.
        Avx2(__m256) of 8: _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_fmadd_ps, _mm256_max_ps, _mm256_min_ps;
        /// AVX-512.
        Avx512(__m512) of 16: _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_max_ps, _mm512_min_ps;
        /// AVX-512 BF16: sums of `f32`, to which products of pairs of `bf16` are added. A pair occupies the lane of one
        /// `f32`.
        Bf16Pairs(__m512) of 16: _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, add_pairs, _mm512_max_ps, _mm512_min_ps;
    }

    /// Adds both products of each pair. They are not rounded before they are added; subnormal numbers count as zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn add_pairs(a: __m512, b: __m512, sum: __m512) -> __m512 {
        // SAFETY: both types are 64 bytes, and any bit pattern is valid.
        let [a, b] = unsafe { [a, b].map(|pairs| std::mem::transmute::<__m512, __m512bh>(pairs)) };
        _mm512_dpbf16_ps(sum, a, b)
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use super::Lanes;
    use std::arch::{aarch64::*, asm};

    /// Neon: two vectors of 4 lanes, so that there are as many as a block of channels has. The 32 registers hold as many lanes
    /// as AVX2's 16.
    #[derive(Clone, Copy)]
    pub(crate) struct Neon(pub(crate) float32x4_t, pub(crate) float32x4_t);

    impl Lanes for Neon {
        const COUNT: usize = 8;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: every 64-bit ARM processor has the instructions, here and below.
            let half = unsafe { vdupq_n_f32(x) };
            Self(half, half)
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the caller's promise: `COUNT` elements can be read.
            unsafe { Self(vld1q_f32(from), vld1q_f32(from.add(4))) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the caller's promise: `COUNT` elements can be written.
            unsafe {
                vst1q_f32(to, self.0);
                vst1q_f32(to.add(4), self.1);
            }
        }

        #[inline(always)]
        unsafe fn add(self, x: Self) -> Self {
            // SAFETY: as for `splat`.
            unsafe { Self(vaddq_f32(self.0, x.0), vaddq_f32(self.1, x.1)) }
        }

        #[inline(always)]
        unsafe fn add_product(self, a: Self, b: Self) -> Self {
            // SAFETY: as for `splat`.
            unsafe { Self(vfmaq_f32(self.0, a.0, b.0), vfmaq_f32(self.1, a.1, b.1)) }
        }

        #[inline(always)]
        unsafe fn clamp(self, low: Self, high: Self) -> Self {
            // SAFETY: as for `splat`. Instructions for the maximum and the minimum would not keep the sign of zero.
            let clamp = |x, low, high| unsafe {
                let bounded = vbslq_f32(vcltq_f32(x, low), low, x);
                vbslq_f32(vcgtq_f32(bounded, high), high, bounded)
            };
            Self(clamp(self.0, low.0, high.0), clamp(self.1, low.1, high.1))
        }

        #[inline(always)]
        fn fetch(from: *const f32) {
            // SAFETY: as for `splat`; the instruction is a hint, which never faults.
            unsafe {
                asm!("prfm pldl2keep, [{}]", in(reg) from, options(nomem, nostack, preserves_flags));
            }
        }
    }
}
