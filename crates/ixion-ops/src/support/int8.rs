//! Convolutions and linear maps in int8.
//!
//! The engine passes a quantised input, int8 values q that represent q · scale, and requests an output that is quantised or
//! `f32`. Weights are quantised too, with one scale for each output channel: its largest magnitude over 127. Then
//!
//! ```text
//! y = (Σ input q · weight q + bias q) · (input scale · weight scale)
//! ```
//!
//! where the sum is exact, `bias q` is the bias over (input scale · weight scale), rounded half to even, and the product with
//! the scales is computed in `f32`. Kernels that multiply bytes round a `bias q` of 2³⁰ or more to `f32` before they add it. If
//! a channel's products are negligible, in absolute terms or relative to its bias, its outputs are the bias. The epilogue is
//! applied to this y, in `f32`. A quantised output is y times the reciprocal of its scale, rounded half to even and clamped to
//! ±127: bit for bit the same as quantising an `f32` output.
//!
//! With another zero point than 0, `input q` is the difference from it; kernels that multiply bytes subtract a multiple of the
//! weights' sum from the bias instead. A quantised output is offset by its zero point, and clamped to −128 to 127.

mod efficiency;
mod ending;
mod last;
pub(crate) mod pointwise;
mod steps;

use crate::op::{
    LayerError, QuantizedWeight, RuntimeAttribute, Step, TensorFormat, TensorMeta, Weight, state,
};
use crate::quantized::write;
use crate::support::epilogue::Epilogue;
pub(crate) use efficiency::{depthwise_efficiency, product_efficiency};
pub(crate) use ending::{Ending, with_function};
use ixion_kernels::elementwise::ApplyEpilogue;
use ixion_kernels::parallel::for_each_chunk;
use ixion_kernels::quantization::{ChannelStep, Quantization, channel_scale, quantize_by_adding};
use ixion_kernels::quantized::{Outcome, Rows, centered};
use ixion_kernels::widest;
use ixion_tensor::{DType, Format, Limits, Result, Tensor, TensorView, TensorViewMut};
pub(crate) use last::{ByteState, PackedBytes, byte_weights, bytes_last, max_depth, write_last};
pub(crate) use pointwise::Lookup;
use std::borrow::Cow;
use std::sync::Arc;
use steps::Steps;
pub(crate) use steps::{finish, quantization};

/// A layer's state for int8. `W` holds the weights in the order in which they are multiplied. Clones share the weights.
#[derive(Debug, Clone)]
pub struct Int8<W> {
    steps: Option<Steps>,
    weights: Option<Arc<Int8Weights<W>>>,
}

/// Quantised weights, in the order in which they are multiplied.
#[derive(Debug)]
pub(crate) struct Int8Weights<W> {
    pub(crate) factors: W,
    steps: Vec<ChannelStep>,
}

impl<W> Default for Int8<W> {
    fn default() -> Self {
        Self { steps: None, weights: None }
    }
}

