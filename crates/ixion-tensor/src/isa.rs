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

/// What a process computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Selection {
    isa: Isa,
    /// Whether AVX-VNNI is used in addition to AVX2.
    has_avx_vnni: bool,
}

/// The name of AVX2 with AVX-VNNI in `IXION_ISA`.
const AVX_VNNI: &str = "avxvnni";

impl Selection {
    fn name(self) -> &'static str {
        if self.has_avx_vnni { AVX_VNNI } else { self.isa.name() }
    }
}

/// The instruction set of Ixion's own loops and kernels in this process: the widest that the processor supports, or the one
/// that the environment variable `IXION_ISA` names (`scalar`, `neon`, `avx2`, `avx512`, or `avxvnni` for AVX2 with
/// [AVX-VNNI](uses_avx_vnni)), if the processor supports it. It is selected at the first call. Products that are left to the crate
/// `gemm` select their own.
///
/// ```
/// assert!(ixion_tensor::isa().is_supported());
/// ```
#[inline]
pub fn isa() -> Isa {
    selection().isa
}

/// Returns true if [`isa`] is [`Isa::Avx2`], and kernels also use AVX-VNNI, which multiplies bytes: because the processor has both
/// but not AVX-512, or because the environment variable `IXION_ISA` is `avxvnni`.
#[inline]
pub fn uses_avx_vnni() -> bool {
    selection().has_avx_vnni
}

/// The name in `IXION_ISA` of what this process uses.
pub fn isa_name() -> &'static str {
    selection().name()
}

#[inline]
fn selection() -> Selection {
    static SELECTED: OnceLock<Selection> = OnceLock::new();
    *SELECTED.get_or_init(selected)
}

/// The selection for this process.
fn selected() -> Selection {
    let wanted = std::env::var_os("IXION_ISA").map(|name| name.to_string_lossy().into_owned());
    chosen(wanted.as_deref()).unwrap_or_else(|reason| {
        let best = best();
        log::error!("IXION_ISA: {reason}; using {}", best.name());
        best
    })
}

/// Returns true if this processor supports AVX-VNNI in addition to AVX2.
fn supports_avx_vnni() -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_detected = is_x86_feature_detected!("avxvnni");
    #[cfg(not(target_arch = "x86_64"))]
    let is_detected = false;
    Isa::Avx2.is_supported() && is_detected
}

/// The selection for this processor.
fn best() -> Selection {
    let isa = widest();
    Selection { isa, has_avx_vnni: isa == Isa::Avx2 && supports_avx_vnni() }
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

/// The selection of this name, or the best one if there is no name.
fn chosen(name: Option<&str>) -> Result<Selection, String> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(best()) };
    let mut all = Isa::ALL.map(|isa| (Selection { isa, has_avx_vnni: false }, isa.is_supported())).to_vec();
    all.push((Selection { isa: Isa::Avx2, has_avx_vnni: true }, supports_avx_vnni()));
    match all.iter().find(|(selection, _)| selection.name() == name) {
        Some((selection, true)) => Ok(*selection),
        Some(_) => Err(format!("this processor does not support {name}")),
        None => {
            let names: Vec<_> = all.iter().map(|(selection, _)| selection.name()).collect();
            Err(format!("expected one of {}, got `{name}`", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_others_are_explained() {
        assert_eq!(chosen(None), Ok(best()));
        assert_eq!(chosen(Some("")), Ok(best()));
        for isa in Isa::ALL {
            let selection = Selection { isa, has_avx_vnni: false };
            assert_eq!(chosen(Some(isa.name())).ok(), isa.is_supported().then_some(selection), "{isa:?}");
        }
        let selection = Selection { isa: Isa::Avx2, has_avx_vnni: true };
        assert_eq!(chosen(Some("avxvnni")).ok(), supports_avx_vnni().then_some(selection));
        let wanted = "expected one of scalar, neon, avx2, avx512, avxvnni, got `mmx`";
        assert_eq!(chosen(Some("mmx")), Err(wanted.to_owned()));
    }

    #[test]
    fn only_instruction_sets_of_the_architecture_are_supported() {
        assert!(Isa::supported().all(Isa::is_compiled));
        assert_eq!(Isa::Neon.is_supported(), cfg!(target_arch = "aarch64"));
        assert!(!(Isa::Neon.is_supported() && Isa::Avx2.is_supported()));
    }
}
