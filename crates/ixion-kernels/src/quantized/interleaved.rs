//! Vectors of interleaved bytes, and their products with weights.

use super::dots::QUAD;
use super::weights::FactorLine;

/// How sums are converted to bytes. The numbers that they represent are multiplied by `inverse`, clamped and rounded half to
/// even; these are steps. After the zero point was added, they are clamped to what an unsigned byte can be, and differ from
/// outputs by an exclusive or.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversion {
    /// The number of steps that 1 is.
    pub(super) inverse: f32,
    /// The smallest and the largest number of steps.
    pub(super) steps: [f32; 2],
    /// Whether offsets are added.
    pub(super) has_offsets: bool,
    /// The unsigned byte of 0 steps.
    pub(super) zero: i16,
    /// The smallest and the largest unsigned byte.
    pub(super) bounds: [u8; 2],
    /// What makes an unsigned byte an output by an exclusive or.
    pub(super) flip: u8,
}

/// A vector of the sums of some channels, of which four vectors are computed at a time.
///
/// # Safety
/// Methods may only be called on processors that have the type's instructions, in functions that are compiled for these.
/// Pointers must be valid for what is read and written.
pub(super) trait Lines: Copy {
    /// The bytes of a vector.
    const BYTES: usize;
    /// The channels of four vectors, as many as a vector has bytes.
    const CHANNELS: usize = Self::BYTES;
    /// The number of positions that are computed at a time: 1, 2 or 4.
    const POSITIONS: usize;
    /// Four weights of each sum.
    type Weights: Copy;
    /// The steps of as many outputs as a vector has sums.
    type Steps: Copy;

    /// Interleaves four lines of a byte for each channel, after an exclusive or, to four vectors.
    unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8);
    unsafe fn zero() -> Self;
    unsafe fn weights(from: *const i8) -> Self::Weights;
    /// Adds the four products of each sum.
    unsafe fn add_products(self, quads: *const u8, weights: Self::Weights) -> Self;
    /// Writes the sums of four vectors in the order of the channels. They are read in vectors of the widest type, so each
    /// store must be one.
    unsafe fn store(sums: [Self; 4], to: *mut i32);
    /// Converts sums to steps, which may be more than allowed if they are too many for a byte anyway.
    unsafe fn steps(self, factors: FactorLine, how: Conversion) -> Self::Steps;
    /// Writes the bytes of four vectors of steps in the order of the channels.
    unsafe fn pack(steps: [Self::Steps; 4], how: Conversion, to: *mut u8);
}

/// The fallback for processors without supported instructions.
#[derive(Clone, Copy)]
pub(super) struct Plain([i32; 4]);

impl Lines for Plain {
    const BYTES: usize = 16;
    const POSITIONS: usize = 1;
    type Weights = [[i8; QUAD]; 4];
    type Steps = [i32; 4];

