//! Sums of products of bytes: the innermost loops of products and convolutions.
//!
//! Four consecutive factors of a row are multiplied by the same four weights of several outputs. VNNI does this in one
//! instruction per vector; without it, factors and weights are widened to 16 bits, because products of bytes in pairs would
//! saturate.

use crate::isa::{isa, multiplies_bytes};

/// Outputs per panel of weights.
pub(super) const PANEL: usize = 16;

/// Factors of an output that are multiplied at a time.
pub(super) const QUAD: usize = 4;

/// Bytes that are copied at a time.
pub(super) const CHUNK: usize = 32;

/// The largest number of rows and of columns of a tile.
pub(super) const TILE: [usize; 2] = [12, 4 * PANEL];

/// The sums of a tile, of which a kernel may use only a part.
pub(super) type Sums = [[i32; TILE[1]]; TILE[0]];

/// The ways to multiply bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Without special instructions.
    Plain,
    /// Products of 16-bit integers in vectors of 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// VNNI in vectors of 256 bits.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// VNNI in vectors of 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// Products of 16-bit integers in Neon.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// The products of bytes that Arm calls I8MM.
    #[cfg(target_arch = "aarch64")]
    Usdot,
}

impl Kind {
    /// All kinds that this processor supports.
    #[cfg(test)]
    pub(super) fn supported() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let vectors = {
            let avx2 = crate::Isa::Avx2.is_supported();
            let narrow = avx2 && is_x86_feature_detected!("avxvnni");
            let wide = crate::Isa::Avx512.is_supported() && is_x86_feature_detected!("avx512vnni");
            [(Self::Avx2, avx2), (Self::AvxVnni, narrow), (Self::Avx512Vnni, wide)]
        };
        #[cfg(target_arch = "aarch64")]
        let vectors = [(Self::Neon, true), (Self::Usdot, std::arch::is_aarch64_feature_detected!("i8mm"))];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let vectors: [(Self, bool); 0] = [];
        let vectors = vectors.into_iter().filter_map(|(kind, is_supported)| is_supported.then_some(kind));
        [Self::Plain].into_iter().chain(vectors)
    }

    /// The kind of this process.
    pub(super) fn selected() -> Self {
        match (isa(), multiplies_bytes()) {
            #[cfg(target_arch = "x86_64")]
            (crate::Isa::Avx512, true) => Self::Avx512Vnni,
            #[cfg(target_arch = "x86_64")]
            (crate::Isa::Avx2, true) => Self::AvxVnni,
            #[cfg(target_arch = "x86_64")]
            (crate::Isa::Avx512 | crate::Isa::Avx2, false) => Self::Avx2,
            #[cfg(target_arch = "aarch64")]
            (crate::Isa::Neon, true) => Self::Usdot,
            #[cfg(target_arch = "aarch64")]
            (crate::Isa::Neon, false) => Self::Neon,
            _ => Self::Plain,
        }
    }

    /// The number of bytes of a factor.
    pub(super) fn word(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 2,
            _ => 1,
        }
    }
}

/// A vector of sums.
///
/// # Safety
/// Methods may only be called on processors that have the type's instructions, in functions that are compiled for these.
/// Pointers must be valid for what is read and written.
pub(super) trait Dots: Copy {
    /// The number of sums, which divides [`PANEL`].
    const COLUMNS: usize;
    /// The largest number of rows of a tile.
    const ROWS: usize;
    /// Four factors of a row, for all columns.
    type Factors: Copy;
    /// Four weights of each column.
    type Weights: Copy;
    /// Factors in memory: integers of one byte or two.
    type Word: Copy + From<u8>;

    /// Copies [`CHUNK`] bytes as factors, after an exclusive or.
    unsafe fn copy(from: *const u8, flip: u8, to: *mut Self::Word);
    unsafe fn zero() -> Self;
    /// Reads four factors.
    unsafe fn factors(from: *const Self::Word) -> Self::Factors;
    /// Reads four weights of each column.
    unsafe fn weights(from: *const i8) -> Self::Weights;
    /// Adds the four products of each column.
    unsafe fn add_products(self, factors: Self::Factors, weights: Self::Weights) -> Self;
    /// Writes the sums of one or two vectors. They are read as vectors again, so each store must be one.
    unsafe fn store<const N: usize>(sums: [Self; N], to: *mut i32);
}

