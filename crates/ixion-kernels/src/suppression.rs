//! Non-maximum suppression: of boxes that overlap, only the best one is kept.
//!
//! The boxes that were kept are stored by coordinate and compared with the next one in blocks, without branches, so that the
//! comparison is vectorised.

use super::Float;
use crate::widest;
use ixion_tensor::{LimitError, Limits};

/// The number of boxes that are compared between two decisions whether to go on.
const BLOCK: usize = 64;

/// The positions of the boxes that are kept, among those of `order`, which lists the best box first. A box is kept unless its
/// intersection over union with a better one that was kept is larger than `overlap`, until `most` boxes were kept. Boxes are
/// left, top, right and bottom. A quotient that is NaN, such as that of two empty boxes, is not larger than anything.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if a position is not that of a box.
pub fn suppress<T: Float>(
    boxes: &[[T; 4]],
    order: &[usize],
    most: usize,
    overlap: f64,
    limits: &Limits,
) -> Result<Vec<usize>, LimitError> {
    let (mut kept, mut positions) = (Kept::new(overlap), Vec::new());
    for &position in order {
        if positions.len() >= most {
            break;
        }
        limits.check_deadline()?;
        let place = boxes[position];
        if !widest!(|| kept.overlap(place)) {
            kept.push(place);
            positions.push(position);
        }
    }
    Ok(positions)
}

/// The boxes that were kept.
struct Kept<T> {
    /// The coordinates: left, top, right and bottom.
    edges: [Vec<T>; 4],
    areas: Vec<T>,
    /// The largest overlap that is allowed, rounded to the type of the coordinates.
    most: T,
    /// Whether rounding increased it, so that boxes must not even overlap that much.
    was_rounded_up: bool,
}

impl<T: Float> Kept<T> {
    fn new(overlap: f64) -> Self {
        let most = T::of(overlap);
        let was_rounded_up = most.to_f64().is_some_and(|most| most > overlap);
        Self { edges: [const { Vec::new() }; 4], areas: Vec::new(), most, was_rounded_up }
    }

    fn push(&mut self, place: [T; 4]) {
        self.edges.iter_mut().zip(place).for_each(|(edges, edge)| edges.push(edge));
        self.areas.push(area(place));
    }

    /// Returns true if the box overlaps one that was kept too much.
    #[inline(always)]
    fn overlap(&self, place: [T; 4]) -> bool {
        let [lefts, tops, rights, bottoms] = self.edges.each_ref().map(|edges| edges.chunks(BLOCK));
        let blocks = lefts.zip(tops).zip(rights).zip(bottoms).zip(self.areas.chunks(BLOCK));
        let own = area(place);
        for ((((lefts, tops), rights), bottoms), areas) in blocks {
            let kept = lefts.iter().zip(tops).zip(rights).zip(bottoms).zip(areas);
            let mut is_any = false;
            for ((((&left, &top), &right), &bottom), &area) in kept {
                let quotient = shared_part(([left, top, right, bottom], area), (place, own));
                is_any |= (quotient > self.most) | (self.was_rounded_up & (quotient == self.most));
            }
            if is_any {
                return true;
            }
        }
        false
    }
}

#[inline(always)]
fn area<T: Float>([left, top, right, bottom]: [T; 4]) -> T {
    (right - left) * (bottom - top)
}

/// Intersection over union of two boxes, each given with its area.
#[inline(always)]
fn shared_part<T: Float>((a, area_of_a): ([T; 4], T), (b, area_of_b): ([T; 4], T)) -> T {
    let width = larger(T::zero(), smaller(a[2], b[2]) - larger(a[0], b[0]));
    let height = larger(T::zero(), smaller(a[3], b[3]) - larger(a[1], b[1]));
    let shared = width * height;
    shared / (area_of_a + area_of_b - shared)
}

/// The larger number; the first one if either is NaN.
#[inline(always)]
fn larger<T: Float>(a: T, b: T) -> T {
    if a < b { b } else { a }
}

/// The smaller number; the first one if either is NaN.
#[inline(always)]
fn smaller<T: Float>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By definition: every box is compared with all that were kept.
    fn by_definition(boxes: &[[f32; 4]], order: &[usize], overlap: f64) -> Vec<usize> {
        let mut kept: Vec<usize> = Vec::new();
        for &position in order {
            let is_free = kept.iter().all(|&better| {
                let quotient = shared_part(
                    (boxes[better], area(boxes[better])),
                    (boxes[position], area(boxes[position])),
                );
                let is_larger = f64::from(quotient) > overlap;
                !is_larger
            });
            if is_free {
                kept.push(position);
            }
        }
        kept
    }

    fn edge() -> impl Strategy<Value = f32> {
        prop_oneof![
            12 => (0i32..24).prop_map(|edge| edge as f32 / 2.0),
            4 => -3.0f32..12.0,
            1 => Just(f32::NAN),
            1 => Just(f32::INFINITY),
        ]
    }

    proptest! {
        #[test]
        fn boxes_are_kept_by_definition(
            boxes in proptest::collection::vec([edge(), edge(), edge(), edge()], 0..200),
            overlap in prop_oneof![Just(0.0), Just(0.1), Just(0.5), Just(-0.1), Just(f64::NAN), 0.0..1.0],
        ) {
            let order: Vec<usize> = (0..boxes.len()).rev().collect();
            let want = by_definition(&boxes, &order, overlap);
            let got = suppress(&boxes, &order, usize::MAX, overlap, &Limits::default()).unwrap();
            prop_assert_eq!(&got, &want);
            let two = suppress(&boxes, &order, 2, overlap, &Limits::default()).unwrap();
            prop_assert_eq!(&two[..], &want[..want.len().min(2)]);
        }
    }

    #[test]
    fn an_overlap_between_two_floats_counts_exactly() {
        // A third of the second box is in the first one; one third is rounded up as f32.
        let boxes = [[0.0f32, 0.0, 3.0, 1.0], [0.0, 0.0, 1.0, 1.0]];
        let third = f64::from(1.0f32 / 3.0);
        let kept = |overlap: f64| suppress(&boxes, &[0, 1], 2, overlap, &Limits::default()).unwrap().len();
        assert_eq!([kept(1.0 / 3.0), kept(third), kept(third.next_down())], [1, 2, 1]);
    }

    #[test]
    fn the_deadline_is_checked() {
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        let ended = suppress(&[[0.0f32; 4]], &[0], 1, 0.5, &late);
        assert_eq!(ended, Err(LimitError::DeadlineExceeded));
    }
}
