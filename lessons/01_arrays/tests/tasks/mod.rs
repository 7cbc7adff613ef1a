//! The tests of each task of lesson 01.

mod lapack;

use super::subject::{add, all_close, axpy, is_close, matmul, norm, sigmoid, solve, solve_upper, subtract};
use approx::{assert_abs_diff_eq, assert_relative_eq, relative_eq};
use ndarray::{Array1, Array2, ArrayD, IxDyn, array};
use std::panic::catch_unwind;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Compares shapes first, then elements.
#[track_caller]
fn check(got: ArrayD<f64>, want: ArrayD<f64>, hint: &str) {
    assert_eq!(got.shape(), want.shape(), "the shape is wrong. {hint}");
    assert!(relative_eq!(got, want, max_relative = 1e-12), "{hint}\n  got {got}\n want {want}");
}

/// Deterministic pseudo-random numbers from -5 to 5.
fn noise(rows: usize, columns: usize, seed: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, columns), |(i, j)| ((i * 37 + j * 11 + seed * 7) % 23) as f64 / 2.2 - 5.0)
}

#[test]
fn task1_a_sum_by_hand() {
    let (x, y) = (array![[1.0, 2.0], [3.0, 4.0]].into_dyn(), array![[10.0, 20.0], [30.0, -4.0]].into_dyn());
    check(
        add(x.view(), y.view()),
        array![[11.0, 22.0], [33.0, 0.0]].into_dyn(),
        "1 + 10 is the first element",
    );
}

#[test]
fn task1_a_difference_has_a_direction() {
    let (x, y) = (array![5.0, 1.0].into_dyn(), array![2.0, 3.0].into_dyn());
    check(subtract(x.view(), y.view()), array![3.0, -2.0].into_dyn(), "5 − 2 = 3: is it y − x?");
}

#[test]
fn task1_any_number_of_axes() {
    for shape in [&[][..], &[4], &[2, 1, 3], &[1, 2, 2, 2], &[2, 0]] {
        let ones = ArrayD::from_elem(IxDyn(shape), 1.0);
        let twos = ArrayD::from_elem(IxDyn(shape), 2.0);
        check(add(ones.view(), twos.view()), &ones + 2.0, "the result has the shape of x and y");
        check(subtract(ones.view(), twos.view()), -&ones, "the result has the shape of x and y");
    }
}

#[test]
fn task1_sums_are_rounded() {
    let sum = add(array![0.1].into_dyn().view(), array![0.2].into_dyn().view());
    assert_ne!(sum[0], 0.3, "the sum of the numbers nearest to 0.1 and 0.2 is not the number nearest to 0.3");
    assert_relative_eq!(sum[0], 0.3, max_relative = 1e-15);
}

#[test]
fn task1_a_x_plus_y_by_hand() {
    let (x, y) = (array![[1.0, 2.0, -3.0]].into_dyn(), array![[10.0, 20.0, 30.0]].into_dyn());
    let hint = "2 · 1 + 10 = 12. 22 would be 2 · (1 + 10), and 21 is 1 + 2 · 10.";
    check(axpy(2.0, x.view(), y.view()), array![[12.0, 24.0, 24.0]].into_dyn(), hint);
    check(axpy(0.0, x.view(), y.view()), y.clone(), "0 · x + y is y");
    check(axpy(-1.0, y.view(), y.view()), ArrayD::zeros(IxDyn(&[1, 3])), "−y + y is 0");
}

#[test]
fn task1_sigmoid_by_hand() {
    let x = array![0.0, 3f64.ln(), -(3f64.ln())].into_dyn();
    let hint =
        "e to the power of −ln 3 is 1/3, and 1 / (1 + 1/3) = 0.75. 0.25 there: is it eˣ instead of e⁻ˣ?";
    check(sigmoid(x.view()), array![0.5, 0.75, 0.25].into_dyn(), hint);
}

