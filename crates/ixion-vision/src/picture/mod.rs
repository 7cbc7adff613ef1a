//! Pictures: PNG and JPEG files, and conversion between pictures and tensors.

mod decode;
mod encode;
mod orientation;
mod preprocess;
mod resize;

pub use preprocess::{Fit, Placement, Preprocess, letterboxed, surround};
pub use resize::Filter;

use ixion_tensor::{DType, Result, Tensor, TensorError};
use ndarray::Array2;
use serde::Deserialize;

/// The colour model of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Color {
    /// One channel of luma.
    Gray,
    /// Red, green and blue.
    Rgb,
}

impl Color {
    /// The number of channels.
    pub const fn channels(self) -> usize {
        match self {
            Color::Gray => 1,
            Color::Rgb => 3,
        }
    }
}

/// An image with 8 bits per channel, grey or RGB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    height: usize,
    width: usize,
    color: Color,
    /// Row by row, channels interleaved.
    pixels: Vec<u8>,
}

impl Picture {
    /// A picture from pixel values: row by row, channels interleaved.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] for a picture without pixels, [`TensorError::ShapeMismatch`] unless there are
    /// height × width × channels values.
    pub fn new(height: usize, width: usize, color: Color, pixels: Vec<u8>) -> Result<Self> {
        if height == 0 || width == 0 {
            return Err(TensorError::InvalidArgument(format!("a picture of {height}×{width} has no pixels")));
        }
        let wanted = height.checked_mul(width).and_then(|area| area.checked_mul(color.channels()));
        if wanted != Some(pixels.len()) {
            return Err(TensorError::ShapeMismatch {
                operation: "picture",
                wanted: vec![height, width, color.channels()],
                found: vec![pixels.len()],
            });
        }
        Ok(Self { height, width, color, pixels })
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The colour model.
    pub fn color(&self) -> Color {
        self.color
    }

    /// The number of channels, 1 or 3.
    pub fn channels(&self) -> usize {
        self.color.channels()
    }

    /// All values: row by row, channels interleaved.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Converts to another colour model. Grey is the luma of ITU-R BT.601, rounded as in Pillow's `convert("L")`.
    #[must_use]
    pub fn to_color(&self, color: Color) -> Self {
        let pixels = match (self.color, color) {
            (Color::Rgb, Color::Gray) => self.pixels.chunks_exact(3).map(luma).collect(),
            (Color::Gray, Color::Rgb) => self.pixels.iter().flat_map(|&value| [value; 3]).collect(),
            _ => self.pixels.clone(),
        };
        Self { color, pixels, ..*self }
    }

    /// One channel as values from 0 to 255.
    fn plane(&self, channel: usize) -> Array2<f32> {
        let values = self.pixels.iter().skip(channel).step_by(self.channels());
        let mut values = values.map(|&value| f32::from(value));
        Array2::from_shape_simple_fn((self.height, self.width), || values.next().unwrap_or_default())
    }

    /// The pixels as a `u8` tensor of shape 1 × channels × height × width.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`].
    pub fn to_tensor(&self) -> Result<Tensor> {
        let pixels = Tensor::from_vec(self.pixels.clone(), &[1, self.height, self.width, self.channels()])?;
        pixels.permute(&[0, 3, 1, 2])?.contiguous()
    }

    /// A picture from a tensor of shape channels × rows × columns with one or three channels (leading axes of length 1 are
    /// ignored): `u8` from 0 to 255, or floats from 0 to 1, which are rounded and clamped; NaN is black.
    ///
    /// # Errors
    /// [`TensorError::UndefinedFor`] for other element types, [`TensorError::InvalidArgument`] for other shapes.
    pub fn from_tensor(tensor: &Tensor) -> Result<Self> {
        let tensor = match tensor.dtype() {
            DType::U8 => tensor.clone(),
            dtype if dtype.is_float() => {
                let shades = tensor.cast(DType::F32)?.map(|value: f32| (value * 255.0).round())?;
                shades.cast(DType::U8)?
            }
            dtype => {
                return Err(TensorError::UndefinedFor {
                    operation: "a picture",
                    dtype,
                    advice: "`cast` to u8 (0 to 255) or f32 (0 to 1) first",
                });
            }
        };
        let cube = tensor.cube::<u8>()?;
        let (channels, height, width) = cube.dim();
        let color = match channels {
            1 => Color::Gray,
            3 => Color::Rgb,
            _ => {
                return Err(TensorError::InvalidArgument(format!(
                    "expected 1 or 3 channels for a picture, got {channels} (shape {:?})",
                    tensor.shape()
                )));
            }
        };
        let by_pixel = cube.permuted_axes([1, 2, 0]);
        Self::new(height, width, color, by_pixel.iter().copied().collect())
    }
}

/// Pillow's weights for red, green and blue, in 65536ths.
fn luma(pixel: &[u8]) -> u8 {
    let weighted = pixel.iter().zip([19595, 38470, 7471]).map(|(&value, weight)| u32::from(value) * weight);
    ((weighted.sum::<u32>() + 0x8000) >> 16) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Limits;

    fn rainbow() -> Picture {
        let pixels = [[10, 200, 30], [255, 255, 255], [1, 2, 3], [255, 0, 0], [0, 255, 0], [77, 13, 201]];
        Picture::new(2, 3, Color::Rgb, pixels.concat()).unwrap()
    }

    #[test]
    fn grey_matches_pillow() {
        // Pillow 13.0.0: Image.convert("L").
        assert_eq!(rainbow().to_color(Color::Gray).pixels(), [124, 255, 2, 76, 150, 54]);
        let grey = rainbow().to_color(Color::Gray);
        assert_eq!(grey.to_color(Color::Rgb).to_color(Color::Gray), grey);
    }

    #[test]
    fn tensors_and_files_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.png");
        let tensor = rainbow().to_tensor().unwrap();
        assert_eq!((tensor.shape().dims(), tensor.at::<u8>(1, 0, 0).unwrap()), (&[1, 3, 2, 3][..], 200));
        Picture::from_tensor(&tensor).unwrap().save_png(&path).unwrap();
        assert_eq!(Picture::load(&path, &Limits::default()).unwrap(), rainbow());
        let (floats, _) = Preprocess::default().prepare(&rainbow(), &Limits::default()).unwrap();
        assert_eq!(Picture::from_tensor(&floats).unwrap(), rainbow());
        assert_eq!(Picture::from_tensor(&floats.cast(DType::F64).unwrap()).unwrap(), rainbow());
        let odd = Tensor::from_vec(vec![-1.0f32, 2.0, f32::NAN, 0.5], &[2, 2]).unwrap();
        assert_eq!(Picture::from_tensor(&odd).unwrap().pixels(), [0, 255, 0, 128]);
        assert!(Picture::from_tensor(&Tensor::zeros(DType::I32, &[2, 2]).unwrap()).is_err());
        assert!(Picture::from_tensor(&Tensor::zeros(DType::U8, &[2, 2, 2]).unwrap()).is_err());
        std::fs::write(&path, b"text").unwrap();
        assert!(
            Picture::load(&path, &Limits::default())
                .unwrap_err()
                .to_string()
                .contains("x.png: not a valid PNG")
        );
    }
}
