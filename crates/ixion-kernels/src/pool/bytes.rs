//! Pooling of quantised int8 elements whose channels are innermost.

use super::shape::PoolShape;
use super::span::Span;
use crate::naive::Divisor;
use crate::parallel::for_each_chunk;
use crate::quantization::Quantization;
use crate::widest;
use ixion_tensor::{LimitError, Limits};

/// What is computed of the elements that an output position sees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ByteReduction {
    /// Their maximum.
    Max,
    /// Their mean.
    Mean(Divisor),
}

/// Channels that are pooled at a time, in registers.
const PIECE: usize = 64;

/// Pools samples H×W×C to H′×W′×C, whose elements and outputs are quantised in their own ways: results are converted, rounded
/// half to even and clamped to the outputs' range. Between equal ways, a maximum stays as it is. The maximum of no elements,
/// −∞, becomes the smallest value.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if `input` has fewer samples than `output`, or the shape has three axes or blocks of channels.
pub fn pool_bytes(
    shape: &PoolShape,
    channels: usize,
    (reduction, ways): (ByteReduction, [Quantization; 2]),
    input: &[i8],
    output: &mut [i8],
    limits: &Limits,
) -> Result<(), LimitError> {
    let ([_, high, wide], [deep, _, columns]) = (&shape.spans, shape.lens);
    assert!(deep == 1 && shape.lanes.is_none(), "planes of bytes have at most two axes");
    let (sample, len) = (shape.inputs() * channels, wide.len() * channels);
    if len == 0 || high.is_empty() {
        return Ok(());
    }
    for_each_chunk(output, len, &|start, output: &mut [i8]| {
        limits.check_deadline()?;
        let row = start / len;
        let places = Places { values: &input[row / high.len() * sample..][..sample], columns, channels };
        let high = high[row % high.len()];
        widest!(|| pool_row(&places, (high, wide), (reduction, ways), output));
        Ok(())
    })
}

/// A sample.
struct Places<'a> {
    values: &'a [i8],
    columns: usize,
    channels: usize,
}

impl Places<'_> {
    /// Passes `len` channels from `first` on of each position that the spans contain.
    #[inline(always)]
    fn each(&self, (high, wide): (Span, Span), [first, len]: [usize; 2], mut see: impl FnMut(&[i8])) {
        for row in high.places() {
            for column in wide.places() {
                see(&self.values[(row * self.columns + column) * self.channels + first..][..len]);
            }
        }
    }
}

/// Pools what the output positions of a row see.
#[inline(always)]
fn pool_row(
    places: &Places<'_>,
    (high, wide): (Span, &[Span]),
    (reduction, [from, to]): (ByteReduction, [Quantization; 2]),
    output: &mut [i8],
) {
    let is_same = from == to;
    for (output, &wide) in output.chunks_exact_mut(places.channels).zip(wide) {
        for (piece, output) in output.chunks_mut(PIECE).enumerate() {
            let (spans, channels) = ((high, wide), [piece * PIECE, output.len()]);
            match reduction {
                // Windows with a dilation may see nothing but padding.
                ByteReduction::Max if high.count == 0 || wide.count == 0 => output.fill(to.range[0] as i8),
                ByteReduction::Max => {
                    let mut best = [i8::MIN; PIECE];
                    places.each(spans, channels, |values| {
                        best.iter_mut().zip(values).for_each(|(best, &q)| *best = q.max(*best));
                    });
                    for (output, best) in output.iter_mut().zip(best) {
                        *output = if is_same { best } else { to.store(from.load(best)) };
                    }
                }
                ByteReduction::Mean(divisor) => {
                    let mut sums = [0i64; PIECE];
                    places.each(spans, channels, |values| {
                        sums.iter_mut().zip(values).for_each(|(sum, &q)| *sum += i64::from(q));
                    });
                    let step = from.scale / divided_by(divisor, spans);
                    let zeros = (high.count as i64).wrapping_mul(wide.count as i64);
                    let zeros = zeros.wrapping_mul(from.zero_point.into());
                    for (output, sum) in output.iter_mut().zip(sums) {
                        *output = to.store(sum.wrapping_sub(zeros) as f32 * step);
                    }
                }
            }
        }
    }
}