    #[inline(always)]
    unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8) {
        for channel in 0..Self::CHANNELS {
            // SAFETY: the caller's promise, here and below.
            let quad = lines.map(|line| unsafe { line.add(channel).read() } ^ flip);
            // SAFETY: as above.
            unsafe { to.add(channel * QUAD).cast::<[u8; QUAD]>().write(quad) };
        }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; 4])
    }

    #[inline(always)]
    unsafe fn weights(from: *const i8) -> Self::Weights {
        // SAFETY: as above.
        unsafe { from.cast::<Self::Weights>().read() }
    }

    #[inline(always)]
    unsafe fn add_products(self, quads: *const u8, weights: Self::Weights) -> Self {
        // SAFETY: as above.
        let quads = unsafe { quads.cast::<[[u8; QUAD]; 4]>().read() };
        let mut sums = self.0;
        for (sum, (quad, weights)) in sums.iter_mut().zip(quads.into_iter().zip(weights)) {
            for (factor, weight) in quad.into_iter().zip(weights) {
                *sum += i32::from(factor) * i32::from(weight);
            }
        }
        Self(sums)
    }

    #[inline(always)]
    unsafe fn store(sums: [Self; 4], to: *mut i32) {
        for (vector, sums) in sums.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { to.add(vector * 4).cast::<[i32; 4]>().write(sums.0) };
        }
    }

    #[inline(always)]
    unsafe fn steps(self, factors: FactorLine, how: Conversion) -> [i32; 4] {
        let mut steps = self.0;
        for (index, step) in steps.iter_mut().enumerate() {
            // SAFETY: as above.
            let (start, offset, multiplier) = unsafe {
                (*factors.starts.add(index), *factors.offsets.add(index), *factors.multipliers.add(index))
            };
            let real = (step.wrapping_add(start) as f32 + offset) * multiplier * how.inverse;
            let [low, high] = how.steps;
            // NaN becomes the smallest number of steps.
            let real = if real > low { real } else { low };
            *step = (if real < high { real } else { high }).round_ties_even() as i32;
        }
        steps
    }

    #[inline(always)]
    unsafe fn pack(steps: [[i32; 4]; 4], how: Conversion, to: *mut u8) {
        let [low, high] = how.bounds.map(i32::from);
        for (vector, steps) in steps.into_iter().enumerate() {
            let bytes = steps.map(|step| (step + i32::from(how.zero)).max(low).min(high) as u8 ^ how.flip);
            // SAFETY: as above.
            unsafe { to.add(vector * 4).cast::<[u8; 4]>().write(bytes) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{Conversion, FactorLine, Lines, QUAD};
    use std::arch::x86_64::*;

    macro_rules! outputs {
        ($(
            $steps:ident, $pack:ident($vector:ty);
            $load:ident, $load_reals:ident, $write:ident, $add:ident, $real:ident, $plus:ident, $times:ident, $min:ident, $round:ident,
            $pack32:ident, $plus16:ident, $pack16:ident, $max8:ident, $min8:ident, $xor:ident,
            $splat_real:ident, $splat16:ident, $splat8:ident;
        )*) => {$(
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

    outputs! {
        steps_of_8, pack_32(__m256i);
        _mm256_loadu_si256, _mm256_loadu_ps, _mm256_storeu_si256,
        _mm256_add_epi32, _mm256_cvtepi32_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_min_ps, _mm256_cvtps_epi32,
        _mm256_packs_epi32, _mm256_adds_epi16, _mm256_packus_epi16, _mm256_max_epu8, _mm256_min_epu8, _mm256_xor_si256,
        _mm256_set1_ps, _mm256_set1_epi16, _mm256_set1_epi8;

        steps_of_16, pack_64(__m512i);
        _mm512_loadu_si512, _mm512_loadu_ps, _mm512_storeu_si512,
        _mm512_add_epi32, _mm512_cvtepi32_ps, _mm512_add_ps, _mm512_mul_ps, _mm512_min_ps, _mm512_cvtps_epi32,
        _mm512_packs_epi32, _mm512_adds_epi16, _mm512_packus_epi16, _mm512_max_epu8, _mm512_min_epu8, _mm512_xor_si512,
        _mm512_set1_ps, _mm512_set1_epi16, _mm512_set1_epi8;
    }

    macro_rules! lines {
        ($(
            $(#[$doc:meta])*
            $name:ident($vector:ty): $bytes:literal bytes, $positions:literal positions, weights of $weights:ty;
            $load:ident, $write:ident, $zero:ident, $splat:ident, $xor:ident,
            $low8:ident, $high8:ident, $low16:ident, $high16:ident;
            weights: |$from:ident| $read:expr;
            add: |$sum:ident, $a:ident, $b:ident| $add:expr;
            store: |$to:ident, $sums:ident| $store:expr;
            outputs: $steps:ident, $pack:ident;
        )*) => {$(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(crate) struct $name($vector);

            impl Lines for $name {
                const BYTES: usize = $bytes;
                const POSITIONS: usize = $positions;
                type Weights = $weights;
                type Steps = $vector;

                #[inline(always)]
                unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8) {
                    // SAFETY: callers have checked the processor's features, and promise that all lines and four vectors at
                    // `to` are valid.
                    unsafe {
                        let flip = $splat(flip.cast_signed());
                        let [a, b, c, d] = lines;
                        let (a, b) = ($xor($load(a.cast()), flip), $xor($load(b.cast()), flip));
                        let (c, d) = ($xor($load(c.cast()), flip), $xor($load(d.cast()), flip));
                        let [low, high] = [[$low8(a, b), $low8(c, d)], [$high8(a, b), $high8(c, d)]];
                        $write(to.cast(), $low16(low[0], low[1]));
                        $write(to.add($bytes).cast(), $high16(low[0], low[1]));
                        $write(to.add(2 * $bytes).cast(), $low16(high[0], high[1]));
                        $write(to.add(3 * $bytes).cast(), $high16(high[0], high[1]));
                    }
                }

                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: callers have checked the processor's features, here and below.
                    Self(unsafe { $zero() })
                }

                #[inline(always)]
                unsafe fn weights($from: *const i8) -> $weights {
                    // SAFETY: the caller's promise: a vector can be read.
                    unsafe { $read }
                }

                #[inline(always)]
                unsafe fn add_products(self, quads: *const u8, $b: $weights) -> Self {
                    let $sum = self.0;
                    // SAFETY: the caller's promise: a vector can be read.
                    Self(unsafe {
                        let $a = $load(quads.cast());
                        $add
                    })
                }

                #[inline(always)]
                unsafe fn store($sums: [Self; 4], $to: *mut i32) {
                    let [Self(a), Self(b), Self(c), Self(d)] = $sums;
                    let $sums = [a, b, c, d];
                    // SAFETY: the caller's promise: all sums can be written.
                    unsafe { $store }
                }

                #[inline(always)]
                unsafe fn steps(self, factors: FactorLine, how: Conversion) -> $vector {
                    // SAFETY: the caller's promise.
                    unsafe { $steps(self.0, factors, how) }
                }

                #[inline(always)]
                unsafe fn pack(steps: [$vector; 4], how: Conversion, to: *mut u8) {
                    // SAFETY: the caller's promise.
                    unsafe { $pack(steps, how, to) }
                }
            }
        )*};
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
        Avx2(__m256i): 32 bytes, 2 positions, weights of [__m256i; 2];
        _mm256_loadu_si256, _mm256_storeu_si256, _mm256_setzero_si256, _mm256_set1_epi8, _mm256_xor_si256,
        _mm256_unpacklo_epi8, _mm256_unpackhi_epi8, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16;
        weights: |from| {
            let all = _mm256_loadu_si256(from.cast());
            [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(all)), _mm256_srai_epi16::<8>(all)]
        };
        add: |sum, a, b| {
            let even = _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(0xff)), b[0]);
            let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(a), b[1]);
            _mm256_add_epi32(sum, _mm256_add_epi32(even, odd))
        };
        store: |to, sums| store_in_order(to, sums);
        outputs: steps_of_8, pack_32;

        /// VNNI in vectors of 256 bits.
        AvxVnni(__m256i): 32 bytes, 2 positions, weights of __m256i;
        _mm256_loadu_si256, _mm256_storeu_si256, _mm256_setzero_si256, _mm256_set1_epi8, _mm256_xor_si256,
        _mm256_unpacklo_epi8, _mm256_unpackhi_epi8, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16;
        weights: |from| _mm256_loadu_si256(from.cast());
        add: |sum, a, b| _mm256_dpbusd_avx_epi32(sum, a, b);
        store: |to, sums| store_in_order(to, sums);
        outputs: steps_of_8, pack_32;

        /// VNNI of AVX-512 in vectors of 256 bits, for few channels.
        Narrow(__m256i): 32 bytes, 4 positions, weights of __m256i;
        _mm256_loadu_si256, _mm256_storeu_si256, _mm256_setzero_si256, _mm256_set1_epi8, _mm256_xor_si256,
        _mm256_unpacklo_epi8, _mm256_unpackhi_epi8, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16;
        weights: |from| _mm256_loadu_si256(from.cast());
        add: |sum, a, b| _mm256_dpbusd_epi32(sum, a, b);
        store: |to, sums| {
            let [a, b, c, d] = sums;
            let low = [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x20>(c, d)];
            let high = [_mm256_permute2x128_si256::<0x31>(a, b), _mm256_permute2x128_si256::<0x31>(c, d)];
            _mm512_storeu_si512(to.cast(), _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low[0]), low[1]));
            _mm512_storeu_si512(to.add(16).cast(), _mm512_inserti64x4::<1>(_mm512_castsi256_si512(high[0]), high[1]));
        };
        outputs: steps_of_8, pack_32;

        /// VNNI in vectors of 512 bits.
        Avx512Vnni(__m512i): 64 bytes, 4 positions, weights of __m512i;
        _mm512_loadu_si512, _mm512_storeu_si512, _mm512_setzero_si512, _mm512_set1_epi8, _mm512_xor_si512,
        _mm512_unpacklo_epi8, _mm512_unpackhi_epi8, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16;
        weights: |from| _mm512_loadu_si512(from.cast());
        add: |sum, a, b| _mm512_dpbusd_epi32(sum, a, b);
        store: |to, sums| {
            // Transposes the vectors in units of four sums.
            let [a, b, c, d] = sums;
            let (ab, cd) = (_mm512_shuffle_i32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_i32x4::<0b01_00_01_00>(c, d));
            _mm512_storeu_si512(to.cast(), _mm512_shuffle_i32x4::<0b10_00_10_00>(ab, cd));
            _mm512_storeu_si512(to.add(16).cast(), _mm512_shuffle_i32x4::<0b11_01_11_01>(ab, cd));
            let (ab, cd) = (_mm512_shuffle_i32x4::<0b11_10_11_10>(a, b), _mm512_shuffle_i32x4::<0b11_10_11_10>(c, d));
            _mm512_storeu_si512(to.add(32).cast(), _mm512_shuffle_i32x4::<0b10_00_10_00>(ab, cd));
            _mm512_storeu_si512(to.add(48).cast(), _mm512_shuffle_i32x4::<0b11_01_11_01>(ab, cd));
        };
        outputs: steps_of_16, pack_64;
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use super::super::dots::arm::{add_products, folded, usdot, widened};
    use super::{Conversion, FactorLine, Lines, QUAD};
    use std::arch::aarch64::*;

    /// Products of 16-bit integers. Until it is stored, a sum consists of four.
    #[derive(Clone, Copy)]
    pub(crate) struct Neon([int32x4_t; 4]);

    /// Products of bytes.
    #[derive(Clone, Copy)]
    pub(crate) struct Usdot(int32x4_t);

    /// The bytes of a vector.
    const BYTES: usize = 16;

    impl Lines for Neon {
        const BYTES: usize = BYTES;
        const POSITIONS: usize = 1;
        type Weights = [int16x8_t; 2];
        type Steps = int32x4_t;

        #[inline(always)]
        unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { interleave(lines, flip, to) }
        }

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: every 64-bit ARM processor has the instructions, here and below.
            Self([unsafe { vdupq_n_s32(0) }; 4])
        }

        #[inline(always)]
        unsafe fn weights(from: *const i8) -> [int16x8_t; 2] {
            // SAFETY: the caller's promise: a vector can be read.
            unsafe { widened(vld1q_s8(from)) }
        }

        #[inline(always)]
        unsafe fn add_products(self, quads: *const u8, weights: [int16x8_t; 2]) -> Self {
            // SAFETY: the caller's promise: a vector can be read.
            unsafe {
                let quads = vld1q_u8(quads);
                let factors = [vmovl_u8(vget_low_u8(quads)), vmovl_high_u8(quads)];
                Self(add_products(self.0, factors.map(|factors| vreinterpretq_s16_u16(factors)), weights))
            }
        }

        #[inline(always)]
        unsafe fn store(sums: [Self; 4], to: *mut i32) {
            for (vector, sums) in sums.into_iter().enumerate() {
                // SAFETY: the caller's promise: all sums can be written.
                unsafe { vst1q_s32(to.add(vector * 4), folded(sums.0)) }
            }
        }

        #[inline(always)]
        unsafe fn steps(self, factors: FactorLine, how: Conversion) -> int32x4_t {
            // SAFETY: the caller's promise.
            unsafe { steps(folded(self.0), factors, how) }
        }

        #[inline(always)]
        unsafe fn pack(steps: [int32x4_t; 4], how: Conversion, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { pack(steps, how, to) }
        }
    }

    impl Lines for Usdot {
        const BYTES: usize = BYTES;
        const POSITIONS: usize = 4;
        type Weights = int8x16_t;
        type Steps = int32x4_t;

        #[inline(always)]
        unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { interleave(lines, flip, to) }
        }

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: as above.
            Self(unsafe { vdupq_n_s32(0) })
        }

        #[inline(always)]
        unsafe fn weights(from: *const i8) -> int8x16_t {
            // SAFETY: the caller's promise: a vector can be read.
            unsafe { vld1q_s8(from) }
        }

        #[inline(always)]
        unsafe fn add_products(self, quads: *const u8, weights: int8x16_t) -> Self {
            // SAFETY: the caller's promise: a vector can be read, and the processor has the features.
            Self(unsafe { usdot(self.0, vld1q_u8(quads), weights) })
        }

        #[inline(always)]
        unsafe fn store(sums: [Self; 4], to: *mut i32) {
            for (vector, sums) in sums.into_iter().enumerate() {
                // SAFETY: the caller's promise: all sums can be written.
                unsafe { vst1q_s32(to.add(vector * 4), sums.0) }
            }
        }

        #[inline(always)]
        unsafe fn steps(self, factors: FactorLine, how: Conversion) -> int32x4_t {
            // SAFETY: the caller's promise.
            unsafe { steps(self.0, factors, how) }
        }

        #[inline(always)]
        unsafe fn pack(steps: [int32x4_t; 4], how: Conversion, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { pack(steps, how, to) }
        }
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
                let to = to.add(2 * half * BYTES);
                vst1q_u8(to, vreinterpretq_u8_u16(vzip1q_u16(first, second)));
                vst1q_u8(to.add(BYTES), vreinterpretq_u8_u16(vzip2q_u16(first, second)));
            }
        }
    }
}
