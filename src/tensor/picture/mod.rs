//! Pictures: PNG and JPEG files, and the way from a picture to a tensor and back.

mod indexed;
mod preprocess;
mod resize;

pub use preprocess::{Fit, Placement, Preprocess, letterboxed, surround};
pub use resize::Filter;

use super::file::{in_file, io_error, open, write_atomically};
use super::{DType, Result, Tensor, TensorError};
use crate::Limits;
use image::codecs::png::PngEncoder;
use image::{DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageFormat, ImageReader};
use indexed::png_len;
use ndarray::Array2;
use serde::Deserialize;
use std::io::{Cursor, Read};
use std::path::Path;

/// What the channels of a picture mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Color {
    /// One channel of brightness.
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

/// A picture of 8 bits per channel, grey or in colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    height: usize,
    width: usize,
    color: Color,
    /// Row by row, the channels of a pixel side by side.
    pixels: Vec<u8>,
}

/// Whether the last scan of a JPEG is followed by its end; what decodes it makes up the rest of a picture that was cut off.
fn has_end(jpeg: &[u8]) -> bool {
    const SCAN: [u8; 2] = [0xFF, 0xDA];
    const END: [u8; 2] = [0xFF, 0xD9];
    let last = |marker: [u8; 2]| jpeg.windows(2).rposition(|bytes| bytes == marker);
    last(END) > last(SCAN)
}

impl Picture {
    /// A picture of given pixels: row by row, the channels of a pixel side by side.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] for a picture without pixels, [`TensorError::ShapeMismatch`] when there are not
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

    /// Reads a PNG or JPEG file; the bytes decide which, not the name.
    ///
    /// Transparent pixels are laid over white, as most viewers show them. A JPEG is turned upright as its camera noted. 16
    /// bits are rounded to 8.
    ///
    /// # Errors
    /// A missing or broken file, or a size above `limits`, which is checked before anything is decoded. The error names
    /// the file.
    pub fn load(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let path = path.as_ref();
        let load = || {
            let (file, len) = open(path)?;
            limits.check_tensor("the file", len.unwrap_or(0))?;
            let mut bytes = Vec::new();
            let most = limits.max_tensor_bytes.saturating_add(1);
            file.take(most).read_to_end(&mut bytes).map_err(io_error("read"))?;
            Self::from_bytes(&bytes, limits)
        };
        in_file(path, load())
    }

