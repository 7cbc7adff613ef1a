//! Resampling to another size.

use super::pooling;
use super::prelude::*;
use super::support::{is_any_dtype, is_float, row_major, strides, typed};
use super::windows::{are_channels_last, lengths, of_axes, with_three_axes};
use crate::kernels::naive::Divisor;
use crate::ops::pooling::Reduction;
use crate::ops::vision::interpolation::{Interpolate, Mode, Resize, UpsampleBilinear, UpsampleNearest};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<Interpolate>::new(supports, |layer, io| run(&layer.resize(), io))
        .with_check(|layer, inputs| check(&layer.resize(), inputs)),
    &Simple::<UpsampleNearest>::new(supports, |layer, io| run(&layer.resize(), io)),
    &Simple::<UpsampleBilinear>::new(supports, |layer, io| run(&layer.resize(), io)),
];

/// Returns true for floats and bytes, and for the size if it is an input.
fn supports(position: usize, formats: &[TensorFormat]) -> bool {
    let formats = &row_major(formats);
    let is_size = position == 1 && formats.len() > 2;
    let is_bytes = formats.get(position).is_some_and(|format| format.dtype == DType::U8);
    is_float(position, formats) || (is_size || is_bytes) && is_any_dtype(position, formats)
}

/// Refuses filters against aliasing, and bytes that are computed and not copied: there is no kernel for them.
fn check(resize: &Resize<'_>, inputs: &[TensorMeta]) -> Result<()> {
    let copies = matches!(resize.mode, Mode::Nearest | Mode::NearestExact);
    let is_bytes = inputs.first().is_some_and(|input| input.dtype() == DType::U8);
    match resize.antialias || is_bytes && !copies {
        true => Err(LayerError::Unsupported("filters and computed bytes run on the CPU".to_owned())),
        false => Ok(()),
    }
}

/// The distance between adjacent output elements along each axis, in input elements, with the rounding of the element type.
fn scales(resize: &Resize<'_>, dtype: DType, lens: &[usize], sizes: &[usize]) -> Result<Vec<f64>> {
    let factors = if resize.keeps_factors { resize.factors(lens.len())? } else { Vec::new() };
    // In nearest mode on images, PyTorch ignores the factor of axes that keep or double their length.
    let ignores_factors = resize.mode == Mode::Nearest && lens.len() == 2;
    let is_kept_or_doubled =
        |len: usize, size: usize| ignores_factors && (size == len || size == len.saturating_mul(2));
    let over = |a: f64, b: f64| if dtype == DType::F64 { a / b } else { f64::from(a as f32 / b as f32) };
    let scale = |(axis, (&len, &size)): (usize, (&usize, &usize))| {
        let factor = factors.get(axis).copied().filter(|_| !is_kept_or_doubled(len, size));
        match (factor, resize.align_corners) {
            (_, true) => over(len as f64 - 1.0, (size as f64 - 1.0).max(1.0)),
            (Some(factor), false) => 1.0 / factor,
            (None, false) => over(len as f64, size as f64),
        }
    };
    Ok(lens.iter().zip(sizes).enumerate().map(scale).collect())
}

fn run(resize: &Resize<'_>, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
    let axes = y.shape().len().saturating_sub(2);
    let mode = match resize.mode {
        Mode::Area => return pooling::run(axes, None, Reduction::Mean(Divisor::Elements), io),
        Mode::Nearest => "NEAREST",
        Mode::NearestExact => "NEAREST_EXACT",
        Mode::Linear | Mode::Bilinear | Mode::Trilinear => "LINEAR",
        Mode::Bicubic => "CUBIC",
        Mode::Lanczos => {
            return Err(LayerError::Unsupported("there is no kernel for mode lanczos".to_owned()));
        }
    };
    let after_channels =
        |tensor: &DeviceTensor<'_>| tensor.shape().iter().skip(2).copied().collect::<Vec<_>>();
    let scales = scales(resize, x.dtype(), &after_channels(x), &after_channels(y))?;
    let resampled_axes = of_axes(scales.iter().map(|_| 1), 0)?;
    let mut padded_scales = [1.0; 3];
    for (scale, axis_scale) in padded_scales.iter_mut().rev().zip(scales.iter().rev()) {
        *scale = *axis_scale;
    }
    let (x, y) = (with_three_axes(x, axes, 2)?, with_three_axes(y, axes, 2)?);
    let real = if x.dtype() == DType::F64 { "double" } else { "float" };
    let unit = typed(Unit::new("resample.cu", include_str!("../kernels/resample.cu")), x.dtype())?
        .define("R", real)
        .define("CHANNELS_LAST", u8::from(are_channels_last(y.layout())))
        .define("MODE", mode)
        .define("ALIGNED", u8::from(resize.align_corners));
    let arguments = [
        Argument::Read(x),
        Argument::Strides(strides(x.layout())),
        Argument::Write(y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(lengths(&y, &[0, 1, 2, 3, 4])?),
        Argument::Shape(lengths(&x, &[2, 3, 4])?),
        Argument::Shape(resampled_axes),
        Argument::Long(y.num_elements() as i64),
        Argument::Double(padded_scales[0]),
        Argument::Double(padded_scales[1]),
        Argument::Double(padded_scales[2]),
    ];
    io.context.run(&unit, "resample", Grid::over(y.num_elements()), &arguments)
}
