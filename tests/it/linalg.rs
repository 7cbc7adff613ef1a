//! Ixion's own linear algebra compared with LAPACK and BLAS, and checks that LAPACK's factors multiply to the matrix.

use ixion::Limits;
use ixion::kernels::gemm::gemm;
use ixion::kernels::matrix::{Triangle, adjoint, exponential, power, solve_triangular};
use ixion::kernels::{Float, naive};
use ixion::kernels::{elimination, lapack, symmetric};
use ixion::tensor::Complex;
use ndarray::{Array1, Array2, ArrayView2, Axis, array};
use ndarray_linalg as _;
use proptest::prelude::*;

unsafe extern "C" {
    fn sgemm_(
        turn_a: *const u8,
        turn_b: *const u8,
        m: *const i32,
        n: *const i32,
        k: *const i32,
        alpha: *const f32,
        a: *const f32,
        lda: *const i32,
        b: *const f32,
        ldb: *const i32,
        beta: *const f32,
        c: *mut f32,
        ldc: *const i32,
    );
    fn dgemm_(
        turn_a: *const u8,
        turn_b: *const u8,
        m: *const i32,
        n: *const i32,
        k: *const i32,
        alpha: *const f64,
        a: *const f64,
        lda: *const i32,
        b: *const f64,
        ldb: *const i32,
        beta: *const f64,
        c: *mut f64,
        ldc: *const i32,
    );
}

/// BLAS's product of two row-major matrices. BLAS is column-major, so it computes bᵀ·aᵀ.
macro_rules! blas_product {
    ($name:ident, $routine:ident, $float:ty) => {
        fn $name(a: &Array2<$float>, b: &Array2<$float>) -> Array2<$float> {
            let mut c = Array2::zeros((a.nrows(), b.ncols()));
            let [m, n, k] = [b.ncols(), a.nrows(), a.ncols()].map(|len| i32::try_from(len).unwrap());
            let (a, b) = (a.as_standard_layout(), b.as_standard_layout());
            let (lda, ldb, ldc) = (m.max(1), k.max(1), m.max(1));
            // SAFETY: the three are contiguous, of k×m, n×k and n×m elements as BLAS counts them, and live until the call ends.
            unsafe {
                $routine(
                    &b'N',
                    &b'N',
                    &m,
                    &n,
                    &k,
                    &1.0,
                    b.as_ptr(),
                    &lda,
                    a.as_ptr(),
                    &ldb,
                    &0.0,
                    c.as_mut_ptr(),
                    &ldc,
                );
            }
            c
        }
    };
}

blas_product!(single, sgemm_, f32);
blas_product!(double, dgemm_, f64);

fn largest<T: Float>(a: ArrayView2<'_, T>) -> f64 {
    a.iter().fold(0.0, |most: f64, x| most.max(x.to_f64().unwrap().abs()))
}

fn product<T: Float>(a: &Array2<T>, b: &Array2<T>) -> Array2<T> {
    let mut c = Array2::zeros((a.nrows(), b.ncols()));
    gemm(a.view(), b.view(), c.view_mut(), false);
    c
}

/// A matrix of this size, with some zeros.
fn matrix(rows: usize, columns: usize) -> impl Strategy<Value = Array2<f64>> {
    let number = prop_oneof![9 => -2f64..2.0, 1 => Just(0.0)];
    let vec = proptest::collection::vec(number, rows * columns);
    vec.prop_map(move |numbers| Array2::from_shape_vec((rows, columns), numbers).unwrap())
}

fn of_any_size(most: usize) -> impl Strategy<Value = Array2<f64>> {
    (0..most, 0..most).prop_flat_map(|(rows, columns)| matrix(rows, columns))
}

fn square(most: usize) -> impl Strategy<Value = Array2<f64>> {
    (0..most).prop_flat_map(|n| matrix(n, n))
}

/// Two matrices that can be multiplied.
fn factors(most: usize) -> impl Strategy<Value = (Array2<f64>, Array2<f64>)> {
    (0..most, 0..most, 0..most).prop_flat_map(|(m, k, n)| (matrix(m, k), matrix(k, n)))
}

