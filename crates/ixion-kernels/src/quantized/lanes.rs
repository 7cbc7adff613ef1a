//! Sums of products of 16-bit integers, by the instructions that multiply two pairs and accumulate in 32 bits.
//!
//! They have ways of their own instead of [those of bytes](super::arms), which are not compiled for AVX-512 without VNNI: here,
//! its vectors are nearly twice as fast as those of AVX2.

use crate::isa::{Isa, isa, multiplies_bytes};

/// Rows that are multiplied at a time.
pub(super) const ROWS: usize = 8;

/// Columns per strip. A strip consists of pairs of consecutive values of a column: first the first pairs of all columns,
/// then the next ones.
pub(super) const COLUMNS: usize = 32;

/// The sums of R rows with the columns of a strip, of `depth` products each, an even number. Rows are `stride` apart.
///
/// # Panics
/// Panics if a slice is too short; callers check this beforehand.
#[inline]
pub(super) fn sums<const R: usize>(
    rows: &[i16],
    stride: usize,
    strip: &[i16],
    depth: usize,
) -> [[i32; COLUMNS]; R] {
    assert!(depth.is_multiple_of(2) && depth <= stride && strip.len() >= depth * COLUMNS);
    assert!(rows.len() >= stride * (R - 1) + depth);
    let mut sums = [[0; COLUMNS]; R];
    let work = Work { rows: rows.as_ptr(), stride, strip: strip.as_ptr(), pairs: depth / 2 };
    let run: unsafe fn(Work, &mut [[i32; COLUMNS]; R]) = match (isa(), multiplies_bytes()) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, true) => x86::with_vnni,
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, false) => x86::with_avx512,
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, true) => x86::with_avx_vnni,
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, false) => x86::with_avx2,
        #[cfg(target_arch = "aarch64")]
        (Isa::Neon, _) => arm::with_neon,
        _ => Work::run::<Plain, R, 1>,
    };
    // SAFETY: the slices were checked above, and the processor has the features.
    unsafe { run(work, &mut sums) };
    sums
}

/// A vector of 32-bit integers, or of twice as many 16-bit integers.
///
/// # Safety
/// Methods may only be called on processors that have the type's instructions. Pointers must be valid for a whole vector.
trait Lanes: Copy {
    /// The number of 32-bit lanes.
    const COUNT: usize;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const i16) -> Self;
    /// Sets all lanes to the same pair.
    unsafe fn pairs(pair: i32) -> Self;
    /// Adds, in each lane, both products of two pairs.
    unsafe fn add_products(self, a: Self, b: Self) -> Self;
    unsafe fn store(self, to: *mut i32);
}

/// Rows and a strip, which must be long enough.
#[derive(Clone, Copy)]
struct Work {
    rows: *const i16,
    stride: usize,
    strip: *const i16,
    pairs: usize,
}

impl Work {
    /// # Safety
    /// The processor must have the instructions of `L`, and the rows and the strip must have the given lengths.
    #[inline(always)]
    unsafe fn run<L: Lanes, const R: usize, const N: usize>(self, to: &mut [[i32; COLUMNS]; R]) {
        for first in (0..COLUMNS).step_by(N * L::COUNT) {
            // SAFETY: N vectors from `first` on are in the strip, and in each row of sums.
            unsafe {
                let mut sums = [[L::zero(); N]; R];
                for pair in 0..self.pairs {
                    let mut columns = [L::zero(); N];
                    for (n, column) in columns.iter_mut().enumerate() {
                        *column = L::load(self.strip.add(2 * (pair * COLUMNS + first + n * L::COUNT)));
                    }
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let number = self.rows.add(r * self.stride + 2 * pair);
                        let number = L::pairs(number.cast::<i32>().read_unaligned());
                        for (sum, column) in sums.iter_mut().zip(columns) {
                            *sum = sum.add_products(number, column);
                        }
                    }
                }
                for (to, sums) in to.iter_mut().zip(sums) {
                    for (n, sum) in sums.into_iter().enumerate() {
                        sum.store(to.as_mut_ptr().add(first + n * L::COUNT));
                    }
                }
            }
        }
    }
}

/// The fallback for processors without supported instructions.
#[derive(Clone, Copy)]
struct Plain([i32; 4]);