#[test]
fn task1_sigmoid_is_symmetric_and_keeps_the_shape() {
    let x = noise(3, 4, 1).into_dyn();
    let sum = sigmoid(x.view()) + sigmoid((-&x).view());
    assert_eq!(sum.shape(), [3, 4], "each element becomes one element");
    assert_abs_diff_eq!(sum, ArrayD::from_elem(IxDyn(&[3, 4]), 1.0), epsilon = 1e-15);
}

#[test]
fn task1_sigmoid_far_from_zero() {
    let y = sigmoid(array![-800.0, 800.0].into_dyn().view());
    assert!(!y[0].is_nan() && !y[1].is_nan(), "e⁸⁰⁰ is ∞, and ∞ / ∞ is NaN: is it eˣ / (1 + eˣ)?");
    check(y, array![0.0, 1.0].into_dyn(), "far to the left it is 0, far to the right 1");
}

#[test]
fn task1_sigmoid_keeps_its_small_values() {
    let y = sigmoid(array![-40.0].into_dyn().view())[0];
    assert!(
        relative_eq!(y, (-40f64).exp(), epsilon = 0.0, max_relative = 1e-12),
        "got {y}, want 4.248e-18. 0 is close by any absolute tolerance, but loses every digit: is it 1 − …?"
    );
}

#[test]
fn task2_equal_numbers_need_no_tolerance() {
    assert!(is_close(3.0, 3.0, 0.0, 0.0), "a distance of 0 is not more than 0: is it `<` instead of `<=`?");
    assert!(is_close(0.0, -0.0, 0.0, 0.0), "0 and −0 are equal");
    assert!(!is_close(0.1 + 0.2, 0.3, 0.0, 0.0), "without a tolerance, the last bit matters");
    assert!(is_close(0.1 + 0.2, 0.3, 1e-15, 0.0), "the last bit of 0.3 is less than 1e-15 times 0.3");
}

#[test]
fn task2_above_and_below() {
    assert!(is_close(1.25, 1.0, 0.0, 0.25) && is_close(0.75, 1.0, 0.0, 0.25), "0.25 above, and 0.25 below");
    assert!(!is_close(1.5, 1.0, 0.0, 0.25), "0.5 is more than 0.25");
    assert!(!is_close(-5.0, 1.0, 0.0, 0.25), "6 below: is it the distance, or the signed difference?");
}

#[test]
fn task2_the_tolerance_follows_the_expected_value() {
    assert!(is_close(90.0, 100.0, 0.1, 0.0), "10 % of 100 is 10");
    assert!(!is_close(100.0, 90.0, 0.1, 0.0), "10 % of 90 is 9: is the tolerance relative to `got`?");
    assert!(is_close(-0.95, -1.0, 0.1, 0.0), "10 % of −1 is 0.1, not −0.1");
}

#[test]
fn task2_near_zero_only_the_absolute_tolerance_helps() {
    assert!(!is_close(1e-9, 0.0, 0.5, 0.0), "half of 0 is 0");
    assert!(is_close(1e-9, 0.0, 0.0, 1e-8), "1e-9 is not more than 1e-8");
    assert!(is_close(1.5, 1.0, 0.25, 0.25), "0.25 · 1 + 0.25 = 0.5: the two tolerances are added");
}

#[test]
fn task2_infinity_and_nan() {
    assert!(is_close(INF, INF, 0.0, 0.0) && is_close(-INF, -INF, 0.0, 0.0), "∞ − ∞ is NaN, but ∞ == ∞");
    for (got, want) in [(1.0, INF), (INF, 1.0), (INF, -INF)] {
        let hint = "an infinite distance is not close, even though ∞ <= ∞";
        assert!(!is_close(got, want, 0.5, 0.5), "{got} and {want}: {hint}");
    }
    for (got, want) in [(1.0, NAN), (NAN, 1.0), (NAN, NAN), (NAN, INF)] {
        assert!(
            !is_close(got, want, 0.5, 0.5),
            "{got} and {want}: NaN is not close to any number, nor to NaN"
        );
    }
}

