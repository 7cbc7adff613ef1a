//! Matrix decompositions by LAPACK, one matrix at a time. Only with the feature `linalg`.
//!
//! Matrices are passed to LAPACK unchanged. PyTorch uses LAPACK too, mostly the same routines. The exceptions are
//! eigenvalues of symmetric matrices (?syev here, ?syevd in PyTorch) and least squares (singular values here, mostly
//! ?gelsy in PyTorch). LAPACK is column-major, so each matrix is copied to that order first. Empty matrices are never
//! passed to it.
//!
//! A running routine cannot be interrupted: the deadline is checked between two routines.

use super::elimination;
pub use super::matrix::Fault;
use super::matrix::{Field, adjoint};
use ixion_tensor::Limits;
use lax::error::Error;
use lax::layout::MatrixLayout;
use lax::{JobSvd, UPLO};
use ndarray::{Array2, ArrayView2, Axis, ShapeBuilder, s};
use ndarray_linalg::{Lapack, Scalar};
use num_traits::{Float, ToPrimitive, Zero};

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::LapackComputationalFailure { return_code } => Self::Diverged(return_code),
            Error::LapackInvalidValue { return_code } => Self::Refused(return_code.unsigned_abs()),
            Error::InvalidShape => Self::TooLarge,
        }
    }
}

/// Converts an error that names a row to a fault of that row, and any other error as usual.
fn at_row(error: Error, fault: fn(usize) -> Fault) -> Fault {
    match error {
        Error::LapackComputationalFailure { return_code } => {
            usize::try_from(return_code).map_or(Fault::Diverged(return_code), fault)
        }
        error => error.into(),
    }
}

/// An element type that LAPACK supports: `f32`, `f64` and their complex counterparts.
pub trait Element: Field + Lapack<Real: Send, Complex: Send> {}

impl<T: Field + Lapack<Real: Send, Complex: Send>> Element for T {}

/// Matrices of up to this many elements are computed on the calling thread.
const SMALL: usize = 1 << 12;

/// The stack size that LAPACK may need: OpenBLAS distributes work among its threads from a thread whose stack holds
/// megabytes of their jobs, and threads of Rust have 2 MiB.
const STACK: usize = 64 << 20;

