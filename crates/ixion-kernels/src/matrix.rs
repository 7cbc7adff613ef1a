//! Matrix operations by products and substitution alone: triangular systems, powers, the exponential.

use ixion_tensor::{Complex, Element, Float};
use ixion_tensor::{LimitError, Limits};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, LinalgScalar, ScalarOperand};

/// The reason why a computation with a matrix fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The matrix is singular: the row and column, counted from 1, where elimination finds only zeros.
    #[error("it is singular: only zeros are left for element {0} of the diagonal")]
    Singular(usize),
    /// The matrix is not positive definite: the order of the first leading minor that is not.
    #[error("it is not positive definite: its leading minor of order {0} is not")]
    NotPositive(usize),
    /// An element is NaN or infinite.
    #[error("it contains NaN or infinite elements")]
    NotFinite,
    /// An iteration of LAPACK does not converge: its return code.
    #[error("LAPACK did not converge (return code {0})")]
    Diverged(i32),
    /// LAPACK rejects an argument: its number, counted from 1.
    #[error("LAPACK rejected argument {0} of its routine")]
    Refused(u32),
    /// The matrix, or LAPACK's workspace for it, has more elements than LAPACK can count.
    #[error("it is too large: LAPACK counts at most 2147483647 elements")]
    TooLarge,
    /// A pivot names a row, counted from 1, that does not exist.
    #[error("expected a pivot among {rows} rows, got row {found}")]
    NoRow {
        /// The row that the pivot names.
        found: i32,
        /// The number of rows.
        rows: usize,
    },
    /// No thread could be started for LAPACK.
    #[error("could not start a thread for LAPACK: {0}")]
    NoThread(std::io::ErrorKind),
    /// A limit was exceeded, such as the deadline.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// An element type of matrices: `f32`, `f64` and their complex counterparts.
pub trait Field: Element + LinalgScalar + ScalarOperand + std::ops::Neg<Output = Self> {
    /// The distance between 1 and the next larger number.
    const EPSILON: f64;

    /// The complex conjugate; a real number is its own.
    #[must_use]
    fn conj(self) -> Self {
        self
    }

    /// The absolute value.
    fn magnitude(self) -> f64;

    /// The sum of the magnitudes of the real and the imaginary part, by which LAPACK compares elements when it looks for
    /// a large one.
    fn taxicab(self) -> f64 {
        self.magnitude()
    }

    /// The number of this type that is nearest to a real number.
    fn nearest(value: f64) -> Self;
}

impl Field for f32 {
    const EPSILON: f64 = f32::EPSILON as f64;

    fn magnitude(self) -> f64 {
        self.abs().into()
    }

    fn nearest(value: f64) -> Self {
        value as f32
    }
}

impl Field for f64 {
    const EPSILON: f64 = f64::EPSILON;

    fn magnitude(self) -> f64 {
        self.abs()
    }

    fn nearest(value: f64) -> Self {
        value
    }
}

impl<R: Float + Field> Field for Complex<R>
where
    Complex<R>: Element + ScalarOperand,
{
    const EPSILON: f64 = <R as Field>::EPSILON;

    fn conj(self) -> Self {
        Complex::conj(&self)
    }

    fn magnitude(self) -> f64 {
        self.norm().magnitude()
    }

    fn taxicab(self) -> f64 {
        self.re.magnitude() + self.im.magnitude()
    }

    fn nearest(value: f64) -> Self {
        Complex::new(R::nearest(value), R::zero())
    }
}

/// The conjugate transpose.
pub fn adjoint<T: Field>(a: &ArrayView2<'_, T>) -> Array2<T> {
    a.t().mapv(T::conj)
}

/// The triangle of a matrix that is read, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Triangle {
    /// Whether it is the upper triangle; otherwise it is the lower one.
    pub upper: bool,
    /// Whether the diagonal counts as ones, whatever it contains.
    pub unit: bool,
}

impl Triangle {
    /// The same triangle of the transposed matrix.
    #[must_use]
    pub fn turned(self) -> Self {
        Self { upper: !self.upper, ..self }
    }
}

/// Rows that are multiplied between checks of the deadline.
const ROWS: usize = 64;