/// The number by which the sum of the elements in the spans is divided.
fn divided_by(divisor: Divisor, (high, wide): (Span, Span)) -> f32 {
    match divisor {
        Divisor::Elements => high.count as f32 * wide.count as f32,
        Divisor::ElementsAndPadding => high.covered as f32 * wide.covered as f32,
        Divisor::Fixed(number) => number as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{avg_pool, max_pool};
    use super::*;
    use crate::parallel::tests::on_threads;
    use crate::window::Window;
    use proptest::prelude::*;

    fn way(scale: f32, zero_point: i8) -> Quantization {
        let least = if zero_point == 0 { -127 } else { -128 };
        Quantization { scale, zero_point: zero_point.into(), range: [least, 127] }
    }

    fn window() -> impl Strategy<Value = Window> {
        (1usize..4, 1usize..3, 1usize..3, 0usize..2).prop_map(|(kernel, stride, dilation, pad)| {
            let pad = pad.min(kernel / 2);
            Window { kernel, stride, dilation, pad_before: pad, pad_after: pad }
        })
    }

    proptest! {
        /// Channel by channel, in floats.
        #[test]
        fn bytes_are_pooled_like_floats(
            windows in [window(), window()],
            lens in [3usize..9, 3usize..9],
            (samples, channels) in (1usize..3, prop_oneof![1usize..5, 60usize..140]),
            divisor in prop_oneof![Just(Divisor::Elements), Just(Divisor::ElementsAndPadding), Just(Divisor::Fixed(3))],
            scales in [0.01f32..1.0, 0.01f32..1.0],
            zero_points in prop::option::of(any::<[i8; 2]>()),
            seed in 0usize..1000,
        ) {
            let ways = [0, 1].map(|at| way(scales[at], zero_points.map_or(0, |zeros| zeros[at])));
            let outputs = [0, 1].map(|axis| windows[axis].positions(lens[axis]));
            prop_assume!(outputs.iter().all(|&len| len > 0));
            let shape = PoolShape::sliding(&lens, &windows, &outputs);
            let [size, out_size] = [lens, outputs].map(|lens| lens[0] * lens[1]);
            let values = (0..samples * size * channels).map(|at| ((at * 37 + seed) % 255) as i16 - 127);
            let input: Vec<i8> = values.map(|q| q as i8).collect();
            let run = |how| {
                let mut output = vec![99i8; samples * out_size * channels];
                pool_bytes(&shape, channels, how, &input, &mut output, &Limits::default()).unwrap();
                output
            };
            let limits = Limits::default();
            let mut scratch = vec![0.0f64; shape.scratch_len()];
            for reduction in [ByteReduction::Max, ByteReduction::Mean(divisor)] {
                let (alone, pooled) = on_threads(&[3], || run((reduction, ways)));
                prop_assert_eq!(&alone, &pooled[0]);
                for plane in 0..samples * channels {
                    let (sample, channel) = (plane / channels, plane % channels);
                    let from = input.iter().skip(sample * size * channels + channel).step_by(channels);
                    let real: Vec<f64> = from.take(size).map(|&q| f64::from(q) - f64::from(ways[0].zero_point)).collect();
                    let mut wanted = vec![0.0; out_size];
                    match reduction {
                        ByteReduction::Max => max_pool(&shape, &real, &mut wanted, &mut scratch, &limits).unwrap(),
                        ByteReduction::Mean(divisor) => {
                            avg_pool(&shape, divisor, &real, &mut wanted, &mut scratch, &limits).unwrap();
                        }
                    }
                    let found = alone.iter().skip(sample * out_size * channels + channel).step_by(channels);
                    for (wanted, &found) in wanted.into_iter().zip(found) {
                        let steps = wanted * f64::from(scales[0]) / f64::from(scales[1]);
                        let [low, high] = ways[1].range.map(f64::from);
                        let place = (steps + f64::from(ways[1].zero_point)).clamp(low, high);
                        let off = (place - f64::from(found)).abs();
                        prop_assert!(off <= 0.5001, "{found} instead of {steps}");
                    }
                }
            }
            let same = run((ByteReduction::Max, [ways[0]; 2]));
            prop_assert!(same.iter().all(|q| input.contains(q)));
        }
    }

    #[test]
    fn the_maximum_of_nothing_is_the_smallest_value() {
        let window = Window { kernel: 2, stride: 1, dilation: 4, pad_before: 1, pad_after: 1 };
        let shape = PoolShape::sliding(&[3, 3], &[window; 2], &[1, 1]);
        for (scales, zero_point, wanted) in
            [([0.5, 0.5], 0, -127), ([0.5, 0.25], 0, -127), ([0.5, 2.0], 0, -127), ([0.5, 0.5], 5, -128)]
        {
            let (mut output, limits) = ([9i8; 2], Limits::default());
            let how = (ByteReduction::Max, scales.map(|scale| way(scale, zero_point)));
            pool_bytes(&shape, 2, how, &[3; 18], &mut output, &limits).unwrap();
            assert_eq!(output, [wanted; 2], "{scales:?}");
        }
    }
}