state! { [W: 'static] Int8<W> }

/// Returns true if the weights can be quantised: they are `f32` attributes with elements, not inputs.
pub(crate) fn has_weights(weight: &Weight, bias: Option<&Weight>) -> bool {
    let is_f32 = |weight: &Weight| match weight {
        Weight::Attribute(weight) => weight.dtype() == DType::F32 && weight.byte_len() > 0,
        Weight::Input(_) => false,
    };
    is_f32(weight) && bias.is_none_or(is_f32)
}

/// Returns true if a layer with a quantised input supports the format at a position: inputs of the epilogue are `f32`, the
/// output is quantised or `f32`.
pub(crate) fn takes(position: usize, formats: &[TensorFormat], inputs: usize) -> bool {
    let (quantized, float) = (TensorFormat::quantized(), TensorFormat::plain(DType::F32));
    formats.get(position).is_some_and(|&format| match position {
        0 => format == quantized,
        _ if position < inputs => format == float,
        _ => format == quantized || format == float,
    })
}

impl<W> Int8<W> {
    /// Stores the steps and the order of the channels. Weights that were quantised for others are dropped; then it returns true.
    pub fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> bool {
        let step = |metas: &[TensorMeta]| metas.first().and_then(TensorMeta::step);
        let is_last = inputs.first().is_some_and(|input| input.format() == Format::ChannelsLast);
        let steps = step(inputs).map(|input| Steps { input, output: step(outputs), is_last });
        let is_new = steps != self.steps;
        if is_new {
            *self = Self { steps, weights: None };
        }
        is_new
    }

    /// Returns true if the layer runs in int8, on tensors whose channels are innermost.
    pub(crate) fn is_last(&self) -> bool {
        self.steps.is_some_and(|steps| steps.is_last)
    }

    /// The quantised weights O×… in the order of the file, and what converts the sums of each output channel. `None` if there
    /// are no scales.
    ///
    /// # Errors
    /// Returns an error if the weights cannot be read, or are not finite.
    pub(crate) fn rows(
        &self,
        weight: &Weight,
        bias: Option<&Weight>,
    ) -> std::result::Result<Option<(Vec<i8>, Vec<ChannelStep>)>, LayerError> {
        let Some(Steps { input, .. }) = self.steps else { return Ok(None) };
        let QuantizedRows { values, steps, .. } = QuantizedRows::new(input.scale, weight, bias)?;
        Ok(Some((values, steps)))
    }

    /// Returns true if the layer runs in int8. Otherwise int8 inputs are plain integers.
    pub fn is_selected(&self) -> bool {
        self.steps.is_some()
    }

    /// The input value that represents 0.
    pub(crate) fn input_zero_point(&self) -> i8 {
        self.steps.map_or(0, |steps| steps.input.zero_point)
    }

    /// The step of the output; `None` for an `f32` output.
    pub(crate) fn output_step(&self) -> Option<Step> {
        self.steps.and_then(|steps| steps.output)
    }

    /// The scale of the output; `None` for an `f32` output.
    pub fn output_scale(&self) -> Option<f32> {
        self.output_step().map(|step| step.scale)
    }

    /// The operands for another device: quantised weights O×… in the order of the file, and for each output channel the bias
    /// and the step of its sums. Zero points are not among them. `None` if there are no scales.
    ///
    /// # Errors
    /// Returns an error if the weights cannot be read, or are not finite.
    pub fn tensors(
        &self,
        weight: &Weight,
        bias: Option<&Weight>,
    ) -> std::result::Result<Option<[Tensor; 3]>, LayerError> {
        let (Some(Steps { input, .. }), Weight::Attribute(attribute)) = (self.steps, weight) else {
            return Ok(None);
        };
        let QuantizedRows { values, steps, .. } = QuantizedRows::new(input.scale, weight, bias)?;
        let (biases, scales): (Vec<f64>, Vec<f32>) = steps.iter().map(|step| (step.bias, step.scale)).unzip();
        Ok(Some([
            Tensor::from_vec(values, attribute.shape())?,
            Tensor::from_vec(biases, &[steps.len()])?,
            Tensor::from_vec(scales, &[steps.len()])?,
        ]))
    }

    /// The quantised weights, which a plan stores instead of the model's; `None` if the layer does not run in int8.
    ///
    /// # Errors
    /// Returns an error if the weights cannot be read, or are not finite.
    pub(crate) fn stored_weights(
        &self,
        weight: &Weight,
    ) -> std::result::Result<Option<QuantizedWeight>, LayerError> {
        match (self.steps, weight) {
            (Some(_), Weight::Attribute(weight)) => quantized(weight).map(Some),
            _ => Ok(None),
        }
    }

    /// The state that a plan stores: the steps.
    pub(crate) fn stored(&self) -> Option<Vec<u8>> {
        self.steps.map(Steps::to_bytes)
    }

    /// Restores the state from the bytes of [`Int8::stored`]. Returns false for any other bytes.
    pub(crate) fn restore(&mut self, bytes: &[u8]) -> bool {
        let steps = Steps::from_bytes(bytes);
        if steps.is_some() {
            *self = Self { steps, weights: None };
        }
        steps.is_some()
    }

    /// Quantises the weights, if there are scales and it has not been done yet.
    ///
    /// # Errors
    /// Returns an error if the weights cannot be read, or are not finite.
    pub(crate) fn initialize(
        &mut self,
        weight: &Weight,
        bias: Option<&Weight>,
        order: impl FnOnce(Rows) -> W,
    ) -> std::result::Result<(), LayerError> {
        if self.weights.is_some() {
            return Ok(());
        }
        let Some(Steps { input, .. }) = self.steps else { return Ok(()) };
        let QuantizedRows { values, steps, depth } = QuantizedRows::new(input.scale, weight, bias)?;
        let values: Vec<i16> = values.into_iter().map(i16::from).collect();
        let factors = order(Rows::new(&values, [steps.len(), depth]));
        self.weights = Some(Arc::new(Int8Weights { factors, steps }));
        Ok(())
    }

    /// The quantised weights, which [`Int8::initialize`] created.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if the layer has no scales.
    pub(crate) fn weights(&self) -> std::result::Result<&Int8Weights<W>, LayerError> {
        let missing = || LayerError::Unsupported("an int8 input without a scale".to_owned());
        self.weights.as_deref().ok_or_else(missing)
    }

    /// Lets `fill` write all elements of the output in row-major order. The outcome that it gets is for outputs whose channels
    /// are rows or columns, as `channels` states.
    ///
    /// # Errors
    /// The errors of `fill` and of the epilogue.
    pub(crate) fn write(
        &self,
        epilogue: Option<&mut Epilogue>,
        channels: Channels,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        fill: impl Fill<W>,
    ) -> std::result::Result<(), LayerError> {
        let (weights, shape) = (self.weights()?, *output.shape());
        if shape.num_elements() == 0 {
            return Ok(());
        }
        let run = epilogue.map(|epilogue| epilogue.start(inputs, DType::F32, &shape)).transpose()?;
        let epilogue = run.as_ref().map(|run| run as &dyn ApplyEpilogue<f32>);
        let how = quantization(self.output_step().unwrap_or(Step::from(1.0)));
        let real = Real { steps: &weights.steps, channels, first: 0, epilogue, output: how };
        match output.dtype() {
            DType::I8 => write::<i8>(output, |output| fill.fill(&weights.factors, real, output)),
            _ => write::<f32>(output, |output| fill.fill(&weights.factors, real, output)),
        }
    }
}

/// Computes the sums of a layer, for outputs of either type.
pub(crate) trait Fill<W> {
    /// Computes all sums and lets the outcome `real` write the outputs.
    ///
    /// # Errors
    /// Returns an error if the deadline has passed or the outcome fails.
    fn fill<Q: Send>(
        &self,
        factors: &W,
        real: Real<'_>,
        output: &mut [Q],
    ) -> std::result::Result<(), LayerError>
    where
        for<'a> Real<'a>: Outcome<Q>;
}

/// Quantised weights, one row for each output channel.
struct QuantizedRows {
    values: Vec<i8>,
    steps: Vec<ChannelStep>,
    depth: usize,
}

impl QuantizedRows {
    fn new(
        input_scale: f32,
        weight: &Weight,
        bias: Option<&Weight>,
    ) -> std::result::Result<Self, LayerError> {
        let Weight::Attribute(weight) = weight else { return Err(not_stored()) };
        let bias = match bias {
            Some(Weight::Attribute(bias)) => Some(numbers(bias)?),
            Some(Weight::Input(_)) => return Err(not_stored()),
            None => None,
        };
        let QuantizedWeight { values, scales } = quantized(weight)?;
        let (mut values, scales) = (values.to_vec::<i8>()?, scales.to_vec::<f32>()?);
        let depth = values.len().checked_div(scales.len()).unwrap_or(0);
        let mut steps = Vec::with_capacity(scales.len());
        for (output, &scale) in scales.iter().enumerate() {
            let bias = bias.as_ref().and_then(|bias| bias.get(output)).copied().unwrap_or(0.0);
            check(scale, input_scale)?;
            steps.push(ChannelStep::new(scale, input_scale, bias).unwrap_or_else(|| {
                let row = values.get_mut(output * depth..(output + 1) * depth);
                row.unwrap_or_default().fill(0);
                ChannelStep::of_bias(bias)
            }));
        }
        Ok(Self { values, steps, depth })
    }
}

/// The weights in int8, with a scale for each output channel: as they are stored, or else its largest magnitude over 127.
///
/// # Errors
/// Returns an error if the weights cannot be read, are not finite, or have no elements.
fn quantized(weight: &RuntimeAttribute) -> std::result::Result<QuantizedWeight, LayerError> {
    // They may have any number of rows, for each of which there would be a scale.
    if weight.byte_len() == 0 {
        return Err(LayerError::Unsupported("int8: weights without elements".to_owned()));
    }
    if let Some(stored) = weight.quantized()? {
        return Ok(stored);
    }
    let outputs = if weight.shape().len() > 1 { weight.shape()[0] } else { 1 };
    let numbers = numbers(weight)?;
    if numbers.iter().any(|x| !x.is_finite()) {
        let reason = "weights that are not finite cannot be quantised to int8; keep this operator in f32";
        return Err(LayerError::Unsupported(reason.to_owned()));
    }
    let depth = numbers.len().checked_div(outputs).unwrap_or(0);
    let mut values = Vec::with_capacity(numbers.len());
    let mut scales = vec![0.0; outputs];
    for (row, to) in numbers.chunks_exact(depth.max(1)).zip(&mut scales) {
        let scale = channel_scale(row);
        values.extend(row.iter().map(|&x| quantize_by_adding(x, scale)));
        *to = scale;
    }
    Ok(QuantizedWeight {
        values: Tensor::from_vec(values, weight.shape())?,
        scales: Tensor::from_vec(scales, &[outputs])?,
    })
}

fn not_stored() -> LayerError {
    LayerError::Unsupported(
        "int8 requires weights that are stored in the model; the graph computes these".to_owned(),
    )
}

fn numbers(attribute: &RuntimeAttribute) -> std::result::Result<Vec<f32>, LayerError> {
    // Not cached: only the quantised weights are needed from here on.
    Ok(attribute.load()?.to_vec::<f32>()?)
}

/// Checks that the step of a channel's sums is finite.
fn check(scale: f32, input_scale: f32) -> std::result::Result<(), LayerError> {
    if !(scale * input_scale).is_finite() {
        let reason = format!(
            "the weights' scale {scale:e} times the input's scale {input_scale:e} overflows f32; keep this operator in f32"
        );
        return Err(LayerError::Unsupported(reason));
    }
    Ok(())
}

/// The arrangement of the output channels.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Channels {
    /// Each channel is a row of this many outputs.
    Rows(usize),
    /// Each channel is one of this many columns.
    Columns(usize),
}

/// Converts sums to `f32` outputs, and quantises these for an int8 output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Real<'a> {
    steps: &'a [ChannelStep],
    channels: Channels,
    /// The position of the first row in the whole output.
    first: usize,
    epilogue: Option<&'a dyn ApplyEpilogue<f32>>,
    /// How a quantised output is quantised.
    output: Quantization,
}

