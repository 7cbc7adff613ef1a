//! Pooling as a layer: the common parts of all poolings, with sliding windows and with adaptive regions.

use super::bytes;
use crate::op::{
    CpuLayer, Field, ForwardContext, FromOperator, Io, Layer, LayerError, OperatorReader, Result,
    SpatialAxes, TensorFormat, TensorMeta, Written, exactly,
};
use crate::support::arguments::ParamOrInput;
use crate::support::choices::{PerAxis, per_axis};
use crate::support::float;
use crate::support::float::with_real;
use crate::support::int8::quantization;
use crate::support::number;
use crate::support::rules;
use crate::support::shape_cache::ShapeCache;
use ixion_kernels::naive::Divisor;
use ixion_kernels::pool::{self, ByteReduction, PoolShape};
use ixion_kernels::quantization::Quantization;
use ixion_kernels::window::Window;
use ixion_tensor::{DType, Dim, Format, Limits, Shape, TensorView, TensorViewMut};
use std::fmt;
use std::ops::RangeInclusive;

/// An operator that pools its first input. [`Pooled`] makes a layer of it, for the CPU and for GPUs.
pub trait Pooling: FromOperator + Clone + fmt::Debug + Send + Sync {
    /// The number of pooled axes, which are the last ones.
    fn axes(&self) -> SpatialAxes;

    /// The input regions of the output positions, and the reduction of each.
    ///
    /// # Errors
    /// Fails if the parameters are invalid.
    fn method(&self) -> Result<(Regions<'_>, Reduction)>;
}

/// The input regions of the output positions of a pooling.
#[derive(Debug, Clone)]
pub enum Regions<'a> {
    /// A window that slides along each axis.
    Sliding {
        /// One window for each axis.
        windows: Vec<Window>,
        /// Whether the output size is rounded up: windows that start inside the input may extend beyond its end.
        ceil_mode: bool,
    },
    /// Each axis is divided into as many regions as the output has positions.
    Adaptive {
        /// The spatial size of the output, or one length for all axes; 0 keeps the input's length (PNNX writes `None` as 0).
        output_size: &'a ParamOrInput<PerAxis>,
    },
}

/// The reduction of the elements of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reduction {
    /// The maximum, optionally with its index.
    Max {
        /// Whether there is a second output: indices into the flattened plane.
        indices: bool,
    },
    /// The mean.
    Mean(Divisor),
    /// The p-norm of a window.
    Norm {
        /// The order of the norm.
        p: f64,
        /// The number of elements of a whole window.
        places: usize,
    },
}

impl Reduction {
    /// The number of outputs.
    fn num_outputs(self) -> usize {
        if self == (Self::Max { indices: true }) { 2 } else { 1 }
    }

    /// The reduction of int8, if there is a kernel for it.
    fn of_bytes(self) -> Option<ByteReduction> {
        match self {
            Self::Max { indices: false } => Some(ByteReduction::Max),
            Self::Mean(divisor) => Some(ByteReduction::Mean(divisor)),
            Self::Max { indices: true } | Self::Norm { .. } => None,
        }
    }

    /// The metadata of the outputs, given their dimensions.
    fn metas(self, input: &TensorMeta, dims: Vec<Dim>) -> Vec<TensorMeta> {
        let values = input.with_dims(dims);
        match self {
            Self::Max { indices: true } => vec![values.clone(), values.with_dtype(DType::I64)],
            _ => vec![values],
        }
    }

    /// Checks that the windows of all positions along the axes are within the limits.
    fn check(outputs: &[TensorViewMut<'_>], limits: &Limits) -> Result<()> {
        let positions = outputs[0].shape().iter().fold(0u64, |sum, &len| sum.saturating_add(len as u64));
        Ok(limits.check_tensor("the windows of a pooling", positions.saturating_mul(pool::POSITION_BYTES))?)
    }

    /// Computes the outputs.
    fn compute<T: pool::Pool>(
        self,
        shape: &PoolShape,
        input: &TensorView<'_>,
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let input = float::read::<T>(input)?;
        let (scratch, limits) = context.scratch_and_limits::<T>(shape.scratch_len())?;
        let (values, indices) = outputs.split_at_mut(1);
        float::write::<T>(&mut values[0], |values| {
            Ok(match self {
                Self::Max { indices: true } => {
                    return number::write::<i64>(&mut indices[0], |places| {
                        Ok(pool::max_pool_with_indices(shape, &input, values, places, limits)?)
                    });
                }
                Self::Max { indices: false } => pool::max_pool(shape, &input, values, scratch, limits),
                Self::Mean(divisor) => pool::avg_pool(shape, divisor, &input, values, scratch, limits),
                Self::Norm { p, places } => {
                    pool::lp_pool(shape, (p, places), &input, values, scratch, limits)
                }
            }?)
        })
    }
}

/// A pooling as a layer: the operator, with the sizes prepared for the last shapes.
#[derive(Debug, Clone)]
pub struct Pooled<P> {
    /// The operator with its parameters.
    pub operator: P,
    prepared: Prepared,
    /// How input and output are quantised, if both are int8.
    int8: Option<[Quantization; 2]>,
}

impl<P> From<P> for Pooled<P> {
    fn from(operator: P) -> Self {
        Self { operator, prepared: Prepared::default(), int8: None }
    }
}

impl<P: Pooling> FromOperator for Pooled<P> {
    const TYPES: &'static [&'static str] = P::TYPES;
    const DOC: &'static str = P::DOC;
    const FIELDS: &'static [Field] = P::FIELDS;