    /// Decodes the bytes of a PNG or JPEG file, as [`Picture::load`] does.
    ///
    /// # Errors
    /// As [`Picture::load`].
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
        let mut reader = reader.map_err(io_error("read"))?;
        if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
            return Err(malformed("its first bytes are those of neither"));
        }
        if reader.format() == Some(ImageFormat::Jpeg) && !has_end(bytes) {
            return Err(malformed("the JPEG ends too early: its end marker is missing"));
        }
        let mut bounds = image::Limits::no_limits();
        bounds.max_alloc = Some(limits.max_tensor_bytes);
        reader.limits(bounds);
        let mut decoder = reader.into_decoder().map_err(|error| malformed(error.to_string()))?;
        let (width, height) = decoder.dimensions();
        // Later one channel at a time becomes f32: four bytes for each pixel, if the file has no more.
        let bytes = u64::from(width).saturating_mul(height.into()).saturating_mul(4);
        limits.check_tensor("the picture", bytes.max(decoder.total_bytes()))?;
        let orientation = decoder.orientation().map_err(|error| malformed(error.to_string()))?;
        let mut image = DynamicImage::from_decoder(decoder).map_err(|error| malformed(error.to_string()))?;
        image.apply_orientation(orientation);
        Self::from_image(image)
    }

    fn from_image(image: DynamicImage) -> Result<Self> {
        let (height, width) = (image.height() as usize, image.width() as usize);
        let (color, pixels) = match (image.color().has_color(), image.color().has_alpha()) {
            (false, false) => (Color::Gray, image.into_luma8().into_raw()),
            (true, false) => (Color::Rgb, image.into_rgb8().into_raw()),
            (false, true) => (Color::Gray, over_white(&image.into_luma_alpha8().into_raw(), 2)),
            (true, true) => (Color::Rgb, over_white(&image.into_rgba8().into_raw(), 4)),
        };
        Self::new(height, width, color, pixels)
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// What the channels mean.
    pub fn color(&self) -> Color {
        self.color
    }

    /// The number of channels, 1 or 3.
    pub fn channels(&self) -> usize {
        self.color.channels()
    }

    /// All values: row by row, the channels of a pixel side by side.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The same picture in other colours. Grey is the luma of ITU-R BT.601, rounded as Pillow's `convert("L")` does.
    #[must_use]
    pub fn to_color(&self, color: Color) -> Self {
        let pixels = match (self.color, color) {
            (Color::Rgb, Color::Gray) => self.pixels.chunks_exact(3).map(luma).collect(),
            (Color::Gray, Color::Rgb) => self.pixels.iter().flat_map(|&value| [value; 3]).collect(),
            _ => self.pixels.clone(),
        };
        Self { color, pixels, ..*self }
    }

    /// One channel as numbers from 0 to 255.
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

    /// The picture in a tensor of one or three channels, rows and columns (leading axes of length 1 do not count): `u8`
    /// from 0 to 255, or floats from 0 to 1, which are rounded; what lies outside is cut off, and NaN is black.
    ///
    /// # Errors
    /// [`TensorError::UndefinedFor`] other element types, [`TensorError::InvalidArgument`] for other shapes.
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
                    "a picture has 1 or 3 channels, not the {channels} of shape {:?}",
                    tensor.shape()
                )));
            }
        };
        let by_pixel = cube.permuted_axes([1, 2, 0]);
        Self::new(height, width, color, by_pixel.iter().copied().collect())
    }

    /// Writes a PNG file: to a file beside it first, which then takes its place.
    ///
    /// # Errors
    /// [`TensorError::Io`] with the name of the file.
    pub fn save_png(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let color = match self.color {
            Color::Gray => ExtendedColorType::L8,
            Color::Rgb => ExtendedColorType::Rgb8,
        };
        let write = |writer: &mut dyn std::io::Write| {
            let encoder = PngEncoder::new(writer);
            let encoded =
                encoder.write_image(&self.pixels, png_len(self.width)?, png_len(self.height)?, color);
            encoded.map_err(|error| io_error("write")(std::io::Error::other(error)))
        };
        in_file(path, write_atomically(path, write))
    }
}

/// Pillow's weights for red, green and blue, in 65536ths.
fn luma(pixel: &[u8]) -> u8 {
    let weighted = pixel.iter().zip([19595, 38470, 7471]).map(|(&value, weight)| u32::from(value) * weight);
    ((weighted.sum::<u32>() + 0x8000) >> 16) as u8
}

/// Drops the last channel, how opaque a pixel is, by laying the others over white.
fn over_white(pixels: &[u8], channels: usize) -> Vec<u8> {
    let mut result = Vec::with_capacity(pixels.len() / channels * (channels - 1));
    for pixel in pixels.chunks_exact(channels) {
        let Some((&alpha, values)) = pixel.split_last() else {
            continue;
        };
        let alpha = u32::from(alpha);
        let blend = |&value: &u8| ((u32::from(value) * alpha + 255 * (255 - alpha) + 127) / 255) as u8;
        result.extend(values.iter().map(blend));
    }
    result
}