#[test]
fn task2_arrays_are_close_if_all_elements_are() {
    let want = array![[1.0, 2.0], [3.0, 4.0]].into_dyn();
    assert!(all_close(want.view(), want.view(), 0.0, 0.0), "an array is close to itself");
    for place in [[0, 0], [0, 1], [1, 1]] {
        let mut got = want.clone();
        got[place] += 1.0;
        let hint = "one element is too far away: are all compared?";
        assert!(!all_close(got.view(), want.view(), 0.1, 0.1), "{hint}");
        assert!(all_close(got.view(), want.view(), 0.0, 1.0), "no element is further away than 1");
    }
}

#[test]
fn task2_shapes_come_first() {
    let wide = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].into_dyn();
    let tall = array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].into_dyn();
    assert!(!all_close(wide.view(), tall.view(), 0.1, 0.1), "the same numbers, but 2×3 is not 3×2");
    let (long, short) = (array![1.0, 2.0, 3.0].into_dyn(), array![1.0, 2.0].into_dyn());
    let hint = "three elements are not two: `zip` silently stops at the end of the shorter one";
    assert!(!all_close(long.view(), short.view(), 0.1, 0.1), "{hint}");
    assert!(!all_close(short.view(), long.view(), 0.1, 0.1), "{hint}");
}

#[test]
fn task3_a_product_by_hand() {
    let (a, b) = (array![[1.0, 2.0], [3.0, 4.0]], array![[5.0, 6.0], [7.0, 8.0]]);
    let hint =
        "The first element is 1·5 + 2·7 = 19. 17 is rows times rows, 5 is element by element, 23 is b·a.";
    check(matmul(a.view(), b.view()).into_dyn(), array![[19.0, 22.0], [43.0, 50.0]].into_dyn(), hint);
}

#[test]
fn task3_rows_of_a_and_columns_of_b() {
    let a = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let b = array![[7.0, 8.0], [9.0, 10.0], [11.0, 12.0]];
    let hint = "2×3 times 3×2 is 2×2; 1·7 + 2·9 + 3·11 = 58";
    check(matmul(a.view(), b.view()).into_dyn(), array![[58.0, 64.0], [139.0, 154.0]].into_dyn(), hint);
    let hint = "3×2 times 2×3 is 3×3; 7·1 + 8·4 = 39";
    let want = array![[39.0, 54.0, 69.0], [49.0, 68.0, 87.0], [59.0, 82.0, 105.0]];
    check(matmul(b.view(), a.view()).into_dyn(), want.into_dyn(), hint);
}

#[test]
fn task3_the_identity_matrix_changes_nothing() {
    let a = noise(5, 4, 2);
    let hint = "ones on the diagonal, zeros elsewhere: each element is multiplied by 1 once";
    check(matmul(a.view(), Array2::eye(4).view()).into_dyn(), a.into_dyn(), hint);
}

#[test]
fn task3_single_precision_and_transposed_matrices() {
    let (a, b) = (noise(5, 7, 3).mapv(|x| x as f32), noise(5, 6, 4).mapv(|x| x as f32));
    let product = matmul(a.t(), b.view());
    assert_eq!(product.dim(), (7, 6), "7×5 times 5×6 is 7×6");
    let want = a.t().dot(&b);
    let hint = "compared with ndarray's `dot`, which adds in a different order: hence the tolerance";
    assert!(
        relative_eq!(product, want, epsilon = 1e-4, max_relative = 1e-5),
        "{hint}\n got {product}\nwant {want}"
    );
}

#[test]
fn task3_mismatched_lengths_are_rejected() {
    let empty = matmul(Array2::<f64>::zeros((2, 0)).view(), Array2::zeros((0, 3)).view());
    assert_eq!(empty, Array2::<f64>::zeros((2, 3)), "a sum of no products is 0");
    let refused = catch_unwind(|| matmul(noise(2, 3, 5).view(), noise(2, 3, 6).view()));
    let hint = "a row of 3 does not match a column of 2; `zip` silently stops at the end of the shorter one";
    assert!(refused.is_err(), "{hint}. Use `assert_eq!` first.");
}

