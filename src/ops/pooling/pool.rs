//! Pooling: the largest element, the mean or the norm of what a window sees that slides over the input.

use crate::Limits;
use crate::kernels::naive::Divisor;
use crate::kernels::pool::{self, PoolShape};
use crate::kernels::window::Window;
use crate::op::{
    CpuLayer, Field, ForwardContext, FromOperator, Layer, LayerError, OperatorReader, SpatialAxes,
    TensorFormat, TensorMeta,
};
use crate::ops::support::choices::{PerAxis, per_axis};
use crate::ops::support::float;
use crate::ops::support::float::with_real;
use crate::ops::support::ready::Ready;
use crate::ops::support::rules;
use crate::tensor::{DType, Dim, Format, Layout, Shape, TensorView, TensorViewMut};
use std::fmt;
use std::ops::RangeInclusive;

/// What becomes of the elements that one output position looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reduction {
    /// The largest, and its place where that is asked for.
    Max {
        /// Whether there is a second output: positions in the flattened plane.
        indices: bool,
    },
    /// The mean.
    Mean(Divisor),
    /// The norm of this order, over windows of so many places.
    Norm {
        /// The order.
        p: f64,
        /// Places of a whole window.
        places: usize,
    },
}

impl Reduction {
    /// How many outputs there are.
    pub(in crate::ops) fn num_outputs(self) -> usize {
        if self == (Self::Max { indices: true }) { 2 } else { 1 }
    }

    /// The outputs, given their dimensions.
    pub(in crate::ops) fn metas(self, input: &TensorMeta, dims: Vec<Dim>) -> Vec<TensorMeta> {
        let values = input.with_dims(dims);
        match self {
            Self::Max { indices: true } => vec![values.clone(), values.with_dtype(DType::I64)],
            _ => vec![values],
        }
    }

    /// Checks that the windows of all positions along the axes may be kept while the outputs are computed.
    pub(in crate::ops) fn check(outputs: &[TensorViewMut<'_>], limits: &Limits) -> Result<(), LayerError> {
        let positions = outputs[0].shape().iter().fold(0u64, |sum, &len| sum.saturating_add(len as u64));
        Ok(limits.check_tensor("the windows of a pooling", positions.saturating_mul(pool::POSITION_BYTES))?)
    }

    /// Computes the outputs.
    pub(in crate::ops) fn compute<T: pool::Pool>(
        self,
        shape: &PoolShape,
        input: &TensorView<'_>,
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let input = float::read::<T>(input)?;
        let (scratch, limits) = context.scratch_and_limits::<T>(shape.scratch_len())?;
        let (values, indices) = outputs.split_at_mut(1);
        let mut places = vec![0; indices.first().map_or(0, TensorViewMut::num_elements)];
        float::write::<T>(&mut values[0], |values| {
            Ok(match self {
                Self::Max { indices: true } => {
                    pool::max_pool_with_indices(shape, &input, values, &mut places, limits)
                }
                Self::Max { indices: false } => pool::max_pool(shape, &input, values, scratch, limits),
                Self::Mean(divisor) => pool::avg_pool(shape, divisor, &input, values, scratch, limits),
                Self::Norm { p: f64::INFINITY, .. } => {
                    let sizes: Vec<T> = input.iter().map(|x| x.abs()).collect();
                    pool::max_pool(shape, &sizes, values, scratch, limits)
                }
                Self::Norm { p, places } => {
                    pool::lp_pool(shape, (p, places), &input, values, scratch, limits)
                }
            }?)
        })?;
        if let Some(indices) = indices.first_mut() {
            let layout = Layout::contiguous(*indices.shape());
            indices.copy_from(&TensorView::from_slice(&places, layout)?)?;
        }
        Ok(())
    }
}

/// The number of axes before those that are pooled: channels, and a batch unless the input is a single sample.
pub(super) fn leading_axes(input: &TensorMeta, axes: SpatialAxes) -> Result<usize, LayerError> {
    let axes = axes.get();
    let leading = input.rank().checked_sub(axes).filter(|leading| (1..=2).contains(leading));
    let leading = leading
        .ok_or_else(|| LayerError::shape("the input", format!("{} or {} axes", axes + 1, axes + 2), input))?;
    match input.dims()[leading..].iter().position(|len| *len == 0usize) {
        Some(axis) => {
            Err(LayerError::shape(format!("axis {} of the input", leading + axis), "an element", input))
        }
        None => Ok(leading),
    }
}

/// An operator that pools its first input. [`Pooled`] makes a layer of it, for the CPU and for GPUs.
pub trait Pooling: FromOperator + Clone + fmt::Debug + Send + Sync {
    /// How many axes it pools: the last ones.
    fn axes(&self) -> SpatialAxes;

