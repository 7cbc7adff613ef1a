//! The ways of computing a convolution whose channels lie in blocks: where there is which, and what it gains.

use super::Conv;
use crate::kernels::blocked::{BlockedShape, Blocking, DenseMethod, Tile};
use crate::kernels::packed::Words;
use crate::kernels::{gain_of_pairs, multiplies_pairs};
use crate::op::{LayerError, Tactic, Weight};
use crate::ops::layout::padding::PaddingMode;
use crate::ops::support::packed::BF16;
use crate::tensor::DType;

/// A way of computing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Method {
    /// As it is defined.
    #[default]
    Definition,
    /// The same, of factors that are rounded to `bf16`.
    Rounded,
    /// Winograd's method, in tiles of this size.
    Winograd(Tile),
}

impl Method {
    /// Its tactic.
    pub(super) fn tactic(self) -> Tactic {
        let winograd = |tile: Tile, name| Tactic { id: tile.side() as u32, name };
        match self {
            Self::Definition => Tactic::DEFAULT,
            Self::Rounded => BF16,
            Self::Winograd(tile @ Tile::Two) => winograd(tile, "winograd-2x2"),
            Self::Winograd(tile @ Tile::Four) => winograd(tile, "winograd-4x4"),
            Self::Winograd(tile @ Tile::Six) => winograd(tile, "winograd-6x6"),
        }
    }

    /// How products compute it, where they do so without Winograd's transformations.
    pub(super) fn dense(self, blocking: Blocking) -> DenseMethod {
        let words = if self == Self::Rounded { Words::Pairs } else { Words::Singles };
        DenseMethod { blocking, words }
    }

    /// How many times as fast as the definition it is for a shape, with so many channels in a block.
    pub(super) fn gain(self, shape: &BlockedShape, block: usize) -> f64 {
        match self {
            Self::Definition => 1.0,
            Self::Rounded => {
                let numbers = |lens: [usize; 2], channels: usize| product(lens) * channels as f64;
                let taps = (shape.taps() * shape.channels / shape.groups.max(1)) as f64;
                let products = taps * numbers(shape.outputs(), shape.out_channels);
                gain_of_pairs(products / numbers(shape.lens, shape.channels).max(1.0))
            }
            Self::Winograd(tile) => winograd_gain(shape, tile, block),
        }
    }
}

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

fn product(numbers: [usize; 2]) -> f64 {
    numbers[0] as f64 * numbers[1] as f64
}

/// The time of reading weights.
fn of_reading(weights: f64) -> f64 {
    if weights * size_of::<f32>() as f64 > CACHED as f64 { WEIGHT * weights } else { 0.0 }
}

/// How many times as fast as the definition Winograd's method is.
fn winograd_gain(shape: &BlockedShape, tile: Tile, block: usize) -> f64 {
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
    fn tiles(&self, weight: &[usize]) -> &'static [Tile] {
        let is_all_ones = |values: &[usize]| values.iter().all(|&value| value == 1);
        let suits = matches!(weight, [_, _, 3, 3])
            && self.groups == 1
            && is_all_ones(self.stride.values())
            && is_all_ones(self.dilation.values());
        if suits { &Tile::ALL } else { &[] }
    }

    /// All that there may be, the definition first.
    pub(super) fn methods(&self) -> Vec<Method> {
        let mut methods = vec![Method::Definition];
        let (Weight::Attribute(weight), None | Some(Weight::Attribute(_))) = (&self.weight, &self.bias)
        else {
            return methods;
        };
        let channels = weight.shape().get(1).copied().unwrap_or(0);
        if weight.dtype() == DType::F32 && self.padding_mode == PaddingMode::Zeros {
            methods.extend(self.tiles(weight.shape()).iter().copied().map(Method::Winograd));
            let are_pairs = weight.shape().len() == 4 && channels.is_multiple_of(2) && channels > 0;
            methods.extend((are_pairs && multiplies_pairs()).then_some(Method::Rounded));
        }
        methods
    }

    /// Whether a method other than the definition can compute it where channels lie so.
    pub(super) fn has_method(&self, blocking: Blocking, method: Method) -> bool {
        let Weight::Attribute(weight) = &self.weight else { return false };
        let [out_channels, per_group, ..] = *weight.shape() else { return false };
        let channels = per_group.saturating_mul(self.groups);
        blocking.is_input_blocked && method.dense(blocking).suits(channels, out_channels, self.groups)
    }

    /// Settles the method of a tactic.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for a number that is not among them.
    pub(super) fn settle_tactic(&mut self, id: u32) -> Result<(), LayerError> {
        let method = self.methods().into_iter().find(|method| method.tactic().id == id);
        let method = method.ok_or_else(|| LayerError::Unsupported(format!("there is no tactic {id}")))?;
        self.settle_method(method);
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
