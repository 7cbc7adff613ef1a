//! What is done with matrices by products and substitution alone: triangular systems, powers, the exponential.

use crate::tensor::{Complex, Element};
use ndarray::{Array2, ArrayView2, Axis, LinalgScalar, ScalarOperand, ShapeBuilder};

/// A type that matrices are computed in: `f32`, `f64` and their complex numbers.
pub trait Field: Element + LinalgScalar + ScalarOperand + std::ops::Neg<Output = Self> {
    /// The complex conjugate; of a real number itself.
    #[must_use]
    fn conj(self) -> Self;
    /// The distance from 0.
    fn magnitude(self) -> f64;
    /// The number of this type that is nearest to a real one.
    fn nearest(value: f64) -> Self;
    /// The distance between 1 and the next number.
    const EPSILON: f64;
}

macro_rules! fields {
    ($($real:ty),*) => {$(
        impl Field for $real {
            fn conj(self) -> Self {
                self
            }
            fn magnitude(self) -> f64 {
                f64::from(self.abs())
            }
            fn nearest(value: f64) -> Self {
                value as $real
            }
            const EPSILON: f64 = <$real>::EPSILON as f64;
        }

        impl Field for Complex<$real> {
            fn conj(self) -> Self {
                Complex::conj(&self)
            }
            fn magnitude(self) -> f64 {
                f64::from(self.norm())
            }
            fn nearest(value: f64) -> Self {
                Complex::new(value as $real, 0.0)
            }
            const EPSILON: f64 = <$real>::EPSILON as f64;
        }
    )*};
}

fields!(f32, f64);

/// The same matrix with its columns one behind the other in memory, as LAPACK reads them.
pub fn column_major<T: Field>(a: &ArrayView2<'_, T>) -> Array2<T> {
    let mut columns = Array2::zeros(a.raw_dim().f());
    columns.assign(a);
    columns
}

/// The transposed matrix of complex conjugates.
pub fn adjoint<T: Field>(a: &ArrayView2<'_, T>) -> Array2<T> {
    a.t().mapv(T::conj)
}

/// Which triangle of a matrix counts, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Triangle {
    /// The one above the diagonal, else the one below.
    pub upper: bool,
    /// The diagonal is taken for ones, whatever is there.
    pub unit: bool,
}

impl Triangle {
    /// The same of the transposed matrix.
    #[must_use]
    pub fn turned(self) -> Self {
        Self { upper: !self.upper, ..self }
    }
}

/// The x with a·x = b for an n×n triangle a and n×k right-hand sides, which x takes the place of. The other triangle is not
/// read. A 0 on the diagonal gives ∞ or NaN.
///
/// # Panics
/// When the lengths do not fit.
pub fn solve_triangular<T: Field>(a: &ArrayView2<'_, T>, triangle: Triangle, x: &mut Array2<T>) {
    assert!(a.is_square() && a.nrows() == x.nrows(), "as many equations as unknowns");
    let n = a.nrows();
    for step in 0..n {
        let i = if triangle.upper { n - 1 - step } else { step };
        let (above, from) = x.view_mut().split_at(Axis(0), i);
        let (mut row, below) = from.split_at(Axis(0), 1);
        let (known, first) = if triangle.upper { (below, i + 1) } else { (above, 0) };
        for (j, known) in known.rows().into_iter().enumerate() {
            let factor = a[[i, first + j]];
            row.row_mut(0).zip_mut_with(&known, |x, &known| *x = *x - factor * known);
        }
        if !triangle.unit {
            row.mapv_inplace(|x| x / a[[i, i]]);
        }
    }
}

/// A square matrix multiplied by itself so many times; the 0th power is the unit matrix.
pub fn power<T: Field>(a: &Array2<T>, exponent: u64) -> Array2<T> {
    let mut result: Option<Array2<T>> = None;
    let (mut square, mut left) = (a.clone(), exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = Some(result.map_or_else(|| square.clone(), |result| result.dot(&square)));
        }
        left /= 2;
        if left > 0 {
            square = square.dot(&square);
        }
    }
    result.unwrap_or_else(|| Array2::eye(a.nrows()))
}

/// Terms of the series of eˣ: for |x| ≤ 1 the next one is less than 10⁻¹⁷.
const TERMS: u32 = 18;

