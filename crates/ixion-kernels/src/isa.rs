//! The instruction sets that kernels use.

use std::sync::OnceLock;

/// An instruction set that kernels are written for, from the narrowest vectors to the widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// The baseline of the target, which every processor supports.
    Scalar,
    /// AVX2 and FMA: vectors of 8 `f32` lanes.
    Avx2,
    /// AVX-512 F, VL, DQ and BW in addition to AVX2 and FMA: vectors of 16 `f32` lanes.
    Avx512,
}

impl Isa {
    /// All instruction sets, from the narrowest vectors to the widest.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The name of the instruction set in `IXION_ISA`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The number of `f32` lanes of a vector. Without vectors, this many values are computed together.
    pub const fn lanes(self) -> usize {
        match self {
            Self::Scalar | Self::Avx2 => 8,
            Self::Avx512 => 16,
        }
    }

    /// Returns true if this processor supports the instruction set.
    pub fn is_supported(self) -> bool {
        static WIDEST: OnceLock<Isa> = OnceLock::new();
        let widest = || Self::ALL.into_iter().filter(|isa| isa.is_detected()).max();
        self <= *WIDEST.get_or_init(|| widest().unwrap_or(Self::Scalar))
    }

    /// Queries the processor. A processor that supports an instruction set supports all narrower ones.
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

    /// The instruction sets that this processor supports.
    pub fn supported() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_supported())
    }
}

/// The instruction set of Ixion's own kernels in this process: the widest that the processor supports, or the one that
/// the environment variable `IXION_ISA` names (`scalar`, `avx2`, `avx512`), if the processor supports it. It is selected
/// at the first call. Products that are left to the crate `gemm` select their own.
///
/// ```
/// assert!(ixion_kernels::isa().is_supported());
/// ```
pub fn isa() -> Isa {
    static SELECTED: OnceLock<Isa> = OnceLock::new();
    *SELECTED.get_or_init(|| {
        let wanted = std::env::var_os("IXION_ISA").map(|name| name.to_string_lossy().into_owned());
        chosen(wanted.as_deref()).unwrap_or_else(|reason| {
            let widest = widest();
            log::error!("IXION_ISA: {reason}; using {}", widest.name());
            widest
        })
    })
}

fn widest() -> Isa {
    Isa::supported().max().unwrap_or(Isa::Scalar)
}

/// The instruction set of this name, or the widest if there is no name.
fn chosen(name: Option<&str>) -> Result<Isa, String> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(widest()) };
    match Isa::ALL.into_iter().find(|isa| isa.name() == name) {
        Some(isa) if isa.is_supported() => Ok(isa),
        Some(_) => Err(format!("this processor does not support {name}")),
        None => {
            let names = Isa::ALL.map(Isa::name).join(", ");
            Err(format!("expected one of {names}, got `{name}`"))
        }
    }
}

/// Returns true if kernels may multiply pairs of `bf16`, which requires AVX-512 BF16 and [`isa`] to be [`Isa::Avx512`].
pub fn multiplies_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_supported = is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    let is_supported = false;
    isa() == Isa::Avx512 && is_supported
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_others_are_explained() {
        assert_eq!(chosen(None), Ok(widest()));
        assert_eq!(chosen(Some("")), Ok(widest()));
        assert_eq!(chosen(Some("scalar")), Ok(Isa::Scalar));
        for isa in Isa::ALL {
            assert_eq!(chosen(Some(isa.name())).is_ok(), isa.is_supported(), "{isa:?}");
        }
        assert_eq!(chosen(Some("mmx")), Err("expected one of scalar, avx2, avx512, got `mmx`".to_owned()));
    }
}
