//! The Exif orientation of a camera, and rotation of pictures to upright.

use super::Picture;

/// The `Orientation` tag of Exif 2.3, section 4.6.4: the visual position of the file's first row and column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Orientation(u16);

impl Default for Orientation {
    fn default() -> Self {
        Self(1)
    }
}

const TAG: u16 = 0x112;
const SHORT: u16 = 3;

impl Orientation {
    /// The orientation in an Exif block; upright if it is missing or invalid.
    pub(super) fn from_exif(exif: &[u8]) -> Self {
        find(exif).filter(|value| (1..=8).contains(value)).map(Self).unwrap_or_default()
    }

    /// Rotates and mirrors the picture to its upright position.
    pub(super) fn upright(self, picture: Picture) -> Picture {
        if self.0 == 1 {
            return picture;
        }
        let swaps = self.0 >= 5;
        let (from_below, from_right) = (matches!(self.0, 3 | 4 | 6 | 7), matches!(self.0, 2 | 3 | 7 | 8));
        let (rows, columns, channels) = (picture.height, picture.width, picture.channels());
        let (height, width) = if swaps { (columns, rows) } else { (rows, columns) };
        let mut pixels = Vec::with_capacity(picture.pixels.len());
        for y in 0..height {
            for x in 0..width {
                let (row, column) = if swaps { (x, y) } else { (y, x) };
                let row = if from_below { rows - 1 - row } else { row };
                let column = if from_right { columns - 1 - column } else { column };
                let at = (row * columns + column) * channels;
                pixels.extend(picture.pixels.get(at..at + channels).into_iter().flatten());
            }
        }
        Picture { height, width, pixels, ..picture }
    }
}

/// The value in the first directory of the block, which has the layout of a TIFF file.
fn find(exif: &[u8]) -> Option<u16> {
    let little = match exif.get(..4)? {
        b"II\x2a\0" => true,
        b"MM\0\x2a" => false,
        _ => return None,
    };
    let number = |at: usize, len: usize| {
        let bytes = exif.get(at..at.checked_add(len)?)?;
        let join = |value: u32, &byte: &u8| value << 8 | u32::from(byte);
        Some(if little { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) })
    };
    let directory = number(4, 4)? as usize;
    let count = number(directory, 2)? as usize;
    let entry = |index: usize| directory.checked_add(2 + 12 * index);
    let is_wanted = |&at: &usize| {
        let [tag, kind] = [0, 2].map(|offset| number(at + offset, 2));
        (tag, kind, number(at + 4, 4)) == (Some(TAG.into()), Some(SHORT.into()), Some(1))
    };
    let at = (0..count).map_while(entry).take_while(|&at| at < exif.len()).find(is_wanted)?;
    u16::try_from(number(at + 8, 2)?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Color;
    use super::*;

    fn block(little: bool, value: u8) -> Vec<u8> {
        let big = [b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".as_slice(), &[value, 0, 0]].concat();
        let small =
            [b"II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".as_slice(), &[value, 0, 0, 0]].concat();
        if little { small } else { big }
    }

    #[test]
    fn orientations_are_read_in_both_byte_orders() {
        for value in 1..=8 {
            for little in [false, true] {
                assert_eq!(Orientation::from_exif(&block(little, value)), Orientation(value.into()));
            }
        }
        for broken in [block(true, 9), block(true, 0), b"II\x2a\0\xff\xff\xff\xff".to_vec(), Vec::new()] {
            assert_eq!(Orientation::from_exif(&broken), Orientation::default());
        }
        let whole = block(false, 6);
        for len in 0..whole.len() - 2 {
            assert_eq!(Orientation::from_exif(&whole[..len]), Orientation::default(), "{len}");
        }
    }

    #[test]
    fn every_orientation_is_undone() {
        // The pixels as a camera in each orientation stores them of the picture
        //   1 2 3
        //   4 5 6
        let written: [(u16, usize, &[u8]); 8] = [
            (1, 2, &[1, 2, 3, 4, 5, 6]),
            (2, 2, &[3, 2, 1, 6, 5, 4]),
            (3, 2, &[6, 5, 4, 3, 2, 1]),
            (4, 2, &[4, 5, 6, 1, 2, 3]),
            (5, 3, &[1, 4, 2, 5, 3, 6]),
            (6, 3, &[3, 6, 2, 5, 1, 4]),
            (7, 3, &[6, 3, 5, 2, 4, 1]),
            (8, 3, &[4, 1, 5, 2, 6, 3]),
        ];
        for (value, height, pixels) in written {
            let file = Picture::new(height, 6 / height, Color::Gray, pixels.to_vec()).unwrap();
            let seen = Orientation(value).upright(file);
            assert_eq!((seen.height(), seen.pixels()), (2, &[1, 2, 3, 4, 5, 6][..]), "{value}");
        }
    }
}
