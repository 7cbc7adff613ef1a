//! What a convolution is given: sizes, weights, a bias and an epilogue.

use crate::Float;
use crate::elementwise::ApplyEpilogue;
use crate::window::Window;
use ixion_tensor::Result;

/// The sizes of a convolution of one sample: C×… → O×….
#[derive(Debug, Clone)]
pub struct ConvShape {
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub out_channels: usize,
    /// The number of groups; both channel counts are multiples of it.
    pub groups: usize,
    /// Lengths of the input's axes after the channels.
    pub lens: Vec<usize>,
    /// The window along each of these axes.
    pub windows: Vec<Window>,
}

impl ConvShape {
    /// Lengths of the output's axes after the channels.
    pub fn outputs(&self) -> Vec<usize> {
        self.windows.iter().zip(&self.lens).map(|(window, &len)| window.positions(len)).collect()
    }

    /// The number of products per output: the row length of the weight matrix of a group.
    pub(super) fn taps(&self) -> usize {
        self.channels / self.groups.max(1) * self.kernel_size()
    }

    fn kernel_size(&self) -> usize {
        self.windows.iter().map(|window| window.kernel).product()
    }

    /// Returns true if a column is just a pixel, so that the input itself is the matrix of columns.
    pub(super) fn is_pointwise(&self) -> bool {
        let pointwise = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
        self.windows.iter().all(|window| Window { dilation: 1, ..*window } == pointwise)
    }

    /// The number of multiply-accumulate operations for one sample.
    pub fn macs(&self) -> u64 {
        let positions = self.outputs().iter().fold(1u64, |product, &len| product.saturating_mul(len as u64));
        positions.saturating_mul(self.out_channels as u64).saturating_mul(self.taps() as u64)
    }
}

/// The weights, the bias and the epilogue of a convolution.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a, T> {
    /// O×(C/groups)×….
    pub weight: &'a [T],
    /// One value per output channel, added to the sums.
    pub bias: Option<&'a [T]>,
    /// The epilogue that is applied to outputs while they are in the cache, and the position of the sample's first output
    /// in the whole output.
    pub epilogue: Option<(&'a dyn ApplyEpilogue<T>, usize)>,
}

impl<T: Float> Factors<'_, T> {
    /// Applies the epilogue to outputs that begin at a position of the sample.
    pub(crate) fn apply_epilogue(&self, position: usize, outputs: &mut [T]) -> Result<()> {
        match self.epilogue {
            Some((epilogue, first)) => epilogue.apply(first + position, outputs),
            None => Ok(()),
        }
    }
}