    /// How many inputs it has. Default: one.
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=1
    }

    /// The shape rule, as [`Layer::infer`].
    ///
    /// # Errors
    /// As [`Layer::infer`].
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError>;

    /// A window for each axis, or none where parts adapt to the size of the output; and what becomes of what they see.
    ///
    /// # Errors
    /// Parameters that make no sense.
    fn method(&self) -> Result<(Option<Vec<Window>>, Reduction), LayerError>;

    /// The sizes for planes of these lengths, and the reduction.
    #[doc(hidden)]
    fn prepare(&self, (lens, outputs): &(Shape, Shape)) -> Result<(PoolShape, Reduction), LayerError> {
        let last = |shape: &Shape| shape.rank().saturating_sub(self.axes().get());
        let (lens, outputs) = (&lens[last(lens)..], &outputs[last(outputs)..]);
        let (windows, reduction) = self.method()?;
        let shape = match windows {
            Some(windows) => PoolShape::sliding(lens, &windows, outputs),
            None => PoolShape::adaptive(lens, outputs),
        };
        Ok((shape, reduction))
    }
}

/// A pooling as a layer: the operator, and what was made of it for the last shapes.
#[derive(Debug, Clone)]
pub struct Pooled<P> {
    /// The operator with its parameters.
    pub operator: P,
    prepared: Prepared,
}

impl<P> From<P> for Pooled<P> {
    fn from(operator: P) -> Self {
        Self { operator, prepared: Prepared::default() }
    }
}

impl<P: Pooling> FromOperator for Pooled<P> {
    const TYPES: &'static [&'static str] = P::TYPES;
    const DOC: &'static str = P::DOC;
    const FIELDS: &'static [Field] = P::FIELDS;

    fn from_operator(reader: &mut OperatorReader<'_>) -> Result<Self, LayerError> {
        P::from_operator(reader).map(Self::from)
    }

    fn validate(&self) -> Result<(), LayerError> {
        self.operator.validate()
    }
}

impl<P: Pooling> Layer for Pooled<P> {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.operator.num_inputs()
    }

    fn num_outputs(&self) -> usize {
        self.operator.method().map_or(1, |(_, reduction)| reduction.num_outputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.operator.infer(inputs)
    }
}

impl<P: Pooling + 'static> CpuLayer for Pooled<P> {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let operator = &self.operator;
        let make = |shapes: &(Shape, Shape)| operator.prepare(shapes);
        compute(&mut self.prepared, &inputs[0], outputs, context, &make)
    }

    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        supports(self.operator.axes().get(), position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<(), LayerError> {
        configure(self.operator.axes().get(), inputs)
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        workspace(inputs)
    }
}

/// The sizes of a pooling and what it does, for the shapes of an input and an output.
type Prepared = Ready<((Shape, Shape), (PoolShape, Reduction))>;

/// Makes the sizes of a pooling and what it does.
type Make<'a> = dyn Fn(&(Shape, Shape)) -> Result<(PoolShape, Reduction), LayerError> + 'a;

