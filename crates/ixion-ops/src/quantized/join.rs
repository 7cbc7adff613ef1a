//! Concatenation of quantised tensors.

use super::{check_bytes, quantization, with_quantized};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::views::axis_of;
use ixion_kernels::quantization::Quantization;
use ixion_kernels::quantized::QuantizedElement;
use ixion_tensor::{DType, Layout, TensorView};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.ao.nn.quantized.QFunctional.cat`, and `torch.cat` of quantised tensors: concatenates them along an axis.
    /// Inputs whose scale or zero point differs from the output's are dequantised and quantised again.
    pub struct QuantizedCat for "nn.quantized.cat" {
        /// The axis; may be negative, counting from the end.
        dim: i64 = 0,
        /// The scale of the output.
        scale: f64,
        /// The zero point of the output.
        zero_point: i64,
        /// The scale of each input; set when a model is built.
        input_scales: Vec<f64>,
        /// The zero point of each input; set when a model is built.
        input_zero_points: Vec<i64>,
    }
}

impl QuantizedCat {
    fn output(&self, dtype: DType) -> Result<Quantization> {
        quantization(["scale", "zero_point"], self.scale, self.zero_point, dtype)
    }

    fn inputs(&self, dtype: DType) -> Result<Vec<Quantization>> {
        let pairs = self.input_scales.iter().zip(&self.input_zero_points);
        let keys = ["input_scales", "input_zero_points"];
        pairs.map(|(&scale, &zero)| quantization(keys, scale, zero, dtype)).collect()
    }
}

/// The requantised value of each of the 256 values of 8 bits.
fn table(from: &Quantization, to: &Quantization) -> Vec<i32> {
    (from.range[0]..=from.range[1])
        .map(|q| if from == to { q } else { to.quantize(from.dequantize(q)) })
        .collect()
}

impl Layer for QuantizedCat {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.input_scales.len().min(self.input_zero_points.len()).max(1))
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let first = &inputs[0];
        check_bytes("the first input", first)?;
        self.output(first.dtype())?;
        self.inputs(first.dtype())?;
        let axis = axis_of(self.dim, first)?;
        let mut dims = first.dims().to_vec();
        for (position, input) in inputs.iter().enumerate().skip(1) {
            let mut wanted = first.dims().to_vec();
            if let (Some(len), Some(own)) = (wanted.get_mut(axis), input.dims().get(axis)) {
                *len = own.clone();
            }
            if input.dtype() != first.dtype() {
                return Err(LayerError::dtype(format!("input {position}"), first.dtype(), input.dtype()));
            }
            if !input.may_have_dims(&wanted) {
                let wanted = format!("the shape {first} except along axis {axis}");
                return Err(LayerError::shape(format!("input {position}"), wanted, input));
            }
            dims[axis] = dims[axis].clone() + input.dims()[axis].clone();
        }
        Ok(vec![first.with_dims(dims)])
    }
}

impl CpuLayer for QuantizedCat {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (axis, dtype) = (io.outputs[0].shape().axis(self.dim)?, io.outputs[0].dtype());
        let (to, mut start) = (self.output(dtype)?, 0);
        for (input, from) in io.inputs.iter().zip(self.inputs(dtype)?) {
            let len = input.shape().get(axis).copied().unwrap_or(0);
            let table = table(&from, &to);
            let part = io.outputs[0].layout().narrow(axis, start, len)?;
            start += len;
            with_quantized!(dtype, Q => {
                let mut values = input.to_vec::<Q>()?;
                let place = |q: Q| (q.value() - from.range[0]) as usize;
                values.iter_mut().for_each(|q| *q = table.get(place(*q)).map_or(*q, |&q| Q::of(q)));
                let values = TensorView::from_slice(&values, Layout::contiguous(*input.shape()))?;
                io.outputs[0].reborrow().with_layout(part)?.copy_from(&values).map_err(LayerError::from)
            })?;
        }
        Ok(())
    }
}

operators! { QuantizedCat: when_quantized(Joins); category Shape; lists "nn.quantized.cat" }

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};

    #[test]
    fn values_are_requantised_to_one_scale() {
        let params = [
            ("dim", "-1"),
            ("scale", "0.5"),
            ("zero_point", "10"),
            ("input_scales", "(0.5,0.25)"),
            ("input_zero_points", "(10,0)"),
        ];
        let join = operator("nn.quantized.cat", &params);
        let (a, b) = (tensor(&[2, 1], &[0u8, 200]), tensor(&[2, 2], &[0u8, 1, 2, 255]));
        let joined = join.run_one(&[&a, &b]).unwrap();
        assert_eq!(joined.shape().dims(), [2, 3]);
        // 0.25 is half a step, which is rounded to the even number of steps; 63.75 is 127.5 steps.
        assert_eq!(joined.to_vec::<u8>().unwrap(), [0, 10, 10, 200, 11, 138]);
        assert!(join.run(&[&a, &tensor(&[3, 1], &[0u8; 3])]).is_err());
        assert!(join.run(&[&a, &tensor(&[2, 1], &[0i8; 2])]).is_err());
        join.survives(2);
    }
}
