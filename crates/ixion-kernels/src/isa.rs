//! Which instructions kernels may use.

use std::sync::OnceLock;

/// An instruction set that kernels are written for, from the narrowest vectors to the widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// What every processor of the target has.
    Scalar,
    /// AVX2 and FMA: vectors of 8 numbers of `f32`.
    Avx2,
    /// AVX-512 F, VL, DQ and BW beside AVX2 and FMA: vectors of 16.
    Avx512,
}

impl Isa {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The name by which `IXION_ISA` knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Numbers of `f32` in a vector. Without vectors, so many are computed side by side.
    pub const fn lanes(self) -> usize {
        match self {
            Self::Scalar | Self::Avx2 => 8,
            Self::Avx512 => 16,
        }
    }

    /// Whether this processor has it.
    pub fn is_here(self) -> bool {
        static WIDEST: OnceLock<Isa> = OnceLock::new();
        let widest = || Self::ALL.into_iter().filter(|isa| isa.is_detected()).max();
        self <= *WIDEST.get_or_init(|| widest().unwrap_or(Self::Scalar))
    }

    /// The same, asked of the processor. Whoever has one of them has all that are narrower.
    fn is_detected(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_detected()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Those that this processor has.
    pub fn here() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_here())
    }
}

/// The instruction set of Ixion's own kernels in this process: the widest that the processor has, or the one that the environment
/// variable `IXION_ISA` names (`scalar`, `avx2`, `avx512`), if the processor has it. It is settled at the first call. Products
/// that are left to the crate `gemm` choose for themselves.
///
/// ```
/// assert!(ixion_kernels::isa().is_here());
/// ```
pub fn isa() -> Isa {
    static SETTLED: OnceLock<Isa> = OnceLock::new();
    *SETTLED.get_or_init(|| {
        let wanted = std::env::var_os("IXION_ISA").map(|name| name.to_string_lossy().into_owned());
        chosen(wanted.as_deref()).unwrap_or_else(|reason| {
            let widest = widest();
            log::error!("IXION_ISA: {reason}; {} is used", widest.name());
            widest
        })
    })
}

fn widest() -> Isa {
    Isa::here().max().unwrap_or(Isa::Scalar)
}

/// The one of this name; without a name, the widest.
fn chosen(name: Option<&str>) -> Result<Isa, String> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(widest()) };
    match Isa::ALL.into_iter().find(|isa| isa.name() == name) {
        Some(isa) if isa.is_here() => Ok(isa),
        Some(_) => Err(format!("this processor has no {name}")),
        None => {
            let names = Isa::ALL.map(Isa::name).join(", ");
            Err(format!("`{name}` is none of {names}"))
        }
    }
}

/// Whether kernels may multiply pairs of `bf16`: with AVX-512 BF16, where [`isa`] is [`Isa::Avx512`].
pub fn multiplies_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_here = is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    let is_here = false;
    isa() == Isa::Avx512 && is_here
}

/// How many times as fast pairs of `bf16` are multiplied as numbers of `f32`, where each number that is rounded takes part in
/// so many products. As it was measured: AMD's processors take one instruction for the work of two, Intel's take as long as
/// for four; and rounding a number takes as long as some multiplications.
pub fn gain_of_pairs(products: f64) -> f64 {
    const ROUNDING: f64 = 8.0;
    #[cfg(target_arch = "x86_64")]
    let vendor = {
        // SAFETY: every processor of this kind has the instruction.
        #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
        let found = unsafe { std::arch::x86_64::__cpuid(0) };
        [found.ebx, found.edx, found.ecx].map(u32::to_le_bytes)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let vendor = [[0u8; 4]; 3];
    let of_products = if vendor.concat() == b"GenuineIntel" { 0.44 } else { 1.9 };
    1.0 / (1.0 / of_products + ROUNDING / products.max(1.0))
}

/// The widest instruction set of this process whose vectors hold so many numbers.
pub(super) fn isa_for(lanes: usize) -> Option<Isa> {
    let narrower = [isa(), Isa::Avx2, Isa::Scalar];
    narrower.into_iter().find(|narrower| *narrower <= isa() && narrower.lanes() == lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_others_are_explained() {
        assert_eq!(chosen(None), Ok(widest()));
        assert_eq!(chosen(Some("")), Ok(widest()));
        assert_eq!(chosen(Some("scalar")), Ok(Isa::Scalar));
        for isa in Isa::ALL {
            assert_eq!(chosen(Some(isa.name())).is_ok(), isa.is_here(), "{isa:?}");
        }
        assert_eq!(chosen(Some("mmx")), Err("`mmx` is none of scalar, avx2, avx512".to_owned()));
    }
}
