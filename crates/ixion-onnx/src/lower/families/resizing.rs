//! Resampling of axes: `Upsample`, and `Resize` with its versions.

use super::arguments::Argument;
use crate::OnnxError;
use crate::lower::call::Table;
use crate::lower::call::{Outputs, one};
use crate::lower::emit::Emit;
use crate::lower::{Call, Value};
use ixion_pnnx::OperandId;

pub(super) const TABLE: Table = &[("Resize", resize), ("Upsample", upsample)];

/// Interpolation as before version 11 of `Resize`: output position x is sampled at x / scale.
fn upsample(call: &mut Call<'_>) -> Outputs {
    let scales = if call.version() >= 9 {
        call.floats_argument(1)?
    } else {
        let scales = call.floats("scales")?.ok_or_else(|| call.missing("scales"))?;
        Argument::Known(scales.into_iter().map(f64::from).collect::<Vec<f64>>().into())
    };
    older(call, scales)
}

fn older(call: &mut Call<'_>, scales: Argument) -> Outputs {
    if scales.is_absent() {
        return Err(call.missing("scales"));
    }
    let mode = mode(call)?;
    let x = call.input(0)?;
    let lengths = Lengths::Scales(scales);
    if let Some(way) = Way::of(mode, "asymmetric", "floor_or_ceil")
        && let Some(emit) = interpolated(call, x, &way, &lengths)?
    {
        return one(emit.one());
    }
    let Lengths::Scales(scales) = lengths else { return Err(call.missing("scales")) };
    let resize = call.emit("Resize").input(x).argument("scales", scales).param("mode", mode);
    let resize = resize.param("coordinate_transformation_mode", "asymmetric");
    one(resize.param("nearest_mode", "floor_or_ceil").one())
}

/// The interpolation; `bilinear` is an old name of `linear`.
fn mode<'c>(call: &Call<'c>) -> Result<&'c str, OnnxError> {
    match call.string_or("mode", "nearest")? {
        "bilinear" => Ok("linear"),
        mode => Ok(mode),
    }
}

fn resize(call: &mut Call<'_>) -> Outputs {
    if call.version() < 11 {
        let scales = call.floats_argument(1)?;
        return older(call, scales);
    }
    let mode = mode(call)?;
    let mapping = call.string_or("coordinate_transformation_mode", "half_pixel")?;
    let rounding = call.string_or("nearest_mode", "round_prefer_floor")?;
    let [coefficient, outside] = [("cubic_coeff_a", -0.75), ("extrapolation_value", 0.0)]
        .map(|(name, default)| call.float_or(name, default));
    let (coefficient, outside) = (coefficient?, outside?);
    let excluded = call.flag_or("exclude_outside", false)?;
    let (mut antialias, mut axes, mut policy) = (false, None, "stretch");
    if call.version() >= 18 {
        antialias = call.flag_or("antialias", false)?;
        axes = call.ints("axes")?;
        policy = call.string_or("keep_aspect_ratio_policy", "stretch")?;
    }
    let (x, sampled) = (call.input(0)?, lengths(call)?);
    let is_usual = !excluded && !antialias && axes.is_none() && policy == "stretch";
    if is_usual
        && (mode != "cubic" || coefficient == -0.75)
        && let Some(way) = Way::of(mode, mapping, rounding)
        && let Some(emit) = interpolated(call, x, &way, &sampled)?
    {
        return one(emit.one());
    }
    let roi = if mapping == "tf_crop_and_resize" { call.floats_argument(1)? } else { Argument::Absent };
    let mut resize = call.emit("Resize").input(x);
    // An input that is not named is told from the others by its element type.
    match roi {
        Argument::Computed(roi) => resize = resize.input(roi),
        other => resize = resize.argument("roi", other),
    }
    resize = match sampled {
        Lengths::Scales(scales) => resize.argument("scales", scales),
        Lengths::Sizes(Argument::Computed(sizes)) => resize.input(sizes),
        Lengths::Sizes(sizes) => resize.argument("sizes", sizes),
    };
    if mode == "cubic" {
        resize = resize.param("cubic_coeff_a", coefficient);
    }
    if antialias {
        resize = resize.param("antialias", 1);
    }
    if excluded {
        resize = resize.param("exclude_outside", 1);
    }
    if mapping == "tf_crop_and_resize" {
        resize = resize.param("extrapolation_value", outside);
    }
    if policy != "stretch" {
        resize = resize.param("keep_aspect_ratio_policy", policy);
    }
    let resize = resize.param_if("axes", axes).param("mode", mode).param("nearest_mode", rounding);
    one(resize.param("coordinate_transformation_mode", mapping).one())
}

/// What says how long the axes become.
enum Lengths {
    Scales(Argument),
    Sizes(Argument),
}

