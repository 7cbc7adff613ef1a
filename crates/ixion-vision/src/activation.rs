//! Conversion of scores to probabilities.

use serde::Deserialize;

/// The function that converts a model's scores to probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Activation {
    /// No conversion: scores are used unchanged.
    #[default]
    None,
    /// Softmax over all classes: classes are mutually exclusive.
    Softmax,
    /// Sigmoid of each score: classes are independent.
    Sigmoid,
}

impl Activation {
    /// The probabilities of a row of scores, one for each class.
    pub fn apply(self, scores: &[f64]) -> Vec<f64> {
        match self {
            Activation::None => scores.to_vec(),
            Activation::Sigmoid => scores.iter().map(|score| 1.0 / (1.0 + (-score).exp())).collect(),
            Activation::Softmax => {
                // Subtracting the largest score avoids overflow.
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let sum: f64 = powers.iter().sum();
                powers.into_iter().map(|power| power / sum).collect()
            }
        }
    }
}

// ANCHOR: sigmoid
/// The logistic function, 1 / (1 + e⁻ˣ): maps any number to between 0 and 1.
pub fn sigmoid(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}
// ANCHOR_END: sigmoid
