//! Semantic segmentation: a class for each pixel.

mod map;
mod sample;

pub use map::{ClassMap, VOID};

use super::error::{OutputError, Result};
use super::{Activation, Frame, VisionError};
use ixion_tensor::{DType, Tensor};
use ndarray::{Array2, ArrayView1, ArrayView2, ArrayView3, Ix4};
use sample::Axis;

/// Converts pixel scores to class maps.
///
/// ```
/// use ixion_tensor::Tensor;
/// use ixion_vision::{Activation, Frame, Segmenter};
/// // Two classes, one row, two columns; the picture is twice as large.
/// let scores = Tensor::from_vec(vec![1.0f32, 0.0, 0.0, 1.0], &[1, 2, 1, 2])?;
/// let frame = Frame::stretched([2, 4], [1, 2]);
/// let mask = &Segmenter::new(Activation::None).segment(&scores, &[frame])?[0];
/// assert_eq!(mask.classes(), [0, 0, 1, 1, 0, 0, 1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segmenter {
    /// The function that converts scores to probabilities. It matters only for a single channel; with several channels, the
    /// highest score wins in any case.
    pub activation: Activation,
    /// The number of classes, if known: the number of channels, or 2 for a single channel.
    pub classes: Option<usize>,
    /// The class of pixels that a crop left outside the model's input. Default: [`VOID`].
    pub background: Option<u8>,
}

impl Segmenter {
    /// A segmenter for any number of classes.
    pub fn new(activation: Activation) -> Self {
        Self { activation, classes: None, background: None }
    }

    /// The class of each pixel of each picture.
    ///
    /// `scores` are floats N × classes × H × W, which cover the model's input at any resolution. The padding is removed and the
    /// scores are resized to the picture (`mode="bilinear"`, `align_corners=False` of PyTorch's `interpolate`); then the
    /// highest score wins, or the first among equals. With a single channel, a pixel has class 1 if its probability is above
    /// 0.5, otherwise class 0. Pixels whose scores are all NaN are [`VOID`].
    ///
    /// Integers N × H × W or N × 1 × H × W are class indices already; each pixel gets the class of the cell it is in.
    ///
    /// # Errors
    /// [`VisionError::Output`] if the shape, the number of classes or pictures, or the element type does not match;
    /// [`VisionError::InvalidArgument`] for a softmax of a single channel.
    pub fn segment(&self, scores: &Tensor, frames: &[Frame]) -> Result<Vec<ClassMap>> {
        let is_class = scores.dtype().is_integer();
        if !is_class && !scores.dtype().is_float() {
            return Err(OutputError::DType { found: scores.dtype() }.at(0));
        }
        let scores = self.check(scores, frames.len(), is_class).map_err(|error| error.at(0))?;
        let values = scores.cast(DType::F32)?;
        let Ok(values) = values.array::<f32>()?.into_dimensionality::<Ix4>() else { return Ok(Vec::new()) };
        let maps = values.outer_iter().zip(frames).map(|(values, frame)| match is_class {
            true => self.copied(values, frame),
            false => self.decided(values, frame),
        });
        maps.collect()
    }

    /// Checks the scores and returns them with four axes.
    fn check(&self, scores: &Tensor, pictures: usize, is_class: bool) -> Result<Tensor, OutputError> {
        let wanted = || {
            let wanted = "images×classes×H×W of scores, or images×H×W of integers";
            OutputError::shape(scores, wanted, "check the `task` in the model.toml")
        };
        let dims = match *scores.shape().dims() {
            [pictures, height, width] if is_class => [pictures, 1, height, width],
            [pictures, channels, height, width] if channels > 0 && (channels == 1 || !is_class) => {
                [pictures, channels, height, width]
            }
            _ => return Err(wanted()),
        };
        let [found, channels, height, width] = dims;
        if height == 0 || width == 0 {
            return Err(wanted());
        }
        if found != pictures {
            return Err(OutputError::Batch { found, wanted: pictures });
        }
        let classes = if channels == 1 { 2 } else { channels };
        if classes > usize::from(VOID) {
            let wanted = format!("images×classes×H×W with at most {VOID} classes");
            return Err(OutputError::shape(scores, wanted, ""));
        }
        match self.classes {
            Some(labels) if !is_class && labels != classes => {
                Err(OutputError::Classes { found: classes, labels })
            }
            _ => scores.reshape(&dims).map_err(|_| wanted()),
        }
    }

