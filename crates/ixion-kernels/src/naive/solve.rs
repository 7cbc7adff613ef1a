//! Systems of linear equations, by elimination.

use crate::Float;
use ndarray::{Array1, ArrayView1, ArrayView2};

// ANCHOR: solve
/// Solves u·x = b for an upper triangular matrix u, as `torch.linalg.solve_triangular` with `upper=True`. Elements below
/// the diagonal are not read. A 0 on the diagonal gives ∞ or NaN.
///
/// # Panics
/// Panics if u is not square, or b has another length.
pub fn solve_upper<T: Float>(u: ArrayView2<'_, T>, b: ArrayView1<'_, T>) -> Array1<T> {
    // ANCHOR: solve_upper_todo -- task 5: the last row gives the last x; substitute it into the rows above, and so on
    assert!(u.is_square() && u.nrows() == b.len(), "as many equations as unknowns");
    let (n, mut x) = (b.len(), b.to_owned());
    for i in (0..n).rev() {
        let known: T = (i + 1..n).map(|j| u[[i, j]] * x[j]).sum();
        x[i] = (x[i] - known) / u[[i, i]];
    }
    x
    // ANCHOR_END: solve_upper_todo
}

/// Solves a·x = b, as `torch.linalg.solve`, by Gaussian elimination with partial pivoting: for each unknown, the
/// remaining row with the largest coefficient is used. Returns `None` if all these coefficients are 0: the matrix is then
/// singular, up to rounding.
///
/// # Panics
/// Panics if a is not square, or b has another length.
pub fn solve<T: Float>(a: ArrayView2<'_, T>, b: ArrayView1<'_, T>) -> Option<Array1<T>> {
    // ANCHOR: solve_todo -- task 5: for each column swap the largest coefficient up, make those below it 0, then solve_upper
    assert!(a.is_square() && a.nrows() == b.len(), "as many equations as unknowns");
    let (n, mut a, mut b) = (b.len(), a.to_owned(), b.to_owned());
    for k in 0..n {
        let largest = (k..n).fold(k, |best, i| if a[[i, k]].abs() > a[[best, k]].abs() { i } else { best });
        if a[[largest, k]] == T::zero() {
            return None;
        }
        (0..n).for_each(|j| a.swap([k, j], [largest, j]));
        b.swap(k, largest);
        for i in k + 1..n {
            let factor = a[[i, k]] / a[[k, k]];
            for j in k..n {
                a[[i, j]] = a[[i, j]] - factor * a[[k, j]];
            }
            b[i] = b[i] - factor * b[k];
        }
    }
    Some(solve_upper(a.view(), b.view()))
    // ANCHOR_END: solve_todo
}
// ANCHOR_END: solve

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, Axis, array};
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let (a, b) = (array![[0.0, 2.0], [3.0, 1.0]], array![4.0, 5.0]);
        assert_eq!(solve(a.view(), b.view()), Some(array![1.0, 2.0]));
        assert_eq!(
            solve_upper(array![[2.0, 1.0], [9.0, 4.0]].view(), array![5.0, 4.0].view()),
            array![2.0, 1.0]
        );
        assert_eq!(solve(array![[1.0, 2.0], [2.0, 4.0]].view(), b.view()), None);
        let tiny = array![[1e-20, 1.0], [1.0, 1.0]];
        assert_eq!(solve(tiny.view(), array![1.0, 2.0].view()), Some(array![1.0, 1.0]));
    }

    #[test]
    fn nan_is_not_hidden() {
        let a = array![[f64::NAN, 2.0], [3.0, 1.0]];
        assert!(solve(a.view(), array![4.0, 5.0].view()).unwrap().iter().all(|x| x.is_nan()));
    }

    /// Square matrices with zeros and equal numbers among their elements, and a right-hand side.
    fn equations() -> impl Strategy<Value = (Array2<f64>, Array1<f64>)> {
        (1..9usize).prop_flat_map(|n| {
            let number = prop_oneof![Just(0.0), (-4..5i8).prop_map(f64::from), -1e3..1e3];
            let a = proptest::collection::vec(number, n * n);
            let b = proptest::collection::vec(-1e3..1e3, n);
            let square = move |a| Array2::from_shape_vec((n, n), a).unwrap();
            (a.prop_map(square), b.prop_map(Array1::from_vec))
        })
    }

    /// Equations that have a solution: the diagonal outweighs the rest of its row, until the rows are shuffled.
    fn regular() -> impl Strategy<Value = (Array2<f64>, Array1<f64>)> {
        let dominated = equations().prop_map(|(mut a, b)| {
            for i in 0..b.len() {
                a[[i, i]] += 1.0 + a.row(i).mapv(f64::abs).sum() * 2.0;
            }
            (a, b)
        });
        dominated.prop_flat_map(|(a, b)| {
            let order = Just((0..b.len()).collect::<Vec<_>>()).prop_shuffle();
            order.prop_map(move |order| (a.select(Axis(0), &order), b.clone()))
        })
    }

    /// Wilkinson's bound on the residual: with partial pivoting, elements grow by a factor of 2 per column at worst.
    fn bound(a: &Array2<f64>, x: &Array1<f64>) -> f64 {
        let n = x.len();
        let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let norm = largest(&mut a.rows().into_iter().map(|row| row.mapv(f64::abs).sum()));
        let growth = 2f64.powi(n as i32 - 1);
        3.0 * (n as f64).powi(3) * growth * f64::EPSILON * norm * largest(&mut x.iter().map(|x| x.abs()))
    }

    proptest! {
        #[test]
        fn the_result_solves_the_equations((a, b) in regular()) {
            let x = solve(a.view(), b.view());
            prop_assert!(x.is_some(), "taken for singular: {a}");
            let x = x.unwrap();
            prop_assert!(x.iter().all(|x| x.is_finite()), "{x}");
            for left_over in a.dot(&x) - &b {
                prop_assert!(left_over.abs() <= bound(&a, &x), "{left_over} > {}", bound(&a, &x));
            }
        }

        #[test]
        fn singular_matrices_are_detected((a, b) in equations(), column: prop::sample::Index) {
            let mut a = a;
            a.index_axis_mut(Axis(1), column.index(b.len())).fill(0.0);
            prop_assert_eq!(solve(a.view(), b.view()), None);
        }
    }
}
