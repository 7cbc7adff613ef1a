//! Convolution of planes whose channels lie in blocks: N, ⌈C/b⌉, H, W, b.
//!
//! The numbers of one block are what a vector register holds, so that a result is b output channels at once, without
//! gathering columns and without ends of vectors to care for.

mod dense;
mod depthwise;
mod winograd;

use super::window::Window;
pub use dense::{Blocking, DenseConv, DenseMethod, DenseWeights};
pub use depthwise::DepthwiseConv;
pub use winograd::{Tile, WinogradConv, WinogradWeights};

/// The sizes of a convolution over two axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedShape {
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub out_channels: usize,
    /// Groups, each of which sees its own share of the channels.
    pub groups: usize,
    /// Lengths of the input's planes.
    pub lens: [usize; 2],
    /// The window along both axes.
    pub windows: [Window; 2],
}

impl BlockedShape {
    /// Whether each output channel sees the input channel of the same number alone.
    pub fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.channels && self.channels == self.out_channels
    }

    /// Rows and columns of the output.
    pub fn outputs(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.windows[axis].positions(self.lens[axis]))
    }

    /// Lengths of the input's planes with the padding around them.
    pub fn padded_lens(&self) -> [usize; 2] {
        [0, 1].map(|axis| {
            let window = self.windows[axis];
            self.lens[axis].saturating_add(window.pad_before).saturating_add(window.pad_after)
        })
    }

    /// Places of a window.
    pub fn taps(&self) -> usize {
        self.windows[0].kernel * self.windows[1].kernel
    }

    /// Elements of a sample in memory, and of its output, in blocks of so many channels.
    pub fn sample(&self, block: usize) -> [usize; 2] {
        let [rows, columns] = self.outputs();
        // No slice is as long as sizes that are too large.
        let numbers = |channels: usize, lens: [usize; 2]| {
            [channels.div_ceil(block), lens[0], lens[1], block].into_iter().fold(1, usize::saturating_mul)
        };
        [numbers(self.channels, self.lens), numbers(self.out_channels, [rows, columns])]
    }
}

#[cfg(test)]
mod tests;
