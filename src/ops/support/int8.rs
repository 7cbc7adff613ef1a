//! What convolutions and linear maps keep to compute in int8.
//!
//! An engine gives them an input of whole numbers q from −127 to 127, which stand for q · scale, and asks for an output of
//! the same kind, or of `f32`. Weights are held as such numbers, too, with a scale for each output channel: its largest
//! magnitude over 127. Then
//!
//! ```text
//! y = (Σ input q · weight q + bias q) · (input scale · weight scale)
//! ```
//!
//! where the sum is exact, `bias q` is the bias over (input scale · weight scale), rounded half to even, and the product is
//! that of two `f32`. A channel whose products are next to nothing, in themselves or beside its bias, is its bias. The
//! epilogue is computed of this y, in `f32`. An output of whole numbers is y over its scale, rounded half to even and cut
//! off at ±127: bit for bit what quantising an output of `f32` gives.

use crate::Limits;
use crate::kernels::elementwise::Finish;
use crate::kernels::quantization::{ChannelStep, channel_scale, whole_channel};
use crate::kernels::quantized::{Outcome, Rows, centered};
use crate::kernels::reformat::Stored;
use crate::kernels::widest;
use crate::op::{
    FieldValue, LayerError, NO_KEY, OperatorReader, RuntimeAttribute, TensorFormat, TensorMeta, Weight,
};
use crate::ops::quantized::write;
use crate::ops::support::epilogue::Epilogue;
#[cfg(feature = "gpu")]
use crate::tensor::Tensor;
use crate::tensor::{DType, Result, TensorView, TensorViewMut};
use std::sync::Arc;

/// The state of a layer for int8; `W` are its weights in the order in which they are multiplied. Clones share the weights.
#[derive(Debug, Clone)]
pub struct Int8<W> {
    settled: Option<Settled>,
    weights: Option<Arc<WholeWeights<W>>>,
}

/// What an engine settled.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Settled {
    /// The scale of the input.
    input: f32,
    /// That of the output; none where the output is real.
    output: Option<f32>,
}

/// Weights as they are multiplied.
#[derive(Debug)]
pub(in crate::ops) struct WholeWeights<W> {
    pub(in crate::ops) factors: W,
    steps: Vec<ChannelStep>,
}

impl<W> Default for Int8<W> {
    fn default() -> Self {
        Self { settled: None, weights: None }
    }
}

impl<W: 'static> FieldValue for Int8<W> {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> std::result::Result<Option<Self>, LayerError> {
        Ok(Some(Self::default()))
    }
}

/// Whether weights can be made whole numbers: those of `f32` that are no inputs.
pub(in crate::ops) fn has_weights(weight: &Weight, bias: Option<&Weight>) -> bool {
    let is_real =
        |weight: &Weight| matches!(weight, Weight::Attribute(weight) if weight.dtype() == DType::F32);
    is_real(weight) && bias.is_none_or(is_real)
}

/// Whether the tensor at a position of a layer whose input is quantised may have its format: inputs of the epilogue and,
/// where it likes, the output are real.
pub(in crate::ops) fn takes(position: usize, formats: &[TensorFormat], inputs: usize) -> bool {
    let (whole, real) = (TensorFormat::quantized(), TensorFormat::plain(DType::F32));
    formats.get(position).is_some_and(|&format| match position {
        0 => format == whole,
        _ if position < inputs => format == real,
        _ => format == whole || format == real,
    })
}