impl Real<'_> {
    /// The same for rows that begin at this position of the whole output.
    pub(crate) fn from(self, first: usize) -> Self {
        Self { first, ..self }
    }
}

/// The number of outputs that are quantised at a time; they fit in the L1 cache.
const PIECE: usize = 512;

impl Outcome<f32> for Real<'_> {
    fn write(&self, row: usize, column: usize, sums: &[f64], outputs: &mut [f32]) -> Result<()> {
        let pairs = outputs.iter_mut().zip(sums);
        let width = match self.channels {
            Channels::Rows(width) => {
                let step = self.steps[row];
                widest!(|| pairs.for_each(|(output, &sum)| *output = step.real(sum)));
                width
            }
            Channels::Columns(width) => {
                let steps = pairs.zip(&self.steps[column..]);
                widest!(|| steps.for_each(|((output, &sum), step)| *output = step.real(sum)));
                width
            }
        };
        match self.epilogue {
            Some(epilogue) => epilogue.apply(self.first + row * width + column, outputs),
            None => Ok(()),
        }
    }
}

impl Outcome<i8> for Real<'_> {
    fn write(&self, row: usize, column: usize, sums: &[f64], outputs: &mut [i8]) -> Result<()> {
        let mut real = [0.0f32; PIECE];
        for (index, (outputs, sums)) in outputs.chunks_mut(PIECE).zip(sums.chunks(PIECE)).enumerate() {
            let real = &mut real[..outputs.len()];
            self.write(row, column + index * PIECE, sums, real)?;
            widest!(|| {
                for (output, x) in outputs.iter_mut().zip(real) {
                    *output = self.output.store(*x);
                }
            });
        }
        Ok(())
    }
}

