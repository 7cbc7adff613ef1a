//! Convolution in a blocked channel layout: N, ⌈C/b⌉, H, W, b.
//!
//! A block fills one vector register, so that b output channels are computed at a time, without gathering columns and
//! without partial vectors. Except for depthwise ones, convolutions are products with packed weights, whose innermost loop is
//! in [`packed`](super::packed) (`tile.rs`).

mod dense;
mod depthwise;
mod winograd;

use super::window::Window;
pub use dense::{Blocking, DenseConv, DenseMethod, DenseWeights};
pub use depthwise::DepthwiseConv;
pub use winograd::{Tile, WinogradConv, WinogradWeights};

/// The sizes of a two-dimensional convolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedShape {
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub out_channels: usize,
    /// The number of groups, each of which sees its own share of the channels.
    pub groups: usize,
    /// Height and width of the input.
    pub lens: [usize; 2],
    /// The window along both axes.
    pub windows: [Window; 2],
}

impl BlockedShape {
    /// Returns true if each output channel only sees the input channel of the same index.
    pub fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.channels && self.channels == self.out_channels
    }

    /// Height and width of the output.
    pub fn outputs(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.windows[axis].positions(self.lens[axis]))
    }

    /// Height and width of the input with its padding.
    pub fn padded_lens(&self) -> [usize; 2] {
        [0, 1].map(|axis| {
            let window = self.windows[axis];
            self.lens[axis].saturating_add(window.pad_before).saturating_add(window.pad_after)
        })
    }

    /// The number of taps of the window.
    pub fn taps(&self) -> usize {
        self.windows[0].kernel * self.windows[1].kernel
    }

    /// The number of elements that a sample and its output occupy in memory, in blocks of `block` channels.
    pub fn sample(&self, block: usize) -> [usize; 2] {
        let [rows, columns] = self.outputs();
        // Saturates, because no slice is as long as sizes that overflow.
        let numbers = |channels: usize, lens: [usize; 2]| {
            [channels.div_ceil(block), lens[0], lens[1], block].into_iter().fold(1, usize::saturating_mul)
        };
        [numbers(self.channels, self.lens), numbers(self.out_channels, [rows, columns])]
    }
}

#[cfg(test)]
mod tests;
