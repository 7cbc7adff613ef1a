//! Weights of convolutions on a device.

use super::prelude::*;
use super::support::{Weights, strides};
use super::windows::with_three_axes;

/// The order of a convolution's weights: O×I×… for each group, or I×O×… if it is transposed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) groups: usize,
    pub(super) transposed: bool,
    /// Whether kernels read the weights of adjacent output channels for a tap, rather than those of an output channel for all
    /// taps.
    pub(super) is_by_tap: bool,
}

impl Order {
    /// Reorders weights of a file for kernels: a row for each output channel, with the taps in order and the input channels of
    /// each tap adjacent; or by tap, with a row for each input channel of a group, and all output channels adjacent.
    ///
    /// # Errors
    /// Returns an error if the weights have too few axes.
    pub(super) fn arrange(self, weight: &Tensor) -> Result<Tensor> {
        let dims = weight.shape().to_vec();
        let [first, second, taps @ ..] = dims.as_slice() else {
            return Err(LayerError::Unsupported(
                "convolution weights must have at least two axes".to_owned(),
            ));
        };
        let groups = self.groups.max(1);
        let channels = if self.transposed { first / groups } else { *second };
        let outputs = if self.transposed { *second } else { first / groups };
        let split = match self.transposed {
            true => [&[groups, channels, outputs], taps].concat(),
            false => [&[groups, outputs, channels], taps].concat(),
        };
        let (output, input) = if self.transposed { (2, 1) } else { (1, 2) };
        let tap_axes = (0..taps.len() as i64).map(|tap| 3 + tap);
        let (axes, rows): (Vec<i64>, Vec<usize>) = match self.is_by_tap {
            true => {
                (tap_axes.chain([input, 0, output]).collect(), [taps, &[channels, groups * outputs]].concat())
            }
            false => (
                [0, output].into_iter().chain(tap_axes).chain([input]).collect(),
                [&[groups * outputs], taps, &[channels]].concat(),
            ),
        };
        Ok(weight.reshape(&split)?.permute(&axes)?.contiguous()?.reshape(&rows)?)
    }
}

/// The weights in memory, as kernels read them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filter<'a> {
    pub(super) tensor: DeviceTensor<'a>,
    /// The strides of output channels, input channels and taps.
    pub(super) strides: KernelStrides,
    /// The distance between adjacent groups.
    pub(super) group: i64,
    /// Whether they have a row for each output channel, as in [`Order::arrange`].
    pub(super) is_matrix: bool,
}

impl<'a> Filter<'a> {
    /// The next of a layer's weights, for windows over `axes` axes.
    ///
    /// # Errors
    /// Returns an error if the weights are missing.
    pub(super) fn of(
        weight: &Weight,
        (order, axes): (Order, usize),
        weights: &mut Weights,
        io: &CudaIo<'a, '_>,
    ) -> Result<Self> {
        let tensor = weights.must(weight, io)?;
        let groups = order.groups.max(1) as i64;
        let len = |axis: usize| tensor.shape().get(axis).copied().unwrap_or(1) as i64;
        let mut by = KernelStrides::default();
        if let Weight::Attribute(_) = weight {
            let found = tensor.layout().strides();
            let stride = |axis: usize| found.get(axis).map_or(0, |stride| *stride as i64);
            let (output, input, first_tap) =
                if order.is_by_tap { (axes + 1, axes, 0) } else { (0, axes + 1, 1) };
            (by.by[0], by.by[1]) = (stride(output), stride(input));
            for axis in 0..axes {
                by.by[5 - axes + axis] = stride(first_tap + axis);
            }
            let group = len(output) / groups * by.by[0];
            return Ok(Self { tensor, strides: by, group, is_matrix: !order.is_by_tap });
        }
        by = strides(with_three_axes(&tensor, axes, 2)?.layout());
        let group = len(0) / groups * by.by[0];
        if order.transposed {
            by.by.swap(0, 1);
        }
        Ok(Self { tensor, strides: by, group, is_matrix: false })
    }
}
