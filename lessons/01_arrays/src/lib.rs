//! Lesson 01: arrays, and how to test them.
//!
//! The page of the book: `book/src/lessons/01_arrays.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion_tensor::Float;
use ndarray::{Array1, Array2, ArrayD, ArrayView1, ArrayView2, ArrayViewD};

// Task 1: one formula for every element.

/// Each element of `x` plus the one of `y` at the same place, as `torch.add`.
///
/// # Panics
/// When the shapes do not fit each other.
pub fn add(x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    todo!(
        "lesson 01, task 1: each element of x plus the one of y at the same place (book chapter 1; stuck? cargo learn hint 1)"
    )
}

/// Each element of `x` minus the one of `y` at the same place, as `torch.sub`.
///
/// # Panics
/// When the shapes do not fit each other.
pub fn subtract(x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    todo!(
        "lesson 01, task 1: each element of x minus the one of y at the same place (book chapter 1; stuck? cargo learn hint 1)"
    )
}

/// `a` times each element of `x`, plus the one of `y` at the same place: a·x + y, as `torch.add(y, x, alpha=a)`.
///
/// # Panics
/// When the shapes do not fit each other.
pub fn axpy(a: f64, x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    todo!(
        "lesson 01, task 1: a times each element of x, plus the one of y at the same place (book chapter 1; stuck? cargo learn hint 1)"
    )
}

/// 1 / (1 + e⁻ˣ) of each element, as `torch.sigmoid`.
pub fn sigmoid(x: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    todo!("lesson 01, task 1: 1 / (1 + e⁻ˣ) of each element (book chapter 1; stuck? cargo learn hint 1)")
}

// Task 2: close enough.

/// Whether a number is as close to the one that was wanted as it must be: |got − want| ≤ `atol` + `rtol` · |want|, as
/// `torch.isclose`. Equal infinities are close. An infinity is close to nothing else, and NaN to nothing at all.
pub fn is_close(got: f64, want: f64, rtol: f64, atol: f64) -> bool {
    todo!(
        "lesson 01, task 2: equal, or not further apart than atol + rtol · |want| (book chapter 1; stuck? cargo learn hint 1)"
    )
}

/// Whether two arrays have the same shape, and close elements everywhere, as `torch.allclose`.
pub fn all_close(got: ArrayViewD<'_, f64>, want: ArrayViewD<'_, f64>, rtol: f64, atol: f64) -> bool {
    todo!(
        "lesson 01, task 2: the same shape, and close elements everywhere (book chapter 1; stuck? cargo learn hint 1)"
    )
}

// Task 3: the matrix product. `T` is `f32` or `f64`: both can be multiplied, and summed up by `.sum()`.

/// The product of an m×k and a k×n matrix: each element is a row times a column.
///
/// # Panics
/// When the inner lengths differ.
pub fn matmul<T: Float>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    todo!(
        "lesson 01, task 3: each row of a times each column of b (book chapter 1; stuck? cargo learn hint 1)"
    )
}

// Task 4: norms.

/// The p-norm, as `torch.norm`: (Σ |x|ᵖ)^(1/p). For p = 0 it counts what is not 0; for p = ∞ it is the largest |x|, for
/// p = −∞ the smallest. Of a row with NaN it is NaN, unless p is 0.
pub fn norm(row: ArrayView1<'_, f64>, p: f64) -> f64 {
    todo!(
        "lesson 01, task 4: count for p = 0, largest for p = ∞, smallest for p = −∞, else the formula (book chapter 1; stuck? cargo learn hint 1)"
    )
}

// Task 5: solving. 0 of the type `T` is `T::zero()`.

/// The x with u·x = b for a triangular matrix u, as `torch.linalg.solve_triangular` with `upper=True`. What is below the
/// diagonal is not read. A 0 on the diagonal gives ∞ or NaN.
///
/// # Panics
/// When u is not square, or b has another length.
pub fn solve_upper<T: Float>(u: ArrayView2<'_, T>, b: ArrayView1<'_, T>) -> Array1<T> {
    todo!(
        "lesson 01, task 5: the last row gives the last x; put it into the rows above, and go up (book chapter 1; stuck? cargo learn hint 1)"
    )
}

/// The x with a·x = b, as `torch.linalg.solve`, by Gaussian elimination: of the rows that are left, the one with the largest
/// coefficient is taken for each unknown. `None` if there is none but 0: then the matrix is singular, up to rounding.
///
/// # Panics
/// When a is not square, or b has another length.
pub fn solve<T: Float>(a: ArrayView2<'_, T>, b: ArrayView1<'_, T>) -> Option<Array1<T>> {
    todo!(
        "lesson 01, task 5: for each column swap the largest coefficient up, make those below it 0, then solve_upper (book chapter 1; stuck? cargo learn hint 1)"
    )
}
