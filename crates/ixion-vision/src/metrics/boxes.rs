//! Average precision of detections.

use super::mean;
use crate::error::Result;
use crate::{Detection, Rect, VisionError};

/// A ground-truth object in a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truth {
    /// The class index.
    pub class: usize,
    /// The bounding box.
    pub rect: Rect,
}

/// Average precision, as PASCAL VOC has defined it since 2010.
///
/// For each class, the detections of all pictures are processed by descending score. Each is matched with the ground truth of
/// its class and picture that it overlaps most. It is a true positive if their intersection over union is at least the
/// threshold and no better detection has been matched with that truth, and a false positive otherwise.
///
/// After each detection, recall r is the number of true positives divided by the number of truths, and precision p the
/// number of true positives divided by the number of detections so far. The average precision is the area under p(r) after
/// each p is raised to the largest p at an equal or greater recall (*all-point interpolation*):
/// AP = Σᵢ (rᵢ − rᵢ₋₁) · max { pⱼ : j ≥ i }. COCO's average over 101 recalls differs slightly.
///
/// ```
/// use ixion_vision::{AveragePrecision, Detection, Rect, Truth};
/// let rect = Rect::new(0.0, 0.0, 10.0, 10.0);
/// let found = vec![vec![Detection { class: 0, score: 0.9, rect }]];
/// let known = vec![vec![Truth { class: 0, rect }]];
/// let precision = AveragePrecision::at(0.5, &found, &known)?;
/// assert_eq!(precision.mean(), Some(1.0));
/// # Ok::<(), ixion_vision::VisionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AveragePrecision {
    by_class: Vec<Option<f64>>,
}

/// The score of a detection, and whether it is a true positive.
type Verdict = (f32, bool);

impl AveragePrecision {
    /// The average precision of detections (`found`) against ground truth (`known`), both by picture. `iou` is the minimum
    /// intersection over union of a match.
    ///
    /// # Errors
    /// [`VisionError::InvalidArgument`] if the numbers of pictures differ.
    pub fn at(iou: f32, found: &[Vec<Detection>], known: &[Vec<Truth>]) -> Result<Self> {
        if found.len() != known.len() {
            let problem = format!("expected detections for {} pictures, got {}", known.len(), found.len());
            return Err(VisionError::InvalidArgument(problem));
        }
        let classes = known.iter().flatten().map(|truth| truth.class.saturating_add(1)).max().unwrap_or(0);
        let by_class = (0..classes).map(|class| {
            let truths = known.iter().flatten().filter(|truth| truth.class == class).count();
            let verdicts = found.iter().zip(known).flat_map(|(found, known)| judge(class, iou, found, known));
            (truths > 0).then(|| area(verdicts.collect(), truths))
        });
        Ok(Self { by_class: by_class.collect() })
    }

    /// The average precision of a class; `None` if the class has no ground truth.
    pub fn of(&self, class: usize) -> Option<f64> {
        self.by_class.get(class).copied().flatten()
    }

    /// The mean over all classes with ground truth (mAP); `None` without such classes.
    pub fn mean(&self) -> Option<f64> {
        mean(self.by_class.iter().copied())
    }
}

/// Matches the detections of a class in a picture with its ground truth.
fn judge(class: usize, iou: f32, found: &[Detection], known: &[Truth]) -> Vec<Verdict> {
    let truths: Vec<Rect> =
        known.iter().filter(|truth| truth.class == class).map(|truth| truth.rect).collect();
    let mut found: Vec<&Detection> =
        found.iter().filter(|found| found.class == class && !found.score.is_nan()).collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut is_taken = vec![false; truths.len()];
    let mut verdict = |found: &Detection| {
        let mut nearest: Option<(f32, &mut bool)> = None;
        for (truth, taken) in truths.iter().zip(&mut is_taken) {
            let overlap = found.rect.iou(truth);
            if nearest.as_ref().is_none_or(|(most, _)| overlap > *most) {
                nearest = Some((overlap, taken));
            }
        }
        match nearest {
            Some((overlap, taken)) if overlap >= iou && overlap > 0.0 => !std::mem::replace(taken, true),
            _ => false,
        }
    };
    found.into_iter().map(|found| (found.score, verdict(found))).collect()
}

