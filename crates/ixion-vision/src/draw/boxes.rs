//! Drawing of boxes with their classes and scores.

use super::canvas::{Area, Canvas};
use super::text::{Font, Labels};
use crate::Picture;
use crate::error::Result;
use crate::palette::ink_on;
use crate::{Detection, color_of, label_of};

/// A copy of a picture with a box around each object, labelled with its class and score.
///
/// Lines and letters scale with the picture; a picture with both sides below 256 pixels is enlarged first, so that labels
/// are legible. `labels` are the names of the classes; without a label, a class is shown as its number. `colors` are their
/// colours; the default is the [`PALETTE`](crate::PALETTE). Non-Latin letters are shown as `?`.
///
/// # Errors
/// [`VisionError::Tensor`](crate::VisionError::Tensor) if the picture cannot be created.
pub fn draw_detections(
    picture: &Picture,
    found: &[Detection],
    labels: &[String],
    colors: &[[u8; 3]],
) -> Result<Picture> {
    let mut canvas = Canvas::new(picture);
    let font = Font::of(&canvas);
    let mut found: Vec<&Detection> = found.iter().filter(|found| !found.rect.is_degenerate()).collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));

    // The best object is placed first, and drawn last, on top of all others.
    let mut places = Labels::new(&canvas, font);
    let boxes: Vec<Labelled> =
        found.iter().map(|found| Labelled::new(&canvas, &mut places, font, found, labels, colors)).collect();
    for labelled in boxes.iter().rev() {
        labelled.draw_box(&mut canvas);
    }
    for labelled in boxes.iter().rev() {
        font.draw(&mut canvas, labelled.label, &labelled.text, labelled.color);
    }
    Ok(canvas.into_picture()?)
}

/// A box and its label, in pixels of the canvas.
struct Labelled {
    area: Area,
    label: Area,
    text: String,
    color: [u8; 3],
}

impl Labelled {
    fn new(
        canvas: &Canvas,
        places: &mut Labels<'_>,
        font: Font,
        found: &Detection,
        labels: &[String],
        colors: &[[u8; 3]],
    ) -> Self {
        let area = area(canvas, found);
        let rest = format!(" {:.0}%", found.score * 100.0);
        let text = font.fitting(canvas, &label_of(labels, found.class), &rest);
        let (height, width) = (font.label_height(), font.label_width(&text));
        // Above the box; if there is no room, inside it or below it.
        let above = area.top - height;
        let corners = [
            [if above < 0 { area.top } else { above }, area.left],
            [area.top, area.left],
            [area.bottom, area.left],
            [area.bottom - height, area.left],
            [above, area.right - width],
            [area.bottom, area.right - width],
        ];
        let label = places.place(&text, &corners);
        Self { area, label, text, color: color_of(colors, found.class) }
    }

    fn draw_box(&self, canvas: &mut Canvas) {
        let line = canvas.line();
        // A thin outline keeps the line visible on a background of the same colour.
        let Area { left, top, right, bottom } = self.area;
        let around = Area { left: left - 1, top: top - 1, right: right + 1, bottom: bottom + 1 };
        canvas.outline(around, line + 2, ink_on(self.color), 160);
        canvas.outline(self.area, line, self.color, 255);
    }
}

/// The pixels of a box; it is at least as wide and high as its lines.
fn area(canvas: &Canvas, found: &Detection) -> Area {
    let factor = canvas.factor as f32;
    // Casts saturate; edges far outside are clamped.
    let [left, top, right, bottom] = [found.rect.left, found.rect.top, found.rect.right, found.rect.bottom]
        .map(|edge| ((edge * factor).round() as i64).clamp(-1, i64::from(u32::MAX)));
    let right = right.min(canvas.width() + 1).max(left + canvas.line());
    let bottom = bottom.min(canvas.height() + 1).max(top + canvas.line());
    Area { left, top, right, bottom }
}