impl Lanes for Plain {
    const COUNT: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const i16) -> Self {
        // SAFETY: the caller's promise: eight values can be read.
        Self(unsafe { from.cast::<[i32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn pairs(pair: i32) -> Self {
        Self([pair; 4])
    }

    #[inline(always)]
    unsafe fn add_products(self, a: Self, b: Self) -> Self {
        let halves = |pair: i32| [i32::from(pair as i16), pair >> 16];
        let mut sums = self.0;
        for (sum, (a, b)) in sums.iter_mut().zip(a.0.into_iter().zip(b.0)) {
            let (a, b) = (halves(a), halves(b));
            *sum = sum.wrapping_add(a[0].wrapping_mul(b[0])).wrapping_add(a[1].wrapping_mul(b[1]));
        }
        Self(sums)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: the caller's promise: four values can be written.
        unsafe { to.cast::<[i32; 4]>().write_unaligned(self.0) }
    }
}

/// Vectors, and the loops that are compiled for them.
macro_rules! lanes {
    ($(
        $name:ident($vector:ty): $count:literal numbers, $vectors:literal at a time, for $features:literal in $run:ident:
        $zero:ident, $load:ident, $pairs:ident, $store:ident, |$sum:ident, $a:ident, $b:ident| $add:expr;
    )*) => {$(
        #[derive(Clone, Copy)]
        struct $name($vector);

        impl Lanes for $name {
            const COUNT: usize = $count;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: callers have checked the processor's features, here and below.
                Self(unsafe { $zero() })
            }

            #[inline(always)]
            unsafe fn load(from: *const i16) -> Self {
                // SAFETY: the caller's promise: a whole vector can be read.
                Self(unsafe { $load(from.cast()) })
            }

            #[inline(always)]
            unsafe fn pairs(pair: i32) -> Self {
                // SAFETY: as for `zero`.
                Self(unsafe { $pairs(pair) })
            }

            #[inline(always)]
            unsafe fn add_products(self, a: Self, b: Self) -> Self {
                let ($sum, $a, $b) = (self.0, a.0, b.0);
                // SAFETY: as for `zero`.
                Self(unsafe { $add })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut i32) {
                // SAFETY: the caller's promise: a whole vector can be written.
                unsafe { $store(to.cast(), self.0) }
            }
        }

        #[target_feature(enable = $features)]
        pub(super) unsafe fn $run<const R: usize>(work: Work, to: &mut [[i32; COLUMNS]; R]) {
            // SAFETY: the features are there, and the rest is the caller's promise.
            unsafe { work.run::<$name, R, $vectors>(to) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{COLUMNS, Lanes, Work};
    use std::arch::x86_64::*;

    lanes! {
        Vnni(__m512i): 16 numbers, 2 at a time, for "avx512f,avx512bw,avx512vnni" in with_vnni:
            _mm512_setzero_si512, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_storeu_si512,
            |sum, a, b| _mm512_dpwssd_epi32(sum, a, b);
        Avx512(__m512i): 16 numbers, 2 at a time, for "avx512f,avx512bw" in with_avx512:
            _mm512_setzero_si512, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_storeu_si512,
            |sum, a, b| _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
        AvxVnni(__m256i): 8 numbers, 1 at a time, for "avx2,avxvnni" in with_avx_vnni:
            _mm256_setzero_si256, _mm256_loadu_si256, _mm256_set1_epi32, _mm256_storeu_si256,
            |sum, a, b| _mm256_dpwssd_avx_epi32(sum, a, b);
        Avx2(__m256i): 8 numbers, 1 at a time, for "avx2" in with_avx2:
            _mm256_setzero_si256, _mm256_loadu_si256, _mm256_set1_epi32, _mm256_storeu_si256,
            |sum, a, b| _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{COLUMNS, Lanes, Work};
    use std::arch::aarch64::*;

    lanes! {
        Neon(int32x4_t): 4 numbers, 2 at a time, for "neon" in with_neon:
            zero, vld1q_s32, vdupq_n_s32, vst1q_s32,
            |sum, a, b| add_pairs(sum, vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn zero() -> int32x4_t {
        vdupq_n_s32(0)
    }

    /// Adds, in each lane, both products of two pairs.
    #[inline]
    #[target_feature(enable = "neon")]
    fn add_pairs(sum: int32x4_t, a: int16x8_t, b: int16x8_t) -> int32x4_t {
        let [first, second] = [vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)];
        vaddq_s32(sum, vpaddq_s32(first, second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole and partial rows of values up to 255, with every kind of vector that this processor supports.
    #[test]
    fn every_kind_of_vector_gives_the_same_sums() {
        let number = |at: usize| (at * 7919 % 511) as i16 - 255;
        let (depth, stride) = (34, 40);
        let rows: Vec<i16> = (0..stride * ROWS).map(number).collect();
        let strip: Vec<i16> = (0..depth * COLUMNS).map(|at| number(at + 5)).collect();
        let mut want = [[0; COLUMNS]; ROWS];
        for (r, want) in want.iter_mut().enumerate() {
            for (c, want) in want.iter_mut().enumerate() {
                let product = |k: usize| {
                    let column = strip[k / 2 * 2 * COLUMNS + 2 * c + k % 2];
                    i32::from(rows[r * stride + k]) * i32::from(column)
                };
                *want = (0..depth).map(product).sum();
            }
        }
        assert_eq!(sums::<ROWS>(&rows, stride, &strip, depth), want);
        assert_eq!(sums::<1>(&rows[..depth], stride, &strip, depth)[0], want[0]);
        let work = Work { rows: rows.as_ptr(), stride, strip: strip.as_ptr(), pairs: depth / 2 };
        let mut runs: Vec<unsafe fn(Work, &mut [[i32; COLUMNS]; ROWS])> = vec![Work::run::<Plain, ROWS, 1>];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                runs.push(x86::with_avx2);
            }
            if is_x86_feature_detected!("avxvnni") {
                runs.push(x86::with_avx_vnni);
            }
            if is_x86_feature_detected!("avx512bw") {
                runs.push(x86::with_avx512);
            }
            if is_x86_feature_detected!("avx512vnni") {
                runs.push(x86::with_vnni);
            }
        }
        #[cfg(target_arch = "aarch64")]
        runs.push(arm::with_neon);
        for (index, run) in runs.into_iter().enumerate() {
            let mut found = [[0; COLUMNS]; ROWS];
            // SAFETY: rows and strip are as long as `work` says, and the processor has the instructions.
            unsafe { run(work, &mut found) };
            assert_eq!(found, want, "{index}");
        }
    }
}
