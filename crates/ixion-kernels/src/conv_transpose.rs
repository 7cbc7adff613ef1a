//! Transposed convolution: matrix products compute tiles of columns, which are then added to the output.

use super::Float;
use super::columns::{Columns, TILE_BYTES, matrix, matrix_mut};
use super::conv::Factors;
use super::gemm::gemm;
use super::window::Window;
use ixion_tensor::Limits;
use ixion_tensor::Result;

/// The sizes of a transposed convolution of one sample: C×… → O×….
#[derive(Debug, Clone)]
pub struct ConvTransposeShape {
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub out_channels: usize,
    /// The number of groups; both channel counts are multiples of it.
    pub groups: usize,
    /// Lengths of the input's axes after the channels.
    pub lens: Vec<usize>,
    /// Lengths of the output's axes after the channels.
    pub outputs: Vec<usize>,
    /// The window along each of these axes. It slides over the output; its positions are the input's elements.
    pub windows: Vec<Window>,
}

impl ConvTransposeShape {
    /// The number of rows of a group's columns: the weights that one input element is multiplied by.
    fn taps(&self) -> usize {
        let kernel = self.windows.iter().map(|window| window.kernel);
        kernel.fold(self.out_channels / self.groups.max(1), usize::saturating_mul)
    }

    fn tile(&self, element_bytes: usize) -> usize {
        let pixels: usize = self.lens.iter().product();
        (TILE_BYTES / self.taps().saturating_mul(element_bytes).max(1)).clamp(16, 4096).min(pixels.max(1))
    }

    /// The number of elements of scratch memory that [`conv_transpose`] needs.
    pub fn scratch(&self, element_bytes: usize) -> usize {
        self.taps().saturating_mul(self.tile(element_bytes))
    }

    /// The number of elements of a sample, and of its output.
    pub fn sample(&self) -> [usize; 2] {
        let elements = |channels: usize, lens: &[usize]| channels * lens.iter().product::<usize>();
        [elements(self.channels, &self.lens), elements(self.out_channels, &self.outputs)]
    }
}

/// Computes the transposed convolution of one sample. All slices are contiguous: input C×…, weight C×(O/groups)×…, output
/// O×….
///
/// # Errors
/// Fails if the deadline, which is checked for each tile, has passed, or if the epilogue fails.
///
/// # Panics
/// Panics if a slice is shorter than its shape requires; callers check this beforehand.
pub fn conv_transpose<T: Float>(
    shape: &ConvTransposeShape,
    input: &[T],
    factors: &Factors<'_, T>,
    output: &mut [T],
    scratch: &mut [T],
    limits: &Limits,
) -> Result<()> {
    let (pixels, out_pixels) =
        (shape.lens.iter().product::<usize>(), shape.outputs.iter().product::<usize>());
    match factors.bias {
        Some(bias) => {
            output.chunks_exact_mut(out_pixels.max(1)).zip(bias).for_each(|(plane, &bias)| plane.fill(bias))
        }
        None => output.fill(T::zero()),
    }
    let (in_per_group, out_per_group) = (shape.channels / shape.groups, shape.out_channels / shape.groups);
    let (taps, tile) = (shape.taps(), shape.tile(size_of::<T>()));
    let columns = Columns { lens: &shape.outputs, positions: &shape.lens, windows: &shape.windows };
    for group in 0..shape.groups {
        let input = &input[group * in_per_group * pixels..][..in_per_group * pixels];
        let weight = matrix(&factors.weight[group * in_per_group * taps..], in_per_group, taps, taps);
        let first = group * out_per_group * out_pixels;
        let output = &mut output[first..][..out_per_group * out_pixels];
        for start in (0..pixels).step_by(tile) {
            limits.check_deadline()?;
            let range = start..(start + tile).min(pixels);
            let (width, scratch) = (range.len(), &mut scratch[..taps * range.len()]);
            let input = matrix(input.get(start..).unwrap_or_default(), in_per_group, width, pixels);
            gemm(weight.t(), input, matrix_mut(scratch, taps, width, width), false);
            columns.scatter(scratch, range, output);
        }
        factors.apply_epilogue(first, output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::testing::integer_noise;
    use proptest::prelude::*;

    fn check(shape: &ConvTransposeShape, with_bias: bool) {
        let input = integer_noise(&[&[1, shape.channels], &shape.lens[..]].concat(), 1);
        let kernel: Vec<usize> = shape.windows.iter().map(|w| w.kernel).collect();
        let weight =
            integer_noise(&[&[shape.channels, shape.out_channels / shape.groups], &kernel[..]].concat(), 2);
        let bias = integer_noise(&[shape.out_channels], 3);
        let bias = with_bias.then(|| bias.as_slice().unwrap());
        let want = naive::conv_transpose(
            input.view(),
            weight.view(),
            bias,
            &shape.windows,
            &shape.outputs,
            shape.groups,
        );
        let (mut got, mut scratch) = (vec![1.0; want.len()], vec![7.0; shape.scratch(8)]);
        let (input, weight) = (input.as_slice().unwrap(), weight.as_slice().unwrap());
        let factors = Factors { weight, bias, epilogue: None };
        conv_transpose(shape, input, &factors, &mut got, &mut scratch, &Limits::default()).unwrap();
        assert_eq!(got, want.as_slice().unwrap());
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_one(
            axes in proptest::collection::vec((1usize..4, 1usize..4, 1usize..3, 0usize..3, 1usize..9, 1usize..12), 1..4),
            groups in 1usize..3,
            (c, o) in (0usize..4, 0usize..4),
            with_bias: bool,
        ) {
            let windows = axes.iter().map(|&(kernel, stride, dilation, pad, ..)| {
                Window { kernel, stride, dilation, pad_before: pad, pad_after: pad }
            });
            let shape = ConvTransposeShape {
                channels: c * groups,
                out_channels: o * groups,
                groups,
                lens: axes.iter().map(|axis| axis.4).collect(),
                outputs: axes.iter().map(|axis| axis.5).collect(),
                windows: windows.collect(),
            };
            check(&shape, with_bias);
        }
    }

    #[test]
    fn many_tiles_join_without_a_seam() {
        let window = Window { kernel: 3, stride: 2, dilation: 1, pad_before: 1, pad_after: 1 };
        let shape = ConvTransposeShape {
            channels: 3,
            out_channels: 64,
            groups: 1,
            lens: vec![20, 21],
            outputs: vec![40, 41],
            windows: vec![window; 2],
        };
        assert!(shape.tile(8) < 20 * 21);
        check(&shape, true);
    }
}
