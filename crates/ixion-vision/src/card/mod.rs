//! `model.toml`: a model's task, the preprocessing of its input, and the format of its outputs.

mod check;

use super::error::Result;
use super::{
    Activation, Class, ClassMap, Detection, DetectionFormat, Detector, Frame, Head, Segmenter, VisionError,
    rank,
};
use crate::{Picture, Preprocess};
use ixion_tensor::{Limits, Tensor};
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};

/// A model's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Task {
    /// No particular task; outputs are arrays.
    #[default]
    None,
    /// The first output has a score for each class.
    Classify,
    /// The outputs have boxes, each with a class and a score.
    Detect,
    /// The first output has a score for each class and pixel.
    Segment,
}

impl Task {
    /// The name in a `model.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Task::None => "none",
            Task::Classify => "classify",
            Task::Detect => "detect",
            Task::Segment => "segment",
        }
    }
}

/// The contents of a `model.toml`, which is stored next to a model's `.param` file.
///
/// | key | meaning |
/// |---|---|
/// | `name` | the model's name; the only required key |
/// | `task` | `none` (the default), `classify`, `detect` or `segment` |
/// | `description`, `provenance`, `license` | free text |
/// | `[input]` | how a picture becomes the input: see [`Preprocess`] |
/// | `[output]` | how to read the outputs: see [`Reading`] |
///
/// ```
/// use ixion_vision::{ModelCard, Task};
/// let card = ModelCard::parse("shapes.toml", r#"
///     name = "shapes"
///     task = "detect"
///     [input]
///     size = [128, 128]
///     fit = "letterbox"
///     pad_value = 114
///     [output]
///     labels = ["circle", "square"]
///     format = "yolov5"
/// "#)?;
/// assert_eq!((card.task, card.output.confidence), (Task::Detect, 0.25));
/// # Ok::<(), ixion_vision::VisionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelCard {
    /// The file the card was read from.
    #[serde(skip)]
    pub path: PathBuf,
    /// The model's name.
    pub name: String,
    /// The model's task.
    #[serde(default)]
    pub task: Task,
    /// A description of the model.
    #[serde(default)]
    pub description: String,
    /// The origin of the model.
    #[serde(default)]
    pub provenance: String,
    /// The licence of the model.
    #[serde(default)]
    pub license: String,
    /// The preprocessing of a picture. Default: RGB, scaled to 0..1, in the picture's own size.
    pub input: Option<Preprocess>,
    /// How to read the outputs.
    #[serde(default)]
    pub output: Reading,
}

/// How to read a model's outputs: the table `[output]` of a `model.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Reading {
    /// The names of the classes. Default: none; classes are then shown as numbers.
    pub labels: Vec<String>,
    /// For `classify` and `segment`: the function that converts scores to probabilities. Default: `none`.
    pub activation: Activation,
    /// For `detect`: `yolov5`, `yolov8` or `yolov5-heads`; see [`DetectionFormat`]. Required for `detect`.
    pub format: Option<String>,
    /// For `yolov5-heads`: for each head the alternating widths and heights of its anchors in pixels of the input, as in
    /// YOLOv5's own files.
    pub anchors: Vec<Vec<f32>>,
    /// For `yolov5-heads`: for each head the side of a grid cell in pixels of the input.
    pub strides: Vec<usize>,
    /// For `detect`: see [`Detector::confidence`].
    pub confidence: f32,
    /// For `detect`: see [`Detector::iou`].
    pub iou: f32,
    /// For `detect`: see [`Detector::max_detections`].
    pub max_detections: usize,
    /// For `detect` and `segment`: red, green and blue from 0 to 255 for each class. Default: the
    /// [`PALETTE`](super::PALETTE).
    pub colors: Vec<[u8; 3]>,
    /// For `segment`: the background class, which is not painted. Default: none.
    pub background: Option<u8>,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            labels: Vec::new(),
            activation: Activation::None,
            format: None,
            anchors: Vec::new(),
            strides: Vec::new(),
            confidence: Detector::CONFIDENCE,
            iou: Detector::IOU,
            max_detections: Detector::MAX_DETECTIONS,
            colors: Vec::new(),
            background: None,
        }
    }
}

