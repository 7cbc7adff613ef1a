//! Operators on shapes: reshaping, joining, splitting, repeating and padding.

use super::arguments::Argument;
use crate::OnnxError;
use crate::lower::call::Table;
use crate::lower::call::{Outputs, one};
use crate::lower::folding::Lengths;
use crate::lower::{Call, Value};
use ixion_pnnx::{OperandId, Parameter};

pub(super) const TABLE: Table = &[
    ("CenterCropPad", center_crop_pad),
    ("Concat", concat),
    ("DepthToSpace", depth_to_space),
    ("Expand", expand),
    ("Flatten", flatten),
    ("Pad", pad),
    ("Reshape", reshape),
    ("Shape", shape),
    ("Size", size),
    ("Slice", slice),
    ("SpaceToDepth", space_to_depth),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Trilu", trilu),
    ("Unsqueeze", unsqueeze),
];

/// Bounds of slices from here on mean the end of an axis: exporters write the largest 32-bit or 64-bit number.
const END: i64 = i32::MAX as i64;

fn reshape(call: &mut Call<'_>) -> Outputs {
    // PyTorch's operator keeps a zero if the input is empty, and only then a shape of ONNX's can have one.
    let keeps_zero = call.version() >= 14 && call.flag_or("allowzero", false)?;
    let x = call.input(0)?;
    let shape = match (call.constant_ints(1)?, call.value(1)?) {
        (_, Value::Absent) => return Err(call.error("the shape (input 1) is required, but left out")),
        (Some(shape), _) if shape.is_empty() => Argument::Known(Parameter::from("None")),
        (Some(shape), _) if shape.contains(&0) && !keeps_zero => {
            let shape = Lengths::of_shape(call.name(), &shape, x).operand(call.lowering())?;
            Argument::Computed(shape)
        }
        (Some(shape), _) => Argument::list(shape),
        (None, Value::Lengths(shape)) if !keeps_zero => {
            Argument::Computed(shape.with_copied(x).operand(call.lowering())?)
        }
        (None, shape) => Argument::Computed(call.operand(&shape)?),
    };
    one(call.emit("Tensor.reshape").input(x).argument("shape", shape).one())
}

/// Two axes, whatever the rank is.
fn flatten(call: &mut Call<'_>) -> Outputs {
    let (x, axis) = (call.input(0)?, call.int_or("axis", 1)?);
    one(call.operator("Flatten", &[x], &[("axis", axis.into())]))
}

fn squeeze(call: &mut Call<'_>) -> Outputs {
    let axes = call.ints_or_input(13, "axes", 1)?;
    if is_empty_list(&axes) {
        return call.unchanged();
    }
    let x = call.input(0)?;
    one(call.emit("torch.squeeze").input(x).argument("dim", axes).one())
}

fn unsqueeze(call: &mut Call<'_>) -> Outputs {
    let axes = call.ints_or_input(13, "axes", 1)?;
    if axes.is_absent() {
        return Err(call.missing("axes"));
    }
    if is_empty_list(&axes) {
        return call.unchanged();
    }
    let x = call.input(0)?;
    one(call.emit("torch.unsqueeze").input(x).argument("dim", axes).one())
}

fn is_empty_list(argument: &Argument) -> bool {
    matches!(argument, Argument::Known(value) if value.raw() == "()")
}

fn transpose(call: &mut Call<'_>) -> Outputs {
    let perm = call.ints("perm")?;
    let x = call.input(0)?;
    match perm {
        None => one(call.operator("Transpose", &[x], &[])),
        Some(perm) if perm.is_empty() => call.unchanged(),
        Some(perm) => one(call.operator("torch.permute", &[x], &[("dims", perm.into())])),
    }
}

fn concat(call: &mut Call<'_>) -> Outputs {
    let axis = call.int("axis")?.ok_or_else(|| call.missing("axis"))?;
    let parts = call.inputs_from(0)?;
    match parts.len() {
        0 => Err(call.error("expected at least one input")),
        1 => call.unchanged(),
        _ => one(call.operator("torch.cat", &parts, &[("dim", axis.into())])),
    }
}

