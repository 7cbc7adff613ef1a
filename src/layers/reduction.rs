//! Reductions along axes to one number: sum, mean, product, extremes, variance, norm, any and all.

use super::float::{self, with_float};
use crate::graph::{CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta};
use crate::kernels::{Float, reduce};
use crate::tensor::{DType, Dim, Tensor, TensorView, TensorViewMut, resolve_axis};
use std::borrow::Cow;

/// The axes of a reduction, for an input of some rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Axes {
    reduced: Vec<bool>,
    keep: bool,
}

impl Axes {
    /// The axes that `dim` names; all where it is absent or empty.
    ///
    /// # Errors
    /// An axis that is out of range or named twice.
    pub(super) fn new(dim: Option<&[i64]>, keep: bool, rank: usize) -> Result<Self, LayerError> {
        let mut reduced = vec![false; rank];
        for &axis in dim.unwrap_or_default() {
            let axis = resolve_axis(axis, rank)?;
            // A tensor without axes may be reduced along "axis 0" all the same.
            let Some(place) = reduced.get_mut(axis) else { continue };
            if std::mem::replace(place, true) {
                let (found, reason) = (format!("{dim:?}"), "it names an axis twice".to_owned());
                return Err(LayerError::InvalidParameter { key: "dim", found, reason });
            }
        }
        if dim.unwrap_or_default().is_empty() {
            reduced.fill(true);
        }
        Ok(Self { reduced, keep })
    }

    /// The dimensions of the output.
    pub(super) fn dims(&self, input: &TensorMeta) -> Vec<Dim> {
        let axes = input.dims().iter().zip(&self.reduced);
        axes.filter_map(|(dim, &reduced)| match (reduced, self.keep) {
            (false, _) => Some(dim.clone()),
            (true, true) => Some(Dim::Fixed(1)),
            (true, false) => None,
        })
        .collect()
    }

    /// The number of elements that become one.
    pub(super) fn len(&self, shape: &[usize]) -> usize {
        shape.iter().zip(&self.reduced).filter(|(_, reduced)| **reduced).map(|(len, _)| len).product()
    }

    /// The input with the reduced axes last, so that what becomes one number is a row.
    pub(super) fn rows<'a>(&self, input: &TensorView<'a>) -> Result<TensorView<'a>, LayerError> {
        let (last, first): (Vec<usize>, Vec<usize>) =
            (0..self.reduced.len()).partition(|&axis| self.reduced[axis]);
        Ok(input.with_layout(input.layout().permute(&[first, last].concat())?)?)
    }

    /// Refuses to reduce no elements, for which there is no result.
    pub(super) fn check_not_empty(&self, input: &TensorMeta) -> Result<(), LayerError> {
        let mut axes = input.dims().iter().zip(&self.reduced);
        if axes.any(|(dim, &reduced)| reduced && *dim == 0usize) {
            return Err(LayerError::shape("the input", "at least one element along the axes", input));
        }
        Ok(())
    }
}

/// What a row becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Sum,
    Mean,
    Product,
    Max,
    Min,
    Variance { correction: f64 },
    Deviation { correction: f64 },
    LogSumExp,
    Norm { p: f64 },
}

impl Operation {
    fn apply<T: Float>(self, row: &[T]) -> T {
        let extreme = |wins: fn(T, T) -> bool| {
            reduce::position_of(row, wins)
                .and_then(|position| row.get(position))
                .copied()
                .unwrap_or_else(T::nan)
        };
        T::of(match self {
            Self::Sum => reduce::sum(row),
            Self::Mean => reduce::sum(row) / row.len() as f64,
            Self::Product => reduce::product(row),
            Self::Max => return extreme(|x, best| x > best),
            Self::Min => return extreme(|x, best| x < best),
            Self::Variance { correction } => reduce::variance(row, correction),
            Self::Deviation { correction } => reduce::variance(row, correction).sqrt(),
            Self::LogSumExp => reduce::log_sum_exp(row),
            Self::Norm { p } => reduce::norm(row, p),
        })
    }

    fn apply_to_integers(self, row: &[i64]) -> i64 {
        match self {
            Self::Product => row.iter().fold(1, |product, &x| product.wrapping_mul(x)),
            Self::Max => row.iter().copied().max().unwrap_or(0),
            Self::Min => row.iter().copied().min().unwrap_or(0),
            _ => row.iter().fold(0, |sum, &x| sum.wrapping_add(x)),
        }
    }

