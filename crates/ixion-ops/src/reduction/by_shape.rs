//! Reductions of all axes but some: to a given shape (sum_to_size), or to one axis (norm_except_dim).

use super::along_axes::{Norm, Power, Sum, workspace};
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::{Accumulator, ParamOrInput};
use crate::support::broadcast::broadcasts;
use crate::support::views::axis_of;
use ixion_tensor::Dim;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.Tensor.sum_to_size`: the sums over the axes along which a tensor of the shape `size` would be broadcast to the
    /// input. Integers and bool are summed as i64; an input of that shape is returned as it is.
    pub struct SumToSize for "aten::sum_to_size" {
        /// The output's shape: it has at most as many axes as the input, each of the input's length or of length 1.
        size: ParamOrInput<Vec<i64>>,
    }
}

crate::operator! {
    /// `torch.norm_except_dim`: the p-norms of the slices of the input along an axis. The other axes are kept, with length 1.
    pub struct NormExceptDim for "aten::norm_except_dim" {
        /// The order p of the norm.
        pow: i64 = 2,
        /// The axis; -1 for the norm of all elements, as a tensor without axes. Other negative values count from the end.
        dim: i64 = 0,
    }
}

/// The shape of the output, the number of axes that it lacks, and the sum; `None` if nothing is summed.
type Plan = (Vec<Dim>, usize, Option<Sum>);

impl SumToSize {
    fn plan(&self, inputs: &[TensorMeta]) -> Result<Plan> {
        let (size, dims) = (self.size.dims(inputs)?, inputs[0].dims());
        if !broadcasts(&size, dims) {
            let size: Vec<String> = size.iter().map(Dim::to_string).collect();
            let wanted = format!("a shape to which ({}) can be broadcast", size.join(", "));
            return Err(LayerError::shape("the input", wanted, &inputs[0]));
        }
        let lacking = dims.len() - size.len();
        let is_summed = |axis: usize| match axis.checked_sub(lacking) {
            Some(kept) => size[kept] == 1usize && dims[axis] != 1usize,
            None => true,
        };
        let axes = (0..dims.len()).filter(|&axis| is_summed(axis));
        let axes: Vec<i64> = axes.map(|axis| axis as i64).collect();
        // PyTorch sums a tensor without axes, too, which makes an i64 of a bool.
        let sums = !axes.is_empty() || dims.is_empty();
        let sum = sums.then_some(Sum { dtype: Accumulator(None), dim: Some(axes), keepdim: true });
        Ok((size, lacking, sum))
    }
}

impl Layer for SumToSize {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (size, _, sum) = self.plan(inputs)?;
        let dtype = match sum {
            Some(sum) => sum.infer(&inputs[..1])?[0].dtype(),
            None => inputs[0].dtype(),
        };
        Ok(vec![TensorMeta::new(dtype, size)])
    }
}

impl CpuLayer for SumToSize {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (_, lacking, sum) = self.plan(&TensorMeta::of_all(io.inputs))?;
        let Some(mut sum) = sum else { return Ok(io.outputs[0].copy_from(&io.inputs[0])?) };
        let mut layout = *io.outputs[0].layout();
        for _ in 0..lacking {
            layout = layout.unsqueeze(0)?;
        }
        let mut outputs = [io.outputs[0].reborrow().with_layout(layout)?];
        sum.forward(&mut Io::new(&io.inputs[..1], &mut outputs, &mut io.context))
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        workspace(outputs)
    }
}

impl NormExceptDim {
    /// The norm over some axes, which are kept; over all axes, which are not kept, without a list.
    fn norm(&self, dim: Option<Vec<i64>>) -> Norm {
        let keepdim = dim.is_some();
        Norm { p: Power(self.pow as f64), dtype: Accumulator(None), dim, keepdim }
    }

    /// The axis that is kept; `None` if all are reduced.
    fn axis(&self, input: &TensorMeta) -> Result<Option<usize>> {
        if self.dim == -1 { Ok(None) } else { axis_of(self.dim, input).map(Some) }
    }
}

impl Layer for NormExceptDim {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let all = self.norm(None).infer(inputs)?;
        let Some(kept) = self.axis(&inputs[0])? else { return Ok(all) };
        let dims = inputs[0].dims().iter().enumerate();
        let dims = dims.map(|(axis, dim)| if axis == kept { dim.clone() } else { Dim::Fixed(1) });
        Ok(vec![all[0].with_dims(dims)])
    }
}

impl CpuLayer for NormExceptDim {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let input = TensorMeta::of(&io.inputs[0]);
        let Some(kept) = self.axis(&input)? else { return self.norm(None).forward(io) };
        let (mut from, mut to) = (*io.inputs[0].layout(), *io.outputs[0].layout());
        if input.rank() == 1 {
            // Without an axis to reduce, all would be reduced.
            (from, to) = (from.unsqueeze(1)?, to.unsqueeze(1)?);
        }
        let axes = (0..from.shape().rank()).filter(|&axis| axis != kept).map(|axis| axis as i64).collect();
        let inputs = [io.inputs[0].with_layout(from)?];
        let mut outputs = [io.outputs[0].reborrow().with_layout(to)?];
        self.norm(Some(axes)).forward(&mut Io::new(&inputs, &mut outputs, &mut io.context))
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        workspace(outputs)
    }
}

operators! { SumToSize, NormExceptDim }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    fn summed(x: &Tensor, size: &str) -> Result<Tensor> {
        operator("aten::sum_to_size", &[("size", size)]).run_one(&[x])
    }

    /// PyTorch's results.
    #[test]
    fn axes_that_would_be_broadcast_are_summed() {
        let x = counting(DType::F32, &[2, 1, 3]);
        assert_close(&summed(&x, "(3)").unwrap(), &[3], &[3.0, 5.0, 7.0]);
        assert_close(&summed(&x, "(1,1)").unwrap(), &[1, 1], &[15.0]);
        assert_close(&summed(&x, "(2,1,1)").unwrap(), &[2, 1, 1], &[3.0, 12.0]);
        assert_close(&summed(&x, "None").unwrap(), &[], &[15.0]);
        assert_eq!(summed(&x, "(2,1,3)").unwrap(), x);
        let sums = |shape: &[usize], size| summed(&Tensor::ones(DType::I8, shape).unwrap(), size).unwrap();
        assert_eq!(sums(&[2, 3], "(1,3)"), tensor(&[1, 3], &[2i64, 2, 2]));
        assert_eq!(sums(&[2, 3], "(2,3)").dtype(), DType::I8);
        assert_eq!(sums(&[2, 1], "1"), tensor(&[1], &[2i64]));
        assert_eq!(summed(&Tensor::scalar(true), "()").unwrap(), Tensor::scalar(1i64));
        let empty = counting(DType::F32, &[0, 3]);
        assert_close(&summed(&empty, "(1,3)").unwrap(), &[1, 3], &[0.0; 3]);
        assert_close(&summed(&empty, "(0,1)").unwrap(), &[0, 1], &[]);
    }

    #[test]
    fn sizes_must_fit_and_may_be_computed() {
        let x = counting(DType::F32, &[3, 4]);
        let message = |size| summed(&x, size).unwrap_err().to_string();
        let start = "the input: expected a shape to which";
        assert_eq!(message("(4,1)"), format!("{start} (4, 1) can be broadcast, got 3×4 f32"));
        assert!(message("(1,3,4)").starts_with(start) && message("(-1,4)").starts_with(start));
        let layer = operator("aten::sum_to_size", &[]);
        let got = layer.run_one(&[&x, &tensor(&[2], &[3i64, 1])]).unwrap();
        assert_close(&got, &[3, 1], &[6.0, 22.0, 38.0]);
        let (n, size) = (Dim::symbol("n"), TensorMeta::new(DType::I64, [2]));
        let size = size.with_values(vec![n.clone(), Dim::Fixed(1)]);
        let symbolic = TensorMeta::new(DType::F32, [Dim::Fixed(2), n, Dim::Fixed(4)]);
        assert_eq!(layer.infer(&[symbolic, size]).unwrap()[0].to_string(), "n×1 f32");
        for size in ["(1)", "(2,1)", "()"] {
            operator("aten::sum_to_size", &[("size", size)]).survives(1);
        }
    }

    /// PyTorch's results.
    #[test]
    fn norms_of_slices() {
        let x = tensor(&[1, 2, 3], &[-2f32, -1.0, 0.0, 1.0, 2.0, 3.0]);
        let norm = |x: &Tensor, pow, dim| {
            operator("aten::norm_except_dim", &[("pow", pow), ("dim", dim)]).run_one(&[x])
        };
        assert_close(&norm(&x, "2", "0").unwrap(), &[1, 1, 1], &[4.358_899]);
        assert_close(&norm(&x, "2", "1").unwrap(), &[1, 2, 1], &[2.236_068, 3.741_657_5]);
        assert_close(&norm(&x, "1", "2").unwrap(), &[1, 1, 3], &[3.0; 3]);
        assert_close(&norm(&x, "0", "-2").unwrap(), &[1, 2, 1], &[2.0, 3.0]);
        assert_close(&norm(&x, "2", "-1").unwrap(), &[], &[4.358_899]);
        let line = x.reshape(&[6]).unwrap();
        assert_close(&norm(&line, "2", "0").unwrap(), &[6], &[2.0, 1.0, 0.0, 1.0, 2.0, 3.0]);
        assert_close(&norm(&Tensor::scalar(-3f32), "2", "-1").unwrap(), &[], &[3.0]);
        assert!(norm(&Tensor::scalar(-3f32), "2", "0").is_err() && norm(&x, "2", "3").is_err());
        assert!(norm(&x.cast(DType::I64).unwrap(), "2", "0").is_err());
        for dim in ["0", "1", "-1", "-2"] {
            operator("aten::norm_except_dim", &[("dim", dim)]).survives(1);
        }
    }
}