/// Calls a routine of LAPACK for a matrix of this number of elements, with enough stack.
fn with_room<R: Send>(elements: usize, routine: impl FnOnce() -> R + Send) -> Result<R, Fault> {
    if elements <= SMALL {
        return Ok(routine());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, routine);
        let result = thread.map_err(|error| Fault::NoThread(error.kind()))?.join();
        Ok(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// A product of lengths in the integer type of LAPACK.
fn count(lens: &[usize]) -> Result<i32, Fault> {
    let product = lens.iter().try_fold(1_usize, |product, &len| product.checked_mul(len));
    product.and_then(|product| i32::try_from(product).ok()).ok_or(Fault::TooLarge)
}

/// The elements of a matrix in column-major order, and their layout for LAPACK.
fn columns<T: Element>(a: &ArrayView2<'_, T>) -> Result<(Vec<T>, MatrixLayout), Fault> {
    count(&[a.nrows(), a.ncols()])?;
    let count = |n: usize| count(&[n]);
    let layout = MatrixLayout::F { col: count(a.ncols())?, lda: count(a.nrows())? };
    Ok((a.t().iter().copied().collect(), layout))
}

/// A matrix from its elements in column-major order.
fn matrix<T: Copy>(rows: usize, columns: usize, elements: &[T]) -> Array2<T> {
    Array2::from_shape_fn((rows, columns).f(), |(i, j)| elements[j * rows + i])
}

fn check_finite<T: Element>(a: &ArrayView2<'_, T>) -> Result<(), Fault> {
    let is_finite = a.iter().all(|x| x.re().is_finite() && x.im().is_finite());
    if is_finite { Ok(()) } else { Err(Fault::NotFinite) }
}

/// The LU decomposition of a square matrix, with row pivoting.
#[derive(Debug, Clone)]
pub struct Factors<T> {
    elements: Vec<T>,
    layout: MatrixLayout,
    pivots: lax::Pivot,
    n: usize,
}

impl<T: Element> Factors<T> {
    /// Decomposes a square matrix.
    ///
    /// # Errors
    /// [`Fault::Singular`] if the matrix is singular.
    pub fn of(a: &ArrayView2<'_, T>) -> Result<Self, Fault> {
        let (mut elements, layout) = columns(a)?;
        if elements.is_empty() {
            return Ok(Self { elements, layout, pivots: Vec::new(), n: 0 });
        }
        let pivots = with_room(elements.len(), || T::lu(layout, &mut elements))?
            .map_err(|error| at_row(error, Fault::Singular))?;
        Ok(Self { elements, layout, pivots, n: a.nrows() })
    }

    /// Solves a·x = b for n×k right-hand sides.
    ///
    /// # Errors
    /// [`Fault::Limit`] if the deadline has passed.
    pub fn solve(&self, b: &ArrayView2<'_, T>, limits: &Limits) -> Result<Array2<T>, Fault> {
        let factors =
            ArrayView2::from_shape((self.n, self.n).f(), &self.elements).map_err(|_| Fault::TooLarge)?;
        elimination::solve(&factors, &elimination::rows_of(&self.pivots, self.n)?, b, limits)
    }

    fn diagonal(&self) -> impl Iterator<Item = T> {
        self.elements.iter().step_by(self.n + 1).copied()
    }

    /// −1 if an odd number of rows was swapped, else 1.
    fn sign(&self) -> T {
        let swaps = (1..).zip(&self.pivots).filter(|(row, pivot)| row != *pivot).count();
        if swaps.is_multiple_of(2) { T::one() } else { -T::one() }
    }
}

/// The determinant of a square matrix.
///
/// # Errors
/// [`Fault::TooLarge`] if the matrix has more elements than LAPACK can count.
pub fn determinant<T: Element>(a: &ArrayView2<'_, T>) -> Result<T, Fault> {
    if a.is_empty() {
        return Ok(T::one());
    }
    match Factors::of(a) {
        Ok(factors) => Ok(factors.diagonal().fold(factors.sign(), |product, x| product * x)),
        Err(Fault::Singular(_)) => Ok(if check_finite(a).is_ok() { T::zero() } else { T::nearest(f64::NAN) }),
        Err(fault) => Err(fault),
    }
}

/// The sign and the logarithm of the magnitude of the determinant; 0 and −∞ for a singular matrix.
///
/// # Errors
/// [`Fault::TooLarge`] if the matrix has more elements than LAPACK can count.
pub fn log_determinant<T: Element>(a: &ArrayView2<'_, T>) -> Result<(T, T::Real), Fault> {
    if a.is_empty() {
        return Ok((T::one(), T::Real::zero()));
    }
    let factors = match Factors::of(a) {
        Err(Fault::Singular(_)) if check_finite(a).is_ok() => return Ok((T::zero(), -T::Real::infinity())),
        Err(Fault::Singular(_)) => return Ok((T::nearest(f64::NAN), T::Real::nan())),
        factors => factors?,
    };
    let start = (factors.sign(), T::Real::zero());
    Ok(factors.diagonal().fold(start, |(sign, log), x| {
        let magnitude = x.abs();
        (sign * x.div_real(magnitude), log + Float::ln(magnitude))
    }))
}

/// The inverse of a square matrix.
///
/// # Errors
/// [`Fault::Singular`] if the matrix is singular.
pub fn inverse<T: Element>(a: &ArrayView2<'_, T>) -> Result<Array2<T>, Fault> {
    if a.is_empty() {
        return Ok(a.to_owned());
    }
    let mut factors = Factors::of(a)?;
    with_room(a.len(), || T::inv(factors.layout, &mut factors.elements, &factors.pivots))?
        .map_err(|error| at_row(error, Fault::Singular))?;
    Ok(matrix(factors.n, factors.n, &factors.elements))
}

/// Solves a·x = b for an n×n matrix a and n×k right-hand sides.
///
/// # Errors
/// [`Fault::Singular`] if the matrix is singular; [`Fault::Limit`] if the deadline has passed.
pub fn solve<T: Element>(
    a: &ArrayView2<'_, T>,
    b: &ArrayView2<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, Fault> {
    Factors::of(a)?.solve(b, limits)
}

/// The Cholesky factor: the lower triangle l with l·lᴴ = a, computed from the lower triangle of a; or, if `upper`, the
/// upper triangle u with uᴴ·u = a, computed from the upper triangle.
///
/// # Errors
/// [`Fault::NotPositive`] if the matrix is not positive definite.
pub fn cholesky<T: Element>(a: &ArrayView2<'_, T>, upper: bool) -> Result<Array2<T>, Fault> {
    if a.is_empty() {
        return Ok(a.to_owned());
    }
    let (mut elements, layout) = columns(a)?;
    with_room(a.len(), || T::cholesky(layout, triangle(upper), &mut elements))?
        .map_err(|error| at_row(error, Fault::NotPositive))?;
    let factor = matrix(a.nrows(), a.ncols(), &elements);
    Ok(Array2::from_shape_fn(factor.raw_dim(), |(i, j)| {
        let inside = if upper { i <= j } else { i >= j };
        if inside { factor[[i, j]] } else { T::zero() }
    }))
}

fn triangle(upper: bool) -> UPLO {
    if upper { UPLO::Upper } else { UPLO::Lower }
}

/// The QR decomposition: orthonormal columns and an upper triangle whose product is a. They are m×k and k×n with k =
/// min(m, n), or m×m and m×n if `complete`.
///
/// # Errors
/// [`Fault::TooLarge`] if the matrix has more elements than LAPACK can count.
pub fn qr<T: Element>(a: &ArrayView2<'_, T>, complete: bool) -> Result<(Array2<T>, Array2<T>), Fault> {
    let (m, n) = a.dim();
    let k = if complete { m } else { m.min(n) };
    if a.is_empty() {
        return Ok((
            Array2::from_shape_fn((m, k), |(i, j)| if i == j { T::one() } else { T::zero() }),
            Array2::zeros((k, n)),
        ));
    }
    // Additional columns of zeros do not change the reflections, but make their matrix square.
    let mut wide = Array2::zeros((m, n.max(k)).f());
    wide.slice_mut(s![.., ..n]).assign(a);
    let (mut q, layout) = columns(&wide.view())?;
    let r = with_room(wide.len(), || T::qr(layout, &mut q))??;
    let (q, r) = (matrix(m, wide.ncols(), &q), matrix(m, wide.ncols(), &r));
    let r = Array2::from_shape_fn((k, n), |(i, j)| if i <= j { r[[i, j]] } else { T::zero() });
    Ok((q.slice(s![.., ..k]).to_owned(), r))
}

/// A singular value decomposition u · s · vᴴ, with s on a diagonal in descending order.
#[derive(Debug, Clone, PartialEq)]
pub struct Singular<T: Scalar> {
    /// Orthonormal columns: m×k, with k = min(m, n), or m×m.
    pub u: Array2<T>,
    /// The k singular values.
    pub s: Vec<T::Real>,
    /// Orthonormal rows: k×n, or n×n.
    pub vh: Array2<T>,
}

/// The number of elements of LAPACK's workspace, which are at most 3·k² + 7·k + max(m, n) with k = min(m, n). Fails if
/// LAPACK cannot count them, or the singular vectors.
fn room(m: usize, n: usize, full: bool) -> Result<i32, Fault> {
    let (short, long) = (m.min(n), m.max(n));
    count(&[4, long])?;
    if full {
        count(&[long, long])?;
    }
    count(&[4, short + 8, short + 8])
}

/// The singular values of a matrix with their vectors: if `full`, all vectors of both sides, otherwise as many as values.
///
/// # Errors
/// [`Fault::NotFinite`] if an element is NaN or infinite; [`Fault::Diverged`] if LAPACK does not converge;
/// [`Fault::Limit`] if LAPACK's workspace exceeds the limits.
pub fn svd<T: Element>(a: &ArrayView2<'_, T>, full: bool, limits: &Limits) -> Result<Singular<T>, Fault> {
    let (m, n) = a.dim();
    let (rows, columns_) = if full { (m, n) } else { (m.min(n), m.min(n)) };
    let unit = |m, n| Array2::from_shape_fn((m, n), |(i, j)| if i == j { T::one() } else { T::zero() });
    if a.is_empty() {
        return Ok(Singular { u: unit(m, rows), s: Vec::new(), vh: unit(columns_, n) });
    }
    check_finite(a)?;
    let bytes = u64::try_from(room(m, n, full)?).unwrap_or(0).saturating_mul(size_of::<T>() as u64);
    limits.check_tensor("LAPACK's workspace", bytes)?;
    let (mut elements, layout) = columns(a)?;
    let job = if full { JobSvd::All } else { JobSvd::Some };
    let found = with_room(a.len(), || T::svddc(layout, job, &mut elements))??;
    let u = matrix(m, rows, &found.u.unwrap_or_default());
    Ok(Singular { u, s: found.s, vh: matrix(columns_, n, &found.vt.unwrap_or_default()) })
}

/// The singular values of a matrix, in descending order.
///
/// # Errors
/// As [`svd`].
pub fn singular_values<T: Element>(a: &ArrayView2<'_, T>) -> Result<Vec<T::Real>, Fault> {
    if a.is_empty() {
        return Ok(Vec::new());
    }
    check_finite(a)?;
    room(a.nrows(), a.ncols(), false)?;
    let (mut elements, layout) = columns(a)?;
    Ok(with_room(a.len(), || T::svddc(layout, JobSvd::None, &mut elements))??.s)
}

/// Eigenvalues, and their eigenvectors as columns.
pub type Eigen<V, T> = (Vec<V>, Array2<T>);

/// The eigenvalues, in ascending order, of a symmetric or Hermitian matrix, of which only one triangle is read, and their
/// eigenvectors as columns.
///
/// # Errors
/// [`Fault::NotFinite`] if an element is NaN or infinite; [`Fault::Diverged`] if LAPACK does not converge.
pub fn eigen_of_symmetric<T: Element>(
    a: &ArrayView2<'_, T>,
    upper: bool,
    vectors: bool,
) -> Result<Eigen<T::Real, T>, Fault> {
    if a.is_empty() {
        return Ok((Vec::new(), a.to_owned()));
    }
    check_finite(a)?;
    let (mut elements, layout) = columns(a)?;
    let values = with_room(a.len(), || T::eigh(vectors, layout, triangle(upper), &mut elements))??;
    Ok((values, matrix(a.nrows(), a.ncols(), &elements)))
}

/// The eigenvalues of a square matrix and, if `vectors`, their eigenvectors of length 1 as columns.
///
/// # Errors
/// [`Fault::NotFinite`] if an element is NaN or infinite; [`Fault::Diverged`] if LAPACK does not converge.
pub fn eigen<T: Element>(
    a: &ArrayView2<'_, T>,
    vectors: bool,
) -> Result<Eigen<T::Complex, T::Complex>, Fault> {
    let n = a.nrows();
    if a.is_empty() {
        return Ok((Vec::new(), Array2::from_shape_fn((0, 0), |_| T::Complex::zero())));
    }
    check_finite(a)?;
    let (mut elements, layout) = columns(a)?;
    let (values, found) = with_room(a.len(), || T::eig(vectors, layout, &mut elements))??;
    Ok((values, if vectors { matrix(n, n, &found) } else { Array2::from_elem((0, 0), T::Complex::zero()) }))
}

/// The pseudo-inverse v · 1/s · uᴴ, for the singular values above a bound.
pub fn pseudo_inverse<T: Element>(parts: &Singular<T>, bound: T::Real) -> Array2<T> {
    let rank = parts.s.iter().filter(|&&s| s > bound).count();
    let mut v = adjoint(&parts.vh.slice(s![..rank, ..]));
    for (mut column, &s) in v.axis_iter_mut(Axis(1)).zip(&parts.s) {
        column.mapv_inplace(|x| x.div_real(s));
    }
    v.dot(&adjoint(&parts.u.slice(s![.., ..rank])))
}

/// A matrix of NaN, in place of a missing result.
pub fn nothing<T: Element>(dims: (usize, usize)) -> Array2<T> {
    Array2::from_elem(dims, T::nearest(f64::NAN))
}

/// The symmetric or Hermitian matrix whose lower triangle is given.
pub fn of_lower<T: Element>(a: &ArrayView2<'_, T>) -> Array2<T> {
    Array2::from_shape_fn(a.raw_dim(), |(i, j)| match i.cmp(&j) {
        std::cmp::Ordering::Greater => a[[i, j]],
        std::cmp::Ordering::Less => Field::conj(a[[j, i]]),
        std::cmp::Ordering::Equal => T::from_real(a[[i, i]].re()),
    })
}

/// Converts a real number of any precision.
pub fn as_f64<T: Element>(value: T::Real) -> f64 {
    value.to_f64().unwrap_or(f64::NAN)
}

/// A matrix norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Norm {
    /// The square root of the sum of squares.
    Frobenius,
    /// The sum of the singular values.
    Nuclear,
    /// 1, −1, ∞ or −∞: the largest or smallest sum of magnitudes of a column or row; 2 or −2: the largest or smallest
    /// singular value.
    Order(f64),
}

impl Norm {
    /// The norm of a matrix; NaN if it contains NaN. Norms of singular values are computed elsewhere.
    fn of<T: Element>(self, a: &ArrayView2<'_, T>) -> f64 {
        let magnitudes = a.mapv(T::magnitude);
        let (axis, is_largest) = match self {
            Self::Order(p) => (Axis(usize::from(p.is_infinite())), p > 0.0),
            Self::Frobenius | Self::Nuclear => return magnitudes.iter().map(|x| x * x).sum::<f64>().sqrt(),
        };
        let further = |best: f64, sum: f64| {
            let is_better = if is_largest { sum > best } else { sum < best };
            if sum.is_nan() || is_better { sum } else { best }
        };
        let sums = magnitudes.sum_axis(axis);
        sums.into_iter()
            .reduce(|best, sum| if best.is_nan() { best } else { further(best, sum) })
            .unwrap_or(0.0)
    }
}

/// The condition number: the norm of a matrix times the norm of its inverse; ∞ if it has no inverse or contains NaN, as
/// in PyTorch. For 2 and −2, it is a quotient of the largest and the smallest singular value; for the nuclear norm, it is
/// the sum of the singular values times the sum of their reciprocals. These are merely large if rounding hides that a
/// matrix is singular, and NaN for a matrix of zeros.
///
/// # Errors
/// As [`svd`].
pub fn condition<T: Element>(a: &ArrayView2<'_, T>, norm: Norm) -> Result<T::Real, Fault> {
    let number = |value: f64| T::nearest(value).re();
    if a.is_empty() {
        return Ok(T::Real::zero());
    }
    if let Norm::Order(p) = norm
        && p.abs() == 2.0
    {
        let values = singular_values(a)?;
        let (Some(&first), Some(&last)) = (values.first(), values.last()) else { return Ok(T::Real::zero()) };
        return Ok(if p > 0.0 { first / last } else { last / first });
    }
    if norm == Norm::Nuclear {
        let values: Vec<f64> = singular_values(a)?.into_iter().map(as_f64::<T>).collect();
        return Ok(number(values.iter().sum::<f64>() * values.iter().map(|s| 1.0 / s).sum::<f64>()));
    }
    match inverse(a) {
        Ok(inverse) => {
            let condition = norm.of(a) * norm.of(&inverse.view());
            Ok(if condition.is_nan() { T::Real::infinity() } else { number(condition) })
        }
        Err(Fault::Singular(_)) => Ok(T::Real::infinity()),
        Err(fault) => Err(fault),
    }
}

/// A least-squares solution.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest<T: Scalar> {
    /// n×k.
    pub x: Array2<T>,
    /// The sum of squared residuals of each of the k right-hand sides; NaN if the matrix does not have full rank.
    pub left_over: Vec<T::Real>,
    /// The number of singular values that count.
    pub rank: usize,
    /// The singular values.
    pub s: Vec<T::Real>,
}

/// The shortest x for which a·x is nearest to b, computed from the [decomposition](svd) of a. Singular values up to
/// `rcond` times the largest count as 0.
pub fn least_squares<T: Element>(
    (a, parts): (&ArrayView2<'_, T>, &Singular<T>),
    b: &ArrayView2<'_, T>,
    rcond: Option<f64>,
) -> Nearest<T> {
    let largest = parts.s.first().map_or(0.0, |&s| as_f64::<T>(s));
    let usual = T::EPSILON * a.nrows().max(a.ncols()) as f64;
    // As in LAPACK, a negative number selects the default bound.
    let bound = T::nearest(rcond.filter(|bound| *bound >= 0.0).unwrap_or(usual) * largest).re();
    let x = pseudo_inverse(parts, bound).dot(b);
    let rank = parts.s.iter().filter(|&&s| s > bound).count();
    let rest = b - &a.dot(&x);
    let squares = |column: ndarray::ArrayView1<'_, T>| column.iter().map(|x| x.square()).sum::<T::Real>();
    let left_over = if rank == a.ncols() {
        rest.columns().into_iter().map(squares).collect()
    } else {
        vec![T::Real::nan(); b.ncols()]
    };
    Nearest { x, left_over, rank, s: parts.s.clone() }
}
