//! Regions, boxes and sampling grids.

use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};

pub(super) const TABLE: Table = &[
    ("AffineGrid", affine_grid),
    ("GridSample", grid_sample),
    ("MaxRoiPool", max_roi_pool),
    ("NonMaxSuppression", non_max_suppression),
    ("RoiAlign", roi_align),
];

/// `GridSample`. Before version 20, the modes have the names of images.
fn grid_sample(call: &mut Call<'_>) -> Outputs {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let mode = match call.string_or("mode", "linear")? {
        "linear" | "bilinear" => "bilinear",
        "cubic" | "bicubic" => "bicubic",
        "nearest" => "nearest",
        other => {
            return Err(call.error(format!("expected `mode` to be linear, nearest or cubic, got `{other}`")));
        }
    };
    let padding = match call.string_or("padding_mode", "zeros")? {
        known @ ("zeros" | "border" | "reflection") => known,
        other => {
            let problem = format!("expected `padding_mode` to be zeros, border or reflection, got `{other}`");
            return Err(call.error(problem));
        }
    };
    let aligns = call.flag_or("align_corners", false)?;
    let emit = call.emit("F.grid_sample").named("input", x).named("grid", grid).param("mode", mode);
    one(emit.param("padding_mode", padding).param("align_corners", aligns).one())
}

/// `AffineGrid`.
fn affine_grid(call: &mut Call<'_>) -> Outputs {
    let (theta, size) = (call.input(0)?, call.constant_ints(1)?);
    let computed = if size.is_none() { Some(call.input(1)?) } else { None };
    let aligns = call.flag_or("align_corners", false)?;
    let emit = call.emit("F.affine_grid").named("theta", theta).named_if("size", computed);
    one(emit.param_if("size", size).param("align_corners", aligns).one())
}

/// `RoiAlign`, under its own name. Up to version 15, box coordinates are not shifted.
fn roi_align(call: &mut Call<'_>) -> Outputs {
    let (x, rois, pictures) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shifted = if call.version() >= 16 { "half_pixel" } else { "output_half_pixel" };
    let corners = call.string_or("coordinate_transformation_mode", shifted)?;
    let mode = call.string_or("mode", "avg")?;
    let size = [call.int_or("output_height", 1)?, call.int_or("output_width", 1)?];
    let (ratio, scale) = (call.int_or("sampling_ratio", 0)?, call.float("spatial_scale")?.unwrap_or(1.0));
    let emit = call.emit("RoiAlign").input(x).named("rois", rois).named("batch_indices", pictures);
    let emit = emit.param("coordinate_transformation_mode", corners).param("mode", mode);
    let emit = emit.param("output_height", size[0]).param("output_width", size[1]);
    one(emit.param("sampling_ratio", ratio).param("spatial_scale", scale).one())
}

/// `MaxRoiPool`: the operator of torchvision, whose second output holds positions.
fn max_roi_pool(call: &mut Call<'_>) -> Outputs {
    let (x, rois) = (call.input(0)?, call.input(1)?);
    let shape = call.ints("pooled_shape")?.ok_or_else(|| call.missing("pooled_shape"))?;
    let &[rows, columns] = shape.as_slice() else {
        return Err(call.error(format!("expected `pooled_shape` to be rows and columns, got {shape:?}")));
    };
    let scale = call.float("spatial_scale")?.unwrap_or(1.0);
    let emit = call.emit("pnnx.custom_op.torchvision.roi_pool").input(x).named("arg_1", rois);
    let emit = emit.param("arg_2", scale).param("arg_3", rows).param("arg_4", columns);
    Ok(emit.many(2)?.into_iter().take(1).map(Value::Operand).collect())
}

/// `NonMaxSuppression`, under its own name.
fn non_max_suppression(call: &mut Call<'_>) -> Outputs {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let most = call.optional_input(2)?;
    let (overlap, score) = (call.optional_input(3)?, call.optional_input(4)?);
    let has_centres = call.flag_or("center_point_box", false)?;
    let emit = call.emit("NonMaxSuppression").input(boxes).named("scores", scores);
    let emit = emit.named_if("max_output_boxes_per_class", most).named_if("iou_threshold", overlap);
    one(emit.named_if("score_threshold", score).param("center_point_box", i64::from(has_centres)).one())
}