    /// The element type of the result, and whether it is computed in integers.
    fn dtype(self, input: DType, wanted: Option<DType>) -> Result<DType, LayerError> {
        let dtype = wanted.unwrap_or(match self {
            Self::Sum | Self::Product if !input.is_float() && !input.is_complex() => DType::I64,
            Self::LogSumExp if !input.is_float() && !input.is_complex() => DType::F32,
            _ => input,
        });
        let integers = matches!(self, Self::Sum | Self::Product | Self::Max | Self::Min);
        if dtype.is_float() || (integers && !dtype.is_complex()) {
            return Ok(dtype);
        }
        let wanted = if integers { "real numbers" } else { "f32, f64, f16 and bf16" };
        Err(LayerError::DType { what: "the input".to_owned(), wanted: wanted.to_owned(), found: dtype })
    }

    /// Reduces rows of `len` elements.
    fn run(
        self,
        rows: &TensorView<'_>,
        len: usize,
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        if output.dtype().is_float() {
            return with_float!(output.dtype(), T => {
                let rows = float::read::<T>(rows)?;
                float::write::<T>(output, |output| {
                    let each = |(index, y): (usize, &mut T)| {
                        *y = self.apply(rows.get(index * len..(index + 1) * len).unwrap_or_default());
                    };
                    output.iter_mut().enumerate().for_each(each);
                    Ok(())
                })
            });
        }
        let rows = rows.to_tensor()?.cast(DType::I64)?;
        let rows = rows.slice::<i64>()?;
        let each =
            |index| self.apply_to_integers(rows.get(index * len..(index + 1) * len).unwrap_or_default());
        let values: Vec<i64> = (0..output.num_elements()).map(each).collect();
        let shape = *output.shape();
        Ok(output.copy_from(&Tensor::from_vec(values, &shape)?.cast(output.dtype())?.view())?)
    }
}

/// A reduction with all that is said of it.
struct Reduction<'a> {
    operation: Operation,
    dim: Option<&'a [i64]>,
    keepdim: bool,
    dtype: Option<DType>,
}

impl Reduction<'_> {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let axes = Axes::new(self.dim, self.keepdim, inputs[0].rank())?;
        if matches!(self.operation, Operation::Max | Operation::Min) {
            axes.check_not_empty(&inputs[0])?;
        }
        let dtype = self.operation.dtype(inputs[0].dtype(), self.dtype)?;
        Ok(vec![TensorMeta::new(dtype, axes.dims(&inputs[0]))])
    }

    fn forward(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
        let axes = Axes::new(self.dim, self.keepdim, input.shape().rank())?;
        let len = axes.len(input.shape());
        // Half types are summed in f32; all others are converted first.
        let same = input.dtype() == output.dtype();
        let converted: Cow<'_, Tensor>;
        let view = if same {
            *input
        } else {
            converted = Cow::Owned(input.to_tensor()?.cast(output.dtype())?);
            converted.view()
        };
        self.operation.run(&axes.rows(&view)?, len, output)
    }
}

macro_rules! reductions {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $($op_type:literal),+ { $($fields:tt)* } |$layer:ident| $operation:expr, $dtype:expr;
    )*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                $($fields)*
                /// The axes; all where absent. They may count from the end.
                dim: Option<Vec<i64>> = None,
                /// Whether reduced axes stay, with length 1.
                keepdim: bool = false,
            }
        }

        impl $name {
            fn reduction(&self) -> Reduction<'_> {
                let $layer = self;
                let (operation, dtype) = ($operation, $dtype);
                Reduction { operation, dim: self.dim.as_deref(), keepdim: self.keepdim, dtype }
            }
        }

        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                self.reduction().infer(inputs)
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                self.reduction().forward(&inputs[0], &mut outputs[0])
            }
        }
    )*};
}

