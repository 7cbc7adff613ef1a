//! Images as inputs.

use super::port::Port;
use crate::cli::Failure;
use crate::cli::caller::tell;
use ixion::Limits;
use ixion::pnnx::Dim;
use ixion::tensor::{Color, DType, Picture, Preprocess, Tensor, TensorError};
use ixion::vision::{Frame, ModelCard};
use std::path::{Path, PathBuf};

/// An image that was given to the model.
#[derive(Debug)]
pub(in crate::cli) struct Shot {
    pub(super) path: PathBuf,
    pub(super) frame: Frame,
    /// The image, for drawing on it.
    pub(super) picture: Picture,
}

/// Converts images to one input of a model.
pub(super) struct Preparer<'a> {
    rule: Preprocess,
    dtype: DType,
    /// Whether the model has no batch axis.
    is_single: bool,
    limits: &'a Limits,
}

impl<'a> Preparer<'a> {
    /// Uses the rule of the model's card, or else the rule that the shape in the file suggests. `first` is for messages.
    pub(super) fn new(
        first: &Path,
        port: &Port,
        card: Option<&ModelCard>,
        limits: &'a Limits,
    ) -> Result<Self, Failure> {
        let suggested = suggestion(port);
        let rule = match (card.and_then(|card| card.input.clone()), suggested) {
            (Some(mut rule), suggested) => {
                rule.size = rule.size.or(suggested.and_then(|rule| rule.size));
                rule
            }
            (None, Some(rule)) => {
                note(first, &rule);
                rule
            }
            (None, None) => {
                let message =
                    format!("{}: input `{}` does not have the shape of an image", first.display(), port.name);
                let advice = "images need an input of shape N×1×H×W or N×3×H×W, or a model.toml next to the model with a table [input]";
                return Err(Failure::unusable(message).advise(advice));
            }
        };
        let is_single = port.shape.as_ref().is_some_and(|dims| dims.len() == 3);
        Ok(Self { rule, dtype: port.dtype.unwrap_or(DType::F32), is_single, limits })
    }

    /// Returns true if the model takes one image at a time and has no batch axis.
    pub(super) fn is_single(&self) -> bool {
        self.is_single
    }

    /// Reads an image and converts it to an input.
    pub(super) fn load(&self, path: &Path) -> Result<(Tensor, Shot), Failure> {
        let prepare = || -> Result<(Tensor, Shot), TensorError> {
            let picture = Picture::load(path, self.limits)?;
            let (tensor, frame) = Frame::prepare(&self.rule, &picture, self.limits)?;
            let tensor = tensor.cast(self.dtype)?;
            let tensor = if self.is_single { tensor.select(0, 0)? } else { tensor };
            Ok((tensor, Shot { path: path.to_owned(), frame, picture }))
        };
        prepare().map_err(Failure::unusable)
    }
}

/// The rule that the shape of an input suggests: stretch to its size, scale to 0..1.
fn suggestion(port: &Port) -> Option<Preprocess> {
    let dims = port.shape.as_deref()?;
    let ([channels, height, width] | [_, channels, height, width]) = dims else {
        return None;
    };
    let mut rule = Preprocess::default();
    rule.color = match channels {
        Dim::Fixed(1) => Color::Gray,
        Dim::Fixed(3) => Color::Rgb,
        _ => return None,
    };
    rule.size = match (height, width) {
        (Dim::Fixed(height), Dim::Fixed(width)) => {
            Some([usize::try_from(*height).ok()?, usize::try_from(*width).ok()?])
        }
        // The model accepts any size.
        _ => None,
    };
    Some(rule)
}

fn note(path: &Path, rule: &Preprocess) {
    let colour = if rule.color == Color::Gray { "grey" } else { "RGB" };
    let size =
        rule.size.map(|[height, width]| format!(", stretched to {height}×{width}")).unwrap_or_default();
    let file = path.display();
    tell("note", format!("no model.toml for {file}: prepared as {colour}{size}, scaled to 0..1"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(dims: &[Option<u64>]) -> Option<(Color, Option<[usize; 2]>)> {
        let dims = dims.iter().map(|dim| dim.map_or(Dim::Unknown, Dim::Fixed)).collect();
        suggestion(&Port::new("x", Some(DType::F32), Some(dims))).map(|rule| (rule.color, rule.size))
    }

    #[test]
    fn shapes_of_pictures_are_recognised() {
        assert_eq!(suggested(&[None, Some(3), Some(4), Some(5)]), Some((Color::Rgb, Some([4, 5]))));
        assert_eq!(suggested(&[Some(1), Some(4), Some(5)]), Some((Color::Gray, Some([4, 5]))));
        assert_eq!(suggested(&[Some(1), Some(3), None, None]), Some((Color::Rgb, None)));
        assert_eq!(suggested(&[Some(1), Some(2), Some(4), Some(5)]), None);
        assert_eq!(suggested(&[Some(1), Some(32)]), None);
    }
}
