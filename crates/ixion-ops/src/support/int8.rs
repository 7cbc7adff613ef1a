//! Convolutions and linear maps in int8.
//!
//! The engine passes a quantised input, int8 values q from −127 to 127 that represent q · scale, and requests an output that
//! is quantised or `f32`. Weights are quantised too, with one scale for each output channel: its largest magnitude over 127.
//! Then
//!
//! ```text
//! y = (Σ input q · weight q + bias q) · (input scale · weight scale)
//! ```
//!
//! where the sum is exact, `bias q` is the bias over (input scale · weight scale), rounded half to even, and the product with
//! the scales is computed in `f32`. If a channel's products are negligible, in absolute terms or relative to its bias, its
//! outputs are the bias. The epilogue is applied to this y, in `f32`. A quantised output is y over its scale, rounded half to
//! even and clamped to ±127: bit for bit the same as quantising an `f32` output.

use crate::op::{
    FieldValue, LayerError, NO_KEY, OperatorReader, RuntimeAttribute, TensorFormat, TensorMeta, Weight,
    Written,
};
use crate::quantized::write;
use crate::support::epilogue::Epilogue;
use ixion_kernels::elementwise::ApplyEpilogue;
use ixion_kernels::quantization::{ChannelStep, channel_scale, quantize_channel};
use ixion_kernels::quantized::{Outcome, Rows, centered};
use ixion_kernels::reformat::Stored;
use ixion_kernels::widest;
use ixion_tensor::{DType, Limits, Result, Tensor, TensorView, TensorViewMut};
use std::sync::Arc;

/// A layer's state for int8. `W` holds the weights in the order in which they are multiplied. Clones share the weights.
#[derive(Debug, Clone)]
pub struct Int8<W> {
    scales: Option<Scales>,
    weights: Option<Arc<Int8Weights<W>>>,
}

/// The scales that the engine chose.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scales {
    /// The scale of the input.
    input: f32,
    /// The scale of the output; `None` for an `f32` output.
    output: Option<f32>,
}

/// Quantised weights, in the order in which they are multiplied.
#[derive(Debug)]
pub(crate) struct Int8Weights<W> {
    pub(crate) factors: W,
    steps: Vec<ChannelStep>,
}

impl<W> Default for Int8<W> {
    fn default() -> Self {
        Self { scales: None, weights: None }
    }
}

impl<W: 'static> FieldValue for Int8<W> {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> std::result::Result<Option<Self>, LayerError> {
        Ok(Some(Self::default()))
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}

