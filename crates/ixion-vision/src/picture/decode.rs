//! Reading of PNG and JPEG files.

use super::orientation::Orientation;
use super::{Color, Picture};
use ixion_tensor::file::{in_file, io_error, open};
use ixion_tensor::{Limits, Result, TensorError};
use std::fmt::Display;
use std::io::{Cursor, Read};
use std::path::Path;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";

/// The maximum size of a file.
const MAX_FILE_BYTES: u64 = 1 << 30;

impl Picture {
    /// Reads a PNG or JPEG file; the format is determined by the contents, not the name.
    ///
    /// Transparent pixels are composited over white, as most viewers show them. The Exif orientation is applied, so that the
    /// picture is upright. 16-bit values are rounded to 8 bits.
    ///
    /// # Errors
    /// Returns an error if the file is missing or broken, or if its size exceeds 1 GiB or `limits`, which is checked before
    /// anything is decoded. The error names the file.
    pub fn load(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let path = path.as_ref();
        let load = || {
            let (file, len) = open(path)?;
            limits.check_tensor("the file", len.unwrap_or(0))?;
            let mut bytes = Vec::new();
            // A device may have no end.
            let most = limits.max_tensor_bytes.min(MAX_FILE_BYTES).saturating_add(1);
            file.take(most).read_to_end(&mut bytes).map_err(io_error("read"))?;
            if bytes.len() as u64 > MAX_FILE_BYTES {
                return Err(malformed("it is larger than 1 GiB"));
            }
            Self::from_bytes(&bytes, limits)
        };
        in_file(path, load())
    }

    /// Decodes the bytes of a PNG or JPEG file, as [`Picture::load`] does.
    ///
    /// # Errors
    /// As [`Picture::load`].
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self> {
        if bytes.starts_with(PNG) {
            png(bytes, limits)
        } else if bytes.starts_with(JPEG) {
            jpeg(bytes, limits)
        } else {
            Err(malformed("it has the signature of neither"))
        }
    }
}

/// The decoded values of a file: row by row, channels interleaved.
struct Raw {
    height: usize,
    width: usize,
    /// From 1 to 4: grey or RGB, without or with alpha.
    channels: usize,
    values: Vec<u8>,
    orientation: Orientation,
}

impl Raw {
    fn into_picture(self) -> Result<Picture> {
        let (color, pixels) = match self.channels {
            1 => (Color::Gray, self.values),
            2 => (Color::Gray, over_white(&self.values, 2)),
            3 => (Color::Rgb, self.values),
            _ => (Color::Rgb, over_white(&self.values, 4)),
        };
        Ok(self.orientation.upright(Picture::new(self.height, self.width, color, pixels)?))
    }
}

fn png(bytes: &[u8], limits: &Limits) -> Result<Picture> {
    let most = usize::try_from(limits.max_tensor_bytes).unwrap_or(usize::MAX);
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: most });
    // Expands palettes to colours and fewer than 8 bits to 8; 16 bits are kept and rounded below.
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(malformed)?;
    let (width, height) = reader.info().size();
    let (color, depth) = reader.output_color_type();
    let bytes = if depth == png::BitDepth::Sixteen { 2 } else { 1 };
    check_size(width.into(), height.into(), color.samples() * bytes, limits)?;
    let orientation = reader.info().exif_metadata.as_deref().map(Orientation::from_exif).unwrap_or_default();
    let size = reader.output_buffer_size().ok_or_else(|| malformed("it is too large for memory"))?;
    let mut values = vec![0; size];
    reader.next_frame(&mut values).map_err(malformed)?;
    if bytes == 2 {
        values = values.chunks_exact(2).map(rounded).collect();
    }
    let (height, width) = (height as usize, width as usize);
    Raw { height, width, channels: color.samples(), values, orientation }.into_picture()
}

