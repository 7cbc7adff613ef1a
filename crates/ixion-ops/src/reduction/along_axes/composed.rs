//! Reductions with two steps or two results: sums and means without NaN, pairs of extremes and moments, matrix norms.

use super::{Axes, Operation, Power, Reduction, Unbiased};
use crate::linalg::order::Order;
use crate::linalg::{self, SingularNorm};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::reduction::extremes::check_order;
use crate::support::arguments::{Accumulator, Wanted};
use crate::support::delegation::{Delegating, delegating};
use crate::support::float;
use ixion_tensor::{DType, Tensor, TensorView, resolve_axes};

crate::operator! {
    /// `torch.nansum`: the sum of all elements that are not NaN. Integers and bool are summed as i64.
    pub struct NanSum for "aten::nansum" {
        /// The axes; by default all. Negative values count from the end.
        dim: Option<Vec<i64>> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
        /// The element type of the sum.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.nanmean`: the mean of all elements that are not NaN.
    pub struct NanMean for "aten::nanmean" {
        /// The axes; by default all. Negative values count from the end.
        dim: Option<Vec<i64>> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
        /// The element type of the mean.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.aminmax`: the smallest and the largest element; both are NaN if there is one.
    pub struct MinAndMax for "aten::aminmax" {
        /// The axis; by default all. A negative value counts from the end.
        dim: Option<i64> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
    }
}

delegating! {
    {
        /// The axes; by default all. Negative values count from the end.
        dim: Option<Vec<i64>> = None,
        /// The squared deviations are divided by the number of elements minus this; `True`, the default, is 1, `False`
        /// is 0.
        unbiased: Option<Unbiased> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
    }

    /// `torch.var_mean`: the variance and the mean.
    VarianceAndMean for "aten::var_mean" |layer| {
        let variance = Operation::Variance { correction: correction(layer.unbiased) };
        Both { operations: [variance, Operation::Mean], dim: layer.dim.clone(), keepdim: layer.keepdim }
    };

    /// `torch.std_mean`: the standard deviation and the mean.
    DeviationAndMean for "aten::std_mean" |layer| {
        let deviation = Operation::Deviation { correction: correction(layer.unbiased) };
        Both { operations: [deviation, Operation::Mean], dim: layer.dim.clone(), keepdim: layer.keepdim }
    };
}

/// Two reductions along the same axes.
#[derive(Debug, Clone)]
struct Both {
    operations: [Operation; 2],
    dim: Option<Vec<i64>>,
    keepdim: bool,
}

impl Both {
    fn reductions(&self) -> [Reduction<'_>; 2] {
        let (dim, keepdim) = (self.dim.as_deref(), self.keepdim);
        self.operations.map(|operation| Reduction { operation, dim, keepdim, dtype: Accumulator(None) })
    }
}

impl Layer for Both {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [first, second] = self.reductions().map(|reduction| reduction.infer(inputs));
        Ok([first?, second?].concat())
    }
}

impl CpuLayer for Both {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let limits = io.context.limits();
        let mut pairs = self.reductions().into_iter().zip(&mut *io.outputs);
        pairs.try_for_each(|(reduction, output)| reduction.forward_alone(&io.inputs[0], output, limits))
    }
}

delegating! {
    MinAndMax |layer| {
        let dim = layer.dim.map(|dim| vec![dim]);
        Both { operations: [Operation::Min, Operation::Max], dim, keepdim: layer.keepdim }
    };
}

fn correction(unbiased: Option<Unbiased>) -> f64 {
    unbiased.map_or(1.0, |unbiased| unbiased.0)
}

fn given(dtype: Option<DType>) -> Accumulator {
    Accumulator(dtype.map(Wanted::Given))
}

/// The input with NaN replaced by 0, and a mask of the elements that are not NaN.
fn without_nan(input: &TensorView<'_>) -> Result<(Tensor, Tensor)> {
    let mut values = input.cast(DType::F64)?.to_vec::<f64>()?;
    let present: Vec<bool> = values.iter().map(|x| !x.is_nan()).collect();
    values.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = 0.0);
    Ok((Tensor::from_vec(values, input.shape())?, Tensor::from_vec(present, input.shape())?))
}

