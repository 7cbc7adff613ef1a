//! Normalisation of rows, planes and neighbouring channels. Sums are computed in f64, in a fixed order.

use super::reduce::sum_here;
use super::{Float, Work, run_widest};

/// A normalisation of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Norm {
    /// Subtracts the mean, and divides by √(variance + eps).
    Standard {
        /// Added to the variance.
        eps: f64,
    },
    /// Divides by √(mean of squares + eps).
    RootMeanSquare {
        /// Added to the mean of squares.
        eps: f64,
    },
}

impl Norm {
    /// Normalises a row, then multiplies each element by its own weight and adds its own bias.
    ///
    /// # Panics
    /// Panics if the number of weights or biases is not the number of elements; callers check this beforehand.
    pub fn row<T: Float>(self, row: &mut [T], affine: Affine<'_, T>) {
        let is_as_long = |values: &[T]| values.len() == row.len();
        assert!(
            [affine.weight, affine.bias].into_iter().flatten().all(is_as_long),
            "expected one weight and one bias per element"
        );
        run_widest(Rows { norm: self, row, affine, planes: None });
    }

    /// Normalises planes of `inner` elements together, then multiplies all elements of a plane by the weight of its
    /// channel and adds the bias of the channel. The first plane belongs to channel `first`.
    pub fn planes<T: Float>(self, planes: &mut [T], inner: usize, first: usize, affine: Affine<'_, T>) {
        run_widest(Rows { norm: self, row: planes, affine, planes: Some((inner, first)) });
    }

    /// The number that is subtracted from elements, and the factor that they are then multiplied by.
    #[inline(always)]
    fn statistics<T: Float>(self, row: &[T]) -> (T, T) {
        let len = row.len() as f64;
        let (mean, variance, eps) = match self {
            Self::Standard { eps } => {
                let mean = sum_here(row, |x| x) / len;
                (mean, sum_here(row, |x| (x - mean) * (x - mean)) / len, eps)
            }
            Self::RootMeanSquare { eps } => (0.0, sum_here(row, |x| x * x) / len, eps),
        };
        (T::of(mean), T::of(1.0 / (variance + eps).sqrt()))
    }
}

/// One row, or planes given by their number of elements and the channel of the first plane.
struct Rows<'a, T> {
    norm: Norm,
    row: &'a mut [T],
    affine: Affine<'a, T>,
    planes: Option<(usize, usize)>,
}

impl<T: Float> Work for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (mean, scale) = self.norm.statistics(self.row);
        let normal = |x: T| (x - mean) * scale;
        match self.planes {
            Some((inner, first)) if !self.affine.is_empty() => {
                for (index, plane) in self.row.chunks_exact_mut(inner.max(1)).enumerate() {
                    let (weight, bias) = self.affine.at_channel(first + index);
                    plane.iter_mut().for_each(|x| *x = normal(*x) * weight + bias);
                }
            }
            _ => match (self.affine.weight, self.affine.bias) {
                (Some(weight), Some(bias)) => {
                    let elements = self.row.iter_mut().zip(weight).zip(bias);
                    elements.for_each(|((x, &weight), &bias)| *x = normal(*x) * weight + bias);
                }
                (Some(weight), None) => {
                    let elements = self.row.iter_mut().zip(weight);
                    elements.for_each(|(x, &weight)| *x = normal(*x) * weight);
                }
                (None, Some(bias)) => {
                    let elements = self.row.iter_mut().zip(bias);
                    elements.for_each(|(x, &bias)| *x = normal(*x) + bias);
                }
                (None, None) => self.row.iter_mut().for_each(|x| *x = normal(*x)),
            },
        }
    }
}

/// Weights and biases, of which either may be absent.
#[derive(Debug, Clone, Copy)]
pub struct Affine<'a, T> {
    /// The factors, one per element or channel.
    pub weight: Option<&'a [T]>,
    /// The summands, one per element or channel.
    pub bias: Option<&'a [T]>,
}

impl<T: Float> Affine<'_, T> {
    /// Neither weights nor biases.
    pub const NONE: Self = Self { weight: None, bias: None };

    fn is_empty(&self) -> bool {
        self.weight.is_none() && self.bias.is_none()
    }

    /// The weight and the bias at one position; 1 and 0 if they are absent.
    pub fn at(&self, index: usize) -> (T, T) {
        let of = |values: Option<&[T]>, none| values.map_or(none, |values| values[index]);
        (of(self.weight, T::one()), of(self.bias, T::zero()))
    }

    /// The weight and the bias of a channel; after the last channel, the first follows again.
    #[inline(always)]
    fn at_channel(&self, channel: usize) -> (T, T) {
        self.at(channel % self.weight.or(self.bias).map_or(1, <[T]>::len).max(1))
    }

    /// Multiplies each element of a row by its own weight, and adds its own bias.
    pub fn apply(&self, row: &mut [T]) {
        match (self.weight, self.bias) {
            (Some(weight), Some(bias)) => {
                let elements = row.iter_mut().zip(weight).zip(bias);
                elements.for_each(|((x, &scale), &shift)| *x = *x * scale + shift);
            }
            (None, None) => {}
            _ => row.iter_mut().enumerate().for_each(|(index, x)| {
                let (scale, shift) = self.at(index);
                *x = *x * scale + shift;
            }),
        }
    }

    /// Multiplies all elements of each plane of `inner` elements by the weight of its channel, and adds the bias of the
    /// channel. The first plane belongs to channel `first`; after the last channel, the first follows again.
    pub fn apply_to_planes(&self, planes: &mut [T], inner: usize, first: usize) {
        if self.is_empty() {
            return;
        }
        for (index, plane) in planes.chunks_exact_mut(inner.max(1)).enumerate() {
            let (scale, shift) = self.at_channel(first + index);
            plane.iter_mut().for_each(|x| *x = *x * scale + shift);
        }
    }
}