/// c = α·a·b + β·c, some rows at a time.
pub(super) fn multiply<T: Field>(
    (alpha, a, b): (T, &ArrayView2<'_, T>, &ArrayView2<'_, T>),
    (beta, c): (T, &mut ArrayViewMut2<'_, T>),
    limits: &Limits,
) -> Result<(), LimitError> {
    for (a, mut c) in a.axis_chunks_iter(Axis(0), ROWS).zip(c.axis_chunks_iter_mut(Axis(0), ROWS)) {
        limits.check_deadline()?;
        general_mat_mul(alpha, &a, b, beta, &mut c);
    }
    Ok(())
}

/// The product of two matrices with matching lengths.
///
/// # Errors
/// [`LimitError`] if the deadline has passed.
pub fn product<T: Field>(
    a: &ArrayView2<'_, T>,
    b: &ArrayView2<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, LimitError> {
    let mut c = Array2::zeros((a.nrows(), b.ncols()));
    multiply((T::one(), a, b), (T::zero(), &mut c.view_mut()), limits)?;
    Ok(c)
}

/// Triangles up to this length are solved row by row.
const SMALL: usize = 32;

/// Solves a·x = b for an n×n triangle a and n×k right-hand sides, which the solution replaces in `x`. The other triangle
/// is not read. A 0 on the diagonal gives ∞ or NaN.
///
/// # Errors
/// [`LimitError`] if the deadline has passed.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn solve_triangular<T: Field>(
    a: &ArrayView2<'_, T>,
    triangle: Triangle,
    x: &mut ArrayViewMut2<'_, T>,
    limits: &Limits,
) -> Result<(), LimitError> {
    assert!(a.is_square() && a.nrows() == x.nrows(), "as many equations as unknowns");
    if a.nrows() <= SMALL {
        limits.check_deadline()?;
        solve_small(a, triangle, x);
        return Ok(());
    }
    // Solve for one half of the unknowns, subtract their products from the other equations, and solve for the other half.
    let half = a.nrows() / 2;
    let (top, bottom) = a.split_at(Axis(0), half);
    let ((first, above), (below, last)) = (top.split_at(Axis(1), half), bottom.split_at(Axis(1), half));
    let (mut start, mut end) = x.view_mut().split_at(Axis(0), half);
    if triangle.upper {
        solve_triangular(&last, triangle, &mut end, limits)?;
        multiply((-T::one(), &above, &end.view()), (T::one(), &mut start), limits)?;
        solve_triangular(&first, triangle, &mut start, limits)
    } else {
        solve_triangular(&first, triangle, &mut start, limits)?;
        multiply((-T::one(), &below, &start.view()), (T::one(), &mut end), limits)?;
        solve_triangular(&last, triangle, &mut end, limits)
    }
}

/// Solves for one unknown after the other.
fn solve_small<T: Field>(a: &ArrayView2<'_, T>, triangle: Triangle, x: &mut ArrayViewMut2<'_, T>) {
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

/// A square matrix to the power of `exponent`; the 0th power is the identity matrix.
///
/// # Errors
/// [`LimitError`] if the deadline has passed.
pub fn power<T: Field>(a: &Array2<T>, exponent: u64, limits: &Limits) -> Result<Array2<T>, LimitError> {
    let mut result: Option<Array2<T>> = None;
    let (mut square, mut left) = (a.clone(), exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = Some(match result {
                Some(result) => product(&result.view(), &square.view(), limits)?,
                None => square.clone(),
            });
        }
        left /= 2;
        if left > 0 {
            square = product(&square.view(), &square.view(), limits)?;
        }
    }
    Ok(result.unwrap_or_else(|| Array2::eye(a.nrows())))
}

fn scale<T: Field>(a: &mut Array2<T>, factor: T) {
    a.iter_mut().for_each(|x| *x = *x * factor);
}

/// Terms of the series of eˣ: for |x| ≤ 1 the next one is less than 10⁻¹⁷.
const TERMS: u32 = 18;

/// The exponential of a square matrix by scaling and squaring: the matrix is halved until the sums of magnitudes of its
/// columns are at most 1, the series is evaluated, and the result is squared as many times.
///
/// # Errors
/// [`LimitError`] if the deadline has passed.
pub fn exponential<T: Field>(a: &Array2<T>, limits: &Limits) -> Result<Array2<T>, LimitError> {
    let sums = a.columns().into_iter().map(|column| column.iter().map(|x| x.magnitude()).sum::<f64>());
    let norm = sums.fold(0.0, |most: f64, sum| if sum.is_nan() { sum } else { most.max(sum) });
    if !norm.is_finite() {
        return Ok(Array2::from_elem(a.raw_dim(), T::nearest(f64::NAN)));
    }
    let halvings = norm.log2().ceil().max(0.0) as i32;
    // In two steps: 2⁻¹⁰²⁴ alone would be 0.
    let half = halvings / 2;
    let mut a = a.clone();
    scale(&mut a, T::nearest(2f64.powi(-half)));
    scale(&mut a, T::nearest(2f64.powi(half - halvings)));
    let mut result = Array2::eye(a.nrows());
    for term in (1..=TERMS).rev() {
        result = product(&a.view(), &result.view(), limits)?;
        scale(&mut result, T::nearest(1.0 / f64::from(term)));
        (0..result.nrows()).for_each(|i| result[[i, i]] = result[[i, i]] + T::one());
    }
    for _ in 0..halvings {
        result = product(&result.view(), &result.view(), limits)?;
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use ndarray::{Array1, array};
    use proptest::prelude::*;

    #[test]
    fn powers() {
        let a = array![[1.0, 1.0], [1.0, 0.0]];
        assert_eq!(power(&a, 10, &Limits::default()).unwrap(), array![[89.0, 55.0], [55.0, 34.0]]);
        let power = |n| power(&a, n, &Limits::default()).unwrap();
        assert_eq!((power(0), power(1)), (Array2::eye(2), a.clone()));
    }

    #[test]
    fn exponentials() {
        let exponential = |a: &Array2<f64>| super::exponential(a, &Limits::default()).unwrap();
        let turn = std::f64::consts::FRAC_PI_3 * array![[0.0, -1.0], [1.0, 0.0]];
        let want = array![[0.5, -0.75f64.sqrt()], [0.75f64.sqrt(), 0.5]];
        assert!((exponential(&turn) - want).iter().all(|x| x.abs() < 1e-15));
        let large = exponential(&array![[40.0, 0.0], [0.0, -40.0]]);
        assert!((large[[0, 0]] / 40f64.exp() - 1.0).abs() < 1e-13, "{large}");
        assert_eq!(exponential(&array![[-1e308, 0.0], [0.0, -1e308]]), Array2::<f64>::zeros((2, 2)));
        assert_eq!(exponential(&array![[1e308]]), array![[f64::INFINITY]]);
        assert!(exponential(&array![[f64::NAN, 0.0], [1.0, 1.0]]).iter().all(|x| x.is_nan()));
        assert_eq!(exponential(&Array2::zeros((0, 0))).len(), 0);
    }

    #[test]
    fn complex_triangles() {
        let i = Complex::new(0.0f64, 1.0);
        let a = array![[i * 2.0, i], [i, i]];
        let mut x = array![[i], [-i]];
        solve_triangular(
            &a.view(),
            Triangle { upper: false, unit: true },
            &mut x.view_mut(),
            &Limits::default(),
        )
        .unwrap();
        assert_eq!(x, array![[i], [-i + 1.0]]);
        assert_eq!(adjoint(&a.view())[[0, 0]], -i * 2.0);
    }

    /// The recursion does not change the solution, whatever the other triangle contains.
    #[test]
    fn long_triangles() {
        for (n, upper) in [(33, false), (100, true), (129, false)] {
            let a = Array2::from_shape_fn((n, n), |(i, j)| {
                let inside = if upper { i <= j } else { i >= j };
                let number = ((i * 31 + j * 17) % 23) as f64 / 230.0;
                if inside { number + if i == j { 2.0 } else { 0.0 } } else { f64::NAN }
            });
            let x = Array2::from_shape_fn((n, 3), |(i, j)| ((i * 5 + j) % 7) as f64 - 3.0);
            let mut b = a.mapv(|x| if x.is_nan() { 0.0 } else { x }).dot(&x);
            let triangle = Triangle { upper, unit: false };
            solve_triangular(&a.view(), triangle, &mut b.view_mut(), &Limits::default()).unwrap();
            assert!((b - x).iter().all(|x| x.abs() < 1e-10), "{n} {upper}");
        }
    }

    /// Each of them takes seconds, but stops soon after the deadline.
    #[test]
    fn long_computations_stop_at_the_deadline() {
        let large = Array2::<f32>::from_elem((2000, 2000), 1e-4);
        let ends = |name: &str, run: &dyn Fn(&Limits) -> Result<(), LimitError>| {
            let start = std::time::Instant::now();
            let limits = Limits::default().with_timeout(std::time::Duration::from_millis(20));
            assert_eq!(run(&limits), Err(LimitError::DeadlineExceeded), "{name}");
            assert!(start.elapsed().as_secs() < 2, "{name} took {:?}", start.elapsed());
        };
        ends("a power", &|limits| power(&large, u64::MAX, limits).map(drop));
        ends("an exponential", &|limits| exponential(&large, limits).map(drop));
        ends("a triangle", &|limits| {
            let (triangle, mut x) = (Triangle { upper: true, unit: true }, large.clone());
            (0..50).try_for_each(|_| solve_triangular(&large.view(), triangle, &mut x.view_mut(), limits))
        });
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
            solve_triangular(&a.view(), Triangle { upper: true, unit }, &mut x.view_mut(), &Limits::default()).unwrap();
            prop_assert!((x.column(0).to_owned() - &want).iter().all(|x| x.abs() < 1e-9));
            // Turned by 180°, a lower triangle is an upper one.
            let turned = a.slice(ndarray::s![..;-1, ..;-1]);
            let mut x = b.slice(ndarray::s![..;-1]).to_owned().insert_axis(Axis(1));
            solve_triangular(&turned, Triangle { upper: false, unit }, &mut x.view_mut(), &Limits::default()).unwrap();
            prop_assert!(x.column(0).iter().rev().zip(&want).all(|(x, want)| (x - want).abs() < 1e-9));
        }
    }
}
