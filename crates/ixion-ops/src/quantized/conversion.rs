//! Quantising and dequantising.

use super::factors::{OfSlices, OfTensor, by_runs, position};
use super::{QuantizedType, quantization, range, with_quantized, write};
use crate::op::{
    CpuLayer, FieldValue, FromOperator, FromParameter, Io, Layer, LayerError, OperatorReader, Result,
    TensorMeta, View, exactly,
};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::float;
use crate::support::views::view_layers;
use ixion_kernels::quantization::Quantization;
use ixion_kernels::quantized::QuantizedElement;
use ixion_kernels::widest;
use ixion_tensor::{DType, Layout, Shape, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

/// The element type that the file records for the output, otherwise the parameter's: PNNX writes `torch.qint8` for every module
/// that quantises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedType(pub DType);

impl FieldValue for WantedType {
    const KIND: &'static str = <QuantizedType as FromParameter>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        let asked = <QuantizedType as FieldValue>::read(reader, key)?.map(|asked| asked.0);
        let recorded = reader.output_dtype(0).filter(|&dtype| range(dtype).is_ok());
        Ok(recorded.or(asked).map(Self))
    }
}

crate::operator! {
    /// `torch.quantize_per_tensor`: quantises floats to integers, `zero_point + round(x / scale)`, rounding half to even and
    /// saturating. The quotient is computed as x times 1/scale in f32.
    pub struct QuantizePerTensor for
        "torch.quantize_per_tensor", "aten::quantize_per_tensor", "nn.quantized.Quantize"
    {
        /// The scale; positive.
        scale: ParamOrInput<f64>,
        /// The zero point.
        zero_point: ParamOrInput<i64>,
        /// The quantised type; the type that the file records for the output takes precedence.
        dtype: WantedType,
    }
}

crate::operator! {
    /// `torch.quantize_per_channel`: as `torch.quantize_per_tensor`, with a scale and a zero point for each slice along an
    /// axis.
    pub struct QuantizePerChannel for "aten::quantize_per_channel" {
        /// The scale of each slice, a vector.
        scale: InputIndex,
        /// The zero point of each slice, a vector.
        zero_point: InputIndex,
        /// The axis.
        axis: i64,
        /// The quantised type; the type that the file records for the output takes precedence.
        dtype: WantedType,
    }
}

crate::operator! {
    /// `torch.dequantize`: the f32 values of a quantised tensor, `(q − zero_point) · scale`. Scale and zero point are
    /// copied from the operator that quantised the tensor when a model is built.
    pub struct DeQuantize for "torch.dequantize", "nn.quantized.DeQuantize" {
        /// The scale.
        scale: ParamOrInput<f64>,
        /// The zero point.
        zero_point: ParamOrInput<i64>,
        /// The axis whose slices have a scale and a zero point each; one of each for the whole tensor by default.
        axis: Option<i64> = None,
    }
}

crate::operator! {
    /// `torch.Tensor.int_repr`: the quantised values of a tensor, as a tensor of integers.
    pub struct IntRepr for "aten::int_repr" {}
}

/// The checked quantisation for a scale and a zero point.
fn usable((scale, zero_point): (f64, f64), dtype: DType) -> Result<Quantization> {
    quantization(["scale", "zero_point"], scale, zero_point as i64, dtype)
}

/// Checks scale and zero point as far as they are known before the run.
fn check(of: OfTensor<'_>, inputs: &[TensorMeta], dtype: DType) -> Result<()> {
    of.constants().map_or(Ok(()), |(scale, zero)| usable((scale, zero as f64), dtype).map(drop))?;
    of.check(inputs)
}

fn of_slices(of: OfSlices, inputs: &[TensorView<'_>], dtype: DType) -> Result<Vec<Quantization>> {
    of.numbers(inputs)?.into_iter().map(|pair| usable(pair, dtype)).collect()
}

/// Quantises runs of `run` elements, cycling through `params` from run to run.
fn quantize(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    params: &[Quantization],
    run: usize,
) -> Result<()> {
    let values = input.to_tensor()?.cast(DType::F32)?.to_vec::<f32>()?;
    with_quantized!(output.dtype(), Q => write::<Q>(output, |output| {
        let of = |param: &Quantization, x| Q::of(param.quantize(x));
        widest!(|| by_runs(&values, output, (params, run), of));
        Ok(())
    }))
}

/// Dequantises runs of `run` elements, cycling through `params` from run to run.
fn dequantize(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    params: &[Quantization],
    run: usize,
) -> Result<()> {
    with_quantized!(input.dtype(), Q => {
        let values = input.to_vec::<Q>()?;
        float::write::<f32>(output, |output| {
            let of = |param: &Quantization, q: Q| param.dequantize(q.value());
            widest!(|| by_runs(&values, output, (params, run), of));
            Ok(())
        })
    })
}

impl QuantizePerTensor {
    fn factors(&self) -> OfTensor<'_> {
        OfTensor { scale: &self.scale, zero_point: &self.zero_point }
    }
}

impl Layer for QuantizePerTensor {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the input", &inputs[0])?;
        check(self.factors(), inputs, self.dtype.0)?;
        Ok(vec![inputs[0].with_dtype(self.dtype.0)])
    }
}

impl CpuLayer for QuantizePerTensor {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let param = usable(self.factors().numbers(io.inputs)?, self.dtype.0)?;
        quantize(&io.inputs[0], &mut io.outputs[0], &[param], usize::MAX)
    }
}

impl QuantizePerChannel {
    fn factors(&self) -> OfSlices {
        OfSlices { scale: self.scale.0, zero_point: self.zero_point.0, axis: self.axis }
    }
}

