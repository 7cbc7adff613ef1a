//! Fake quantisation: rounding floats as if they were quantised, as in models of quantisation-aware training.

mod int8;

use super::factors::{OfSlices, OfTensor, by_runs};
use crate::op::{
    CpuLayer, FromOperator, Io, Layer, LayerError, Result, Step, TensorFormat, TensorMeta, View, exactly,
};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::float;
use int8::Int8Steps;
use ixion_kernels::widest;
use ixion_tensor::{DType, Layout, Shape, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.fake_quantize_per_tensor_affine`: quantises floats and dequantises them again.
    pub struct FakeQuantize for "aten::fake_quantize_per_tensor_affine" {
        /// The scale.
        scale: ParamOrInput<f64>,
        /// The zero point.
        zero_point: ParamOrInput<i64>,
        /// The smallest quantised value.
        quant_min: i64,
        /// The largest quantised value.
        quant_max: i64,
        /// Whether numbers are divided by the scale, as in ONNX, instead of multiplied by its reciprocal. PNNX never writes it.
        divides: bool = false,
    }
    validate |layer| {
        let range = range(layer.quant_min, layer.quant_max)?;
        match layer.zero_point {
            ParamOrInput::Value(zero_point) => inside(zero_point as f64, range),
            ParamOrInput::Input(_) => Ok(()),
        }
    }
}

crate::operator! {
    /// `torch.fake_quantize_per_channel_affine`: as `torch.fake_quantize_per_tensor_affine`, with a scale and a zero point
    /// for each slice along an axis.
    pub struct FakeQuantizePerChannel for "aten::fake_quantize_per_channel_affine" {
        /// The scale of each slice, a vector.
        scale: InputIndex,
        /// The zero point of each slice, a vector.
        zero_point: InputIndex,
        /// The axis.
        axis: i64,
        /// The smallest quantised value.
        quant_min: i64,
        /// The largest quantised value.
        quant_max: i64,
    }
    validate |layer| { range(layer.quant_min, layer.quant_max).map(drop) }
}

fn range(least: i64, most: i64) -> Result<[i32; 2]> {
    match (i32::try_from(least), i32::try_from(most)) {
        (Ok(least), Ok(most)) if least <= most => Ok([least, most]),
        _ => Err(LayerError::invalid(
            "quant_min",
            least,
            format!("it must be at most `quant_max`, which is {most}, and both must fit 32 bits"),
        )),
    }
}

/// Checks that a zero point is in the range.
fn inside(zero_point: f64, [least, most]: [i32; 2]) -> Result<()> {
    if (f64::from(least)..=f64::from(most)).contains(&zero_point) {
        return Ok(());
    }
    let reason = format!("it must be between quant_min and quant_max, {least} to {most}");
    Err(LayerError::invalid("zero_point", zero_point, reason))
}

/// The rounding of floats. As in PyTorch, the scale is not checked: one that is not positive gives what the formula gives.
#[derive(Debug, Clone, Copy)]
struct Steps {
    scale: f32,
    /// The zero point, which need not be an integer.
    zero_point: f64,
    /// Whether the zero point has an integer type: then it is added after rounding, otherwise before.
    is_integer: bool,
    range: [f64; 2],
    /// Whether `f32` is divided by the scale instead of multiplied by its reciprocal.
    divides: bool,
}

impl Steps {
    fn new((scale, zero_point): (f64, f64), is_integer: bool, range: [i32; 2]) -> Self {
        let (scale, range) = (scale as f32, range.map(f64::from));
        Self { scale, zero_point, is_integer, range, divides: false }
    }

    /// Rounds and clamps a number that is given in steps, and returns its distance from the zero point in steps.
    #[inline(always)]
    fn rounded(&self, steps: f64) -> f64 {
        let place = if self.is_integer {
            steps.round_ties_even() + self.zero_point
        } else {
            (steps + self.zero_point).round_ties_even()
        };
        // NaN becomes the smallest value.
        place.max(self.range[0]).min(self.range[1]) - self.zero_point
    }

    #[inline(always)]
    fn single(&self, x: f32) -> f32 {
        let steps = if self.divides { x / self.scale } else { x * (1.0 / self.scale) };
        self.rounded(f64::from(steps)) as f32 * self.scale
    }

    /// With a scale per slice, f64 is divided and multiplied in f64.
    #[inline(always)]
    fn double_of_channels(&self, x: f64) -> f64 {
        self.rounded(x * f64::from(1.0 / self.scale)) * f64::from(self.scale)
    }

    /// With one scale, f64 is divided in f64 and multiplied in f32.
    #[inline(always)]
    fn double(&self, x: f64) -> f64 {
        f64::from(self.rounded(x * f64::from(1.0 / self.scale)) as f32 * self.scale)
    }
}

/// Rounds runs of `run` elements, cycling through `params` from run to run.
fn round(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    params: &[Steps],
    run: usize,
    double: impl Fn(&Steps, f64) -> f64 + Copy,
) -> Result<()> {
    if input.dtype() == DType::F64 {
        let values = float::read::<f64>(input)?;
        return float::write::<f64>(output, |output| {
            widest!(|| by_runs(&values, output, (params, run), double));
            Ok(())
        });
    }
    let values = float::read::<f32>(input)?;
    float::write::<f32>(output, |output| {
        widest!(|| by_runs(&values, output, (params, run), Steps::single));
        Ok(())
    })
}

impl FakeQuantize {
    fn factors(&self) -> OfTensor<'_> {
        OfTensor { scale: &self.scale, zero_point: &self.zero_point }
    }

    /// The step of int8 tensors that hold all results. Its zero point is 0 if those are whole multiples of the scale from −127 to
    /// 127; for a range that begins at −128, int8 has −127 instead. `None` if there are more than 256 results, or if the graph
    /// computes the scale or the zero point.
    pub fn int8_step(&self) -> Option<Step> {
        self.int8_steps().map(|steps| steps.step)
    }

    fn int8_steps(&self) -> Option<Int8Steps> {
        let (scale, zero_point) = self.factors().constants()?;
        let ends = [self.quant_min, self.quant_max].map(|end| end.saturating_sub(zero_point));
        Int8Steps::new((scale as f32, self.divides), ends)
    }
}

impl Layer for FakeQuantize {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.factors().check(inputs)?;
        float::same_as_input(inputs)
    }

    /// Int8 that is quantised in the same steps is the result, unless some of its values are outside of the range.
    fn view_of(&self, _: usize, inputs: &[(DType, Layout)], _: &Shape) -> Result<Option<View>> {
        let is_whole = || self.int8_steps().is_some_and(|steps| steps.hold_all());
        let input = inputs.first().filter(|(dtype, _)| *dtype == DType::I8 && is_whole());
        Ok(input.map(|&(_, layout)| View { input: 0, layout }))
    }
}

impl CpuLayer for FakeQuantize {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        int8::supports(self.int8_step().is_some(), position, formats)
    }

    fn takes_zero_points(&self) -> bool {
        true
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        int8::check(self.int8_step(), inputs.iter().chain(outputs))
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if let (DType::I8, Some(steps)) = (io.outputs[0].dtype(), self.int8_steps()) {
            return steps.write(&io.inputs[0], &mut io.outputs[0], io.context.limits());
        }
        let range = range(self.quant_min, self.quant_max)?;
        let steps = Steps::new(self.factors().numbers(io.inputs)?, true, range);
        let param = Steps { divides: self.divides, ..steps };
        round(&io.inputs[0], &mut io.outputs[0], &[param], usize::MAX, Steps::double)
    }
}

impl FakeQuantizePerChannel {
    fn factors(&self) -> OfSlices {
        OfSlices { scale: self.scale.0, zero_point: self.zero_point.0, axis: self.axis }
    }
}

impl Layer for FakeQuantizePerChannel {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.factors().check(inputs)?;
        float::same_as_input(inputs)
    }
}

impl CpuLayer for FakeQuantizePerChannel {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let range = range(self.quant_min, self.quant_max)?;
        let zero_points = io.inputs.get(self.zero_point.0).map(TensorView::dtype);
        let mut params = Vec::new();
        for pair in self.factors().numbers(io.inputs)? {
            // PyTorch only checks zero points of an integer type.
            let is_integer = zero_points.is_some_and(DType::is_integer);
            if is_integer {
                inside(pair.1, range)?;
            }
            params.push(Steps::new(pair, is_integer, range));
        }
        let run = self.factors().run(io.inputs[0].shape())?;
        round(&io.inputs[0], &mut io.outputs[0], &params, run, Steps::double_of_channels)
    }
}

operators! { FakeQuantize, FakeQuantizePerChannel }

#[cfg(test)]
mod tests {
    use crate::support::testing::{Operator, assert_close, operator, tensor};

    const STEPS: [(&str, &str); 3] = [("zero_point", "1"), ("quant_min", "0"), ("quant_max", "3")];

    fn fake<'a>(scale: &'a str) -> Operator<'a> {
        let params: Vec<_> = [("scale", scale)].into_iter().chain(STEPS).collect();
        operator("aten::fake_quantize_per_tensor_affine", &params)
    }

    #[test]
    fn floats_stay_on_the_steps() {
        let found = fake("0.5").run_one(&[&tensor(&[5], &[0.3f32, 0.25, 0.75, -3.0, 9.0])]).unwrap();
        assert_close(&found, &[5], &[0.5, 0.0, 1.0, -0.5, 1.0]);
        fake("0.5").survives(1);
        let with = |key, value| {
            let params: Vec<_> = [("scale", "0.5")]
                .into_iter()
                .chain(STEPS.map(|(k, v)| (k, if k == key { value } else { v })))
                .collect();
            operator("aten::fake_quantize_per_tensor_affine", &params).create(1)
        };
        assert!(with("quant_min", "4").is_err() && with("zero_point", "4").is_err());
    }

    /// Results of PyTorch.
    #[test]
    fn odd_numbers_and_odd_scales() {
        let infinite = f32::INFINITY;
        let x = tensor(&[6], &[0.3f32, -3.0, 9.0, f32::NAN, infinite, -infinite]);
        let found = |scale| fake(scale).run_one(&[&x]).unwrap();
        assert_close(&found("0.5"), &[6], &[0.5, -0.5, 1.0, -0.5, 1.0, -0.5]);
        assert_close(&found("-0.5"), &[6], &[0.5, -1.0, 0.5, 0.5, 0.5, -1.0]);
        assert_close(&found("0.0"), &[6], &[0.0; 6]);
        let nan = found("nan").to_vec::<f32>().unwrap();
        assert!(nan.iter().all(|x| x.is_nan()), "{nan:?}");
    }

    /// 143.5 is 3.5 steps, but a little less times the reciprocal of 41.
    #[test]
    fn numbers_may_be_divided_by_the_scale() {
        let range = [("zero_point", "0"), ("quant_min", "0"), ("quant_max", "9")];
        let params = [("scale", "41.0"), range[0], range[1], range[2], ("divides", "True")];
        let found = |count: usize| {
            let fake = operator("aten::fake_quantize_per_tensor_affine", &params[..count]);
            fake.run_one(&[&tensor(&[1], &[143.5f32])]).unwrap()
        };
        assert_close(&found(4), &[1], &[123.0]);
        assert_close(&found(5), &[1], &[164.0]);
    }

    #[test]
    fn double_precision_is_not_rounded_before_it_is_quantized() {
        let x = tensor(&[2], &[0.5f64 + 1e-12, 1.5 - 1e-12]);
        assert_close(&fake("1.0").run_one(&[&x]).unwrap(), &[2], &[1.0, 1.0]);
    }

    #[test]
    fn zero_points_need_not_be_integers() {
        let params = [("axis", "0"), ("quant_min", "0"), ("quant_max", "3")];
        let names = ["input", "scale", "zero_point"];
        let fake = operator("aten::fake_quantize_per_channel_affine", &params).with_names(&names);
        let x = tensor(&[2, 2], &[0.3f32, -3.0, 0.3, 9.0]);
        let scales = tensor(&[2], &[0.5f32, 0.25]);
        let found = fake.run_one(&[&x, &scales, &tensor(&[2], &[1.6f32, 9.6])]).unwrap();
        assert_close(&found, &[2, 2], &[0.2, -0.8, -1.65, -1.65]);
        assert!(fake.run(&[&x, &scales, &tensor(&[2], &[1i32, 9])]).is_err());
        // A value half way between two steps reveals whether the zero point is added before or after rounding.
        let (half, scale) = (tensor(&[1, 1], &[0.25f32]), tensor(&[1], &[0.5f32]));
        assert_close(&fake.run_one(&[&half, &scale, &tensor(&[1], &[1.0f32])]).unwrap(), &[1, 1], &[0.5]);
        assert_close(&fake.run_one(&[&half, &scale, &tensor(&[1], &[1i32])]).unwrap(), &[1, 1], &[0.0]);
        fake.survives(3);
    }
}