/// Rows of factors and panels of weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operands<W> {
    /// The first row.
    pub(super) rows: *const W,
    /// The distance between rows in factors.
    pub(super) stride: usize,
    /// The first panel.
    pub(super) weights: *const i8,
    /// The number of factors in fours.
    pub(super) quads: usize,
}

/// Computes the sums of some rows, at most [`Dots::ROWS`], and columns: those of one panel, or of two if a vector has the sums
/// of a panel.
///
/// # Safety
/// Operands must be as long as they say, and the function must be inlined where the instructions of `L` are enabled.
#[inline(always)]
pub(super) unsafe fn tile<L: Dots>(
    operands: Operands<L::Word>,
    [rows, columns]: [usize; 2],
    sums: &mut Sums,
) {
    macro_rules! sizes {
        ($($rows:literal)*) => {
            match rows {
                $($rows if $rows <= L::ROWS => {
                    if L::COLUMNS == PANEL && columns <= PANEL {
                        // SAFETY: the caller's promise, here and below.
                        unsafe { fixed::<L, $rows, 1>(operands, 0, sums) };
                    } else {
                        for first in (0..PANEL).step_by(2 * L::COLUMNS) {
                            // SAFETY: as above.
                            unsafe { fixed::<L, $rows, 2>(operands, first, sums) };
                        }
                    }
                })*
                _ => {}
            }
        };
    }
    sizes!(1 2 3 4 5 6 7 8 9 10 11 12);
}

/// Computes the sums of R rows with N vectors of columns. Loops run over indices, because iterators over arrays would be
/// compiled for each R and N.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
unsafe fn fixed<L: Dots, const R: usize, const N: usize>(
    operands: Operands<L::Word>,
    first: usize,
    to: &mut Sums,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[L::zero(); N]; R];
        // The next vector is of the next panel, or of the same one.
        let next = if L::COLUMNS == PANEL { operands.quads * PANEL } else { L::COLUMNS } * QUAD;
        let (mut rows, mut from) = (operands.rows, operands.weights.add(first * QUAD));
        for _ in 0..operands.quads {
            let mut weights = [L::weights(from); N];
            for n in 1..N {
                weights[n] = L::weights(from.add(n * next));
            }
            for r in 0..R {
                let factors = L::factors(rows.add(r * operands.stride));
                for n in 0..N {
                    sums[r][n] = sums[r][n].add_products(factors, weights[n]);
                }
            }
            rows = rows.add(QUAD);
            from = from.add(QUAD * PANEL);
        }
        for r in 0..R {
            L::store(sums[r], to[r].as_mut_ptr().add(first));
        }
    }
}

/// The fallback for processors without supported instructions.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Plain([i32; 8]);

impl Dots for Plain {
    const COLUMNS: usize = 8;
    const ROWS: usize = 2;
    type Factors = [u8; QUAD];
    type Weights = [[i8; QUAD]; 8];
    type Word = u8;

