//! Reductions by their definition.

use ndarray::ArrayView1;

/// The sum, as `torch.sum`.
pub fn sum(row: ArrayView1<'_, f64>) -> f64 {
    row.iter().sum()
}

/// The product, as `torch.prod`.
pub fn product(row: ArrayView1<'_, f64>) -> f64 {
    row.iter().product()
}

/// The sum of squared differences from the mean over `n − correction`, as `torch.var`.
pub fn variance(row: ArrayView1<'_, f64>, correction: f64) -> f64 {
    let n = row.len() as f64;
    let mean = sum(row) / n;
    row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - correction).max(0.0)
}

/// log Σ eˣ, as `torch.logsumexp`.
pub fn log_sum_exp(row: ArrayView1<'_, f64>) -> f64 {
    row.iter().map(|x| x.exp()).sum::<f64>().ln()
}

// ANCHOR: norm
/// The p-norm, as `torch.norm`: (Σ |x|ᵖ)^(1/p). For p = 0, it counts the elements that are not 0; for p = ∞, it is the
/// largest |x|, and for p = −∞ the smallest. The norm of a row with NaN is NaN, unless p is 0.
pub fn norm(row: ArrayView1<'_, f64>, p: f64) -> f64 {
    // ANCHOR: norm_todo -- task 4: count for p = 0, largest for p = ∞, smallest for p = −∞, else the formula
    let magnitudes = row.mapv(f64::abs);
    if p == 0.0 {
        magnitudes.iter().filter(|&&x| x != 0.0).count() as f64
    } else if magnitudes.iter().any(|x| x.is_nan()) {
        f64::NAN
    } else if p == f64::INFINITY {
        magnitudes.iter().copied().fold(0.0, f64::max)
    } else if p == f64::NEG_INFINITY {
        magnitudes.iter().copied().fold(f64::INFINITY, f64::min)
    } else {
        magnitudes.iter().map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p)
    }
    // ANCHOR_END: norm_todo
}
// ANCHOR_END: norm

/// The first position of the largest element, or of the first NaN, as `torch.argmax`; `None` for an empty row.
pub fn arg_max(row: ArrayView1<'_, f64>) -> Option<usize> {
    row.iter().position(|x| x.is_nan()).or_else(|| {
        let largest = row.iter().copied().reduce(f64::max)?;
        row.iter().position(|&x| x == largest)
    })
}

/// The first position of the smallest element, or of the first NaN, as `torch.argmin`; `None` for an empty row.
pub fn arg_min(row: ArrayView1<'_, f64>) -> Option<usize> {
    row.iter().position(|x| x.is_nan()).or_else(|| {
        let smallest = row.iter().copied().reduce(f64::min)?;
        row.iter().position(|&x| x == smallest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn by_hand() {
        let row = array![3.0, -1.0, 3.0, 0.0];
        assert_eq!((sum(row.view()), product(row.view())), (5.0, 0.0));
        assert_eq!(variance(array![1.0, 3.0].view(), 1.0), 2.0);
        assert_eq!(log_sum_exp(array![0.0, 3f64.ln()].view()), 4f64.ln());
        assert_eq!([0.0, 1.0, f64::INFINITY].map(|p| norm(row.view(), p)), [3.0, 7.0, 3.0]);
        assert_eq!((arg_max(row.view()), arg_min(row.view())), (Some(0), Some(1)));
        assert_eq!(arg_max(array![1.0, f64::NAN, 2.0].view()), Some(1));
    }
}