/// Well-conditioned systems of equations.
fn equations() -> impl Strategy<Value = (Array2<f64>, Array1<f64>)> {
    (1..9usize).prop_flat_map(|n| {
        let strong = matrix(n, n).prop_map(move |a| a + Array2::<f64>::eye(n) * 20.0);
        (strong, proptest::collection::vec(-5f64..5.0, n).prop_map(Array1::from_vec))
    })
}

fn is_near(a: &Array2<f64>, b: &Array2<f64>, bound: f64) -> bool {
    a.dim() == b.dim() && largest((a - b).view()) <= bound * (1.0 + largest(b.view()))
}

fn least_squares(a: &Array2<f64>, b: &Array2<f64>, rcond: Option<f64>) -> lapack::Nearest<f64> {
    lapack::least_squares(
        (&a.view(), &lapack::svd(&a.view(), false, &Limits::default()).unwrap()),
        &b.view(),
        rcond,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_are_those_of_blas((a, b) in factors(70)) {
        prop_assert!(is_near(&product(&a, &b), &double(&a, &b), 1e-13));
        let (a, b) = (a.mapv(|x| x as f32), b.mapv(|x| x as f32));
        let (got, want) = (product(&a, &b).mapv(f64::from), single(&a, &b).mapv(f64::from));
        prop_assert!(is_near(&got, &want, 1e-5));
    }

    #[test]
    fn equations_are_solved_as_the_naive_solver_does((a, b) in equations()) {
        let want = naive::solve(a.view(), b.view()).unwrap().insert_axis(Axis(1));
        let b = b.insert_axis(Axis(1));
        prop_assert!(is_near(&lapack::solve(&a.view(), &b.view(), &Limits::default()).unwrap(), &want, 1e-12));
        let inverse = lapack::inverse(&a.view()).unwrap();
        prop_assert!(is_near(&inverse.dot(&b), &want, 1e-12));
        prop_assert!(is_near(&inverse.dot(&a), &Array2::eye(a.nrows()), 1e-12));
    }

    #[test]
    fn singular_matrices_are_found_by_both(a in square(7), column: prop::sample::Index) {
        prop_assume!(!a.is_empty());
        let (mut a, b) = (a.clone(), Array2::ones((a.nrows(), 1)));
        let column = column.index(a.ncols());
        a.column_mut(column).fill(0.0);
        prop_assert!(naive::solve(a.view(), b.column(0)).is_none());
        prop_assert!(matches!(lapack::solve(&a.view(), &b.view(), &Limits::default()), Err(lapack::Fault::Singular(_))));
        prop_assert_eq!(lapack::determinant(&a.view()).unwrap(), 0.0);
    }

    #[test]
    fn determinants_multiply((a, b) in (1..7usize).prop_flat_map(|n| (matrix(n, n), matrix(n, n)))) {
        let of = |a: &Array2<f64>| lapack::determinant(&a.view()).unwrap();
        let (got, want) = (of(&a.dot(&b)), of(&a) * of(&b));
        prop_assert!((got - want).abs() <= 1e-8 * (1.0 + want.abs()), "{got} {want}");
        let (sign, log) = lapack::log_determinant(&a.view()).unwrap();
        prop_assert!((sign * log.exp() - of(&a)).abs() <= 1e-10 * (1.0 + of(&a).abs()));
    }

    /// LU and its solver compared with LAPACK's, beyond the sizes at which matrices are halved.
    #[test]
    fn elimination_is_that_of_lapack(n in 1..80usize, seed in 0..1000usize) {
        let a = Array2::from_shape_fn((n, n), |(i, j)| {
            // No two are equal: otherwise rounding would decide which of them is the pivot.
            (((i * n + j + 1) as f64 * 12.9898 + seed as f64 * 78.233).sin() * 43_758.545_3).fract()
        });
        let found = elimination::Lu::of(&a.view(), &Limits::default()).unwrap();
        let mut columns: Vec<f64> = a.t().iter().copied().collect();
        let layout = lax::layout::MatrixLayout::F { col: n as i32, lda: n as i32 };
        let pivots = lax::Lapack::lu(layout, &mut columns).unwrap();
        prop_assert_eq!(elimination::rows_of(&pivots, n).unwrap(), found.rows.clone());
        let factors = Array2::from_shape_fn((n, n), |(i, j)| columns[j * n + i]);
        prop_assert!(is_near(&found.factors, &factors, 1e-8));
        let b = Array2::from_shape_fn((n, 3), |(i, j)| ((i * 5 + j * 3) % 7) as f64 - 3.0);
        let x = elimination::solve(&found.factors.view(), &found.rows, &b.view(), &Limits::default()).unwrap();
        prop_assert!(is_near(&a.dot(&x), &b, 1e-9 * (1.0 + largest(x.view()))));
    }

    /// LDL compared with LAPACK's, for symmetric real and Hermitian matrices.
    #[test]
    fn symmetric_matrices_are_taken_apart_as_lapack_does(a in square(9)) {
        prop_assume!(!a.is_empty());
        let n = a.nrows();
        let whole = &a + &a.t();
        let found = symmetric::Ldl::of(&whole.view(), false, &Limits::default()).unwrap();
        let mut columns: Vec<f64> = whole.iter().copied().collect();
        let layout = lax::layout::MatrixLayout::F { col: n as i32, lda: n as i32 };
        match lax::Lapack::bk(layout, lax::UPLO::Lower, &mut columns) {
            Err(_) => prop_assert!(found.singular.is_some()),
            Ok(pivots) => {
                prop_assert_eq!(&pivots, &found.pivots);
                let factors = Array2::from_shape_fn((n, n), |(i, j)| if i >= j { columns[j * n + i] } else { 0.0 });
                prop_assert!(is_near(&found.factors, &factors, 1e-9));
            }
        }
    }

    #[test]
    fn parts_multiply_to_the_matrix(a in of_any_size(12)) {
        for complete in [false, true] {
            let (q, r) = lapack::qr(&a.view(), complete).unwrap();
            prop_assert!(is_near(&q.dot(&r), &a, 1e-13));
            prop_assert!(is_near(&q.t().dot(&q), &Array2::eye(q.ncols()), 1e-13));
            let parts = lapack::svd(&a.view(), complete, &Limits::default()).unwrap();
            prop_assert!(is_near(&parts.u.t().dot(&parts.u), &Array2::eye(parts.u.ncols()), 1e-13));
            let k = parts.s.len();
            let mut scaled = parts.u.slice(ndarray::s![.., ..k]).to_owned();
            scaled.columns_mut().into_iter().zip(&parts.s).for_each(|(mut column, &s)| column *= s);
            prop_assert!(is_near(&scaled.dot(&parts.vh.slice(ndarray::s![..k, ..])), &a, 1e-12));
            prop_assert!(parts.s.windows(2).all(|pair| pair[0] >= pair[1]));
        }
    }

    #[test]
    fn pseudo_inverses_satisfy_the_penrose_conditions(a in of_any_size(9)) {
        let parts = lapack::svd(&a.view(), false, &Limits::default()).unwrap();
        let inverse = lapack::pseudo_inverse(&parts, 1e-9 * parts.s.first().copied().unwrap_or(0.0));
        let scale = 1.0 + largest(inverse.view());
        prop_assert!(is_near(&a.dot(&inverse).dot(&a), &a, 1e-12 * scale));
        prop_assert!(is_near(&inverse.dot(&a).dot(&inverse), &inverse, 1e-12 * scale));
    }

    #[test]
    fn factors_of_positive_matrices_solve(a in square(8)) {
        let n = a.nrows();
        let positive = a.dot(&a.t()) + Array2::<f64>::eye(n);
        let lower = lapack::cholesky(&positive.view(), false).unwrap();
        prop_assert!(is_near(&lower.dot(&lower.t()), &positive, 1e-12));
        let upper = lapack::cholesky(&positive.view(), true).unwrap();
        prop_assert!(is_near(&upper, &lower.t().to_owned(), 1e-12));
        let mut x = Array2::eye(n);
        solve_triangular(&lower.view(), Triangle { upper: false, unit: false }, &mut x.view_mut(), &Limits::default()).unwrap();
        solve_triangular(&lower.t(), Triangle { upper: true, unit: false }, &mut x.view_mut(), &Limits::default()).unwrap();
        prop_assert!(is_near(&x, &lapack::inverse(&positive.view()).unwrap(), 1e-10));
    }

    #[test]
    fn eigenvalues_tell_powers_and_the_exponential(a in square(6)) {
        let whole = &a + &a.t();
        let (values, vectors) = lapack::eigen_of_symmetric(&whole.view(), false, true).unwrap();
        let of = |function: &dyn Fn(f64) -> f64| {
            let mut scaled = vectors.clone();
            scaled.columns_mut().into_iter().zip(&values).for_each(|(mut column, &value)| column *= function(value));
            scaled.dot(&vectors.t())
        };
        prop_assert!(is_near(&of(&|x| x), &whole, 1e-12));
        prop_assert!(is_near(&power(&whole, 3, &Limits::default()).unwrap(), &of(&|x| x.powi(3)), 1e-11));
        prop_assert!(is_near(&exponential(&whole, &Limits::default()).unwrap(), &of(&f64::exp), 1e-10));
    }

    #[test]
    fn eigenvectors_are_only_scaled(a in square(6)) {
        let (values, vectors) = lapack::eigen(&a.view(), true).unwrap();
        let a = a.mapv(|x| Complex::new(x, 0.0));
        let mut grown = vectors.clone();
        grown.columns_mut().into_iter().zip(&values).for_each(|(mut column, &value)| column.mapv_inplace(|x| x * value));
        let off = (a.dot(&vectors) - grown).mapv(|x| x.norm());
        prop_assert!(largest(off.view()) < 1e-12 * (1.0 + values.iter().fold(0.0, |most: f64, x| most.max(x.norm()))));
    }

    #[test]
    fn the_nearest_leaves_what_is_at_right_angles(a in of_any_size(8), k in 0..3usize) {
        let b = Array2::from_shape_fn((a.nrows(), k), |(i, j)| ((i * 5 + j * 3) % 7) as f64 - 3.0);
        let found = least_squares(&a, &b, Some(1e-9));
        let rest = &b - &a.dot(&found.x);
        prop_assert!(largest(a.t().dot(&rest).view()) < 1e-7);
    }
}

#[test]
fn complex_matrices_are_solved_and_taken_apart() {
    let number = |i: usize| Complex::new((i * 7 % 11) as f64 - 5.0, (i * 5 % 13) as f64 - 6.0);
    let a = Array2::from_shape_fn((4, 4), |(i, j)| number(i * 4 + j));
    let near = |a: &Array2<Complex<f64>>, b: &Array2<Complex<f64>>| (a - b).iter().all(|x| x.norm() < 1e-12);
    let inverse = lapack::inverse(&a.view()).unwrap();
    assert!(near(&inverse.dot(&a), &Array2::eye(4)));
    let (q, r) = lapack::qr(&a.view(), false).unwrap();
    assert!(near(&q.dot(&r), &a) && near(&adjoint(&q.view()).dot(&q), &Array2::eye(4)));
    let hermitian = a.dot(&adjoint(&a.view()));
    let (values, vectors) = lapack::eigen_of_symmetric(&hermitian.view(), true, true).unwrap();
    let mut scaled = vectors.clone();
    scaled
        .columns_mut()
        .into_iter()
        .zip(&values)
        .for_each(|(mut column, &value)| column.mapv_inplace(|x| x * value));
    assert!((scaled.dot(&adjoint(&vectors.view())) - &hermitian).iter().all(|x| x.norm() < 1e-9));
    let single = a.mapv(|x| Complex::new(x.re as f32, x.im as f32));
    let inverse = lapack::inverse(&single.view()).unwrap();
    assert!((inverse.dot(&single) - Array2::<Complex<f32>>::eye(4)).iter().all(|x| x.norm() < 1e-4));
}

/// LAPACK and its bindings use 32-bit sizes; larger matrices must not reach them.
#[test]
fn matrices_too_large_for_lapack_are_rejected() {
    for (m, n) in [(46_341, 1), (65_536, 1), (1, 65_536)] {
        let a = Array2::<f32>::zeros((m, n));
        assert_eq!(lapack::svd(&a.view(), true, &Limits::default()), Err(lapack::Fault::TooLarge), "{m}×{n}");
        assert_eq!(lapack::singular_values(&a.view()).map(|values| values.len()), Ok(1), "{m}×{n}");
    }
}

/// LAPACK's own allocations count, too.
#[test]
fn memory_of_lapack_is_within_the_limits() {
    let a = Array2::<f32>::eye(100);
    let limits = |bytes| Limits { max_tensor_bytes: bytes, ..Limits::default() };
    assert!(matches!(lapack::svd(&a.view(), false, &limits(100_000)), Err(lapack::Fault::Limit(_))));
    assert!(lapack::svd(&a.view(), false, &limits(1_000_000)).is_ok());
}

#[test]
fn matrices_with_nan_are_not_singular() {
    let a = array![[0.0, f64::NAN], [0.0, 1.0]];
    assert!(lapack::determinant(&a.view()).unwrap().is_nan());
    assert!(lapack::log_determinant(&a.view()).unwrap().1.is_nan());
    let singular = array![[0.0, 2.0], [0.0, 1.0]];
    assert_eq!(lapack::determinant(&singular.view()), Ok(0.0));
}

#[test]
fn a_negative_bound_is_the_usual_one() {
    let (a, b) = (array![[1.0, 2.0], [2.0, 4.0]], array![[1.0], [1.0]]);
    let found = least_squares(&a, &b, Some(-1.0));
    assert_eq!(found.rank, 1);
    let want: Array2<f64> = array![[0.12], [0.24]];
    assert!((&found.x - &want).iter().all(|x| x.abs() < 1e-12), "{}", found.x);
}

#[test]
fn conditions_of_what_is_not_a_number() {
    let a = array![[1.0, 2.0], [f64::NAN, 1.0]];
    for p in [1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(lapack::condition(&a.view(), lapack::Norm::Order(p)), Ok(f64::INFINITY), "{p}");
    }
    assert_eq!(lapack::condition(&a.view(), lapack::Norm::Frobenius), Ok(f64::INFINITY));
    assert_eq!(lapack::condition(&a.view(), lapack::Norm::Nuclear), Err(lapack::Fault::NotFinite));
    let singular = array![[1.0, 2.0], [2.0, 4.0]];
    assert!(lapack::condition(&singular.view(), lapack::Norm::Nuclear).unwrap() > 1e14);
    assert!(lapack::condition(&Array2::<f64>::zeros((2, 2)).view(), lapack::Norm::Nuclear).unwrap().is_nan());
}

/// OpenBLAS needs megabytes of stack for a matrix that it splits among threads; this thread has 256 KiB.
#[test]
fn large_matrices_need_no_large_stack() {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(|| {
        let number = |i: usize, j: usize| ((i * 7 + j * 3) % 11) as f64 + if i == j { 2000.0 } else { 0.0 };
        let a = Array2::from_shape_fn((400, 400), |(i, j)| number(i.max(j), i.min(j)));
        lapack::inverse(&a.view()).unwrap();
        lapack::cholesky(&a.view(), false).unwrap();
        lapack::qr(&a.view(), true).unwrap();
        lapack::svd(&a.view(), false, &Limits::default()).unwrap();
        lapack::singular_values(&a.view()).unwrap();
        lapack::eigen_of_symmetric(&a.view(), false, true).unwrap();
        lapack::eigen(&a.view(), false).unwrap();
    });
    thread.unwrap().join().unwrap();
}

/// A factorisation cannot be interrupted, but the work after it can.
#[test]
fn solving_ends_when_the_time_is_up() {
    let a = Array2::from_shape_fn((300, 300), |(i, j)| {
        ((i * 7 + j * 3) % 11) as f64 + if i == j { 90.0 } else { 0.0 }
    });
    let limits = Limits::default().with_timeout(std::time::Duration::ZERO);
    let found = lapack::solve(&a.view(), &a.view(), &limits);
    assert_eq!(found, Err(lapack::Fault::Limit(ixion::LimitError::DeadlineExceeded)));
}