    /// The score above which a pixel has class 1, for a single channel.
    fn threshold(&self) -> Result<f32> {
        match self.activation {
            Activation::None => Ok(0.5),
            // The sigmoid of 0 is 0.5.
            Activation::Sigmoid => Ok(0.0),
            Activation::Softmax => Err(VisionError::InvalidArgument(
                "the softmax of a single channel is always 1; the activation should be sigmoid".into(),
            )),
        }
    }

    fn decided(&self, scores: ArrayView3<'_, f32>, frame: &Frame) -> Result<ClassMap> {
        let (channels, height, width) = scores.dim();
        let (rows, cols) = (Axis::new(frame, 0, height), Axis::new(frame, 1, width));
        let threshold = if channels == 1 { Some(self.threshold()?) } else { None };
        let unseen = self.background.unwrap_or(VOID);
        let mut map = Vec::new();
        let (mut cells, mut pixels) = (vec![0.0; width], Array2::zeros((channels, cols.taps.len())));
        for row in &rows.taps {
            let Some(row) = row else {
                map.extend(cols.taps.iter().map(|_| unseen));
                continue;
            };
            for (plane, pixels) in scores.outer_iter().zip(pixels.outer_iter_mut()) {
                row.line(plane, &mut cells);
                cols.sample(&cells, pixels);
            }
            let classes = match threshold {
                Some(threshold) => above(pixels.row(0), threshold),
                None => highest(pixels.view()),
            };
            let seen = classes.into_iter().zip(&cols.taps);
            map.extend(seen.map(|(class, tap)| if tap.is_some() { class } else { unseen }));
        }
        ClassMap::new(frame.picture[0], frame.picture[1], map)
    }

    fn copied(&self, classes: ArrayView3<'_, f32>, frame: &Frame) -> Result<ClassMap> {
        let (_, height, width) = classes.dim();
        let rows = Axis::new(frame, 0, height);
        let cols = Axis::new(frame, 1, width);
        let unseen = self.background.unwrap_or(VOID);
        let class = |row: usize, col: usize| {
            let class = classes.get([0, row, col]).copied().unwrap_or(-1.0);
            if (0.0..f32::from(VOID)).contains(&class) { class as u8 } else { VOID }
        };
        let mut map = Vec::new();
        for row in &rows.taps {
            let of_col = |col: &Option<sample::Tap>| match (row, col) {
                (Some(row), Some(col)) => class(row.nearest, col.nearest),
                _ => unseen,
            };
            map.extend(cols.taps.iter().map(of_col));
        }
        ClassMap::new(frame.picture[0], frame.picture[1], map)
    }
}

// ANCHOR: highest
/// The class of each pixel, given scores of shape classes × pixels: the highest score wins, or the first among equals. NaN
/// is ignored; a pixel with only NaN scores is [`VOID`].
pub fn highest(scores: ArrayView2<'_, f32>) -> Vec<u8> {
    // ANCHOR: highest_todo -- task 5: go through the classes, and keep the best so far of each pixel
    let mut best = vec![(VOID, f32::NEG_INFINITY); scores.ncols()];
    for (class, scores) in scores.outer_iter().enumerate() {
        for (best, &score) in best.iter_mut().zip(scores) {
            // A score of −∞ is better than none.
            if score > best.1 || (best.0 == VOID && !score.is_nan()) {
                *best = (class as u8, score);
            }
        }
    }
    best.into_iter().map(|(class, _)| class).collect()
    // ANCHOR_END: highest_todo
}
// ANCHOR_END: highest

/// Class 1 if the score is above the threshold, [`VOID`] if it is NaN, otherwise class 0.
fn above(scores: ArrayView1<'_, f32>, threshold: f32) -> Vec<u8> {
    let class = |&score: &f32| if score.is_nan() { VOID } else { u8::from(score > threshold) };
    scores.iter().map(class).collect()
}

#[cfg(test)]
mod tests;
