//! Polar coordinates and conjugates of complex numbers.

use super::{Double, check_held, map, real_result, refused};
use crate::op::{CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{TensorOrScalar, broadcast};
use crate::support::number;
use ixion_tensor::{Complex, DType, TensorView, TensorViewMut};
use std::f64::consts::PI;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.polar`: creates complex numbers from absolute values and angles: c64 from f32, c128 from f64, c32 from f16.
    pub struct Polar for "aten::polar" {
        /// The angles in radians, of the input's element type; they are broadcast.
        angle: InputIndex,
    }
}

crate::operator! {
    /// `torch.angle`: the angle of each element in radians. Real elements have the angle 0, or π if they are negative.
    pub struct Angle for "aten::angle" {}
}

crate::operator! {
    /// `torch.conj`: the complex conjugate of each element; a real input is returned as it is.
    pub struct Conjugate for "aten::_conj", "aten::conj", "aten::conj_physical" {}
}

crate::operator! {
    /// `torch.sgn`: each complex element divided by its absolute value, 0 for 0; the sign of real elements.
    pub struct Sgn for "aten::sgn" {}
}

impl Layer for Polar {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (length, angle) = (&inputs[0], &inputs[self.angle.0]);
        let dtype = match length.dtype() {
            DType::F16 => DType::C32,
            DType::F32 => DType::C64,
            DType::F64 => DType::C128,
            other => return Err(refused(other, "f16, f32 and f64")),
        };
        if angle.dtype() != length.dtype() {
            return Err(LayerError::dtype("the angle", length.dtype(), angle.dtype()));
        }
        Ok(vec![TensorMeta::new(dtype, broadcast(length.dims(), angle.dims())?)])
    }
}

impl CpuLayer for Polar {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        check_held::<[Double; 2]>(&io.outputs[0], &io.context)?;
        let shape = *io.outputs[0].shape();
        let read = |position: usize| -> Result<Vec<f64>> {
            let converted = TensorOrScalar::Input(position).converted(io.inputs, DType::F64)?;
            Ok(converted.expanded(&shape)?.to_vec()?)
        };
        let (lengths, angles) = (read(0)?, read(self.angle.0)?);
        number::write::<Double>(&mut io.outputs[0], |output| {
            let parts = lengths.iter().zip(&angles).map(|(r, a)| Complex::new(r * a.cos(), r * a.sin()));
            output.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
            Ok(())
        })
    }
}

impl Layer for Angle {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dtype(real_result(inputs[0].dtype()).real())])
    }
}

impl CpuLayer for Angle {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.inputs[0].dtype().is_complex() {
            return map(&io.inputs[0], &mut io.outputs[0], &io.context, |z: Double| z.arg());
        }
        map(&io.inputs[0], &mut io.outputs[0], &io.context, |x: f64| match x {
            x if x.is_nan() => x,
            x if x < 0.0 => PI,
            _ => 0.0,
        })
    }
}

/// Conjugates complex numbers.
///
/// # Errors
/// Returns an error if a limit is exceeded.
pub(crate) fn conjugate(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    context: &ForwardContext<'_>,
) -> Result<()> {
    map(input, output, context, |z: Double| z.conj())
}

fn direction(z: Double) -> Double {
    if z == Double::default() { z } else { z / z.norm() }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 { 1.0 } else { -f64::from(u8::from(x < 0.0)) }
}

impl Layer for Conjugate {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dtype(inputs[0].dtype())])
    }
}

impl CpuLayer for Conjugate {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        if input.dtype().is_complex() {
            conjugate(input, output, &io.context)
        } else {
            Ok(output.copy_from(input)?)
        }
    }
}

impl Layer for Sgn {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dtype(inputs[0].dtype())])
    }
}

impl CpuLayer for Sgn {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output, context) = (&io.inputs[0], &mut io.outputs[0], &io.context);
        match input.dtype() {
            dtype if dtype.is_complex() => map(input, output, context, direction),
            dtype if dtype.is_float() => map(input, output, context, |x: f64| 0.0 + sign(x)),
            _ => map(input, output, context, i64::signum),
        }
    }
}

operators! { Polar, Angle, Conjugate, Sgn }
