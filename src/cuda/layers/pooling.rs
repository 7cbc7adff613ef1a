//! Pooling with sliding windows, and adaptive pooling.

use super::axes::chunk;
use super::prelude::*;
use super::support::{computed_in, int, is_real_in_any_order, strides};
use super::windows::{are_channels_chunked, are_channels_last, lengths, of_axes, spread, with_three_axes};
use crate::kernels::naive::Divisor;
use crate::kernels::window::Window;
use crate::ops::pooling::{
    AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool, Pooled, Pooling, Reduction, Regions,
};
use smallvec::SmallVec;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Own::<Pooled<MaxPool>>::ENTRY,
    &Own::<Pooled<AvgPool>>::ENTRY,
    &Own::<Pooled<LpPool>>::ENTRY,
    &Own::<Pooled<AdaptiveAvgPool>>::ENTRY,
    &Own::<Pooled<AdaptiveMaxPool>>::ENTRY,
];

/// The number of adjacent threads that share a window with this number of positions: more than one if windows are large, and too
/// few to keep the device busy with a thread for each.
fn shares(positions: usize, windows: usize) -> usize {
    const LARGE: usize = 32;
    const FEW: usize = 1 << 12;
    const MANY: usize = 1 << 18;
    if positions < LARGE {
        return 1;
    }
    match windows {
        0..FEW => 32,
        FEW..MANY => 8,
        _ => 1,
    }
}

/// The number of positions of the windows, or of most of them if they differ.
fn positions(windows: Option<&[Window]>, [x, y]: [&DeviceTensor<'_>; 2]) -> usize {
    match windows {
        Some(windows) => windows.iter().map(|window| window.kernel).fold(1, usize::saturating_mul),
        None => {
            let lengths = x.shape().iter().zip(y.shape().iter()).skip(2);
            lengths.map(|(len, parts)| len.div_ceil(*parts.max(&1))).fold(1, usize::saturating_mul)
        }
    }
}

/// Pools planes; without windows, adaptively.
pub(super) fn run(
    axes: usize,
    windows: Option<&[Window]>,
    reduction: Reduction,
    io: &mut CudaIo<'_, '_>,
) -> Result<()> {
    let (x, y) = (with_three_axes(&io.inputs[0], axes, 2)?, with_three_axes(&io.outputs[0], axes, 2)?);
    let indices = io.outputs.get(1).map(|indices| with_three_axes(indices, axes, 2)).transpose()?;
    let tensors: SmallVec<[&DeviceTensor<'_>; 3]> = [&x, &y].into_iter().chain(&indices).collect();
    let chunk = chunk(&tensors, |chunk| tensors.iter().all(|tensor| are_channels_chunked(tensor, chunk)));
    let outputs = y.num_elements() / chunk;
    let shares = if indices.is_some() { 1 } else { shares(positions(windows, [&x, &y]), outputs) };
    let mut out = lengths(&y, &[0, 1, 2, 3, 4])?;
    out.dims[1] /= int(chunk)?;
    let (kind, divisor, parameter, window_len) = match reduction {
        Reduction::Max { .. } => ("MAX", "EXCLUDE_PADDING", 0.0, 0),
        Reduction::Mean(Divisor::Elements) => ("MEAN", "EXCLUDE_PADDING", 0.0, 0),
        Reduction::Mean(Divisor::ElementsAndPadding) => ("MEAN", "INCLUDE_PADDING", 0.0, 0),
        Reduction::Mean(Divisor::Fixed(divisor)) => ("MEAN", "FIXED_DIVISOR", divisor as f64, 0),
        Reduction::Norm { p, places } => ("NORM", "EXCLUDE_PADDING", p, places),
    };
    let computed = computed_in(y.dtype())?;
    let unit = Unit::new("pooling.cu", include_str!("../kernels/pooling.cu"))
        .define("T", y.dtype().name())
        .define("C", computed)
        .define("CHANNELS_LAST", u8::from(are_channels_last(y.layout())))
        .define("CHUNK", chunk)
        .define("SHARES", shares)
        .define("KIND", kind)
        .define("DIVISOR", divisor)
        .define("ADAPTIVE", u8::from(windows.is_none()))
        .define("INFINITY_NORM", u8::from(kind == "NORM" && parameter.is_infinite()))
        .define("INDICES", u8::from(indices.is_some()))
        .define("LOWEST", if computed == "i64" { "(-0x7fffffffffffffffll - 1)" } else { "-(C)INFINITY" });
    let windows = windows.unwrap_or_default().iter();
    let arguments = [
        Argument::Read(x),
        Argument::Strides(strides(x.layout())),
        Argument::Write(y),
        Argument::Strides(strides(y.layout())),
        indices.map_or(Argument::None, Argument::Write),
        Argument::Strides(indices.map_or(KernelStrides::default(), |indices| strides(indices.layout()))),
        Argument::Shape(out),
        Argument::Shape(lengths(&x, &[2, 3, 4])?),
        Argument::Shape(of_axes(windows.clone().map(|window| window.kernel), 1)?),
        Argument::Shape(of_axes(windows.clone().map(|window| window.stride), 1)?),
        Argument::Shape(of_axes(windows.clone().map(|window| window.pad_before), 0)?),
        Argument::Shape(of_axes(windows.clone().map(|window| window.pad_after), 0)?),
        Argument::Shape(of_axes(windows.map(|window| window.dilation), 1)?),
        Argument::Long(outputs as i64),
        Argument::Double(parameter),
        Argument::Long(window_len as i64),
    ];
    io.context.run(&unit, "pooling", spread(outputs * shares), &arguments)
}

impl<P: Pooling + 'static> CudaLayer for Pooled<P> {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real_in_any_order(position, formats)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (regions, reduction) = self.operator.method()?;
        let windows = match regions {
            Regions::Sliding { windows, .. } => Some(windows),
            Regions::Adaptive { .. } => None,
        };
        run(self.operator.axes().get(), windows.as_deref(), reduction, io)
    }
}
