//! Normalisation of rows, planes and neighbouring channels. Sums are computed in f64, in a fixed order.

use super::Float;
use super::reduce::sum_here;
use crate::widest;

/// The number of elements that are processed at a time, so that they stay in the first-level cache.
const BLOCK: usize = 1024;

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
    /// Normalises each row of `len` elements, then multiplies each element by its own weight and adds its own bias. If
    /// `input` is `None`, the output holds the input.
    ///
    /// # Panics
    /// Panics if the number of weights or biases is not `len`, or the input is not as long as the output; callers check this
    /// beforehand.
    pub fn rows<T: Float>(self, input: Option<&[T]>, output: &mut [T], len: usize, affine: Affine<'_, T>) {
        let is_as_long = |values: &[T]| values.len() == len;
        assert!(
            [affine.weight, affine.bias].into_iter().flatten().all(is_as_long),
            "expected one weight and one bias per element"
        );
        widest!(|| Rows { norm: Some(self), input, output, len, affine, planes: None }.run());
    }

    /// Normalises each row of `len` elements, which consists of planes of `inner` elements, then multiplies all elements of
    /// a plane by the weight of its channel and adds the bias of the channel. The first plane belongs to channel `first`;
    /// after the last channel, the first follows again. If `input` is `None`, the output holds the input.
    ///
    /// # Panics
    /// Panics if the input is not as long as the output.
    pub fn planes<T: Float>(
        self,
        input: Option<&[T]>,
        output: &mut [T],
        len: usize,
        (inner, first): (usize, usize),
        affine: Affine<'_, T>,
    ) {
        widest!(|| Rows { norm: Some(self), input, output, len, affine, planes: Some((inner, first)) }.run());
    }

    /// The number that is subtracted from elements, and the factor that they are then multiplied by.
    #[inline(always)]
    fn statistics<T: Float>(self, row: &[T]) -> (T, T) {
        let (mean, variance, eps) = match self {
            Self::Standard { eps } => {
                let (mean, variance) = moments(row);
                (mean, variance, eps)
            }
            Self::RootMeanSquare { eps } => (0.0, sum_here(row, |x| x * x) / row.len() as f64, eps),
        };
        (T::of(mean), T::of(1.0 / (variance + eps).sqrt()))
    }
}

/// The mean and the variance of a row. Both are computed block by block, so that memory is read once.
#[inline(always)]
fn moments<T: Float>(row: &[T]) -> (f64, f64) {
    let (mut mean, mut squares, mut count) = (0.0, 0.0, 0.0);
    for block in row.chunks(BLOCK) {
        let len = block.len() as f64;
        let here = sum_here(block, |x| x) / len;
        let around = sum_here(block, |x| (x - here) * (x - here));
        if count == 0.0 {
            (mean, squares, count) = (here, around, len);
            continue;
        }
        // As Chan et al. (1983) join the moments of two samples.
        let (all, difference) = (count + len, here - mean);
        mean += difference * (len / all);
        squares += around + difference * difference * (count * len / all);
        count = all;
    }
    (mean, squares / count)
}

/// Rows that are normalised, or only multiplied and added to. Without planes, which are given by their number of elements and
/// the channel of the first, each element has its own weight and bias.
struct Rows<'a, T> {
    norm: Option<Norm>,
    input: Option<&'a [T]>,
    output: &'a mut [T],
    len: usize,
    affine: Affine<'a, T>,
    planes: Option<(usize, usize)>,
}

impl<T: Float> Rows<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { norm, input, output, len, affine, planes } = self;
        assert!(input.is_none_or(|input| input.len() == output.len()), "expected as much input as output");
        let (len, mut buffer) = (len.max(1), [T::zero(); BLOCK]);
        for (index, row) in output.chunks_exact_mut(len).enumerate() {
            let input = input.map(|input| &input[index * len..][..len]);
            let statistics = norm.map(|norm| norm.statistics(input.unwrap_or(row)));
            let Some((inner, first)) = planes.filter(|_| !affine.is_empty()) else {
                for start in (0..len).step_by(BLOCK) {
                    let block = &mut row[start..len.min(start + BLOCK)];
                    let affine = affine.part(start, block.len());
                    change(source(input, start, block, &mut buffer), block, statistics, affine);
                }
                continue;
            };
            let inner = inner.max(1);
            let first = first + index * (len / inner);
            for (index, plane) in row.chunks_exact_mut(inner).enumerate() {
                let input = input.map(|input| &input[index * inner..][..inner]);
                let affine = affine.at_channel(first + index);
                for start in (0..inner).step_by(BLOCK) {
                    let block = &mut plane[start..inner.min(start + BLOCK)];
                    scale(source(input, start, block, &mut buffer), block, statistics, affine);
                }
            }
        }
    }
}

/// The elements from which a block is computed: a part of the input, or a copy of the block.
#[inline(always)]
fn source<'a, T: Copy>(
    input: Option<&'a [T]>,
    start: usize,
    block: &[T],
    buffer: &'a mut [T; BLOCK],
) -> &'a [T] {
    match input {
        Some(input) => &input[start..][..block.len()],
        None => {
            let copy = &mut buffer[..block.len()];
            copy.copy_from_slice(block);
            copy
        }
    }
}

