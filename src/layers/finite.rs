//! Numbers in the place of NaN and infinities.

use super::float::{self, with_float};
use crate::graph::{CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta};
use crate::kernels::Float;
use crate::tensor::{DType, TensorView, TensorViewMut, bf16};

crate::operator! {
    /// `torch.nan_to_num`: the input with numbers in the place of NaN and infinities; integers as they are.
    pub struct NanToNum for "aten::nan_to_num" {
        /// In the place of NaN; 0 where absent.
        nan: Option<f64> = None,
        /// In the place of infinity; the greatest number of the element type where absent.
        posinf: Option<f64> = None,
        /// In the place of minus infinity; the least number of the element type where absent.
        neginf: Option<f64> = None,
    }
}

/// The greatest number of an element type.
fn greatest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::Bf16 => f64::from(bf16::MAX),
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

impl NanToNum {
    fn run<T: Float>(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        let most = greatest(input.dtype());
        let (nan, high) = (T::of(self.nan.unwrap_or(0.0)), T::of(self.posinf.unwrap_or(most)));
        let low = T::of(self.neginf.unwrap_or(-most));
        let values = float::read::<T>(input)?;
        float::write::<T>(output, |output| {
            output.iter_mut().zip(values.iter()).for_each(|(to, &x)| {
                *to = match x {
                    x if x.is_nan() => nan,
                    x if x == T::infinity() => high,
                    x if x == T::neg_infinity() => low,
                    x => x,
                };
            });
            Ok(())
        })
    }
}

impl Layer for NanToNum {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        if inputs[0].dtype().is_complex() {
            return Err(LayerError::dtype("the input", "real numbers", inputs[0].dtype()));
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for NanToNum {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        if !inputs[0].dtype().is_float() {
            return Ok(outputs[0].copy_from(&inputs[0])?);
        }
        with_float!(inputs[0].dtype(), T => self.run::<T>(&inputs[0], &mut outputs[0]))
    }
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<NanToNum>()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, operator, tensor};

    #[test]
    fn numbers_take_the_place() {
        let x = tensor(&[4], &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5]);
        let most = f64::from(f32::MAX);
        let plain = operator("aten::nan_to_num", &[("nan", "None")]).run_one(&[&x]).unwrap();
        assert_close(&plain, &[4], &[0.0, most, -most, 1.5]);
        let set = operator("aten::nan_to_num", &[("nan", "2.0"), ("posinf", "3.0"), ("neginf", "-1")]);
        assert_close(&set.run_one(&[&x]).unwrap(), &[4], &[2.0, 3.0, -1.0, 1.5]);
        set.survives(1);
    }
}
