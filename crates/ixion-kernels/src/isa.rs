//! The instruction sets that kernels use, and what else processors differ in.

use ixion_tensor::uses_avx_vnni;
pub use ixion_tensor::{Isa, isa, isa_name};

/// Returns true if kernels may multiply pairs of `bf16`, which requires AVX-512 BF16 and [`isa`] to be [`Isa::Avx512`].
pub fn multiplies_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_supported = is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    let is_supported = false;
    isa() == Isa::Avx512 && is_supported
}

/// Returns true if kernels may multiply bytes in groups of four. This requires AVX-512 VNNI if [`isa`] is [`Isa::Avx512`],
/// and [AVX-VNNI](uses_avx_vnni) if it is [`Isa::Avx2`]. On 64-bit ARM, it requires I8MM.
pub fn multiplies_bytes() -> bool {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => is_x86_feature_detected!("avx512vnni"),
        Isa::Avx2 => uses_avx_vnni(),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => std::arch::is_aarch64_feature_detected!("i8mm"),
        _ => false,
    }
}

/// The speed of multiplying pairs of `bf16` relative to `f32`, as measured, if each rounded value takes part in
/// `products` products. On AMD's processors, one instruction does the work of two; on Intel's, it takes as long as four.
/// Rounding a value takes as long as several multiplications.
pub fn gain_of_pairs(products: f64) -> f64 {
    const ROUNDING: f64 = 8.0;
    #[cfg(target_arch = "x86_64")]
    let vendor = {
        // SAFETY: every x86-64 processor has the instruction.
        #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
        let found = unsafe { std::arch::x86_64::__cpuid(0) };
        [found.ebx, found.edx, found.ecx].map(u32::to_le_bytes)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let vendor = [[0u8; 4]; 3];
    let of_products = if vendor.concat() == b"GenuineIntel" { 0.44 } else { 1.9 };
    1.0 / (1.0 / of_products + ROUNDING / products.max(1.0))
}

/// The widest instruction set of this process whose vectors have this number of lanes.
pub(super) fn isa_for(lanes: usize) -> Option<Isa> {
    let narrower = [isa(), Isa::Avx2, Isa::Scalar];
    narrower.into_iter().find(|narrower| *narrower <= isa() && narrower.lanes() == lanes)
}
