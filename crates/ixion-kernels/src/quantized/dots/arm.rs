//! Sums of products of bytes with the instructions of 64-bit ARM.

use super::{CHUNK, Dots};
use std::arch::{aarch64::*, asm};

dots! {
    /// Products of 16-bit integers. Until it is stored, a sum consists of four: of the first factors, of the second ones, and
    /// so on. The factors are four, twice.
    Neon([int32x4_t; 4]): 4 columns, up to 3 rows, int16x8_t as factors, [int16x8_t; 2] as weights;
    copy: copy;
    zero: [vdupq_n_s32(0); 4];
    factors: |from| {
        let factors = vdup_n_u32(from.cast::<u32>().read_unaligned());
        vreinterpretq_s16_u16(vmovl_u8(vreinterpret_u8_u32(factors)))
    };
    weights: |from| widened(vld1q_s8(from));
    add_products: |sums, factors, weights| add_products(sums, [factors; 2], weights);
    store: |sums, to| vst1q_s32(to, folded(sums));

    /// Products of bytes.
    Usdot(int32x4_t): 4 columns, up to 12 rows, uint8x16_t as factors, int8x16_t as weights;
    copy: copy;
    zero: vdupq_n_s32(0);
    factors: |from| vreinterpretq_u8_u32(vdupq_n_u32(from.cast::<u32>().read_unaligned()));
    weights: |from| vld1q_s8(from);
    add_products: |sum, factors, weights| usdot(sum, factors, weights);
    store: |sum, to| vst1q_s32(to, sum);
}

/// Copies a chunk, after an exclusive or.
///
/// # Safety
/// The pointers must be valid for a chunk.
#[inline(always)]
unsafe fn copy(from: *const u8, flip: u8, to: *mut u8) {
    for at in (0..CHUNK).step_by(16) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_u8(to.add(at), veorq_u8(vld1q_u8(from.add(at)), vdupq_n_u8(flip))) }
    }
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn widened(bytes: int8x16_t) -> [int16x8_t; 2] {
    [vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)]
}

/// Adds products of four times four factors and weights to a vector of sums each.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn add_products(sums: [int32x4_t; 4], a: [int16x8_t; 2], b: [int16x8_t; 2]) -> [int32x4_t; 4] {
    [
        vmlal_s16(sums[0], vget_low_s16(a[0]), vget_low_s16(b[0])),
        vmlal_high_s16(sums[1], a[0], b[0]),
        vmlal_s16(sums[2], vget_low_s16(a[1]), vget_low_s16(b[1])),
        vmlal_high_s16(sums[3], a[1], b[1]),
    ]
}

/// The sum of each vector.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn folded(sums: [int32x4_t; 4]) -> int32x4_t {
    vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]))
}

/// Adds, in each lane, the products of four bytes.
#[inline]
#[target_feature(enable = "neon,i8mm")]
pub(crate) fn usdot(mut sum: int32x4_t, factors: uint8x16_t, weights: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction reads and writes these registers alone.
    unsafe {
        asm!(
            "usdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sum,
            in(vreg) factors,
            in(vreg) weights,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
