//! What tiles prefetch for later tiles.

/// The weights that tiles of the same panels prefetch together for the next panels, as many as these panels have.
/// Consecutive tiles prefetch the weights of one panel. If there are as many tiles as panels, together they prefetch as
/// many weights as they read.
pub(super) struct Ahead {
    /// The weights of the panel that is prefetched.
    weights: *const f32,
    lengths: Lengths,
    /// The panels that are left, including this one.
    panels: usize,
    /// The tiles that are left for this panel, and the number of lanes that each prefetches.
    tiles: usize,
    step: usize,
    /// The first lane that is not prefetched yet.
    lane: usize,
    /// The number of tiles for each panel, and for the last one.
    of_each: usize,
    of_last: usize,
}

/// The distance between panels, the number of their lanes, and the depth that tiles compute.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lengths {
    pub(super) panel: usize,
    pub(super) lanes: usize,
    pub(super) depth: usize,
}

impl Ahead {
    /// Prefetches nothing. Any address will do.
    pub(super) fn nothing(address: *const f32) -> Self {
        Self {
            weights: address,
            lengths: Lengths::default(),
            panels: 0,
            tiles: 0,
            step: 0,
            lane: 0,
            of_each: 0,
            of_last: 0,
        }
    }

    /// Prefetches panels, of which there is at least one, by this number of tiles.
    pub(super) fn new(weights: *const f32, lengths: Lengths, panels: usize, tiles: usize) -> Self {
        let of_each = (tiles / panels).max(1);
        let of_last = tiles.saturating_sub((panels - 1) * of_each).max(1);
        let mut ahead = Self { lengths, panels, of_each, of_last, ..Self::nothing(weights) };
        ahead.begin_panel();
        ahead
    }

    fn begin_panel(&mut self) {
        self.tiles = if self.panels == 1 { self.of_last } else { self.of_each };
        self.step = self.lengths.lanes.div_ceil(self.tiles);
        self.lane = 0;
    }

    /// The start of the weights that the next tile prefetches, and the number of elements per step of its depth: none if the
    /// tiles before it have prefetched the whole panel.
    pub(super) fn share(&mut self) -> (*const f32, usize) {
        if self.panels == 0 {
            return (self.weights, 0);
        }
        let Self { weights, lengths: Lengths { panel, lanes, depth }, lane, step, .. } = *self;
        self.lane += step;
        self.tiles -= 1;
        if self.tiles == 0 {
            self.panels -= 1;
            self.weights = weights.wrapping_add(panel);
            self.begin_panel();
        }
        if lane < lanes { (weights.wrapping_add(lane * depth), step) } else { (weights, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tiles_prefetch_all_next_weights_and_no_panel_twice(
            panels in 1usize..9, tiles in 1usize..40, depth in 1usize..20, lanes in prop::sample::select(vec![8usize, 16]),
        ) {
            let weights = vec![0f32; panels * lanes * depth];
            let lengths = Lengths { panel: lanes * depth, lanes, depth };
            let mut ahead = Ahead::new(weights.as_ptr(), lengths, panels, tiles);
            let mut fetched = vec![0; panels];
            for _ in 0..tiles {
                let (from, step) = ahead.share();
                if step == 0 {
                    continue;
                }
                let at = (from as usize - weights.as_ptr() as usize) / size_of::<f32>();
                let panel = at / (lanes * depth);
                // What it prefetches begins where the previous tile ended, or at the beginning of the panel.
                prop_assert_eq!(at % (lanes * depth), fetched[panel]);
                fetched[panel] += step * depth;
            }
            let whole = fetched.iter().filter(|len| **len >= lanes * depth).count();
            prop_assert_eq!(whole, panels.min(tiles));
            prop_assert!(fetched[whole..].iter().all(|len| *len == 0));
            prop_assert_eq!(Ahead::nothing(weights.as_ptr()).share(), (weights.as_ptr(), 0));
        }
    }
}