impl<W> Int8<W> {
    /// Takes note of the scales.
    pub(crate) fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) {
        let scale = |metas: &[TensorMeta]| metas.first().and_then(TensorMeta::scale);
        let settled = scale(inputs).map(|input| Settled { input, output: scale(outputs) });
        if settled != self.settled {
            *self = Self { settled, weights: None };
        }
    }

    /// Whether whole numbers stand for real ones. Else they are what they are.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// The scale of the output; none where that is real.
    #[cfg(feature = "gpu")]
    pub(crate) fn output_scale(&self) -> Option<f32> {
        self.settled.and_then(|settled| settled.output)
    }

    /// What another device multiplies: weights O×… in the order of the file, and for each output channel its bias and the step of
    /// its sums; none where no scales were settled.
    ///
    /// # Errors
    /// As [`Int8::initialize`].
    #[cfg(feature = "gpu")]
    pub(crate) fn tensors(
        &self,
        weight: &Weight,
        bias: Option<&Weight>,
    ) -> std::result::Result<Option<[Tensor; 3]>, LayerError> {
        let (Some(settled), Weight::Attribute(attribute)) = (self.settled, weight) else { return Ok(None) };
        let Whole { values, steps, .. } = Whole::new(settled.input, weight, bias)?;
        let values: Vec<i8> = values.into_iter().map(|value| value as i8).collect();
        let (biases, scales): (Vec<f64>, Vec<f32>) = steps.iter().map(|step| (step.bias, step.scale)).unzip();
        Ok(Some([
            Tensor::from_vec(values, attribute.shape())?,
            Tensor::from_vec(biases, &[steps.len()])?,
            Tensor::from_vec(scales, &[steps.len()])?,
        ]))
    }

    /// What a plan stores of it: the scales. Weights are made again from those of the model.
    pub(in crate::ops) fn stored(&self) -> Option<Vec<u8>> {
        let Settled { input, output } = self.settled?;
        let scales = [input, output.unwrap_or(0.0)].into_iter().flat_map(f32::to_le_bytes);
        Some([TAG].into_iter().chain(scales).collect())
    }

    /// Takes over what [`Int8::stored`] returned; false for anything else.
    pub(in crate::ops) fn restore(&mut self, bytes: &[u8]) -> bool {
        let &[TAG, a, b, c, d, e, f, g, h] = bytes else { return false };
        let [input, output] = [[a, b, c, d], [e, f, g, h]].map(f32::from_le_bytes);
        let is_scale = |scale: f32| scale > 0.0 && scale.is_finite();
        if !is_scale(input) || !(is_scale(output) || output == 0.0) {
            return false;
        }
        let output = Some(output).filter(|&output| output != 0.0);
        *self = Self { settled: Some(Settled { input, output }), weights: None };
        true
    }

    /// Makes the weights, where they are needed and not there yet.
    ///
    /// # Errors
    /// Weights that cannot be read, or are not finite.
    pub(in crate::ops) fn initialize(
        &mut self,
        weight: &Weight,
        bias: Option<&Weight>,
        order: impl FnOnce(Rows) -> W,
    ) -> std::result::Result<(), LayerError> {
        if self.weights.is_some() {
            return Ok(());
        }
        let Some(settled) = self.settled else { return Ok(()) };
        let Whole { values, steps, depth } = Whole::new(settled.input, weight, bias)?;
        let factors = order(Rows::new(&values, [steps.len(), depth]));
        self.weights = Some(Arc::new(WholeWeights { factors, steps }));
        Ok(())
    }

    /// The weights, which [`Int8::initialize`] made.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for a layer that was never told scales.
    pub(in crate::ops) fn weights(&self) -> std::result::Result<&WholeWeights<W>, LayerError> {
        let missing =
            || LayerError::Unsupported("whole numbers whose scale the layer was not told".to_owned());
        self.weights.as_deref().ok_or_else(missing)
    }

    /// Lets `fill` write all elements of the output in row-major order, by an outcome for outputs that lie so: channels
    /// along rows or along columns.
    ///
    /// # Errors
    /// Those of `fill` and of the epilogue.
    pub(in crate::ops) fn write(
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
        let finish = run.as_ref().map(|run| run as &dyn Finish<f32>);
        let scale = self.settled.and_then(|settled| settled.output).unwrap_or(1.0);
        let real = Real { steps: &weights.steps, channels, first: 0, finish, scale };
        match output.dtype() {
            DType::I8 => write::<i8>(output, |output| fill.fill(&weights.factors, real, output)),
            _ => write::<f32>(output, |output| fill.fill(&weights.factors, real, output)),
        }
    }
}

/// The first byte of what is stored.
const TAG: u8 = b'q';

/// What computes the sums of a layer, for outputs of either type.
pub(in crate::ops) trait Fill<W> {
    /// Has the outcome write all outputs.
    ///
    /// # Errors
    /// A deadline that has passed; what the outcome says.
    fn fill<Q: Send>(
        &self,
        factors: &W,
        real: Real<'_>,
        output: &mut [Q],
    ) -> std::result::Result<(), LayerError>
    where
        for<'a> Real<'a>: Outcome<Q>;
}

