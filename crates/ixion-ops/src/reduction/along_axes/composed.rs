//! Reductions with two steps or two results: sums and means without NaN, pairs of extremes and moments, matrix norms.

use super::{Axes, Operation, Power, Reduction, Unbiased};
use crate::linalg::order::Order;
use crate::linalg::{self, SingularNorm};
use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::support::arguments::{Accumulator, Wanted};
use ixion_tensor::{DType, Limits, Tensor, TensorView, TensorViewMut, resolve_axes};

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

macro_rules! moments {
    ($($(#[doc = $doc:literal])* $name:ident is $operation:ident for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The axes; by default all. Negative values count from the end.
                dim: Option<Vec<i64>> = None,
                /// The squared deviations are divided by the number of elements minus this; `True`, the default, is 1, `False`
                /// is 0.
                unbiased: Option<Unbiased> = None,
                /// Whether to keep the reduced axes, with length 1.
                keepdim: bool = false,
            }
        }

        pairs!($name |layer| [
            Operation::$operation { correction: layer.unbiased.map_or(1.0, |unbiased| unbiased.0) },
            Operation::Mean,
        ], layer.dim.as_deref());
    )*};
}

/// Implements the traits for a layer of two reductions.
macro_rules! pairs {
    ($name:ident |$layer:ident| $operations:expr, $dim:expr) => {
        impl $name {
            fn reductions(&self) -> [Reduction<'_>; 2] {
                let $layer = self;
                let (dim, keepdim): (Option<&[i64]>, bool) = ($dim, self.keepdim);
                $operations.map(|operation| Reduction { operation, dim, keepdim, dtype: Accumulator(None) })
            }
        }

        impl Layer for $name {
            fn num_outputs(&self) -> usize {
                2
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                let [first, second] = self.reductions().map(|reduction| reduction.infer(inputs));
                Ok([first?, second?].concat())
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                let mut pairs = self.reductions().into_iter().zip(outputs);
                pairs.try_for_each(|(reduction, output)| reduction.forward_alone(&inputs[0], output))
            }
        }
    };
}

pairs!(MinAndMax | layer | [Operation::Min, Operation::Max], layer.dim.as_ref().map(std::slice::from_ref));

moments! {
    /// `torch.var_mean`: the variance and the mean.
    VarianceAndMean is Variance for "aten::var_mean";

    /// `torch.std_mean`: the standard deviation and the mean.
    DeviationAndMean is Deviation for "aten::std_mean";
}

fn given(dtype: Option<DType>) -> Accumulator {
    Accumulator(dtype.map(Wanted::Given))
}

fn refuse_complex(input: &TensorMeta) -> Result<(), LayerError> {
    crate::reduction::extremes::check_order(input)
}

/// The input with NaN replaced by 0, and a mask of the elements that are not NaN.
fn without_nan(input: &TensorView<'_>) -> Result<(Tensor, Tensor), LayerError> {
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
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        refuse_complex(&inputs[0])?;
        self.reduction().infer(inputs)
    }
}

impl CpuLayer for NanSum {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        if !inputs[0].dtype().is_float() {
            return self.reduction().forward_alone(&inputs[0], &mut outputs[0]);
        }
        let numbers = without_nan(&inputs[0])?.0.cast(inputs[0].dtype())?;
        self.reduction().forward_alone(&numbers.view(), &mut outputs[0])
    }
}

impl Layer for NanMean {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        crate::support::float::check("the input", &inputs[0])?;
        let (dim, keepdim, dtype) = (self.dim.as_deref(), self.keepdim, given(self.dtype));
        Reduction { operation: Operation::Mean, dim, keepdim, dtype }.infer(inputs)
    }
}

impl CpuLayer for NanMean {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (numbers, present) = without_nan(&inputs[0])?;
        let (operation, dim, keepdim) = (Operation::Sum, self.dim.as_deref(), self.keepdim);
        let sum = Reduction { operation, dim, keepdim, dtype: given(Some(DType::F64)) };
        let shape = *outputs[0].shape();
        let total = |of: &Tensor| -> Result<Vec<f64>, LayerError> {
            let mut total = Tensor::zeros(DType::F64, &shape)?;
            sum.forward_alone(&of.view(), &mut total.view_mut()?)?;
            Ok(total.to_vec()?)
        };
        // PyTorch's sum is rounded before it is divided.
        let sums = Tensor::from_vec(total(&numbers)?, &shape)?.cast(outputs[0].dtype())?.cast(DType::F64)?;
        let means: Vec<f64> =
            sums.to_vec::<f64>()?.iter().zip(total(&present)?).map(|(sum, n)| sum / n).collect();
        Ok(outputs[0].cast_from(&Tensor::from_vec(means, &shape)?.view())?)
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
    fn of_matrix(order: Order, dim: &[i64], rank: usize) -> Result<Self, LayerError> {
        let &[rows, columns] = dim else {
            let (found, reason) = (format!("{dim:?}"), "expected the two axes of a matrix".to_owned());
            return Err(LayerError::InvalidParameter { key: "dim", found, reason });
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

    fn steps<'a>(&'a self, keepdim: bool, dtype: Accumulator) -> Vec<Reduction<'a>> {
        let one = std::slice::from_ref;
        match self {
            Self::Vector { p, dim } => {
                vec![Reduction { operation: Operation::Norm { p: *p }, dim: dim.as_deref(), keepdim, dtype }]
            }
            Self::Matrix { summed, extreme, largest } => {
                let last = if *largest { Operation::Max } else { Operation::Min };
                let sum = Operation::Norm { p: 1.0 };
                vec![
                    Reduction { operation: sum, dim: Some(one(summed)), keepdim: true, dtype },
                    Reduction { operation: last, dim: Some(one(extreme)), keepdim: true, dtype: given(None) },
                ]
            }
            Self::Singular { .. } => Vec::new(),
        }
    }

