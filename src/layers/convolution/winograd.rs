//! Winograd's method as a way of computing a convolution: where there is one, and what it gains.

use super::super::padding::PaddingMode;
use super::Conv;
use crate::graph::{LayerError, Tactic, Weight};
use crate::kernels::blocked::{BlockedShape, Tile};
use crate::tensor::DType;

/// What the steps of a method take, in the time of one multiplication by the definition.
struct Costs {
    /// One of its own multiplications.
    product: f64,
    /// A tile of a channel, as it is transformed.
    transform: f64,
}

/// Reading one weight, where there are so many bytes of them that they don't stay in the second-level cache.
const WEIGHT: f64 = 12.0;
const CACHED: usize = 1 << 20;

/// As measured on AVX-512, but that tiles of 6×6, which round the most, seem dearer by 7 %: they are to gain something by it.
fn costs(tile: Tile) -> Costs {
    let (product, transform) = match tile {
        Tile::Two => (1.07, 116.0),
        Tile::Four => (1.21, 320.0),
        Tile::Six => (1.29, 774.0),
    };
    Costs { product, transform }
}

/// The time of reading weights.
fn of_reading(weights: f64) -> f64 {
    if weights * size_of::<f32>() as f64 > CACHED as f64 { WEIGHT * weights } else { 0.0 }
}

/// How many times as fast as the definition the method is for a shape, with so many channels in a block.
pub(super) fn gain(shape: &BlockedShape, tile: Tile, block: usize) -> f64 {
    let product = |numbers: [usize; 2]| numbers[0] as f64 * numbers[1] as f64;
    let outputs = shape.outputs();
    let tiles = product(outputs.map(|len| len.div_ceil(tile.side())));
    let pairs = product([shape.channels, shape.out_channels]);
    let channels =
        [shape.channels, shape.out_channels].map(|channels| channels.next_multiple_of(block) as f64);
    let (numbers, costs) = (product([tile.side() + 2; 2]), costs(tile));
    let by_definition = 9.0 * pairs * product(outputs) + of_reading(9.0 * pairs);
    let in_tiles = tiles * (numbers * pairs * costs.product + (channels[0] + channels[1]) * costs.transform);
    by_definition.max(1.0) / (in_tiles + of_reading(numbers * pairs)).max(1.0)
}

impl Conv {
    /// The tiles in which Winograd's method may compute it, as far as the parameters tell: with windows of 3×3 places that
    /// follow each other, over all channels.
    pub(super) fn tiles(&self) -> Vec<Tile> {
        let (Weight::Attribute(weight), None | Some(Weight::Attribute(_))) = (&self.weight, &self.bias)
        else {
            return Vec::new();
        };
        let is_all_ones = |values: &[usize]| values.iter().all(|&value| value == 1);
        let suits = matches!(weight.shape(), [_, _, 3, 3])
            && weight.dtype() == DType::F32
            && self.groups == 1
            && self.padding_mode == PaddingMode::Zeros
            && is_all_ones(self.stride.values())
            && is_all_ones(self.dilation.values());
        if suits { Tile::ALL.to_vec() } else { Vec::new() }
    }

    /// The definition, and Winograd's method.
    pub(super) fn methods(&self) -> Vec<Tactic> {
        let tactic = |tile: Tile| {
            let name = match tile {
                Tile::Two => "winograd-2x2",
                Tile::Four => "winograd-4x4",
                Tile::Six => "winograd-6x6",
            };
            Tactic { id: tile.side() as u32, name }
        };
        [Tactic::DEFAULT].into_iter().chain(self.tiles().into_iter().map(tactic)).collect()
    }

    /// Settles one of them.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for a number that is not among them.
    pub(super) fn settle_method(&mut self, id: u32) -> Result<(), LayerError> {
        let tile = self.tiles().into_iter().find(|tile| tile.side() as u32 == id);
        if tile.is_none() && id != Tactic::DEFAULT.id {
            return Err(LayerError::Unsupported(format!("there is no tactic {id}")));
        }
        self.settle_tile(tile);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::window::Window;

    #[test]
    fn tiles_are_as_large_as_pays() {
        let best = |channels: usize, len: usize| {
            let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
            let (lens, windows) = ([len; 2], [window; 2]);
            let shape = BlockedShape { channels, out_channels: channels, groups: 1, lens, windows };
            let gains = Tile::ALL.map(|tile| (gain(&shape, tile, 16), tile));
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
