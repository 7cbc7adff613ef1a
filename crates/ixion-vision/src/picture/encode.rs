//! Writes PNG files, including indexed ones with a palette.

use super::{Color, Picture};
use ixion_tensor::file::{in_file, io_error, write_atomically};
use ixion_tensor::{Result, TensorError};
use std::io::{self, Write};
use std::path::Path;

impl Picture {
    /// Writes a PNG file atomically: to a temporary file in the same folder, which is then renamed.
    ///
    /// # Errors
    /// [`TensorError::Io`] if writing fails. The error names the file.
    pub fn save_png(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let color = match self.color {
            Color::Gray => png::ColorType::Grayscale,
            Color::Rgb => png::ColorType::Rgb,
        };
        in_file(path, write_atomically(path, |writer| self.write_png(writer, color, None)))
    }

    /// Writes a grey picture as an indexed PNG file: its values are indices into `palette` (red, green and blue). Readers
    /// that ask for indices get them, all others get the colours. The file is written atomically.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] for a colour picture, more than 256 colours, or a value without a colour;
    /// [`TensorError::Io`] if writing fails. The latter error names the file.
    pub fn save_indexed_png(&self, path: impl AsRef<Path>, palette: &[[u8; 3]]) -> Result<()> {
        let path = path.as_ref();
        let largest = self.pixels.iter().copied().max().unwrap_or(0);
        if self.color != Color::Gray || palette.len() > 256 || usize::from(largest) >= palette.len() {
            let problem = format!(
                "indices up to {largest} in {:?} do not fit a palette of {} colours; expected a grey picture and a colour for \
                 each of its values, at most 256",
                self.color,
                palette.len()
            );
            return Err(TensorError::InvalidArgument(problem));
        }
        in_file(
            path,
            write_atomically(path, |writer| self.write_png(writer, png::ColorType::Indexed, Some(palette))),
        )
    }

    /// Writes a PNG file of 8 bits per channel.
    fn write_png(
        &self,
        writer: &mut dyn Write,
        color: png::ColorType,
        palette: Option<&[[u8; 3]]>,
    ) -> Result<()> {
        let broken = |error: png::EncodingError| io_error("write")(io::Error::other(error));
        let mut encoder = png::Encoder::new(writer, png_len(self.width)?, png_len(self.height)?);
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        if let Some(palette) = palette {
            encoder.set_palette(palette.concat());
        }
        let mut writer = encoder.write_header().map_err(broken)?;
        writer.write_image_data(&self.pixels).map_err(broken)?;
        writer.finish().map_err(broken)
    }
}

/// A side length as stored in a PNG file.
fn png_len(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| {
        TensorError::InvalidArgument(format!(
            "expected a side of at most {} pixels for a PNG, got {len}",
            u32::MAX
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Limits;

    #[test]
    fn indices_and_colours_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.png");
        let indices = Picture::new(2, 2, Color::Gray, vec![0, 1, 2, 1]).unwrap();
        let palette = [[9, 8, 7], [1, 2, 3], [255, 0, 255]];
        indices.save_indexed_png(&path, &palette).unwrap();
        let seen = Picture::load(&path, &Limits::default()).unwrap();
        assert_eq!(seen.pixels(), [9, 8, 7, 1, 2, 3, 255, 0, 255, 1, 2, 3]);
        let file = io::BufReader::new(std::fs::File::open(&path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        assert_eq!(reader.info().color_type, png::ColorType::Indexed);
        let mut raw = [0; 4];
        reader.next_frame(&mut raw).unwrap();
        assert_eq!(raw, [0, 1, 2, 1]);
    }

    #[test]
    fn every_value_needs_a_colour() {
        let refused = |picture: &Picture, palette: &[[u8; 3]]| {
            picture.save_indexed_png("no/such/folder/x.png", palette).unwrap_err().to_string()
        };
        let grey = Picture::new(1, 1, Color::Gray, vec![2]).unwrap();
        assert!(refused(&grey, &[[0; 3]; 2]).starts_with("indices up to 2"));
        assert!(refused(&grey, &[[0; 3]; 257]).contains("257 colours"));
        assert!(refused(&grey, &[[0; 3]; 3]).starts_with("no/such/folder/x.png: "));
        assert!(refused(&grey.to_color(Color::Rgb), &[[0; 3]; 3]).contains("Rgb"));
    }
}
