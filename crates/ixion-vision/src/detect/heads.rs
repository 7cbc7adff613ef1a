//! Undecoded YOLOv5 heads: for each cell and anchor a box ([`cell_box`]), the objectness, and a score for each class, before
//! the sigmoid.

use super::{Detection, Detector, Head, check, detection};
use crate::activation::sigmoid;
use crate::error::{OutputError, Result};
use crate::{Frame, Rect, VisionError};
use ixion_tensor::{DType, Tensor};
use ndarray::{ArrayView1, Ix5};

/// Reads the boxes of each picture from all heads.
pub(super) fn read(
    detector: &Detector,
    heads: &[Head],
    outputs: &[Tensor],
    frames: &[Frame],
) -> Result<Vec<Vec<Detection>>> {
    if outputs.len() != heads.len() {
        let reason = format!("one for each of {} strides", heads.len());
        return Err(VisionError::Outputs { wanted: heads.len(), found: outputs.len(), reason });
    }
    let mut found: Vec<Vec<Detection>> = vec![Vec::new(); frames.len()];
    for (index, (head, output)) in heads.iter().zip(outputs).enumerate() {
        check(output, frames.len()).map_err(|error| error.at(index))?;
        let grid = rearranged(head, output)?.ok_or_else(|| misshapen(head, output).at(index))?;
        let &[_, _, rows, cols, values] = grid.shape().dims() else { continue };
        detector.class_count(values, 5).map_err(|error| error.at(index))?;
        if let Some(error) = frames.iter().find_map(|frame| grid_mismatch(head, [rows, cols], frame, output))
        {
            return Err(error.at(index));
        }
        read_head(detector, head, &grid, &mut found)?;
    }
    Ok(found)
}

/// Rearranges either shape to pictures × anchors × rows × columns × values; `None` for any other shape.
fn rearranged(head: &Head, output: &Tensor) -> Result<Option<Tensor>> {
    let anchors = head.anchors.len();
    Ok(match *output.shape().dims() {
        [pictures, channels, rows, cols]
            if anchors > 0 && channels % anchors == 0 && channels / anchors > 5 =>
        {
            let grid = output.reshape(&[pictures, anchors, channels / anchors, rows, cols])?;
            Some(grid.permute(&[0, 1, 3, 4, 2])?)
        }
        [_, of_anchors, _, _, values] if of_anchors == anchors && values > 5 => Some(output.clone()),
        _ => None,
    })
}

fn misshapen(head: &Head, output: &Tensor) -> OutputError {
    let anchors = head.anchors.len();
    let wanted = format!("images×{anchors}·(5+classes)×H×W or images×{anchors}×H×W×(5+classes)");
    let advice = match output.shape().rank() {
        3 => "decoded rows need format = \"yolov5\"",
        _ => "check that the `anchors` in the model.toml match the model",
    };
    OutputError::shape(output, wanted, advice)
}

/// The error for a grid that does not cover the input, if any.
fn grid_mismatch(head: &Head, grid: [usize; 2], frame: &Frame, output: &Tensor) -> Option<OutputError> {
    let wanted = frame.input.map(|len| len.div_ceil(head.stride.max(1)));
    if wanted == grid {
        return None;
    }
    let [height, width] = frame.input;
    let wanted = format!(
        "a grid of {}×{} cells for stride {} and an input of {height}×{width}",
        wanted[0], wanted[1], head.stride
    );
    let advice = "check that `strides` and `anchors` are in the order of the outputs";
    Some(OutputError::shape(output, wanted, advice))
}

fn read_head(detector: &Detector, head: &Head, grid: &Tensor, found: &mut [Vec<Detection>]) -> Result<()> {
    let grid = grid.cast(DType::F32)?;
    let Ok(array) = grid.array::<f32>()?.into_dimensionality::<Ix5>() else { return Ok(()) };
    for (picture, found) in array.outer_iter().zip(found) {
        for (cells, anchor) in picture.outer_iter().zip(&head.anchors) {
            for (row, cells) in cells.outer_iter().enumerate() {
                for (col, cell) in cells.outer_iter().enumerate() {
                    found.extend(one(detector, head.stride, *anchor, [row, col], cell));
                }
            }
        }
    }
    Ok(())
}

fn one(
    detector: &Detector,
    stride: usize,
    anchor: [f32; 2],
    [row, col]: [usize; 2],
    cell: ArrayView1<'_, f32>,
) -> Option<Detection> {
    let presence = cell.get(4).map_or(f32::NAN, |&value| sigmoid(value));
    if presence.is_nan() || presence <= detector.confidence {
        return None;
    }
    let values = [0, 1, 2, 3].map(|index| cell.get(index).copied().unwrap_or(f32::NAN));
    let rect = cell_box(values, anchor, [row, col], stride);
    detection(rect, presence, cell.iter().skip(5).map(|&value| sigmoid(value)), detector.confidence)
}

// ANCHOR: cell_box
/// The box that a grid cell predicts for an anchor. `values` are the cell's first four values t₀ to t₃, before the sigmoid
/// σ; `anchor` is width and height; a cell is `stride` × `stride` pixels of the input.
///
/// Centre column: (2σ(t₀) − 0.5 + column) · stride; centre row: likewise with t₁. Width: (2σ(t₂))² · anchor width; height:
/// likewise with t₃.
pub fn cell_box(values: [f32; 4], anchor: [f32; 2], [row, col]: [usize; 2], stride: usize) -> Rect {
    // ANCHOR: cell_box_todo -- task 3: centre, width and height by YOLOv5's formulas
    let [x, y, width, height] = values.map(sigmoid);
    let centre = |value: f32, cell: usize| (2.0 * value - 0.5 + cell as f32) * stride as f32;
    let length = |value: f32, anchor: f32| (2.0 * value).powi(2) * anchor;
    Rect::centered([centre(x, col), centre(y, row)], [length(width, anchor[0]), length(height, anchor[1])])
    // ANCHOR_END: cell_box_todo
}
// ANCHOR_END: cell_box
