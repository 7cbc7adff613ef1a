//! The instruction sets that loops and kernels use.

use std::sync::OnceLock;

/// An instruction set that kernels are written for, from the narrowest vectors to the widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// The baseline of the target, which every processor supports.
    Scalar,
    /// Neon, which every 64-bit ARM processor supports: two vectors of 4 `f32` lanes, used like one of 8 lanes.
    Neon,
    /// AVX2 and FMA: vectors of 8 `f32` lanes.
    Avx2,
    /// AVX-512 F, VL, DQ and BW in addition to AVX2 and FMA: vectors of 16 `f32` lanes.
    Avx512,
}

impl Isa {
    /// All instruction sets, from the narrowest vectors to the widest.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512];

    /// The name of the instruction set in `IXION_ISA`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The number of `f32` lanes of a vector. Without vectors, this many values are computed together.
    #[inline]
    pub const fn lanes(self) -> usize {
        match self {
            Self::Scalar | Self::Neon | Self::Avx2 => 8,
            Self::Avx512 => 16,
        }
    }

    /// Returns true if kernels are compiled for the instruction set, because it is one of the target's architecture.
    #[inline]
    pub const fn is_compiled(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Neon => cfg!(target_arch = "aarch64"),
            Self::Avx2 | Self::Avx512 => cfg!(target_arch = "x86_64"),
        }
    }

    /// Returns true if this processor supports the instruction set, and kernels are compiled for it.
    #[inline]
    pub fn is_supported(self) -> bool {
        self.is_compiled() && self <= widest()
    }

    /// Queries the processor. One that supports an instruction set supports all narrower ones of its architecture.
    fn is_detected(self) -> bool {
        match self {
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
            // Every processor of the architecture has the others.
            _ => self.is_compiled(),
        }
    }

    /// The instruction sets that this processor supports.
    pub fn supported() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_supported())
    }
}

/// The instruction set of Ixion's own loops and kernels in this process: the widest that the processor supports, or the one
/// that the environment variable `IXION_ISA` names (`scalar`, `neon`, `avx2`, `avx512`), if the processor supports it. It is
/// selected at the first call. Products that are left to the crate `gemm` select their own.
///
/// ```
/// assert!(ixion_tensor::isa().is_supported());
/// ```
#[inline]
pub fn isa() -> Isa {
    static SELECTED: OnceLock<Isa> = OnceLock::new();
    *SELECTED.get_or_init(selected)
}

/// The instruction set for this process.
fn selected() -> Isa {
    let wanted = std::env::var_os("IXION_ISA").map(|name| name.to_string_lossy().into_owned());
    chosen(wanted.as_deref()).unwrap_or_else(|reason| {
        let widest = widest();
        log::error!("IXION_ISA: {reason}; using {}", widest.name());
        widest
    })
}

/// The widest instruction set of this processor.
#[inline]
fn widest() -> Isa {
    static WIDEST: OnceLock<Isa> = OnceLock::new();
    *WIDEST.get_or_init(detected)
}

/// Queries the processor for its widest instruction set.
fn detected() -> Isa {
    Isa::ALL.into_iter().filter(|isa| isa.is_detected()).max().unwrap_or(Isa::Scalar)
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
        let wanted = "expected one of scalar, neon, avx2, avx512, got `mmx`";
        assert_eq!(chosen(Some("mmx")), Err(wanted.to_owned()));
    }

    #[test]
    fn only_instruction_sets_of_the_architecture_are_supported() {
        assert!(Isa::supported().all(Isa::is_compiled));
        assert_eq!(Isa::Neon.is_supported(), cfg!(target_arch = "aarch64"));
        assert!(!(Isa::Neon.is_supported() && Isa::Avx2.is_supported()));
    }
}
