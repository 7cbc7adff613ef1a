//! Boxes that the model has decoded itself.

use super::{Detection, DetectionFormat, Detector, check};
use crate::tensor::{DType, Tensor};
use crate::vision::Rect;
use crate::vision::error::{OutputError, Result};
use ndarray::{ArrayView1, ArrayView2, Ix3};

/// The boxes of each picture.
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
    let of_picture =
        |picture| rows(picture).outer_iter().filter_map(|row| one(detector, row, before)).collect();
    Ok(array.outer_iter().map(of_picture).collect())
}

fn one(detector: &Detector, row: ArrayView1<'_, f32>, before: usize) -> Option<Detection> {
    let at = |index: usize| row.get(index).copied().unwrap_or(f32::NAN);
    let presence = if before == 5 { at(4) } else { 1.0 };
    // No probability is above 1.
    if presence.is_nan() || presence <= detector.confidence {
        return None;
    }
    let rect = Rect::centered([at(0), at(1)], [at(2), at(3)]);
    detector.best(rect, presence, row.iter().skip(before).copied())
}

fn misshapen(output: &Tensor, by_row: bool) -> OutputError {
    let (name, wanted) = if by_row {
        ("yolov5", "pictures×rows×(5+classes)")
    } else {
        ("yolov8", "pictures×(4+classes)×columns")
    };
    let advice = match output.shape().rank() {
        4 | 5 => "grids of numbers that are not decoded yet need format = \"yolov5-heads\"",
        _ => "is it the right output, and the right `format` in the model.toml?",
    };
    OutputError::shape(output, format!("{wanted} of format \"{name}\""), advice)
}

/// A number of classes that would be right in the other format is a wrong `format`.
fn hint(error: OutputError, output: &Tensor, by_row: bool) -> OutputError {
    let (OutputError::Classes { labels, .. }, &[_, rows, cols]) = (&error, output.shape().dims()) else {
        return error;
    };
    let (fits, other) = if by_row { (rows == labels + 4, "yolov8") } else { (cols == labels + 5, "yolov5") };
    if !fits {
        return error;
    }
    let wanted = if by_row { "pictures×rows×(5+classes)" } else { "pictures×(4+classes)×columns" };
    let wanted = format!("{wanted} for {labels} labels");
    OutputError::shape(output, wanted, format!("it fits format = \"{other}\""))
}
