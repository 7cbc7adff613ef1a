//! Vision tasks: from a picture to a model's input, and from its outputs to classes, boxes and masks.
//!
//! A [`ModelCard`] (`model.toml` next to the model) describes a model's task. It [prepares](ModelCard::prepare) pictures and
//! decodes the outputs: [`classify`](ModelCard::classify), [`detect`](ModelCard::detect) and
//! [`segment`](ModelCard::segment). The same functions are available without a card: [`rank`], [`Detector`], [`Segmenter`].
//! Results can be drawn ([`draw_detections`], [`draw_mask`]) and evaluated ([`AveragePrecision`], [`Confusion`]).
//!
//! ```
//! use ixion_tensor::{Limits, Tensor};
//! use ixion_vision::{ModelCard, Picture};
//!
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../model_file/digits");
//! let card = ModelCard::load(format!("{folder}/model.toml"))?;
//! let picture = Picture::load(format!("{folder}/samples/7.png"), &Limits::default())?;
//! let (input, _) = card.prepare(&picture, &Limits::default())?;
//! assert_eq!(input.shape().dims(), &[1, 1, 8, 8]);
//!
//! // The network's output: of ten scores, the one for the digit seven is the largest.
//! let outputs = [Tensor::from_vec(vec![0.1f32, 0.0, 0.3, 1.1, 0.0, 0.2, 0.0, 9.7, 0.4, 1.5], &[1, 10])?];
//! let best = &card.classify(&outputs, 3)?[0][0];
//! assert_eq!((best.label.as_str(), best.score > 0.9), ("7", true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activation;
mod card;
mod classify;
mod detect;
mod draw;
mod error;
mod frame;
mod metrics;
mod palette;
pub mod picture;
mod rect;
mod segment;

pub use activation::{Activation, sigmoid};
pub use card::{ModelCard, Reading, Task};
pub use classify::{Class, accuracy, rank, ranked};
pub use detect::{Detection, DetectionFormat, Detector, Head, suppress};
#[doc(hidden)]
pub use detect::{cell_box, decode_row, detection, most_probable};
pub use draw::{draw_detections, draw_mask};
pub use error::{OutputError, VisionError};
pub use frame::Frame;
pub use metrics::{AveragePrecision, Confusion, Truth};
pub use palette::{PALETTE, color_of};
pub use picture::{Color, Filter, Fit, Picture, Placement, Preprocess, letterboxed, surround};
pub use rect::Rect;
#[doc(hidden)]
pub use segment::highest;
pub use segment::{ClassMap, Segmenter, VOID};

/// The name of a class: its label, or its number if it has no label.
pub fn label_of(labels: &[String], class: usize) -> String {
    labels.get(class).cloned().unwrap_or_else(|| class.to_string())
}