    fn from_operator(reader: &mut OperatorReader<'_>) -> Result<Self> {
        P::from_operator(reader).map(Self::from)
    }

    fn field_inputs(&self) -> usize {
        self.operator.field_inputs()
    }

    fn written(&self) -> Vec<(&'static str, Written)> {
        self.operator.written()
    }

    fn validate(&self) -> Result<()> {
        self.operator.validate()
    }
}

impl<P: Pooling> Layer for Pooled<P> {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        self.operator.method().map_or(1, |(_, reduction)| reduction.num_outputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (regions, reduction) = self.operator.method()?;
        let axes = self.operator.axes();
        let dims = match regions {
            Regions::Sliding { windows, ceil_mode } => {
                match reduction {
                    Reduction::Max { .. } => float::check_real("the input", &inputs[0])?,
                    // The mean of integers is an integer division.
                    Reduction::Mean(_) if inputs[0].dtype() == DType::I64 => {}
                    _ => float::check("the input", &inputs[0])?,
                }
                sliding_dims(&inputs[0], axes, &windows, ceil_mode)?
            }
            Regions::Adaptive { output_size } => {
                float::check("the input", &inputs[0])?;
                adaptive_dims(inputs, axes, output_size)?
            }
        };
        Ok(reduction.metas(&inputs[0], dims))
    }
}

impl<P: Pooling + 'static> CpuLayer for Pooled<P> {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let operator = &self.operator;
        let int8 = self.int8.filter(|_| io.inputs[0].dtype() == DType::I8);
        compute(&mut self.prepared, int8, &io.inputs[0], io.outputs, &mut io.context, &|shapes| {
            prepare(operator, shapes)
        })
    }

    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let axes = self.operator.axes().get();
        match (formats.first(), self.operator.method()) {
            (Some(first), Ok((_, reduction))) if first.is_quantized => {
                let has_kernel = self.field_inputs() == 0 && reduction.of_bytes().is_some();
                has_kernel && bytes::supports(axes, position, formats)
            }
            _ => supports(axes, position, formats),
        }
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let how = |metas: &[TensorMeta]| metas.first().and_then(TensorMeta::step).map(quantization);
        self.int8 = how(inputs).zip(how(outputs)).map(<[Quantization; 2]>::from);
        configure(self.operator.axes().get(), inputs)
    }

    fn takes_zero_points(&self) -> bool {
        true
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        workspace(inputs)
    }
}

