//! Algorithms for convolutions of blocked channels, and the speedup of each.

use crate::op::Tactic;
use crate::support::packed::BF16;
use ixion_kernels::blocked::{BlockedShape, Blocking, DenseMethod, Tile};
use ixion_kernels::gain_of_pairs;
use ixion_kernels::packed::Packing;

/// An algorithm for a convolution of blocked channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ConvAlgorithm {
    /// Direct convolution.
    #[default]
    Direct,
    /// Direct convolution with factors rounded to `bf16`.
    Bf16,
    /// Winograd's algorithm with tiles of this size.
    Winograd(Tile),
}

impl ConvAlgorithm {
    /// The tactic that selects this algorithm.
    pub(super) fn tactic(self) -> Tactic {
        let winograd = |tile: Tile, name| Tactic { id: tile.side() as u32, name };
        match self {
            Self::Direct => Tactic::DEFAULT,
            Self::Bf16 => BF16,
            Self::Winograd(tile @ Tile::Two) => winograd(tile, "winograd-2x2"),
            Self::Winograd(tile @ Tile::Four) => winograd(tile, "winograd-4x4"),
            Self::Winograd(tile @ Tile::Six) => winograd(tile, "winograd-6x6"),
        }
    }

    /// The method of the dense kernel, for algorithms without Winograd's transforms.
    pub(super) fn dense(self, blocking: Blocking) -> DenseMethod {
        let packing = if self == Self::Bf16 { Packing::Bf16Pairs } else { Packing::F32 };
        DenseMethod { blocking, packing }
    }

    /// The mean rounding error in multiples of that of direct convolution, for activations that are not negative. It hardly
    /// depends on the number of channels. `bf16` counts as a precision, not as an error.
    pub(super) fn rounding(self) -> f64 {
        match self {
            Self::Direct | Self::Bf16 => 1.0,
            Self::Winograd(Tile::Two) => 1.4,
            Self::Winograd(Tile::Four) => 2.4,
            Self::Winograd(Tile::Six) => 10.0,
        }
    }

    /// The speedup over direct convolution for a shape, with `block` channels per block.
    pub(super) fn gain(self, shape: &BlockedShape, block: usize) -> f64 {
        match self {
            Self::Direct => 1.0,
            Self::Bf16 => {
                let numbers = |lens: [usize; 2], channels: usize| product(lens) * channels as f64;
                let taps = (shape.taps() * shape.channels / shape.groups.max(1)) as f64;
                let products = taps * numbers(shape.outputs(), shape.out_channels);
                gain_of_pairs(products / numbers(shape.lens, shape.channels).max(1.0))
            }
            Self::Winograd(tile) => winograd_gain(shape, tile, block),
        }
    }
}

/// Costs of Winograd's algorithm, in units of one multiplication of direct convolution.
struct Costs {
    /// One multiplication of transformed values.
    product: f64,
    /// The transforms of one tile of one channel.
    transform: f64,
}

/// The cost of reading one weight when the weights take more than [`L2_BYTES`], so that they do not stay in the L2 cache.
const WEIGHT_READ_COST: f64 = 12.0;
const L2_BYTES: usize = 1 << 20;

/// As measured on AVX-512, except that 6×6 tiles count 7 % more: even where they are allowed, they must be worth their
/// rounding.
fn costs(tile: Tile) -> Costs {
    let (product, transform) = match tile {
        Tile::Two => (1.07, 116.0),
        Tile::Four => (1.21, 320.0),
        Tile::Six => (1.29, 774.0),
    };
    Costs { product, transform }
}

fn product(numbers: [usize; 2]) -> f64 {
    numbers[0] as f64 * numbers[1] as f64
}

/// The cost of reading `weights` weights.
fn weight_reads(weights: f64) -> f64 {
    if weights * size_of::<f32>() as f64 > L2_BYTES as f64 { WEIGHT_READ_COST * weights } else { 0.0 }
}

/// The speedup of Winograd's algorithm over direct convolution.
fn winograd_gain(shape: &BlockedShape, tile: Tile, block: usize) -> f64 {
    let outputs = shape.outputs();
    let tiles = product(outputs.map(|len| len.div_ceil(tile.side())));
    let pairs = product([shape.channels, shape.out_channels]);
    let channels =
        [shape.channels, shape.out_channels].map(|channels| channels.next_multiple_of(block) as f64);
    let (numbers, costs) = (product([tile.side() + 2; 2]), costs(tile));
    let direct = 9.0 * pairs * product(outputs) + weight_reads(9.0 * pairs);
    let in_tiles = tiles * (numbers * pairs * costs.product + (channels[0] + channels[1]) * costs.transform);
    direct.max(1.0) / (in_tiles + weight_reads(numbers * pairs)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_kernels::window::Window;

    #[test]
    fn tiles_are_as_large_as_pays() {
        let best = |channels: usize, len: usize| {
            let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
            let (lens, windows) = ([len; 2], [window; 2]);
            let shape = BlockedShape { channels, out_channels: channels, groups: 1, lens, windows };
            let gains = Tile::ALL.map(|tile| (winograd_gain(&shape, tile, 16), tile));
            gains.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
        };
        for (channels, len, tile, least) in [
            (32, 160, Tile::Six, 2.2),
            (64, 56, Tile::Four, 2.5),
            (128, 28, Tile::Four, 2.4),
            (256, 14, Tile::Two, 1.6),
            (512, 7, Tile::Two, 1.0),
        ] {
            let (gain, found) = best(channels, len);
            assert!(found == tile && gain > least, "{channels} channels of {len}×{len}: {found:?}, {gain}");
        }
        assert!(best(512, 2).0 < 1.0);
    }
}
