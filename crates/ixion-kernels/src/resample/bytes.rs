//! Interpolation of bytes, with the rounding of PyTorch: weights are fixed-point numbers of 16 bits, and what is between the
//! two axes is rounded to bytes.

use crate::naive::Resampling;
use crate::parallel::for_each_chunk;
use ixion_tensor::{LimitError, Limits};

/// The resampling of the last two axes of an array of bytes: along rows first, then along columns.
#[derive(Debug, Clone)]
pub struct ByteResampler {
    rows: Pass,
    columns: Pass,
}

/// The resampling of one axis.
#[derive(Debug, Clone)]
struct Pass {
    len: usize,
    outputs: usize,
    /// For each position, the elements that it is computed from, with their weights; `None` if the length stays.
    taps: Option<Vec<Vec<(usize, i64)>>>,
    /// The number of bits after the binary point of the weights.
    precision: u32,
}

/// The most bits after the binary point of a weight.
const MOST_BITS: u32 = 22;

impl Pass {
    fn new(axis: &Resampling) -> Self {
        let (len, outputs) = (axis.len, axis.outputs);
        if len == outputs {
            return Self { len, outputs, taps: None, precision: 0 };
        }
        let taps: Vec<Vec<(usize, f64)>> = (0..outputs).map(|position| merged(axis.taps(position))).collect();
        let largest = taps.iter().flatten().fold(0.0, |largest: f64, tap| largest.max(tap.1));
        // As many bits as a positive number of 16 bits has room for.
        let limit = f64::from(1u32 << 15);
        let overflows = |bits: u32| (0.5 + largest * f64::from(1u32 << bits)).trunc() >= limit;
        let precision = (0..MOST_BITS).find(|bits| overflows(bits + 1)).unwrap_or(MOST_BITS);
        let one = f64::from(1u32 << precision);
        let fixed = |(at, weight): (usize, f64)| (at, (weight * one + 0.5f64.copysign(weight)) as i64);
        let fixed = |taps: Vec<(usize, f64)>| taps.into_iter().map(fixed).collect::<Vec<(usize, i64)>>();
        Self { len, outputs, taps: Some(taps.into_iter().map(fixed).collect()), precision }
    }

    /// Resamples `len`×`inner` bytes.
    fn run(&self, input: &[u8], output: &mut [u8], inner: usize) {
        let Some(taps) = &self.taps else {
            output.copy_from_slice(input);
            return;
        };
        let half = (1i64 << self.precision) >> 1;
        for (output, taps) in output.chunks_exact_mut(inner.max(1)).zip(taps) {
            for (lane, y) in output.iter_mut().enumerate() {
                let product = |&(at, weight): &(usize, i64)| weight * i64::from(input[at * inner + lane]);
                let sum = half + taps.iter().map(product).sum::<i64>();
                *y = (sum >> self.precision).clamp(0, 255) as u8;
            }
        }
    }
}

/// The weights of elements that occur more than once are added.
fn merged(taps: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    let mut merged: Vec<(usize, f64)> = Vec::with_capacity(taps.len());
    for (at, weight) in taps {
        match merged.last_mut() {
            Some(last) if last.0 == at => last.1 += weight,
            _ => merged.push((at, weight)),
        }
    }
    merged
}

impl ByteResampler {
    /// Prepares the resampling of columns and rows, in this order: that of axis −2, and that of axis −1.
    pub fn new(columns: &Resampling, rows: &Resampling) -> Self {
        Self { rows: Pass::new(rows), columns: Pass::new(columns) }
    }

    /// The number of bytes of scratch memory for this number of planes, whose size is `lens` before and `outputs` after.
    pub fn scratch_len(planes: usize, lens: [usize; 2], outputs: [usize; 2]) -> usize {
        planes.saturating_mul(lens[0]).saturating_mul(outputs[1])
    }