/// The scales or the sizes. One of them is left out, or empty.
fn lengths(call: &mut Call<'_>) -> Result<Lengths, OnnxError> {
    let is_empty = |argument: &Argument| matches!(argument, Argument::Known(value) if value.raw() == "()");
    let sizes = call.list_argument(3)?;
    if !sizes.is_absent() && !is_empty(&sizes) {
        return Ok(Lengths::Sizes(sizes));
    }
    let scales = call.floats_argument(2)?;
    if scales.is_absent() || is_empty(&scales) {
        return Err(call.error("expected `scales` or `sizes`, got neither"));
    }
    Ok(Lengths::Scales(scales))
}

/// What PyTorch's `interpolate` calls a way of resampling.
struct Way {
    /// Its modes for one to three axes behind the first two.
    modes: [Option<&'static str>; 3],
    align_corners: Option<bool>,
    /// Whether an axis must not become shorter.
    grows: bool,
    /// Whether scales must be small integers, so that both round positions alike.
    is_exact: bool,
}

impl Way {
    fn of(mode: &str, mapping: &str, rounding: &str) -> Option<Self> {
        let nearest =
            |name, grows| Some(Self { modes: [Some(name); 3], align_corners: None, grows, is_exact: true });
        let smooth = |modes| Self { modes, align_corners: Some(false), grows: false, is_exact: false };
        let way = match mode {
            "linear" => smooth([Some("linear"), Some("bilinear"), Some("trilinear")]),
            "cubic" => smooth([None, Some("bicubic"), None]),
            _ => {
                return match (mapping, rounding) {
                    ("asymmetric", "floor") => nearest("nearest", false),
                    ("asymmetric", "floor_or_ceil") => nearest("nearest", true),
                    ("half_pixel", "round_prefer_ceil") => nearest("nearest-exact", false),
                    _ => None,
                };
            }
        };
        match mapping {
            "half_pixel" => Some(way),
            // They differ only if an axis becomes a single element.
            "pytorch_half_pixel" => Some(Self { grows: true, ..way }),
            "align_corners" => Some(Self { align_corners: Some(true), ..way }),
            _ => None,
        }
    }
}

/// PyTorch's `interpolate`, if the first two axes keep their lengths.
fn interpolated<'e>(
    call: &'e mut Call<'_>,
    x: OperandId,
    way: &Way,
    lengths: &Lengths,
) -> Result<Option<Emit<'e>>, OnnxError> {
    let (count, key, value) = match lengths {
        Lengths::Scales(Argument::Known(scales)) => {
            let scales = scales.as_f64s().unwrap_or_default();
            let Some((kept, scales)) = scales.split_at_checked(2) else { return Ok(None) };
            let is_small = |scale: &f64| scale.fract() == 0.0 && (1.0..=8.0).contains(scale);
            let fits = |scale: &f64| {
                *scale > 0.0 && (!way.grows || *scale >= 1.0) && (!way.is_exact || is_small(scale))
            };
            if kept != [1.0, 1.0] || !scales.iter().all(fits) {
                return Ok(None);
            }
            (scales.len(), "scale_factor", Argument::Known(scales.into()))
        }
        Lengths::Sizes(sizes) => match kept_sizes(call, x, sizes)? {
            Some((count, sizes)) => (count, "size", sizes),
            None => return Ok(None),
        },
        Lengths::Scales(_) => return Ok(None),
    };
    let mode = count.checked_sub(1).and_then(|axes| way.modes.get(axes).copied().flatten());
    let Some(mode) = mode else { return Ok(None) };
    let emit = call.emit("F.interpolate").input(x).argument(key, value).param("mode", mode);
    Ok(Some(emit.param_if("align_corners", way.align_corners)))
}

/// The sizes behind the first two, and their number, if the first two are those of the input.
fn kept_sizes(
    call: &mut Call<'_>,
    x: OperandId,
    sizes: &Argument,
) -> Result<Option<(usize, Argument)>, OnnxError> {
    match sizes {
        Argument::Known(sizes) => {
            let sizes = sizes.as_i64s().unwrap_or_default();
            let lens = call.lengths(0)?.unwrap_or_default();
            let is_kept = |at: usize| {
                let len = lens.get(at).copied().flatten().and_then(|len| i64::try_from(len).ok());
                len.is_some() && sizes.get(at).copied() == len
            };
            let rest = sizes.get(2..).filter(|_| is_kept(0) && is_kept(1) && sizes.len() == lens.len());
            let rest = rest.filter(|rest| rest.iter().all(|len| *len > 1));
            Ok(rest.map(|rest| (rest.len(), Argument::list(rest.to_vec()))))
        }
        Argument::Computed(_) => {
            let Value::Lengths(sizes) = call.value(3)? else { return Ok(None) };
            let Some((count, rest)) = sizes.behind_kept(x, 2) else { return Ok(None) };
            Ok(Some((count, Argument::Computed(rest.operand(call.lowering())?))))
        }
        Argument::Absent => Ok(None),
    }
}
