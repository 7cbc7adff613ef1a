//! Permuting axes, and expanding axes of length 1.

use crate::op::{CpuLayer, FromOperator, Layer, LayerError, Result, TensorMeta, View, exactly};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::delegation::Delegating;
use crate::support::views::view_layers;
use ixion_tensor::{Dim, Layout, Shape, resolve_axes, resolve_axis};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.permute`: reorders the axes. A view.
    pub struct Permute for "Tensor.permute", "torch.permute", "aten::permute" {
        /// The input's axes in the order of the output; negative values count from the end.
        dims: Vec<i64>,
    }
}

crate::operator! {
    /// `torch.transpose`: swaps two axes. A view.
    pub struct Transpose for "torch.transpose", "Tensor.transpose", "aten::transpose" {
        /// The first axis; a negative value counts from the end.
        dim0: i64,
        /// The second axis; a negative value counts from the end.
        dim1: i64,
    }
}

crate::operator! {
    /// `torch.t`: transposes a matrix; 0-D tensors and vectors are returned as they are. A view.
    pub struct MatrixTranspose for "torch.t", "Tensor.t" {}
}

crate::operator! {
    /// `torch.Tensor.expand`: repeats axes of length 1 and adds new axes in front. A view.
    pub struct Expand for "Tensor.expand", "aten::broadcast_to" {
        /// The output's shape; -1 keeps the input's length. PNNX writes `None` for the shape of a 0-D tensor.
        sizes: Option<ParamOrInput<Vec<i64>>>,
    }
}

crate::operator! {
    /// `torch.Tensor.expand_as`: expands the input to the shape of another tensor. A view.
    pub struct ExpandAs for "Tensor.expand_as" {
        /// The tensor with the output's shape.
        other: InputIndex,
    }
}

/// Returns a view of the input with its axes in this order.
#[derive(Debug, Clone)]
pub(crate) struct InOrder(pub(crate) Vec<usize>);

impl Layer for InOrder {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dims(self.0.iter().map(|&axis| inputs[0].dims()[axis].clone()))])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        Ok(Some(View { input: 0, layout: inputs[0].permute(&self.0)? }))
    }
}

impl Delegating for Permute {
    fn delegate(&self, rank: usize) -> Result<impl CpuLayer> {
        let order = resolve_axes(&self.dims, rank)?;
        if order.len() == rank && (0..rank).all(|axis| order.contains(&axis)) {
            return Ok(InOrder(order));
        }
        let reason = format!("expected each of the {rank} axes once");
        Err(LayerError::invalid("dims", format!("{:?}", self.dims), reason))
    }
}

impl Delegating for Transpose {
    fn delegate(&self, rank: usize) -> Result<impl CpuLayer> {
        let (first, second) = (resolve_axis(self.dim0, rank)?, resolve_axis(self.dim1, rank)?);
        let mut order: Vec<usize> = (0..rank).collect();
        if rank > 0 {
            order.swap(first, second);
        }
        Ok(InOrder(order))
    }
}

impl Delegating for MatrixTranspose {
    fn delegate(&self, rank: usize) -> Result<impl CpuLayer> {
        if rank > 2 {
            let found = format!("a tensor of {rank} axes");
            return Err(LayerError::shape("the input", "at most two axes", found));
        }
        Ok(InOrder((0..rank).rev().collect()))
    }
}

/// The lengths after expansion to `sizes`; -1 keeps the input's length.
fn expanded(input: &TensorMeta, sizes: Vec<Dim>) -> Result<Vec<Dim>> {
    let refuse = |wanted: &str| Err(LayerError::shape("the input", wanted, input));
    let Some(new_axes) = sizes.len().checked_sub(input.rank()) else {
        return refuse(&format!("at most {} axes", sizes.len()));
    };
    let mut dims = Vec::with_capacity(sizes.len());
    for (axis, size) in sizes.into_iter().enumerate() {
        let old = axis.checked_sub(new_axes).map(|axis| &input.dims()[axis]);
        dims.push(match (old, size.fixed(), old.and_then(Dim::fixed)) {
            (Some(old), Some(-1), _) => old.clone(),
            (_, Some(..0), _) => return refuse(&format!("a length for axis {axis} instead of {size}")),
            (_, Some(size), Some(old)) if old != 1 && old != size => {
                return refuse(&format!("length 1 or {size} where the output has axis {axis}"));
            }
            _ => size,
        });
    }
    Ok(dims)
}

fn expanded_view(inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
    Ok(Some(View { input: 0, layout: inputs[0].expand(shape)? }))
}

impl Layer for Expand {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let sizes = self.sizes.as_ref().map(|sizes| sizes.dims(inputs)).transpose()?;
        Ok(vec![inputs[0].with_dims(expanded(&inputs[0], sizes.unwrap_or_default())?)])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        expanded_view(inputs, shape)
    }
}

impl Layer for ExpandAs {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dims(expanded(&inputs[0], inputs[self.other.0].dims().to_vec())?)])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        expanded_view(inputs, shape)
    }
}

view_layers!(InOrder, Expand, ExpandAs);

operators! {
    Permute: moves(Permuted), Transpose: moves(Permuted), MatrixTranspose: moves(Permuted), Expand: moves(Expanded),
    ExpandAs: moves(Expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    fn run(op_type: &str, params: &[(&str, &str)], input: &Tensor) -> Result<(Vec<usize>, Vec<i32>)> {
        let output = operator(op_type, params).run_one(&[input])?;
        assert!(output.shares_storage(input));
        Ok((output.shape().to_vec(), output.to_vec().unwrap()))
    }

    #[test]
    fn axes_are_permuted() {
        let x = counting(DType::I32, &[1, 2, 3]);
        let permuted = (vec![3, 1, 2], vec![0, 3, 1, 4, 2, 5]);
        assert_eq!(run("Tensor.permute", &[("dims", "(2,0,1)")], &x).unwrap(), permuted);
        assert_eq!(run("torch.permute", &[("dims", "(-1,-3,-2)")], &x).unwrap(), permuted);
        let swapped = run("torch.transpose", &[("dim0", "-1"), ("dim1", "1")], &x).unwrap();
        assert_eq!(swapped, (vec![1, 3, 2], vec![0, 3, 1, 4, 2, 5]));
        assert_eq!(
            run("torch.t", &[], &counting(DType::I32, &[2, 2])).unwrap(),
            (vec![2, 2], vec![0, 2, 1, 3])
        );
        assert_eq!(run("torch.t", &[], &counting(DType::I32, &[2])).unwrap(), (vec![2], vec![0, 1]));
        let scalar = Tensor::scalar(7i32);
        assert_eq!(
            run("torch.transpose", &[("dim0", "0"), ("dim1", "-1")], &scalar).unwrap(),
            (vec![], vec![7])
        );
        assert_eq!(run("Tensor.permute", &[("dims", "()")], &scalar).unwrap(), (vec![], vec![7]));
    }

    #[test]
    fn axes_of_length_one_are_repeated() {
        let x = tensor(&[2, 1], &[4i32, 5]);
        let expand = |sizes| run("Tensor.expand", &[("sizes", sizes)], &x);
        assert_eq!(expand("(-1,3)").unwrap(), (vec![2, 3], vec![4, 4, 4, 5, 5, 5]));
        assert_eq!(expand("(2,-1,-1)").unwrap(), (vec![2, 2, 1], vec![4, 5, 4, 5]));
        assert_eq!(expand("(2,0)").unwrap(), (vec![2, 0], vec![]));
        for wrong in ["(-1,2,1)", "(3,1)", "(1)", "(2,-2)"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            expand("(3,1)").unwrap_err().to_string(),
            "the input: expected length 1 or 3 where the output has axis 0, got 2×1 i32"
        );
        let like = operator("Tensor.expand_as", &[]).with_names(&["input", "other"]);
        let output = like.run_one(&[&x, &counting(DType::F32, &[3, 2, 2])]).unwrap();
        assert_eq!(output.to_vec::<i32>().unwrap(), [4, 4, 5, 5].repeat(3));
        let sizes = operator("Tensor.expand", &[]).with_names(&["input", "sizes"]);
        assert_eq!(sizes.run_one(&[&x, &tensor(&[2], &[-1i64, 2])]).unwrap().shape().dims(), &[2, 2]);
    }

    #[test]
    fn symbols_and_odd_inputs() {
        let input = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(1)]);
        let infer = |op_type, params| {
            operator(op_type, params).infer(std::slice::from_ref(&input)).unwrap()[0].to_string()
        };
        assert_eq!(infer("Tensor.expand", &[("sizes", "(2,-1,5)")]), "2×n×5 f32");
        assert_eq!(infer("torch.t", &[]), "1×n f32");
        operator("Tensor.permute", &[("dims", "(1,0)")]).survives(1);
        operator("Tensor.permute", &[("dims", "(0,0)")]).survives(1);
        operator("torch.transpose", &[("dim0", "0"), ("dim1", "-1")]).survives(1);
        operator("torch.t", &[]).survives(1);
        operator("Tensor.expand", &[("sizes", "(9223372036854775807,-1,3)")]).survives(1);
        operator("Tensor.expand", &[("sizes", "(2,-1,4)")]).survives(1);
        operator("Tensor.expand_as", &[]).survives(2);
    }
}