    /// Resamples the last two axes of an array. Threads share the planes.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    ///
    /// # Panics
    /// Panics if scratch is shorter than [`scratch_len`](Self::scratch_len).
    pub fn run(
        &self,
        input: &[u8],
        output: &mut [u8],
        scratch: &mut [u8],
        limits: &Limits,
    ) -> Result<(), LimitError> {
        let Self { rows, columns } = self;
        let lens = [columns.len, rows.len].map(|len| len.max(1));
        let outputs = [columns.outputs, rows.outputs].map(|len| len.max(1));
        let between = lens[0] * outputs[1];
        let planes = input.len() / (lens[0] * lens[1]);
        let scratch = &mut scratch[..planes * between];
        for_each_chunk(scratch, between, &|start, plane: &mut [u8]| -> Result<(), LimitError> {
            limits.check_deadline()?;
            let input = &input[start / between * lens[0] * lens[1]..];
            let both = plane.chunks_exact_mut(outputs[1]).zip(input.chunks_exact(lens[1]));
            both.for_each(|(row, input)| rows.run(input, row, 1));
            Ok(())
        })?;
        let scratch = &*scratch;
        for_each_chunk(output, outputs[0] * outputs[1], &|start, plane| {
            limits.check_deadline()?;
            let first = start / (outputs[0] * outputs[1]) * between;
            columns.run(&scratch[first..first + between], plane, outputs[1]);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::naive::Interpolation;
    use ndarray::{ArrayD, IxDyn};
    use proptest::prelude::*;

    /// Bytes that look random: `(7 * i * i + 31 * i) % 256`.
    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|i| ((7 * i * i + 31 * i) % 256) as u8).collect()
    }

    fn resampled(
        interpolation: Interpolation,
        antialias: bool,
        lens: [usize; 2],
        outputs: [usize; 2],
    ) -> Vec<u8> {
        let axis = |axis: usize| Resampling {
            interpolation,
            align_corners: false,
            antialias,
            len: lens[axis],
            outputs: outputs[axis],
            factor: None,
        };
        let mut output = vec![7; 2 * outputs[0] * outputs[1]];
        let mut scratch = vec![7; ByteResampler::scratch_len(2, lens, outputs)];
        let input = bytes(2 * lens[0] * lens[1]);
        let resampler = ByteResampler::new(&axis(0), &axis(1));
        resampler.run(&input, &mut output, &mut scratch, &Limits::default()).unwrap();
        output
    }

    /// The results of `torch.nn.functional.interpolate`.
    #[test]
    fn bytes_are_rounded_as_in_pytorch() {
        let linear = [
            59, 53, 58, 102, 121, 129, 197, 137, 102, 202, 181, 135, 135, 117, 85, 27, 105, 197, 129, 153,
            177, 175, 117, 59,
        ];
        assert_eq!(resampled(Interpolation::Linear, false, [3, 4], [2, 6]), linear);
        let cubic = [
            0, 56, 153, 142, 98, 85, 217, 144, 100, 163, 159, 186, 82, 0, 227, 206, 72, 94, 209, 170, 35, 90,
            219, 93,
        ];
        assert_eq!(resampled(Interpolation::Cubic, false, [3, 4], [4, 3]), cubic);
        let linear = [77, 132, 187, 70, 124, 173, 135, 131, 156, 136, 118, 73];
        assert_eq!(resampled(Interpolation::Linear, true, [5, 6], [2, 3]), linear);
        let cubic = [85, 164, 81, 197, 84, 145, 120, 176, 144, 103, 126, 78];
        assert_eq!(resampled(Interpolation::Cubic, true, [5, 6], [3, 2]), cubic);
        let lanczos = [135, 115, 102, 167, 160, 86, 149, 159, 129, 137, 93, 91];
        assert_eq!(resampled(Interpolation::Lanczos, true, [6, 5], [2, 3]), lanczos);
    }

    proptest! {
        #[test]
        fn linear_results_are_near_those_of_floats(
            lens in [1usize..7, 1usize..7],
            outputs in [1usize..7, 1usize..7],
            antialias: bool,
        ) {
            let axis = |axis: usize| Resampling {
                interpolation: Interpolation::Linear,
                align_corners: false,
                antialias,
                len: lens[axis],
                outputs: outputs[axis],
                factor: None,
            };
            let got = resampled(Interpolation::Linear, antialias, lens, outputs);
            let input: Vec<f64> = bytes(2 * lens[0] * lens[1]).into_iter().map(f64::from).collect();
            let array = ArrayD::from_shape_vec(IxDyn(&[2, lens[0], lens[1]]), input).unwrap();
            let want = naive::interpolate(array.view(), &[axis(0), axis(1)]);
            for (&got, &want) in got.iter().zip(&want) {
                prop_assert!((f64::from(got) - want).abs() <= 1.6, "{got} where {want} is near");
            }
        }
    }
}
