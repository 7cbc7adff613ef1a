//! Pooling with a sliding window: its maximum, mean or norm.

use super::pooled::{Pooled, Pooling, Reduction, Regions};
use crate::op::{LayerError, Result, SpatialAxes};
use crate::support::choices::{PerAxis, per_axis};
use ixion_kernels::naive::Divisor;
use ixion_kernels::window::Window;

crate::operator! {
    /// `torch.nn.MaxPool1d`, `MaxPool2d`, `MaxPool3d`: the maximum of each sliding window, N×C×D×H×W → N×C×D′×H′×W′ (1, 2 or 3
    /// spatial axes, by the type; N is optional). NaN is treated as the maximum.
    pub struct MaxPool for "nn.MaxPool1d", "F.max_pool1d", "aten::max_pool1d",
        "nn.MaxPool2d", "F.max_pool2d", "aten::max_pool2d", "nn.MaxPool3d", "F.max_pool3d", "aten::max_pool3d"
    {
        /// The number of pooled axes.
        axes: SpatialAxes,
        /// Size of the window.
        kernel_size: PerAxis,
        /// Stride of the window; its size by default.
        stride: Option<PerAxis> = None,
        /// Implicit −∞ padding added to both sides of each axis; at most half of the window.
        padding: PerAxis = PerAxis::all(0),
        /// Spacing between kernel elements.
        dilation: PerAxis = PerAxis::all(1),
        /// Whether the output size is rounded up: windows that start inside the input may extend beyond its end.
        ceil_mode: bool = false,
        /// Whether to return a second output (i64): the index of each maximum in its flattened plane.
        return_indices: bool = false,
    }
    validate |layer| { layer.method().map(drop) }
}

crate::operator! {
    /// `torch.nn.AvgPool1d`, `AvgPool2d`, `AvgPool3d`: the mean of each sliding window, N×C×D×H×W → N×C×D′×H′×W′ (1, 2 or 3
    /// spatial axes, by the type; N is optional).
    pub struct AvgPool for "nn.AvgPool1d", "F.avg_pool1d", "aten::avg_pool1d",
        "nn.AvgPool2d", "F.avg_pool2d", "aten::avg_pool2d", "nn.AvgPool3d", "F.avg_pool3d", "aten::avg_pool3d"
    {
        /// The number of pooled axes.
        axes: SpatialAxes,
        /// Size of the window.
        kernel_size: PerAxis,
        /// Stride of the window; its size by default.
        stride: Option<PerAxis> = None,
        /// Zero padding added to both sides of each axis; at most half of the window.
        padding: PerAxis = PerAxis::all(0),
        /// Whether the output size is rounded up: windows that start inside the input may extend beyond its end.
        ceil_mode: bool = false,
        /// Whether the mean includes the zeros of the padding.
        count_include_pad: bool = true,
        /// Divisor of the sums, instead of the number of elements.
        divisor_override: Option<i64> = None,
    }
    validate |layer| {
        if layer.divisor_override == Some(0) {
            return Err(LayerError::invalid("divisor_override", "0", "it must not be 0"));
        }
        layer.method().map(drop)
    }
}

crate::operator! {
    /// `torch.nn.LPPool1d`, `LPPool2d`, `LPPool3d`: power-average pooling, (Σ xᵖ)^(1/p) of each sliding window, N×C×D×H×W →
    /// N×C×D′×H′×W′ (1, 2 or 3 spatial axes, by the type; N is optional). As in PyTorch, the missing elements of a window that
    /// extends beyond the end count as if they held the mean, and negative sums give NaN.
    pub struct LpPool for "nn.LPPool1d", "F.lp_pool1d", "nn.LPPool2d", "F.lp_pool2d", "nn.LPPool3d", "F.lp_pool3d" {
        /// The number of pooled axes.
        axes: SpatialAxes,
        /// The exponent p; any number but 0.
        norm_type: f64,
        /// Size of the window.
        kernel_size: PerAxis,
        /// Stride of the window; its size by default.
        stride: Option<PerAxis> = None,
        /// Whether the output size is rounded up: windows that start inside the input may extend beyond its end.
        ceil_mode: bool = false,
    }
    validate |layer| {
        if layer.norm_type == 0.0 {
            return Err(LayerError::invalid("norm_type", "0", "there is no norm of order 0"));
        }
        layer.method().map(drop)
    }
}

