//! Labels: a line of text on a coloured background.

use super::canvas::{Area, Canvas};
use crate::palette::ink_on;
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster, get_raster_width};

/// The margin on each side of the text, in pixels.
const MARGIN: i64 = 2;
/// The replacement for letters that the font does not have.
const UNKNOWN: char = '?';

/// The font for a canvas.
#[derive(Debug, Clone, Copy)]
pub(super) struct Font {
    height: RasterHeight,
    /// The number of repetitions of each pixel of a letter.
    factor: usize,
}

impl Font {
    /// A font whose height is about 1/40 of the canvas, and at least 16 pixels.
    pub(super) fn of(canvas: &Canvas) -> Self {
        let wanted = canvas.size() / 40;
        let (height, factor) = match wanted {
            0..20 => (RasterHeight::Size16, 1),
            20..24 => (RasterHeight::Size20, 1),
            24..32 => (RasterHeight::Size24, 1),
            32..48 => (RasterHeight::Size32, 1),
            48..64 => (RasterHeight::Size24, 2),
            _ => (RasterHeight::Size32, wanted / 32),
        };
        Self { height, factor }
    }

    /// The height of a label in pixels.
    pub(super) fn label_height(&self) -> i64 {
        (self.height.val() * self.factor) as i64 + 2 * MARGIN
    }

    /// The width of a label in pixels.
    pub(super) fn label_width(&self, text: &str) -> i64 {
        (text.chars().count() * self.letter_width()) as i64 + 2 * MARGIN
    }

    fn letter_width(&self) -> usize {
        get_raster_width(FontWeight::Bold, self.height) * self.factor
    }

    /// The number of letters that fit a label of the given width.
    fn letters(&self, width: i64) -> usize {
        usize::try_from(width - 2 * MARGIN).unwrap_or(0) / self.letter_width().max(1)
    }

    /// The name followed by `rest`; the name is shortened if both together do not fit the canvas.
    pub(super) fn fitting(&self, canvas: &Canvas, name: &str, rest: &str) -> String {
        let room = self.letters(canvas.width()).saturating_sub(rest.chars().count());
        if name.chars().count() <= room {
            return format!("{name}{rest}");
        }
        let start: String = name.chars().take(room.saturating_sub(2)).collect();
        format!("{start}..{rest}")
    }

    /// Draws a label into an area, starting at its upper left corner.
    pub(super) fn draw(&self, canvas: &mut Canvas, area: Area, text: &str, ground: [u8; 3]) {
        canvas.fill(area, ground, 255);
        let ink = ink_on(ground);
        for (place, letter) in text.chars().enumerate() {
            let left = area.left + MARGIN + (place * self.letter_width()) as i64;
            if let Some(glyph) = self.glyph(letter) {
                self.draw_letter(canvas, [area.top + MARGIN, left], &glyph, ink);
            }
        }
    }

    fn glyph(&self, letter: char) -> Option<RasterizedChar> {
        let glyph = |letter| get_raster(letter, FontWeight::Bold, self.height);
        glyph(letter).or_else(|| glyph(UNKNOWN))
    }

    fn draw_letter(&self, canvas: &mut Canvas, [top, left]: [i64; 2], glyph: &RasterizedChar, ink: [u8; 3]) {
        for (row, values) in glyph.rows().enumerate() {
            for (col, &opacity) in values.iter().enumerate().filter(|(_, opacity)| **opacity > 0) {
                for down in 0..self.factor {
                    for right in 0..self.factor {
                        let row = top + (row * self.factor + down) as i64;
                        canvas.mix(row, left + (col * self.factor + right) as i64, ink, opacity);
                    }
                }
            }
        }
    }
}

/// Places labels inside the canvas and, if possible, without overlap.
pub(super) struct Labels<'a> {
    canvas: &'a Canvas,
    font: Font,
    taken: Vec<Area>,
}

impl<'a> Labels<'a> {
    pub(super) fn new(canvas: &'a Canvas, font: Font) -> Self {
        Self { canvas, font, taken: Vec::new() }
    }

    /// Chooses the upper left corner (row, column) of a label with the least overlap; `corners` are in order of preference.
    pub(super) fn place(&mut self, text: &str, corners: &[[i64; 2]]) -> Area {
        let (height, width) = (self.font.label_height(), self.font.label_width(text));
        let inside = |[top, left]: [i64; 2]| {
            let left = left.min(self.canvas.width() - width).max(0);
            let top = top.min(self.canvas.height() - height).max(0);
            Area { left, top, right: left + width, bottom: top + height }
        };
        let covered = |area: &Area| self.taken.iter().map(|taken| taken.common(area)).sum::<i64>();
        let places = corners.iter().map(|&corner| inside(corner));
        let best = places.min_by_key(covered).unwrap_or_else(|| inside([0, 0]));
        self.taken.push(best);
        best
    }
}