impl Layer for QuantizePerChannel {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the input", &inputs[0])?;
        self.factors().check(inputs)?;
        Ok(vec![inputs[0].with_dtype(self.dtype.0)])
    }
}

impl CpuLayer for QuantizePerChannel {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let params = of_slices(self.factors(), io.inputs, self.dtype.0)?;
        quantize(&io.inputs[0], &mut io.outputs[0], &params, self.factors().run(io.inputs[0].shape())?)
    }
}

impl DeQuantize {
    fn factors(&self) -> OfTensor<'_> {
        OfTensor { scale: &self.scale, zero_point: &self.zero_point }
    }

    /// The scales and zero points of slices, if there is an axis.
    fn of_slices(&self) -> Result<Option<OfSlices>> {
        match (self.axis, position(&self.scale), position(&self.zero_point)) {
            (None, ..) => Ok(None),
            (Some(axis), Some(scale), Some(zero_point)) => Ok(Some(OfSlices { scale, zero_point, axis })),
            (Some(axis), ..) => {
                let reason = "scale and zero point of each slice must be inputs";
                Err(LayerError::invalid("axis", axis, reason))
            }
        }
    }
}

impl Layer for DeQuantize {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        range(inputs[0].dtype())?;
        match self.of_slices()? {
            Some(slices) => slices.check(inputs)?,
            None => check(self.factors(), inputs, inputs[0].dtype())?,
        }
        Ok(vec![inputs[0].with_dtype(DType::F32)])
    }
}

impl CpuLayer for DeQuantize {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let dtype = io.inputs[0].dtype();
        if let Some(slices) = self.of_slices()? {
            let params = of_slices(slices, io.inputs, dtype)?;
            return dequantize(&io.inputs[0], &mut io.outputs[0], &params, slices.run(io.inputs[0].shape())?);
        }
        let param = usable(self.factors().numbers(io.inputs)?, dtype)?;
        dequantize(&io.inputs[0], &mut io.outputs[0], &[param], usize::MAX)
    }
}

impl Layer for IntRepr {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        range(inputs[0].dtype())?;
        Ok(vec![inputs[0].clone()])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        Ok(Some(View { input: 0, layout: inputs[0] }))
    }
}

view_layers!(IntRepr);

operators! {
    QuantizePerTensor: when_quantized(Quantizes), QuantizePerChannel: when_quantized(QuantizesChannels),
    DeQuantize: when_quantized(Dequantizes), IntRepr: when_quantized(ReadsIntegers)
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};

    #[test]
    fn numbers_are_rounded_to_even_and_saturated() {
        let quantize = |dtype| {
            let params = [("scale", "0.5"), ("zero_point", "3"), ("dtype", dtype)];
            let x = tensor(&[7], &[0.25f32, 0.75, -0.75, 1.0, 1e9, -1e9, f32::NAN]);
            operator("torch.quantize_per_tensor", &params).run_one(&[&x]).unwrap()
        };
        assert_eq!(quantize("torch.quint8").to_vec::<u8>().unwrap(), [3, 5, 1, 5, 255, 0, 3]);
        assert_eq!(quantize("torch.qint8").to_vec::<i8>().unwrap(), [3, 5, 1, 5, 127, -128, 3]);
        let back = operator("torch.dequantize", &[("scale", "0.5"), ("zero_point", "3")]);
        let back = back.run_one(&[&tensor(&[3], &[3u8, 0, 255])]).unwrap();
        assert_close(&back, &[3], &[0.0, -1.5, 126.0]);
    }

    #[test]
    fn every_slice_has_its_own_scale() {
        let (scales, zeros) = (tensor(&[2], &[0.5f32, 0.25]), tensor(&[2], &[0i64, 10]));
        let names = ["input", "scale", "zero_point"];
        let params = [("axis", "1"), ("dtype", "torch.qint8")];
        let quantize = operator("aten::quantize_per_channel", &params).with_names(&names);
        let x = tensor(&[1, 2, 2], &[1.0f32, 2.0, 1.0, 2.0]);
        let q = quantize.run_one(&[&x, &scales, &zeros]).unwrap();
        assert_eq!(q.to_vec::<i8>().unwrap(), [2, 4, 14, 18]);
        let back = operator("torch.dequantize", &[("axis", "1")]).with_names(&names);
        assert_close(&back.run_one(&[&q, &scales, &zeros]).unwrap(), &[1, 2, 2], &[1.0, 2.0, 1.0, 2.0]);
        assert!(back.run(&[&q, &tensor(&[3], &[1.0f32; 3]), &zeros]).is_err());
    }

    #[test]
    fn invalid_scales_and_zero_points() {
        let with = |scale, zero| {
            let params = [("scale", scale), ("zero_point", zero), ("dtype", "torch.quint8")];
            operator("torch.quantize_per_tensor", &params).run(&[&tensor(&[1], &[1.0f32])])
        };
        for (scale, zero) in
            [("0.0", "0"), ("-1.0", "0"), ("nan", "0"), ("inf", "0"), ("1.0", "256"), ("1e-45", "0")]
        {
            assert!(with(scale, zero).is_err(), "{scale} {zero}");
        }
        assert!(operator("torch.dequantize", &[]).create(1).is_err());
        operator("torch.dequantize", &[("scale", "1.0"), ("zero_point", "0")]).survives(1);
        operator("aten::int_repr", &[]).survives(1);
        let params = [("axis", "1"), ("dtype", "torch.qint8")];
        operator("aten::quantize_per_channel", &params).survives(3);
    }
}
