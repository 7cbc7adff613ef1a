//! Elements at indices into the flattened input or along one axis: take, take_along_dim.

use crate::indexing::by_index::{Gather, check_indices};
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::broadcast;
use crate::support::views::{axis_of, pick};
use ixion_tensor::{DType, Dim, Tensor, TensorView, resolve_index};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.take`: the elements at the given indices into the flattened input, in the shape of the indices.
    pub struct Take for "aten::take" {
        /// The indices, of any shape; may be negative, counting from the end.
        index: InputIndex,
    }
}

crate::operator! {
    /// `torch.take_along_dim`: as `torch.gather`, except that the other axes of input and indices are broadcast.
    pub struct TakeAlongDim for "aten::take_along_dim" {
        /// The indices.
        indices: InputIndex,
        /// The axis; may be negative, counting from the end. By default both tensors are flattened.
        dim: Option<i64> = None,
    }
}

impl TakeAlongDim {
    /// The broadcast shapes of input and indices, and the axis.
    fn shapes(&self, inputs: &[TensorMeta]) -> Result<([Vec<Dim>; 2], i64)> {
        let (input, indices) = (&inputs[0], &inputs[self.indices.0]);
        let Some(dim) = self.dim else {
            return Ok(([vec![input.num_elements()], vec![indices.num_elements()]], 0));
        };
        if input.rank() != indices.rank() {
            return Err(LayerError::shape("the indices", format!("as many axes as {input}"), indices));
        }
        let axis = axis_of(dim, input)?;
        let mut dims = [input.dims().to_vec(), indices.dims().to_vec()];
        let lens = [dims[0][axis].clone(), dims[1][axis].clone()];
        dims.iter_mut().for_each(|dims| dims[axis] = Dim::Fixed(1));
        let mut dims = [broadcast(&dims[0], &dims[1])?, broadcast(&dims[0], &dims[1])?];
        dims.iter_mut().zip(lens).for_each(|(dims, len)| dims[axis] = len);
        Ok((dims, dim))
    }
}

impl Layer for TakeAlongDim {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_indices("the indices", &inputs[self.indices.0])?;
        let ([_, dims], _) = self.shapes(inputs)?;
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for TakeAlongDim {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let metas = TensorMeta::of_all(io.inputs);
        let (shapes, dim) = self.shapes(&metas)?;
        let mut both = Vec::with_capacity(2);
        for (input, dims) in [&io.inputs[0], &io.inputs[self.indices.0]].into_iter().zip(shapes) {
            let (shape, input) = (TensorMeta::new(DType::I64, dims).shape()?, input.to_tensor()?);
            both.push(if self.dim.is_some() { input.expand(&shape)? } else { input.reshape(&shape)? });
        }
        let views: Vec<TensorView<'_>> = both.iter().map(Tensor::view).collect();
        let mut gather = Gather { dim, index: InputIndex(1), sparse_grad: false };
        gather.forward(&mut Io::new(&views, io.outputs, &mut io.context))
    }
}

impl Layer for Take {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let index = &inputs[self.index.0];
        check_indices("the index", index)?;
        Ok(vec![inputs[0].with_dims(index.dims().to_vec())])
    }
}

impl CpuLayer for Take {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let indices = io.inputs[self.index.0].to_tensor()?.cast(DType::I64)?.to_vec::<i64>()?;
        let count = io.inputs[0].num_elements();
        let places: Vec<usize> =
            indices.into_iter().map(|index| resolve_index(index, count)).collect::<Result<_, _>>()?;
        pick(&io.inputs[0], &places, &mut io.outputs[0])
    }
}

operators! { TakeAlongDim, Take }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator, tensor};

    #[test]
    fn elements_are_taken() {
        let x = counting(DType::I64, &[2, 3]);
        let along = operator("aten::take_along_dim", &[("dim", "1")]).with_names(&["input", "indices"]);
        let got = along.run_one(&[&x, &tensor(&[1, 2], &[2i64, 0])]).unwrap();
        assert_eq!((got.shape().dims(), got.to_vec::<i64>().unwrap()), (&[2, 2][..], vec![2, 0, 5, 3]));
        let take = operator("aten::take", &[]).with_names(&["input", "index"]);
        assert_eq!(take.run_one(&[&x, &tensor(&[2], &[-1i64, 1])]).unwrap().to_vec::<i64>().unwrap(), [5, 1]);
        assert!(take.run(&[&x, &tensor(&[1], &[6i64])]).is_err());
    }

    #[test]
    fn odd_inputs() {
        operator("aten::take", &[]).survives(2);
        operator("aten::take_along_dim", &[]).survives(2);
        operator("aten::take_along_dim", &[("dim", "-1")]).survives(2);
    }
}