    #[inline(always)]
    unsafe fn copy(from: *const u8, flip: u8, to: *mut u8) {
        // SAFETY: the caller's promise, here and below.
        let bytes = unsafe { from.cast::<[u8; CHUNK]>().read() };
        // SAFETY: as above.
        unsafe { to.cast::<[u8; CHUNK]>().write(bytes.map(|byte| byte ^ flip)) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; 8])
    }

    #[inline(always)]
    unsafe fn factors(from: *const u8) -> Self::Factors {
        // SAFETY: as above.
        unsafe { from.cast::<Self::Factors>().read() }
    }

    #[inline(always)]
    unsafe fn weights(from: *const i8) -> Self::Weights {
        // SAFETY: as above.
        unsafe { from.cast::<Self::Weights>().read() }
    }

    #[inline(always)]
    unsafe fn add_products(self, factors: Self::Factors, weights: Self::Weights) -> Self {
        let mut sums = self.0;
        for (sum, weights) in sums.iter_mut().zip(weights) {
            for (factor, weight) in factors.into_iter().zip(weights) {
                *sum += i32::from(factor) * i32::from(weight);
            }
        }
        Self(sums)
    }

    #[inline(always)]
    unsafe fn store<const N: usize>(sums: [Self; N], to: *mut i32) {
        // SAFETY: as above.
        unsafe { to.cast::<[Self; N]>().write(sums) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{CHUNK, Dots};
    use std::arch::x86_64::*;

    macro_rules! dots {
        ($(
            $(#[$doc:meta])*
            $name:ident($vector:ty): $columns:literal columns, up to $rows:literal rows of $word:ty;
            copy: |$bytes:ident, $flip:ident, $words:ident| $copy:expr;
            zero: $zero:expr;
            factors: |$factors:ident| $broadcast:expr;
            weights: |$weights:ident| $read:expr;
            add: |$sum:ident, $a:ident, $b:ident| $add:expr;
            store: |$to:ident, $sums:ident| $store:expr;
        )*) => {$(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(crate) struct $name($vector);

            impl Dots for $name {
                const COLUMNS: usize = $columns;
                const ROWS: usize = $rows;
                type Factors = $vector;
                type Weights = $vector;
                type Word = $word;

                #[inline(always)]
                unsafe fn copy($bytes: *const u8, $flip: u8, $words: *mut $word) {
                    // SAFETY: callers have checked the processor's features, and promise that a chunk can be copied.
                    unsafe { $copy }
                }

                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: as above.
                    Self(unsafe { $zero })
                }

                #[inline(always)]
                unsafe fn factors($factors: *const $word) -> $vector {
                    // SAFETY: the caller's promise: four factors can be read.
                    unsafe { $broadcast }
                }

                #[inline(always)]
                unsafe fn weights($weights: *const i8) -> $vector {
                    // SAFETY: the caller's promise: four weights of each column can be read.
                    unsafe { $read }
                }

                #[inline(always)]
                unsafe fn add_products(self, $a: $vector, $b: $vector) -> Self {
                    let $sum = self.0;
                    // SAFETY: as for `zero`.
                    Self(unsafe { $add })
                }

                #[inline(always)]
                unsafe fn store<const N: usize>($sums: [Self; N], $to: *mut i32) {
                    // SAFETY: the caller's promise: one sum of each column can be written.
                    unsafe { $store }
                }
            }
        )*};
    }

    /// Copies half a chunk of bytes as integers of 16 bits.
    ///
    /// # Safety
    /// The processor must have AVX2, and the pointers must be valid.
    #[inline(always)]
    unsafe fn widen(from: *const u8, flip: u8, to: *mut i16) {
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = _mm_xor_si128(_mm_loadu_si128(from.cast()), _mm_set1_epi8(flip.cast_signed()));
            _mm256_storeu_si256(to.cast(), _mm256_cvtepu8_epi16(bytes));
        }
    }

    /// Copies a chunk of bytes, with the bits of `flip` flipped.
    ///
    /// # Safety
    /// As [`widen`].
    #[inline(always)]
    unsafe fn copy_flipped(from: *const u8, flip: u8, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = _mm256_loadu_si256(from.cast());
            _mm256_storeu_si256(to.cast(), _mm256_xor_si256(bytes, _mm256_set1_epi8(flip.cast_signed())));
        }
    }

    dots! {
        /// Products of 16-bit integers. Until it is stored, a sum consists of two: of the first and of the second pairs.
        Avx2(__m256i): 4 columns, up to 6 rows of i16;
        copy: |from, flip, to| {
            widen(from, flip, to);
            widen(from.add(CHUNK / 2), flip, to.add(CHUNK / 2));
        };
        zero: _mm256_setzero_si256();
        factors: |from| _mm256_set1_epi64x(from.cast::<i64>().read_unaligned());
        weights: |from| _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast()));
        add: |sum, a, b| _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
        store: |to, sums| if let [Self(a), Self(b)] = sums[..] {
            let sums = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(a, b));
            _mm256_storeu_si256(to.cast(), sums);
        };

        /// VNNI in vectors of 256 bits.
        AvxVnni(__m256i): 8 columns, up to 6 rows of u8;
        copy: |from, flip, to| copy_flipped(from, flip, to);
        zero: _mm256_setzero_si256();
        factors: |from| _mm256_set1_epi32(from.cast::<i32>().read_unaligned());
        weights: |from| _mm256_loadu_si256(from.cast());
        add: |sum, a, b| _mm256_dpbusd_avx_epi32(sum, a, b);
        store: |to, sums| for (n, Self(sum)) in sums.into_iter().enumerate() {
            _mm256_storeu_si256(to.cast::<__m256i>().add(n), sum);
        };

        /// VNNI in vectors of 512 bits.
        Avx512Vnni(__m512i): 16 columns, up to 12 rows of u8;
        copy: |from, flip, to| copy_flipped(from, flip, to);
        zero: _mm512_setzero_si512();
        factors: |from| _mm512_set1_epi32(from.cast::<i32>().read_unaligned());
        weights: |from| _mm512_loadu_si512(from.cast());
        add: |sum, a, b| _mm512_dpbusd_epi32(sum, a, b);
        store: |to, sums| for (n, Self(sum)) in sums.into_iter().enumerate() {
            _mm512_storeu_si512(to.cast::<__m512i>().add(n), sum);
        };
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use super::{CHUNK, Dots};
    use std::arch::{aarch64::*, asm};

    /// Products of 16-bit integers. Until it is stored, a sum consists of four: of the first factors, of the second ones, and
    /// so on.
    #[derive(Clone, Copy)]
    pub(crate) struct Neon([int32x4_t; 4]);

    /// Products of bytes.
    #[derive(Clone, Copy)]
    pub(crate) struct Usdot(int32x4_t);

    impl Dots for Neon {
        const COLUMNS: usize = 4;
        const ROWS: usize = 3;
        /// The four factors twice.
        type Factors = int16x8_t;
        type Weights = [int16x8_t; 2];
        type Word = u8;

        #[inline(always)]
        unsafe fn copy(from: *const u8, flip: u8, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { copy(from, flip, to) }
        }

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: every 64-bit ARM processor has the instructions, here and below.
            Self([unsafe { vdupq_n_s32(0) }; 4])
        }

        #[inline(always)]
        unsafe fn factors(from: *const u8) -> int16x8_t {
            // SAFETY: the caller's promise: four factors can be read.
            unsafe {
                let factors = vdup_n_u32(from.cast::<u32>().read_unaligned());
                vreinterpretq_s16_u16(vmovl_u8(vreinterpret_u8_u32(factors)))
            }
        }

        #[inline(always)]
        unsafe fn weights(from: *const i8) -> [int16x8_t; 2] {
            // SAFETY: the caller's promise: four weights of each column can be read.
            unsafe { widened(vld1q_s8(from)) }
        }

        #[inline(always)]
        unsafe fn add_products(self, factors: int16x8_t, weights: [int16x8_t; 2]) -> Self {
            // SAFETY: as for `zero`.
            Self(unsafe { add_products(self.0, [factors; 2], weights) })
        }

        #[inline(always)]
        unsafe fn store<const N: usize>(sums: [Self; N], to: *mut i32) {
            for (n, sums) in sums.into_iter().enumerate() {
                // SAFETY: the caller's promise: one sum of each column can be written.
                unsafe { vst1q_s32(to.add(n * Self::COLUMNS), folded(sums.0)) }
            }
        }
    }

    impl Dots for Usdot {
        const COLUMNS: usize = 4;
        const ROWS: usize = 12;
        type Factors = uint8x16_t;
        type Weights = int8x16_t;
        type Word = u8;

        #[inline(always)]
        unsafe fn copy(from: *const u8, flip: u8, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { copy(from, flip, to) }
        }

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: as above.
            Self(unsafe { vdupq_n_s32(0) })
        }

        #[inline(always)]
        unsafe fn factors(from: *const u8) -> uint8x16_t {
            // SAFETY: the caller's promise: four factors can be read.
            unsafe { vreinterpretq_u8_u32(vdupq_n_u32(from.cast::<u32>().read_unaligned())) }
        }

        #[inline(always)]
        unsafe fn weights(from: *const i8) -> int8x16_t {
            // SAFETY: the caller's promise: four weights of each column can be read.
            unsafe { vld1q_s8(from) }
        }

        #[inline(always)]
        unsafe fn add_products(self, factors: uint8x16_t, weights: int8x16_t) -> Self {
            // SAFETY: callers have checked the processor's features.
            Self(unsafe { usdot(self.0, factors, weights) })
        }

        #[inline(always)]
        unsafe fn store<const N: usize>(sums: [Self; N], to: *mut i32) {
            for (n, sum) in sums.into_iter().enumerate() {
                // SAFETY: the caller's promise: one sum of each column can be written.
                unsafe { vst1q_s32(to.add(n * Self::COLUMNS), sum.0) }
            }
        }
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
}
