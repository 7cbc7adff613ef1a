//! Masks over pictures.

use super::canvas::Canvas;
use super::text::{Font, Labels};
use crate::tensor::Picture;
use crate::vision::error::Result;
use crate::vision::{ClassMap, VOID, VisionError, color_of, label_of};

/// How much of a mask's colour is mixed into the picture, of 255.
const OPACITY: u8 = 115;

/// A copy of a picture with each class of a mask in its colour, half transparent, with a solid edge and its name.
///
/// The background and [`VOID`] are left as they are. Sizes, labels and colours are as with
/// [`draw_detections`](super::draw_detections).
///
/// # Errors
/// [`VisionError::InvalidArgument`] for a mask of another size than the picture.
pub fn draw_mask(
    picture: &Picture,
    mask: &ClassMap,
    labels: &[String],
    colors: &[[u8; 3]],
    background: Option<u8>,
) -> Result<Picture> {
    let (height, width) = (picture.height(), picture.width());
    if (height, width) != (mask.height(), mask.width()) {
        let (rows, cols) = (mask.height(), mask.width());
        let problem = format!("a mask of {rows}×{cols} does not lie over a picture of {height}×{width}");
        return Err(VisionError::InvalidArgument(problem));
    }
    let mut canvas = Canvas::new(picture);
    let is_painted = |class: u8| class != VOID && Some(class) != background;
    paint(&mut canvas, mask, colors, is_painted);
    name(&mut canvas, mask, labels, colors, is_painted);
    Ok(canvas.into_picture()?)
}

fn paint(canvas: &mut Canvas, mask: &ClassMap, colors: &[[u8; 3]], is_painted: impl Fn(u8) -> bool) {
    let factor = canvas.factor as i64;
    let class_at = |row: i64, col: i64| {
        let inside = (0..canvas.height()).contains(&row) && (0..canvas.width()).contains(&col);
        let at = (row / factor) as usize * mask.width() + (col / factor) as usize;
        mask.classes().get(at).copied().filter(|_| inside)
    };
    let reach = (canvas.line() / 2).max(1);
    let mut strokes = Vec::new();
    for row in 0..canvas.height() {
        for col in 0..canvas.width() {
            let Some(class) = class_at(row, col).filter(|&class| is_painted(class)) else { continue };
            let differs = |row, col| class_at(row, col).is_some_and(|other| other != class);
            let is_edge = (1..=reach).any(|step| {
                differs(row - step, col)
                    || differs(row + step, col)
                    || differs(row, col - step)
                    || differs(row, col + step)
            });
            strokes.push((row, col, class, if is_edge { 255 } else { OPACITY }));
        }
    }
    for (row, col, class, opacity) in strokes {
        canvas.mix(row, col, color_of(colors, class.into()), opacity);
    }
}

/// Writes the name of each class where most of it is.
fn name(
    canvas: &mut Canvas,
    mask: &ClassMap,
    labels: &[String],
    colors: &[[u8; 3]],
    is_painted: impl Fn(u8) -> bool,
) {
    let font = Font::of(canvas);
    let mut counts = mask.counts();
    counts.retain(|(class, _)| is_painted(*class));
    counts.sort_by_key(|(_, pixels)| std::cmp::Reverse(*pixels));
    let mut places = Labels::new(canvas, font);
    let mut names = Vec::new();
    for (class, _) in counts {
        let text = font.fitting(canvas, &label_of(labels, class.into()), "");
        let [row, col] = middle(mask, class).map(|place| place as i64 * canvas.factor as i64);
        let (height, width) = (font.label_height(), font.label_width(&text));
        let corner = [row - height / 2, col - width / 2];
        let corners = [corner, [corner[0] + height, corner[1]], [corner[0] - height, corner[1]]];
        names.push((places.place(&text, &corners), text, color_of(colors, class.into())));
    }
    for (area, text, color) in names.iter().rev() {
        font.draw(canvas, *area, text, *color);
    }
}

/// The pixel of a class, row and column, that is nearest to the mean place of all of them.
fn middle(mask: &ClassMap, class: u8) -> [usize; 2] {
    let places = || {
        let all = mask.classes().iter().enumerate().filter(move |(_, found)| **found == class);
        all.map(|(at, _)| [at / mask.width(), at % mask.width()])
    };
    let count = places().count().max(1) as f64;
    let mean = [0, 1].map(|axis| places().map(|place| place[axis] as f64).sum::<f64>() / count);
    let distance =
        |place: &[usize; 2]| [0, 1].map(|axis| (place[axis] as f64 - mean[axis]).powi(2)).iter().sum::<f64>();
    places().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or([0, 0])
}
