//! The innermost loops of blocked products: some rows times some columns, whose sums stay in registers, and the packing of
//! rows in squares of vectors.

#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "there are vectors for two architectures")
)]

use crate::Float;

/// The operands of a tile, which must be large enough for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile<T> {
    /// The number of products of each sum.
    pub(super) depth: usize,
    /// The number of rows in the last vector, at least 1. Others are neither read nor written.
    pub(super) last: usize,
    /// The first element of A, whose columns are contiguous, and the distance between columns.
    pub(super) a: *const T,
    pub(super) a_column: isize,
    /// The first element of B, and the distances between its rows and its columns.
    pub(super) b: *const T,
    pub(super) b_strides: [isize; 2],
    /// The first element of the output, whose columns are contiguous, and the distance between columns.
    pub(super) c: *mut T,
    pub(super) c_column: isize,
    /// Whether sums are added to the output instead of overwriting it.
    pub(super) adds: bool,
}

/// A kernel for a number of vectors of rows, and of columns.
///
/// # Safety
/// The processor must have the instructions that the kernel is compiled for, and the operands must be valid for this
/// number of rows and columns.
pub(super) type Kernel<T> = unsafe fn(&Tile<T>);

/// A vector of numbers.
///
/// # Safety
/// Methods may only be called on processors that have the type's instructions, in functions that are compiled for these.
/// Pointers must be valid for all lanes, or for those of the mask.
trait Vector: Copy {
    /// The type of a lane.
    type Number: Float;
    /// A choice of lanes.
    type Mask: Copy;
    /// The number of lanes.
    const LANES: usize;

    /// The first `count` lanes.
    unsafe fn first(count: usize) -> Self::Mask;
    unsafe fn splat(x: Self::Number) -> Self;
    unsafe fn load(from: *const Self::Number) -> Self;
    /// Loads some lanes; others are 0.
    unsafe fn load_some(from: *const Self::Number, mask: Self::Mask) -> Self;
    unsafe fn store(self, to: *mut Self::Number);
    unsafe fn store_some(self, to: *mut Self::Number, mask: Self::Mask);
    unsafe fn add(self, x: Self) -> Self;
    /// Adds the product of `a` and `b`, fused with the sum.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// The lanes of both vectors in turn: the first half of these pairs, and the second.
    unsafe fn interleave(self, with: Self) -> [Self; 2];
}

/// Computes a tile of R vectors of rows and C columns. Loops run over indices, because iterators over arrays would be
/// compiled for each R and C.
///
/// # Safety
/// As [`Kernel`], and it must be inlined where the instructions of `V` are enabled.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
unsafe fn tile<V: Vector, const R: usize, const C: usize>(operands: &Tile<V::Number>) {
    let Tile { depth, last, a_column, b_strides, c_column, .. } = *operands;
    // SAFETY: the caller's promise: everything that is read and written is within the operands.
    unsafe {
        let mask = V::first(last);
        let mut sums = [[V::splat(V::Number::of(0.0)); R]; C];
        let (mut a, mut b) = (operands.a, operands.b);
        for _ in 0..depth {
            let mut rows = [V::load_some(a.wrapping_add((R - 1) * V::LANES), mask); R];
            for r in 0..R - 1 {
                rows[r] = V::load(a.wrapping_add(r * V::LANES));
            }
            for c in 0..C {
                let factor = V::splat(*b.wrapping_offset(c as isize * b_strides[1]));
                for r in 0..R {
                    sums[c][r] = sums[c][r].add_product(rows[r], factor);
                }
            }
            a = a.wrapping_offset(a_column);
            b = b.wrapping_offset(b_strides[0]);
        }
        for c in 0..C {
            let column = operands.c.wrapping_offset(c as isize * c_column);
            for r in 0..R {
                let to = column.wrapping_add(r * V::LANES);
                let (sum, is_last) = (sums[c][r], r + 1 == R);
                match (operands.adds, is_last) {
                    (false, false) => sum.store(to),
                    (false, true) => sum.store_some(to, mask),
                    (true, false) => V::load(to).add(sum).store(to),
                    (true, true) => V::load_some(to, mask).add(sum).store_some(to, mask),
                }
            }
        }
    }
}