impl Pooling for MaxPool {
    fn axes(&self) -> SpatialAxes {
        self.axes
    }

    fn method(&self) -> Result<(Regions<'_>, Reduction)> {
        let (kernel, stride, padding) = (&self.kernel_size, self.stride.as_ref(), &self.padding);
        let windows = windows(self.axes, kernel, stride, padding, &self.dilation)?;
        let reduction = Reduction::Max { indices: self.return_indices };
        Ok((Regions::Sliding { windows, ceil_mode: self.ceil_mode }, reduction))
    }
}

impl Pooling for AvgPool {
    fn axes(&self) -> SpatialAxes {
        self.axes
    }

    fn method(&self) -> Result<(Regions<'_>, Reduction)> {
        let divisor = match (self.divisor_override, self.count_include_pad) {
            (Some(number), _) => Divisor::Fixed(number),
            (None, true) => Divisor::ElementsAndPadding,
            (None, false) => Divisor::Elements,
        };
        let (kernel, stride, padding) = (&self.kernel_size, self.stride.as_ref(), &self.padding);
        let windows = windows(self.axes, kernel, stride, padding, &PerAxis::all(1))?;
        Ok((Regions::Sliding { windows, ceil_mode: self.ceil_mode }, Reduction::Mean(divisor)))
    }
}

impl Pooling for LpPool {
    fn axes(&self) -> SpatialAxes {
        self.axes
    }

    fn method(&self) -> Result<(Regions<'_>, Reduction)> {
        let (kernel, stride) = (&self.kernel_size, self.stride.as_ref());
        let windows = windows(self.axes, kernel, stride, &PerAxis::all(0), &PerAxis::all(1))?;
        let places = windows.iter().fold(1usize, |product, window| product.saturating_mul(window.kernel));
        let reduction = Reduction::Norm { p: self.norm_type, places };
        Ok((Regions::Sliding { windows, ceil_mode: self.ceil_mode }, reduction))
    }
}

/// The window along each axis.
///
/// # Errors
/// Fails if a parameter is invalid or has a wrong number of axes.
fn windows(
    axes: SpatialAxes,
    kernel_size: &PerAxis,
    stride: Option<&PerAxis>,
    padding: &PerAxis,
    dilation: &PerAxis,
) -> Result<Vec<Window>> {
    let per_axis = |key, values: &PerAxis| per_axis(key, values.values(), axes.get());
    let kernel = per_axis("kernel_size", kernel_size)?;
    let stride =
        stride.map(|stride| per_axis("stride", stride)).transpose()?.unwrap_or_else(|| kernel.clone());
    let (dilations, paddings) = (per_axis("dilation", dilation)?, per_axis("padding", padding)?);
    let numbers = kernel.into_iter().zip(stride).zip(dilations).zip(paddings);
    let window = |(((kernel, stride), dilation), pad)| Window {
        kernel,
        stride,
        dilation,
        pad_before: pad,
        pad_after: pad,
    };
    let windows: Vec<Window> = numbers.map(window).collect();
    if windows.iter().any(|window| !window.is_sane() || window.dilation == 0) {
        let reason = "window, stride and dilation must be at least 1, and not too large";
        return Err(invalid("kernel_size", kernel_size, reason));
    }
    if windows.iter().any(|window| window.pad_before > window.kernel / 2) {
        return Err(invalid("padding", padding, "it may be at most half of the window"));
    }
    Ok(windows)
}

fn invalid(key: &'static str, found: &PerAxis, reason: &str) -> LayerError {
    LayerError::InvalidParameter { key, found: format!("{:?}", found.values()), reason: reason.to_owned() }
}

operators! { Pooled<MaxPool>: moves(Moved), Pooled<AvgPool>: when_quantized(InFloats(OfMean)), Pooled<LpPool> }

#[cfg(test)]
mod tests;
