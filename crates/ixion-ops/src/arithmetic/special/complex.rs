//! Polar coordinates and conjugates of complex numbers.

use super::{Double, check_held, map, real_result, refused};
use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
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
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (length, angle) = (&inputs[0], &inputs[self.angle.0]);
        let dtype = match length.dtype() {
            DType::F16 => DType::C32,
            DType::F32 => DType::C64,
            DType::F64 => DType::C128,
            other => return Err(refused(other, "f16, f32 and f64")),
        };
        if angle.dtype() != length.dtype() {
            let (what, wanted) = ("the angle".to_owned(), length.dtype().to_string());
            return Err(LayerError::DType { what, wanted, found: angle.dtype() });
        }
        Ok(vec![TensorMeta::new(dtype, broadcast(length.dims(), angle.dims())?)])
    }
}

impl CpuLayer for Polar {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        check_held::<[Double; 2]>(&outputs[0], context)?;
        let shape = *outputs[0].shape();
        let read = |position: usize| -> Result<Vec<f64>, LayerError> {
            let converted = TensorOrScalar::Input(position).converted(inputs, DType::F64)?;
            Ok(converted.expanded(&shape)?.to_vec()?)
        };
        let (lengths, angles) = (read(0)?, read(self.angle.0)?);
        number::write::<Double>(&mut outputs[0], |output| {
            let parts = lengths.iter().zip(&angles).map(|(r, a)| Complex::new(r * a.cos(), r * a.sin()));
            output.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
            Ok(())
        })
    }
}

impl Layer for Angle {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].with_dtype(real_result(inputs[0].dtype()).real())])
    }
}

impl CpuLayer for Angle {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        if inputs[0].dtype().is_complex() {
            return map(&inputs[0], &mut outputs[0], context, |z: Double| z.arg());
        }
        map(&inputs[0], &mut outputs[0], context, |x: f64| match x {
            x if x.is_nan() => x,
            x if x < 0.0 => PI,
            _ => 0.0,
        })
    }
}

macro_rules! keep_the_type {
    ($($name:ident: $complex:expr, |$input:ident, $output:ident, $context:ident| $real:expr;)*) => {$(
        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                Ok(vec![inputs[0].with_dtype(inputs[0].dtype())])
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                $context: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                let ($input, $output) = (&inputs[0], &mut outputs[0]);
                let complex: fn(Double) -> Double = $complex;
                if $input.dtype().is_complex() { map($input, $output, $context, complex) } else { $real }
            }
        }
    )*};
}

/// Conjugates complex numbers.
///
/// # Errors
/// Returns an error if a limit is exceeded.
pub(crate) fn conjugate(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    context: &ForwardContext<'_>,
) -> Result<(), LayerError> {
    map(input, output, context, |z: Double| z.conj())
}

fn direction(z: Double) -> Double {
    if z == Double::default() { z } else { z / z.norm() }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 { 1.0 } else { -f64::from(u8::from(x < 0.0)) }
}

keep_the_type! {
    Conjugate: |z| z.conj(), |input, output, context| Ok(output.copy_from(input)?);
    Sgn: direction, |input, output, context| match input.dtype().is_float() {
        true => map(input, output, context, |x: f64| 0.0 + sign(x)),
        false => map(input, output, context, i64::signum),
    };
}

operators! { Polar, Angle, Conjugate, Sgn }
