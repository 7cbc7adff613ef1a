//! Normalisation of rows, planes and neighbouring channels. Sums are made in f64.

use super::Float;

/// Each row of `len` elements with its mean subtracted, divided by √(variance + eps).
pub fn standardize<T: Float>(input: &[T], output: &mut [T], len: usize, eps: f64) {
    for (input, output) in input.chunks_exact(len.max(1)).zip(output.chunks_exact_mut(len.max(1))) {
        let mean = sum(input, |x| x) / len as f64;
        let variance = sum(input, |x| (x - mean) * (x - mean)) / len as f64;
        let (mean, scale) = (T::of(mean), T::of(1.0 / (variance + eps).sqrt()));
        output.iter_mut().zip(input).for_each(|(y, &x)| *y = (x - mean) * scale);
    }
}

/// Each row of `len` elements divided by √(mean of its squares + eps).
pub fn root_mean_square<T: Float>(input: &[T], output: &mut [T], len: usize, eps: f64) {
    for (input, output) in input.chunks_exact(len.max(1)).zip(output.chunks_exact_mut(len.max(1))) {
        let scale = T::of(1.0 / (sum(input, |x| x * x) / len as f64 + eps).sqrt());
        output.iter_mut().zip(input).for_each(|(y, &x)| *y = x * scale);
    }
}

/// The sum of a function of all elements, in several independent parts.
fn sum<T: Float>(values: &[T], function: impl Fn(f64) -> f64) -> f64 {
    let wide = |x: &T| function(x.to_f64().unwrap_or(f64::NAN));
    let mut parts = [0.0; 8];
    let chunks = values.chunks_exact(parts.len());
    let rest: f64 = chunks.remainder().iter().map(wide).sum();
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(part, x)| *part += wide(x));
    }
    parts.iter().sum::<f64>() + rest
}

/// Multiplies by a weight and adds a bias: those of a channel serve `inner` elements one after the other, and after the
/// last channel the first follows again.
pub fn affine<T: Float>(data: &mut [T], inner: usize, weight: Option<&[T]>, bias: Option<&[T]>) {
    let Some(channels) = weight.or(bias).map(<[T]>::len) else { return };
    let scale = |channel: usize| weight.map_or(T::one(), |weight| weight[channel]);
    let shift = |channel: usize| bias.map_or(T::zero(), |bias| bias[channel]);
    if inner == 1 {
        for row in data.chunks_exact_mut(channels.max(1)) {
            row.iter_mut().enumerate().for_each(|(channel, x)| *x = *x * scale(channel) + shift(channel));
        }
        return;
    }
    for (index, plane) in data.chunks_exact_mut(inner.max(1)).enumerate() {
        let (scale, shift) = (scale(index % channels.max(1)), shift(index % channels.max(1)));
        plane.iter_mut().for_each(|x| *x = *x * scale + shift);
    }
}

/// The sizes and constants of [`local_response_norm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocalResponse {
    /// Number of channels.
    pub channels: usize,
    /// Elements of a channel.
    pub inner: usize,
    /// Number of neighbouring channels that are looked at.
    pub size: usize,
    /// Factor of the mean of squares.
    pub alpha: f64,
    /// Exponent.
    pub beta: f64,
    /// What is added to the mean of squares.
    pub k: f64,
}

/// Samples of C×… divided by (k + alpha · mean of squares over neighbouring channels) to the power of beta.
pub fn local_response_norm<T: Float>(shape: LocalResponse, input: &[T], output: &mut [T]) {
    if input.is_empty() {
        return;
    }
    let LocalResponse { channels, inner, size, alpha, beta, k } = shape;
    let scale = T::of(alpha / size as f64);
    let mut sums = vec![T::zero(); inner];
    let sample = channels * inner;
    for (input, output) in input.chunks_exact(sample).zip(output.chunks_exact_mut(sample)) {
        for channel in 0..channels {
            let first = channel.saturating_sub(size / 2);
            let end = channel.saturating_add(size.saturating_sub(1) / 2).saturating_add(1).min(channels);
            sums.fill(T::zero());
            for neighbour in input[first * inner..end * inner].chunks_exact(inner) {
                sums.iter_mut().zip(neighbour).for_each(|(sum, &x)| *sum += x * x);
            }
            let place = channel * inner..(channel + 1) * inner;
            let elements = output[place.clone()].iter_mut().zip(&input[place]).zip(&sums);
            elements.for_each(|((y, &x), &sum)| *y = x / (sum * scale + T::of(k)).powf(T::of(beta)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive;
    use ndarray::{Array2, ArrayD, IxDyn};
    use proptest::prelude::*;

    fn numbers(len: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f64 / (1u64 << 22) as f64 - 2.0
        };
        (0..len).map(|_| next()).collect()
    }

    fn assert_close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() <= 1e-10 * (1.0 + want.abs()), "{got} where {want} is expected");
        }
    }

    proptest! {
        #[test]
        fn rows_equal_the_naive_ones(rows in 1usize..4, len in 1usize..40, eps in 1e-5f64..0.1, seed: u64) {
            let x = numbers(rows * len, seed);
            let matrix = Array2::from_shape_vec((rows, len), x.clone()).unwrap();
            let mut y = vec![7.0; x.len()];
            standardize(&x, &mut y, len, eps);
            assert_close(&y, naive::standardize(matrix.view(), eps).as_slice().unwrap());
            root_mean_square(&x, &mut y, len, eps);
            assert_close(&y, naive::root_mean_square(matrix.view(), eps).as_slice().unwrap());
        }

        #[test]
        fn neighbouring_channels_equal_the_naive_ones(
            (samples, channels, inner) in (1usize..3, 1usize..7, 1usize..4),
            size in 1usize..9,
            (alpha, beta, k) in (0.0f64..2.0, 0.1f64..1.0, 0.1f64..2.0),
            seed: u64,
        ) {
            let x = numbers(samples * channels * inner, seed);
            let array = ArrayD::from_shape_vec(IxDyn(&[samples, channels, inner]), x.clone()).unwrap();
            let mut y = vec![7.0; x.len()];
            local_response_norm(LocalResponse { channels, inner, size, alpha, beta, k }, &x, &mut y);
            let want = naive::local_response_norm(array.view(), size, alpha, beta, k);
            assert_close(&y, want.as_slice().unwrap());
        }

        #[test]
        fn each_channel_has_its_weight(samples in 1usize..3, channels in 1usize..5, inner in 1usize..4, which in 0usize..4) {
            let (weights, biases) = (numbers(channels, 1), numbers(channels, 2));
            let (weight, bias) = ((which & 1 > 0).then_some(&weights[..]), (which & 2 > 0).then_some(&biases[..]));
            let x = numbers(samples * channels * inner, 3);
            let mut y = x.clone();
            affine(&mut y, inner, weight, bias);
            for (i, (x, y)) in x.iter().zip(&y).enumerate() {
                let channel = i / inner % channels;
                let want = x * weight.map_or(1.0, |w| w[channel]) + bias.map_or(0.0, |b| b[channel]);
                prop_assert_eq!(*y, want);
            }
        }
    }

    #[test]
    fn a_large_mean_costs_no_digits() {
        let x: Vec<f32> = (0..1000).map(|i| 4096.0 + (i % 2) as f32).collect();
        let mut y = vec![0f32; x.len()];
        standardize(&x, &mut y, x.len(), 0.0);
        assert_eq!((y[0], y[1]), (-1.0, 1.0));
    }
}
