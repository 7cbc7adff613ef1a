//! Object detection: a class, a score and a box for each object.

mod decode;
mod heads;
mod suppress;

pub use decode::{decode_row, detection, most_probable};
pub use heads::cell_box;
pub use suppress::suppress;

use super::error::{OutputError, Result};
use super::{Frame, Rect, VisionError};
use ixion_tensor::Tensor;

// ANCHOR: detection
/// A detected object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// The class index.
    pub class: usize,
    /// The confidence, from 0 to 1.
    pub score: f32,
    /// The bounding box.
    pub rect: Rect,
}
// ANCHOR_END: detection

/// The output format of a detector.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DetectionFormat {
    /// Rows N × rows × (5 + classes): centre column and row, width and height in pixels of the input, objectness, then a
    /// probability for each class. The score is objectness times probability.
    Yolov5,
    /// Columns N × (4 + classes) × columns: centre column and row, width and height in pixels of the input, then a
    /// probability for each class.
    Yolov8,
    /// Undecoded YOLOv5 heads, in the order of the outputs: each N × anchors·(5 + classes) × H × W or
    /// N × anchors × H × W × (5 + classes), before the sigmoid.
    Yolov5Heads(Vec<Head>),
}

impl DetectionFormat {
    /// The name in a `model.toml`.
    pub fn name(&self) -> &'static str {
        match self {
            DetectionFormat::Yolov5 => "yolov5",
            DetectionFormat::Yolov8 => "yolov8",
            DetectionFormat::Yolov5Heads(_) => "yolov5-heads",
        }
    }
}

/// An undecoded output of a detector.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The side of a grid cell in pixels of the input.
    pub stride: usize,
    /// The width and height of each anchor in pixels of the input.
    pub anchors: Vec<[f32; 2]>,
}

/// Decodes a detector's outputs.
///
/// ```
/// use ixion_tensor::Tensor;
/// use ixion_vision::{DetectionFormat, Detector, Frame};
/// // One row: centre 50, 20; width 20, height 10; objectness 1; the second of two classes.
/// let output = Tensor::from_vec(vec![50.0f32, 20.0, 20.0, 10.0, 1.0, 0.1, 0.9], &[1, 1, 7])?;
/// let frame = Frame::stretched([200, 200], [100, 100]);
/// let found = Detector::new(DetectionFormat::Yolov5).detect(&[output], &[frame])?;
/// assert_eq!((found[0][0].class, found[0][0].rect.left, found[0][0].rect.bottom), (1, 80.0, 50.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Detector {
    /// The format of the outputs.
    pub format: DetectionFormat,
    /// The number of classes, if known; an output with any other number is rejected.
    pub classes: Option<usize>,
    /// The score threshold: detections must be above it. Default: 0.25.
    pub confidence: f32,
    /// The intersection over union above which the worse of two boxes of a class is suppressed. Default: 0.45.
    pub iou: f32,
    /// The maximum number of objects per picture. Default: 300.
    pub max_detections: usize,
}

impl Detector {
    /// The default of [`Detector::confidence`].
    pub const CONFIDENCE: f32 = 0.25;
    /// The default of [`Detector::iou`].
    pub const IOU: f32 = 0.45;
    /// The default of [`Detector::max_detections`].
    pub const MAX_DETECTIONS: usize = 300;

    /// A detector for a format, with the defaults of YOLOv5's `detect.py` except that `max_detections` is 300.
    pub fn new(format: DetectionFormat) -> Self {
        Self {
            format,
            classes: None,
            confidence: Self::CONFIDENCE,
            iou: Self::IOU,
            max_detections: Self::MAX_DETECTIONS,
        }
    }

    /// The objects in each picture of a batch, best first, in pixels of the picture and clipped to it.
    ///
    /// As in YOLOv5, each box gets its most probable class. Boxes are dropped unless their score is above the confidence
    /// (NaN never is), and if they have no area or are entirely outside the picture. [`suppress()`] is applied to the rest.
    ///
    /// # Errors
    /// [`VisionError::Outputs`] or [`VisionError::Output`] if the outputs do not match the format, or the batch does not match
    /// the number of frames.
    pub fn detect(&self, outputs: &[Tensor], frames: &[Frame]) -> Result<Vec<Vec<Detection>>> {
        let candidates = self.candidates(outputs, frames)?;
        let read = |(found, frame): (Vec<Detection>, &Frame)| self.suppressed(found, frame);
        Ok(candidates.into_iter().zip(frames).map(read).collect())
    }

    /// All boxes above the confidence, in pixels of the input, before suppression.
    fn candidates(&self, outputs: &[Tensor], frames: &[Frame]) -> Result<Vec<Vec<Detection>>> {
        match &self.format {
            DetectionFormat::Yolov5Heads(heads) => heads::read(self, heads, outputs, frames),
            format => {
                let Some(output) = outputs.first() else {
                    let reason = format!("for the format \"{}\"", format.name());
                    return Err(VisionError::Outputs { wanted: 1, found: 0, reason });
                };
                decode::read(self, output, frames.len())
            }
        }
    }

    fn suppressed(&self, mut candidates: Vec<Detection>, frame: &Frame) -> Vec<Detection> {
        let in_picture = |rect: &Rect| frame.to_picture(rect).clipped(frame.picture);
        candidates.retain(|found| !found.rect.is_degenerate() && !in_picture(&found.rect).is_degenerate());
        let kept = suppress(candidates, self.iou, self.max_detections);
        kept.into_iter().map(|found| Detection { rect: in_picture(&found.rect), ..found }).collect()
    }

    /// Checks the number of values per box. Returns the number of classes.
    fn class_count(&self, values: usize, before: usize) -> Result<usize, OutputError> {
        let found = values.saturating_sub(before);
        match self.classes {
            Some(labels) if labels != found => Err(OutputError::Classes { found, labels }),
            _ => Ok(found),
        }
    }
}

/// Checks the element type and the batch size.
fn check(output: &Tensor, pictures: usize) -> Result<(), OutputError> {
    if !output.dtype().is_float() {
        return Err(OutputError::DType { found: output.dtype() });
    }
    match output.shape().first() {
        Some(&found) if found != pictures => Err(OutputError::Batch { found, wanted: pictures }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
