//! Deformable convolution: every tap of the window samples the input at a fractional position that the graph computes.
//!
//! The sampled values are gathered into columns for one tile of positions at a time and then multiplied by the weights,
//! as in [`conv`](super::conv). The four elements around a position and their weights are computed once for all channels
//! that share it. Elements outside the input map to a zero that follows every plane, so that gathering needs no branches.

use super::Float;
use super::columns::{TILE_BYTES, matrix, matrix_mut};
use super::gemm::gemm;
use super::naive::{Deforming, around};
use super::parallel::for_each_chunk;
use ixion_tensor::{LimitError, Limits};
use ndarray::s;

/// The sizes of a deformable convolution of one sample: C×H×W → O×H'×W'.
#[derive(Debug, Clone)]
pub struct DeformShape {
    /// Windows and groups.
    pub how: Deforming,
    /// Input channels, a multiple of both group counts.
    pub channels: usize,
    /// Output channels, a multiple of the number of groups.
    pub out_channels: usize,
    /// Rows and columns of the input.
    pub lens: [usize; 2],
}

/// The granularity of positions in a matrix product: a multiple of the block width on every processor.
const BLOCK: usize = 48;

/// The four elements around a sampled position, and their weights.
type Corners<T> = [(u32, T); 4];

/// The operands for one sample, all contiguous.
#[derive(Debug, Clone, Copy)]
pub struct DeformInputs<'a, T> {
    /// C×H×W.
    pub input: &'a [T],
    /// 2·G·h·w×H'×W'.
    pub offset: &'a [T],
    /// G·h·w×H'×W'.
    pub mask: Option<&'a [T]>,
    /// O×(C/groups)×h×w.
    pub weight: &'a [T],
    /// One value per output channel.
    pub bias: Option<&'a [T]>,
}

impl DeformShape {
    /// Rows and columns of the output.
    pub fn outputs(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.how.windows[axis].positions(self.lens[axis]))
    }

    fn positions(&self) -> usize {
        self.outputs().iter().product()
    }

    /// The number of positions per tile, so that the columns stay in the cache.
    fn tile(&self, element_bytes: usize) -> usize {
        let rows = self.channels.saturating_mul(self.how.taps()).saturating_mul(element_bytes);
        (TILE_BYTES / rows.max(1)).max(2 * BLOCK).next_multiple_of(BLOCK).min(self.positions().max(1))
    }

    /// The memory in bytes that [`deform_conv`] allocates for elements of `element_bytes` bytes.
    pub fn held_bytes(&self, element_bytes: usize) -> u64 {
        let product = |factors: &[usize]| factors.iter().fold(1u64, |all, &n| all.saturating_mul(n as u64));
        let (tile, taps) = (self.tile(element_bytes), self.how.taps());
        let planes = product(&[self.channels, self.lens[0] * self.lens[1] + 1, element_bytes]);
        let columns = product(&[self.channels, taps, tile, element_bytes]);
        let corners = product(&[self.how.offset_groups, taps, tile, 8 * element_bytes]);
        planes.saturating_add(columns).saturating_add(corners)
    }
}

/// Convolves one sample; the output is O×H'×W'.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline, which is checked for every tile, has passed.
///
/// # Panics
/// Panics if a slice is shorter than its shape requires, or a plane has 2³² elements; callers check this beforehand.
pub fn deform_conv<T: Float>(
    shape: &DeformShape,
    inputs: &DeformInputs<'_, T>,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let (taps, positions) = (shape.how.taps(), shape.positions());
    let tile = shape.tile(size_of::<T>());
    let planes = with_zeros(inputs.input, shape.channels, shape.lens[0] * shape.lens[1]);
    let mut corners = vec![[(0, T::zero()); 4]; shape.how.offset_groups * taps * tile];
    let mut columns = vec![T::zero(); shape.channels * taps * tile];
    for start in (0..positions).step_by(tile.max(1)) {
        limits.check_deadline()?;
        let width = tile.min(positions - start);
        find(shape, inputs, start, width, &mut corners[..shape.how.offset_groups * taps * width]);
        gather(shape, &planes, &corners, width, &mut columns[..shape.channels * taps * width]);
        multiply(shape, inputs, &columns, (start, width), output);
    }
    Ok(())
}

/// The planes, which may be empty, each followed by a zero.
fn with_zeros<T: Float>(input: &[T], channels: usize, size: usize) -> Vec<T> {
    let mut planes = Vec::with_capacity(channels * (size + 1));
    for channel in 0..channels {
        planes.extend_from_slice(&input[channel * size..][..size]);
        planes.push(T::zero());
    }
    planes
}

