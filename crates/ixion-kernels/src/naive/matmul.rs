//! The matrix product.

use crate::Float;
use ndarray::{Array2, ArrayView2};

// ANCHOR: matmul
/// The product of an m×k and a k×n matrix: each element is a row times a column.
///
/// # Panics
/// Panics if the inner lengths differ.
pub fn matmul<T: Float>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    // ANCHOR: matmul_todo -- task 3: each row of a times each column of b
    assert_eq!(a.ncols(), b.nrows(), "the inner lengths of a matrix product must be equal");
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        a.row(i).iter().zip(b.column(j)).map(|(&x, &y)| x * y).sum()
    })
    // ANCHOR_END: matmul_todo
}
// ANCHOR_END: matmul

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::arr2;

    #[test]
    fn a_product_by_hand() {
        let product = matmul(arr2(&[[1f32, 2.0], [3.0, 4.0]]).view(), arr2(&[[5.0], [6.0]]).view());
        assert_eq!(product, arr2(&[[17.0], [39.0]]));
    }
}