impl ModelCard {
    /// Reads a card.
    ///
    /// # Errors
    /// [`VisionError::Unreadable`], or [`VisionError::Card`] with file and line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| VisionError::Unreadable {
            path: path.to_owned(),
            kind: error.kind(),
            message: error.to_string(),
        })?;
        Self::parse(path, &text)
    }

    /// Loads the `model.toml` next to a model's `.param` file; `None` if there is none.
    ///
    /// # Errors
    /// As [`ModelCard::load`], except that a missing file is not an error.
    pub fn for_model(param: impl AsRef<Path>) -> Result<Option<Self>> {
        match Self::load(param.as_ref().with_file_name("model.toml")) {
            // `NotADirectory`: the model's path contains a file as a folder, which is reported when the model is read.
            Err(VisionError::Unreadable {
                kind: io::ErrorKind::NotFound | io::ErrorKind::NotADirectory,
                ..
            }) => Ok(None),
            card => card.map(Some),
        }
    }

    /// Parses a card; `path` is used in messages.
    ///
    /// # Errors
    /// [`VisionError::Card`] with file and line.
    pub fn parse(path: impl Into<PathBuf>, text: &str) -> Result<Self> {
        let path = path.into();
        let card: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map(|before| before.matches('\n').count() + 1);
            VisionError::Card { path: path.clone(), line, problem: error.message().trim_end().to_owned() }
        })?;
        let card = Self { path, ..card };
        card.check(text)?;
        Ok(card)
    }

    /// Converts a picture to the model's input, 1 × channels × height × width of `f32`, as specified by `[input]`. The frame
    /// maps results back to the picture.
    ///
    /// # Errors
    /// [`VisionError::Tensor`] if the size exceeds `limits`.
    pub fn prepare(&self, picture: &Picture, limits: &Limits) -> Result<(Tensor, Frame)> {
        let rule = self.input.clone().unwrap_or_default();
        Ok(Frame::prepare(&rule, picture, limits)?)
    }

    /// The `top` best classes for each picture of the batch, from the first output; see [`rank`].
    ///
    /// # Errors
    /// [`VisionError::Outputs`] if there is no output; otherwise as [`rank`].
    pub fn classify(&self, outputs: &[Tensor], top: usize) -> Result<Vec<Vec<Class>>> {
        let scores = first(outputs, "the scores")?;
        rank(scores, self.output.activation, &self.output.labels, top)
    }

    /// The objects in each picture of the batch, in pixels of the picture; see [`Detector::detect`].
    ///
    /// # Errors
    /// As [`Detector::detect`]; [`VisionError::Card`] if the card has no `format`.
    pub fn detect(&self, outputs: &[Tensor], frames: &[Frame]) -> Result<Vec<Vec<Detection>>> {
        self.detector()?.detect(outputs, frames)
    }

    /// The class of each pixel of each picture of the batch, from the first output; see [`Segmenter::segment`].
    ///
    /// # Errors
    /// [`VisionError::Outputs`] if there is no output; otherwise as [`Segmenter::segment`].
    pub fn segment(&self, outputs: &[Tensor], frames: &[Frame]) -> Result<Vec<ClassMap>> {
        self.segmenter().segment(first(outputs, "the scores")?, frames)
    }

    /// The detector described by the card.
    ///
    /// # Errors
    /// [`VisionError::Card`] if `format` is missing, unknown or incomplete.
    pub fn detector(&self) -> Result<Detector> {
        let output = &self.output;
        let classes = (!output.labels.is_empty()).then_some(output.labels.len());
        let format = self.detection_format("")?;
        let mut detector = Detector { classes, ..Detector::new(format) };
        (detector.confidence, detector.iou) = (output.confidence, output.iou);
        detector.max_detections = output.max_detections;
        Ok(detector)
    }

    /// The segmenter described by the card.
    pub fn segmenter(&self) -> Segmenter {
        let labels = self.output.labels.len();
        let mut segmenter = Segmenter::new(self.output.activation);
        segmenter.classes = (labels > 0).then_some(labels);
        segmenter.background = self.output.background;
        segmenter
    }

    /// The card's detection format; `text` is the file's text, for finding lines.
    fn detection_format(&self, text: &str) -> Result<DetectionFormat> {
        let output = &self.output;
        match output.format.as_deref() {
            Some("yolov5") => Ok(DetectionFormat::Yolov5),
            Some("yolov8") => Ok(DetectionFormat::Yolov8),
            Some("yolov5-heads") => {
                self.check_heads(text)?;
                let pairs = |of_head: &Vec<f32>| of_head.as_chunks::<2>().0.to_vec();
                let heads = output.strides.iter().zip(&output.anchors);
                let heads = heads.map(|(&stride, anchors)| Head { stride, anchors: pairs(anchors) });
                Ok(DetectionFormat::Yolov5Heads(heads.collect()))
            }
            Some(other) => {
                let problem = format!("format: expected yolov5, yolov8 or yolov5-heads, got `{other}`");
                Err(self.problem(text, "format", problem))
            }
            None => {
                let problem = "task \"detect\" needs `format` in [output]: yolov5, yolov8 or yolov5-heads";
                Err(self.problem(text, "task", problem))
            }
        }
    }
}

fn first<'a>(outputs: &'a [Tensor], reason: &str) -> Result<&'a Tensor> {
    let none = || VisionError::Outputs { wanted: 1, found: 0, reason: reason.to_owned() };
    outputs.first().ok_or_else(none)
}