    fn infer(
        &self,
        input: &TensorMeta,
        keepdim: bool,
        dtype: Option<DType>,
    ) -> Result<Vec<TensorMeta>, LayerError> {
        if !input.dtype().is_float() && !input.dtype().is_complex() {
            let (what, wanted) = ("the input".to_owned(), "floats and complex numbers".to_owned());
            return Err(LayerError::DType { what, wanted, found: input.dtype() });
        }
        if let Self::Singular { dim, .. } = self {
            let dtype = dtype.unwrap_or(input.dtype());
            let whole = input.with_dtype(dtype);
            linalg::check_type(&whole)?;
            let both = Axes::new(Some(dim), keepdim, input.rank())?;
            return Ok(vec![whole.with_dtype(dtype.real()).with_dims(both.dims(input))]);
        }
        let mut metas = vec![input.clone()];
        for step in self.steps(keepdim, given(dtype)) {
            metas = step.infer(&metas)?;
        }
        if let Self::Vector { p, dim } = self
            && (p.is_infinite() || *p < 0.0)
        {
            Axes::new(dim.as_deref(), keepdim, input.rank())?.check_not_empty(input)?;
        }
        if let Self::Matrix { summed, extreme, .. } = self {
            let both = Axes::new(Some(&[*summed, *extreme]), keepdim, input.rank())?;
            metas = vec![metas[0].with_dims(both.dims(input))];
        }
        Ok(metas)
    }

    fn run(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        (keepdim, dtype): (bool, Option<DType>),
        limits: &Limits,
    ) -> Result<(), LayerError> {
        if let Self::Singular { norm, dim } = self {
            let whole = input.cast(dtype.unwrap_or(input.dtype()))?;
            let axes = resolve_axes(dim, whole.shape().rank())?;
            return norm.write(&linalg::with_last(&whole.view(), &axes)?, output, limits);
        }
        let steps = self.steps(keepdim, given(dtype));
        let [first, second] = &steps[..] else {
            return steps.iter().try_for_each(|step| step.forward_alone(input, output));
        };
        let meta = first.infer(&[TensorMeta::of(input)])?.swap_remove(0);
        let mut sums = Tensor::zeros(meta.dtype(), &meta.shape()?)?;
        first.forward_alone(input, &mut sums.view_mut()?)?;
        let meta = second.infer(&[meta])?.swap_remove(0);
        let mut result = Tensor::zeros(meta.dtype(), &meta.shape()?)?;
        second.forward_alone(&sums.view(), &mut result.view_mut()?)?;
        let shape = *output.shape();
        Ok(output.copy_from(&result.reshape(&shape)?.view())?)
    }
}

impl LinalgNorm {
    fn norm(&self, rank: usize) -> Result<Norm, LayerError> {
        let vector = |p, dim| Ok(Norm::Vector { p, dim });
        match (self.ord, self.dim.as_deref(), rank) {
            (None, dim, _) => vector(2.0, dim.map(<[i64]>::to_vec)),
            (Some(order), Some(dim @ [_, _]), _) => Norm::of_matrix(order, dim, rank),
            (Some(order), None, 2) => Norm::of_matrix(order, &[0, 1], rank),
            (Some(Order::Number(p)), Some(dim @ [_]), _) => vector(p, Some(dim.to_vec())),
            (Some(Order::Number(p)), None, 1) => vector(p, None),
            (Some(_), dim, rank) => {
                let found = dim.map_or_else(|| format!("absent for {rank} axes"), |dim| format!("{dim:?}"));
                let reason = "`ord` needs one axis for vectors, or two for matrices; fro and nuc are norms of matrices".to_owned();
                Err(LayerError::InvalidParameter { key: "dim", found, reason })
            }
        }
    }
}

impl VectorNorm {
    fn norm(&self, _: usize) -> Result<Norm, LayerError> {
        Ok(Norm::Vector { p: self.ord.0, dim: self.dim.clone() })
    }
}

impl MatrixNorm {
    fn norm(&self, rank: usize) -> Result<Norm, LayerError> {
        Norm::of_matrix(self.ord, &self.dim, rank)
    }
}

macro_rules! norms {
    ($($name:ident),*) => {$(
        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                self.norm(inputs[0].rank())?.infer(&inputs[0], self.keepdim, self.dtype)
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                context: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                let norm = self.norm(inputs[0].shape().rank())?;
                norm.run(&inputs[0], &mut outputs[0], (self.keepdim, self.dtype), context.limits())
            }
        }
    )*};
}

norms!(LinalgNorm, VectorNorm, MatrixNorm);

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
