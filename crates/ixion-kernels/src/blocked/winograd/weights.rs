//! Weights as Winograd's method multiplies them.

use super::super::BlockedShape;
use super::Tile;
use super::points::points;
use crate::isa::{Isa, isa_for};
use crate::packed::{Panels, Words};
use crate::parallel::for_each_chunk;
use crate::widest;
use ixion_tensor::{Result, Tensor};

/// Transformed weights, in the order in which they are multiplied. They are the same for all sizes of planes.
#[derive(Debug)]
pub struct WinogradWeights {
    pub(super) tile: Tile,
    /// For each number of a transformed tile, and then, without any weights, those of the biases.
    panels: Vec<Panels>,
}

impl WinogradWeights {
    /// Transforms weights O×C×3×3, and orders as many biases as output channels or none. None where there are no kernels for
    /// blocks of so many channels.
    ///
    /// # Panics
    /// When there are fewer weights or biases than the shape says.
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
        let places = by_place(weight, [channels, outputs]);
        let rows = points(tile.side()).of_weights();
        let mut panels: Vec<Option<Panels>> = (0..tile.numbers()).map(|_| None).collect();
        let work = |number: usize, panels: &mut [Option<Panels>]| -> Result<()> {
            let (row, column) = (rows[number / tile.places()], rows[number % tile.places()]);
            let factors: [f64; 9] = std::array::from_fn(|at| row[at / 3] * column[at % 3]);
            let transformed = widest(|| transformed(&places, &factors));
            let transformed = |o: usize, c: usize| transformed[c * outputs + o];
            panels.fill_with(|| Some(Panels::for_isa(isa, outputs, channels, transformed, |_| 0.0)));
            Ok(())
        };
        // Nothing of it fails.
        _ = for_each_chunk(&mut panels, 1, &work);
        let bias = |output: usize| bias.map_or(0.0, |bias| bias[output]);
        let biases = Panels::for_isa(isa, outputs, 0, |_, _| 0.0, bias);
        Self { tile, panels: panels.into_iter().flatten().chain([biases]).collect() }
    }

    /// Transformed weights that were stored: the [numbers](Panels::numbers) of all [panels](WinogradWeights::panels), one
    /// behind the other. None where there are more or fewer than the shape says, or no kernels.
    pub fn stored(shape: &BlockedShape, numbers: &Tensor, (tile, block): (Tile, usize)) -> Option<Self> {
        let (isa, outputs, mut end) = (isa_for(block)?, shape.out_channels, 0usize);
        let depths = std::iter::repeat_n(shape.channels, tile.numbers()).chain([0]);
        let panels = depths.map(|depth| {
            let (first, len) = (end, Panels::len(isa, outputs, depth));
            end = first.checked_add(len)?;
            Panels::stored((isa, Words::Singles), outputs, depth, numbers.narrow(0, first, len).ok()?)
        });
        let panels = panels.collect::<Option<_>>()?;
        (numbers.num_elements() == end).then_some(Self { tile, panels })
    }

    /// All panels.
    pub fn panels(&self) -> &[Panels] {
        &self.panels
    }

    /// Those that a number of a transformed tile is multiplied with.
    pub(super) fn of_number(&self, number: usize) -> &Panels {
        &self.panels[number]
    }

    /// Whether they are those of so many channels and output channels.
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

/// The weights of each place of the window, those of all outputs of a channel beside each other.
fn by_place(weight: &[[f32; 9]], [channels, outputs]: [usize; 2]) -> [Vec<f32>; 9] {
    /// So many weights are a line of the cache.
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

/// The sums of what lies at each place of the window, times its factor.
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
