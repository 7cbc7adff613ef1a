//! Objects in pictures: a class, a score and a box each.

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
/// An object that a model found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// The number of its class.
    pub class: usize,
    /// How sure the model is, from 0 to 1.
    pub score: f32,
    /// Where it is.
    pub rect: Rect,
}
// ANCHOR_END: detection

/// How a model writes down what it found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DetectionFormat {
    /// Rows N × rows × (5 + classes): centre column and row, width and height in pixels of the input, how sure that there
    /// is anything, then a probability for each class. The score is the product of the two.
    Yolov5,
    /// Columns N × (4 + classes) × columns: centre column and row, width and height in pixels of the input, then a
    /// probability for each class.
    Yolov8,
    /// The heads of YOLOv5 before decoding, in the order of the outputs: each N × anchors·(5 + classes) × H × W or
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

/// One output of a detector before decoding.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Pixels of the input for one cell of the grid.
    pub stride: usize,
    /// Width and height of each anchor in pixels of the input.
    pub anchors: Vec<[f32; 2]>,
}

/// Reads a detector's outputs.
///
/// ```
/// use ixion_tensor::Tensor;
/// use ixion_vision::{DetectionFormat, Detector, Frame};
/// // One row: centre 50, 20; 20 wide and 10 high; surely something; the second of two classes.
/// let output = Tensor::from_vec(vec![50.0f32, 20.0, 20.0, 10.0, 1.0, 0.1, 0.9], &[1, 1, 7])?;
/// let frame = Frame::stretched([200, 200], [100, 100]);
/// let found = Detector::new(DetectionFormat::Yolov5).detect(&[output], &[frame])?;
/// assert_eq!((found[0][0].class, found[0][0].rect.left, found[0][0].rect.bottom), (1, 80.0, 50.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Detector {
    /// How the outputs are to be read.
    pub format: DetectionFormat,
    /// The number of classes, where it is known; an output of another number is refused.
    pub classes: Option<usize>,
    /// A score must be above this. Default: 0.25.
    pub confidence: f32,
    /// Of two boxes of one class that overlap by more than this, the better one is kept. Default: 0.45.
    pub iou: f32,
    /// The most objects for one picture. Default: 300.
    pub max_detections: usize,
}

impl Detector {
    /// The default of [`Detector::confidence`].
    pub const CONFIDENCE: f32 = 0.25;
    /// The default of [`Detector::iou`].
    pub const IOU: f32 = 0.45;
    /// The default of [`Detector::max_detections`].
    pub const MAX_DETECTIONS: usize = 300;

    /// A detector of this format with the defaults of YOLOv5's `detect.py`, but for 300 objects.
    pub fn new(format: DetectionFormat) -> Self {
        Self {
            format,
            classes: None,
            confidence: Self::CONFIDENCE,
            iou: Self::IOU,
            max_detections: Self::MAX_DETECTIONS,
        }
    }

    /// The objects in each picture of a batch, the best first, in pixels of the picture and clipped to it.
    ///
    /// As YOLOv5 does: each row has one class, the most probable; rows of a score that is not above the confidence (NaN never is) are
    /// dropped, and so are boxes without an area, or wholly outside of the picture; then see [`suppress()`].
    ///
    /// # Errors
    /// [`VisionError::Outputs`] or [`VisionError::Output`] when the outputs are not as the format says, or not for as many
    /// pictures as there are frames.
    pub fn detect(&self, outputs: &[Tensor], frames: &[Frame]) -> Result<Vec<Vec<Detection>>> {
        let candidates = self.candidates(outputs, frames)?;
        let read = |(found, frame): (Vec<Detection>, &Frame)| self.settle(found, frame);
        Ok(candidates.into_iter().zip(frames).map(read).collect())
    }

    /// All boxes above the confidence in pixels of the input, before any is suppressed.
    fn candidates(&self, outputs: &[Tensor], frames: &[Frame]) -> Result<Vec<Vec<Detection>>> {
        match &self.format {
            DetectionFormat::Yolov5Heads(heads) => heads::read(self, heads, outputs, frames),
            format => {
                let Some(output) = outputs.first() else {
                    let reason = format!("one for the format \"{}\"", format.name());
                    return Err(VisionError::Outputs { wanted: 1, found: 0, reason });
                };
                decode::read(self, output, frames.len())
            }
        }
    }

    fn settle(&self, mut candidates: Vec<Detection>, frame: &Frame) -> Vec<Detection> {
        let in_picture = |rect: &Rect| frame.to_picture(rect).clipped(frame.picture);
        candidates.retain(|found| !found.rect.is_degenerate() && !in_picture(&found.rect).is_degenerate());
        let kept = suppress(candidates, self.iou, self.max_detections);
        kept.into_iter().map(|found| Detection { rect: in_picture(&found.rect), ..found }).collect()
    }

    /// Checks the number of values for each box, and tells that of the classes.
    fn class_count(&self, values: usize, before: usize) -> Result<usize, OutputError> {
        let found = values.saturating_sub(before);
        match self.classes {
            Some(labels) if labels != found => Err(OutputError::Classes { found, labels }),
            _ => Ok(found),
        }
    }
}

/// Checks the element type, and that the batch is that which went in.
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
