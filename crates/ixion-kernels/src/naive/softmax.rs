//! Softmax by its definition.

use crate::Float;
use ndarray::{ArrayD, ArrayViewD, Axis};

/// e^x over the sum of e^x along an axis, as `torch.nn.functional.softmax`. The largest element is subtracted first, so
/// that nothing overflows; if it is infinite, the result is NaN.
///
/// # Panics
/// Panics if there is no such axis.
pub fn softmax<T: Float>(input: ArrayViewD<'_, T>, axis: usize) -> ArrayD<T> {
    let mut result = input.to_owned();
    for mut lane in result.lanes_mut(Axis(axis)) {
        let largest = lane.fold(T::neg_infinity(), |largest, &x| largest.max(x));
        lane.mapv_inplace(|x| (x - largest).exp());
        let sum = lane.sum();
        lane.mapv_inplace(|x| x / sum);
    }
    result
}

/// The logarithm of [`softmax`], computed so that small results do not underflow.
///
/// # Panics
/// Panics if there is no such axis.
pub fn log_softmax<T: Float>(input: ArrayViewD<'_, T>, axis: usize) -> ArrayD<T> {
    let mut result = input.to_owned();
    for mut lane in result.lanes_mut(Axis(axis)) {
        let largest = lane.fold(T::neg_infinity(), |largest, &x| largest.max(x));
        let sum = lane.iter().map(|&x| (x - largest).exp()).sum::<T>();
        lane.mapv_inplace(|x| x - largest - sum.ln());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::IxDyn;

    #[test]
    fn by_hand() {
        let x = ArrayD::from_shape_vec(IxDyn(&[2, 2]), vec![0.0, 1000.0, 3f64.ln(), 1000.0]).unwrap();
        assert_eq!(
            softmax(x.view(), 0).iter().map(|x| (x * 4.0).round()).collect::<Vec<_>>(),
            [1.0, 2.0, 3.0, 2.0]
        );
        assert_eq!(log_softmax(x.view(), 1)[[0, 0]], -1000.0);
        let infinite = ArrayD::from_elem(IxDyn(&[2]), f64::NEG_INFINITY);
        assert!(softmax(infinite.view(), 0).iter().all(|x| x.is_nan()));
    }
}