reductions! {
    /// `torch.sum`: the sum; of integers and bool as i64. 0 of no elements.
    Sum for "torch.sum" {
        /// The element type that the input is converted to first.
        dtype: Option<DType> = None,
    } |layer| Operation::Sum, layer.dtype;

    /// `torch.mean`: the mean; NaN of no elements.
    Mean for "torch.mean" {
        /// The element type that the input is converted to first.
        dtype: Option<DType> = None,
    } |layer| Operation::Mean, layer.dtype;

    /// `torch.prod`: the product; of integers and bool as i64. 1 of no elements.
    Product for "torch.prod" {
        /// The element type that the input is converted to first.
        dtype: Option<DType> = None,
    } |layer| Operation::Product, layer.dtype;

    /// `torch.amax`: the largest element; NaN where there is one.
    Amax for "torch.amax" {} |_layer| Operation::Max, None;

    /// `torch.amin`: the smallest element; NaN where there is one.
    Amin for "torch.amin" {} |_layer| Operation::Min, None;

    /// `torch.logsumexp`: the logarithm of the sum of powers of e.
    LogSumExp for "torch.logsumexp" {} |_layer| Operation::LogSumExp, None;

    /// `torch.var`: the variance; NaN where there are no elements, or no more than `correction`.
    Variance for "torch.var" {
        /// What is subtracted from the number of elements that is divided by.
        correction: Option<f64> = None,
        /// Instead of `correction`: whether it is 1, and not 0.
        unbiased: bool = true,
    } |layer| Operation::Variance { correction: correction(layer.correction, layer.unbiased) }, None;

    /// `torch.std`: the standard deviation, the root of the variance.
    Deviation for "torch.std" {
        /// What is subtracted from the number of elements that is divided by.
        correction: Option<f64> = None,
        /// Instead of `correction`: whether it is 1, and not 0.
        unbiased: bool = true,
    } |layer| Operation::Deviation { correction: correction(layer.correction, layer.unbiased) }, None;

    /// `torch.norm`: the p-norm (Σ|x|ᵖ)^(1/p).
    Norm for "torch.norm" {
        /// The power: a number, `inf`, `-inf`, or `fro` for 2.
        p: Power = Power(2.0),
        /// The element type that the input is converted to first.
        dtype: Option<DType> = None,
    } |layer| Operation::Norm { p: layer.p.0 }, layer.dtype;
}

fn correction(given: Option<f64>, unbiased: bool) -> f64 {
    given.unwrap_or(f64::from(u8::from(unbiased)))
}

/// The power of a [`Norm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power(pub f64);

impl crate::graph::FromParameter for Power {
    const KIND: &'static str = "a number, or fro";

    fn from_parameter(parameter: &crate::graph::RuntimeParameter) -> Option<Self> {
        match parameter.raw() {
            "fro" | "None" => Some(Self(2.0)),
            _ => parameter.as_f64().ok().map(Self),
        }
    }
}

macro_rules! quantifiers {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal is $method:ident;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The axes; all where absent. They may count from the end.
                dim: Option<Vec<i64>> = None,
                /// Whether reduced axes stay, with length 1.
                keepdim: bool = false,
            }
        }

        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                let axes = Axes::new(self.dim.as_deref(), self.keepdim, inputs[0].rank())?;
                let dtype = if inputs[0].dtype() == DType::U8 { DType::U8 } else { DType::Bool };
                Ok(vec![TensorMeta::new(dtype, axes.dims(&inputs[0]))])
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                let axes = Axes::new(self.dim.as_deref(), self.keepdim, inputs[0].shape().rank())?;
                let len = axes.len(inputs[0].shape());
                let truth = axes.rows(&inputs[0])?.to_tensor()?.cast(DType::Bool)?;
                let truth = truth.slice::<bool>()?;
                let row = |index: usize| truth.get(index * len..(index + 1) * len).unwrap_or_default();
                let count = outputs[0].num_elements();
                let values: Vec<bool> = (0..count).map(|index| row(index).iter().$method(|&x| x)).collect();
                let shape = *outputs[0].shape();
                let result = Tensor::from_vec(values, &shape)?.cast(outputs[0].dtype())?;
                Ok(outputs[0].copy_from(&result.view())?)
            }
        }
    )*};
}

quantifiers! {
    /// `torch.any`: whether one element or more is not zero.
    Any for "torch.any" is any;

    /// `torch.all`: whether no element is zero.
    All for "torch.all" is all;
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<Sum>()?;
    registry.register::<Mean>()?;
    registry.register::<Product>()?;
    registry.register::<Amax>()?;
    registry.register::<Amin>()?;
    registry.register::<LogSumExp>()?;
    registry.register::<Variance>()?;
    registry.register::<Deviation>()?;
    registry.register::<Norm>()?;
    registry.register::<Any>()?;
    registry.register::<All>()
}

#[cfg(test)]
mod tests;