/// Normalises elements, then multiplies all of them by the same weight and adds the same bias.
#[inline(always)]
fn scale<T: Float>(from: &[T], to: &mut [T], statistics: Option<(T, T)>, (weight, bias): (T, T)) {
    let elements = to.iter_mut().zip(from);
    match statistics {
        Some((mean, scale)) => elements.for_each(|(y, &x)| *y = (x - mean) * scale * weight + bias),
        None => elements.for_each(|(y, &x)| *y = x * weight + bias),
    }
}

/// Normalises elements, then multiplies each by its own weight and adds its own bias.
#[inline(always)]
fn change<T: Float>(from: &[T], to: &mut [T], statistics: Option<(T, T)>, affine: Affine<'_, T>) {
    let (mean, scale) = statistics.unwrap_or((T::zero(), T::one()));
    let elements = to.iter_mut().zip(from);
    match (affine.weight, affine.bias) {
        (Some(weight), Some(bias)) => {
            let elements = elements.zip(weight).zip(bias);
            elements.for_each(|(((y, &x), &weight), &bias)| *y = (x - mean) * scale * weight + bias);
        }
        (Some(weight), None) => {
            elements.zip(weight).for_each(|((y, &x), &weight)| *y = (x - mean) * scale * weight);
        }
        (None, Some(bias)) => {
            elements.zip(bias).for_each(|((y, &x), &bias)| *y = (x - mean) * scale + bias);
        }
        (None, None) => elements.for_each(|(y, &x)| *y = (x - mean) * scale),
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

impl<'a, T: Float> Affine<'a, T> {
    /// Neither weights nor biases.
    pub const NONE: Self = Self { weight: None, bias: None };

    fn is_empty(&self) -> bool {
        self.weight.is_none() && self.bias.is_none()
    }

    /// The weights and biases of some elements.
    #[inline(always)]
    fn part(&self, start: usize, len: usize) -> Self {
        let of = |values: Option<&'a [T]>| values.map(|values| &values[start..][..len]);
        Self { weight: of(self.weight), bias: of(self.bias) }
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

    /// Multiplies each element of rows of as many elements as there are weights by its own weight, and adds its own bias. If
    /// `input` is `None`, the output holds the input.
    ///
    /// # Panics
    /// Panics if the input is not as long as the output.
    pub fn rows(self, input: Option<&[T]>, output: &mut [T]) {
        let len = self.weight.or(self.bias).map_or(1, <[T]>::len);
        widest!(|| Rows { norm: None, input, output, len, affine: self, planes: None }.run());
    }

    /// Multiplies all elements of each plane of `inner` elements by the weight of its channel, and adds the bias of the
    /// channel. The first plane belongs to channel `first`; after the last channel, the first follows again. If `input` is
    /// `None`, the output holds the input.
    ///
    /// # Panics
    /// Panics if the input is not as long as the output.
    pub fn planes(self, input: Option<&[T]>, output: &mut [T], inner: usize, first: usize) {
        let rows = Rows { norm: None, input, output, len: inner, affine: self, planes: Some((inner, first)) };
        widest!(|| rows.run());
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
        fn rows_equal_the_naive_ones(
            rows in 1usize..4,
            len in prop_oneof![9 => 1usize..40, 1 => 1000usize..3000],
            eps in 1e-5f64..0.1,
            seed: u64,
        ) {
            let x = numbers(rows * len, seed);
            let matrix = Array2::from_shape_vec((rows, len), x.clone()).unwrap();
            let mut y = x.clone();
            Norm::Standard { eps }.rows(None, &mut y, len, Affine::NONE);
            assert_close(&y, naive::standardize(matrix.view(), eps).as_slice().unwrap());
            Norm::RootMeanSquare { eps }.rows(Some(&x), &mut y, len, Affine::NONE);
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
            let (mut planes, mut rows) = (x.clone(), vec![7.0; x.len()]);
            affine.planes(None, &mut planes[inner..], inner, 1);
            affine.planes(Some(&x[..inner]), &mut planes[..inner], inner, 0);
            if which > 0 {
                affine.rows(Some(&x), &mut rows);
                let mut in_place = x.clone();
                affine.rows(None, &mut in_place);
                prop_assert_eq!(&rows, &in_place);
            } else {
                rows.copy_from_slice(&x);
            }
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
            norm.rows(None, &mut fused, len, affine);
            norm.rows(None, &mut apart, len, Affine::NONE);
            if which > 0 {
                affine.rows(None, &mut apart);
            }
            prop_assert_eq!(fused, apart);
            let x = numbers(6 * inner, seed);
            let (mut fused, mut apart) = (vec![7.0; x.len()], x.clone());
            norm.planes(Some(&x), &mut fused, 3 * inner, (inner, 1), affine);
            norm.rows(None, &mut apart, 3 * inner, Affine::NONE);
            affine.planes(None, &mut apart, inner, 1);
            prop_assert_eq!(fused, apart);
        }
    }

    #[test]
    fn a_large_mean_costs_no_digits() {
        let mut x: Vec<f32> = (0..1000).map(|i| 1_048_576.0 + (i % 2) as f32).collect();
        Norm::Standard { eps: 0.0 }.rows(None, &mut x, 1000, Affine::NONE);
        assert_eq!((x[0], x[1]), (-1.0, 1.0));
    }
}
