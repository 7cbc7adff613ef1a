//! Confusion matrix of classes, pixel by pixel.

use super::mean;
use crate::error::Result;
use crate::{VOID, VisionError};

// ANCHOR: confusion
/// A confusion matrix of classes over any number of pictures.
///
/// With nᵢⱼ, the number of pixels of class i predicted as class j, tᵢ = Σⱼ nᵢⱼ and pᵢ = Σⱼ nⱼᵢ:
///
/// * intersection over union of a class: nᵢᵢ / (tᵢ + pᵢ − nᵢᵢ),
/// * mean intersection over union: the mean of these over all classes present in the ground truth or the predictions,
/// * pixel accuracy: Σᵢ nᵢᵢ / Σᵢ tᵢ.
///
/// Pixels whose true class is [`VOID`] are ignored; a prediction of [`VOID`] for any other pixel is wrong.
///
/// ```
/// use ixion_vision::Confusion;
/// let mut confusion = Confusion::new(2);
/// confusion.add(&[0, 0, 1, 1], &[0, 1, 1, 1])?;
/// assert_eq!((confusion.iou(0), confusion.iou(1)), (Some(1.0 / 2.0), Some(2.0 / 3.0)));
/// assert_eq!(confusion.pixel_accuracy(), Some(0.75));
/// # Ok::<(), ixion_vision::VisionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    /// A row for each true class, a column for each predicted class, and a last column for [`VOID`].
    counts: Vec<u64>,
}

impl Confusion {
    /// An empty matrix for the given number of classes, at most 255.
    pub fn new(classes: usize) -> Self {
        let classes = classes.min(usize::from(VOID));
        Self { classes, counts: vec![0; classes * (classes + 1)] }
    }

    /// Counts the pixels of a picture, given the true (`known`) and the predicted (`found`) classes.
    ///
    /// # Errors
    /// [`VisionError::InvalidArgument`] if the lengths differ or a class is out of range. Nothing is counted then.
    pub fn add(&mut self, known: &[u8], found: &[u8]) -> Result<()> {
        // ANCHOR: add_todo -- task 5: reject invalid input; then count each pair of classes
        if known.len() != found.len() {
            let problem = format!("expected {} predicted pixels, got {}", known.len(), found.len());
            return Err(VisionError::InvalidArgument(problem));
        }
        let is_class = |class: u8| class == VOID || usize::from(class) < self.classes;
        if let Some(class) = known.iter().chain(found).find(|&&class| !is_class(class)) {
            let problem = format!("class {class} is out of range for {} classes", self.classes);
            return Err(VisionError::InvalidArgument(problem));
        }
        for (&known, &found) in known.iter().zip(found).filter(|(known, _)| **known != VOID) {
            let col = usize::from(found).min(self.classes);
            if let Some(count) = self.counts.get_mut(usize::from(known) * (self.classes + 1) + col) {
                *count = count.saturating_add(1);
            }
        }
        Ok(())
        // ANCHOR_END: add_todo
    }

    /// The number of pixels of class `known` predicted as class `found`.
    pub fn count(&self, known: usize, found: usize) -> u64 {
        if known >= self.classes || found >= self.classes {
            return 0;
        }
        self.counts.get(known * (self.classes + 1) + found).copied().unwrap_or(0)
    }

    /// The number of pixels of a class, whatever their prediction.
    fn truths(&self, class: usize) -> u64 {
        let width = self.classes + 1;
        self.counts
            .chunks_exact(width)
            .nth(class)
            .map_or(0, |row| row.iter().fold(0, |sum, &n| sum.saturating_add(n)))
    }

    /// Intersection over union of a class; `None` if it is neither in the ground truth nor predicted.
    pub fn iou(&self, class: usize) -> Option<f64> {
        // ANCHOR: mask_iou_todo -- task 5: the pixels that are right, divided by those that are of the class or predicted as it
        let right = self.count(class, class);
        let found = (0..self.classes).map(|known| self.count(known, class)).fold(0, u64::saturating_add);
        let union = self.truths(class).saturating_add(found).saturating_sub(right);
        (union > 0).then(|| right as f64 / union as f64)
        // ANCHOR_END: mask_iou_todo
    }

    /// The mean intersection over union (mIoU) of all classes in the ground truth or the predictions.
    pub fn mean_iou(&self) -> Option<f64> {
        mean((0..self.classes).map(|class| self.iou(class)))
    }
}
// ANCHOR_END: confusion

impl Confusion {
    /// The share of pixels predicted correctly; `None` without pixels.
    pub fn pixel_accuracy(&self) -> Option<f64> {
        let right = (0..self.classes).map(|class| self.count(class, class)).fold(0, u64::saturating_add);
        let all = (0..self.classes).map(|class| self.truths(class)).fold(0, u64::saturating_add);
        (all > 0).then(|| right as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let mut confusion = Confusion::new(4);
        confusion.add(&[0, 0, 0, 1, 1, 2], &[0, 0, 1, 1, 2, 2]).unwrap();
        confusion.add(&[0, VOID, 2], &[VOID, 1, 0]).unwrap();
        // Class 0: 2 right of 4 true and 3 predicted; class 1: 1 of 2 and 2; class 2: 1 of 2 and 2; class 3: absent.
        let wanted = [Some(2.0 / 5.0), Some(1.0 / 3.0), Some(1.0 / 3.0), None, None];
        assert_eq!([0, 1, 2, 3, 4].map(|class| confusion.iou(class)), wanted);
        assert!((confusion.mean_iou().unwrap() - (0.4 + 2.0 / 3.0) / 3.0).abs() < 1e-12);
        assert_eq!(confusion.pixel_accuracy(), Some(4.0 / 8.0));
        assert_eq!((confusion.count(0, 1), confusion.count(2, 0), confusion.count(0, 4)), (1, 1, 0));
    }

    #[test]
    fn invalid_input_is_not_counted() {
        let mut confusion = Confusion::new(2);
        assert!(confusion.add(&[0, 1], &[0]).is_err() && confusion.add(&[0, 1], &[0, 2]).is_err());
        assert_eq!((confusion.pixel_accuracy(), confusion.mean_iou()), (None, None));
    }
}