fn malformed(problem: impl Into<String>) -> TensorError {
    TensorError::Malformed { format: "PNG or JPEG picture", problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::codecs::jpeg::JpegEncoder;

    fn rainbow() -> Picture {
        let pixels = [[10, 200, 30], [255, 255, 255], [1, 2, 3], [255, 0, 0], [0, 255, 0], [77, 13, 201]];
        Picture::new(2, 3, Color::Rgb, pixels.concat()).unwrap()
    }

    fn png(pixels: &[u8], width: u32, height: u32, color: ExtendedColorType) -> Vec<u8> {
        let mut bytes = Vec::new();
        PngEncoder::new(&mut bytes).write_image(pixels, width, height, color).unwrap();
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Picture> {
        Picture::from_bytes(bytes, &Limits::default())
    }

    #[test]
    fn grey_is_that_of_pillow() {
        // Pillow 13.0.0: Image.convert("L").
        assert_eq!(rainbow().to_color(Color::Gray).pixels(), [124, 255, 2, 76, 150, 54]);
        let grey = rainbow().to_color(Color::Gray);
        assert_eq!(grey.to_color(Color::Rgb).to_color(Color::Gray), grey);
    }

    #[test]
    fn pngs_of_every_kind() {
        let x = decode(&png(rainbow().pixels(), 3, 2, ExtendedColorType::Rgb8)).unwrap();
        assert_eq!(x, rainbow());
        let grey = decode(&png(&[0, 100, 200], 1, 3, ExtendedColorType::L8)).unwrap();
        assert_eq!(
            (grey.height(), grey.width(), grey.color(), grey.pixels()),
            (3, 1, Color::Gray, &[0, 100, 200][..])
        );
        let deep: Vec<u8> = [0u16, 257 * 9, 65535].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(decode(&png(&deep, 3, 1, ExtendedColorType::L16)).unwrap().pixels(), [0, 9, 255]);
    }

    #[test]
    fn transparency_is_laid_over_white() {
        let x = decode(&png(&[1, 2, 3, 255, 1, 2, 3, 0, 0, 100, 255, 51], 3, 1, ExtendedColorType::Rgba8))
            .unwrap();
        assert_eq!(x.pixels(), [1, 2, 3, 255, 255, 255, 204, 224, 255]);
        let grey = decode(&png(&[7, 255, 7, 0], 2, 1, ExtendedColorType::La8)).unwrap();
        assert_eq!((grey.color(), grey.pixels()), (Color::Gray, &[7, 255][..]));
    }

    #[test]
    fn jpegs_are_turned_upright() {
        // Left half black, right half white.
        let pixels: Vec<u8> = (0..16 * 16).map(|i| if i % 16 < 8 { 0 } else { 255 }).collect();
        let mut bytes = Vec::new();
        JpegEncoder::new_with_quality(&mut bytes, 95)
            .write_image(&pixels, 16, 16, ExtendedColorType::L8)
            .unwrap();
        let x = decode(&bytes).unwrap();
        assert_eq!((x.height(), x.width(), x.color()), (16, 16, Color::Gray));
        assert!(x.pixels().iter().zip(&pixels).all(|(got, want)| got.abs_diff(*want) < 16));
        // The note of a camera that was held turned: rotate by 90 degrees clockwise.
        let mut note =
            b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
                .to_vec();
        let mut turned = bytes[..2].to_vec();
        turned.append(&mut note);
        turned.extend(&bytes[2..]);
        let turned = decode(&turned).unwrap();
        assert!(turned.pixels()[0] < 16 && turned.pixels()[15] < 16 && turned.pixels()[255] > 239);
    }

    #[test]
    fn a_jpeg_that_was_cut_off_is_an_error() {
        let mut bytes = Vec::new();
        let pixels: Vec<u8> = (0..64 * 64).map(|i| (i * 37 % 251) as u8).collect();
        JpegEncoder::new_with_quality(&mut bytes, 95)
            .write_image(&pixels, 64, 64, ExtendedColorType::L8)
            .unwrap();
        let error = decode(&bytes[..bytes.len() * 7 / 10]).unwrap_err().to_string();
        assert!(error.contains("ends too early"), "{error}");
        // What follows the end is of no concern.
        bytes.extend([0; 100]);
        decode(&bytes).unwrap();
    }

    #[test]
    fn broken_and_oversized_pictures_are_errors() {
        let whole = png(rainbow().pixels(), 3, 2, ExtendedColorType::Rgb8);
        for len in 0..whole.len() - 12 {
            assert!(decode(&whole[..len]).is_err(), "{len}");
        }
        assert!(decode(b"GIF89a").unwrap_err().to_string().contains("neither"));
        let small = Limits { max_tensor_bytes: 23, ..Limits::default() };
        let error = Picture::from_bytes(&whole, &small).unwrap_err();
        assert!(matches!(error, TensorError::Limit(_)), "{error}");
        // A header that promises 2^31 − 1 pixels in each direction.
        let mut bomb = whole;
        bomb[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
        let crc = crc32fast::hash(&bomb[12..29]).to_be_bytes();
        bomb[29..33].copy_from_slice(&crc);
        assert!(decode(&bomb).is_err());
        assert!(Picture::new(0, 1, Color::Gray, vec![]).is_err());
        assert!(Picture::new(1, 1, Color::Rgb, vec![0]).is_err());
    }

    #[test]
    fn tensors_and_files_both_ways() {
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