/// The exponential of a square matrix: its series, of the matrix halved until its sums of magnitudes are at most 1; the result
/// is squared as often.
pub fn exponential<T: Field>(a: &Array2<T>) -> Array2<T> {
    let sums = a.columns().into_iter().map(|column| column.iter().map(|x| x.magnitude()).sum::<f64>());
    let norm = sums.fold(0.0, |most: f64, sum| if sum.is_nan() { sum } else { most.max(sum) });
    if !norm.is_finite() {
        return Array2::from_elem(a.raw_dim(), T::nearest(f64::NAN));
    }
    let halvings = norm.log2().ceil().max(0.0) as i32;
    // In two steps: 2⁻¹⁰²⁴ alone would be 0.
    let half = halvings / 2;
    let a = a * T::nearest(2f64.powi(-half)) * T::nearest(2f64.powi(half - halvings));
    let mut result = Array2::eye(a.nrows());
    for term in (1..=TERMS).rev() {
        result = a.dot(&result) * T::nearest(1.0 / f64::from(term)) + Array2::<T>::eye(a.nrows());
    }
    (0..halvings).fold(result, |result, _| result.dot(&result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive;
    use ndarray::{Array1, array};
    use proptest::prelude::*;

    #[test]
    fn powers() {
        let a = array![[1.0, 1.0], [1.0, 0.0]];
        assert_eq!(power(&a, 10), array![[89.0, 55.0], [55.0, 34.0]]);
        assert_eq!((power(&a, 0), power(&a, 1)), (Array2::eye(2), a));
    }

    #[test]
    fn exponentials() {
        let turn = std::f64::consts::FRAC_PI_3 * array![[0.0, -1.0], [1.0, 0.0]];
        let want = array![[0.5, -0.75f64.sqrt()], [0.75f64.sqrt(), 0.5]];
        assert!((exponential(&turn) - want).iter().all(|x| x.abs() < 1e-15));
        let large = exponential(&array![[40.0, 0.0], [0.0, -40.0]]);
        assert!((large[[0, 0]] / 40f64.exp() - 1.0).abs() < 1e-13, "{large}");
        assert_eq!(exponential(&array![[-1e308, 0.0], [0.0, -1e308]]), Array2::zeros((2, 2)));
        assert_eq!(exponential(&array![[1e308]]), array![[f64::INFINITY]]);
        assert!(exponential(&array![[f64::NAN, 0.0], [1.0, 1.0]]).iter().all(|x| x.is_nan()));
        assert_eq!(exponential(&Array2::<f32>::zeros((0, 0))).len(), 0);
    }

    #[test]
    fn complex_triangles() {
        let i = Complex::new(0.0f64, 1.0);
        let a = array![[i * 2.0, i], [i, i]];
        let mut x = array![[i], [-i]];
        solve_triangular(&a.view(), Triangle { upper: false, unit: true }, &mut x);
        assert_eq!(x, array![[i], [-i + 1.0]]);
        assert_eq!(adjoint(&a.view())[[0, 0]], -i * 2.0);
    }

    proptest! {
        #[test]
        fn triangles_are_solved_as_the_naive_solver_does(
            n in 0..8usize, numbers in proptest::collection::vec(-2f64..2.0, 64), b in proptest::collection::vec(-2f64..2.0, 8),
            unit: bool,
        ) {
            let a = Array2::from_shape_fn((n, n), |(i, j)| numbers[i * 8 + j] + if i == j { 4.0 } else { 0.0 });
            let b = Array1::from_vec(b[..n].to_vec());
            let with_ones = Array2::from_shape_fn((n, n), |(i, j)| if unit && i == j { 1.0 } else { a[[i, j]] });
            let want = naive::solve_upper(with_ones.view(), b.view());
            let mut x = b.clone().insert_axis(Axis(1));
            solve_triangular(&a.view(), Triangle { upper: true, unit }, &mut x);
            prop_assert!((x.column(0).to_owned() - &want).iter().all(|x| x.abs() < 1e-9));
            // Turned upside down, a lower triangle is an upper one.
            let turned = a.slice(ndarray::s![..;-1, ..;-1]);
            let mut x = b.slice(ndarray::s![..;-1]).to_owned().insert_axis(Axis(1));
            solve_triangular(&turned, Triangle { upper: false, unit }, &mut x);
            prop_assert!(x.column(0).iter().rev().zip(&want).all(|(x, want)| (x - want).abs() < 1e-9));
        }
    }
}
