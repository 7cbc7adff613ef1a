//! The dot product with the first vector conjugated.

use super::Product;
use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::support::arguments::InputIndex;
use crate::support::number;
use crate::support::number::with_number;
use ixion_tensor::{Complex, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.vdot`: the dot product of two vectors, with the first one conjugated if it is complex.
    pub struct Vdot for "aten::vdot" {
        /// The other vector.
        other: InputIndex,
    }
}

impl Vdot {
    fn product(&self) -> Product {
        Product { factors: [0, self.other.0], ranks: Some([1, 1]), added: None }
    }
}

impl Layer for Vdot {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.product().infer(inputs)
    }
}

impl CpuLayer for Vdot {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (dtype, limits) = (inputs[0].dtype(), context.limits());
        if !dtype.is_complex() {
            return with_number!(dtype, T => self.product().run::<T>(inputs, &mut outputs[0], limits));
        }
        let [a, b] = [number::read::<Complex<f64>>(&inputs[0])?, number::read(&inputs[self.other.0])?];
        let sum: Complex<f64> = a.iter().zip(b.iter()).map(|(a, b)| a.conj() * b).sum();
        number::write::<Complex<f64>>(&mut outputs[0], |output| {
            output.fill(sum);
            Ok(())
        })
    }
}