/// Computes the corners of all taps: one row of `width` positions for each tap of each offset group.
fn find<T: Float>(
    shape: &DeformShape,
    inputs: &DeformInputs<'_, T>,
    start: usize,
    width: usize,
    corners: &mut [Corners<T>],
) {
    let (positions, row_len, kernel) = (shape.positions(), shape.outputs()[1], shape.how.windows[1].kernel);
    let zero = u32::try_from(shape.lens[0] * shape.lens[1]).unwrap_or(u32::MAX);
    let work = |from: usize, corners: &mut [Corners<T>]| -> Result<(), std::convert::Infallible> {
        let row = from / width;
        let tap = row % shape.how.taps();
        let offsets = |axis: usize| &inputs.offset[(2 * row + axis) * positions + start..][..width];
        let (down, right) = (offsets(0), offsets(1));
        let mask = inputs.mask.map(|mask| &mask[row * positions + start..][..width]);
        for (at, corners) in corners.iter_mut().enumerate() {
            let (i, j) = ((start + at) / row_len, (start + at) % row_len);
            let place = [
                shape.how.place(0, i, tap / kernel, down[at]),
                shape.how.place(1, j, tap % kernel, right[at]),
            ];
            let factor = mask.map_or(T::one(), |mask| mask[at]);
            *corners = around(place, shape.lens).map(|corner| {
                corner.map_or((zero, T::zero()), |(element, weight)| (element as u32, weight * factor))
            });
        }
        Ok(())
    };
    let Ok(()) = for_each_chunk(corners, width, &work);
}

/// Gathers the sampled values of all taps and channels: C·h·w rows of `width` positions.
fn gather<T: Float>(
    shape: &DeformShape,
    planes: &[T],
    corners: &[Corners<T>],
    width: usize,
    columns: &mut [T],
) {
    let (taps, size) = (shape.how.taps(), shape.lens[0] * shape.lens[1] + 1);
    let alike = shape.channels / shape.how.offset_groups.max(1);
    let work = |from: usize, columns: &mut [T]| -> Result<(), std::convert::Infallible> {
        let channel = from / (taps * width);
        let plane = &planes[channel * size..][..size];
        let corners = &corners[channel / alike * taps * width..][..taps * width];
        for (column, [a, b, c, d]) in columns.iter_mut().zip(corners) {
            let seen = |&(at, weight): &(u32, T)| plane[at as usize] * weight;
            *column = seen(a) + seen(b) + seen(c) + seen(d);
        }
        Ok(())
    };
    let Ok(()) = for_each_chunk(columns, taps * width, &work);
}

