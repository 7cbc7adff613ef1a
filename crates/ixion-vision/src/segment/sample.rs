//! Sampling of a grid of scores at the pixels of a picture.

use crate::Frame;
use ndarray::{ArrayView2, ArrayViewMut1};

/// Tolerance that keeps rounding from including a cell of the padding.
const SLACK: f64 = 1e-3;

/// The taps of the picture's pixels along one axis; `None` for pixels outside the grid.
pub(super) struct Axis {
    pub(super) taps: Vec<Option<Tap>>,
}

/// The two cells that a pixel is interpolated from, and the cell that contains it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tap {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) nearest: usize,
    weight: f32,
}

impl Tap {
    /// Interpolates between the values of the first and the second cell.
    pub(super) fn between(&self, first: f32, second: f32) -> f32 {
        // A weight of 0 must not spread an infinity or NaN.
        if self.weight == 0.0 { first } else { first * (1.0 - self.weight) + second * self.weight }
    }

    /// Interpolates the line of cells at a row of pixels.
    pub(super) fn line(&self, plane: ArrayView2<'_, f32>, line: &mut [f32]) {
        let pairs = plane.row(self.first).into_iter().zip(plane.row(self.second));
        line.iter_mut().zip(pairs).for_each(|(to, (&first, &second))| *to = self.between(first, second));
    }
}

impl Axis {
    /// Rows (0) or columns (1) of a frame over `cells` cells, which cover the model's input.
    pub(super) fn new(frame: &Frame, axis: usize, cells: usize) -> Self {
        let pixels = frame.picture[axis];
        let scale = f64::from(frame.placement.scale[axis]);
        let offset = f64::from(frame.placement.offset[axis]);
        let by_input = cells as f64 / frame.input[axis].max(1) as f64;
        let place = |pixel: f64| (pixel * scale + offset) * by_input;
        // The range of cells that the picture covers; the others are padding. Casts saturate.
        let last = cells.saturating_sub(1);
        let lowest = ((place(0.0) + SLACK).floor().max(0.0) as usize).min(last);
        let highest = ((place(pixels as f64) - SLACK).ceil().max(1.0) as usize - 1).clamp(lowest, last);
        let tap = |pixel: usize| {
            let place = place(pixel as f64 + 0.5);
            if !(place > -SLACK && place < cells as f64 + SLACK) {
                return None;
            }
            let centre = (place - 0.5).clamp(lowest as f64, highest as f64);
            let first = (centre as usize).min(highest);
            Some(Tap {
                first,
                second: (first + 1).min(highest),
                nearest: (place.max(0.0) as usize).clamp(lowest, highest),
                weight: (centre - first as f64) as f32,
            })
        };
        Self { taps: (0..pixels).map(tap).collect() }
    }

    /// Interpolates the values of pixels along a line of cells; NaN for pixels outside it.
    pub(super) fn sample(&self, cells: &[f32], mut pixels: ArrayViewMut1<'_, f32>) {
        let at = |index: usize| cells.get(index).copied().unwrap_or(f32::NAN);
        for (pixel, tap) in pixels.iter_mut().zip(&self.taps) {
            *pixel = tap.map_or(f32::NAN, |tap| tap.between(at(tap.first), at(tap.second)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Placement;

    #[test]
    fn padding_is_not_read() {
        // 4 pixels, enlarged to 8, with 4 pixels of padding on each side in an input of 16; a cell covers two pixels of the
        // input.
        let placement = Placement { scale: [2.0; 2], offset: [4.0; 2] };
        let frame = Frame { picture: [4, 4], input: [16, 16], placement };
        let axis = Axis::new(&frame, 0, 8);
        let places: Vec<(usize, usize, usize)> =
            axis.taps.iter().flatten().map(|tap| (tap.first, tap.second, tap.nearest)).collect();
        assert_eq!(places, [(2, 3, 2), (3, 4, 3), (4, 5, 4), (5, 5, 5)]);
        // Half as many cells: the picture's edges are between cells' centres and are not extrapolated.
        let coarse: Vec<f32> = Axis::new(&frame, 0, 4).taps.iter().flatten().map(|tap| tap.weight).collect();
        assert_eq!(coarse, [0.0, 0.25, 0.75, 0.0]);
    }

    #[test]
    fn cropped_pixels_have_no_tap() {
        let placement = Placement { scale: [1.0; 2], offset: [-2.0; 2] };
        let frame = Frame { picture: [6, 6], input: [3, 3], placement };
        let seen: Vec<bool> = Axis::new(&frame, 1, 3).taps.iter().map(Option::is_some).collect();
        assert_eq!(seen, [false, false, true, true, true, false]);
    }
}
