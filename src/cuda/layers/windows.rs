//! What layers with windows over up to three axes share: lengths in the form of kernels, grids, and the order of channels.

use super::axes::is_chunked;
use super::prelude::*;
use super::support::{int, kernel_lengths};
use crate::kernels::naive::PadMode;
use smallvec::SmallVec;

/// The number of spatial axes in kernels; those that a convolution lacks have length 1.
pub(super) const AXES: usize = 3;

/// N×C×… with three axes after the channels.
pub(super) fn with_three_axes<'a>(
    tensor: &DeviceTensor<'a>,
    axes: usize,
    leading: usize,
) -> Result<DeviceTensor<'a>> {
    let (mut dims, mut by) = (tensor.shape().dims().to_vec(), tensor.layout().strides().to_vec());
    while dims.len() < leading + axes {
        dims.insert(0, 1);
        by.insert(0, 0);
    }
    for _ in axes..AXES {
        dims.insert(leading, 1);
        by.insert(leading, 0);
    }
    Ok(tensor.with_axes(&dims, &by)?)
}

/// Values of the last axes in the form of kernels; the axes before have the value `default`.
pub(super) fn of_axes(values: impl ExactSizeIterator<Item = usize>, default: i32) -> Result<KernelShape> {
    let mut of_axes = KernelShape { rank: AXES as i32, dims: [default; 8] };
    let missing = AXES.saturating_sub(values.len());
    for (dim, value) in of_axes.dims.iter_mut().skip(missing).zip(values) {
        *dim = int(value)?;
    }
    Ok(of_axes)
}

/// The lengths of some axes of a tensor in the form of kernels.
pub(super) fn lengths(tensor: &DeviceTensor<'_>, axes: &[usize]) -> Result<KernelShape> {
    kernel_lengths(axes.iter().map(|&axis| tensor.shape().get(axis).copied().unwrap_or(1)))
}

/// A grid with this number of threads, in small blocks if large ones would be too few to keep the device busy.
pub(super) fn spread(threads: usize) -> Grid {
    const FEW: usize = 1 << 16;
    const SMALL_BLOCK: u32 = 64;
    match threads {
        0..FEW => Grid::of(threads.div_ceil(SMALL_BLOCK as usize), SMALL_BLOCK),
        _ => Grid::over(threads),
    }
}

/// The kernels' macro for the padding mode.
pub(super) fn mode(mode: Option<PadMode>) -> &'static str {
    match mode {
        Some(PadMode::Reflect) => "REFLECT",
        Some(PadMode::Replicate) => "REPLICATE",
        Some(PadMode::Circular) => "CIRCULAR",
        _ => "ZEROS",
    }
}

/// Returns true if a tensor N×C×D×H×W has adjacent channels, instead of adjacent positions of a row.
pub(super) fn are_channels_last(layout: &Layout) -> bool {
    let len = |axis: usize| layout.shape().get(axis).copied().unwrap_or(1);
    layout.strides().get(1) == Some(&1) && len(1) > 1 && (layout.strides().get(4) != Some(&1) || len(4) == 1)
}

/// Returns true if the channels of a tensor N×C×D×H×W are adjacent and divide into chunks of this length, each of which is
/// aligned to its size.
pub(super) fn are_channels_chunked(tensor: &DeviceTensor<'_>, chunk: usize) -> bool {
    let (dims, by) = (tensor.shape().dims(), tensor.layout().strides());
    let axes = dims.iter().zip(by).enumerate();
    // The stride of an axis of length 1 does not matter.
    let others = axes.filter(|(axis, (len, _))| *axis != 1 && **len != 1).map(|(_, (_, by))| *by as i64);
    let others: SmallVec<[i64; 8]> = others.collect();
    by.get(1) == Some(&1)
        && dims.get(1).is_some_and(|channels| channels.is_multiple_of(chunk))
        && is_chunked(tensor, &others, chunk)
}
