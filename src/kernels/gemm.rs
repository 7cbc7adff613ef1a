//! Matrix products on slices, through the crate `gemm`.

use super::Float;
use ndarray::{ArrayView2, ArrayViewMut2};

/// C = A·B, or C = C + A·B with `accumulate`: (m×k)·(k×n) → m×n, of any strides.
///
/// # Panics
/// When the shapes do not fit each other; callers have checked them.
pub fn gemm<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut c: ArrayViewMut2<'_, T>,
    accumulate: bool,
) {
    let ((m, k), (k_b, n)) = (a.dim(), b.dim());
    assert!(k == k_b && c.dim() == (m, n), "{m}×{k} · {k_b}×{n} does not give {:?}", c.dim());
    let [c_rows, c_cols] = [c.strides()[0], c.strides()[1]];
    // SAFETY: all three are ndarray views, so every element that shape and strides reach is valid; C is borrowed
    // mutably and thus apart from A and B, and its elements are distinct, as an `ArrayViewMut2` cannot overlap itself.
    // C is not read when it is not accumulated to. Sizes were compared above.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            c_cols,
            c_rows,
            accumulate,
            a.as_ptr(),
            a.strides()[1],
            a.strides()[0],
            b.as_ptr(),
            b.strides()[1],
            b.strides()[0],
            T::one(),
            T::one(),
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive;
    use ndarray::Array2;
    use proptest::prelude::*;

    fn matrix(rows: usize, cols: usize, seed: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, cols), |(i, j)| ((i * 7 + j * 13 + seed) % 11) as f64 - 5.0)
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_product(m in 0usize..12, k in 0usize..12, n in 0usize..12, turn: bool, accumulate: bool) {
            let a = matrix(m, k, 1);
            let stored = if turn { matrix(n, k, 2) } else { matrix(k, n, 2) };
            let b = if turn { stored.t() } else { stored.view() };
            let mut c = matrix(m, n, 3);
            let mut want = if accumulate { c.clone() } else { Array2::zeros((m, n)) };
            want += &naive::matmul(a.view(), b);
            gemm(a.view(), b, c.view_mut(), accumulate);
            prop_assert_eq!(c, want);
        }
    }
}
