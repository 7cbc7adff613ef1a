//! The dot product with the first vector conjugated.

use super::Product;
use crate::op::{CpuLayer, FromOperator, Io, Layer, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::number;
use crate::support::number::Computation;
use ixion_tensor::Complex;
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
        Product::of([0, self.other.0], [1, 1])
    }
}

impl Layer for Vdot {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.product().infer(inputs)
    }
}

impl CpuLayer for Vdot {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if !io.inputs[0].dtype().is_complex() {
            return self.product().run(io.inputs, &mut io.outputs[0], io.context.limits());
        }
        let [a, b] = [number::read::<Complex<f64>>(&io.inputs[0])?, number::read(&io.inputs[self.other.0])?];
        let sum: Complex<f64> = a.iter().zip(b.iter()).map(|(a, b)| a.conj() * b).sum();
        number::write::<Complex<f64>>(&mut io.outputs[0], |output| {
            output.fill(sum);
            Ok(())
        })
    }
}