/// The number of axes before the pooled ones: channels, and a batch unless the input is a single sample.
fn leading_axes(input: &TensorMeta, axes: SpatialAxes) -> Result<usize> {
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

/// The dimensions of the output for sliding windows.
fn sliding_dims(
    input: &TensorMeta,
    axes: SpatialAxes,
    windows: &[Window],
    ceil_mode: bool,
) -> Result<Vec<Dim>> {
    let leading = leading_axes(input, axes)?;
    let (batch, lens) = input.dims().split_at(leading);
    let mut dims = batch.to_vec();
    for (axis, (window, len)) in windows.iter().zip(lens).enumerate() {
        let positions = rules::positions(window, len, ceil_mode);
        if positions.fixed().is_some_and(|positions| positions < 1) {
            let wanted = format!("room for a window of {} along axis {}", window.kernel, leading + axis);
            return Err(LayerError::shape("the input", wanted, input));
        }
        dims.push(positions);
    }
    Ok(dims)
}

/// The dimensions of the output for adaptive regions.
fn adaptive_dims(
    inputs: &[TensorMeta],
    axes: SpatialAxes,
    output_size: &ParamOrInput<PerAxis>,
) -> Result<Vec<Dim>> {
    let (input, count) = (&inputs[0], axes.get());
    let leading = leading_axes(input, axes)?;
    let (batch, lens) = input.dims().split_at(leading);
    let sizes = match output_size {
        ParamOrInput::Value(size) => {
            let sizes = per_axis("output_size", size.values(), count)?.into_iter().zip(lens);
            sizes.map(|(size, len)| if size == 0 { len.clone() } else { Dim::from(size) }).collect()
        }
        ParamOrInput::Input(_) => match output_size.dims(inputs)?.as_slice() {
            [size] => vec![size.clone(); count],
            sizes if sizes.len() == count => sizes.to_vec(),
            sizes => {
                return Err(LayerError::shape("`output_size`", format!("1 or {count} lengths"), sizes.len()));
            }
        },
    };
    Ok(batch.iter().cloned().chain(sizes).collect())
}

/// Prepares the sizes for planes of these lengths, and the reduction.
fn prepare<P: Pooling>(operator: &P, (lens, outputs): &(Shape, Shape)) -> Result<(PoolShape, Reduction)> {
    let axes = operator.axes().get();
    let last = |shape: &Shape| shape.rank().saturating_sub(axes);
    let (lens, outputs) = (&lens[last(lens)..], &outputs[last(outputs)..]);
    let (regions, reduction) = operator.method()?;
    let shape = match regions {
        Regions::Sliding { windows, .. } if windows.len() == axes => {
            PoolShape::sliding(lens, &windows, outputs)
        }
        Regions::Sliding { windows, .. } => {
            return Err(LayerError::Unsupported(format!("{} windows for {axes} axes", windows.len())));
        }
        Regions::Adaptive { .. } => PoolShape::adaptive(lens, outputs),
    };
    Ok((shape, reduction))
}

/// The sizes and the reduction of a pooling, for the shapes of an input and an output.
type Prepared = ShapeCache<((Shape, Shape), (PoolShape, Reduction))>;

/// Prepares the sizes and the reduction of a pooling.
type Make<'a> = dyn Fn(&(Shape, Shape)) -> Result<(PoolShape, Reduction)> + 'a;

/// Computes the outputs with the cached sizes, or those that `make` prepares for the shapes.
fn compute(
    ready: &mut Prepared,
    int8: Option<[Quantization; 2]>,
    input: &TensorView<'_>,
    outputs: &mut [TensorViewMut<'_>],
    context: &mut ForwardContext<'_>,
    make: &Make<'_>,
) -> Result<()> {
    if outputs[0].num_elements() == 0 {
        return Ok(());
    }
    Reduction::check(outputs, context.limits())?;
    if let Format::Blocked { block, .. } = input.layout().format() {
        return compute_blocked(ready, input, outputs, context, block, make);
    }
    let ready = ready.of((*input.shape(), *outputs[0].shape()), make)?;
    if let Some(ways) = int8 {
        let missing = || LayerError::Unsupported("int8 has only maxima, without indices, and means".into());
        let how = (ready.1.of_bytes().ok_or_else(missing)?, ways);
        return bytes::compute(&ready.0, how, input, &mut outputs[0], context.limits());
    }
    let (shape, reduction) = ready;
    with_real!(input.dtype(), T => reduction.compute::<T>(shape, input, outputs, context))
}

/// As [`compute`], for planes of blocked channels.
fn compute_blocked(
    ready: &mut Prepared,
    input: &TensorView<'_>,
    outputs: &mut [TensorViewMut<'_>],
    context: &mut ForwardContext<'_>,
    block: u8,
    make: &Make<'_>,
) -> Result<()> {
    let [output] = outputs else {
        return Err(LayerError::Unsupported("indices are not supported for blocked channels".into()));
    };
    let logical = (*input.shape(), *output.shape());
    let (input, layout) = (input.with_layout(input.layout().unrolled()?)?, output.layout().unrolled()?);
    let mut output = output.reborrow().with_layout(layout)?;
    let (shape, reduction) = ready.of((*input.shape(), *output.shape()), |_| {
        let (shape, reduction) = make(&logical)?;
        let shape = shape.with_lanes(block.into());
        Ok((
            shape.ok_or_else(|| {
                LayerError::Unsupported("three pooled axes are not supported for blocked channels".into())
            })?,
            reduction,
        ))
    })?;
    let outputs = std::slice::from_mut(&mut output);
    with_real!(input.dtype(), T => reduction.compute::<T>(shape, &input, outputs, context))
}

/// Returns true if a tensor of a pooling may have its format: all must have the same one, plain or with blocked channels.
pub(crate) fn supports(axes: usize, position: usize, formats: &[TensorFormat]) -> bool {
    let (Some(format), Some(first)) = (formats.get(position), formats.first()) else { return false };
    let is_possible = match format.format {
        Format::Plain => true,
        Format::ChannelsLast => false,
        Format::Blocked { axis, .. } => axis == 1 && axes <= 2,
    };
    is_possible && !format.is_quantized && format.format == first.format
}

/// Rejects blocked channels without a batch axis, because the channels are then a different axis.
///
/// # Errors
/// [`LayerError::Unsupported`] if the input is blocked and has no batch axis.
pub(crate) fn configure(axes: usize, inputs: &[TensorMeta]) -> Result<()> {
    match inputs.first() {
        Some(input) if input.format() != Format::Plain && input.rank() != axes + 2 => {
            Err(LayerError::Unsupported("blocked channels require a batch axis".into()))
        }
        _ => Ok(()),
    }
}

/// The scratch memory for pooling, in bytes: a row of the input, or a block of channels.
fn workspace(inputs: &[TensorMeta]) -> usize {
    if let Some(Format::Blocked { block, .. }) = inputs.first().map(TensorMeta::format) {
        return usize::from(block).saturating_mul(float::computed_size(inputs[0].dtype()));
    }
    let row = inputs.first().and_then(|input| usize::try_from(input.dims().last()?.fixed()?).ok());
    row.unwrap_or(1).saturating_mul(inputs.first().map_or(0, |input| float::computed_size(input.dtype())))
}
