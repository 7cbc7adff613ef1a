//! The parameters and tensors of convolutions and transposed ones, for kernels and libraries.

use super::filter::Filter;
use super::prelude::*;
use super::product_tactic::ProductTactic;
use super::windows::lengths;
use crate::kernels::naive::PadMode;
use crate::kernels::window::Window;

/// The parameters of a convolution.
pub(super) struct ConvParams<'a> {
    pub(super) windows: &'a [Window],
    pub(super) groups: usize,
    pub(super) mode: Option<PadMode>,
    pub(super) transposed: bool,
    pub(super) tactic: ProductTactic,
}

/// The tensors of a convolution, with three axes after the channels.
pub(super) struct Operands<'a> {
    pub(super) x: DeviceTensor<'a>,
    pub(super) y: DeviceTensor<'a>,
    pub(super) filter: Filter<'a>,
    pub(super) bias: Option<DeviceTensor<'a>>,
    /// For quantised convolutions: the scale of the sums for each channel, and the scale of the output.
    pub(super) int8_scales: Option<(DeviceTensor<'a>, f32)>,
}

/// The lengths of a convolution, and the amount of work.
pub(super) struct ConvSizes {
    pub(super) out: KernelShape,
    /// The number of output positions.
    pub(super) count: usize,
    /// The number of input and output channels of a group.
    pub(super) channels: usize,
    pub(super) out_channels: usize,
    /// The number of taps of a window.
    pub(super) taps: usize,
}

impl ConvSizes {
    pub(super) fn of(params: &ConvParams<'_>, operands: &Operands<'_>) -> Result<Self> {
        let of_group = |tensor: &DeviceTensor<'_>| {
            tensor.shape().get(1).copied().unwrap_or(1).checked_div(params.groups).unwrap_or(0)
        };
        let out = lengths(&operands.y, &[0, 2, 3, 4])?;
        let count = out.dims.iter().take(4).map(|&len| len as usize).product();
        let (channels, out_channels) = (of_group(&operands.x), of_group(&operands.y));
        let taps = params.windows.iter().map(|window| window.kernel).product();
        Ok(Self { out, count, channels, out_channels, taps })
    }
}
