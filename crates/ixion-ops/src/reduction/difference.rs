//! Differences of adjacent elements along an axis.

use crate::attention::dot_product::OptionalInput;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::broadcast::{TensorOrScalar, common};
use crate::support::number;
use crate::support::number::Number;
use ixion_tensor::{Complex, DType, Dim, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.diff`: the n-th difference along an axis: each element minus the one before it, `n` times. For bool, whether
    /// adjacent elements differ.
    pub struct Diff for "aten::diff", "torch.diff" {
        /// The number of times that differences are computed.
        n: usize = 1,
        /// The axis; a negative value counts from the end.
        dim: i64 = -1,
        /// The tensor to prepend to the input along the axis.
        prepend: OptionalInput = OptionalInput(None),
        /// The tensor to append to the input along the axis.
        append: OptionalInput = OptionalInput(None),
    }
}

impl Diff {
    /// The positions of the inputs, in their order along the axis.
    fn parts(&self) -> impl Iterator<Item = usize> {
        [self.prepend.0, Some(0), self.append.0].into_iter().flatten()
    }

    fn dtype(&self, inputs: &[TensorMeta]) -> DType {
        // Without a difference, the input is returned unchanged.
        let count = if self.n == 0 { 1 } else { usize::MAX };
        let order = [Some(0), self.prepend.0, self.append.0].into_iter().flatten();
        let factors: Vec<TensorOrScalar> = order.take(count).map(TensorOrScalar::Input).collect();
        common(inputs, &factors)
    }

    fn run<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        minus: fn(T, T) -> T,
    ) -> Result<()> {
        let axis = output.shape().axis(self.dim)?;
        let len = output.shape()[axis];
        let order: Vec<usize> = (0..output.shape().rank()).filter(|&at| at != axis).chain([axis]).collect();
        let mut parts = Vec::new();
        for part in self.parts() {
            let rows = inputs[part].with_layout(inputs[part].layout().permute(&order)?)?;
            let len = rows.shape().dims().last().copied().unwrap_or(0);
            parts.push((number::read::<T>(&rows)?.into_owned(), len));
        }
        let layout = output.layout().permute(&order)?;
        number::write::<T>(&mut output.reborrow().with_layout(layout)?, |output| {
            for (index, to) in output.chunks_exact_mut(len.max(1)).enumerate() {
                let row = |(values, len): &(Vec<T>, usize)| {
                    values.get(index * len..(index + 1) * len).unwrap_or_default().to_vec()
                };
                let mut row: Vec<T> = parts.iter().flat_map(row).collect();
                for _ in 0..self.n.min(row.len()) {
                    row = row.windows(2).map(|pair| minus(pair[1], pair[0])).collect();
                }
                to.iter_mut().zip(row).for_each(|(to, from)| *to = from);
            }
            Ok(())
        })
    }
}

impl Layer for Diff {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axis = crate::support::views::axis_of(self.dim, &inputs[0])?;
        let mut dims = inputs[0].dims().to_vec();
        if self.n == 0 {
            return Ok(vec![inputs[0].with_dims(dims)]);
        }
        let mut sum = Dim::Fixed(0);
        for part in self.parts().map(|part| &inputs[part]) {
            let differ = |(at, (a, b)): (usize, (&Dim, &Dim))| {
                at != axis && a.fixed().zip(b.fixed()).is_some_and(|(a, b)| a != b)
            };
            if part.rank() != dims.len() || part.dims().iter().zip(&dims).enumerate().any(differ) {
                let what = "the prepended or appended tensor";
                return Err(LayerError::shape(what, &inputs[0], part));
            }
            sum = sum + part.dims()[axis].clone();
        }
        dims[axis] = (sum - self.n).max(0);
        Ok(vec![inputs[0].with_dims(dims).with_dtype(self.dtype(inputs))])
    }
}

impl CpuLayer for Diff {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if self.n == 0 {
            return Ok(io.outputs[0].copy_from(&io.inputs[0])?);
        }
        let elements: usize = io.inputs.iter().map(TensorView::num_elements).fold(0, usize::saturating_add);
        let bytes = (elements as u64).saturating_mul(16);
        io.context.limits().check_tensor("the elements of a difference", bytes)?;
        match io.outputs[0].dtype() {
            DType::Bool => self.run(io.inputs, &mut io.outputs[0], |a, b| i64::from(a != b)),
            DType::F32 | DType::F16 | DType::Bf16 => {
                self.run(io.inputs, &mut io.outputs[0], |a: f32, b| a - b)
            }
            DType::F64 => self.run(io.inputs, &mut io.outputs[0], |a: f64, b| a - b),
            DType::C32 | DType::C64 | DType::C128 => {
                self.run(io.inputs, &mut io.outputs[0], |a: Complex<f64>, b| a - b)
            }
            _ => self.run(io.inputs, &mut io.outputs[0], i64::wrapping_sub),
        }
    }
}

operators! { Diff }

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::DType;

    /// PyTorch's results.
    #[test]
    fn prepended_tensors_are_promoted() {
        let (x, before) = (tensor(&[3], &[1i64, -2, 0]), tensor(&[2], &[1.0f32, 0.5]));
        let diff = operator("aten::diff", &[]).with_names(&["input", "prepend"]);
        let found = diff.run_one(&[&x, &before]).unwrap();
        assert_eq!((found.dtype(), found.to_vec::<f32>().unwrap()), (DType::F32, vec![-0.5, 0.5, -3.0, 2.0]));
        assert!(diff.run(&[&x, &tensor(&[1, 1], &[1.0f32])]).is_err());
        let none = operator("aten::diff", &[("n", "0")]).run_one(&[&x]).unwrap();
        assert_eq!(none.to_vec::<i64>().unwrap(), [1, -2, 0]);
        operator("aten::diff", &[]).survives(1);
    }
}
