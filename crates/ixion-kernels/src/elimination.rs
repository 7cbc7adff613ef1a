//! LU decomposition: a matrix as a unit lower triangle times an upper triangle, with row pivoting.
//!
//! Columns are split in halves recursively, so that matrix products do most of the work. Pivots are chosen as in LAPACK:
//! the element with the largest |re| + |im|, and the first of several.

use super::matrix::{Fault, Field, Triangle, adjoint, multiply, solve_triangular};
use ixion_tensor::{LimitError, Limits};
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis};

/// An LU decomposition.
#[derive(Debug, Clone, PartialEq)]
pub struct Lu<T> {
    /// m×n: the lower triangle below the diagonal, the upper one on it and above.
    pub factors: Array2<T>,
    /// The row that each of the first min(m, n) rows was swapped with, in order.
    pub rows: Vec<usize>,
    /// The index of the first 0 on the diagonal, if there is one.
    pub singular: Option<usize>,
}

const LOWER: Triangle = Triangle { upper: false, unit: true };
const UPPER: Triangle = Triangle { upper: true, unit: false };

impl<T: Field> Lu<T> {
    /// Decomposes an m×n matrix.
    ///
    /// # Errors
    /// [`LimitError`] if the deadline has passed.
    pub fn of(a: &ArrayView2<'_, T>, limits: &Limits) -> Result<Self, LimitError> {
        let mut factors = a.as_standard_layout().into_owned();
        let mut rows = vec![0; a.nrows().min(a.ncols())];
        let singular = eliminate(&mut factors.view_mut(), &mut rows, limits)?;
        Ok(Self { factors, rows, singular })
    }

    /// The lower triangle, m×min(m, n).
    pub fn lower(&self) -> Array2<T> {
        lower(&self.factors.view())
    }

    /// The upper triangle, min(m, n)×n.
    pub fn upper(&self) -> Array2<T> {
        upper(&self.factors.view())
    }
}

/// The lower triangle of m×n [factors](Lu::factors), with ones on its diagonal.
pub fn lower<T: Field>(factors: &ArrayView2<'_, T>) -> Array2<T> {
    let (m, n) = factors.dim();
    Array2::from_shape_fn((m, m.min(n)), |(i, j)| match i.cmp(&j) {
        std::cmp::Ordering::Less => T::zero(),
        std::cmp::Ordering::Equal => T::one(),
        std::cmp::Ordering::Greater => factors[[i, j]],
    })
}

/// The upper triangle of m×n [factors](Lu::factors).
pub fn upper<T: Field>(factors: &ArrayView2<'_, T>) -> Array2<T> {
    let (m, n) = factors.dim();
    Array2::from_shape_fn((m.min(n), n), |(i, j)| if i <= j { factors[[i, j]] } else { T::zero() })
}

/// The m×m permutation matrix P with P·L·U = A, from the swapped [rows](Lu::rows).
pub fn permutation<T: Field>(rows: &[usize], m: usize) -> Array2<T> {
    let mut order: Vec<usize> = (0..m).collect();
    rows.iter().enumerate().for_each(|(i, &row)| order.swap(i, row));
    let mut matrix = Array2::zeros((m, m));
    order.iter().enumerate().for_each(|(i, &row)| matrix[[row, i]] = T::one());
    matrix
}

/// Converts LAPACK's pivots, which count rows from 1, to row indices.
///
/// # Errors
/// [`Fault::NoRow`] if a pivot is not between 1 and `count`.
pub fn rows_of(pivots: &[i32], count: usize) -> Result<Vec<usize>, Fault> {
    let row = |&found: &i32| {
        let row = usize::try_from(found).ok().and_then(|row| row.checked_sub(1)).filter(|&row| row < count);
        row.ok_or(Fault::NoRow { found, rows: count })
    };
    pivots.iter().map(row).collect()
}

/// Swaps two rows.
pub(super) fn swap<T>(a: &mut ArrayViewMut2<'_, T>, i: usize, j: usize) {
    if i != j {
        (0..a.ncols()).for_each(|column| a.swap([i, column], [j, column]));
    }
}

/// Decomposes a matrix in place. Returns the index of the first 0 on the diagonal.
fn eliminate<T: Field>(
    a: &mut ArrayViewMut2<'_, T>,
    rows: &mut [usize],
    limits: &Limits,
) -> Result<Option<usize>, LimitError> {
    if let [row] = rows {
        limits.check_deadline()?;
        return Ok(eliminate_column(a, row));
    }
    let half = rows.len() / 2;
    if half == 0 {
        return Ok(None);
    }
    let (first_rows, last_rows) = rows.split_at_mut(half);
    let (mut left, mut right) = a.view_mut().split_at(Axis(1), half);
    let first = eliminate(&mut left, first_rows, limits)?;
    first_rows.iter().enumerate().for_each(|(i, &row)| swap(&mut right, i, row));
    let (top, mut below) = left.split_at(Axis(0), half);
    let (mut above, mut rest) = right.split_at(Axis(0), half);
    solve_triangular(&top.view(), LOWER, &mut above, limits)?;
    multiply((-T::one(), &below.view(), &above.view()), (T::one(), &mut rest), limits)?;
    let last = eliminate(&mut rest, last_rows, limits)?;
    last_rows.iter().enumerate().for_each(|(i, &row)| swap(&mut below, i, row));
    last_rows.iter_mut().for_each(|row| *row += half);
    Ok(first.or(last.map(|at| at + half)))
}