fn jpeg(bytes: &[u8], limits: &Limits) -> Result<Picture> {
    if !has_end(bytes) {
        return Err(malformed("the JPEG ends too early: its end marker is missing"));
    }
    let lenient = DecoderOptions::default().set_strict_mode(false);
    let options = lenient.set_max_width(usize::MAX).set_max_height(usize::MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(malformed)?;
    let (Some((width, height)), Some(stored)) = (decoder.dimensions(), decoder.input_colorspace()) else {
        return Err(malformed("the JPEG has no header"));
    };
    let (space, channels) = match stored {
        ColorSpace::Luma => (stored, 1),
        ColorSpace::LumaA => (stored, 2),
        ColorSpace::RGBA => (stored, 4),
        _ => (ColorSpace::RGB, 3),
    };
    check_size(width as u64, height as u64, channels, limits)?;
    let orientation = decoder.exif().map(|exif| Orientation::from_exif(exif)).unwrap_or_default();
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let values = decoder.decode().map_err(malformed)?;
    Raw { height, width, channels, values, orientation }.into_picture()
}

/// Checks a size before anything is decoded. At least four bytes per pixel are assumed, because later one channel at a time
/// is converted to f32.
fn check_size(width: u64, height: u64, bytes_per_pixel: usize, limits: &Limits) -> Result<()> {
    let bytes = width.saturating_mul(height).saturating_mul(bytes_per_pixel.max(4) as u64);
    Ok(limits.check_tensor("the picture", bytes)?)
}

/// Rounds a big-endian 16-bit value, as PNG stores it, to 8 bits.
fn rounded(value: &[u8]) -> u8 {
    let value = value.iter().fold(0, |value, &byte| value << 8 | u32::from(byte));
    ((value + 128) / 257) as u8
}

/// Returns true if a JPEG has its end marker; the decoder would fill in the rest of a truncated picture. Data after the end,
/// such as the video of a motion photo, are ignored.
fn has_end(mut jpeg: &[u8]) -> bool {
    const END: u8 = 0xD9;
    // In a scan, FF00 is an escaped FF, and FFD0 to FFD7 are restart markers.
    let marker = |(at, pair): (usize, &[u8])| match pair {
        [0xFF, 0x00 | 0x01 | 0xD0..=0xD8 | 0xFF] => None,
        [0xFF, marker] => Some((at, *marker)),
        _ => None,
    };
    while let Some((at, marker)) = jpeg.windows(2).enumerate().find_map(marker) {
        if marker == END {
            return true;
        }
        let Some(&[_, _, high, low]) = jpeg.get(at..at + 4) else { break };
        let Some(rest) = jpeg.get(at + 2 + usize::from(u16::from_be_bytes([high, low]))..) else { break };
        jpeg = rest;
    }
    false
}

/// Composites the pixels over white and drops the alpha channel, which is the last.
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

fn malformed(problem: impl Display) -> TensorError {
    TensorError::Malformed { format: "PNG or JPEG picture", problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rainbow() -> Picture {
        let pixels = [[10, 200, 30], [255, 255, 255], [1, 2, 3], [255, 0, 0], [0, 255, 0], [77, 13, 201]];
        Picture::new(2, 3, Color::Rgb, pixels.concat()).unwrap()
    }

    fn png(pixels: &[u8], width: u32, height: u32, color: png::ColorType, depth: png::BitDepth) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
        bytes
    }

    fn jpeg(pixels: &[u8], side: u16) -> Vec<u8> {
        jpeg_in_scans(pixels, side, false)
    }

    fn jpeg_in_scans(pixels: &[u8], side: u16, progressive: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 95);
        encoder.set_progressive(progressive);
        encoder.encode(pixels, side, side, jpeg_encoder::ColorType::Luma).unwrap();
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Picture> {
        Picture::from_bytes(bytes, &Limits::default())
    }

    #[test]
    fn pngs_of_every_kind() {
        let x = decode(&png(rainbow().pixels(), 3, 2, png::ColorType::Rgb, png::BitDepth::Eight)).unwrap();
        assert_eq!(x, rainbow());
        let grey =
            decode(&png(&[0, 100, 200], 1, 3, png::ColorType::Grayscale, png::BitDepth::Eight)).unwrap();
        assert_eq!(
            (grey.height(), grey.width(), grey.color(), grey.pixels()),
            (3, 1, Color::Gray, &[0, 100, 200][..])
        );
        let deep: Vec<u8> = [0u16, 257 * 9, 65535].iter().flat_map(|v| v.to_be_bytes()).collect();
        assert_eq!(
            decode(&png(&deep, 3, 1, png::ColorType::Grayscale, png::BitDepth::Sixteen)).unwrap().pixels(),
            [0, 9, 255]
        );
    }

    #[test]
    fn transparency_is_composited_over_white() {
        let x = decode(&png(
            &[1, 2, 3, 255, 1, 2, 3, 0, 0, 100, 255, 51],
            3,
            1,
            png::ColorType::Rgba,
            png::BitDepth::Eight,
        ))
        .unwrap();
        assert_eq!(x.pixels(), [1, 2, 3, 255, 255, 255, 204, 224, 255]);
        let grey = decode(&png(&[7, 255, 7, 0], 2, 1, png::ColorType::GrayscaleAlpha, png::BitDepth::Eight))
            .unwrap();
        assert_eq!((grey.color(), grey.pixels()), (Color::Gray, &[7, 255][..]));
    }

    #[test]
    fn jpegs_are_turned_upright() {
        // Left half black, right half white.
        let pixels: Vec<u8> = (0..16 * 16).map(|i| if i % 16 < 8 { 0 } else { 255 }).collect();
        let bytes = jpeg(&pixels, 16);
        let x = decode(&bytes).unwrap();
        assert_eq!((x.height(), x.width(), x.color()), (16, 16, Color::Gray));
        assert!(x.pixels().iter().zip(&pixels).all(|(got, want)| got.abs_diff(*want) < 16));
        // Exif orientation 6: rotate by 90 degrees clockwise.
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
    fn a_truncated_jpeg_is_an_error() {
        let pixels: Vec<u8> = (0..64 * 64).map(|i| (i * 37 % 251) as u8).collect();
        let mut bytes = jpeg(&pixels, 64);
        let error = decode(&bytes[..bytes.len() * 7 / 10]).unwrap_err().to_string();
        assert!(error.contains("ends too early"), "{error}");
        // Data after the end are ignored, even if they contain a scan.
        bytes.extend(b"\0\0ftypmp42\xff\xda\xff\x01\0\0");
        decode(&bytes).unwrap();
    }

    #[test]
    fn broken_and_oversized_pictures_are_errors() {
        let whole = png(rainbow().pixels(), 3, 2, png::ColorType::Rgb, png::BitDepth::Eight);
        for len in 0..whole.len() - 12 {
            assert!(decode(&whole[..len]).is_err(), "{len}");
        }
        assert!(decode(b"GIF89a").unwrap_err().to_string().contains("neither"));
        let small = Limits { max_tensor_bytes: 23, ..Limits::default() };
        let error = Picture::from_bytes(&whole, &small).unwrap_err();
        assert!(matches!(error, TensorError::Limit(_)), "{error}");
        // A header with 2^31 − 1 pixels in each direction.
        let mut bomb = whole;
        bomb[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
        let crc = crc32fast::hash(&bomb[12..29]).to_be_bytes();
        bomb[29..33].copy_from_slice(&crc);
        assert!(decode(&bomb).is_err());
        assert!(Picture::new(0, 1, Color::Gray, vec![]).is_err());
        assert!(Picture::new(1, 1, Color::Rgb, vec![0]).is_err());
    }

    /// Files of each kind with a few bytes changed, removed or inserted.
    fn mutants() -> impl Strategy<Value = Vec<u8>> {
        let pixels: Vec<u8> = (0..32 * 32).map(|i| (i * 37 % 251) as u8).collect();
        let whole = prop_oneof![
            Just(jpeg(&pixels, 32)),
            Just(jpeg_in_scans(&pixels, 32, true)),
            Just(png(&pixels, 32, 32, png::ColorType::Grayscale, png::BitDepth::Eight)),
        ];
        let change = (any::<prop::sample::Index>(), any::<u8>(), 0..4);
        (whole, prop::collection::vec(change, 1..8)).prop_map(|(mut bytes, changes)| {
            for (place, value, kind) in changes {
                let place = place.index(bytes.len());
                match kind {
                    0 => drop(bytes.remove(place)),
                    1 => bytes.insert(place, value),
                    _ => bytes[place] = value,
                }
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(cases()))]
        #[test]
        fn mutants_end_in_a_picture_or_an_error(bytes in mutants()) {
            let limits = Limits { max_tensor_bytes: 1 << 20, ..Limits::default() };
            _ = Picture::from_bytes(&bytes, &limits);
        }
    }

    fn cases() -> u32 {
        std::env::var("IXION_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(500)
    }
}
