//! Moving, transposing, flipping and rotating axes: movedim, mT, rot90, fliplr.

use super::axes::InOrder;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, View};
use crate::support::delegation::{Delegating, delegating};
use ixion_tensor::{DType, Layout, Shape, resolve_axes, resolve_axis};

crate::operator! {
    /// `torch.movedim`: moves axes to other positions; the other axes keep their order. A view.
    pub struct MoveDim for "aten::movedim", "aten::moveaxis" {
        /// The axes to move; negative values count from the end.
        source: Vec<i64>,
        /// The position of each of these axes in the output; negative values count from the end.
        destination: Vec<i64>,
    }
}

crate::operator! {
    /// `torch.Tensor.mT`: transposes the last two axes. A view.
    pub struct MatricesTranspose for "aten::mT" {}
}

crate::operator! {
    /// `torch.Tensor.mH`: transposes the last two axes and conjugates complex elements. A view if the input is real.
    pub struct Adjoint for "aten::mH", "aten::adjoint", "aten::matrix_H" {}
}

crate::operator! {
    /// `torch.Tensor.T`: reverses the order of the axes. A view.
    pub struct ReverseAxes for "aten::numpy_T" {}
}

impl Delegating for MoveDim {
    fn delegate(&self, rank: usize) -> Result<impl CpuLayer> {
        let (from, to) = (resolve_axes(&self.source, rank)?, resolve_axes(&self.destination, rank)?);
        let repeats = |axes: &[usize]| axes.iter().enumerate().any(|(i, axis)| axes[..i].contains(axis));
        if from.len() != to.len() || repeats(&from) || repeats(&to) {
            let reason = format!(
                "expected a position for each of the axes {:?} in `source`, and no axis or position twice",
                self.source
            );
            return Err(LayerError::invalid("destination", format!("{:?}", self.destination), reason));
        }
        let mut others = (0..rank).filter(|axis| !from.contains(axis));
        let place = |at: usize| match to.iter().position(|&other| other == at) {
            Some(moved) => from.get(moved).copied(),
            None => others.next(),
        };
        Ok(InOrder((0..rank).map(place).map(Option::unwrap_or_default).collect()))
    }
}

/// The axes of a tensor of this rank with the last two swapped.
fn last_two_swapped(rank: usize) -> Result<Vec<usize>> {
    let Some(rows) = rank.checked_sub(2) else {
        let found = format!("a tensor of {rank} axes");
        return Err(LayerError::shape("the input", "at least two axes", found));
    };
    Ok((0..rows).chain([rows + 1, rows]).collect())
}

delegating! {
    MatricesTranspose |_layer, rank| InOrder(last_two_swapped(rank)?);
    ReverseAxes |_layer, rank| InOrder((0..rank).rev().collect());
}

impl Layer for Adjoint {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        MatricesTranspose {}.infer(inputs)
    }

    fn view_of(&self, output: usize, inputs: &[(DType, Layout)], shape: &Shape) -> Result<Option<View>> {
        if inputs[0].0.is_complex() {
            Ok(None)
        } else {
            MatricesTranspose {}.view(output, &[inputs[0].1], shape)
        }
    }
}

impl CpuLayer for Adjoint {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let order = last_two_swapped(io.inputs[0].shape().rank())?;
        let turned = io.inputs[0].with_layout(io.inputs[0].layout().permute(&order)?)?;
        if !turned.dtype().is_complex() {
            return Ok(io.outputs[0].copy_from(&turned)?);
        }
        crate::arithmetic::special::conjugate(&turned, &mut io.outputs[0], &io.context)
    }
}

delegating! {
    {}

    /// `torch.fliplr`: reverses the order of the columns, axis 1.
    FlipColumns for "aten::fliplr" |_layer| FlipAlong(1);

    /// `torch.flipud`: reverses the order of the rows, axis 0.
    FlipRows for "aten::flipud" |_layer| FlipAlong(0);
}

/// Reverses the order of the elements along an axis.
#[derive(Debug, Clone)]
struct FlipAlong(usize);

