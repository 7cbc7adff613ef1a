//! How many multiplications with an addition a core can do: each instruction set with as many chains as keep it busy.

use super::machine::together;
use std::time::{Duration, Instant};

/// An instruction set that the processor has.
#[derive(Clone, Copy)]
pub(crate) struct Isa {
    pub(crate) name: &'static str,
    /// Operations in one round of `run`; an FMA is two.
    flops: u64,
    /// Does so many rounds, and returns a number that depends on all of them.
    run: fn(u64) -> f32,
}

impl Isa {
    /// The highest of several measurements on so many threads at once, in operations per second.
    pub(crate) fn measure(self, threads: usize) -> f64 {
        let mut rounds: u64 = 1 << 12;
        // Long enough that starting threads does not count.
        while together(threads, || self.time(rounds)) < Duration::from_millis(15) {
            rounds *= 2;
        }
        let flops = (self.flops * rounds * threads as u64) as f64;
        let times = (0..12).map(|_| together(threads, || self.time(rounds)));
        times.map(|time| flops / time.as_secs_f64()).fold(0.0, f64::max)
    }

    fn time(self, rounds: u64) -> Duration {
        let start = Instant::now();
        std::hint::black_box((self.run)(std::hint::black_box(rounds)));
        start.elapsed()
    }
}

/// Those of this processor, the fastest first.
pub(crate) fn isas() -> Vec<Isa> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            found.push(Isa {
                name: "AVX-512",
                flops: 2 * 16 * 24,
                // SAFETY: the processor has AVX-512F.
                run: |rounds| unsafe { x86::avx512(rounds) },
            });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            found.push(Isa {
                name: "AVX2 and FMA",
                flops: 2 * 8 * 12,
                // SAFETY: the processor has AVX2 and FMA.
                run: |rounds| unsafe { x86::avx2(rounds) },
            });
            found.push(Isa {
                name: "scalar FMA",
                flops: 2 * 12,
                // SAFETY: the processor has FMA.
                run: |rounds| unsafe { x86::scalar(rounds) },
            });
        }
    }
    #[cfg(target_arch = "aarch64")]
    // NEON is part of every processor of this kind.
    found.push(Isa { name: "NEON", flops: 2 * 4 * 24, run: aarch64::neon });
    found.push(Isa { name: "as compiled, without FMA", flops: 2 * 4 * 12, run: compiled });
    found
}

/// What the compiler makes of a product and a sum in code for every processor of this kind.
fn compiled(rounds: u64) -> f32 {
    let (x, y) = std::hint::black_box((0.999_f32, 0.001_f32));
    let mut sums = [[0.0_f32; 4]; 12];
    for _ in 0..rounds {
        for sum in sums.as_flattened_mut() {
            *sum = *sum * x + y;
        }
    }
    sums.as_flattened().iter().sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// 24 chains: two units of four cycles need eight, and there are 32 registers.
    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(rounds: u64) -> f32 {
        let (x, y) = std::hint::black_box((0.999, 0.001));
        let (x, y) = (_mm512_set1_ps(x), _mm512_set1_ps(y));
        let mut sums = [_mm512_setzero_ps(); 24];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, x, y);
            }
        }
        sums.iter().map(|sum| _mm512_reduce_add_ps(*sum)).sum()
    }

    /// 12 chains: two units of four or five cycles need ten, and there are 16 registers.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(rounds: u64) -> f32 {
        let (x, y) = std::hint::black_box((0.999, 0.001));
        let (x, y) = (_mm256_set1_ps(x), _mm256_set1_ps(y));
        let mut sums = [_mm256_setzero_ps(); 12];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, x, y);
            }
        }
        sums.iter().map(|sum| _mm256_cvtss_f32(*sum)).sum()
    }

    /// 12 chains of one number each. From intrinsics the compiler would make vectors again.
    #[target_feature(enable = "fma")]
    pub(super) fn scalar(rounds: u64) -> f32 {
        let (x, y) = std::hint::black_box((0.999_f32, 0.001_f32));
        let mut sums = [0.0_f32; 12];
        for _ in 0..rounds {
            for sum in &mut sums {
                // SAFETY: the instruction reads and writes these registers alone, and the function needs FMA.
                unsafe {
                    std::arch::asm!(
                        "vfmadd213ss {sum}, {x}, {y}",
                        sum = inout(xmm_reg) *sum, x = in(xmm_reg) x, y = in(xmm_reg) y,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
            }
        }
        sums.iter().sum()
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;

    /// 24 chains: four units of four cycles need sixteen, and there are 32 registers.
    pub(super) fn neon(rounds: u64) -> f32 {
        let (x, y) = std::hint::black_box((0.999, 0.001));
        // SAFETY: NEON is part of every processor of this kind; the intrinsics touch no memory.
        unsafe {
            let (x, y) = (vdupq_n_f32(x), vdupq_n_f32(y));
            let mut sums = [vdupq_n_f32(0.0); 24];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = vfmaq_f32(y, *sum, x);
                }
            }
            sums.iter().map(|sum| vaddvq_f32(*sum)).sum()
        }
    }
}