/// Rows that are packed column by column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<T> {
    /// The first element. Those of a row are contiguous.
    pub(super) from: *const T,
    /// The distance between rows.
    pub(super) distance: isize,
    /// The number and the length of the rows.
    pub(super) dims: [usize; 2],
    /// The first packed element, and the distance between packed columns, at least the number of rows.
    pub(super) to: *mut T,
    pub(super) column: usize,
}

/// A function that packs rows.
///
/// # Safety
/// The processor must have the instructions that the function is compiled for, the rows must be readable, and there must
/// be room for the columns.
pub(super) type Pack<T> = unsafe fn(&Rows<T>);

/// Packs rows in squares of N vectors of N lanes.
///
/// # Safety
/// As [`Pack`], and it must be inlined where the instructions of `V` are enabled.
#[inline(always)]
unsafe fn pack<V: Vector, const N: usize>(rows: &Rows<V::Number>) {
    const { assert!(N == V::LANES, "as many rows as a vector has lanes") };
    let Rows { from, distance, dims: [height, depth], to, column } = *rows;
    for first_row in (0..height).step_by(N) {
        let count = N.min(height - first_row);
        for first in (0..depth).step_by(N) {
            let len = N.min(depth - first);
            let from =
                |row: usize| from.wrapping_offset((first_row + row) as isize * distance).wrapping_add(first);
            let to = |index: usize| to.wrapping_add((first + index) * column + first_row);
            // SAFETY: the caller's promise: these are elements of the rows, and places of the packed columns.
            unsafe {
                let mut square = [V::splat(V::Number::of(0.0)); N];
                // A constant number of vectors keeps them in registers.
                if (count, len) == (N, N) {
                    for (row, vector) in square.iter_mut().enumerate() {
                        *vector = V::load(from(row));
                    }
                    transpose(&mut square);
                    for (index, vector) in square.into_iter().enumerate() {
                        vector.store(to(index));
                    }
                    continue;
                }
                let (lanes, places) = (V::first(len), V::first(count));
                for (row, vector) in square.iter_mut().enumerate().take(count) {
                    *vector = V::load_some(from(row), lanes);
                }
                transpose(&mut square);
                for (index, vector) in square.into_iter().enumerate().take(len) {
                    vector.store_some(to(index), places);
                }
            }
        }
    }
}

/// Transposes a square of N vectors of N lanes, a power of two: each round interleaves the first half of the vectors with
/// the second.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn transpose<V: Vector, const N: usize>(square: &mut [V; N]) {
    for _ in 0..N.ilog2() {
        let mut next = *square;
        for index in 0..N / 2 {
            // SAFETY: the caller's promise.
            let [first, second] = unsafe { square[index].interleave(square[index + N / 2]) };
            (next[2 * index], next[2 * index + 1]) = (first, second);
        }
        *square = next;
    }
}

