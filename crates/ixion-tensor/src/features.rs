//! The features of the processor.

/// The features that loops and kernels may be compiled for and that this processor has, by Rust's names.
pub fn processor_features() -> Vec<&'static str> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    macro_rules! present {
        ($detected:ident, $($feature:tt),+) => {
            [$(($feature, std::arch::$detected!($feature))),+]
        };
    }
    #[cfg(target_arch = "x86_64")]
    let all = present!(
        is_x86_feature_detected,
        "sse4.1",
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avxvnni",
        "avx512f",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16",
        "avx512fp16"
    );
    #[cfg(target_arch = "aarch64")]
    let all = present!(is_aarch64_feature_detected, "neon", "dotprod", "fp16", "i8mm", "bf16", "sve", "sve2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let all: [(&str, bool); 0] = [];
    all.into_iter().filter(|(_, is_there)| *is_there).map(|(feature, _)| feature).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn features_belong_to_instruction_sets() {
        assert_eq!(processor_features().contains(&"neon"), Isa::Neon.is_supported());
        for (isa, feature) in [(Isa::Avx2, "avx2"), (Isa::Avx512, "avx512vl")] {
            assert!(!isa.is_supported() || processor_features().contains(&feature), "{feature}");
        }
    }
}