/// The same for a matrix of one row or one column.
fn eliminate_column<T: Field>(a: &mut ArrayViewMut2<'_, T>, row: &mut usize) -> Option<usize> {
    let mut column = a.column_mut(0);
    let larger =
        |best: usize, at: usize| if column[at].taxicab() > column[best].taxicab() { at } else { best };
    *row = (0..column.len()).fold(0, larger);
    column.swap(0, *row);
    let pivot = column[0];
    if pivot.is_zero() {
        return Some(0);
    }
    column.iter_mut().skip(1).for_each(|x| *x = *x / pivot);
    None
}

/// Solves a·x = b, given the factors of an n×n matrix a and n×k right-hand sides.
///
/// # Errors
/// [`Fault::Limit`] if the deadline has passed.
pub fn solve<T: Field>(
    factors: &ArrayView2<'_, T>,
    rows: &[usize],
    b: &ArrayView2<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, Fault> {
    let mut x = b.as_standard_layout().into_owned();
    rows.iter().enumerate().for_each(|(i, &row)| swap(&mut x.view_mut(), i, row));
    solve_triangular(factors, LOWER, &mut x.view_mut(), limits)?;
    solve_triangular(factors, UPPER, &mut x.view_mut(), limits)?;
    Ok(x)
}

/// Solves aᴴ·x = b.
///
/// # Errors
/// As [`solve`].
pub fn solve_adjoint<T: Field>(
    factors: &ArrayView2<'_, T>,
    rows: &[usize],
    b: &ArrayView2<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, Fault> {
    let (mut x, turned) = (b.as_standard_layout().into_owned(), adjoint(factors));
    solve_triangular(&turned.view(), UPPER.turned(), &mut x.view_mut(), limits)?;
    solve_triangular(&turned.view(), LOWER.turned(), &mut x.view_mut(), limits)?;
    rows.iter().enumerate().rev().for_each(|(i, &row)| swap(&mut x.view_mut(), i, row));
    Ok(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Complex;
    use ndarray::array;
    use proptest::prelude::*;

    fn lu(a: &Array2<f64>) -> Lu<f64> {
        Lu::of(&a.view(), &Limits::default()).unwrap()
    }

    #[test]
    fn the_largest_of_a_column_comes_first() {
        let found = lu(&array![[2.0, 4.0], [-4.0, 2.0], [1.0, 0.0]]);
        assert_eq!(found.rows, [1, 1]);
        assert_eq!(found.factors, array![[-4.0, 2.0], [-0.5, 5.0], [-0.25, 0.1]]);
        assert_eq!((found.lower().dim(), found.upper().dim(), found.singular), ((3, 2), (2, 2), None));
    }

    #[test]
    fn zeros_on_the_diagonal_are_reported() {
        assert_eq!(lu(&array![[1.0, 2.0], [2.0, 4.0]]).singular, Some(1));
        assert_eq!(lu(&Array2::zeros((3, 3))).singular, Some(0));
        assert_eq!(lu(&Array2::zeros((0, 3))).singular, None);
    }

    #[test]
    fn invalid_pivots_are_errors() {
        assert_eq!(rows_of(&[3, 1], 3), Ok(vec![2, 0]));
        for found in [0, 4, -1, i32::MIN] {
            assert_eq!(rows_of(&[1, found], 3), Err(Fault::NoRow { found, rows: 3 }));
        }
    }

    #[test]
    fn complex_matrices() {
        let i = Complex::new(0.0f64, 1.0);
        let a = array![[i, i * 2.0 + 1.0], [-i + 3.0, i * 4.0]];
        let found = Lu::of(&a.view(), &Limits::default()).unwrap();
        let b = array![[i], [i + 1.0]];
        let limits = Limits::default();
        let near =
            |a: Array2<Complex<f64>>, b: &Array2<Complex<f64>>| (a - b).iter().all(|x| x.norm() < 1e-14);
        let x = solve(&found.factors.view(), &found.rows, &b.view(), &limits).unwrap();
        assert!(near(a.dot(&x), &b));
        let x = solve_adjoint(&found.factors.view(), &found.rows, &b.view(), &limits).unwrap();
        assert!(near(adjoint(&a.view()).dot(&x), &b));
    }

    #[test]
    fn a_large_matrix_stops_at_the_deadline() {
        let a = Array2::from_shape_fn((1500, 1500), |(i, j)| ((i * 7 + j * j) % 1009) as f32);
        let limits = Limits::default().with_timeout(std::time::Duration::from_millis(5));
        assert_eq!(Lu::of(&a.view(), &limits), Err(LimitError::DeadlineExceeded));
    }

    proptest! {
        #[test]
        fn the_factors_multiply_to_the_matrix(m in 0..50usize, n in 0..50usize, seed in 0..1000usize) {
            let a = Array2::from_shape_fn((m, n), |(i, j)| ((i * 37 + j * 91 + i * j * 13 + seed) % 101) as f64 / 50.0 - 1.0);
            let found = lu(&a);
            let product = permutation::<f64>(&found.rows, m).dot(&found.lower().dot(&found.upper()));
            prop_assert!((product - &a).iter().all(|x| x.abs() < 1e-11));
            prop_assert!(found.lower().iter().all(|x| x.abs() <= 1.0));
        }
    }
}