#[test]
fn task4_norms_by_hand() {
    let row = array![3.0, -4.0];
    for (p, want) in [(2.0, 5.0), (1.0, 7.0), (0.0, 2.0), (INF, 4.0), (-INF, 3.0)] {
        let got = norm(row.view(), p);
        assert!(relative_eq!(got, want, max_relative = 1e-12), "the {p}-norm of {row} is {want}, not {got}");
    }
}

#[test]
fn task4_any_power() {
    assert_relative_eq!(norm(array![1.0, 4.0].view(), 0.5), 9.0, max_relative = 1e-12);
    assert_relative_eq!(norm(array![1.0, -2.0, 2.0].view(), 3.0), 17f64.cbrt(), max_relative = 1e-12);
}

#[test]
fn task4_zeros_and_no_elements() {
    let hint = "a computer says that 0 to the power of 0 is 1, but zeros do not count";
    assert_eq!(norm(array![0.0, -2.0, 0.0, 5.0, 1.0].view(), 0.0), 3.0, "{hint}");
    let nothing = Array1::<f64>::zeros(0);
    assert_eq!(
        [0.0, 1.0, 2.0, INF].map(|p| norm(nothing.view(), p)),
        [0.0; 4],
        "the norm of no elements is 0"
    );
}

#[test]
fn task4_nan_is_not_overlooked() {
    for p in [0.5, 1.0, 2.0, INF, -INF] {
        let got = norm(array![1.0, NAN, 2.0].view(), p);
        assert!(
            got.is_nan(),
            "the {p}-norm is {got}: `f64::max` and `f64::min` skip NaN, and hide what went wrong"
        );
    }
}

#[test]
fn task5_the_last_equation_first() {
    let (u, b) = (array![[2.0, 1.0, -1.0], [0.0, 3.0, 2.0], [0.0, 0.0, 4.0]], array![1.0, 13.0, 8.0]);
    let hint = "4z = 8, so z = 2; 3y + 4 = 13, so y = 3; 2x + 3 − 2 = 1, so x = 0";
    check(solve_upper(u.view(), b.view()).into_dyn(), array![0.0, 3.0, 2.0].into_dyn(), hint);
    let with_noise = &u + &array![[0.0, 0.0, 0.0], [7.0, 0.0, 0.0], [-5.0, 9.0, 0.0]];
    let hint = "elements below the diagonal must not be read";
    check(solve_upper(with_noise.view(), b.view()).into_dyn(), array![0.0, 3.0, 2.0].into_dyn(), hint);
}

#[test]
fn task5_two_equations_by_hand() {
    let (a, b) = (array![[1.0, 2.0], [3.0, 4.0]], array![5.0, 11.0]);
    let hint = "1 + 2·2 = 5, and 3 + 4·2 = 11. Is b swapped and combined like the rows of the matrix?";
    check(solved(&a, &b), array![1.0, 2.0].into_dyn(), hint);
    let (a, b) = (array![[2.0, 1.0], [1.0, 3.0]], array![5.0, 5.0]);
    check(solved(&a, &b), array![2.0, 1.0].into_dyn(), "2·2 + 1 = 5, and 2 + 3·1 = 5");
}

#[test]
fn task5_a_zero_on_the_diagonal() {
    let (a, b) = (array![[0.0, 2.0], [3.0, 1.0]], array![4.0, 5.0]);
    let hint =
        "2y = 4, 3x + y = 5. ∞ or NaN: do you divide by the 0? (0.5, 2.5): are rows swapped in b, too?";
    check(solved(&a, &b), array![1.0, 2.0].into_dyn(), hint);
    let (a, b) = (array![[1.0, 2.0, 1.0], [2.0, 4.0, 4.0], [1.0, 3.0, 2.0]], array![8.0, 22.0, 13.0]);
    let hint = "the 0 appears along the way: look for a row to swap in every column";
    check(solved(&a, &b), array![1.0, 2.0, 3.0].into_dyn(), hint);
}

