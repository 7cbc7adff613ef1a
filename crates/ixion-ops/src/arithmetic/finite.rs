//! Replacing NaN and infinities.

use crate::op::{CpuLayer, Io, Layer, Result, TensorMeta};
use crate::support::float;
use crate::support::float::with_float;
use crate::support::number;
use ixion_kernels::Float;
use ixion_tensor::{Complex, DType, TensorView, TensorViewMut, bf16};

crate::operator! {
    /// `torch.nan_to_num`: replaces NaN and infinities by numbers, in both parts of complex elements; integers are returned as
    /// they are.
    pub struct NanToNum for "aten::nan_to_num" {
        /// The replacement for NaN; by default 0.
        nan: Option<f64> = None,
        /// The replacement for infinity; by default the largest finite value of the element type.
        posinf: Option<f64> = None,
        /// The replacement for minus infinity; by default the lowest finite value of the element type.
        neginf: Option<f64> = None,
    }
}

/// The largest finite value of a floating-point type.
pub fn greatest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::Bf16 => f64::from(bf16::MAX),
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

impl NanToNum {
    fn number<T: Float>(&self, x: T, most: f64) -> T {
        match x {
            x if x.is_nan() => T::of(self.nan.unwrap_or(0.0)),
            x if x == T::infinity() => T::of(self.posinf.unwrap_or(most)),
            x if x == T::neg_infinity() => T::of(self.neginf.unwrap_or(-most)),
            x => x,
        }
    }

    fn run_complex(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let most = greatest(input.dtype().real());
        let values = number::read::<Complex<f64>>(input)?;
        number::write::<Complex<f64>>(output, |output| {
            for (to, z) in output.iter_mut().zip(values.iter()) {
                *to = Complex::new(self.number(z.re, most), self.number(z.im, most));
            }
            Ok(())
        })
    }

    fn run<T: Float>(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let most = greatest(input.dtype());
        let values = float::read::<T>(input)?;
        float::write::<T>(output, |output| {
            output.iter_mut().zip(values.iter()).for_each(|(to, &x)| *to = self.number(x, most));
            Ok(())
        })
    }
}

impl Layer for NanToNum {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for NanToNum {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.inputs[0].dtype().is_complex() {
            return self.run_complex(&io.inputs[0], &mut io.outputs[0]);
        }
        if !io.inputs[0].dtype().is_float() {
            return Ok(io.outputs[0].copy_from(&io.inputs[0])?);
        }
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(&io.inputs[0], &mut io.outputs[0]))
    }
}

operators! { NanToNum }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};

    #[test]
    fn nan_and_infinities_are_replaced() {
        let x = tensor(&[4], &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5]);
        let most = f64::from(f32::MAX);
        let plain = operator("aten::nan_to_num", &[("nan", "None")]).run_one(&[&x]).unwrap();
        assert_close(&plain, &[4], &[0.0, most, -most, 1.5]);
        let set = operator("aten::nan_to_num", &[("nan", "2.0"), ("posinf", "3.0"), ("neginf", "-1")]);
        assert_close(&set.run_one(&[&x]).unwrap(), &[4], &[2.0, 3.0, -1.0, 1.5]);
        set.survives(1);
    }
}
