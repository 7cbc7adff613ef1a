//! Vectors of interleaved bytes with the instructions of 64-bit ARM.

use super::super::dots::arm::{add_products, folded, usdot, widened};
use super::{Conversion, FactorLine, Lines, QUAD};
use std::arch::aarch64::*;

lines! {
    /// Products of 16-bit integers. Until it is stored, a sum consists of four.
    Neon([int32x4_t; 4]): 16 bytes, 1 at a time, [int16x8_t; 2] as weights, int32x4_t as steps;
    interleave: interleave;
    zero: [vdupq_n_s32(0); 4];
    weights: |from| widened(vld1q_s8(from));
    add_products: |sum, quads, weights| {
        let quads = vld1q_u8(quads);
        let factors = [vmovl_u8(vget_low_u8(quads)), vmovl_high_u8(quads)];
        add_products(sum, factors.map(|factors| vreinterpretq_s16_u16(factors)), weights)
    };
    store: |sums, to| for (vector, sums) in sums.into_iter().enumerate() {
        vst1q_s32(to.add(vector * 4), folded(sums));
    };
    steps: |sum, factors, how| steps(folded(sum), factors, how);
    pack: pack;

    /// Products of bytes.
    Usdot(int32x4_t): 16 bytes, 4 at a time, int8x16_t as weights, int32x4_t as steps;
    interleave: interleave;
    zero: vdupq_n_s32(0);
    weights: |from| vld1q_s8(from);
    add_products: |sum, quads, weights| usdot(sum, vld1q_u8(quads), weights);
    store: |sums, to| for (vector, sum) in sums.into_iter().enumerate() {
        vst1q_s32(to.add(vector * 4), sum);
    };
    steps: |sum, factors, how| steps(sum, factors, how);
    pack: pack;
}

/// Converts sums to steps. Conversions to integers saturate, so that the largest number of steps need not be considered here.
///
/// # Safety
/// As [`Lines::steps`].
#[inline(always)]
unsafe fn steps(sums: int32x4_t, factors: FactorLine, how: Conversion) -> int32x4_t {
    // SAFETY: the caller's promise. The larger one of NaN and a number is the number.
    unsafe {
        let mut x = vcvtq_f32_s32(vaddq_s32(sums, vld1q_s32(factors.starts)));
        if how.has_offsets {
            x = vaddq_f32(x, vld1q_f32(factors.offsets));
        }
        let x = vmulq_f32(vmulq_f32(x, vld1q_f32(factors.multipliers)), vdupq_n_f32(how.inverse));
        vcvtnq_s32_f32(vmaxnmq_f32(x, vdupq_n_f32(how.steps[0])))
    }
}

/// Packs steps. Integers that are too large or too small become the nearest ones that fit.
///
/// # Safety
/// As [`Lines::pack`].
#[inline(always)]
unsafe fn pack([a, b, c, d]: [int32x4_t; 4], how: Conversion, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = vdupq_n_s16(how.zero);
        let low = vqaddq_s16(vcombine_s16(vqmovn_s32(a), vqmovn_s32(b)), zero);
        let high = vqaddq_s16(vcombine_s16(vqmovn_s32(c), vqmovn_s32(d)), zero);
        let bytes = vcombine_u8(vqmovun_s16(low), vqmovun_s16(high));
        let [least, most] = how.bounds.map(|bound| vdupq_n_u8(bound));
        vst1q_u8(to, veorq_u8(vminq_u8(vmaxq_u8(bytes, least), most), vdupq_n_u8(how.flip)));
    }
}

/// Interleaves four lines of a byte for each channel, after an exclusive or.
///
/// # Safety
/// All lines and four vectors at `to` must be valid.
#[inline(always)]
unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let flip = vdupq_n_u8(flip);
        let [a, b, c, d] = lines.map(|line| veorq_u8(vld1q_u8(line), flip));
        let pairs = [[vzip1q_u8(a, b), vzip1q_u8(c, d)], [vzip2q_u8(a, b), vzip2q_u8(c, d)]];
        for (half, pairs) in pairs.into_iter().enumerate() {
            let [first, second] = pairs.map(|pairs| vreinterpretq_u16_u8(pairs));
            let to = to.add(2 * half * Usdot::BYTES);
            vst1q_u8(to, vreinterpretq_u8_u16(vzip1q_u16(first, second)));
            vst1q_u8(to.add(Usdot::BYTES), vreinterpretq_u8_u16(vzip2q_u16(first, second)));
        }
    }
}
