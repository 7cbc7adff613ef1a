//! Convolutions in groups of few channels, such as depthwise ones: a thread computes some adjacent channels at a position, or at
//! several positions of a row.

use super::axes::{chunk, is_chunked};
use super::convolution_operands::{ConvParams, ConvSizes, Operands};
use super::epilogue::EpilogueCode;
use super::prelude::*;
use super::windows::{are_channels_chunked, spread};
use smallvec::SmallVec;

/// Groups with fewer output channels are computed by this kernel.
const MIN_GROUP_CHANNELS: usize = 8;

/// The maximum number of taps along the innermost axis that a thread reads at once, and the number if there are more.
const MAX_TAPS_AT_ONCE: usize = 7;
const TAPS_AT_ONCE: usize = 4;

/// Returns true if groups have so few output channels that tiles would be mostly empty.
pub(super) fn is_depthwise(out_channels: usize, groups: usize) -> bool {
    out_channels < MIN_GROUP_CHANNELS && groups > 1
}

/// The adjacent positions of a row that a thread computes, if windows are short enough for their inputs to stay in registers.
const STRIP: usize = 4;
const MAX_STRIP_TAPS: usize = 5;
const MAX_STRIP_STRIDE: usize = 2;

/// The source of the kernel, and its grid.
pub(super) fn unit(
    params: &ConvParams<'_>,
    operands: &Operands<'_>,
    sizes: &ConvSizes,
    epilogue: &EpilogueCode,
) -> (Unit, Grid) {
    let chunk = chunk_of_groups(operands, sizes);
    let window = params.windows.last();
    let taps = window.map_or(1, |window| window.kernel.max(1));
    if chunk > 1 && sizes.channels == 1 && are_strips(params, sizes) {
        let unit = epilogue
            .unit("depthwise_strips.cu", include_str!("../kernels/depthwise_strips.cu"))
            .define("CHUNK", chunk)
            .define("COLUMNS", STRIP)
            .define("STRIDE", window.map_or(1, |window| window.stride))
            .define("TAPS", taps);
        let columns = row_length(sizes);
        let strips = sizes.count / columns.max(1) * columns.div_ceil(STRIP);
        return (unit, spread(strips * params.groups / chunk));
    }
    let at_once = if taps > MAX_TAPS_AT_ONCE { TAPS_AT_ONCE } else { taps };
    let unit = epilogue
        .unit("depthwise.cu", include_str!("../kernels/depthwise.cu"))
        .define("CHUNK", chunk)
        .define("CHANNELS", sizes.channels)
        .define("TAPS", at_once);
    (unit, spread(operands.y.num_elements() / chunk))
}

/// The number of output positions of a row.
fn row_length(sizes: &ConvSizes) -> usize {
    sizes.out.dims.get(3).map_or(1, |&columns| columns as usize)
}

/// Returns true if adjacent positions of a row share inputs, and a strip of them can be computed by one thread.
fn are_strips(params: &ConvParams<'_>, sizes: &ConvSizes) -> bool {
    let [.., window] = params.windows else { return false };
    !params.transposed
        && params.mode.is_none()
        && params.windows.len() <= 2
        && window.dilation == 1
        && (2..=MAX_STRIP_TAPS).contains(&window.kernel)
        && (1..=MAX_STRIP_STRIDE).contains(&window.stride)
        && row_length(sizes) > 1
}

/// The number of adjacent channels that a thread computes: whole groups with as many output as input channels, or 1.
fn chunk_of_groups(operands: &Operands<'_>, sizes: &ConvSizes) -> usize {
    let Operands { x, y, filter, bias, .. } = operands;
    let tensors: SmallVec<[&DeviceTensor<'_>; 4]> = [x, y, &filter.tensor].into_iter().chain(bias).collect();
    let [output, others @ .., _, _, _] = &filter.strides.by;
    let are_adjacent = *output == 1 && filter.group == sizes.out_channels as i64;
    chunk(&tensors, |chunk| {
        are_adjacent
            && sizes.channels == sizes.out_channels
            && chunk.is_multiple_of(sizes.channels)
            && [x, y].into_iter().all(|tensor| are_channels_chunked(tensor, chunk))
            && is_chunked(&filter.tensor, others, chunk)
            && bias.is_none_or(|bias| bias.is_aligned((chunk * bias.dtype().size()) as u64))
    })
}