/// Multiplies a tile of columns by the weights of each group, and adds the bias.
fn multiply<T: Float>(
    shape: &DeformShape,
    inputs: &DeformInputs<'_, T>,
    columns: &[T],
    (start, width): (usize, usize),
    output: &mut [T],
) {
    let (groups, positions) = (shape.how.groups.max(1), shape.positions());
    let (rows, depth) = (shape.out_channels / groups, shape.channels / groups * shape.how.taps());
    for group in 0..groups {
        let weight = matrix(&inputs.weight[group * rows * depth..], rows, depth, depth);
        let columns = matrix(&columns[group * depth * width..], depth, width, width);
        let output = &mut output[group * rows * positions..][..rows * positions];
        let mut output = matrix_mut(output, rows, positions, positions);
        let mut output = output.slice_mut(s![.., start..start + width]);
        for (row, mut output) in output.rows_mut().into_iter().enumerate() {
            output.fill(inputs.bias.map_or(T::zero(), |bias| bias[group * rows + row]));
        }
        gemm(weight, columns, output, true);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::integer_noise;
    use super::super::window::Window;
    use super::*;
    use crate::naive;
    use crate::parallel::tests::on_threads;
    use ndarray::{Array4, ArrayD};
    use proptest::prelude::*;

    fn window() -> impl Strategy<Value = Window> {
        (1usize..4, 1usize..3, 1usize..3, 0usize..3).prop_map(|(kernel, stride, dilation, pad)| Window {
            kernel,
            stride,
            dilation,
            pad_before: pad,
            pad_after: pad,
        })
    }

    fn shape() -> impl Strategy<Value = DeformShape> {
        let sizes = (1usize..3, 1usize..3, 1usize..3, 1usize..3);
        let sizes = (window(), window(), sizes, [0usize..12, 0usize..12]);
        let fits = sizes.prop_filter("the window fits", |(rows, columns, _, lens)| {
            rows.positions(lens[0]) > 0 && columns.positions(lens[1]) > 0
        });
        fits.prop_map(|(rows, columns, (groups, offset_groups, each, outputs), lens)| DeformShape {
            how: Deforming { windows: [rows, columns], groups, offset_groups },
            channels: groups * offset_groups * each,
            out_channels: groups * outputs,
            lens,
        })
    }

    fn noise4(dims: [usize; 4], seed: usize) -> Array4<f64> {
        integer_noise(&dims, seed).into_dimensionality().unwrap()
    }

    fn elements(array: &Array4<f64>) -> &[f64] {
        array.as_slice().unwrap()
    }

    proptest! {
        /// Offsets are multiples of ½, so that all sums are exact.
        #[test]
        fn tiles_equal_the_naive_kernel(shape in shape(), masked: bool, seed: usize) {
            let ([height, width], taps) = (shape.lens, shape.how.taps());
            let ([rows, columns], places) = (shape.outputs(), shape.how.offset_groups * taps);
            let input = noise4([1, shape.channels, height, width], seed);
            let [kernel, across] = [0, 1].map(|axis| shape.how.windows[axis].kernel);
            let weight = noise4([shape.out_channels, shape.channels / shape.how.groups, kernel, across], seed ^ 1);
            let offset = noise4([1, 2 * places, rows, columns], seed ^ 2) / 2.0;
            let mask = masked.then(|| noise4([1, places, rows, columns], seed ^ 3) / 4.0);
            let view = mask.as_ref().map(|mask| mask.view());
            let want = naive::deform_conv2d(input.view(), weight.view(), offset.view(), view, &shape.how);
            let inputs = DeformInputs {
                input: elements(&input),
                offset: elements(&offset),
                mask: mask.as_ref().map(elements),
                weight: elements(&weight),
                bias: None,
            };
            let run = || {
                let mut output = vec![7.0; want.len()];
                deform_conv(&shape, &inputs, &mut output, &Limits::default()).unwrap();
                output
            };
            let (alone, pooled) = on_threads(&[3], run);
            prop_assert_eq!(&alone, &pooled[0]);
            prop_assert_eq!(alone.as_slice(), elements(&want));
        }
    }

    /// Without offsets, a deformable convolution is an ordinary one.
    #[test]
    fn zero_offsets_give_a_convolution() {
        let window = Window { kernel: 3, stride: 2, dilation: 1, pad_before: 1, pad_after: 1 };
        let how = Deforming { windows: [window; 2], groups: 1, offset_groups: 1 };
        let shape = DeformShape { how, channels: 2, out_channels: 3, lens: [7, 9] };
        let (input, weight) = (noise4([1, 2, 7, 9], 5), noise4([3, 2, 3, 3], 6));
        let offset = vec![0.0; 18 * 4 * 5];
        let inputs = DeformInputs {
            input: elements(&input),
            offset: &offset,
            mask: None,
            weight: elements(&weight),
            bias: None,
        };
        let mut output = vec![0.0; 3 * 4 * 5];
        deform_conv(&shape, &inputs, &mut output, &Limits::default()).unwrap();
        let dynamic = |array: &Array4<f64>| -> ArrayD<f64> { array.clone().into_dyn() };
        let want = naive::conv(dynamic(&input).view(), dynamic(&weight).view(), None, &[window; 2], 1);
        assert_eq!(output, want.iter().copied().collect::<Vec<_>>());
    }

    /// An infinite or out-of-range element only affects the taps that see it.
    #[test]
    fn outside_is_zero_and_not_the_adjacent_element() {
        let window = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
        let how = Deforming { windows: [window; 2], groups: 1, offset_groups: 1 };
        let shape = DeformShape { how, channels: 1, out_channels: 1, lens: [1, 2] };
        let run = |offset: [f64; 4]| {
            let input = [f64::INFINITY, 1.0];
            let inputs = DeformInputs {
                input: &input,
                offset: &offset,
                mask: None,
                weight: &[2.0],
                bias: Some(&[3.0]),
            };
            let mut output = [0.0; 2];
            deform_conv(&shape, &inputs, &mut output, &Limits::default()).unwrap();
            output
        };
        assert_eq!(run([-0.5, 0.0, 0.5, 0.5]), [f64::INFINITY, 4.0]);
        assert_eq!(run([-1.0, 0.0, 0.0, 1.0]), [3.0, 3.0]);
        assert_eq!(run([f64::NAN, 1e300, f64::NEG_INFINITY, 0.0]), [3.0, 3.0]);
    }
}