impl NanSum {
    fn reduction(&self) -> Reduction<'_> {
        let (dim, keepdim, dtype) = (self.dim.as_deref(), self.keepdim, given(self.dtype));
        Reduction { operation: Operation::Sum, dim, keepdim, dtype }
    }
}

impl Layer for NanSum {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        self.reduction().infer(inputs)
    }
}

impl CpuLayer for NanSum {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let limits = io.context.limits();
        if !io.inputs[0].dtype().is_float() {
            return self.reduction().forward_alone(&io.inputs[0], &mut io.outputs[0], limits);
        }
        let numbers = without_nan(&io.inputs[0])?.0.cast(io.inputs[0].dtype())?;
        self.reduction().forward_alone(&numbers.view(), &mut io.outputs[0], limits)
    }
}

impl Layer for NanMean {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the input", &inputs[0])?;
        let (dim, keepdim, dtype) = (self.dim.as_deref(), self.keepdim, given(self.dtype));
        Reduction { operation: Operation::Mean, dim, keepdim, dtype }.infer(inputs)
    }
}

impl CpuLayer for NanMean {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (numbers, present) = without_nan(&io.inputs[0])?;
        let (operation, dim, keepdim) = (Operation::Sum, self.dim.as_deref(), self.keepdim);
        let sum = Reduction { operation, dim, keepdim, dtype: given(Some(DType::F64)) };
        let shape = *io.outputs[0].shape();
        let total = |of: &Tensor| -> Result<Vec<f64>> {
            let mut total = Tensor::zeros(DType::F64, &shape)?;
            sum.forward_alone(&of.view(), &mut total.view_mut()?, io.context.limits())?;
            Ok(total.to_vec()?)
        };
        // PyTorch's sum is rounded before it is divided.
        let sums =
            Tensor::from_vec(total(&numbers)?, &shape)?.cast(io.outputs[0].dtype())?.cast(DType::F64)?;
        let means: Vec<f64> =
            sums.to_vec::<f64>()?.iter().zip(total(&present)?).map(|(sum, n)| sum / n).collect();
        Ok(io.outputs[0].cast_from(&Tensor::from_vec(means, &shape)?.view())?)
    }
}