/// The sizes and constants of [`local_response_norm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocalResponse {
    /// The number of channels.
    pub channels: usize,
    /// The number of elements of a channel.
    pub inner: usize,
    /// The number of neighbouring channels in a mean.
    pub size: usize,
    /// The factor of the mean of squares.
    pub alpha: f64,
    /// The exponent of the divisor.
    pub beta: f64,
    /// The number that is added to the scaled mean of squares.
    pub k: f64,
}

/// Divides samples of C×… by (k + alpha · mean of squares over neighbouring channels) to the power of beta.
pub fn local_response_norm<T: Float>(shape: LocalResponse, input: &[T], output: &mut [T]) {
    if input.is_empty() {
        return;
    }
    let LocalResponse { channels, inner, size, alpha, beta, k } = shape;
    let scale = T::of(alpha / size as f64);
    let sample = channels * inner;
    for (input, output) in input.chunks_exact(sample).zip(output.chunks_exact_mut(sample)) {
        for channel in 0..channels {
            let first = channel.saturating_sub(size / 2);
            let end = channel.saturating_add(size.saturating_sub(1) / 2).saturating_add(1).min(channels);
            let place = channel * inner..(channel + 1) * inner;
            let output = &mut output[place.clone()];
            output.fill(T::zero());
            for neighbour in input[first * inner..end * inner].chunks_exact(inner) {
                output.iter_mut().zip(neighbour).for_each(|(sum, &x)| *sum += x * x);
            }
            let elements = output.iter_mut().zip(&input[place]);
            elements.for_each(|(y, &x)| *y = x / (*y * scale + T::of(k)).powf(T::of(beta)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
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
            let mut y = x.clone();
            y.chunks_exact_mut(len).for_each(|row| Norm::Standard { eps }.row(row, Affine::NONE));
            assert_close(&y, naive::standardize(matrix.view(), eps).as_slice().unwrap());
            y.copy_from_slice(&x);
            y.chunks_exact_mut(len).for_each(|row| Norm::RootMeanSquare { eps }.row(row, Affine::NONE));
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
            let affine = Affine { weight, bias };
            let x = numbers(samples * channels * inner, 3);
            let (mut planes, mut rows) = (x.clone(), x.clone());
            affine.apply_to_planes(&mut planes[inner..], inner, 1);
            affine.apply_to_planes(&mut planes[..inner], inner, 0);
            rows.chunks_exact_mut(channels).for_each(|row| affine.apply(row));
            for (i, x) in x.iter().enumerate() {
                let want = |channel: usize| {
                    x * weight.map_or(1.0, |w| w[channel]) + bias.map_or(0.0, |b| b[channel])
                };
                prop_assert_eq!(planes[i], want(i / inner % channels));
                prop_assert_eq!(rows[i], want(i % channels));
            }
        }
    }

    proptest! {
        #[test]
        fn weights_follow_in_the_same_pass(len in 1usize..70, inner in 1usize..40, which in 0usize..4, seed: u64) {
            let (weights, biases) = (numbers(len, 1), numbers(len, 2));
            let (weight, bias) = ((which & 1 > 0).then_some(&weights[..]), (which & 2 > 0).then_some(&biases[..]));
            let (affine, norm) = (Affine { weight, bias }, Norm::Standard { eps: 0.01 });
            let (mut fused, mut apart) = (numbers(len, seed), numbers(len, seed));
            norm.row(&mut fused, affine);
            norm.row(&mut apart, Affine::NONE);
            affine.apply(&mut apart);
            prop_assert_eq!(fused, apart);
            let (mut fused, mut apart) = (numbers(3 * inner, seed), numbers(3 * inner, seed));
            norm.planes(&mut fused, inner, 1, affine);
            norm.row(&mut apart, Affine::NONE);
            affine.apply_to_planes(&mut apart, inner, 1);
            prop_assert_eq!(fused, apart);
        }
    }

    #[test]
    fn a_large_mean_costs_no_digits() {
        let mut x: Vec<f32> = (0..1000).map(|i| 1_048_576.0 + (i % 2) as f32).collect();
        Norm::Standard { eps: 0.0 }.row(&mut x, Affine::NONE);
        assert_eq!((x[0], x[1]), (-1.0, 1.0));
    }
}
