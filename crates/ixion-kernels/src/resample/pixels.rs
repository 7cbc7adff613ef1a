//! Resampling of int8 images whose channels are innermost: pixels are copied, or interpolated between four of them.

use crate::naive::{Interpolation, Resampling};
use crate::parallel::for_each_chunk;
use crate::quantization::{dequantize, quantize_by_adding};
use crate::widest;
use ixion_tensor::{LimitError, Limits};

/// The two places that a position of an axis is computed from, with their weights.
type Taps = [(usize, f32); 2];

/// The resampling of the rows and the columns of images.
#[derive(Debug, Clone)]
pub struct PixelResampler {
    /// The height and the width of the input.
    lens: [usize; 2],
    rows: Vec<Taps>,
    columns: Vec<Taps>,
    /// Whether each pixel is a copy of one.
    copies: bool,
}

/// The places of all positions; `None` if positions are computed from more than two.
fn taps(axis: &Resampling) -> Option<Vec<Taps>> {
    let is_linear = axis.interpolation == Interpolation::Linear && !axis.is_filter();
    let taps = |position: usize| match axis.only_tap::<f32>(position) {
        Some(source) => Some([(source, 1.0), (source, 0.0)]),
        None => is_linear.then(|| axis.two_taps(position)),
    };
    (0..axis.outputs).map(taps).collect()
}

impl PixelResampler {
    /// Prepares the resampling of the rows, along axis −2 of N×C×H×W, and of the columns. `None` unless pixels are copied or
    /// interpolated linearly.
    pub fn new(rows: &Resampling, columns: &Resampling) -> Option<Self> {
        let copies = |axis: &Resampling| (0..axis.outputs).all(|at| axis.only_tap::<f32>(at).is_some());
        Some(Self {
            lens: [rows.len, columns.len],
            rows: taps(rows)?,
            columns: taps(columns)?,
            copies: copies(rows) && copies(columns),
        })
    }

    /// Resamples images H×W×C. Elements q represent q · `scales[0]`, and outputs q · `scales[1]`: results are converted,
    /// rounded half to even and clamped to ±127. Between equal scales, copies stay as they are. The threads of the current pool
    /// share the work.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    ///
    /// # Panics
    /// Panics if `input` has fewer images than `output`.
    pub fn run(
        &self,
        channels: usize,
        scales: [f32; 2],
        input: &[i8],
        output: &mut [i8],
        limits: &Limits,
    ) -> Result<(), LimitError> {
        let line = self.columns.len() * channels;
        let from = [self.lens[0], self.lens[1] * channels];
        for_each_chunk(output, line, &|start, output: &mut [i8]| {
            limits.check_deadline()?;
            let row = start / line;
            let image = &input[row / self.rows.len() * from[0] * from[1]..][..from[0] * from[1]];
            let lines = self.rows[row % self.rows.len()];
            let lines = lines.map(|(at, weight)| (&image[at * from[1]..][..from[1]], weight));
            match self.copies {
                true => self.copy(lines[0].0, channels, scales, output),
                false => widest!(|| self.interpolate(lines, channels, scales, output)),
            }
            Ok(())
        })
    }

    /// Copies the pixels of a row.
    fn copy(&self, line: &[i8], channels: usize, scales: [f32; 2], output: &mut [i8]) {
        let pixels = output.chunks_exact_mut(channels).zip(&self.columns);
        pixels.for_each(|(pixel, [(at, _), _])| pixel.copy_from_slice(&line[at * channels..][..channels]));
        let [from, to] = scales;
        if from.to_bits() != to.to_bits() {
            widest!(|| output.iter_mut().for_each(|q| *q = quantize_by_adding(dequantize(*q, from), to)));
        }
    }

    /// Interpolates the pixels of a row between those of two rows.
    #[inline(always)]
    fn interpolate(
        &self,
        [upper, lower]: [(&[i8], f32); 2],
        channels: usize,
        [from, to]: [f32; 2],
        output: &mut [i8],
    ) {
        for (pixel, [left, right]) in output.chunks_exact_mut(channels).zip(&self.columns) {
            let [a, c] = [upper.0, lower.0].map(|line| &line[left.0 * channels..][..channels]);
            let [b, d] = [upper.0, lower.0].map(|line| &line[right.0 * channels..][..channels]);
            for ((((q, &a), &b), &c), &d) in pixel.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                let upper = (f32::from(a) * left.1 + f32::from(b) * right.1) * upper.1;
                let lower = (f32::from(c) * left.1 + f32::from(d) * right.1) * lower.1;
                *q = quantize_by_adding((upper + lower) * from, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::parallel::tests::on_threads;
    use ndarray::{ArrayD, IxDyn};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pixels_are_resampled_like_numbers(
            sizes in [(1usize..7, 1usize..12), (1usize..7, 1usize..12)],
            interpolation in prop_oneof![
                Just(Interpolation::Nearest),
                Just(Interpolation::NearestExact),
                Just(Interpolation::Linear),
            ],
            align_corners: bool,
            factor in proptest::option::of(0.3f64..3.0),
            (images, channels) in (1usize..3, prop_oneof![1usize..5, 60usize..70]),
            scales in [0.01f32..1.0, 0.01f32..1.0],
            is_same: bool,
            seed in 0usize..1000,
        ) {
            let scales = if is_same { [scales[0]; 2] } else { scales };
            let axes = sizes.map(|(len, outputs)| {
                Resampling { interpolation, align_corners, antialias: false, len, outputs, factor }
            });
            let [places, out_places] = [sizes[0].0 * sizes[1].0, sizes[0].1 * sizes[1].1];
            let values = (0..images * places * channels).map(|at| ((at * 37 + seed) % 255) as i16 - 127);
            let input: Vec<i8> = values.map(|q| q as i8).collect();
            let resampler = PixelResampler::new(&axes[0], &axes[1]).unwrap();
            let (alone, pooled) = on_threads(&[3], || {
                let mut output = vec![99i8; images * out_places * channels];
                resampler.run(channels, scales, &input, &mut output, &Limits::default()).unwrap();
                output
            });
            prop_assert_eq!(&alone, &pooled[0]);
            let shape = [images, sizes[0].0, sizes[1].0, channels];
            let real: Vec<f32> = input.iter().map(|&q| f32::from(q)).collect();
            let real = ArrayD::from_shape_vec(IxDyn(&shape), real).unwrap().permuted_axes(IxDyn(&[0, 3, 1, 2]));
            let wanted = naive::interpolate(real.view(), &axes).permuted_axes(IxDyn(&[0, 2, 3, 1]));
            for (&wanted, &found) in wanted.iter().zip(&alone) {
                let steps = wanted * scales[0] / scales[1];
                let off = (steps.clamp(-127.0, 127.0) - f32::from(found)).abs();
                prop_assert!(off <= 0.501, "{found} instead of {steps}");
            }
        }
    }

    #[test]
    fn other_interpolations_have_no_kernel() {
        let axis = |interpolation, antialias| Resampling {
            interpolation,
            align_corners: false,
            antialias,
            len: 3,
            outputs: 5,
            factor: None,
        };
        let linear = axis(Interpolation::Linear, false);
        assert!(PixelResampler::new(&linear, &linear).is_some());
        for other in [axis(Interpolation::Linear, true), axis(Interpolation::Cubic, false)] {
            assert!(PixelResampler::new(&linear, &other).is_none());
            assert!(PixelResampler::new(&other, &linear).is_none());
        }
    }
}