fn split(call: &mut Call<'_>) -> Outputs {
    let axis = call.int_or("axis", 0)?;
    let outputs = call.num_outputs();
    if call.version() >= 18
        && let Some(wanted) = call.int("num_outputs")?
        && usize::try_from(wanted) != Ok(outputs)
    {
        return Err(call.error(format!("`num_outputs` is {wanted}, but the node has {outputs} outputs")));
    }
    let lens = match call.ints_or_input(13, "split", 1)? {
        Argument::Absent => Argument::Known(Parameter::from("None")),
        lens => lens,
    };
    let x = call.input(0)?;
    let split = call.emit("torch.split").input(x).argument("split_size_or_sections", lens).param("dim", axis);
    Ok(split.many(outputs)?.into_iter().map(Value::Operand).collect())
}

fn expand(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = call.list_argument(1)?;
    if is_empty_list(&shape) {
        return call.unchanged();
    }
    one(call.emit("Expand").input(x).argument("shape", shape).one())
}

fn tile(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let repeats = call.list_argument(1)?;
    if is_empty_list(&repeats) {
        return call.unchanged();
    }
    one(call.emit("torch.tile").input(x).argument("dims", repeats).one())
}

/// The lengths of axes, all of them by default.
fn shape(call: &mut Call<'_>) -> Outputs {
    let since = call.version() >= 15;
    let (start, end) =
        if since { (call.int_or("start", 0)?, call.int("end")?.filter(|end| *end < END)) } else { (0, None) };
    let x = call.input(0)?;
    let lens = call.operator("Tensor.size", &[x], &[])?;
    if start == 0 && end.is_none() {
        return Ok(vec![Value::Operand(lens)]);
    }
    one(one_slice(call, lens, [0, start, 1], end))
}

fn size(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    one(call.operator("aten::numel", &[x], &[]))
}

/// A slice of one axis: the axis, the start and the step, and the end.
fn one_slice(
    call: &mut Call<'_>,
    x: OperandId,
    [axis, start, step]: [i64; 3],
    end: Option<i64>,
) -> Result<OperandId, OnnxError> {
    let params = [("dim", axis.into()), ("start", start.into()), ("end", end.into()), ("step", step.into())];
    call.operator("Tensor.slice", &[x], &params)
}

fn slice(call: &mut Call<'_>) -> Outputs {
    let since = 10;
    let [starts, ends] = [(1, "starts"), (2, "ends")].map(|(at, name)| call.ints_or_input(since, name, at));
    let (starts, ends, axes) = (starts?, ends?, call.ints_or_input(since, "axes", 3)?);
    let steps = if call.version() >= since { call.list_argument(4)? } else { Argument::Absent };
    let mut wide = |(position, argument)| wide(call, position, argument);
    let (starts, ends) = (wide((1, starts))?, wide((2, ends))?);
    let (axes, steps) = (wide((3, axes))?, wide((4, steps))?);
    if starts.is_absent() || ends.is_absent() {
        return Err(call.error("`starts` and `ends` are required, but one is left out"));
    }
    if is_empty_list(&starts) {
        return call.unchanged();
    }
    let x = call.input(0)?;
    let known = [&starts, &ends, &axes, &steps].map(ints);
    if let [Some([start]), Some([end]), Some(axes), Some(steps)] =
        known.each_ref().map(|list| list.as_deref())
    {
        let (axis, step) = (axes.first().copied().unwrap_or(0), steps.first().copied().unwrap_or(1));
        if step > 0 && axes.len() <= 1 && steps.len() <= 1 {
            return one(one_slice(call, x, [axis, *start, step], (*end < END).then_some(*end)));
        }
    }
    let slice = call.emit("Slice").input(x).argument("starts", starts).argument("ends", ends);
    one(slice.argument("axes", axes).argument("steps", steps).one())
}

/// The argument as 64-bit integers: the bounds of a slice may have 32 bits.
fn wide(call: &mut Call<'_>, position: usize, argument: Argument) -> Result<Argument, OnnxError> {
    match (argument, call.value(position)?) {
        (Argument::Computed(operand), Value::Operand(_)) => {
            let params = [("dtype", "torch.long".into()), ("copy", false.into())];
            Ok(Argument::Computed(call.operator("Tensor.to", &[operand], &params)?))
        }
        (argument, _) => Ok(argument),
    }
}