crate::operator! {
    /// `torch.linalg.norm`: the norm of vectors or matrices. For matrices, it is the largest (order 1) or smallest (-1) sum of
    /// magnitudes along the first axis, the largest (`inf`) or smallest (`-inf`) along the second, or the root of the sum of
    /// squares (`fro`); with the feature `linalg` also the largest (2) or smallest (-2) singular value, or the sum of all
    /// (`nuc`).
    pub struct LinalgNorm for "aten::linalg_norm" {
        /// The order; by default the root of the sum of squares.
        ord: Option<Order> = None,
        /// One axis for vectors, or two for matrices. By default all axes; with `ord`, there may be at most two.
        dim: Option<Vec<i64>> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
        /// The element type that the input is converted to first.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.linalg.vector_norm`: the p-norm (Σ|x|ᵖ)^(1/p) along axes.
    pub struct VectorNorm for "aten::linalg_vector_norm" {
        /// The order p: a number, `inf` or `-inf`.
        ord: Power = Power(2.0),
        /// The axes; by default all. Negative values count from the end.
        dim: Option<Vec<i64>> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
        /// The element type that the input is converted to first.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.linalg.matrix_norm`: the norm of matrices; see [`LinalgNorm`].
    pub struct MatrixNorm for "aten::linalg_matrix_norm" {
        /// The order: `fro`, 1, -1, `inf` or `-inf`; with the feature `linalg` also `nuc`, 2 and -2.
        ord: Order = Order::Frobenius,
        /// The two axes of the matrices; negative values count from the end.
        dim: Vec<i64> = vec![-2, -1],
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
        /// The element type that the input is converted to first.
        dtype: Option<DType> = None,
    }
}

/// How a norm is computed.
#[derive(Debug, Clone)]
enum Norm {
    /// The p-norm of all elements along some axes.
    Vector { p: f64, dim: Option<Vec<i64>> },
    /// An extreme along one axis of the sums of magnitudes along another axis.
    Matrix { summed: i64, extreme: i64, largest: bool },
    /// A norm that is computed from the singular values of matrices along two axes.
    Singular { norm: SingularNorm, dim: [i64; 2] },
}

impl Norm {
    /// The norm of matrices along two axes of a tensor of this rank.
    fn of_matrix(order: Order, dim: &[i64], rank: usize) -> Result<Self> {
        let &[rows, columns] = dim else {
            return Err(LayerError::invalid("dim", format!("{dim:?}"), "expected the two axes of a matrix"));
        };
        // Checks that the axes differ.
        Axes::new(Some(dim), false, rank)?;
        if let Some(norm) = SingularNorm::of(order) {
            linalg::available()?;
            return Ok(Self::Singular { norm, dim: [rows, columns] });
        }
        match order {
            Order::Frobenius => Ok(Self::Vector { p: 2.0, dim: Some(dim.to_vec()) }),
            Order::Number(p) if p.abs() == 1.0 => {
                Ok(Self::Matrix { summed: rows, extreme: columns, largest: p > 0.0 })
            }
            Order::Number(p) if p.is_infinite() => {
                Ok(Self::Matrix { summed: columns, extreme: rows, largest: p > 0.0 })
            }
            Order::Nuclear | Order::Number(_) => {
                let reason = "expected one of fro, nuc, 1, -1, 2, -2, inf and -inf for matrices";
                Err(LayerError::invalid("ord", format!("{order:?}"), reason))
            }
        }
    }

    /// The layer that computes it.
    fn layer(self, keepdim: bool, dtype: Option<DType>) -> NormLayer {
        NormLayer { norm: self, keepdim, dtype }
    }
}

/// A norm along axes.
#[derive(Debug, Clone)]
struct NormLayer {
    norm: Norm,
    keepdim: bool,
    /// The element type that the input is converted to first.
    dtype: Option<DType>,
}

impl NormLayer {
    fn steps(&self) -> Vec<Reduction<'_>> {
        let (one, keepdim, dtype) = (std::slice::from_ref, self.keepdim, given(self.dtype));
        match &self.norm {
            Norm::Vector { p, dim } => {
                vec![Reduction { operation: Operation::Norm { p: *p }, dim: dim.as_deref(), keepdim, dtype }]
            }
            Norm::Matrix { summed, extreme, largest } => {
                let last = if *largest { Operation::Max } else { Operation::Min };
                let sum = Operation::Norm { p: 1.0 };
                vec![
                    Reduction { operation: sum, dim: Some(one(summed)), keepdim: true, dtype },
                    Reduction { operation: last, dim: Some(one(extreme)), keepdim: true, dtype: given(None) },
                ]
            }
            Norm::Singular { .. } => Vec::new(),
        }
    }
}

impl Layer for NormLayer {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        if !input.dtype().is_float() && !input.dtype().is_complex() {
            return Err(LayerError::dtype("the input", "floats and complex numbers", input.dtype()));
        }
        let axes = |dim: Option<&[i64]>| Axes::new(dim, self.keepdim, input.rank());
        if let Norm::Singular { dim, .. } = &self.norm {
            let dtype = self.dtype.unwrap_or(input.dtype());
            let whole = input.with_dtype(dtype);
            linalg::check_type(&whole)?;
            return Ok(vec![whole.with_dtype(dtype.real()).with_dims(axes(Some(dim))?.dims(input))]);
        }
        let mut metas = vec![input.clone()];
        for step in self.steps() {
            metas = step.infer(&metas)?;
        }
        match &self.norm {
            Norm::Vector { p, dim } if p.is_infinite() || *p < 0.0 => {
                axes(dim.as_deref())?.check_not_empty(input)?;
            }
            Norm::Matrix { summed, extreme, .. } => {
                metas = vec![metas[0].with_dims(axes(Some(&[*summed, *extreme]))?.dims(input))];
            }
            _ => {}
        }
        Ok(metas)
    }
}

