//! Products of one row with a matrix of half precision, whose numbers are widened as they are read. Reading the matrix
//! dominates the time, and it has half as many bytes as in f32.
//!
//! A sum consists of partial sums, so that none waits for another, which are added up in pairs. As in
//! [`packed`](super::packed), few products are added one after the other, and products are fused with sums if the
//! processor supports it; the order of the sums does not depend on it.

#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "there are vectors for two architectures")
)]

use super::isa::{Isa, isa};
use super::lanes::Lanes;
use super::packed::TERMS;
use super::parallel::for_each_chunk;
use ixion_tensor::{Half, LimitError, Limits, bf16, f16};

/// Partial sums of a sum.
const LANES: usize = 32;

/// Products that are added to partial sums before these are added up.
const PART: usize = LANES * TERMS;

/// Rows of the matrix per task.
const ROWS: usize = 48;

/// Adds the dot product of `row` with each row of a matrix to `output`.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if the matrix has too few rows, which are as long as `row`.
pub fn add_dots<H: Narrow>(
    row: &[f32],
    matrix: &[H],
    output: &mut [f32],
    limits: &Limits,
) -> Result<(), LimitError> {
    add_dots_with(isa(), row, matrix, output, limits)
}

/// As [`add_dots`], for an instruction set.
///
/// # Panics
/// As [`add_dots`], or if the processor does not support the instruction set.
fn add_dots_with<H: Narrow>(
    isa: Isa,
    row: &[f32],
    matrix: &[H],
    output: &mut [f32],
    limits: &Limits,
) -> Result<(), LimitError> {
    assert!(isa.is_supported(), "the processor must support the instructions");
    let kernel = H::kernel(isa);
    for_each_chunk(output, ROWS, &|start, output| {
        limits.check_deadline()?;
        let matrix = &matrix[start * row.len()..][..output.len() * row.len()];
        // SAFETY: the processor has the instructions; the matrix has as many rows as there are results.
        unsafe { kernel(row, matrix, output) };
        Ok(())
    })
}

/// A type of half precision that has kernels.
pub trait Narrow: Half {
    /// The kernel for an instruction set.
    #[doc(hidden)]
    fn kernel(isa: Isa) -> Kernel<Self>;
}

/// Adds the dot products of a row with the rows of a matrix to the results.
///
/// # Safety
/// The processor must have the instructions that the kernel is compiled for, and the matrix must have as many rows as
/// there are results, each as long as the row.
#[doc(hidden)]
pub type Kernel<H> = unsafe fn(&[f32], &[H], &mut [f32]);

/// Vectors that numbers of half precision are widened to.
///
/// # Safety
/// As [`Lanes`].
trait Widen<H>: Lanes {
    unsafe fn widen(from: *const H) -> Self;
}

/// The dot products without vectors that are supported here. The compiler uses what the target has.
#[allow(clippy::needless_range_loop, reason = "loops over all lanes are vectorised as a whole")]
fn plain<H: Half>(row: &[f32], matrix: &[H], output: &mut [f32]) {
    let mut numbers = [0.0; PART];
    for (at, result) in output.iter_mut().enumerate() {
        let weights = &matrix[at * row.len()..][..row.len()];
        for (row, weights) in row.chunks(PART).zip(weights.chunks(PART)) {
            H::load_all(weights, &mut numbers);
            let mut sums = [0.0; LANES];
            let ((whole, rest), (weights, _)) = (row.as_chunks::<LANES>(), numbers.as_chunks::<LANES>());
            for (row, weights) in whole.iter().zip(weights) {
                for lane in 0..LANES {
                    sums[lane] += row[lane] * weights[lane];
                }
            }
            let others = weights.get(whole.len()).into_iter().flatten();
            for ((sum, x), weight) in sums.iter_mut().zip(rest).zip(others) {
                *sum += x * weight;
            }
            *result += folded(sums, LANES);
        }
    }
}

/// Adds the dot products of all rows, R rows at a time, whose partial sums fill V vectors each.
///
/// # Safety
/// As [`Kernel`], and it must be inlined where the instructions of `L` are enabled.
#[inline(always)]
unsafe fn dots<L: Widen<H>, H: Half, const V: usize, const R: usize>(
    row: &[f32],
    matrix: &[H],
    output: &mut [f32],
) {
    const { assert!(V * L::COUNT == LANES, "the order of sums is the same for all instruction sets") };
    let mut first = matrix.as_ptr();
    let (groups, rest) = output.as_chunks_mut::<R>();
    // SAFETY: the caller's promise: each result has a row of the matrix.
    unsafe {
        for group in groups {
            add_group::<L, H, V, R>(row, first, group);
            first = first.add(R * row.len());
        }
        for sum in rest {
            add_group::<L, H, V, 1>(row, first, std::array::from_mut(sum));
            first = first.add(row.len());
        }
    }
}

