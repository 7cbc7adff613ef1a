//! The processor features that a plan requires.

use super::error::PlanFileProblem;

/// Returns an error if this processor lacks a feature.
pub(super) fn check(features: &[String]) -> Result<(), PlanFileProblem> {
    match features.iter().find(|feature| !present().contains(&feature.as_str())) {
        Some(feature) => Err(PlanFileProblem::Feature(feature.clone())),
        None => Ok(()),
    }
}

/// The features that kernels may be compiled for and that this processor has, by Rust's names.
pub(in crate::engine) fn present() -> Vec<&'static str> {
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

    #[test]
    fn a_missing_feature_is_named() {
        assert!(check(&[]).is_ok());
        let error = check(&["avx9000".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("a processor with `avx9000`"), "{error}");
        #[cfg(target_arch = "x86_64")]
        assert_eq!(present().contains(&"avx2"), std::arch::is_x86_feature_detected!("avx2"));
    }
}
