//! Arithmetic on whole arrays, element by element.

use ndarray::{ArrayD, ArrayViewD};

// ANCHOR: add
/// Adds `x` and `y` element by element, as `torch.add`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn add(x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    // ANCHOR: add_todo -- task 1: add x and y element by element
    &x + &y
    // ANCHOR_END: add_todo
}

/// Subtracts `y` from `x` element by element, as `torch.sub`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn subtract(x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    // ANCHOR: subtract_todo -- task 1: subtract y from x element by element
    &x - &y
    // ANCHOR_END: subtract_todo
}
// ANCHOR_END: add

// ANCHOR: axpy
/// Computes a·x + y element by element, as `torch.add(y, x, alpha=a)`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn axpy(a: f64, x: ArrayViewD<'_, f64>, y: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    // ANCHOR: axpy_todo -- task 1: a·x + y, element by element
    &x * a + &y
    // ANCHOR_END: axpy_todo
}

/// 1 / (1 + e⁻ˣ) of each element, as `torch.sigmoid`.
pub fn sigmoid(x: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    // ANCHOR: sigmoid_todo -- task 1: 1 / (1 + e⁻ˣ) of each element
    x.mapv(|x| 1.0 / (1.0 + (-x).exp()))
    // ANCHOR_END: sigmoid_todo
}
// ANCHOR_END: axpy

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn by_hand() {
        let (x, y) = (array![[1.0, 2.0], [3.0, 4.0]].into_dyn(), array![[10.0, 0.5], [0.0, -4.0]].into_dyn());
        assert_eq!(add(x.view(), y.view()), array![[11.0, 2.5], [3.0, 0.0]].into_dyn());
        assert_eq!(subtract(x.view(), y.view()), array![[-9.0, 1.5], [3.0, 8.0]].into_dyn());
        assert_eq!(axpy(2.0, x.view(), y.view()), array![[12.0, 4.5], [6.0, 4.0]].into_dyn());
        let logs = array![0.0, 3f64.ln(), f64::NEG_INFINITY].into_dyn();
        assert_eq!(sigmoid(logs.view()).mapv(|x| (x * 1e9).round() / 1e9), array![0.5, 0.75, 0.0].into_dyn());
    }
}