/// Adds the dot products of R rows of the matrix to the results. Loops run over indices, because iterators over arrays
/// would be compiled for each R.
///
/// # Safety
/// As [`dots`]: R rows begin at `matrix`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
unsafe fn add_group<L: Widen<H>, H: Half, const V: usize, const R: usize>(
    row: &[f32],
    matrix: *const H,
    output: &mut [f32; R],
) {
    let mut start = 0;
    while start < row.len() {
        let part = &row[start..row.len().min(start + PART)];
        // SAFETY: the caller's promise; the last step is padded.
        unsafe {
            let mut sums = [[L::splat(0.0); V]; R];
            let whole = part.len() - part.len() % LANES;
            for k in (0..whole).step_by(LANES) {
                let numbers = std::array::from_fn(|r| matrix.wrapping_add(r * row.len() + start + k));
                step::<L, H, V, R>(&mut sums, part.as_ptr().add(k), numbers);
            }
            if whole < part.len() {
                let rest = &part[whole..];
                let (mut factors, mut padded) = ([0.0; LANES], [[H::default(); LANES]; R]);
                factors[..rest.len()].copy_from_slice(rest);
                for r in 0..R {
                    let from = matrix.add(r * row.len() + start + whole);
                    std::ptr::copy_nonoverlapping(from, padded[r].as_mut_ptr(), rest.len());
                }
                let numbers = padded.each_ref().map(|numbers| numbers.as_ptr());
                step::<L, H, V, R>(&mut sums, factors.as_ptr(), numbers);
            }
            for r in 0..R {
                output[r] += total(sums[r]);
            }
        }
        start += PART;
    }
}

/// Adds the next [`LANES`] products of each row to its partial sums.
///
/// # Safety
/// As [`dots`], for pointers to at least [`LANES`] factors and [`LANES`] numbers of each row.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as for `add_group`")]
unsafe fn step<L: Widen<H>, H, const V: usize, const R: usize>(
    sums: &mut [[L; V]; R],
    factors: *const f32,
    numbers: [*const H; R],
) {
    for v in 0..V {
        // SAFETY: the caller's promise.
        unsafe {
            let factor = L::load(factors.add(v * L::COUNT));
            for r in 0..R {
                sums[r][v] = sums[r][v].add_product(factor, L::widen(numbers[r].add(v * L::COUNT)));
            }
        }
    }
}

/// The sum of the partial sums: those of the second half are added to those of the first, and so on.
///
/// # Safety
/// As [`dots`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as for `add_group`")]
unsafe fn total<L: Lanes, const V: usize>(mut sums: [L; V]) -> f32 {
    let mut count = V;
    while count > 1 {
        count /= 2;
        for v in 0..count {
            // SAFETY: the caller's promise.
            sums[v] = unsafe { sums[v].add(sums[v + count]) };
        }
    }
    let mut lanes = [0.0; LANES];
    // SAFETY: as above; a vector has at most `LANES` lanes.
    unsafe { sums[0].store(lanes.as_mut_ptr()) };
    folded(lanes, L::COUNT)
}

