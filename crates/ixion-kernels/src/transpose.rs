//! Transposes rows of words to columns and back, in square blocks of vectors.
//!
//! A word is any element of four bytes; its bits are not interpreted.

use super::isa::isa_for;
use super::lanes::Lanes;

/// Vectors that can be transposed.
///
/// # Safety
/// As for [`Lanes`].
pub(super) trait Transpose: Lanes {
    /// Transposes a square of vectors: `N` is [`Lanes::COUNT`].
    unsafe fn transpose<const N: usize>(rows: &mut [Self; N]);
}

/// Rows of words that are `distance` apart, and contiguous columns with a word for each lane of a vector. One of the two
/// pointers is written to.
#[derive(Debug, Clone, Copy)]
struct Plane<R, C> {
    rows: R,
    distance: usize,
    /// The number of rows, at most the number of lanes of a vector.
    count: usize,
    columns: C,
    /// The number of columns, a multiple of the number of lanes of a vector.
    len: usize,
}

type ToColumns = Plane<*const f32, *mut f32>;
type ToRows = Plane<*mut f32, *const f32>;

/// Loops of one instruction set: to columns, and back to rows.
///
/// # Safety
/// The processor must have the instructions that the loops are compiled for, and the pointers must be valid for all words
/// of the plane; nothing else may use the words that are written.
#[derive(Debug, Clone, Copy)]
struct Loops {
    to_columns: unsafe fn(&ToColumns),
    to_rows: unsafe fn(&ToRows),
}

/// The number of rows of `len` words; columns of `width` words must have room for them.
fn count(rows: usize, len: usize, columns: usize, width: usize) -> usize {
    let count = rows / len.max(1);
    assert!(
        count <= width && rows == count * len && len.checked_mul(width) == Some(columns),
        "rows and columns must have matching sizes"
    );
    count
}

/// Transposes `rows` of `len` words to columns of `width` words: the first word of all rows, then the second, and so on.
/// Columns that are wider than the number of rows are padded with zeros.
///
/// # Panics
/// Panics if there are more rows than `width`, or the lengths do not match.
pub(super) fn to_columns(rows: &[u32], len: usize, columns: &mut [u32], width: usize) {
    let count = count(rows.len(), len, columns.len(), width);
    let mut done = 0;
    if let Some(loops) = loops(width) {
        done = len / width * width;
        let (rows, columns) = (rows.as_ptr().cast::<f32>(), columns.as_mut_ptr().cast::<f32>());
        // SAFETY: the processor has the instructions, and all rows and columns are as long as asserted.
        unsafe { (loops.to_columns)(&Plane { rows, distance: len, count, columns, len: done }) };
    }
    for (at, column) in columns.chunks_exact_mut(width.max(1)).enumerate().skip(done) {
        let words = rows.iter().skip(at).step_by(len.max(1)).copied().chain(std::iter::repeat(0));
        column.iter_mut().zip(words).for_each(|(to, from)| *to = from);
    }
}

/// Transposes columns of `width` words to rows of `len` words, as many as `rows` has room for.
///
/// # Panics
/// Panics if there are more rows than `width`, or the lengths do not match.
pub(super) fn to_rows(columns: &[u32], width: usize, rows: &mut [u32], len: usize) {
    let count = count(rows.len(), len, columns.len(), width);
    let mut done = 0;
    if let Some(loops) = loops(width) {
        done = len / width * width;
        let (rows, columns) = (rows.as_mut_ptr().cast::<f32>(), columns.as_ptr().cast::<f32>());
        // SAFETY: as above.
        unsafe { (loops.to_rows)(&Plane { rows, distance: len, count, columns, len: done }) };
    }
    for (row, words) in rows.chunks_exact_mut(len.max(1)).enumerate() {
        let column = columns.chunks_exact(width.max(1)).skip(done);
        words[done..].iter_mut().zip(column).for_each(|(to, column)| *to = column[row]);
    }
}