/// The elements of an int8 tensor in row-major order; copied if they are stored in another one.
///
/// # Errors
/// Returns an error if the tensor is not int8.
pub(crate) fn bytes<'a>(tensor: &TensorView<'a>) -> std::result::Result<Cow<'a, [i8]>, LayerError> {
    Ok(match tensor.layout().is_contiguous() {
        true => Cow::Borrowed(tensor.slice::<i8>()?),
        false => Cow::Owned(tensor.to_vec::<i8>()?),
    })
}

/// Quantises all elements of an output. The threads of the current pool share the work.
///
/// # Errors
/// Returns an error if the output is not int8, or the deadline has passed.
pub(crate) fn quantize(
    values: &[f32],
    step: Step,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
) -> std::result::Result<(), LayerError> {
    write::<i8>(output, |output| quantize_slice(values, step, output, limits))
}

/// As [`quantize`], for as many elements as there are values.
///
/// # Errors
/// Returns an error if the deadline has passed.
pub(crate) fn quantize_slice(
    values: &[f32],
    step: Step,
    output: &mut [i8],
    limits: &Limits,
) -> std::result::Result<(), LayerError> {
    const CHUNK: usize = 1 << 14;
    let how = quantization(step);
    for_each_chunk(output, CHUNK, &|start, output: &mut [i8]| {
        limits.check_deadline()?;
        let values = &values[start..][..output.len()];
        widest!(|| output.iter_mut().zip(values).for_each(|(q, &x)| *q = how.store(x)));
        Ok(())
    })
}

/// The elements of an int8 input minus their zero point, in 16 bits.
///
/// # Errors
/// Returns an error if they exceed the limits in 16 bits, or if the input is not int8.
pub(crate) fn read(
    input: &TensorView<'_>,
    zero_point: i8,
    limits: &Limits,
) -> std::result::Result<Vec<i16>, LayerError> {
    limits.check_tensor("an int8 input in 16 bits", (input.num_elements() as u64).saturating_mul(2))?;
    match input.layout().is_contiguous() {
        true => Ok(centered(input.slice::<i8>()?, zero_point.into())),
        false => Ok(centered(&input.to_vec::<i8>()?, zero_point.into())),
    }
}

#[cfg(test)]
mod tests;
