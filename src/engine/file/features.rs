//! The processor features that a plan requires.

use super::error::PlanFileProblem;
use crate::tensor::processor_features;

/// Returns an error if this processor lacks a feature.
pub(super) fn check(features: &[String]) -> Result<(), PlanFileProblem> {
    let present = processor_features();
    match features.iter().find(|feature| !present.contains(&feature.as_str())) {
        Some(feature) => Err(PlanFileProblem::Feature(feature.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_named() {
        assert!(check(&[]).is_ok());
        let error = check(&["avx9000".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("a processor with `avx9000`"), "{error}");
        let all: Vec<String> = processor_features().into_iter().map(str::to_owned).collect();
        assert!(check(&all).is_ok());
    }
}
