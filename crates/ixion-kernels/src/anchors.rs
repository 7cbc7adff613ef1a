//! Boxes from the feature maps of a detector with anchors.

use super::Float;
use super::math::sigmoid;
use super::parallel::for_each_item;
use crate::widest;
use ixion_tensor::{LimitError, Limits};

/// What an anchor at one position of a feature map contributes to its box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Anchor {
    /// The offset of the centre in positions of the map: x, then y.
    pub offset: [f64; 2],
    /// The size in pixels: width, then height.
    pub size: [f64; 2],
}

/// The number of positions that are transposed together, so that their rows stay in the cache.
const BLOCK: usize = 32;

/// Turns a feature map of A anchors with M numbers each at P positions, A×M×P, into rows A×P×M: x and y of the centre are
/// (2σ + offset) · `stride`, width and height (2σ)² · size, and all other numbers σ, the sigmoid. There are A×P `anchors`.
/// The map is overwritten.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn decode_anchors<T: Float>(
    map: &mut [T],
    [numbers, positions]: [usize; 2],
    anchors: &[Anchor],
    stride: f64,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let each = (numbers * positions).max(1);
    let (maps, outputs) = (map.chunks_exact_mut(each), output.chunks_exact_mut(each));
    let parts = maps.zip(outputs).zip(anchors.chunks_exact(positions.max(1)));
    for_each_item(parts, &|((map, output), anchors)| {
        limits.check_deadline()?;
        widest!(|| {
            for x in map.iter_mut() {
                *x = sigmoid(*x);
            }
        });
        rows_of(map, [numbers, positions], output);
        let (two, stride) = (T::of(2.0), T::of(stride));
        for (row, anchor) in output.chunks_exact_mut(numbers.max(1)).zip(anchors) {
            let [x, y, width, height, ..] = row else { continue };
            for (centre, offset) in [x, y].into_iter().zip(anchor.offset) {
                *centre = (*centre * two + T::of(offset)) * stride;
            }
            for (side, size) in [width, height].into_iter().zip(anchor.size) {
                *side = (*side * two) * (*side * two) * T::of(size);
            }
        }
        Ok(())
    })
}

/// Turns planes M×P into rows P×M.
pub fn rows_of<T: Copy>(planes: &[T], [numbers, positions]: [usize; 2], rows: &mut [T]) {
    for (block, rows) in rows.chunks_mut((BLOCK * numbers).max(1)).enumerate() {
        for (number, plane) in planes.chunks_exact(positions.max(1)).enumerate() {
            for (row, &x) in rows.chunks_exact_mut(numbers.max(1)).zip(&plane[block * BLOCK..]) {
                row[number] = x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::on_threads;

    #[test]
    fn planes_become_rows() {
        for positions in [1, 5, 31, 32, 33, 70] {
            let planes: Vec<usize> = (0..3 * positions).collect();
            let mut rows = vec![usize::MAX; planes.len()];
            rows_of(&planes, [3, positions], &mut rows);
            for (index, x) in rows.into_iter().enumerate() {
                assert_eq!(x, index % 3 * positions + index / 3, "{positions} positions");
            }
        }
    }

    #[test]
    fn centres_and_sizes() {
        let anchors = [([-0.5, 1.5], [10.0, 20.0]), ([0.0, 0.25], [3.0, 4.0])];
        let anchors = anchors.map(|(offset, size)| Anchor { offset, size });
        // Two anchors, five numbers each, one position. The sigmoid of ln 3 is 0.75.
        let three = 3f64.ln();
        let map = [0.0, three, 0.0, three, three, three, three, -three, 0.0, f64::NAN];
        let (output, pooled) = on_threads(&[3], || {
            let (mut map, mut output) = (map, [7.0; 10]);
            decode_anchors(&mut map, [5, 1], &anchors, 8.0, &mut output, &Limits::default()).unwrap();
            output
        });
        let want = [4.0, 24.0, 10.0, 45.0, 0.75, 12.0, 14.0, 0.75, 4.0, f64::NAN];
        for (got, want) in output.into_iter().zip(want) {
            assert!((got - want).abs() < 1e-12 || (got.is_nan() && want.is_nan()), "{got} for {want}");
        }
        assert_eq!(output.map(f64::to_bits), pooled[0].map(f64::to_bits));
    }
}
