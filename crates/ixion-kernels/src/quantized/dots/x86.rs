//! Sums of products of bytes with the instructions of x86-64.

use super::{CHUNK, Dots, Operands, PANEL, QUAD, add_quad, read};
use std::arch::x86_64::*;

/// Adds products of 16-bit integers. Each pair of weights is shifted to the left first, so that the one that is multiplied is the
/// upper byte.
///
/// # Safety
/// As [`Dots::add_all`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as for `fixed`")]
unsafe fn add_words<const R: usize, const N: usize, const SHIFT: i32>(
    sums: &mut [[Avx2; N]; R],
    rows: *const u8,
    operands: Operands<'_>,
) {
    let (Operands { stride, weights, steps, .. }, next) = (operands, operands.next::<Avx2>());
    for &quad in steps.wide {
        let at = usize::from(quad) * QUAD;
        // SAFETY: the caller's promise. Words are where factors are, and are as long as two of them.
        unsafe {
            let mut weights = read::<Avx2, N>(weights.add(at * PANEL), next);
            for n in 0..N {
                weights[n] = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<SHIFT>(weights[n]));
            }
            for r in 0..R {
                let factors = Avx2::factors(rows.add(r * stride + at));
                for n in 0..N {
                    sums[r][n].0 = _mm256_add_epi32(sums[r][n].0, _mm256_madd_epi16(factors, weights[n]));
                }
            }
        }
    }
}

/// Copies a chunk.
///
/// # Safety
/// The processor must have AVX2. As [`Dots::copy`].
#[inline(always)]
unsafe fn copy(from: *const u8, flip: u8, to: *mut u8) {
    const { assert!(CHUNK == size_of::<__m256i>()) };
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = _mm256_loadu_si256(from.cast());
        _mm256_storeu_si256(to.cast(), _mm256_xor_si256(bytes, _mm256_set1_epi8(flip.cast_signed())));
    }
}

dots! {
    /// Products that are added in pairs in 16 bits.
    Avx2(__m256i): 8 columns, up to 6 rows, __m256i as factors, __m256i as weights;
    copy: copy;
    zero: _mm256_setzero_si256();
    factors: |from| _mm256_set1_epi32(from.cast::<i32>().read_unaligned());
    weights: |from| _mm256_loadu_si256(from.cast());
    add_products: |sum, a, b| {
        _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)))
    };
    store: |sum, to| _mm256_storeu_si256(to.cast(), sum);
    {
        const IS_IN_PAIRS: bool = true;

        #[inline(always)]
        #[allow(clippy::needless_range_loop, reason = "as for `fixed`")]
        unsafe fn add_all<const R: usize, const N: usize>(sums: &mut [[Self; N]; R], operands: Operands<'_>) {
            let (Operands { rows, words, stride, weights, steps, .. }, next) = (operands, operands.next::<Self>());
            // SAFETY: the caller's promise. Steps are of fours that the rows and the panel have, and a panel has two vectors of
            // sums.
            unsafe {
                for r in 0..R {
                    for n in 0..N {
                        sums[r][n] = Self(_mm256_loadu_si256(steps.starts.as_ptr().add(n * Self::COLUMNS).cast()));
                    }
                }
                for &quad in steps.whole {
                    let at = usize::from(quad) * QUAD;
                    add_quad(sums, rows.add(at), stride, read::<Self, N>(weights.add(at * PANEL), next));
                }
                add_words::<R, N, 8>(sums, words[0], operands);
                add_words::<R, N, 0>(sums, words[1], operands);
            }
        }
    }

    /// VNNI in vectors of 256 bits.
    AvxVnni(__m256i): 8 columns, up to 6 rows, __m256i as factors, __m256i as weights;
    copy: copy;
    zero: _mm256_setzero_si256();
    factors: |from| _mm256_set1_epi32(from.cast::<i32>().read_unaligned());
    weights: |from| _mm256_loadu_si256(from.cast());
    add_products: |sum, a, b| _mm256_dpbusd_avx_epi32(sum, a, b);
    store: |sum, to| _mm256_storeu_si256(to.cast(), sum);

    /// VNNI in vectors of 512 bits.
    Avx512Vnni(__m512i): 16 columns, up to 12 rows, __m512i as factors, __m512i as weights;
    copy: copy;
    zero: _mm512_setzero_si512();
    factors: |from| _mm512_set1_epi32(from.cast::<i32>().read_unaligned());
    weights: |from| _mm512_loadu_si512(from.cast());
    add_products: |sum, a, b| _mm512_dpbusd_epi32(sum, a, b);
    store: |sum, to| _mm512_storeu_si512(to.cast(), sum);
}