/// The integers of an argument that is known; none if it is absent.
fn ints(argument: &Argument) -> Option<Vec<i64>> {
    match argument {
        Argument::Absent => Some(Vec::new()),
        Argument::Known(value) => value.as_i64s().ok(),
        Argument::Computed(_) => None,
    }
}

fn pad(call: &mut Call<'_>) -> Outputs {
    let mode = call.string_or("mode", "constant")?;
    let pads = call.ints_or_input(11, "pads", 1)?;
    if pads.is_absent() {
        return Err(call.missing("pads"));
    }
    let x = call.input(0)?;
    let is_old = call.version() < 11;
    let (known, value) = match is_old {
        true => (Some(call.float_or("value", 0.0)?), None),
        false => match call.constant_float(2)? {
            Some(value) => (Some(value), None),
            None => (None, call.optional_input(2)?),
        },
    };
    let axes = if is_old { Argument::Absent } else { call.list_argument(3)? };
    if is_empty_list(&pads) && value.is_none() {
        return call.unchanged();
    }
    let mut pad = call.emit("Pad").input(x).argument("pads", pads).param("mode", mode);
    if mode == "constant" {
        match value {
            Some(value) => pad = pad.input(value),
            // Stated even if it is 0, so that another input can only be the axes.
            None => pad = pad.param("value", known.unwrap_or(0.0)),
        }
    }
    one(match axes {
        Argument::Computed(axes) => pad.input(axes).one(),
        axes => pad.argument("axes", axes).one(),
    })
}

fn depth_to_space(call: &mut Call<'_>) -> Outputs {
    let (x, block) = (call.input(0)?, block_size(call)?);
    let mode = if call.version() >= 11 { call.string_or("mode", "DCR")? } else { "DCR" };
    one(call.operator("DepthToSpace", &[x], &[("blocksize", block.into()), ("mode", mode.into())]))
}

fn block_size(call: &Call<'_>) -> Result<i64, OnnxError> {
    let block = call.int("blocksize")?.ok_or_else(|| call.missing("blocksize"))?;
    let is_usual = (1..=1 << 20).contains(&block);
    is_usual
        .then_some(block)
        .ok_or_else(|| call.error(format!("expected `blocksize` to be 1 to 1048576, got {block}")))
}

fn space_to_depth(call: &mut Call<'_>) -> Outputs {
    let (x, block) = (call.input(0)?, block_size(call)?);
    let mode = if call.version() >= 28 { call.string_or("mode", "DCR")? } else { "DCR" };
    let shuffled = call.operator("F.pixel_unshuffle", &[x], &[("downscale_factor", block.into())])?;
    match mode {
        "CRD" => Ok(vec![Value::Operand(shuffled)]),
        "DCR" => {
            // PyTorch's channels are input channels first, then places in a block.
            let sizes = vec![-1, block * block];
            let params = [("dim", 1.into()), ("sizes", sizes.into())];
            let parts = call.operator("Tensor.unflatten", &[shuffled], &params)?;
            let order: Vec<i64> = vec![0, 2, 1, 3, 4];
            let turned = call.operator("torch.permute", &[parts], &[("dims", order.into())])?;
            let params = [("start_dim", 1.into()), ("end_dim", 2.into())];
            one(call.operator("torch.flatten", &[turned], &params))
        }
        other => Err(call.error(format!("expected `mode` to be DCR or CRD, got {other}"))),
    }
}

fn trilu(call: &mut Call<'_>) -> Outputs {
    let upper = call.flag_or("upper", true)?;
    let (x, k) = (call.input(0)?, call.list_argument(1)?);
    one(call.emit("Trilu").input(x).param("upper", i64::from(upper)).argument("k", k).one())
}

fn center_crop_pad(call: &mut Call<'_>) -> Outputs {
    let axes = call.ints("axes")?;
    let (x, shape) = (call.input(0)?, call.list_argument(1)?);
    if is_empty_list(&shape) {
        return call.unchanged();
    }
    one(call.emit("CenterCropPad").input(x).argument("shape", shape).param_if("axes", axes).one())
}
