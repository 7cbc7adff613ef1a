//! Vectors of interleaved bytes with the instructions of x86-64.

use super::{Conversion, FactorLine, Lines, QUAD};
use std::arch::x86_64::*;

/// The functions that all vectors of a size share.
macro_rules! vectors {
    ($(
        $interleave:ident, $steps:ident, $pack:ident($vector:ty);
        $low8:ident, $high8:ident, $low16:ident, $high16:ident,
        $load:ident, $load_reals:ident, $write:ident, $add:ident, $real:ident, $plus:ident, $times:ident, $min:ident, $round:ident,
        $pack32:ident, $plus16:ident, $pack16:ident, $max8:ident, $min8:ident, $xor:ident,
        $splat_real:ident, $splat16:ident, $splat8:ident;
    )*) => {$(
        /// Interleaves four lines.
        ///
        /// # Safety
        /// As [`Lines::interleave`].
        #[inline(always)]
        unsafe fn $interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8) {
            // SAFETY: the caller's promise: all lines and four vectors at `to` are valid.
            unsafe {
                let flip = $splat8(flip.cast_signed());
                let [a, b, c, d] = lines;
                let (a, b) = ($xor($load(a.cast()), flip), $xor($load(b.cast()), flip));
                let (c, d) = ($xor($load(c.cast()), flip), $xor($load(d.cast()), flip));
                let [low, high] = [[$low8(a, b), $low8(c, d)], [$high8(a, b), $high8(c, d)]];
                let to: *mut $vector = to.cast();
                $write(to, $low16(low[0], low[1]));
                $write(to.add(1), $high16(low[0], low[1]));
                $write(to.add(2), $low16(high[0], high[1]));
                $write(to.add(3), $high16(high[0], high[1]));
            }
        }

        /// Converts sums to steps. Those that are too few for an `i32` become its smallest value, as NaN does.
        ///
        /// # Safety
        /// As [`Lines::steps`].
        #[inline(always)]
        unsafe fn $steps(sums: $vector, factors: FactorLine, how: Conversion) -> $vector {
            // SAFETY: the caller's promise. If one of two operands is NaN, the second is the smaller one.
            unsafe {
                let mut x = $real($add(sums, $load(factors.starts.cast())));
                if how.has_offsets {
                    x = $plus(x, $load_reals(factors.offsets));
                }
                let x = $times($times(x, $load_reals(factors.multipliers)), $splat_real(how.inverse));
                $round($min($splat_real(how.steps[1]), x))
            }
        }

        /// Packs steps, which undoes the interleaving. Integers that are too large or too small become the nearest ones
        /// that fit.
        ///
        /// # Safety
        /// As [`Lines::pack`].
        #[inline(always)]
        unsafe fn $pack([a, b, c, d]: [$vector; 4], how: Conversion, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe {
                let zero = $splat16(how.zero);
                let [low, high] = [$plus16($pack32(a, b), zero), $plus16($pack32(c, d), zero)];
                let bytes = $max8($pack16(low, high), $splat8(how.bounds[0].cast_signed()));
                let bytes = $min8(bytes, $splat8(how.bounds[1].cast_signed()));
                $write(to.cast(), $xor(bytes, $splat8(how.flip.cast_signed())));
            }
        }
    )*};
}

vectors! {
    interleave_32, steps_of_8, pack_32(__m256i);
    _mm256_unpacklo_epi8, _mm256_unpackhi_epi8, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16,
    _mm256_loadu_si256, _mm256_loadu_ps, _mm256_storeu_si256,
    _mm256_add_epi32, _mm256_cvtepi32_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_min_ps, _mm256_cvtps_epi32,
    _mm256_packs_epi32, _mm256_adds_epi16, _mm256_packus_epi16, _mm256_max_epu8, _mm256_min_epu8, _mm256_xor_si256,
    _mm256_set1_ps, _mm256_set1_epi16, _mm256_set1_epi8;

    interleave_64, steps_of_16, pack_64(__m512i);
    _mm512_unpacklo_epi8, _mm512_unpackhi_epi8, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16,
    _mm512_loadu_si512, _mm512_loadu_ps, _mm512_storeu_si512,
    _mm512_add_epi32, _mm512_cvtepi32_ps, _mm512_add_ps, _mm512_mul_ps, _mm512_min_ps, _mm512_cvtps_epi32,
    _mm512_packs_epi32, _mm512_adds_epi16, _mm512_packus_epi16, _mm512_max_epu8, _mm512_min_epu8, _mm512_xor_si512,
    _mm512_set1_ps, _mm512_set1_epi16, _mm512_set1_epi8;
}

/// Stores four vectors, the lower halves of all before the upper ones.
///
/// # Safety
/// The processor must have AVX2, and 32 sums can be written.
#[inline(always)]
unsafe fn store_in_order(to: *mut i32, [a, b, c, d]: [__m256i; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        _mm256_storeu_si256(to.cast(), _mm256_permute2x128_si256::<0x20>(a, b));
        _mm256_storeu_si256(to.add(8).cast(), _mm256_permute2x128_si256::<0x20>(c, d));
        _mm256_storeu_si256(to.add(16).cast(), _mm256_permute2x128_si256::<0x31>(a, b));
        _mm256_storeu_si256(to.add(24).cast(), _mm256_permute2x128_si256::<0x31>(c, d));
    }
}