macro_rules! vectors {
    ($(
        $(#[$doc:meta])*
        $name:ident($vector:ty, $mask:ty) of $count:literal $number:ty:
        $splat:ident, $load:ident, $store:ident, $add:ident, $fma:ident,
        |$first:ident| $first_of:expr,
        |$from:ident, $of:ident| $load_some:expr,
        |$to:ident, $on:ident, $sum:ident| $store_some:expr,
        |$a:ident, $b:ident| $interleave:expr;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name($vector);

        impl Vector for $name {
            type Number = $number;
            type Mask = $mask;
            const LANES: usize = $count;

            #[inline(always)]
            #[allow(unused_unsafe, reason = "some masks are numbers")]
            unsafe fn first($first: usize) -> $mask {
                // SAFETY: callers have checked the processor's features, here and below.
                unsafe { $first_of }
            }

            #[inline(always)]
            unsafe fn splat(x: $number) -> Self {
                // SAFETY: as for `first`.
                Self(unsafe { $splat(x) })
            }

            #[inline(always)]
            unsafe fn load(from: *const $number) -> Self {
                // SAFETY: the caller's promise: all lanes can be read.
                Self(unsafe { $load(from) })
            }

            #[inline(always)]
            unsafe fn load_some($from: *const $number, $of: $mask) -> Self {
                // SAFETY: the caller's promise: these lanes can be read.
                Self(unsafe { $load_some })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $number) {
                // SAFETY: the caller's promise: all lanes can be written.
                unsafe { $store(to, self.0) }
            }

            #[inline(always)]
            unsafe fn store_some(self, $to: *mut $number, $on: $mask) {
                let $sum = self.0;
                // SAFETY: the caller's promise: these lanes can be written.
                unsafe { $store_some }
            }

            #[inline(always)]
            unsafe fn add(self, x: Self) -> Self {
                // SAFETY: as for `first`.
                Self(unsafe { $add(self.0, x.0) })
            }

            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                // SAFETY: as for `first`.
                Self(unsafe { $fma(a.0, b.0, self.0) })
            }

            #[inline(always)]
            unsafe fn interleave(self, with: Self) -> [Self; 2] {
                let ($a, $b) = (self.0, with.0);
                // SAFETY: as for `first`.
                let [first, second] = unsafe { $interleave };
                [Self(first), Self(second)]
            }
        }
    )*};
}