/// # Safety
/// As [`Loops`], and it must be inlined where the instructions of `L` are enabled.
#[inline(always)]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "there are vectors for two architectures")
)]
unsafe fn columns_of<L: Transpose, const N: usize>(plane: &ToColumns) {
    const { assert!(N == L::COUNT, "as many rows as a vector has lanes") };
    let Plane { rows, distance, count, columns, len } = *plane;
    // SAFETY: the caller's promise.
    unsafe {
        for at in (0..len).step_by(N) {
            let mut vectors = [L::splat(0.0); N];
            // A constant number of rows keeps vectors in registers.
            if count == N {
                for (row, vector) in vectors.iter_mut().enumerate() {
                    *vector = L::load(rows.add(row * distance + at));
                }
            } else {
                for (row, vector) in vectors.iter_mut().enumerate().take(count) {
                    *vector = L::load(rows.add(row * distance + at));
                }
            }
            L::transpose(&mut vectors);
            for (column, vector) in vectors.into_iter().enumerate() {
                vector.store(columns.add((at + column) * N));
            }
        }
    }
}

/// # Safety
/// As [`columns_of`]; rows are written.
#[inline(always)]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "there are vectors for two architectures")
)]
unsafe fn rows_of<L: Transpose, const N: usize>(plane: &ToRows) {
    const { assert!(N == L::COUNT, "as many rows as a vector has lanes") };
    let Plane { rows, distance, count, columns, len } = *plane;
    // SAFETY: the caller's promise.
    unsafe {
        for at in (0..len).step_by(N) {
            let mut vectors = [L::splat(0.0); N];
            for (column, vector) in vectors.iter_mut().enumerate() {
                *vector = L::load(columns.add((at + column) * N));
            }
            L::transpose(&mut vectors);
            if count == N {
                for (row, vector) in vectors.into_iter().enumerate() {
                    vector.store(rows.add(row * distance + at));
                }
            } else {
                for (row, vector) in vectors.into_iter().enumerate().take(count) {
                    vector.store(rows.add(row * distance + at));
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::lanes::x86::{Avx2, Avx512};
    use super::Transpose;
    use std::arch::x86_64::*;

    impl Transpose for Avx512 {
        #[inline(always)]
        unsafe fn transpose<const N: usize>(rows: &mut [Self; N]) {
            // SAFETY: the caller's promise.
            unsafe {
                exchange::<8, N>(rows);
                exchange::<4, N>(rows);
                exchange::<2, N>(rows);
                exchange::<1, N>(rows);
            }
        }
    }

    /// The source lanes for two rows that are `S` apart: in the first row, or in the second, every other run of `S` lanes
    /// comes from the other row.
    const fn exchanged<const S: usize>(is_second: bool) -> [i32; 16] {
        let mut from = [0; 16];
        let mut at = 0;
        while at < 16 {
            let is_own = (at & S == 0) != is_second;
            let place = if is_own { at } else { at ^ S };
            from[at] = if is_own == is_second { 16 + place } else { place } as i32;
            at += 1;
        }
        from
    }

    /// Exchanges the two squares of `S`×`S` off the diagonal of each square of twice that size.
    #[inline(always)]
    unsafe fn exchange<const S: usize, const N: usize>(rows: &mut [Avx512; N]) {
        // SAFETY: the caller's promise; indices are as long as a vector.
        unsafe {
            let first = _mm512_loadu_si512(const { &exchanged::<S>(false) }.as_ptr().cast());
            let second = _mm512_loadu_si512(const { &exchanged::<S>(true) }.as_ptr().cast());
            for row in (0..N).filter(|row| row & S == 0) {
                let (a, b) = (rows[row].0, rows[row + S].0);
                rows[row].0 = _mm512_permutex2var_ps(a, first, b);
                rows[row + S].0 = _mm512_permutex2var_ps(a, second, b);
            }
        }
    }

    impl Transpose for Avx2 {
        #[inline(always)]
        unsafe fn transpose<const N: usize>(rows: &mut [Self; N]) {
            // SAFETY: the caller's promise.
            unsafe {
                // Lanes, pairs of lanes, and halves of vectors are moved to where they belong.
                for row in (0..N).step_by(2) {
                    let (a, b) = (rows[row].0, rows[row + 1].0);
                    rows[row].0 = _mm256_unpacklo_ps(a, b);
                    rows[row + 1].0 = _mm256_unpackhi_ps(a, b);
                }
                for row in (0..N).filter(|row| row & 2 == 0) {
                    let (a, b) = (_mm256_castps_pd(rows[row].0), _mm256_castps_pd(rows[row + 2].0));
                    rows[row].0 = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
                    rows[row + 2].0 = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
                }
                for row in (0..N).step_by(4) {
                    // Unpacking leaves columns 0, 2, 1 and 3.
                    rows.swap(row + 1, row + 2);
                }
                for row in 0..N / 2 {
                    let (a, b) = (rows[row].0, rows[row + N / 2].0);
                    rows[row].0 = _mm256_permute2f128_ps::<0x20>(a, b);
                    rows[row + N / 2].0 = _mm256_permute2f128_ps::<0x31>(a, b);
                }
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::super::lanes::arm::Neon;
    use super::Transpose;
    use std::arch::aarch64::*;

    impl Transpose for Neon {
        #[inline(always)]
        unsafe fn transpose<const N: usize>(rows: &mut [Self; N]) {
            // SAFETY: the caller's promise.
            unsafe {
                // Halves of rows, pairs of lanes, and lanes are moved to where they belong.
                for row in 0..N / 2 {
                    (rows[row].1, rows[row + N / 2].0) = (rows[row + N / 2].0, rows[row].1);
                }
                for row in (0..N).filter(|row| row & 2 == 0) {
                    let ([a, b], [c, d]) = (pairs(rows[row]), pairs(rows[row + 2]));
                    rows[row] = of_pairs([vtrn1q_f64(a, c), vtrn1q_f64(b, d)]);
                    rows[row + 2] = of_pairs([vtrn2q_f64(a, c), vtrn2q_f64(b, d)]);
                }
                for row in (0..N).step_by(2) {
                    let (Neon(a, b), Neon(c, d)) = (rows[row], rows[row + 1]);
                    rows[row] = Neon(vtrn1q_f32(a, c), vtrn1q_f32(b, d));
                    rows[row + 1] = Neon(vtrn2q_f32(a, c), vtrn2q_f32(b, d));
                }
            }
        }
    }

    /// The lanes in pairs.
    #[inline(always)]
    unsafe fn pairs(lanes: Neon) -> [float64x2_t; 2] {
        // SAFETY: every 64-bit ARM processor has the instructions, here and below.
        unsafe { [vreinterpretq_f64_f32(lanes.0), vreinterpretq_f64_f32(lanes.1)] }
    }

    #[inline(always)]
    unsafe fn of_pairs([first, second]: [float64x2_t; 2]) -> Neon {
        // SAFETY: as above.
        unsafe { Neon(vreinterpretq_f32_f64(first), vreinterpretq_f32_f64(second)) }
    }
}

macro_rules! loops {
    ($name:ident, $lanes:ty, $count:literal, $feature:literal) => {
        const $name: Loops = {
            #[target_feature(enable = $feature)]
            unsafe fn to_columns(plane: &ToColumns) {
                // SAFETY: the caller's promise.
                unsafe { columns_of::<$lanes, $count>(plane) }
            }
            #[target_feature(enable = $feature)]
            unsafe fn to_rows(plane: &ToRows) {
                // SAFETY: the caller's promise.
                unsafe { rows_of::<$lanes, $count>(plane) }
            }
            Loops { to_columns, to_rows }
        };
    };
}

#[cfg(target_arch = "x86_64")]
loops! { AVX512, super::lanes::x86::Avx512, 16, "avx512f" }
#[cfg(target_arch = "x86_64")]
loops! { AVX2, super::lanes::x86::Avx2, 8, "avx2,fma" }
#[cfg(target_arch = "aarch64")]
loops! { NEON, super::lanes::arm::Neon, 8, "neon" }

/// The loops for columns of `width` words, if there are any.
fn loops(width: usize) -> Option<Loops> {
    match isa_for(width)? {
        #[cfg(target_arch = "x86_64")]
        super::isa::Isa::Avx512 => Some(AVX512),
        #[cfg(target_arch = "x86_64")]
        super::isa::Isa::Avx2 => Some(AVX2),
        #[cfg(target_arch = "aarch64")]
        super::isa::Isa::Neon => Some(NEON),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_are_those_of_rows(
            (width, count) in prop::sample::select(vec![1usize, 3, 8, 16]).prop_flat_map(|width| (Just(width), 0..=width)),
            len in 0usize..70,
        ) {
            let rows: Vec<u32> = (0..count * len).map(|at| f32::NAN.to_bits() ^ at as u32).collect();
            let mut columns = vec![7; width * len];
            to_columns(&rows, len, &mut columns, width);
            for (at, &word) in columns.iter().enumerate() {
                let row = at % width;
                prop_assert_eq!(word, if row < count { rows[row * len + at / width] } else { 0 });
            }
            let mut back = vec![7; rows.len()];
            to_rows(&columns, width, &mut back, len);
            prop_assert_eq!(back, rows);
        }
    }
}