lines! {
    /// Products of 16-bit integers: of even and of odd bytes.
    Avx2(__m256i): 32 bytes, 2 at a time, [__m256i; 2] as weights, __m256i as steps;
    interleave: interleave_32;
    zero: _mm256_setzero_si256();
    weights: |from| {
        let all = _mm256_loadu_si256(from.cast());
        [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(all)), _mm256_srai_epi16::<8>(all)]
    };
    add_products: |sum, quads, weights| {
        let quads = _mm256_loadu_si256(quads.cast());
        let even = _mm256_madd_epi16(_mm256_and_si256(quads, _mm256_set1_epi16(0xff)), weights[0]);
        let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(quads), weights[1]);
        _mm256_add_epi32(sum, _mm256_add_epi32(even, odd))
    };
    store: |sums, to| store_in_order(to, sums);
    steps: |sums, factors, how| steps_of_8(sums, factors, how);
    pack: pack_32;

    /// Products of bytes that are added in pairs in 16 bits.
    Avx2Pairs(__m256i): 32 bytes, 2 at a time, __m256i as weights, __m256i as steps;
    interleave: interleave_32;
    zero: _mm256_setzero_si256();
    weights: |from| _mm256_loadu_si256(from.cast());
    add_products: |sum, quads, weights| {
        let pairs = _mm256_maddubs_epi16(_mm256_loadu_si256(quads.cast()), weights);
        _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    };
    store: |sums, to| store_in_order(to, sums);
    steps: |sums, factors, how| steps_of_8(sums, factors, how);
    pack: pack_32;
    {
        const IS_IN_PAIRS: bool = true;
    }

    /// VNNI in vectors of 256 bits.
    AvxVnni(__m256i): 32 bytes, 2 at a time, __m256i as weights, __m256i as steps;
    interleave: interleave_32;
    zero: _mm256_setzero_si256();
    weights: |from| _mm256_loadu_si256(from.cast());
    add_products: |sum, quads, weights| _mm256_dpbusd_avx_epi32(sum, _mm256_loadu_si256(quads.cast()), weights);
    store: |sums, to| store_in_order(to, sums);
    steps: |sums, factors, how| steps_of_8(sums, factors, how);
    pack: pack_32;

    /// VNNI of AVX-512 in vectors of 256 bits, for few channels.
    Narrow(__m256i): 32 bytes, 4 at a time, __m256i as weights, __m256i as steps;
    interleave: interleave_32;
    zero: _mm256_setzero_si256();
    weights: |from| _mm256_loadu_si256(from.cast());
    add_products: |sum, quads, weights| _mm256_dpbusd_epi32(sum, _mm256_loadu_si256(quads.cast()), weights);
    store: |sums, to| {
        let [a, b, c, d] = sums;
        let low = [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x20>(c, d)];
        let high = [_mm256_permute2x128_si256::<0x31>(a, b), _mm256_permute2x128_si256::<0x31>(c, d)];
        _mm512_storeu_si512(to.cast(), _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low[0]), low[1]));
        _mm512_storeu_si512(to.add(16).cast(), _mm512_inserti64x4::<1>(_mm512_castsi256_si512(high[0]), high[1]));
    };
    steps: |sums, factors, how| steps_of_8(sums, factors, how);
    pack: pack_32;

    /// VNNI in vectors of 512 bits.
    Avx512Vnni(__m512i): 64 bytes, 4 at a time, __m512i as weights, __m512i as steps;
    interleave: interleave_64;
    zero: _mm512_setzero_si512();
    weights: |from| _mm512_loadu_si512(from.cast());
    add_products: |sum, quads, weights| _mm512_dpbusd_epi32(sum, _mm512_loadu_si512(quads.cast()), weights);
    store: |sums, to| {
        // Transposes the vectors in units of four sums.
        let [a, b, c, d] = sums;
        let (ab, cd) = (_mm512_shuffle_i32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_i32x4::<0b01_00_01_00>(c, d));
        _mm512_storeu_si512(to.cast(), _mm512_shuffle_i32x4::<0b10_00_10_00>(ab, cd));
        _mm512_storeu_si512(to.add(16).cast(), _mm512_shuffle_i32x4::<0b11_01_11_01>(ab, cd));
        let (ab, cd) = (_mm512_shuffle_i32x4::<0b11_10_11_10>(a, b), _mm512_shuffle_i32x4::<0b11_10_11_10>(c, d));
        _mm512_storeu_si512(to.add(32).cast(), _mm512_shuffle_i32x4::<0b10_00_10_00>(ab, cd));
        _mm512_storeu_si512(to.add(48).cast(), _mm512_shuffle_i32x4::<0b11_01_11_01>(ab, cd));
    };
    steps: |sums, factors, how| steps_of_16(sums, factors, how);
    pack: pack_64;
}