/// Modules with a function that returns the kernel for a number of vectors of rows and a number of columns, if there is
/// one, and a function that packs rows.
macro_rules! kernels {
    ($(
        $name:ident: [$vector:ty; $lanes:literal] as $number:ty, $feature:literal,
        [$($rows:literal)+] x $columns:tt;
    )+) => {$(
        pub(crate) mod $name {
            use super::*;

            pub(crate) fn select(rows: usize, columns: usize) -> Option<Kernel<$number>> {
                match rows {
                    $($rows => kernels!(columns, $rows x $columns),)+
                    _ => None,
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn kernel<const R: usize, const C: usize>(operands: &Tile<$number>) {
                // SAFETY: the caller's promise.
                unsafe { tile::<$vector, R, C>(operands) }
            }

            #[target_feature(enable = $feature)]
            pub(crate) unsafe fn pack_rows(rows: &Rows<$number>) {
                // SAFETY: the caller's promise.
                unsafe { pack::<$vector, $lanes>(rows) }
            }
        }
    )+};
    ($found:ident, $rows:literal x [$($columns:literal)+]) => {
        match $found {
            $($columns => Some(kernel::<$rows, $columns> as Kernel<_>),)+
            _ => None,
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{Kernel, Rows, Tile, Vector, pack, tile};
    use std::arch::x86_64::*;

    vectors! {
        /// AVX2 with FMA, for f32.
        Single8(__m256, __m256i) of 8 f32: _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_fmadd_ps,
            |count| _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            |from, mask| _mm256_maskload_ps(from, mask),
            |to, mask, sum| _mm256_maskstore_ps(to, mask, sum),
            |a, b| {
                let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
            };
        /// AVX2 with FMA, for f64.
        Double4(__m256d, __m256i) of 4 f64: _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_fmadd_pd,
            |count| _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), _mm256_setr_epi64x(0, 1, 2, 3)),
            |from, mask| _mm256_maskload_pd(from, mask),
            |to, mask, sum| _mm256_maskstore_pd(to, mask, sum),
            |a, b| {
                let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
                [_mm256_permute2f128_pd::<0x20>(low, high), _mm256_permute2f128_pd::<0x31>(low, high)]
            };
        /// AVX-512, for f32.
        Single16(__m512, __mmask16) of 16 f32: _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps,
            |count| ((1u32 << count) - 1) as __mmask16,
            |from, mask| _mm512_maskz_loadu_ps(mask, from),
            |to, mask, sum| _mm512_mask_storeu_ps(to, mask, sum),
            |a, b| {
                let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
                [_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b)]
            };
        /// AVX-512, for f64.
        Double8(__m512d, __mmask8) of 8 f64: _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_fmadd_pd,
            |count| ((1u32 << count) - 1) as __mmask8,
            |from, mask| _mm512_maskz_loadu_pd(mask, from),
            |to, mask, sum| _mm512_mask_storeu_pd(to, mask, sum),
            |a, b| {
                let first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
                let second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
                [_mm512_permutex2var_pd(a, first, b), _mm512_permutex2var_pd(a, second, b)]
            };
    }

    kernels! {
        single8: [Single8; 8] as f32, "avx2,fma", [1 2] x [1 2 3 4 5 6];
        double4: [Double4; 4] as f64, "avx2,fma", [1 2] x [1 2 3 4 5 6];
        single16: [Single16; 16] as f32, "avx512f", [1 2 3 4] x [1 2 3 4 5 6];
        double8: [Double8; 8] as f64, "avx512f", [1 2 3 4] x [1 2 3 4 5 6];
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use super::{Float, Kernel, Rows, Tile, Vector, pack, tile};
    use std::arch::aarch64::*;

    vectors! {
        /// Neon, for f32. There are no masks: some lanes are loaded and stored one by one.
        Single4(float32x4_t, usize) of 4 f32: vdupq_n_f32, vld1q_f32, vst1q_f32, vaddq_f32, fused_f32,
            |count| count,
            |from, count| if count == 4 { vld1q_f32(from) } else { vld1q_f32(some::<_, 4>(from, count).as_ptr()) },
            |to, count, sum| {
                let mut lanes = [0.0; 4];
                vst1q_f32(lanes.as_mut_ptr(), sum);
                store_some(&lanes, to, count);
            },
            |a, b| [vzip1q_f32(a, b), vzip2q_f32(a, b)];
        /// Neon, for f64.
        Double2(float64x2_t, usize) of 2 f64: vdupq_n_f64, vld1q_f64, vst1q_f64, vaddq_f64, fused_f64,
            |count| count,
            |from, count| if count == 2 { vld1q_f64(from) } else { vld1q_f64(some::<_, 2>(from, count).as_ptr()) },
            |to, count, sum| {
                let mut lanes = [0.0; 2];
                vst1q_f64(lanes.as_mut_ptr(), sum);
                store_some(&lanes, to, count);
            },
            |a, b| [vzip1q_f64(a, b), vzip2q_f64(a, b)];
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn fused_f32(a: float32x4_t, b: float32x4_t, sum: float32x4_t) -> float32x4_t {
        vfmaq_f32(sum, a, b)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn fused_f64(a: float64x2_t, b: float64x2_t, sum: float64x2_t) -> float64x2_t {
        vfmaq_f64(sum, a, b)
    }

    /// The first `count` numbers, followed by zeros. Loops of constant length keep them in registers.
    ///
    /// # Safety
    /// `count` numbers can be read.
    #[inline(always)]
    unsafe fn some<T: Float, const N: usize>(from: *const T, count: usize) -> [T; N] {
        let mut lanes = [T::zero(); N];
        for (index, lane) in lanes.iter_mut().enumerate() {
            if index < count {
                // SAFETY: the caller's promise.
                *lane = unsafe { *from.add(index) };
            }
        }
        lanes
    }

    /// Stores the first `count` numbers.
    ///
    /// # Safety
    /// They can be written.
    #[inline(always)]
    unsafe fn store_some<T: Float, const N: usize>(lanes: &[T; N], to: *mut T, count: usize) {
        for (index, lane) in lanes.iter().enumerate() {
            if index < count {
                // SAFETY: the caller's promise.
                unsafe { *to.add(index) = *lane };
            }
        }
    }

    kernels! {
        single4: [Single4; 4] as f32, "neon", [1 2 3 4] x [1 2 3 4 5 6];
        double2: [Double2; 2] as f64, "neon", [1 2 3 4] x [1 2 3 4 5 6];
    }
}
