//! Closeness of floating-point numbers, by PyTorch's rule.

use ndarray::ArrayViewD;

// ANCHOR: is_close
/// Returns true if `got` is close to `want`, that is, if |got − want| ≤ `atol` + `rtol` · |want|, as `torch.isclose`.
/// Equal infinities are close. An infinity is not close to anything else, and NaN is not close to anything.
pub fn is_close(got: f64, want: f64, rtol: f64, atol: f64) -> bool {
    // ANCHOR: is_close_todo -- task 2: equal, or at most atol + rtol · |want| apart
    let distance = (got - want).abs();
    got == want || (distance.is_finite() && distance <= atol + rtol * want.abs())
    // ANCHOR_END: is_close_todo
}

/// Returns true if two arrays have the same shape and all their elements are close, as `torch.allclose`.
pub fn all_close(got: ArrayViewD<'_, f64>, want: ArrayViewD<'_, f64>, rtol: f64, atol: f64) -> bool {
    // ANCHOR: all_close_todo -- task 2: the same shape, and all elements close
    got.shape() == want.shape() && got.iter().zip(&want).all(|(&got, &want)| is_close(got, want, rtol, atol))
    // ANCHOR_END: all_close_todo
}
// ANCHOR_END: is_close

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn by_hand() {
        assert!(is_close(0.1 + 0.2, 0.3, 1e-15, 0.0) && !is_close(0.1 + 0.2, 0.3, 0.0, 0.0));
        assert!(is_close(90.0, 100.0, 0.1, 0.0) && !is_close(100.0, 90.0, 0.1, 0.0));
        assert!(is_close(f64::INFINITY, f64::INFINITY, 0.0, 0.0) && !is_close(1.0, f64::INFINITY, 1.0, 1.0));
        assert!(!is_close(f64::NAN, f64::NAN, 1.0, 1.0));
        let x = array![[1.0, 2.0, 3.0]].into_dyn();
        assert!(all_close(x.view(), x.view(), 0.0, 0.0) && !all_close(x.view(), x.t(), 1.0, 1.0));
    }
}
