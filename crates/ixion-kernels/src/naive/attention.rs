//! Attention by its definition.

use super::{matmul, softmax};
use crate::attention::Head;
use ndarray::{Array2, ArrayView2, Ix2};

/// Returns softmax(scale · query·keyᵀ + mask) · value and the softmax itself, computed with all scores at once, as
/// `torch.nn.functional.scaled_dot_product_attention`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn attention(head: &Head<'_, f64>) -> (Array2<f64>, Array2<f64>) {
    let mut scores = matmul(head.query.view(), head.key.t()) * head.scale;
    if let Some(mask) = &head.mask {
        scores += mask;
    }
    for ((row, column), score) in scores.indexed_iter_mut() {
        if head.causal && column > row {
            *score = f64::NEG_INFINITY;
        }
    }
    let mut weights = softmax_of_rows(scores.view());
    for (scores, mut weights) in scores.rows().into_iter().zip(weights.rows_mut()) {
        if head.blind_is_zero && scores.iter().all(|&score| score == f64::NEG_INFINITY) {
            weights.fill(0.0);
        }
    }
    (matmul(weights.view(), head.value.view()), weights)
}

fn softmax_of_rows(scores: ArrayView2<'_, f64>) -> Array2<f64> {
    let weights = softmax(scores.into_dyn(), 1);
    weights.into_dimensionality::<Ix2>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn by_hand() {
        let (query, key) = (array![[1.0], [0.0]], array![[0.0], [3f64.ln()]]);
        let value = array![[4.0], [8.0]];
        let head = |causal| Head {
            query: query.view(),
            key: key.view(),
            value: value.view(),
            mask: None,
            scale: 1.0,
            causal,
            blind_is_zero: true,
        };
        let round = |x: Array2<f64>| x.mapv(|x| (x * 1e9).round() / 1e9);
        assert_eq!(round(attention(&head(false)).0), array![[7.0], [6.0]]);
        assert_eq!(round(attention(&head(true)).1), array![[1.0, 0.0], [0.5, 0.5]]);
    }
}
