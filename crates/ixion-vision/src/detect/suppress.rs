//! Non-maximum suppression.

use super::Detection;

// ANCHOR: suppress
/// The maximum number of boxes considered, best first, as in YOLOv5; it bounds the time for a model with many poor boxes.
const MAX_CANDIDATES: usize = 30_000;

/// Non-maximum suppression per class: the boxes by descending score, without those that overlap a better one of the same
/// class by more than `iou` (intersection over union), and at most `most` of them.
///
/// Equivalent to torchvision's `batched_nms`: equal scores keep their order, and an overlap of exactly `iou` is allowed.
/// Boxes with a NaN score are dropped. Only the 30,000 best are considered.
///
/// ```
/// use ixion_vision::{Detection, Rect, suppress};
/// let found = |score, left| Detection { class: 0, score, rect: Rect::new(left, 0.0, left + 10.0, 10.0) };
/// let kept = suppress(vec![found(0.5, 1.0), found(0.9, 0.0), found(0.4, 20.0)], 0.45, 300);
/// assert_eq!(kept, [found(0.9, 0.0), found(0.4, 20.0)]);
/// ```
pub fn suppress(mut candidates: Vec<Detection>, iou: f32, most: usize) -> Vec<Detection> {
    // ANCHOR: suppress_todo -- task 4: best first, without those that overlap a better one of their class too much
    candidates.retain(|found| !found.score.is_nan());
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    candidates.truncate(MAX_CANDIDATES);
    let mut kept: Vec<Detection> = Vec::new();
    for found in candidates {
        if kept.len() >= most {
            break;
        }
        let is_known = |better: &Detection| better.class == found.class && better.rect.iou(&found.rect) > iou;
        if !kept.iter().any(is_known) {
            kept.push(found);
        }
    }
    kept
    // ANCHOR_END: suppress_todo
}
// ANCHOR_END: suppress

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rect;
    use proptest::prelude::*;

    /// Boxes, scores and classes of 14 objects, drawn with seed 3 in torch 2.15.0; the expected indices are those that
    /// torchvision's algorithm keeps.
    const BOXES: [([i16; 4], f32, usize); 14] = [
        ([0, 1, 3, 4], 0.3, 0),
        ([3, 0, 7, 8], 0.9, 0),
        ([6, 1, 9, 3], 0.7, 1),
        ([9, 9, 12, 13], 0.3, 1),
        ([7, 11, 12, 13], 0.9, 1),
        ([5, 10, 9, 16], 0.5, 0),
        ([2, 5, 9, 10], 0.1, 1),
        ([1, 6, 7, 9], 0.3, 1),
        ([2, 11, 10, 16], 0.1, 1),
        ([10, 10, 13, 15], 0.1, 1),
        ([8, 3, 13, 13], 0.5, 1),
        ([11, 0, 19, 4], 0.1, 1),
        ([2, 2, 7, 12], 0.8, 0),
        ([4, 7, 13, 14], 0.7, 1),
    ];

    fn boxes() -> Vec<Detection> {
        let found = |&(edges, score, class): &([i16; 4], f32, usize)| {
            let [left, top, right, bottom] = edges.map(f32::from);
            Detection { class, score, rect: Rect::new(left, top, right, bottom) }
        };
        BOXES.iter().map(found).collect()
    }

    #[test]
    fn matches_torchvision() {
        let all = boxes();
        let places = |kept: Vec<Detection>| -> Vec<usize> {
            kept.iter().map(|kept| all.iter().position(|found| found == kept).unwrap()).collect()
        };
        assert_eq!(places(suppress(boxes(), 0.2, 300)), [1, 4, 2, 13, 5, 0, 7, 9, 11]);
        assert_eq!(places(suppress(boxes(), 0.45, 300)), [1, 4, 12, 2, 13, 5, 10, 0, 3, 7, 6, 8, 9, 11]);
        assert_eq!(places(suppress(boxes(), 0.2, 3)), [1, 4, 2]);
        assert!(suppress(boxes(), 0.2, 0).is_empty());
    }

    #[test]
    fn an_overlap_of_exactly_the_threshold_is_allowed() {
        let found = |score, left| Detection { class: 0, score, rect: Rect::new(left, 0.0, left + 2.0, 1.0) };
        // They share half of each: a third of the union.
        let pair = vec![found(0.9, 0.0), found(0.8, 1.0)];
        assert_eq!(suppress(pair.clone(), 1.0 / 3.0, 300).len(), 2);
        assert_eq!(suppress(pair, 0.333, 300).len(), 1);
    }

    #[test]
    fn no_score_and_no_area() {
        let rect = Rect::new(0.0, 0.0, 1.0, 1.0);
        let flat = Rect::new(0.0, 0.0, 0.0, 1.0);
        let of = |score, rect| Detection { class: 0, score, rect };
        let kept = suppress(vec![of(f32::NAN, rect), of(0.5, flat), of(0.4, flat), of(0.3, rect)], 0.5, 9);
        assert_eq!(kept, [of(0.5, flat), of(0.4, flat), of(0.3, rect)]);
    }

    /// The definition: a box is kept unless a better box that is kept overlaps it too much.
    fn naive(all: &[Detection], iou: f32) -> Vec<Detection> {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by(|&a, &b| all[b].score.partial_cmp(&all[a].score).unwrap().then(a.cmp(&b)));
        let mut gone = vec![false; all.len()];
        for (place, &better) in order.iter().enumerate() {
            for &worse in order.iter().skip(place + 1) {
                let overlap = all[better].rect.iou(&all[worse].rect);
                if !gone[better] && all[better].class == all[worse].class && overlap > iou {
                    gone[worse] = true;
                }
            }
        }
        order.into_iter().filter(|&at| !gone[at]).map(|at| all[at]).collect()
    }

    proptest! {
        #[test]
        fn matches_the_definition(
            found in prop::collection::vec(((0u8..20, 0u8..20, 1u8..12, 1u8..12), 0u8..6, 0usize..3), 0..60),
            iou in 0f32..1.0, most in 0usize..40,
        ) {
            let found: Vec<Detection> = found.into_iter().map(|((x, y, w, h), score, class)| {
                let [x, y, w, h] = [x, y, w, h].map(f32::from);
                Detection { class, score: f32::from(score) / 5.0, rect: Rect::new(x, y, x + w, y + h) }
            }).collect();
            let kept = suppress(found.clone(), iou, most);
            let wanted: Vec<Detection> = naive(&found, iou).into_iter().take(most).collect();
            prop_assert_eq!(&kept, &wanted);
            for (at, one) in kept.iter().enumerate() {
                for other in kept.iter().skip(at + 1).filter(|other| other.class == one.class) {
                    prop_assert!(one.rect.iou(&other.rect) <= iou && one.score >= other.score);
                }
            }
        }
    }
}