/// Weights as whole numbers, a row for each output channel.
struct Whole {
    values: Vec<i16>,
    steps: Vec<ChannelStep>,
    depth: usize,
}

impl Whole {
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
        let (mut whole, mut steps) = (Vec::with_capacity(values.len()), Vec::with_capacity(outputs));
        for output in 0..outputs {
            let row = values.get(output * depth..(output + 1) * depth).unwrap_or_default();
            let bias = bias.as_ref().and_then(|bias| bias.get(output)).copied().unwrap_or(0.0);
            check(row, input_scale)?;
            let (channel, step) = whole_channel(row, bias, input_scale);
            whole.extend(channel.into_iter().map(i16::from));
            steps.push(step);
        }
        Ok(Self { values: whole, steps, depth })
    }
}

fn not_stored() -> LayerError {
    LayerError::Unsupported("weights that the graph computes are not held in int8".to_owned())
}

fn numbers(attribute: &RuntimeAttribute) -> std::result::Result<Vec<f32>, LayerError> {
    Ok(attribute.decode()?.to_vec::<f32>()?)
}

/// Refuses weights that are not finite, and steps that are not.
fn check(row: &[f32], input_scale: f32) -> std::result::Result<(), LayerError> {
    if row.iter().any(|x| !x.is_finite()) {
        let reason = "weights that are not finite cannot be held in int8; keep this operator in f32";
        return Err(LayerError::Unsupported(reason.to_owned()));
    }
    let scale = channel_scale(row);
    if !(scale * input_scale).is_finite() {
        let reason = format!(
            "weights of steps of {scale:e} times an input of steps of {input_scale:e} are beyond f32; keep this operator in f32"
        );
        return Err(LayerError::Unsupported(reason));
    }
    Ok(())
}

/// How outputs lie.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) enum Channels {
    /// Those of a channel are a row of so many.
    Rows(usize),
    /// Those of a channel are a column, beside so many.
    Columns(usize),
}

/// Makes real numbers of sums, and whole ones of these.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Real<'a> {
    steps: &'a [ChannelStep],
    channels: Channels,
    /// The position of the first row in the whole output.
    first: usize,
    finish: Option<&'a dyn Finish<f32>>,
    /// The scale of outputs that are whole.
    scale: f32,
}

impl Real<'_> {
    /// The same for rows from this position of the whole output on.
    pub(in crate::ops) fn from(self, first: usize) -> Self {
        Self { first, ..self }
    }
}

/// Outputs that are made whole at a time: they stay in the first-level cache.
const PIECE: usize = 512;

impl Outcome<f32> for Real<'_> {
    fn write(&self, row: usize, column: usize, sums: &[f64], outputs: &mut [f32]) -> Result<()> {
        let pairs = outputs.iter_mut().zip(sums);
        let width = match self.channels {
            Channels::Rows(width) => {
                let step = self.steps[row];
                widest(|| pairs.for_each(|(output, &sum)| *output = step.real(sum)));
                width
            }
            Channels::Columns(width) => {
                let steps = pairs.zip(&self.steps[column..]);
                widest(|| steps.for_each(|((output, &sum), step)| *output = step.real(sum)));
                width
            }
        };
        match self.finish {
            Some(finish) => finish.finish(self.first + row * width + column, outputs),
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
            widest(|| {
                outputs.iter_mut().zip(real).for_each(|(output, x)| *output = i8::store(*x, self.scale))
            });
        }
        Ok(())
    }
}

/// The numbers of an input.
///
/// # Errors
/// An input that is larger than the limits allow, once it is held in 16 bits; one of another type.
pub(in crate::ops) fn read(
    input: &TensorView<'_>,
    limits: &Limits,
) -> std::result::Result<Vec<i16>, LayerError> {
    limits.check_tensor("an input of whole numbers", (input.num_elements() as u64).saturating_mul(2))?;
    match input.layout().is_contiguous() {
        true => Ok(centered(input.slice::<i8>()?, 0)),
        false => Ok(centered(&input.to_vec::<i8>()?, 0)),
    }
}

#[cfg(test)]
mod tests;