/// The area under precision over recall.
fn area(mut verdicts: Vec<Verdict>, truths: usize) -> f64 {
    verdicts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut right = 0usize;
    let mut precisions = Vec::with_capacity(verdicts.len());
    for (place, (_, is_right)) in verdicts.iter().enumerate() {
        right += usize::from(*is_right);
        precisions.push(right as f64 / (place + 1) as f64);
    }
    // The running maximum from the last to the first; recall grows by one truth at each true positive.
    let (mut largest, mut sum) = (0.0f64, 0.0);
    for (precision, (_, is_right)) in precisions.iter().zip(&verdicts).rev() {
        largest = largest.max(*precision);
        sum += if *is_right { largest } else { 0.0 };
    }
    sum / truths as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(left: f32) -> Rect {
        Rect::new(left, 0.0, left + 10.0, 10.0)
    }

    fn found(class: usize, score: f32, left: f32) -> Detection {
        Detection { class, score, rect: square(left) }
    }

    fn truth(class: usize, left: f32) -> Truth {
        Truth { class, rect: square(left) }
    }

    #[test]
    fn by_hand() {
        // Two pictures with three truths. By score: right (1/1), wrong (1/2), right (2/3), duplicate (2/4), wrong.
        let known = [vec![truth(0, 0.0), truth(0, 100.0)], vec![truth(0, 0.0)]];
        let detections = [
            vec![found(0, 0.9, 1.0), found(0, 0.7, 101.0), found(0, 0.6, 0.0)],
            vec![found(0, 0.8, 50.0), found(0, 0.5, 7.0)],
        ];
        let precision = AveragePrecision::at(0.5, &detections, &known).unwrap();
        // (1 + 2/3) / 3; the third truth was not found.
        assert!((precision.of(0).unwrap() - 5.0 / 9.0).abs() < 1e-12, "{precision:?}");
        // At 0.1 the last one is right as well: precision 3/5 at recall 1.
        let loose = AveragePrecision::at(0.1, &detections, &known).unwrap();
        assert!((loose.of(0).unwrap() - (1.0 + 2.0 / 3.0 + 3.0 / 5.0) / 3.0).abs() < 1e-12, "{loose:?}");
        // At 0.9 two overlap too little (9/11), and then the exact one is right: precision 1/4 at recall 1/3.
        let strict = AveragePrecision::at(0.9, &detections, &known).unwrap();
        assert!((strict.of(0).unwrap() - 1.0 / 12.0).abs() < 1e-12, "{strict:?}");
    }

    #[test]
    fn precision_is_raised_to_later_maxima() {
        // Wrong, right, right: 1/2 becomes 2/3.
        let known = [vec![truth(0, 0.0), truth(0, 20.0)]];
        let detections = [vec![found(0, 0.9, 50.0), found(0, 0.8, 0.0), found(0, 0.7, 20.0)]];
        let precision = AveragePrecision::at(0.5, &detections, &known).unwrap();
        assert!((precision.mean().unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_matched_truth_is_not_skipped() {
        // The second overlaps the first truth most (9/11), which is taken; its overlap with the other does not count.
        let known = [vec![truth(0, 0.0), truth(0, 4.0)]];
        let detections = [vec![found(0, 0.9, 0.0), found(0, 0.8, 1.0)]];
        assert_eq!(AveragePrecision::at(0.5, &detections, &known).unwrap().of(0), Some(0.5));
    }

    #[test]
    fn classes_and_pictures_are_separate() {
        let known = [vec![truth(0, 0.0), truth(2, 20.0)], vec![]];
        let detections = [vec![found(2, 0.9, 0.0), found(2, 0.8, 20.0)], vec![found(0, 0.9, 0.0)]];
        let precision = AveragePrecision::at(0.5, &detections, &known).unwrap();
        assert_eq!((precision.of(0), precision.of(1), precision.of(2)), (Some(0.0), None, Some(0.5)));
        assert_eq!(precision.mean(), Some(0.25));
        assert_eq!(AveragePrecision::at(0.5, &[], &[]).unwrap().mean(), None);
        assert!(AveragePrecision::at(0.5, &[], &known).is_err());
    }

    #[test]
    fn no_overlap_is_never_right() {
        let (known, detections) =
            ([vec![truth(0, 0.0)]], [vec![found(0, 0.9, 50.0), found(0, f32::NAN, 0.0)]]);
        assert_eq!(AveragePrecision::at(0.0, &detections, &known).unwrap().of(0), Some(0.0));
    }
}
