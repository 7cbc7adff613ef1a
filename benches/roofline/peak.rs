//! The peak rate of multiply-adds: each instruction set with enough independent chains to keep its units busy.

use super::machine::together;
use std::time::Duration;

/// An instruction set that the processor supports.
#[derive(Clone, Copy)]
pub(crate) struct Isa {
    pub(crate) name: &'static str,
    /// The operations in one round of `run`; a multiply-add counts as two.
    flops: u64,
    /// Runs this number of rounds, at least one.
    run: fn(u64),
}

impl Isa {
    /// The highest of several measurements on this number of threads, in operations per second.
    pub(crate) fn measure(self, threads: usize) -> f64 {
        // So short that on a busy machine some of the many measurements are not interrupted.
        let mut rounds: u64 = 1 << 10;
        while together(1, 20, || (), |()| self.run(rounds)) < Duration::from_micros(200) {
            rounds *= 2;
        }
        let time = together(threads, 400, || (), |()| self.run(rounds));
        (self.flops * rounds * threads as u64) as f64 / time.as_secs_f64()
    }

    fn run(self, rounds: u64) {
        (self.run)(std::hint::black_box(rounds));
    }
}

/// The instruction sets of this processor, the fastest first.
pub(crate) fn isas() -> Vec<Isa> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            let run = |rounds| unsafe { x86::avx512(rounds) };
            found.push(Isa { name: "AVX-512", flops: 2 * 16 * x86::AVX512_CHAINS, run });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX and FMA.
            let run = |rounds| unsafe { x86::avx2(rounds) };
            found.push(Isa { name: "AVX2 and FMA", flops: 2 * 8 * x86::CHAINS, run });
            // SAFETY: the processor has AVX and FMA.
            let run = |rounds| unsafe { x86::scalar(rounds) };
            found.push(Isa { name: "scalar FMA", flops: 2 * x86::CHAINS, run });
        }
    }
    if found.is_empty() {
        found.push(Isa { name: "as compiled", flops: 2 * 48, run: compiled });
    }
    found
}

/// The compiler's code for the baseline instruction set.
fn compiled(rounds: u64) {
    let (x, y) = std::hint::black_box((0.999_f32, 0.001_f32));
    let fma = |sum: f32| if cfg!(target_arch = "aarch64") { sum.mul_add(x, y) } else { sum * x + y };
    let mut sums = [0.0_f32; 48];
    for _ in 0..rounds {
        sums = sums.map(fma);
    }
    std::hint::black_box(sums);
}

/// In assembly, because a compiler would add moves and spills, which would be measured as well.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::{asm, x86_64::*};

    /// Two units with a latency of four cycles need eight chains; two of the 32 registers hold constants.
    pub(super) const AVX512_CHAINS: u64 = 24;
    /// Two units with a latency of four or five cycles need ten chains; two of the 16 registers hold constants.
    pub(super) const CHAINS: u64 = 12;

    macro_rules! chains {
        ($(#[$doc:meta])* $name:ident, $feature:literal, $fma:literal, $zero:expr, $x:tt = $first:expr, $y:tt = $second:expr, [$($sum:tt)+]) => {
            $(#[$doc])*
            #[target_feature(enable = $feature)]
            pub(super) fn $name(rounds: u64) {
                // SAFETY: the feature is enabled, and the instructions use only these registers and no memory.
                unsafe {
                    asm!(
                        "2:",
                        $(concat!($fma, " ", $sum, ", ", $x, ", ", $y),)+
                        "dec {rounds}",
                        "jnz 2b",
                        rounds = inout(reg) rounds.max(1) => _,
                        in($x) $first,
                        in($y) $second,
                        $(inout($sum) $zero => _,)+
                        options(nomem, nostack),
                    );
                }
            }
        };
    }

    chains!(
        /// 16 elements per chain.
        avx512, "avx512f", "vfmadd213ps", _mm512_setzero_ps(), "zmm30" = _mm512_set1_ps(0.999), "zmm31" = _mm512_set1_ps(0.001),
        ["zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11" "zmm12" "zmm13" "zmm14"
         "zmm15" "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23"]
    );
    chains!(
        /// 8 elements per chain.
        avx2, "avx,fma", "vfmadd213ps", _mm256_setzero_ps(), "ymm14" = _mm256_set1_ps(0.999), "ymm15" = _mm256_set1_ps(0.001),
        ["ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11"]
    );
    chains!(
        /// One element per chain.
        scalar, "avx,fma", "vfmadd213ss", 0.0_f32, "xmm14" = 0.999_f32, "xmm15" = 0.001_f32,
        ["xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7" "xmm8" "xmm9" "xmm10" "xmm11"]
    );
}
