//! Distances by their definition.

use super::norm;
use ndarray::{Array2, ArrayView2};

/// The p-norm of the difference of each row of `x` and each row of `y`, as `torch.cdist`: if an element of the difference is
/// NaN, so is the norm, except for p = ∞, which ignores it.
///
/// # Panics
/// Panics if the rows have different lengths.
pub fn distances(x: ArrayView2<'_, f64>, y: ArrayView2<'_, f64>, p: f64) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        let difference = &x.row(i) - &y.row(j);
        if p == f64::INFINITY {
            difference.iter().fold(0.0, |largest, x| x.abs().max(largest))
        } else if difference.iter().any(|x| x.is_nan()) {
            f64::NAN
        } else {
            norm(difference.view(), p)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn by_hand() {
        let (x, y) = (array![[1.0, 2.0], [4.0, 6.0]], array![[1.0, 2.0]]);
        assert_eq!(distances(x.view(), y.view(), 2.0), array![[0.0], [5.0]]);
        assert_eq!(distances(x.view(), y.view(), 1.0), array![[0.0], [7.0]]);
        let odd = array![[f64::NAN, 2.5]];
        assert_eq!(distances(x.view(), odd.view(), f64::INFINITY), array![[0.5], [3.5]]);
        assert!(distances(x.view(), odd.view(), 0.0).iter().all(|distance| distance.is_nan()));
    }
}
