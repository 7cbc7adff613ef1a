//! Drawing of masks over pictures.

use super::canvas::Canvas;
use super::text::{Font, Labels};
use crate::Picture;
use crate::error::Result;
use crate::{ClassMap, VOID, VisionError, color_of, label_of};
use std::collections::BTreeMap;

/// The opacity of a mask, from 0 to 255.
const OPACITY: u8 = 115;

/// A copy of a picture overlaid with a mask: each class in its colour, semi-transparent, with a solid edge and its name.
///
/// The background and [`VOID`] are left unchanged. Sizes, labels and colours are as in
/// [`draw_detections`](super::draw_detections).
///
/// # Errors
/// [`VisionError::InvalidArgument`] if the mask and the picture differ in size.
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
        let problem = format!("expected a mask of {height}×{width} like the picture, got {rows}×{cols}");
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
        let is_inside = (0..canvas.height()).contains(&row) && (0..canvas.width()).contains(&col);
        let at = || (row / factor) as usize * mask.width() + (col / factor) as usize;
        if is_inside { mask.classes().get(at()).copied() } else { None }
    };
    let reach = canvas.line();
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

/// Writes the name of each class on its largest region.
fn name(
    canvas: &mut Canvas,
    mask: &ClassMap,
    labels: &[String],
    colors: &[[u8; 3]],
    is_painted: impl Fn(u8) -> bool,
) {
    let font = Font::of(canvas);
    let mut regions: Vec<(u8, Vec<[usize; 2]>)> = largest_regions(mask).into_iter().collect();
    regions.retain(|(class, _)| is_painted(*class));
    regions.sort_by_key(|(_, region)| std::cmp::Reverse(region.len()));
    let mut places = Labels::new(canvas, font);
    let mut names = Vec::new();
    for (class, region) in regions {
        let text = font.fitting(canvas, &label_of(labels, class.into()), "");
        let [row, col] = middle(&region).map(|place| place as i64 * canvas.factor as i64);
        let (height, width) = (font.label_height(), font.label_width(&text));
        let corner = [row - height / 2, col - width / 2];
        let corners = [corner, [corner[0] + height, corner[1]], [corner[0] - height, corner[1]]];
        names.push((places.place(&text, &corners), text, color_of(colors, class.into())));
    }
    for (area, text, color) in names.iter().rev() {
        font.draw(canvas, *area, text, *color);
    }
}

/// The pixel (row, column) of a region that is nearest to its centroid.
fn middle(region: &[[usize; 2]]) -> [usize; 2] {
    let count = region.len().max(1) as f64;
    let mean = [0, 1].map(|axis| region.iter().map(|place| place[axis] as f64).sum::<f64>() / count);
    let distance =
        |place: &[usize; 2]| [0, 1].map(|axis| (place[axis] as f64 - mean[axis]).powi(2)).iter().sum::<f64>();
    region.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or([0, 0])
}

/// The largest region of each class; regions are 4-connected.
fn largest_regions(mask: &ClassMap) -> BTreeMap<u8, Vec<[usize; 2]>> {
    let mut largest: BTreeMap<u8, Vec<[usize; 2]>> = BTreeMap::new();
    let mut is_seen = vec![false; mask.classes().len()];
    for start in 0..is_seen.len() {
        let (class, region) = region_from(mask, start, &mut is_seen);
        let known = largest.entry(class).or_default();
        if region.len() > known.len() {
            *known = region;
        }
    }
    largest
}

/// The class of a pixel and the region that contains it; the region is empty if the pixel was already visited.
fn region_from(mask: &ClassMap, start: usize, is_seen: &mut [bool]) -> (u8, Vec<[usize; 2]>) {
    let width = mask.width();
    let class = mask.classes().get(start).copied().unwrap_or(VOID);
    let (mut region, mut waiting) = (Vec::new(), vec![start]);
    while let Some(at) = waiting.pop() {
        let Some(seen) = is_seen.get_mut(at).filter(|seen| !**seen) else { continue };
        if mask.classes().get(at) != Some(&class) {
            continue;
        }
        *seen = true;
        let (row, col) = (at / width, at % width);
        region.push([row, col]);
        waiting.push(at + width);
        waiting.extend(at.checked_sub(width));
        waiting.extend((col > 0).then(|| at - 1));
        waiting.extend((col + 1 < width).then_some(at + 1));
    }
    (class, region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_on_the_largest_region() {
        // Two regions of class 1, and one of class 2 around a hole.
        let rows = [[1, 0, 2, 2, 2], [0, 1, 2, 0, 2], [1, 1, 2, 2, 2]];
        let mask = ClassMap::new(3, 5, rows.concat()).unwrap();
        let regions = largest_regions(&mask);
        let mut first = regions[&1].clone();
        first.sort();
        assert_eq!(first, [[1, 1], [2, 0], [2, 1]]);
        assert_eq!((regions[&2].len(), middle(&first)), (8, [2, 1]));
        assert!([[0, 3], [1, 2], [1, 4], [2, 3]].contains(&middle(&regions[&2])));
    }
}