/// Returns true if the weights can be quantised: they are `f32` attributes, not inputs.
pub(crate) fn has_weights(weight: &Weight, bias: Option<&Weight>) -> bool {
    let is_f32 =
        |weight: &Weight| matches!(weight, Weight::Attribute(weight) if weight.dtype() == DType::F32);
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
    /// Stores the scales. Weights that were quantised for other scales are dropped.
    pub fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) {
        let scale = |metas: &[TensorMeta]| metas.first().and_then(TensorMeta::scale);
        let scales = scale(inputs).map(|input| Scales { input, output: scale(outputs) });
        if scales != self.scales {
            *self = Self { scales, weights: None };
        }
    }

    /// Returns true if the layer runs in int8. Otherwise int8 inputs are plain integers.
    pub fn is_selected(&self) -> bool {
        self.scales.is_some()
    }

    /// The scale of the output; `None` for an `f32` output.
    pub fn output_scale(&self) -> Option<f32> {
        self.scales.and_then(|scales| scales.output)
    }

    /// The operands for another device: quantised weights O×… in the order of the file, and for each output channel the bias
    /// and the step of its sums. `None` if there are no scales.
    ///
    /// # Errors
    /// Returns an error if the weights cannot be read, or are not finite.
    pub fn tensors(
        &self,
        weight: &Weight,
        bias: Option<&Weight>,
    ) -> std::result::Result<Option<[Tensor; 3]>, LayerError> {
        let (Some(scales), Weight::Attribute(attribute)) = (self.scales, weight) else { return Ok(None) };
        let QuantizedRows { values, steps, .. } = QuantizedRows::new(scales.input, weight, bias)?;
        let values: Vec<i8> = values.into_iter().map(|value| value as i8).collect();
        let (biases, scales): (Vec<f64>, Vec<f32>) = steps.iter().map(|step| (step.bias, step.scale)).unzip();
        Ok(Some([
            Tensor::from_vec(values, attribute.shape())?,
            Tensor::from_vec(biases, &[steps.len()])?,
            Tensor::from_vec(scales, &[steps.len()])?,
        ]))
    }

    /// The state that a plan stores: the scales. Weights are quantised again from the model's.
    pub(crate) fn stored(&self) -> Option<Vec<u8>> {
        let Scales { input, output } = self.scales?;
        let scales = [input, output.unwrap_or(0.0)].into_iter().flat_map(f32::to_le_bytes);
        Some([TAG].into_iter().chain(scales).collect())
    }

    /// Restores the state from the bytes of [`Int8::stored`]. Returns false for any other bytes.
    pub(crate) fn restore(&mut self, bytes: &[u8]) -> bool {
        let &[TAG, a, b, c, d, e, f, g, h] = bytes else { return false };
        let [input, output] = [[a, b, c, d], [e, f, g, h]].map(f32::from_le_bytes);
        let is_scale = |scale: f32| scale > 0.0 && scale.is_finite();
        if !is_scale(input) || !(is_scale(output) || output == 0.0) {
            return false;
        }
        let output = Some(output).filter(|&output| output != 0.0);
        *self = Self { scales: Some(Scales { input, output }), weights: None };
        true
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
        let Some(scales) = self.scales else { return Ok(()) };
        let QuantizedRows { values, steps, depth } = QuantizedRows::new(scales.input, weight, bias)?;
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
        let scale = self.scales.and_then(|scales| scales.output).unwrap_or(1.0);
        let real = Real { steps: &weights.steps, channels, first: 0, epilogue, scale };
        match output.dtype() {
            DType::I8 => write::<i8>(output, |output| fill.fill(&weights.factors, real, output)),
            _ => write::<f32>(output, |output| fill.fill(&weights.factors, real, output)),
        }
    }
}

/// The first byte of the stored state.
const TAG: u8 = b'q';

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
    values: Vec<i16>,
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
        let (values, outputs) =
            (numbers(weight)?, if weight.shape().len() > 1 { weight.shape()[0] } else { 1 });
        let depth = values.len().checked_div(outputs).unwrap_or(0);
        let (mut quantized, mut steps) = (Vec::with_capacity(values.len()), Vec::with_capacity(outputs));
        for output in 0..outputs {
            let row = values.get(output * depth..(output + 1) * depth).unwrap_or_default();
            let bias = bias.as_ref().and_then(|bias| bias.get(output)).copied().unwrap_or(0.0);
            check(row, input_scale)?;
            let (channel, step) = quantize_channel(row, bias, input_scale);
            quantized.extend(channel.into_iter().map(i16::from));
            steps.push(step);
        }
        Ok(Self { values: quantized, steps, depth })
    }
}

fn not_stored() -> LayerError {
    LayerError::Unsupported(
        "int8 requires weights that are stored in the model; the graph computes these".to_owned(),
    )
}

fn numbers(attribute: &RuntimeAttribute) -> std::result::Result<Vec<f32>, LayerError> {
    Ok(attribute.decode()?.to_vec::<f32>()?)
}

/// Checks that the weights and the step of their sums are finite.
fn check(row: &[f32], input_scale: f32) -> std::result::Result<(), LayerError> {
    if row.iter().any(|x| !x.is_finite()) {
        let reason = "weights that are not finite cannot be quantised to int8; keep this operator in f32";
        return Err(LayerError::Unsupported(reason.to_owned()));
    }
    let scale = channel_scale(row);
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
    /// The scale of a quantised output.
    scale: f32,
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
                    *output = i8::store(*x, self.scale);
                }
            });
        }
        Ok(())
    }
}

/// The elements of an int8 input, widened to 16 bits.
///
/// # Errors
/// Returns an error if the widened input exceeds the limits, or if the input is not int8.
pub(crate) fn read(input: &TensorView<'_>, limits: &Limits) -> std::result::Result<Vec<i16>, LayerError> {
    limits.check_tensor("an int8 input in 16 bits", (input.num_elements() as u64).saturating_mul(2))?;
    match input.layout().is_contiguous() {
        true => Ok(centered(input.slice::<i8>()?, 0)),
        false => Ok(centered(&input.to_vec::<i8>()?, 0)),
    }
}

#[cfg(test)]
mod tests;