impl Layer for FlipAlong {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if inputs[0].rank() <= self.0 {
            return Err(LayerError::shape("the input", format!("an axis {}", self.0), &inputs[0]));
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for FlipAlong {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        Ok(io.outputs[0].copy_reversed(&io.inputs[0], &[self.0])?)
    }
}

crate::operator! {
    /// `torch.rot90`: rotates the input by multiples of 90° from the first of two axes towards the second.
    pub struct Rot90 for "aten::rot90" {
        /// The number of rotations by 90°; negative values rotate in the opposite direction.
        k: i64 = 1,
        /// The two axes of the plane of rotation; negative values count from the end.
        dims: Vec<i64> = vec![0, 1],
    }
}

impl Rot90 {
    fn axes(&self, rank: usize) -> Result<(usize, usize)> {
        if let (&[first, second], 2..) = (self.dims.as_slice(), rank) {
            let axes = (resolve_axis(first, rank)?, resolve_axis(second, rank)?);
            if axes.0 != axes.1 {
                return Ok(axes);
            }
        }
        let reason = format!("expected two of the {rank} axes");
        Err(LayerError::invalid("dims", format!("{:?}", self.dims), reason))
    }
}

impl Layer for Rot90 {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (first, second) = self.axes(inputs[0].rank())?;
        let mut dims = inputs[0].dims().to_vec();
        if self.k.rem_euclid(2) == 1 {
            dims.swap(first, second);
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for Rot90 {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (first, second) = self.axes(io.inputs[0].shape().rank())?;
        let reversed: &[usize] = match self.k.rem_euclid(4) {
            1 => &[second],
            2 => &[first, second],
            3 => &[first],
            _ => &[],
        };
        let mut order: Vec<usize> = (0..io.inputs[0].shape().rank()).collect();
        if self.k.rem_euclid(2) == 1 {
            order.swap(first, second);
        }
        let turned = io.inputs[0].with_layout(io.inputs[0].layout().permute(&order)?)?;
        // Maps axes of the input to axes of the output.
        let reversed: Vec<usize> = reversed.iter().map(|&axis| order[axis]).collect();
        Ok(io.outputs[0].copy_reversed(&turned, &reversed)?)
    }
}

operators! { MoveDim, MatricesTranspose, Adjoint, ReverseAxes, FlipColumns, FlipRows, Rot90 }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator, tensor};
    use ixion_tensor::Complex;
    use ixion_tensor::{DType, Dim};

    #[test]
    fn axes_move() {
        let shape = |op_type, params: &[(&'static str, &'static str)]| {
            let x = TensorMeta::new(DType::F32, [2, 3, 4]);
            operator(op_type, params).infer(&[x]).map(|output| output[0].dims().to_vec())
        };
        let dims = |dims: [i64; 3]| dims.map(Dim::Fixed).to_vec();
        assert_eq!(
            shape("aten::movedim", &[("source", "0"), ("destination", "-1")]).unwrap(),
            dims([3, 4, 2])
        );
        let two = [("source", "(2,0)"), ("destination", "(0,1)")];
        assert_eq!(shape("aten::movedim", &two).unwrap(), dims([4, 2, 3]));
        assert!(shape("aten::movedim", &[("source", "(0,0)"), ("destination", "(0,1)")]).is_err());
        assert_eq!(shape("aten::mT", &[]).unwrap(), dims([2, 4, 3]));
        assert_eq!(shape("aten::numpy_T", &[]).unwrap(), dims([4, 3, 2]));
    }

    #[test]
    fn adjoints_are_conjugated() {
        let numbers: Vec<Complex<f32>> = (0..6).map(|i| Complex::new(i as f32, 1.0 + i as f32)).collect();
        let turned = operator("aten::mH", &[]).run_one(&[&tensor(&[2, 3], &numbers)]).unwrap();
        let wanted = [0, 3, 1, 4, 2, 5].map(|i| numbers[i].conj());
        assert_eq!(turned.shape().dims(), [3, 2]);
        assert_eq!(turned.to_vec::<Complex<f32>>().unwrap(), wanted);
        let x = counting(DType::F32, &[1, 2]);
        assert_eq!(operator("aten::mH", &[]).run_one(&[&x]).unwrap().to_vec::<f32>().unwrap(), [0.0, 1.0]);
    }

    #[test]
    fn tensors_are_flipped_and_rotated() {
        let x = counting(DType::I64, &[2, 3]);
        let values = |op_type, params: &[(&'static str, &'static str)]| {
            operator(op_type, params).run_one(&[&x]).unwrap().to_vec::<i64>().unwrap()
        };
        assert_eq!(values("aten::fliplr", &[]), [2, 1, 0, 5, 4, 3]);
        assert_eq!(values("aten::flipud", &[]), [3, 4, 5, 0, 1, 2]);
        assert_eq!(values("aten::rot90", &[]), [2, 5, 1, 4, 0, 3]);
        assert_eq!(values("aten::rot90", &[("k", "-2")]), [5, 4, 3, 2, 1, 0]);
        assert_eq!(values("aten::rot90", &[("k", "3")]), [3, 0, 4, 1, 5, 2]);
    }

    #[test]
    fn odd_inputs() {
        for op_type in
            ["aten::mT", "aten::mH", "aten::numpy_T", "aten::fliplr", "aten::flipud", "aten::rot90"]
        {
            operator(op_type, &[]).survives(1);
        }
        operator("aten::movedim", &[("source", "(0,1)"), ("destination", "(1,-1)")]).survives(1);
    }
}
