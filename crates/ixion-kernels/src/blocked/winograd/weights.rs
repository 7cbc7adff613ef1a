//! Weights transformed for Winograd's algorithm.

use super::super::BlockedShape;
use super::Tile;
use super::transform::points;
use crate::isa::{Isa, isa_for};
use crate::packed::{Packing, Panels};
use crate::parallel::for_each_chunk;
use crate::widest;
use ixion_tensor::{Result, Tensor};

/// The number of output channels whose weights are transformed together, in whole panels: few enough that their copies stay
/// in the second-level cache, and add little to the memory that building a model needs.
const STRIP: usize = 64;

/// Transformed weights, packed in the order in which they are multiplied. They do not depend on the size of the planes.
#[derive(Debug)]
pub struct WinogradWeights {
    pub(super) tile: Tile,
    /// The panels of each value of a transformed tile, and then panels that hold no weights but the biases.
    panels: Vec<Panels>,
}

impl WinogradWeights {
    /// Transforms and packs weights O×C×3×3 and, if given, one bias per output channel. Returns `None` if there are no
    /// kernels for blocks of `block` channels.
    ///
    /// # Panics
    /// Panics if there are fewer weights or biases than the shape requires.
    pub fn new(
        shape: &BlockedShape,
        (weight, bias): (&[f32], Option<&[f32]>),
        (tile, block): (Tile, usize),
    ) -> Option<Self> {
        Some(Self::for_isa(isa_for(block)?, shape, (weight, bias), tile))
    }

    pub(super) fn for_isa(
        isa: Isa,
        shape: &BlockedShape,
        (weight, bias): (&[f32], Option<&[f32]>),
        tile: Tile,
    ) -> Self {
        let (channels, outputs) = (shape.channels, shape.out_channels);
        let weight = weight[..outputs * channels * 9].as_chunks::<9>().0;
        let rows = points(tile.side()).of_weights();
        let mut panels: Vec<Panels> =
            (0..tile.numbers()).map(|_| Panels::zeroed(isa, outputs, channels)).collect();
        for first in (0..outputs).step_by(STRIP) {
            let strip = first..(first + STRIP).min(outputs);
            let weight = &weight[strip.start * channels..strip.end * channels];
            let places = by_place(weight, [channels, strip.len()]);
            let work = |number: usize, panels: &mut [Panels]| -> Result<()> {
                let (row, column) = (rows[number / tile.places()], rows[number % tile.places()]);
                let factors: [f64; 9] = std::array::from_fn(|at| row[at / 3] * column[at % 3]);
                let transformed = widest!(|| transformed(&places, &factors));
                let transformed = |o: usize, c: usize| transformed[c * strip.len() + o - first];
                panels.iter_mut().for_each(|panels| panels.pack(strip.clone(), transformed));
                Ok(())
            };
            // `work` never fails.
            _ = for_each_chunk(&mut panels, 1, &work);
        }
        let bias = |output: usize| bias.map_or(0.0, |bias| bias[output]);
        let biases = Panels::for_isa(isa, outputs, 0, |_, _| 0.0, bias);
        panels.push(biases);
        Self { tile, panels }
    }

    /// Restores transformed weights from the concatenated [elements](Panels::numbers) of all
    /// [panels](WinogradWeights::panels). Returns `None` if their number does not match the shape, or if there are no
    /// kernels.
    pub fn stored(shape: &BlockedShape, numbers: &Tensor, (tile, block): (Tile, usize)) -> Option<Self> {
        let (isa, outputs, mut end) = (isa_for(block)?, shape.out_channels, 0usize);
        let depths = std::iter::repeat_n(shape.channels, tile.numbers()).chain([0]);
        let panels = depths.map(|depth| {
            let (first, len) = (end, Panels::len(isa, outputs, depth));
            end = first.checked_add(len)?;
            Panels::stored((isa, Packing::F32), outputs, depth, numbers.narrow(0, first, len).ok()?)
        });
        let panels = panels.collect::<Option<_>>()?;
        (numbers.num_elements() == end).then_some(Self { tile, panels })
    }

    /// The panels of all values of a transformed tile, and those of the biases.
    pub fn panels(&self) -> &[Panels] {
        &self.panels
    }

    /// The panels that value `number` of a transformed tile is multiplied with.
    pub(super) fn of_number(&self, number: usize) -> &Panels {
        &self.panels[number]
    }

    /// Returns true if these are weights for this number of channels and output channels, in blocks of `lanes`.
    pub(super) fn is_of(&self, channels: usize, outputs: usize, lanes: usize) -> bool {
        let [weights @ .., biases] = &self.panels[..] else { return false };
        let has_lanes = |panels: &Panels| panels.outputs() == outputs && panels.lanes() == lanes;
        weights.len() == self.tile.numbers()
            && weights.iter().all(|panels| panels.depth() == channels && has_lanes(panels))
            && has_lanes(biases)
    }

    /// The biases of a block of output channels.
    pub(super) fn biases(&self, plane: usize) -> &[f32] {
        self.panels.last().map_or(&[], |biases| biases.biases(plane..plane + 1))
    }
}

/// The weights of each tap, with those of all outputs of a channel adjacent.
fn by_place(weight: &[[f32; 9]], [channels, outputs]: [usize; 2]) -> [Vec<f32>; 9] {
    /// Weights per cache line.
    const LINE: usize = 16;
    let mut places: [Vec<f32>; 9] = std::array::from_fn(|_| vec![0.0; channels * outputs]);
    for first in (0..outputs).step_by(LINE) {
        let end = (first + LINE).min(outputs);
        for c in 0..channels {
            for (place, weights) in places.iter_mut().enumerate() {
                let line = weights[c * outputs..][first..end].iter_mut().enumerate();
                line.for_each(|(o, x)| *x = weight[(first + o) * channels + c][place]);
            }
        }
    }
    places
}

/// The sums of the weights of all taps, times their factors.
#[inline(always)]
fn transformed(places: &[Vec<f32>; 9], factors: &[f64; 9]) -> Vec<f32> {
    let len = places[0].len();
    let places = places.each_ref().map(|weights| &weights[..len]);
    let mut sums = vec![0.0; len];
    for (at, sum) in sums.iter_mut().enumerate() {
        let mut exact = 0.0;
        for place in 0..9 {
            exact += f64::from(places[place][at]) * factors[place];
        }
        *sum = exact as f32;
    }
    sums
}