/// Computes the outputs, by what is ready or by what `make` makes of the shapes.
fn compute(
    ready: &mut Prepared,
    input: &TensorView<'_>,
    outputs: &mut [TensorViewMut<'_>],
    context: &mut ForwardContext<'_>,
    make: &Make<'_>,
) -> Result<(), LayerError> {
    if outputs[0].num_elements() == 0 {
        return Ok(());
    }
    Reduction::check(outputs, context.limits())?;
    if let Format::Blocked { block, .. } = input.layout().format() {
        return compute_blocked(ready, input, outputs, context, block, make);
    }
    let (shape, reduction) = ready.of((*input.shape(), *outputs[0].shape()), make)?;
    with_real!(input.dtype(), T => reduction.compute::<T>(shape, input, outputs, context))
}

/// The same for planes whose places hold a block of channels each.
fn compute_blocked(
    ready: &mut Prepared,
    input: &TensorView<'_>,
    outputs: &mut [TensorViewMut<'_>],
    context: &mut ForwardContext<'_>,
    block: u8,
    make: &Make<'_>,
) -> Result<(), LayerError> {
    let [output] = outputs else {
        return Err(LayerError::Unsupported("places are not found in blocks of channels".into()));
    };
    let logical = (*input.shape(), *output.shape());
    let (input, layout) = (input.with_layout(input.layout().unrolled()?)?, output.layout().unrolled()?);
    let mut output = output.reborrow().with_layout(layout)?;
    let (shape, reduction) = ready.of((*input.shape(), *output.shape()), |_| {
        let (shape, reduction) = make(&logical)?;
        let shape = shape.with_lanes(block.into());
        Ok((
            shape.ok_or_else(|| LayerError::Unsupported("three axes are not pooled in blocks".into()))?,
            reduction,
        ))
    })?;
    let outputs = std::slice::from_mut(&mut output);
    with_real!(input.dtype(), T => reduction.compute::<T>(shape, &input, outputs, context))
}

/// Whether a tensor of a pooling may have a format: all lie the same way, with channels in blocks if at all.
pub(in crate::ops) fn supports(axes: usize, position: usize, formats: &[TensorFormat]) -> bool {
    let (Some(format), Some(first)) = (formats.get(position), formats.first()) else { return false };
    let is_possible = match format.format {
        Format::Plain => true,
        Format::ChannelsLast => false,
        Format::Blocked { axis, .. } => axis == 1 && axes <= 2,
    };
    is_possible && !format.is_quantized && format.format == first.format
}

/// Refuses blocks of channels where there is no batch, for the channels are another axis then.
///
/// # Errors
/// [`LayerError::Unsupported`].
pub(in crate::ops) fn configure(axes: usize, inputs: &[TensorMeta]) -> Result<(), LayerError> {
    match inputs.first() {
        Some(input) if input.format() != Format::Plain && input.rank() != axes + 2 => {
            Err(LayerError::Unsupported("channels in blocks need a batch".into()))
        }
        _ => Ok(()),
    }
}

/// Bytes of scratch memory for pooling: a row of the input, or a block of channels.
fn workspace(inputs: &[TensorMeta]) -> usize {
    if let Some(Format::Blocked { block, .. }) = inputs.first().map(TensorMeta::format) {
        return usize::from(block).saturating_mul(float::computed_size(inputs[0].dtype()));
    }
    let row = inputs.first().and_then(|input| usize::try_from(input.dims().last()?.fixed()?).ok());
    row.unwrap_or(1).saturating_mul(inputs.first().map_or(0, |input| float::computed_size(input.dtype())))
}

fn invalid(key: &'static str, found: &PerAxis, reason: &str) -> LayerError {
    LayerError::InvalidParameter { key, found: format!("{:?}", found.values()), reason: reason.to_owned() }
}

crate::operator! {
    /// `torch.nn.MaxPool1d`, `MaxPool2d`, `MaxPool3d`: the largest element of each window, N×C×D×H×W → N×C×D′×H′×W′ (with as
    /// many axes as the type says, and with or without N). NaN counts as largest.
    pub struct MaxPool for "nn.MaxPool1d", "F.max_pool1d", "nn.MaxPool2d", "F.max_pool2d", "nn.MaxPool3d", "F.max_pool3d" {
        /// How many axes are pooled.
        axes: SpatialAxes,
        /// Lengths of the window.
        kernel_size: PerAxis,
        /// Distance between one position of the window and the next; that of the window where absent.
        stride: Option<PerAxis> = None,
        /// Places added on both sides, which are never the largest; at most half of the window.
        padding: PerAxis = PerAxis::all(0),
        /// Distance between the places that the window looks at.
        dilation: PerAxis = PerAxis::all(1),
        /// Whether a last position that is only partly inside counts.
        ceil_mode: bool = false,
        /// Whether a second output (i64) says where each largest element stands in its flattened plane.
        return_indices: bool = false,
    }
    validate |layer| { layer.sliding().map(drop) }
}

crate::operator! {
    /// `torch.nn.AvgPool1d`, `AvgPool2d`, `AvgPool3d`: the mean of each window, N×C×D×H×W → N×C×D′×H′×W′ (with as many axes as
    /// the type says, and with or without N).
    pub struct AvgPool for "nn.AvgPool1d", "F.avg_pool1d", "nn.AvgPool2d", "F.avg_pool2d", "nn.AvgPool3d", "F.avg_pool3d" {
        /// How many axes are pooled.
        axes: SpatialAxes,
        /// Lengths of the window.
        kernel_size: PerAxis,
        /// Distance between one position of the window and the next; that of the window where absent.
        stride: Option<PerAxis> = None,
        /// Zeros added on both sides; at most half of the window.
        padding: PerAxis = PerAxis::all(0),
        /// Whether a last position that is only partly inside counts.
        ceil_mode: bool = false,
        /// Whether the zeros of the padding count as elements.
        count_include_pad: bool = true,
        /// What sums are divided by instead of the number of elements.
        divisor_override: Option<i64> = None,
    }
    validate |layer| {
        if layer.divisor_override == Some(0) {
            return Err(LayerError::invalid("divisor_override", "0", "a sum cannot be divided by it"));
        }
        layer.sliding().map(drop)
    }
}

crate::operator! {
    /// `torch.nn.LPPool1d`, `LPPool2d`, `LPPool3d`: (Σ xᵖ)^(1/p) of each window, N×C×D×H×W → N×C×D′×H′×W′ (with as many axes as
    /// the type says, and with or without N). As in PyTorch, a window that reaches past the end counts its missing places as if
    /// they held the mean, and negative sums give NaN.
    pub struct LpPool for "nn.LPPool1d", "F.lp_pool1d", "nn.LPPool2d", "F.lp_pool2d", "nn.LPPool3d", "F.lp_pool3d" {
        /// How many axes are pooled.
        axes: SpatialAxes,
        /// The order p of the norm: any number but 0.
        norm_type: f64,
        /// Lengths of the window.
        kernel_size: PerAxis,
        /// Distance between one position of the window and the next; that of the window where absent.
        stride: Option<PerAxis> = None,
        /// Whether a last position that is only partly inside counts.
        ceil_mode: bool = false,
    }
    validate |layer| {
        if layer.norm_type == 0.0 {
            return Err(LayerError::invalid("norm_type", "0", "there is no norm of order 0"));
        }
        layer.sliding().map(drop)
    }
}

impl MaxPool {
    fn sliding(&self) -> Result<Sliding, LayerError> {
        let reduction = |_: &[Window]| Reduction::Max { indices: self.return_indices };
        let (kernel, stride, padding) = (&self.kernel_size, self.stride.as_ref(), &self.padding);
        Sliding::new(self.axes, kernel, stride, padding, &self.dilation, self.ceil_mode, &reduction)
    }
}

impl AvgPool {
    fn sliding(&self) -> Result<Sliding, LayerError> {
        let divisor = match (self.divisor_override, self.count_include_pad) {
            (Some(number), _) => Divisor::Fixed(number),
            (None, true) => Divisor::ElementsAndPadding,
            (None, false) => Divisor::Elements,
        };
        let (kernel, stride, padding) = (&self.kernel_size, self.stride.as_ref(), &self.padding);
        let reduction = |_: &[Window]| Reduction::Mean(divisor);
        Sliding::new(self.axes, kernel, stride, padding, &PerAxis::all(1), self.ceil_mode, &reduction)
    }
}

impl LpPool {
    fn sliding(&self) -> Result<Sliding, LayerError> {
        let reduction = |windows: &[Window]| {
            let places = windows.iter().fold(1usize, |product, w| product.saturating_mul(w.kernel));
            Reduction::Norm { p: self.norm_type, places }
        };
        let (kernel, stride, none, dense) =
            (&self.kernel_size, self.stride.as_ref(), PerAxis::all(0), PerAxis::all(1));
        Sliding::new(self.axes, kernel, stride, &none, &dense, self.ceil_mode, &reduction)
    }
}

impl Pooling for MaxPool {
    fn axes(&self) -> SpatialAxes {
        self.axes
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.sliding()?.infer(&inputs[0])
    }

    fn method(&self) -> Result<(Option<Vec<Window>>, Reduction), LayerError> {
        self.sliding().map(Sliding::method)
    }
}

impl Pooling for AvgPool {
    fn axes(&self) -> SpatialAxes {
        self.axes
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.sliding()?.infer(&inputs[0])
    }

    fn method(&self) -> Result<(Option<Vec<Window>>, Reduction), LayerError> {
        self.sliding().map(Sliding::method)
    }
}

impl Pooling for LpPool {
    fn axes(&self) -> SpatialAxes {
        self.axes
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.sliding()?.infer(&inputs[0])
    }

    fn method(&self) -> Result<(Option<Vec<Window>>, Reduction), LayerError> {
        self.sliding().map(Sliding::method)
    }
}

/// A window that slides, as all operators that have one understand it.
struct Sliding {
    axes: SpatialAxes,
    windows: Vec<Window>,
    ceil_mode: bool,
    reduction: Reduction,
}

impl Sliding {
    /// One window for each of `axes` axes.
    ///
    /// # Errors
    /// Parameters that have another number of axes, or make no sense.
    fn new(
        axes: SpatialAxes,
        kernel_size: &PerAxis,
        stride: Option<&PerAxis>,
        padding: &PerAxis,
        dilation: &PerAxis,
        ceil_mode: bool,
        reduction: &dyn Fn(&[Window]) -> Reduction,
    ) -> Result<Self, LayerError> {
        let per_axis = |key, values: &PerAxis| per_axis(key, values.values(), axes.get());
        let kernel = per_axis("kernel_size", kernel_size)?;
        let stride =
            stride.map(|stride| per_axis("stride", stride)).transpose()?.unwrap_or_else(|| kernel.clone());
        let (dilations, paddings) = (per_axis("dilation", dilation)?, per_axis("padding", padding)?);
        let numbers = kernel.into_iter().zip(stride).zip(dilations).zip(paddings);
        let windows: Vec<Window> = numbers
            .map(|(((kernel, stride), dilation), pad)| Window {
                kernel,
                stride,
                dilation,
                pad_before: pad,
                pad_after: pad,
            })
            .collect();
        if windows.iter().any(|window| !window.is_sane() || window.dilation == 0) {
            let reason = "window, stride and dilation must be at least 1, and not absurdly large";
            return Err(invalid("kernel_size", kernel_size, reason));
        }
        if windows.iter().any(|window| window.pad_before > window.kernel / 2) {
            return Err(invalid("padding", padding, "it may be at most half of the window"));
        }
        Ok(Self { axes, reduction: reduction(&windows), windows, ceil_mode })
    }

    fn method(self) -> (Option<Vec<Window>>, Reduction) {
        (Some(self.windows), self.reduction)
    }

    fn infer(&self, input: &TensorMeta) -> Result<Vec<TensorMeta>, LayerError> {
        match self.reduction {
            Reduction::Max { .. } => float::check_real("the input", input)?,
            // Sums of integers are divided as integers are.
            Reduction::Mean(_) if input.dtype() == DType::I64 => {}
            _ => float::check("the input", input)?,
        }
        let leading = leading_axes(input, self.axes)?;
        let mut dims = input.dims()[..leading].to_vec();
        for (axis, window) in self.windows.iter().enumerate() {
            let positions = rules::positions(window, &input.dims()[leading + axis], self.ceil_mode);
            if positions.fixed().is_some_and(|positions| positions < 1) {
                let wanted = format!("room for a window of {} along axis {}", window.kernel, leading + axis);
                return Err(LayerError::shape("the input", wanted, input));
            }
            dims.push(positions);
        }
        Ok(self.reduction.metas(input, dims))
    }
}

operators! { Pooled<MaxPool>, Pooled<AvgPool>, Pooled<LpPool> }

#[cfg(test)]
mod tests;
