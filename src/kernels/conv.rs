//! Convolution by matrix products over tiles of im2col columns.
//!
//! The columns of a whole image can be larger than all activations together, so they are made for one tile of output
//! positions at a time, in scratch memory of a fixed size that stays in the cache.

use super::Float;
use super::gemm::gemm;
use super::window::Window;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use std::ops::Range;

/// The sizes of a convolution of one sample: C×… → O×….
#[derive(Debug, Clone)]
pub struct ConvShape {
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub out_channels: usize,
    /// Groups; both numbers of channels are multiples of it.
    pub groups: usize,
    /// Lengths of the input's axes after the channels.
    pub lens: Vec<usize>,
    /// The window along each of these axes.
    pub windows: Vec<Window>,
}

/// Bytes of columns that one tile aims for: half of a usual second-level cache.
const TILE_BYTES: usize = 256 << 10;

impl ConvShape {
    /// Lengths of the output's axes after the channels.
    pub fn outputs(&self) -> Vec<usize> {
        self.windows.iter().zip(&self.lens).map(|(window, &len)| window.positions(len)).collect()
    }

    /// Elements of one output: rows of the weight matrix of a group.
    fn taps(&self) -> usize {
        self.channels / self.groups.max(1) * self.kernel_size()
    }

    fn kernel_size(&self) -> usize {
        self.windows.iter().map(|window| window.kernel).product()
    }

    /// True when a column is just a pixel, so that the input itself is the matrix of columns.
    fn is_pointwise(&self) -> bool {
        let pointwise = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
        self.windows.iter().all(|window| Window { dilation: 1, ..*window } == pointwise)
    }

    fn tile(&self, element_bytes: usize) -> usize {
        let positions: usize = self.outputs().iter().product();
        (TILE_BYTES / (self.taps() * element_bytes).max(1)).clamp(16, 4096).min(positions.max(1))
    }

    /// Number of elements of scratch memory that [`conv`] needs.
    pub fn scratch(&self, element_bytes: usize) -> usize {
        if self.is_pointwise() { 0 } else { self.taps().saturating_mul(self.tile(element_bytes)) }
    }

    /// Multiply-accumulate operations of one sample.
    pub fn macs(&self) -> u64 {
        let positions = self.outputs().iter().fold(1u64, |product, &len| product.saturating_mul(len as u64));
        positions.saturating_mul(self.out_channels as u64).saturating_mul(self.taps() as u64)
    }
}

/// Convolves one sample. All slices are contiguous: input C×…, weight O×(C/groups)×…, output O×….
///
/// # Panics
/// When a slice is shorter than its shape; callers have checked them.
pub fn conv<T: Float>(
    shape: &ConvShape,
    input: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    output: &mut [T],
    scratch: &mut [T],
) {
    let outputs = shape.outputs();
    let (positions, pixels) = (outputs.iter().product::<usize>(), shape.lens.iter().product::<usize>());
    let (out_per_group, in_per_group) = (shape.out_channels / shape.groups, shape.channels / shape.groups);
    let taps = shape.taps();
    match bias {
        Some(bias) => {
            output.chunks_exact_mut(positions.max(1)).zip(bias).for_each(|(plane, &bias)| plane.fill(bias))
        }
        None => output.fill(T::zero()),
    }
    for group in 0..shape.groups {
        let input = &input[group * in_per_group * pixels..][..in_per_group * pixels];
        let weight = matrix(&weight[group * out_per_group * taps..], out_per_group, taps, taps);
        let output = &mut output[group * out_per_group * positions..][..out_per_group * positions];
        if shape.is_pointwise() {
            let output = matrix_mut(output, out_per_group, positions, positions);
            gemm(weight, matrix(input, in_per_group, pixels, pixels), output, true);
            continue;
        }
        let tile = shape.tile(size_of::<T>());
        for start in (0..positions).step_by(tile) {
            let range = start..(start + tile).min(positions);
            let width = range.len();
            im2col(shape, &outputs, input, range, &mut scratch[..taps * width]);
            let output = matrix_mut(&mut output[start..], out_per_group, width, positions);
            gemm(weight, matrix(scratch, taps, width, width), output, true);
        }
    }
}

/// Writes the columns of a range of output positions: one row for each channel of the group and each tap of the window.
fn im2col<T: Float>(
    shape: &ConvShape,
    outputs: &[usize],
    input: &[T],
    range: Range<usize>,
    columns: &mut [T],
) {
    let pixels: usize = shape.lens.iter().product();
    let kernel = shape.kernel_size();
    for (row, line) in columns.chunks_exact_mut(range.len()).enumerate() {
        let plane = &input[row / kernel * pixels..][..pixels];
        fill_row(shape, outputs, plane, row % kernel, range.clone(), line);
    }
}

/// What one tap of the window sees at a range of output positions, run by run along the last axis.
fn fill_row<T: Float>(
    shape: &ConvShape,
    outputs: &[usize],
    plane: &[T],
    tap: usize,
    range: Range<usize>,
    line: &mut [T],
) {
    let Some((&inner_outputs, outer_outputs)) = outputs.split_last() else { return };
    let Some((&inner_len, _)) = shape.lens.split_last() else { return };
    let taps = unravel(tap, shape.windows.iter().map(|window| window.kernel));
    let (inner_window, inner_tap) = (shape.windows[outer_outputs.len()], taps[outer_outputs.len()]);
    let mut position = range.start;
    while position < range.end {
        let from = position % inner_outputs;
        let to = inner_outputs.min(from + range.end - position);
        let run = &mut line[position - range.start..][..to - from];
        let places = unravel(position / inner_outputs, outer_outputs.iter().copied());
        let mut axes =
            places.iter().zip(&shape.windows).zip(&taps).zip(&shape.lens).take(outer_outputs.len());
        let source = axes.try_fold(0, |index, (((&place, window), &tap), &len)| {
            Some(index * len + window.source(place, tap, len)?)
        });
        match source {
            Some(row) => fill_run(&plane[row * inner_len..][..inner_len], inner_window, inner_tap, from, run),
            None => run.fill(T::zero()),
        }
        position += to - from;
    }
}