impl CpuLayer for NormLayer {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        if let Norm::Singular { norm, dim } = &self.norm {
            let whole = input.cast(self.dtype.unwrap_or(input.dtype()))?;
            let axes = resolve_axes(dim, whole.shape().rank())?;
            return norm.write(&linalg::with_last(&whole.view(), &axes)?, output, io.context.limits());
        }
        let (steps, limits) = (self.steps(), io.context.limits());
        let [first, second] = &steps[..] else {
            return steps.iter().try_for_each(|step| step.forward_alone(input, output, limits));
        };
        let meta = first.infer(&[TensorMeta::of(input)])?.swap_remove(0);
        let mut sums = Tensor::zeros(meta.dtype(), &meta.shape()?)?;
        first.forward_alone(input, &mut sums.view_mut()?, limits)?;
        let meta = second.infer(&[meta])?.swap_remove(0);
        let mut result = Tensor::zeros(meta.dtype(), &meta.shape()?)?;
        second.forward_alone(&sums.view(), &mut result.view_mut()?, limits)?;
        let shape = *output.shape();
        Ok(output.copy_from(&result.reshape(&shape)?.view())?)
    }
}

impl Delegating for LinalgNorm {
    fn delegate(&self, rank: usize) -> Result<impl CpuLayer> {
        let norm = match (self.ord, self.dim.as_deref()) {
            (None, dim) => Norm::Vector { p: 2.0, dim: dim.map(<[i64]>::to_vec) },
            (Some(order), Some(dim @ [_, _])) => Norm::of_matrix(order, dim, rank)?,
            (Some(order), None) if rank == 2 => Norm::of_matrix(order, &[0, 1], rank)?,
            (Some(Order::Number(p)), Some(dim @ [_])) => Norm::Vector { p, dim: Some(dim.to_vec()) },
            (Some(Order::Number(p)), None) if rank == 1 => Norm::Vector { p, dim: None },
            (Some(_), dim) => {
                let found = dim.map_or_else(|| format!("absent for {rank} axes"), |dim| format!("{dim:?}"));
                let reason = "`ord` needs one axis for vectors, or two for matrices; fro and nuc are norms of matrices";
                return Err(LayerError::invalid("dim", found, reason));
            }
        };
        Ok(norm.layer(self.keepdim, self.dtype))
    }
}

delegating! {
    VectorNorm |layer| {
        Norm::Vector { p: layer.ord.0, dim: layer.dim.clone() }.layer(layer.keepdim, layer.dtype)
    };
    MatrixNorm |layer, rank| {
        Norm::of_matrix(layer.ord, &layer.dim, rank)?.layer(layer.keepdim, layer.dtype)
    };
}

operators! {
    NanSum, NanMean, MinAndMax, VarianceAndMean, DeviationAndMean, LinalgNorm, VectorNorm, MatrixNorm;
    overload "aten::var_mean"(input, unbiased) of 2, "aten::std_mean"(input, unbiased) of 2
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::Tensor;

    /// Norms that PyTorch refuses, and norms of singular values without the feature `linalg`.
    #[test]
    fn unsupported_norms_are_refused() {
        let (vector, matrix) = (tensor(&[2], &[1.0, 2.0]), tensor(&[1, 2], &[1.0, 2.0]));
        let refused = |op_type: &'static str, params: &[(&'static str, &'static str)], x: &Tensor| {
            operator(op_type, params).run(&[x]).is_err()
        };
        assert!(refused("aten::linalg_norm", &[("ord", "fro")], &vector));
        for order in ["2", "-2", "nuc"] {
            assert_eq!(refused("aten::linalg_norm", &[("ord", order)], &matrix), !cfg!(feature = "linalg"));
        }
        assert!(refused("aten::linalg_norm", &[("ord", "3")], &matrix));
        assert!(refused("aten::linalg_norm", &[("ord", "1"), ("dim", "(0,0)")], &matrix));
        assert!(refused("aten::linalg_matrix_norm", &[], &vector));
        assert!(refused("aten::linalg_vector_norm", &[], &tensor(&[1], &[1i64])));
        assert!(refused("aten::linalg_vector_norm", &[("ord", "inf")], &tensor::<f32>(&[0], &[])));
        for op_type in
            ["aten::linalg_norm", "aten::linalg_vector_norm", "aten::linalg_matrix_norm", "aten::nansum"]
        {
            operator(op_type, &[]).survives(1);
        }
    }
}
