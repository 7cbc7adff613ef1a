//! Convolution of whole numbers that stand for real ones.

use super::{Conv, Padding};
use crate::Limits;
use crate::kernels::quantized::{Outcome, Rows, WholeConv};
use crate::op::{Layer, LayerError, TensorFormat, Weight};
use crate::ops::layout::padding::PaddingMode;
use crate::ops::support::int8;
use crate::ops::support::int8::{Channels, Fill, Real};
use crate::tensor::{TensorView, TensorViewMut};

/// Products of whole numbers in the time of one of `f32`, where there are many for each output.
const BEST: f64 = 1.4;

/// Products in the time that an output takes beside them.
const LOST: f64 = 180.0;

impl Conv {
    /// Whether there is a kernel of whole numbers for these parameters: what lies around the input must be zeros.
    pub(super) fn may_be_whole(&self) -> bool {
        let is_unpadded = match &self.padding {
            Padding::Places(places) => places.values().iter().all(|&places| places == 0),
            Padding::Valid => true,
            Padding::Same => false,
        };
        let pads_zeros = self.padding_mode == PaddingMode::Zeros || is_unpadded;
        pads_zeros && int8::has_weights(&self.weight, self.bias.as_ref())
    }

    /// A quantised input, and an output that is quantised or not.
    pub(crate) fn takes_whole(&self, position: usize, formats: &[TensorFormat]) -> bool {
        self.may_be_whole() && int8::takes(position, formats, *self.num_inputs().end())
    }

    /// Makes the weights whole numbers, where scales were settled.
    ///
    /// # Errors
    /// Weights that cannot be read, or are not finite.
    pub(super) fn initialize_whole(&mut self) -> Result<(), LayerError> {
        self.int8.initialize(&self.weight, self.bias.as_ref(), |rows| rows)
    }

    /// How well the kernel uses the processor, compared with a product of matrices of `f32`, as `benches/int8.rs` measured it
    /// on AVX-512 with VNNI: gathering and rounding cost as much as [`LOST`] products for each output.
    pub(super) fn whole_efficiency(&self) -> f64 {
        let depth: usize = match &self.weight {
            Weight::Attribute(weight) => weight.shape().iter().skip(1).product(),
            Weight::Input(_) => 0,
        };
        BEST * depth as f64 / (depth as f64 + LOST)
    }

    /// Convolves whole numbers.
    ///
    /// # Errors
    /// A deadline that has passed, or a limit that is too low; what the epilogue says.
    pub(super) fn run_whole(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        self.initialize_whole()?;
        let (mut whole, mut epilogue) = (self.whole.take(), self.epilogue.take());
        let result = whole.of(*inputs[0].shape(), |shape| self.whole_conv(shape)).and_then(|conv| {
            limits.check_tensor("what a convolution of whole numbers sees", conv.held_bytes())?;
            let input = int8::read(&inputs[0], limits)?;
            let [_, out_sample] = conv.sample();
            let positions = out_sample.checked_div(self.weight_rows()).unwrap_or(0);
            let samples = Samples { conv, input: &input, limits };
            self.int8.write(epilogue.as_mut(), Channels::Rows(positions), inputs, output, samples)
        });
        (self.whole, self.epilogue) = (whole, epilogue);
        result
    }

    /// The number of output channels.
    fn weight_rows(&self) -> usize {
        match &self.weight {
            Weight::Attribute(weight) => weight.shape().first().copied().unwrap_or(0),
            Weight::Input(_) => 0,
        }
    }

    fn whole_conv(&self, input: &[usize]) -> Result<WholeConv, LayerError> {
        let Weight::Attribute(weight) = &self.weight else {
            return Err(LayerError::Unsupported("weights that the graph computes are not whole".into()));
        };
        Ok(WholeConv::new(self.shape(input, weight.shape())?.0))
    }
}

/// The samples of an input.
struct Samples<'a> {
    conv: &'a WholeConv,
    input: &'a [i16],
    limits: &'a Limits,
}

impl Fill<Rows> for Samples<'_> {
    fn fill<Q: Send>(&self, weights: &Rows, real: Real<'_>, output: &mut [Q]) -> Result<(), LayerError>
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