/// What one tap sees along a row, at the positions that follow `from`.
fn fill_run<T: Float>(row: &[T], window: Window, tap: usize, from: usize, run: &mut [T]) {
    let reach = tap * window.dilation;
    let first = window.pad_before.saturating_sub(reach).div_ceil(window.stride);
    let end = (row.len() + window.pad_before).saturating_sub(reach).div_ceil(window.stride);
    let before = first.saturating_sub(from).min(run.len());
    let inside = end.saturating_sub(from).clamp(before, run.len());
    run[..before].fill(T::zero());
    run[inside..].fill(T::zero());
    let run = &mut run[before..inside];
    if run.is_empty() {
        return;
    }
    let source = &row[(from + before) * window.stride + reach - window.pad_before..];
    if window.stride == 1 {
        run.copy_from_slice(&source[..run.len()]);
    } else {
        run.iter_mut().zip(source.iter().step_by(window.stride)).for_each(|(to, &from)| *to = from);
    }
}

/// Row-major coordinates of a flat index.
fn unravel(mut index: usize, lens: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator) -> [usize; 3] {
    let mut coordinates = [0; 3];
    let last = lens.len();
    for (axis, len) in (0..last).rev().zip(lens.rev()) {
        coordinates[axis] = index % len.max(1);
        index /= len.max(1);
    }
    coordinates
}

/// The first `rows` rows of `cols` elements that begin `stride` apart.
fn matrix<T>(data: &[T], rows: usize, cols: usize, stride: usize) -> ArrayView2<'_, T> {
    let view = ArrayView2::from_shape((rows, cols).strides((stride, 1)), data);
    view.unwrap_or_else(|error| unreachable!("a matrix outside of its slice: {error}"))
}

/// As [`matrix`], for writing.
fn matrix_mut<T>(data: &mut [T], rows: usize, cols: usize, stride: usize) -> ArrayViewMut2<'_, T> {
    let view = ArrayViewMut2::from_shape((rows, cols).strides((stride, 1)), data);
    view.unwrap_or_else(|error| unreachable!("a matrix outside of its slice: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive;
    use ndarray::{ArrayD, IxDyn};
    use proptest::prelude::*;

    fn array(shape: &[usize], seed: usize) -> ArrayD<f64> {
        let mut state = seed;
        ArrayD::from_shape_simple_fn(IxDyn(shape), || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % 17) as f64 - 8.0
        })
    }

    fn windows() -> impl Strategy<Value = Vec<Window>> {
        let window = (1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3).prop_map(
            |(kernel, stride, dilation, a, b)| Window {
                kernel,
                stride,
                dilation,
                pad_before: a,
                pad_after: b,
            },
        );
        proptest::collection::vec(window, 1..4)
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_convolution(
            windows in windows(),
            groups in 1usize..3,
            (c, o) in (1usize..4, 1usize..4),
            lens in proptest::collection::vec(1usize..9, 3),
            with_bias: bool,
        ) {
            let lens = lens[..windows.len()].to_vec();
            let shape = ConvShape { channels: c * groups, out_channels: o * groups, groups, lens, windows };
            let outputs = shape.outputs();
            prop_assume!(outputs.iter().all(|&len| len > 0));
            let input = array(&[&[1, shape.channels], &shape.lens[..]].concat(), 1);
            let kernel: Vec<usize> = shape.windows.iter().map(|w| w.kernel).collect();
            let weight = array(&[&[shape.out_channels, c], &kernel[..]].concat(), 2);
            let bias = array(&[shape.out_channels], 3);
            let bias = with_bias.then(|| bias.as_slice().unwrap());
            let want = naive::conv(input.view(), weight.view(), bias, &shape.windows, groups);
            let mut got = vec![1.0; want.len()];
            let mut scratch = vec![7.0; shape.scratch(8)];
            conv(&shape, input.as_slice().unwrap(), weight.as_slice().unwrap(), bias, &mut got, &mut scratch);
            prop_assert_eq!(got, want.as_slice().unwrap());
        }
    }

    #[test]
    fn many_tiles_join_without_a_seam() {
        let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let shape = ConvShape {
            channels: 40,
            out_channels: 3,
            groups: 1,
            lens: vec![40, 40],
            windows: vec![window; 2],
        };
        assert!(shape.tile(8) < 1600);
        let (input, weight) = (array(&[1, 40, 40, 40], 1), array(&[3, 40, 3, 3], 2));
        let want = naive::conv(input.view(), weight.view(), None, &shape.windows, 1);
        let (mut got, mut scratch) = (vec![0.0; want.len()], vec![0.0; shape.scratch(8)]);
        conv(&shape, input.as_slice().unwrap(), weight.as_slice().unwrap(), None, &mut got, &mut scratch);
        assert_eq!(got, want.as_slice().unwrap());
    }
}
