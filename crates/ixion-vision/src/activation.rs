//! From scores to probabilities.

use serde::Deserialize;

/// What turns a model's scores into probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Activation {
    /// Nothing: scores are taken as they are.
    #[default]
    None,
    /// One class excludes the others.
    Softmax,
    /// Each class stands for itself.
    Sigmoid,
}

impl Activation {
    /// The probabilities of a row of scores, one for each class.
    pub fn apply(self, scores: &[f64]) -> Vec<f64> {
        match self {
            Activation::None => scores.to_vec(),
            Activation::Sigmoid => scores.iter().map(|score| 1.0 / (1.0 + (-score).exp())).collect(),
            Activation::Softmax => {
                // The largest is taken off so that nothing overflows.
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let sum: f64 = powers.iter().sum();
                powers.into_iter().map(|power| power / sum).collect()
            }
        }
    }
}

// ANCHOR: sigmoid
/// The logistic function, 1 / (1 + e⁻ˣ): from any number to one between 0 and 1.
pub fn sigmoid(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}
// ANCHOR_END: sigmoid