#[test]
fn task5_the_largest_coefficient_goes_up() {
    let (a, b) = (array![[1e-20, 1.0], [1.0, 1.0]], array![1.0, 2.0]);
    let hint = "x and y are almost 1. x = 0: 10²⁰ times the first row was subtracted, and rounding swallowed the second";
    check(solved(&a, &b), array![1.0, 1.0].into_dyn(), hint);
    let (a, b) = (array![[1e-20, 1.0], [-1.0, 1.0]], array![1.0, 2.0]);
    let hint = "x is almost −1: −1 has a larger magnitude than 10⁻²⁰, whatever its sign";
    check(solved(&a, &b), array![-1.0, 1.0].into_dyn(), hint);
}

#[test]
fn task5_singular_matrices_have_no_solution() {
    for a in [array![[1.0, 2.0], [2.0, 4.0]], array![[0.0, 0.0], [0.0, 0.0]], array![[0.0, 1.0], [0.0, 2.0]]]
    {
        let hint = "the rows are multiples of each other: a column of zeros is left over";
        assert_eq!(solve(a.view(), array![1.0, 1.0].view()), None, "of {a}: {hint}");
    }
    let (nothing, none) = (Array2::<f64>::zeros((0, 0)), Array1::zeros(0));
    assert_eq!(
        solve(nothing.view(), none.view()),
        Some(none),
        "a system without equations has an empty solution"
    );
}

#[test]
fn task5_the_solution_solves_the_equations() {
    for n in 1..=9 {
        let a = noise(n, n, n) + Array2::<f64>::eye(n) / 3.0;
        let b = noise(n, 1, n + 4).column(0).to_owned();
        let x: Array1<f64> = solved(&a, &b).into_dimensionality().unwrap();
        let hint = "substituted into the equations, x must give b up to rounding";
        assert!(
            relative_eq!(a.dot(&x), b, epsilon = 1e-9, max_relative = 1e-9),
            "{n} equations, x = {x}: {hint}"
        );
    }
}

#[test]
fn task5_single_precision() {
    let a = array![[0f32, 2.0, 1.0], [4.0, 1.0, -1.0], [1.0, 1.0, 3.0]];
    let x = solve(a.view(), array![7f32, 3.0, 12.0].view()).unwrap();
    let want = array![1f32, 2.0, 3.0];
    let hint =
        "4 is the largest coefficient of the first column: is the search for it as generic as the rest?";
    assert!(relative_eq!(x, want, max_relative = 1e-5), "{hint}\n got {x}\nwant {want}");
}

#[test]
fn task5_mismatched_sizes_are_rejected() {
    let square = noise(2, 2, 1);
    assert_eq!(solved(&square, &array![1.0, 2.0]).len(), 2, "two equations with two unknowns match");
    let oblong = catch_unwind(|| solve(noise(3, 2, 1).view(), array![1.0, 2.0].view()));
    assert!(oblong.is_err(), "three equations for two unknowns usually have no solution");
    let short = catch_unwind(|| solve(noise(3, 3, 1).view(), array![1.0, 2.0].view()));
    assert!(short.is_err(), "three equations have three right-hand sides. Use `assert!` first.");
    let oblong = catch_unwind(|| solve_upper(noise(2, 3, 1).view(), array![1.0, 2.0].view()));
    assert!(oblong.is_err(), "solve_upper, too, needs as many equations as unknowns");
}

/// The solution, which must exist and have one number for each unknown.
#[track_caller]
fn solved(a: &Array2<f64>, b: &Array1<f64>) -> ArrayD<f64> {
    let x = solve(a.view(), b.view());
    let x = x.unwrap_or_else(|| {
        panic!("the equations have a solution: is a 0 along the way taken for a singular matrix?\n{a}")
    });
    assert_eq!(x.len(), a.ncols(), "one number for each unknown");
    x.into_dyn()
}
