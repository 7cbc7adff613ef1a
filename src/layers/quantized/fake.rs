//! Floats that are rounded as if they had been quantised, as models have them that were trained for it.

use super::super::arguments::{Argument, Operand};
use super::super::float;
use super::conversion::{check_channels, in_f32, numbers, run_len};
use crate::graph::{CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta};
use crate::kernels::naive::Quantization;
use crate::tensor::{TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.fake_quantize_per_tensor_affine`: floats, quantised and put in floats again.
    pub struct FakeQuantize for "aten::fake_quantize_per_tensor_affine" {
        /// What one step of the whole numbers stands for.
        scale: Argument<f64>,
        /// The whole number that stands for zero.
        zero_point: Argument<i64>,
        /// The least whole number.
        quant_min: i64,
        /// The largest whole number.
        quant_max: i64,
    }
    validate |layer| { range(layer.quant_min, layer.quant_max).map(drop) }
}

crate::operator! {
    /// `torch.fake_quantize_per_channel_affine`: as `torch.fake_quantize_per_tensor_affine`, with a scale and a zero point
    /// for each slice along an axis.
    pub struct FakeQuantizePerChannel for "aten::fake_quantize_per_channel_affine" {
        /// One scale for each slice.
        scale: Operand,
        /// One zero point for each slice.
        zero_point: Operand,
        /// The axis.
        axis: i64,
        /// The least whole number.
        quant_min: i64,
        /// The largest whole number.
        quant_max: i64,
    }
    validate |layer| { range(layer.quant_min, layer.quant_max).map(drop) }
}

fn range(least: i64, most: i64) -> Result<[i32; 2], LayerError> {
    match (i32::try_from(least), i32::try_from(most)) {
        (Ok(least), Ok(most)) if least <= most => Ok([least, most]),
        _ => Err(LayerError::invalid(
            "quant_min",
            least,
            format!("whole numbers of 32 bits lie from it to {most}"),
        )),
    }
}

fn how(scale: f64, zero_point: f64, range: [i32; 2]) -> Result<Quantization, LayerError> {
    let zero_point = zero_point.round_ties_even() as i32;
    if !(range[0]..=range[1]).contains(&zero_point) {
        let reason = format!("it lies from quant_min to quant_max, {} to {}", range[0], range[1]);
        return Err(LayerError::invalid("zero_point", zero_point, reason));
    }
    Ok(Quantization { scale: scale as f32, zero_point, range })
}

fn round(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    hows: &[Quantization],
    run: usize,
) -> Result<(), LayerError> {
    let mut values = in_f32(input)?;
    for (values, how) in values.chunks_mut(run.max(1)).zip(hows.iter().cycle()) {
        values.iter_mut().for_each(|x| *x = how.dequantize(how.quantize(*x)));
    }
    let layout = crate::tensor::Layout::contiguous(*input.shape());
    Ok(output.cast_from(&TensorView::from_slice(&values, layout)?)?)
}

impl Layer for FakeQuantize {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.scale.num_inputs() + self.zero_point.num_inputs();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        for found in inputs.iter().skip(1) {
            if found.num_elements().differs(&1usize.into()) || found.dtype().is_complex() {
                return Err(LayerError::shape("scale and zero point", "one number", found));
            }
        }
        float::same_as_input(inputs)
    }
}

impl CpuLayer for FakeQuantize {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let first = |position| -> Result<f64, LayerError> {
            let found = numbers(inputs, position)?;
            found.first().copied().ok_or_else(|| LayerError::shape("scale and zero point", "one number", 0))
        };
        let scale = match self.scale {
            Argument::Value(scale) => scale,
            Argument::Input(position) => first(position)?,
        };
        let zero_point = match self.zero_point {
            Argument::Value(zero) => zero as f64,
            Argument::Input(position) => first(position)?,
        };
        let how = how(scale, zero_point, range(self.quant_min, self.quant_max)?)?;
        round(&inputs[0], &mut outputs[0], &[how], usize::MAX)
    }
}

impl Layer for FakeQuantizePerChannel {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        3..=3
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        check_channels(inputs, self.axis, [self.scale.0, self.zero_point.0])?;
        float::same_as_input(inputs)
    }
}

impl CpuLayer for FakeQuantizePerChannel {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let range = range(self.quant_min, self.quant_max)?;
        let pairs = numbers(inputs, self.scale.0)?.into_iter().zip(numbers(inputs, self.zero_point.0)?);
        let hows = pairs.map(|(scale, zero)| how(scale, zero, range)).collect::<Result<Vec<_>, _>>()?;
        round(&inputs[0], &mut outputs[0], &hows, run_len(inputs[0].shape(), self.axis)?)
    }
}

pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<FakeQuantize>()?;
    registry.register::<FakeQuantizePerChannel>()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{assert_close, operator, tensor};

    #[test]
    fn floats_stay_on_the_steps() {
        let params = [("scale", "0.5"), ("zero_point", "1"), ("quant_min", "0"), ("quant_max", "3")];
        let fake = operator("aten::fake_quantize_per_tensor_affine", &params);
        let found = fake.run_one(&[&tensor(&[5], &[0.3f32, 0.25, 0.75, -3.0, 9.0])]).unwrap();
        assert_close(&found, &[5], &[0.5, 0.0, 1.0, -0.5, 1.0]);
        fake.survives(1);
        let wrong = [("scale", "0.5"), ("zero_point", "1"), ("quant_min", "4"), ("quant_max", "3")];
        assert!(operator("aten::fake_quantize_per_tensor_affine", &wrong).create(1).is_err());
    }
}
