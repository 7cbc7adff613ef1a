//! Ranking of classes by score.

use super::error::{OutputError, Result};
use super::{Activation, label_of};
use ixion_tensor::{DType, Tensor};

/// A class and its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The index of the class.
    pub index: usize,
    /// The label, or the class number if there is none.
    pub label: String,
    /// A probability in 0..1, or the model's raw score without an activation.
    pub score: f64,
    /// Whether an activation converted the score to a probability.
    pub is_probability: bool,
}

/// The `top` best classes for each picture, best first. NaN ranks below any score; among equal scores, the first class
/// ranks higher. `scores` are floats of shape classes or pictures × classes.
///
/// ```
/// use ixion_tensor::Tensor;
/// use ixion_vision::{Activation, rank};
/// let scores = Tensor::from_vec(vec![0.0f32, 2.0, 1.0], &[1, 3])?;
/// let labels = ["ant", "bee", "cow"].map(String::from);
/// let best = &rank(&scores, Activation::Softmax, &labels, 1)?[0][0];
/// assert_eq!((best.label.as_str(), best.index), ("bee", 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`VisionError::Output`](super::VisionError::Output) for any other shape or element type, or if there are labels and the
/// number of classes differs from theirs.
pub fn rank(
    scores: &Tensor,
    activation: Activation,
    labels: &[String],
    top: usize,
) -> Result<Vec<Vec<Class>>> {
    let count = match scores.shape().dims() {
        [classes] | [_, classes] if *classes > 0 => *classes,
        _ => {
            return Err(OutputError::shape(scores, "classes or images×classes", "").at(0));
        }
    };
    if !scores.dtype().is_float() {
        return Err(OutputError::DType { found: scores.dtype() }.at(0));
    }
    if !labels.is_empty() && labels.len() != count {
        return Err(OutputError::Classes { found: count, labels: labels.len() }.at(0));
    }
    let values = scores.cast(DType::F64)?.to_vec::<f64>()?;
    let best = |row| best(activation.apply(row), activation, labels, top);
    Ok(values.chunks_exact(count).map(best).collect())
}

fn best(scores: Vec<f64>, activation: Activation, labels: &[String], top: usize) -> Vec<Class> {
    let class = |index: usize| {
        let (label, score) = (label_of(labels, index), scores[index]);
        Class { index, label, score, is_probability: activation != Activation::None }
    };
    ranked(&scores).into_iter().take(top).map(class).collect()
}

// ANCHOR: ranked
/// The class indices by descending score. NaN counts as −∞; among equal scores, the first class comes first.
pub fn ranked(scores: &[f64]) -> Vec<usize> {
    // ANCHOR: ranked_todo -- task 5: the class indices, sorted by their scores
    let key = |class: usize| if scores[class].is_nan() { f64::NEG_INFINITY } else { scores[class] };
    let mut classes: Vec<usize> = (0..scores.len()).collect();
    classes.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
    classes
    // ANCHOR_END: ranked_todo
}

/// Top-k accuracy: the share of pictures whose label is among the `top` classes by score; `None` without pictures.
pub fn accuracy(scores: &[Vec<f64>], labels: &[usize], top: usize) -> Option<f64> {
    // ANCHOR: accuracy_todo -- task 5: the number of labels among the best, divided by the number of labels
    let is_right =
        |(scores, label): (&Vec<f64>, &usize)| ranked(scores).iter().take(top).any(|at| at == label);
    let right = scores.iter().zip(labels).filter(|&pair| is_right(pair)).count();
    (!labels.is_empty()).then(|| right as f64 / labels.len() as f64)
    // ANCHOR_END: accuracy_todo
}
// ANCHOR_END: ranked

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f32], shape: &[usize]) -> Tensor {
        Tensor::from_vec(values.to_vec(), shape).unwrap()
    }

    #[test]
    fn the_best_come_first_with_their_labels() {
        let labels = ["ant", "bee", "cow"].map(String::from);
        let rows =
            rank(&scores(&[0.0, 2.0, 1.0, 5.0, 0.0, 0.0], &[2, 3]), Activation::Softmax, &labels, 2).unwrap();
        let found: Vec<Vec<&str>> =
            rows.iter().map(|row| row.iter().map(|class| class.label.as_str()).collect()).collect();
        assert_eq!(found, [["bee", "cow"], ["ant", "bee"]]);
        let wanted = 2f64.exp() / (1.0 + 1f64.exp() + 2f64.exp());
        assert!((rows[0][0].score - wanted).abs() < 1e-12);
    }

    #[test]
    fn large_scores_do_not_overflow_and_nan_comes_last() {
        let rows = rank(&scores(&[1e30, -1e30], &[2]), Activation::Softmax, &[], 5).unwrap();
        assert_eq!((rows[0][0].score, rows[0][0].label.as_str()), (1.0, "0"));
        let rows = rank(&scores(&[f32::NAN, -1.0], &[2]), Activation::Sigmoid, &[], 5).unwrap();
        assert_eq!(rows[0][0].index, 1);
    }

    #[test]
    fn accuracy_by_hand() {
        let scores = [vec![0.1, 0.7, 0.2], vec![0.5, 0.5, 0.4], vec![f64::NAN, -1.0, -2.0]];
        assert_eq!((ranked(&scores[1]), ranked(&scores[2])), (vec![0, 1, 2], vec![1, 2, 0]));
        assert_eq!(accuracy(&scores, &[1, 1, 0], 1), Some(1.0 / 3.0));
        assert_eq!(accuracy(&scores, &[1, 1, 0], 2), Some(2.0 / 3.0));
        assert_eq!((accuracy(&scores, &[1, 1, 0], 9), accuracy(&[], &[], 1)), (Some(1.0), None));
    }

    #[test]
    fn invalid_scores_are_rejected() {
        let of = |tensor: &Tensor| rank(tensor, Activation::None, &["a".into()], 1).unwrap_err().to_string();
        assert!(of(&scores(&[0.0; 4], &[1, 2, 2])).contains("1×2×2"));
        assert_eq!(of(&scores(&[0.0; 2], &[2])), "output 0 has 2 classes, but there are 1 labels");
        assert!(of(&Tensor::scalar(1i64)).contains("shape"));
    }
}