/// The sum of the first `count` numbers, in the order of [`total`].
#[inline(always)]
fn folded(mut numbers: [f32; LANES], mut count: usize) -> f32 {
    while count > 1 {
        count /= 2;
        for lane in 0..count {
            numbers[lane] += numbers[lane + count];
        }
    }
    numbers[0]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Half, Widen, dots};
    use crate::lanes::x86::{Avx2, Avx512};
    use ixion_tensor::{bf16, f16};
    use std::arch::x86_64::*;

    macro_rules! widen {
        ($($lanes:ident from $number:ident: |$from:ident| $widen:expr;)*) => {$(
            impl Widen<$number> for $lanes {
                #[inline(always)]
                unsafe fn widen($from: *const $number) -> Self {
                    // SAFETY: callers have checked the processor's features, and promise that all numbers can be read.
                    Self(unsafe { $widen })
                }
            }
        )*};
    }

    widen! {
        Avx2 from bf16: |from| {
            let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
        };
        Avx2 from f16: |from| _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
        Avx512 from bf16: |from| {
            let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
        };
        Avx512 from f16: |from| _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
    }

    // The numbers of rows give each instruction set enough independent sums, and leave registers for the factors.

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn avx2<H: Half>(row: &[f32], matrix: &[H], output: &mut [f32])
    where
        Avx2: Widen<H>,
    {
        // SAFETY: the caller's promise.
        unsafe { dots::<Avx2, H, 4, 3>(row, matrix, output) }
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
    pub(super) unsafe fn avx512<H: Half>(row: &[f32], matrix: &[H], output: &mut [f32])
    where
        Avx512: Widen<H>,
    {
        // SAFETY: the caller's promise.
        unsafe { dots::<Avx512, H, 2, 4>(row, matrix, output) }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Half, Widen, dots};
    use crate::lanes::arm::Neon;
    use ixion_tensor::{bf16, f16};
    use std::arch::{aarch64::*, asm};

    impl Widen<bf16> for Neon {
        #[inline(always)]
        unsafe fn widen(from: *const bf16) -> Self {
            // SAFETY: every 64-bit ARM processor has the instructions, and the caller promises that all numbers can be read.
            let [low, high] = unsafe {
                let words = vld1q_u16(from.cast());
                [vmovl_u16(vget_low_u16(words)), vmovl_u16(vget_high_u16(words))]
                    .map(|words| vreinterpretq_f32_u32(vshlq_n_u32::<16>(words)))
            };
            Self(low, high)
        }
    }

    impl Widen<f16> for Neon {
        #[inline(always)]
        unsafe fn widen(from: *const f16) -> Self {
            let (low, high): (float32x4_t, float32x4_t);
            // SAFETY: as above; the instructions change these registers, and flags for exceptions of floats.
            unsafe {
                asm!(
                    "fcvtl {low:v}.4s, {halves:v}.4h",
                    "fcvtl2 {high:v}.4s, {halves:v}.8h",
                    halves = in(vreg) vld1q_u16(from.cast()),
                    low = out(vreg) low,
                    high = lateout(vreg) high,
                    options(pure, nomem, nostack),
                );
            }
            Self(low, high)
        }
    }

    #[target_feature(enable = "neon")]
    pub(super) unsafe fn neon<H: Half>(row: &[f32], matrix: &[H], output: &mut [f32])
    where
        Neon: Widen<H>,
    {
        // SAFETY: the caller's promise.
        unsafe { dots::<Neon, H, 4, 2>(row, matrix, output) }
    }
}

macro_rules! narrow {
    ($($number:ty),*) => {$(
        impl Narrow for $number {
            fn kernel(isa: Isa) -> Kernel<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => x86::avx512::<Self>,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 if is_x86_feature_detected!("f16c") => x86::avx2::<Self>,
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => arm::neon::<Self>,
                    _ => plain::<Self>,
                }
            }
        }
    )*};
}

narrow! { bf16, f16 }

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::TestCaseResult;

    fn equals_the_naive_product<H: Narrow>(features: usize, outputs: usize, seed: usize) -> TestCaseResult {
        let number = |i: usize| ((i * 37 + seed) % 101) as f32 / 16.0 - 3.0;
        let row: Vec<f32> = (0..features).map(number).collect();
        let numbers: Vec<f32> = (0..features * outputs).map(|i| number(i * 3)).collect();
        let (mut matrix, mut rounded) = (vec![H::default(); numbers.len()], vec![0.0; numbers.len()]);
        H::store_all(&numbers, &mut matrix);
        H::load_all(&matrix, &mut rounded);
        let biases: Vec<f32> = (0..outputs).map(number).collect();
        for isa in Isa::supported() {
            let mut output = biases.clone();
            add_dots_with(isa, &row, &matrix, &mut output, &Limits::default()).unwrap();
            for (at, (got, bias)) in output.iter().zip(&biases).enumerate() {
                let weights = &rounded[at * features..][..features];
                let products = row.iter().zip(weights).map(|(x, weight)| f64::from(*x) * f64::from(*weight));
                let want = f64::from(*bias) + products.sum::<f64>();
                let bound = 1e-6 * (features + 1) as f64;
                prop_assert!((f64::from(*got) - want).abs() < bound.max(1e-3), "{isa:?} {at}: {got} {want}");
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_product(
            features in prop_oneof![4 => 0usize..200, 1 => PART - 2..PART + 70],
            outputs in 0usize..70,
            seed in 0usize..1000,
        ) {
            equals_the_naive_product::<bf16>(features, outputs, seed)?;
            equals_the_naive_product::<f16>(features, outputs, seed)?;
        }
    }

    /// Whatever the number is: subnormal, infinite or NaN.
    #[test]
    fn every_number_is_widened_exactly() {
        fn check<H: Narrow>(all: &[H]) {
            let mut wanted = vec![0.0f32; all.len()];
            H::load_all(all, &mut wanted);
            for isa in Isa::supported() {
                let mut output = vec![0.0; all.len()];
                add_dots_with(isa, &[1.0], all, &mut output, &Limits::default()).unwrap();
                for (got, want) in output.iter().zip(&wanted) {
                    assert!(got == want || (got.is_nan() && want.is_nan()), "{isa:?}: {got} {want}");
                }
            }
        }
        check(&(0..=u16::MAX).map(bf16::from_bits).collect::<Vec<_>>());
        check(&(0..=u16::MAX).map(f16::from_bits).collect::<Vec<_>>());
    }
}
