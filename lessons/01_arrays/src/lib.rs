//! Lesson 01: arrays, and how to test them.
//!
//! The page of the book: `book/src/lessons/01_arrays.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion_tensor::Float;
use ndarray::{Array1, Array2, ArrayD, ArrayView1, ArrayView2, ArrayViewD};

// Task 1: one formula for every element.

/// Adds `x` and `y` element by element, as `torch.add`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn add(x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    todo!("lesson 01, task 1: add x and y element by element (book chapter 1; stuck? cargo learn hint 1)")
}

/// Subtracts `y` from `x` element by element, as `torch.sub`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn subtract(x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    todo!(
        "lesson 01, task 1: subtract y from x element by element (book chapter 1; stuck? cargo learn hint 1)"
    )
}

/// Computes a·x + y element by element, as `torch.add(y, x, alpha=a)`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn axpy(a: f64, x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    todo!("lesson 01, task 1: a·x + y, element by element (book chapter 1; stuck? cargo learn hint 1)")
}

/// 1 / (1 + e⁻ˣ) of each element, as `torch.sigmoid`.
pub fn sigmoid(x: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    todo!("lesson 01, task 1: 1 / (1 + e⁻ˣ) of each element (book chapter 1; stuck? cargo learn hint 1)")
}

// Task 2: close enough.

/// Returns true if `got` is close to `want`, that is, if |got − want| ≤ `atol` + `rtol` · |want|, as `torch.isclose`.
/// Equal infinities are close. An infinity is not close to anything else, and NaN is not close to anything.
pub fn is_close(got: f64, want: f64, rtol: f64, atol: f64) -> bool {
    todo!(
        "lesson 01, task 2: equal, or at most atol + rtol · |want| apart (book chapter 1; stuck? cargo learn hint 1)"
    )
}

/// Returns true if two arrays have the same shape and all their elements are close, as `torch.allclose`.
pub fn all_close(got: ArrayViewD<'_, f64>, want: ArrayViewD<'_, f64>, rtol: f64, atol: f64) -> bool {
    todo!(
        "lesson 01, task 2: the same shape, and all elements close (book chapter 1; stuck? cargo learn hint 1)"
    )
}

// Task 3: the matrix product. `T` is `f32` or `f64`: values can be multiplied, and `.sum()` adds them up.

/// The product of an m×k and a k×n matrix: each element is a row times a column.
///
/// # Panics
/// Panics if the inner lengths differ.
pub fn matmul<T: Float>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    todo!(
        "lesson 01, task 3: each row of a times each column of b (book chapter 1; stuck? cargo learn hint 1)"
    )
}

// Task 4: norms.

/// The p-norm, as `torch.norm`: (Σ |x|ᵖ)^(1/p). For p = 0, it counts the elements that are not 0; for p = ∞, it is the
/// largest |x|, and for p = −∞ the smallest. The norm of a row with NaN is NaN, unless p is 0.
pub fn norm(row: ArrayView1<'_, f64>, p: f64) -> f64 {
    todo!(
        "lesson 01, task 4: count for p = 0, largest for p = ∞, smallest for p = −∞, else the formula (book chapter 1; stuck? cargo learn hint 1)"
    )
}

// Task 5: solving. `T::zero()` is 0 of type `T`.

/// Solves u·x = b for an upper triangular matrix u, as `torch.linalg.solve_triangular` with `upper=True`. Elements below
/// the diagonal are not read. A 0 on the diagonal gives ∞ or NaN.
///
/// # Panics
/// Panics if u is not square, or b has another length.
pub fn solve_upper<T: Float>(u: ArrayView2<'_, T>, b: ArrayView1<'_, T>) -> Array1<T> {
    todo!(
        "lesson 01, task 5: the last row gives the last x; substitute it into the rows above, and so on (book chapter 1; stuck? cargo learn hint 1)"
    )
}

/// Solves a·x = b, as `torch.linalg.solve`, by Gaussian elimination with partial pivoting: for each unknown, the
/// remaining row with the largest coefficient is used. Returns `None` if all these coefficients are 0: the matrix is then
/// singular, up to rounding.
///
/// # Panics
/// Panics if a is not square, or b has another length.
pub fn solve<T: Float>(a: ArrayView2<'_, T>, b: ArrayView1<'_, T>) -> Option<Array1<T>> {
    todo!(
        "lesson 01, task 5: for each column swap the largest coefficient up, make those below it 0, then solve_upper (book chapter 1; stuck? cargo learn hint 1)"
    )
}
