//! Pooling with sliding windows, and adaptive pooling.

use super::convolution::{lengths, of_axes, with_three_axes};
use super::prelude::*;
use super::support::{computed_in, is_real_in_any_order, strides};
use crate::kernels::naive::Divisor;
use crate::kernels::window::Window;
use crate::ops::pooling::{
    AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool, Pooled, Pooling, Reduction, Regions,
};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Own::<Pooled<MaxPool>>::ENTRY,
    &Own::<Pooled<AvgPool>>::ENTRY,
    &Own::<Pooled<LpPool>>::ENTRY,
    &Own::<Pooled<AdaptiveAvgPool>>::ENTRY,
    &Own::<Pooled<AdaptiveMaxPool>>::ENTRY,
];

/// Returns true if a tensor N×C×D×H×W has adjacent channels, instead of adjacent positions of a row.
pub(super) fn are_channels_last(layout: &Layout) -> bool {
    let len = |axis: usize| layout.shape().get(axis).copied().unwrap_or(1);
    layout.strides().get(1) == Some(&1) && len(1) > 1 && (layout.strides().get(4) != Some(&1) || len(4) == 1)
}

/// Pools planes; without windows, adaptively.
pub(super) fn run(
    axes: usize,
    windows: Option<&[Window]>,
    reduction: Reduction,
    io: &mut CudaIo<'_, '_>,
) -> Result<()> {
    let (x, y, indices) = (&io.inputs[0], io.outputs[0], io.outputs.get(1).copied());
    let with_axes = |tensor: &DeviceTensor<'_>| with_three_axes(tensor, axes, 2).map(|it| *it.layout());
    let (planes, pooled) = (with_axes(x)?, with_axes(&y)?);
    let of_indices = indices.as_ref().map(with_axes).transpose()?;
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
        .define("CHANNELS_LAST", u8::from(are_channels_last(&pooled)))
        .define("KIND", kind)
        .define("DIVISOR", divisor)
        .define("ADAPTIVE", u8::from(windows.is_none()))
        .define("INFINITY_NORM", u8::from(kind == "NORM" && parameter.is_infinite()))
        .define("INDICES", u8::from(indices.is_some()))
        .define("LOWEST", if computed == "i64" { "(-0x7fffffffffffffffll - 1)" } else { "-(C)INFINITY" });
    let windows = windows.unwrap_or_default().iter();
    let arguments = [
        Argument::Read(*x),
        Argument::Strides(strides(&planes)),
        Argument::Write(y),
        Argument::Strides(strides(&pooled)),
        indices.map_or(Argument::None, Argument::Write),
        Argument::Strides(of_indices.as_ref().map_or(KernelStrides::default(), strides)),
        Argument::Shape(lengths(&y.with_layout(pooled)?, &[0, 1, 2, 3, 4])?),
        Argument::Shape(lengths(&x.with_layout(planes)?, &[2, 3, 4])?),
        Argument::Shape(of_axes(windows.clone().map(|window| window.kernel), 1)?),
        Argument::Shape(of_axes(windows.clone().map(|window| window.stride), 1)?),
        Argument::Shape(of_axes(windows.clone().map(|window| window.pad_before), 0)?),
        Argument::Shape(of_axes(windows.clone().map(|window| window.pad_after), 0)?),
        Argument::Shape(of_axes(windows.map(|window| window.dilation), 1)?),
        Argument::Long(y.num_elements() as i64),
        Argument::Double(parameter),
        Argument::Long(window_len as i64),
    ];
    io.context.run(&unit, "pooling", Grid::over(y.num_elements()), &arguments)
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
