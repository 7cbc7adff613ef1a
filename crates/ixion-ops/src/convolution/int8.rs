//! Convolution of quantised (int8) tensors.

use super::Conv;
use super::border::{Border, PreparedInt8};
use crate::layout::padding::PaddingMode;
use crate::op::{Layer, LayerError, Result, TensorFormat, Weight};
use crate::support::int8;
use crate::support::int8::{Channels, Fill, Real};
use ixion_kernels::quantized::{Int8Conv, Outcome, Rows};
use ixion_tensor::{Limits, Shape, TensorView, TensorViewMut};

/// The number of int8 products in the time of one `f32` product, if each output sums many.
const PEAK_INT8_SPEEDUP: f64 = 1.4;

/// The overhead of one output, in products.
const OVERHEAD_MACS: f64 = 180.0;

impl Conv {
    /// Returns true if the int8 kernel supports these parameters.
    pub(super) fn may_be_int8(&self) -> bool {
        self.padding_mode != PaddingMode::Constant && int8::has_weights(&self.weight, self.bias.as_ref())
    }

    /// Supports a quantised input with a quantised or float output.
    pub fn supports_int8(&self, position: usize, formats: &[TensorFormat]) -> bool {
        self.may_be_int8() && int8::takes(position, formats, *self.num_inputs().end())
    }

    /// Quantises the weights if scales were configured.
    ///
    /// # Errors
    /// Fails if the weights cannot be read or are not finite.
    pub(super) fn initialize_int8(&mut self) -> Result<()> {
        self.int8.initialize(&self.weight, self.bias.as_ref(), |rows| rows)
    }

    /// The kernel's efficiency relative to an `f32` matrix product, as measured by `benches/int8.rs` on AVX-512 with VNNI:
    /// gathering and rounding cost as much as [`OVERHEAD_MACS`] products per output.
    pub(super) fn int8_efficiency(&self) -> f64 {
        let depth: usize = match &self.weight {
            Weight::Attribute(weight) => weight.shape().iter().skip(1).product(),
            Weight::Input(_) => 0,
        };
        PEAK_INT8_SPEEDUP * depth as f64 / (depth as f64 + OVERHEAD_MACS)
    }

    /// Runs the int8 convolution.
    ///
    /// # Errors
    /// Fails if the deadline has passed, a limit is exceeded or the epilogue fails.
    pub(super) fn run_int8(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        self.initialize_int8()?;
        let (mut int8_conv, mut epilogue) = (self.int8_conv.take(), self.epilogue.take());
        let prepare = |shape: &Shape| self.prepared_int8(shape, limits);
        let result = int8_conv.of(*inputs[0].shape(), prepare).and_then(|PreparedInt8 { conv, border }| {
            limits.check_tensor("the samples of an int8 convolution", conv.held_bytes())?;
            let mut input = int8::read(&inputs[0], self.int8.input_zero_point(), limits)?;
            let [sample, out_sample] = conv.sample();
            if let Some(border) = border {
                input = padded(border, &input, sample, limits)?;
            }
            let positions = out_sample.checked_div(self.weight_rows()).unwrap_or(0);
            let samples = Samples { conv, input: &input, limits };
            self.int8.write(epilogue.as_mut(), Channels::Rows(positions), inputs, output, samples)
        });
        (self.int8_conv, self.epilogue) = (int8_conv, epilogue);
        result
    }

    /// The number of output channels.
    fn weight_rows(&self) -> usize {
        match &self.weight {
            Weight::Attribute(weight) => weight.shape().first().copied().unwrap_or(0),
            Weight::Input(_) => 0,
        }
    }

    fn prepared_int8(&self, input: &[usize], limits: &Limits) -> Result<PreparedInt8> {
        let Weight::Attribute(weight) = &self.weight else {
            return Err(LayerError::Unsupported("int8 convolution requires weights from the file".into()));
        };
        let (shape, pads) = self.shape(input, weight.shape())?;
        let border = self.border(input, &pads, limits)?;
        Ok(PreparedInt8 { conv: Int8Conv::new(shape), border })
    }
}

/// All samples with their border; each has `sample` elements then.
fn padded(border: &Border, input: &[i16], sample: usize, limits: &Limits) -> Result<Vec<i16>> {
    let samples = input.len().checked_div(border.bare(sample)).unwrap_or(0);
    let count = samples.saturating_mul(sample);
    limits.check_tensor("the padded input", (count as u64).saturating_mul(2))?;
    let mut padded = vec![0; count];
    border.pad(input, 1, &mut padded, limits)?;
    Ok(padded)
}

/// The samples of an input.
struct Samples<'a> {
    conv: &'a Int8Conv,
    input: &'a [i16],
    limits: &'a Limits,
}

impl Fill<Rows> for Samples<'_> {
    fn fill<Q: Send>(&self, weights: &Rows, real: Real<'_>, output: &mut [Q]) -> Result<()>
    where
        for<'r> Real<'r>: Outcome<Q>,
    {
        let [sample, out_sample] = self.conv.sample();
        for (index, output) in output.chunks_exact_mut(out_sample.max(1)).enumerate() {
            let input = self.input.get(index * sample..(index + 1) * sample).unwrap_or_default();
            self.conv.run(input, weights, &real.from(index * out_sample), output, self.limits)?;
        }
        Ok(())
    }
}
