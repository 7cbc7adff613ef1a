//! Class maps: the class of each pixel of a picture.

use crate::error::Result;
use crate::{Color, Picture};
use crate::{VisionError, color_of};
use std::path::Path;

// ANCHOR: void
/// The value for "no class", as in the masks of PASCAL VOC.
pub const VOID: u8 = 255;
// ANCHOR_END: void

/// The class of each pixel of a picture, from 0 to 254, or [`VOID`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassMap {
    height: usize,
    width: usize,
    classes: Vec<u8>,
}

impl ClassMap {
    /// A map from classes in row-major order.
    ///
    /// # Errors
    /// [`VisionError::InvalidArgument`] if `classes` is empty or its length is not height × width.
    pub fn new(height: usize, width: usize, classes: Vec<u8>) -> Result<Self> {
        if classes.is_empty() || height.checked_mul(width) != Some(classes.len()) {
            let found = classes.len();
            let problem = format!(
                "expected a class for each pixel of a map of {height}×{width}, and at least one, got {found}"
            );
            return Err(VisionError::InvalidArgument(problem));
        }
        Ok(Self { height, width, classes })
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The classes in row-major order.
    pub fn classes(&self) -> &[u8] {
        &self.classes
    }

    /// The classes that occur, in ascending order, each with its number of pixels; [`VOID`] comes last.
    pub fn counts(&self) -> Vec<(u8, usize)> {
        let mut counts = [0usize; 256];
        for &class in &self.classes {
            counts[usize::from(class)] += 1;
        }
        (0..=VOID).zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    /// Writes the map as an indexed PNG whose pixel values are the classes. The palette has the colour of each class
    /// ([`color_of`]); the background is black and [`VOID`] white.
    ///
    /// # Errors
    /// [`VisionError::Tensor`], with the name of the file, if it cannot be written.
    pub fn save_png(&self, path: impl AsRef<Path>, colors: &[[u8; 3]], background: Option<u8>) -> Result<()> {
        let color = |class: u8| match class {
            VOID => [255; 3],
            class if Some(class) == background => [0; 3],
            class => color_of(colors, class.into()),
        };
        let palette: Vec<[u8; 3]> = (0..=VOID).map(color).collect();
        let indices = Picture::new(self.height, self.width, Color::Gray, self.classes.clone())?;
        Ok(indices.save_indexed_png(path, &palette)?)
    }
}
