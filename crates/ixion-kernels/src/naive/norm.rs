//! Normalisation by its definition.

use crate::Float;
use ndarray::{Array2, ArrayD, ArrayView2, ArrayViewD, Axis};

/// Subtracts the mean of each row and divides by √(variance + eps), as `torch.nn.functional.layer_norm` does without
/// weights. The variance is that of the population.
pub fn standardize<T: Float>(rows: ArrayView2<'_, T>, eps: f64) -> Array2<T> {
    let len = T::of(rows.ncols() as f64);
    let mut result = rows.to_owned();
    for mut row in result.rows_mut() {
        let mean = row.sum() / len;
        let variance = row.iter().map(|&x| (x - mean) * (x - mean)).sum::<T>() / len;
        row.mapv_inplace(|x| (x - mean) / (variance + T::of(eps)).sqrt());
    }
    result
}

/// Divides each row by √(mean of its squares + eps), as `torch.nn.functional.rms_norm` does without weights.
pub fn root_mean_square<T: Float>(rows: ArrayView2<'_, T>, eps: f64) -> Array2<T> {
    let len = T::of(rows.ncols() as f64);
    let mut result = rows.to_owned();
    for mut row in result.rows_mut() {
        let mean = row.iter().map(|&x| x * x).sum::<T>() / len;
        row.mapv_inplace(|x| x / (mean + T::of(eps)).sqrt());
    }
    result
}

/// Divides N×C×… by (k + alpha · mean of squares over `size` neighbouring channels) to the power of beta, as
/// `torch.nn.functional.local_response_norm` (Krizhevsky et al. 2012). Channels outside count as zero.
///
/// # Panics
/// Panics if the input has fewer than two axes.
pub fn local_response_norm<T: Float>(
    input: ArrayViewD<'_, T>,
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
) -> ArrayD<T> {
    let channels = input.len_of(Axis(1));
    let mut result = input.to_owned();
    for channel in 0..channels {
        let first = channel.saturating_sub(size / 2);
        let end = channel.saturating_add(size.saturating_sub(1) / 2).saturating_add(1).min(channels);
        let mut sum = input.index_axis(Axis(1), channel).mapv(|_| T::zero());
        for neighbour in first..end {
            sum += &input.index_axis(Axis(1), neighbour).mapv(|x| x * x);
        }
        let divisor = sum.mapv(|sum| (T::of(k) + T::of(alpha) * sum / T::of(size as f64)).powf(T::of(beta)));
        let mut plane = result.index_axis_mut(Axis(1), channel);
        plane /= &divisor;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{IxDyn, arr2};

    #[test]
    fn rows_by_hand() {
        let rows = arr2(&[[1.0, 3.0], [2.0, 2.0]]);
        assert_eq!(standardize(rows.view(), 3.0), arr2(&[[-0.5, 0.5], [0.0, 0.0]]));
        let rows = arr2(&[[1.0, 3.0], [0.0, 0.0]]);
        assert_eq!(root_mean_square(rows.view(), 4.0), arr2(&[[1.0 / 3.0, 1.0], [0.0, 0.0]]));
    }

    #[test]
    fn neighbouring_channels_by_hand() {
        let x = ArrayD::from_shape_vec(IxDyn(&[1, 3]), vec![1.0, 2.0, 3.0]).unwrap();
        let y = local_response_norm(x.view(), 2, 2.0, 1.0, 1.0);
        assert_eq!(y.as_slice().unwrap(), [1.0 / 2.0, 2.0 / 6.0, 3.0 / 14.0]);
    }
}
