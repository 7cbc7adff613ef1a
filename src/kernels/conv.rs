//! Convolution: directly where groups are narrow, else by matrix products over tiles of im2col columns.
//!
//! The columns of a whole image can be larger than all activations together, so they are made for one tile of output
//! positions at a time, in scratch memory of a fixed size that stays in the cache. The outputs of a tile stay there too
//! between the bias that they start from and the product that is added.

use super::Float;
use super::columns::{Columns, TILE_BYTES, matrix, matrix_mut};
use super::direct;
use super::gemm::gemm;
use super::window::Window;
use crate::{LimitError, Limits};

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

/// Positions that a matrix product computes at once; a multiple of what any processor's does.
const BLOCK: usize = 48;

/// Channels of a group that is convolved directly, at most.
const NARROW: usize = 8;

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

    /// True when groups are too narrow for matrix products, and their padded planes do not grow out of bounds.
    fn is_narrow(&self, outputs: &[usize]) -> bool {
        let groups = self.groups.max(1);
        let narrow = |channels: usize| (1..=NARROW).contains(&(channels / groups));
        groups > 1 && narrow(self.channels) && narrow(self.out_channels) && direct::is_dense(self, outputs)
    }

    /// True when a column is just a pixel, so that the input itself is the matrix of columns.
    fn is_pointwise(&self) -> bool {
        let pointwise = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
        self.windows.iter().all(|window| Window { dilation: 1, ..*window } == pointwise)
    }

    /// Positions of a tile: tiles of nearly equal size, of whole blocks of the matrix product.
    fn tile(&self, element_bytes: usize) -> usize {
        let positions: usize = self.outputs().iter().product();
        let rows = match self.is_pointwise() {
            true => (self.channels + self.out_channels) / self.groups.max(1),
            false => self.taps(),
        };
        let most = (TILE_BYTES / rows.saturating_mul(element_bytes).max(1)).max(2 * BLOCK);
        let tiles = positions.div_ceil(most).max(1);
        positions.div_ceil(tiles).next_multiple_of(BLOCK).min(positions.max(1))
    }

    /// Number of elements of scratch memory that [`conv`] needs.
    pub fn scratch(&self, element_bytes: usize) -> usize {
        let outputs = self.outputs();
        if self.is_narrow(&outputs) {
            return direct::scratch(self, &outputs);
        }
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
/// # Errors
/// [`LimitError::DeadlineExceeded`], checked for each group and tile.
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
    limits: &Limits,
) -> Result<(), LimitError> {
    let outputs = shape.outputs();
    if shape.is_narrow(&outputs) {
        return direct::direct(shape, &outputs, input, weight, bias, output, scratch, limits);
    }
    let (positions, pixels) = (outputs.iter().product::<usize>(), shape.lens.iter().product::<usize>());
    let (out_per_group, in_per_group) = (shape.out_channels / shape.groups, shape.channels / shape.groups);
    let (taps, tile) = (shape.taps(), shape.tile(size_of::<T>()));
    let columns = Columns { lens: &shape.lens, positions: &outputs, windows: &shape.windows };
    for group in 0..shape.groups {
        let input = &input[group * in_per_group * pixels..][..in_per_group * pixels];
        let weight = matrix(&weight[group * out_per_group * taps..], out_per_group, taps, taps);
        let bias = bias.map(|bias| &bias[group * out_per_group..]);
        let output = &mut output[group * out_per_group * positions..][..out_per_group * positions];
        for start in (0..positions).step_by(tile) {
            limits.check_deadline()?;
            let range = start..(start + tile).min(positions);
            let width = range.len();
            for (channel, plane) in output.chunks_exact_mut(positions).enumerate() {
                plane[range.clone()].fill(bias.map_or(T::zero(), |bias| bias[channel]));
            }
            let output =
                matrix_mut(output.get_mut(start..).unwrap_or_default(), out_per_group, width, positions);
            if shape.is_pointwise() {
                gemm(
                    weight,
                    matrix(input.get(start..).unwrap_or_default(), in_per_group, width, pixels),
                    output,
                    true,
                );
            } else {
                columns.gather(input, range, &mut scratch[..taps * width]);
                gemm(weight, matrix(scratch, taps, width, width), output, true);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive;
    use crate::kernels::testing::whole_noise;
    use proptest::prelude::*;

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

    /// Compares a convolution of `c` channels in a group with the naive one.
    fn check(shape: &ConvShape, c: usize, with_bias: bool) {
        let input = whole_noise(&[&[1, shape.channels], &shape.lens[..]].concat(), 1);
        let kernel: Vec<usize> = shape.windows.iter().map(|w| w.kernel).collect();
        let weight = whole_noise(&[&[shape.out_channels, c], &kernel[..]].concat(), 2);
        let bias = whole_noise(&[shape.out_channels], 3);
        let bias = with_bias.then(|| bias.as_slice().unwrap());
        let want = naive::conv(input.view(), weight.view(), bias, &shape.windows, shape.groups);
        let (mut got, mut scratch) = (vec![1.0; want.len()], vec![7.0; shape.scratch(8)]);
        let (input, weight) = (input.as_slice().unwrap(), weight.as_slice().unwrap());
        conv(shape, input, weight, bias, &mut got, &mut scratch, &Limits::default()).unwrap();
        assert_eq!(got, want.as_slice().unwrap());
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_convolution(
            windows in windows(),
            groups in 1usize..4,
            (c, o) in prop_oneof![(0usize..4, 0usize..8), (7usize..11, 7usize..11)],
            lens in proptest::collection::vec(1usize..9, 3),
            with_bias: bool,
        ) {
            let lens = lens[..windows.len()].to_vec();
            let shape = ConvShape { channels: c * groups, out_channels: o * groups, groups, lens, windows };
            prop_assume!(shape.outputs().iter().all(|&len| len > 0));
            check(&shape, c, with_bias);
        }
    }

    #[test]
    fn far_places_need_little_scratch() {
        let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let far = 500_000_000;
        let windows = [
            Window { stride: far, ..window },
            Window { dilation: far, pad_before: far, pad_after: far, ..window },
        ];
        for window in windows {
            for lens in [vec![10], vec![5, 7]] {
                let mut windows = vec![Window { pad_before: 0, pad_after: 0, ..window }; lens.len()];
                windows[lens.len() - 1] = window;
                windows[0] = if lens.len() == 2 { Window { kernel: 1, ..windows[0] } } else { windows[0] };
                let shape = ConvShape { channels: 2, out_channels: 4, groups: 2, lens, windows };
                assert!(shape.scratch(8) < 1 << 16, "{shape:?} needs {}", shape.scratch(8));
                check(&shape, 1, true);
            }
        }
    }

    #[test]
    fn usual_narrow_groups_are_convolved_directly() {
        for (kernel, stride, dilation, len) in
            [(3, 1, 1, 7), (3, 2, 1, 56), (1, 2, 1, 14), (3, 1, 36, 33), (7, 4, 1, 9)]
        {
            let pad = dilation * (kernel / 2);
            let window = Window { kernel, stride, dilation, pad_before: pad, pad_after: pad };
            let windows = vec![window; 2];
            let shape = ConvShape { channels: 8, out_channels: 8, groups: 8, lens: vec![len; 2], windows };
            assert!(shape.is_narrow(&shape.outputs()), "{window:?}");
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
        assert!(shape.tile(8) < 1600, "one tile");
        check(&shape, 40, false);
    }
}
