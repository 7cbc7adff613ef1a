//! Formats in which the model itself has decoded the boxes.

use super::{Detection, DetectionFormat, Detector, check};
use crate::Rect;
use crate::error::{OutputError, Result};
use ixion_tensor::{DType, Tensor};
use ndarray::{ArrayView1, ArrayView2, Ix3};

/// Reads the boxes of each picture.
pub(super) fn read(detector: &Detector, output: &Tensor, pictures: usize) -> Result<Vec<Vec<Detection>>> {
    let by_row = detector.format == DetectionFormat::Yolov5;
    let before = if by_row { 5 } else { 4 };
    let values = match *output.shape().dims() {
        [_, _, values] if by_row => values,
        [_, values, _] => values,
        _ => 0,
    };
    if values <= before {
        return Err(misshapen(output, by_row).at(0));
    }
    check(output, pictures).map_err(|error| error.at(0))?;
    detector.class_count(values, before).map_err(|error| hint(error, output, by_row).at(0))?;
    let output = output.cast(DType::F32)?;
    let array = output.array::<f32>()?;
    let Ok(array) = array.into_dimensionality::<Ix3>() else { return Ok(Vec::new()) };
    let rows = |picture| if by_row { picture } else { ArrayView2::reversed_axes(picture) };
    let decode = if by_row { decode_row } else { decode_column };
    let of_picture =
        |picture| rows(picture).outer_iter().filter_map(|row| decode(row, detector.confidence)).collect();
    Ok(array.outer_iter().map(of_picture).collect())
}

// ANCHOR: decode_row
/// The object in a YOLOv5 row: centre column and row, width and height, objectness, then a probability for each class.
/// `None` unless its score is above `confidence`.
///
/// # Panics
/// Panics if the row has fewer than five values.
pub fn decode_row(row: ArrayView1<'_, f32>, confidence: f32) -> Option<Detection> {
    // ANCHOR: decode_row_todo -- task 3: the box from the first four values, and the detection from the rest
    let presence = row[4];
    // No class probability is above 1, so the score cannot exceed the objectness.
    if presence.is_nan() || presence <= confidence {
        return None;
    }
    let rect = Rect::centered([row[0], row[1]], [row[2], row[3]]);
    detection(rect, presence, row.iter().skip(5).copied(), confidence)
    // ANCHOR_END: decode_row_todo
}

/// A box with its most probable class. The score is that probability times the objectness `presence`; `None` unless it is
/// above `confidence`, so also for NaN.
pub fn detection(
    rect: Rect,
    presence: f32,
    classes: impl Iterator<Item = f32>,
    confidence: f32,
) -> Option<Detection> {
    // ANCHOR: make_detection_todo -- task 3: class and score, if the score is above the confidence
    let (class, probability) = most_probable(classes)?;
    let score = presence * probability;
    (score > confidence).then_some(Detection { class, score, rect })
    // ANCHOR_END: make_detection_todo
}

/// The index and probability of the most probable class, the first among equals; NaN never wins.
pub fn most_probable(classes: impl Iterator<Item = f32>) -> Option<(usize, f32)> {
    // ANCHOR: most_probable_todo -- task 3: the first of the largest
    let mut best: Option<(usize, f32)> = None;
    for (class, probability) in classes.enumerate() {
        if probability > best.map_or(f32::NEG_INFINITY, |best| best.1) {
            best = Some((class, probability));
        }
    }
    best
    // ANCHOR_END: most_probable_todo
}
// ANCHOR_END: decode_row

/// The object in a YOLOv8 column, which has no objectness.
fn decode_column(column: ArrayView1<'_, f32>, confidence: f32) -> Option<Detection> {
    let rect = Rect::centered([column[0], column[1]], [column[2], column[3]]);
    detection(rect, 1.0, column.iter().skip(4).copied(), confidence)
}

fn misshapen(output: &Tensor, by_row: bool) -> OutputError {
    let (name, wanted) = if by_row {
        ("yolov5", "images×rows×(5+classes)")
    } else {
        ("yolov8", "images×(4+classes)×columns")
    };
    let advice = match output.shape().rank() {
        4 | 5 => "undecoded grids need format = \"yolov5-heads\"",
        _ => "check the output and the `format` in the model.toml",
    };
    OutputError::shape(output, format!("{wanted} of format \"{name}\""), advice)
}

/// Suggests the other `format` if the number of classes would be right for it.
fn hint(error: OutputError, output: &Tensor, by_row: bool) -> OutputError {
    let (OutputError::Classes { labels, .. }, &[_, rows, cols]) = (&error, output.shape().dims()) else {
        return error;
    };
    let (fits, other) = if by_row { (rows == labels + 4, "yolov8") } else { (cols == labels + 5, "yolov5") };
    if !fits {
        return error;
    }
    let wanted = if by_row { "images×rows×(5+classes)" } else { "images×(4+classes)×columns" };
    let wanted = format!("{wanted} for {labels} labels");
    OutputError::shape(output, wanted, format!("it fits format = \"{other}\""))
}
