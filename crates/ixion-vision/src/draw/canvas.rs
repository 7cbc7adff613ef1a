//! A canvas to draw on.

use crate::{Color, Picture};
use ixion_tensor::Result;

/// Pictures with both sides below this number of pixels are enlarged before drawing.
const SMALL: usize = 256;
/// The minimum length in pixels of an enlarged picture's longer side.
const ENLARGED: usize = 512;

/// An RGB picture to draw on.
pub(super) struct Canvas {
    height: usize,
    width: usize,
    /// The factor by which the picture was enlarged: the number of repetitions of each row and column.
    pub(super) factor: usize,
    pixels: Vec<u8>,
}

/// A rectangle in integer pixels; it may extend beyond the canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) left: i64,
    pub(super) top: i64,
    pub(super) right: i64,
    pub(super) bottom: i64,
}

impl Area {
    /// The number of pixels in the intersection.
    pub(super) fn common(&self, other: &Area) -> i64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0) * height.max(0)
    }
}

impl Canvas {
    /// A copy of a picture, enlarged if small so that text is legible.
    pub(super) fn new(picture: &Picture) -> Self {
        let longer = picture.height().max(picture.width());
        let factor = if longer < SMALL { ENLARGED.div_ceil(longer) } else { 1 };
        let (height, width) = (picture.height() * factor, picture.width() * factor);
        let picture = picture.to_color(Color::Rgb);
        let mut pixels = Vec::with_capacity(height * width * 3);
        for row in picture.pixels().chunks_exact(picture.width() * 3) {
            for _ in 0..factor {
                row.chunks_exact(3)
                    .for_each(|pixel| (0..factor).for_each(|_| pixels.extend_from_slice(pixel)));
            }
        }
        Self { height, width, factor, pixels }
    }

    pub(super) fn into_picture(self) -> Result<Picture> {
        Picture::new(self.height, self.width, Color::Rgb, self.pixels)
    }

    pub(super) fn height(&self) -> i64 {
        self.height as i64
    }

    pub(super) fn width(&self) -> i64 {
        self.width as i64
    }

    /// The mean of height and width, to which the sizes of lines and letters are relative.
    pub(super) fn size(&self) -> usize {
        (self.height + self.width) / 2
    }

    /// The line width in pixels.
    pub(super) fn line(&self) -> i64 {
        (self.size() as f64 * 0.004).round().max(2.0) as i64
    }

    /// Blends a colour into a pixel: opacity 0 leaves it, 255 replaces it. Pixels outside the canvas are ignored.
    pub(super) fn mix(&mut self, row: i64, col: i64, color: [u8; 3], opacity: u8) {
        let (Ok(row), Ok(col)) = (usize::try_from(row), usize::try_from(col)) else { return };
        if row >= self.height || col >= self.width {
            return;
        }
        let start = (row * self.width + col) * 3;
        let opacity = u32::from(opacity);
        for (value, color) in self.pixels.iter_mut().skip(start).take(3).zip(color) {
            *value = ((u32::from(*value) * (255 - opacity) + u32::from(color) * opacity + 127) / 255) as u8;
        }
    }

    /// Blends a colour into every pixel of an area.
    pub(super) fn fill(&mut self, area: Area, color: [u8; 3], opacity: u8) {
        for row in area.top.max(0)..area.bottom.min(self.height()) {
            for col in area.left.max(0)..area.right.min(self.width()) {
                self.mix(row, col, color, opacity);
            }
        }
    }

    /// Blends a colour into a border of the given thickness along the inside of an area.
    pub(super) fn outline(&mut self, area: Area, thickness: i64, color: [u8; 3], opacity: u8) {
        let Area { left, top, right, bottom } = area;
        let upper = (top + thickness).min(bottom);
        let lower = (bottom - thickness).max(upper);
        self.fill(Area { bottom: upper, ..area }, color, opacity);
        self.fill(Area { top: lower, ..area }, color, opacity);
        let middle = Area { top: upper, bottom: lower, ..area };
        let inner = (left + thickness).min(right);
        self.fill(Area { right: inner, ..middle }, color, opacity);
        self.fill(Area { left: (right - thickness).max(inner), ..middle }, color, opacity);
    }
}
