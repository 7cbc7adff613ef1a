//! The vertical positions of the layers and of the gaps between them.

use super::mesh::Mesh;
use super::routes::{Leg, Route};

/// The height of a gap between layers if no arrow in it bends.
const GAP: f64 = 52.0;
/// The additional height of a gap for each pixel of the largest horizontal shift in it.
const GAP_PER_SHIFT: f64 = 0.07;
/// The maximum additional height of a gap.
const MAX_EXTRA_GAP: f64 = 70.0;
/// The straight part of an arrow below its first card.
const STEM: f64 = 4.0;
/// The straight part of an arrow above its last card, including the arrowhead.
const HEAD: f64 = 12.0;

/// The vertical positions of the layers and of the gaps between them.
#[derive(Debug, Clone)]
pub(super) struct Bands {
    /// The top and bottom of each layer.
    layers: Vec<(f64, f64)>,
}

impl Bands {
    /// Stacks the layers, given the height of each node's card.
    pub(super) fn new(mesh: &Mesh, card_heights: &[f64], routes: &[Route]) -> Bands {
        let mut heights = vec![0.0_f64; mesh.layers.len()];
        for (node, card_height) in card_heights.iter().enumerate() {
            let height = &mut heights[mesh.layer_of[node]];
            *height = height.max(*card_height);
        }
        let mut shifts = vec![0.0_f64; mesh.layers.len()];
        for leg in routes.iter().flat_map(|route| &route.legs) {
            shifts[leg.gap] = shifts[leg.gap].max((leg.top - leg.bottom).abs());
        }
        let mut y = 0.0;
        let place = |(height, shift): (f64, f64)| {
            let band = (y, y + height);
            y = band.1 + GAP + (shift * GAP_PER_SHIFT).min(MAX_EXTRA_GAP).round();
            band
        };
        Bands { layers: heights.into_iter().zip(shifts).map(place).collect() }
    }

    /// The top and bottom of a layer.
    pub(super) fn layer(&self, layer: usize) -> (f64, f64) {
        self.layers.get(layer).copied().unwrap_or_default()
    }

    /// The bottom of the last layer.
    pub(super) fn bottom(&self) -> f64 {
        self.layers.last().map_or(0.0, |band| band.1)
    }

    /// The number of gaps, including the empty one below the last layer.
    pub(super) fn gaps(&self) -> usize {
        self.layers.len()
    }

    /// The top and bottom of the part of a gap in which arrows bend.
    pub(super) fn gap(&self, gap: usize) -> (f64, f64) {
        (self.layer(gap).1 + STEM, self.layer(gap + 1).0 - HEAD)
    }

    /// The horizontal position of a leg at `y`.
    pub(super) fn x_at(&self, leg: &Leg, y: f64) -> f64 {
        let (top, bottom) = self.gap(leg.gap);
        let wanted = ((y - top) / (bottom - top)).clamp(0.0, 1.0);
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..16 {
            let t = (low + high) / 2.0;
            // The height of a cubic with control points at 0, 1/2, 1/2 and 1.
            let height = t * (1.5 - t * (1.5 - t));
            if height < wanted { low = t } else { high = t }
        }
        let t = (low + high) / 2.0;
        leg.top + (leg.bottom - leg.top) * t * t * (3.0 - 2.0 * t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_on_a_leg_moves_from_its_top_to_its_bottom() {
        let bands = Bands { layers: vec![(0.0, 40.0), (100.0, 140.0)] };
        let leg = Leg { gap: 0, top: 10.0, bottom: 90.0 };
        let (top, bottom) = bands.gap(0);
        assert!(
            (bands.x_at(&leg, top) - 10.0).abs() < 1e-3 && (bands.x_at(&leg, bottom) - 90.0).abs() < 1e-3
        );
        assert!((bands.x_at(&leg, (top + bottom) / 2.0) - 50.0).abs() < 1e-2);
    }
}
