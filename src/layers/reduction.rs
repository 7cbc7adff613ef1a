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
        let axes = input.dims().iter().zip(&self.reduced);
        let empty = axes.filter(|(_, reduced)| **reduced).any(|(dim, _)| *dim == 0usize);
        if empty && input.num_elements() == 0usize && !self.dims(input).contains(&Dim::Fixed(0)) {
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
            reduce::position_of(row, wins).and_then(|position| row.get(position)).copied().unwrap_or_else(T::nan)
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
    fn run(self, rows: &TensorView<'_>, len: usize, output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
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
        let each = |index| self.apply_to_integers(rows.get(index * len..(index + 1) * len).unwrap_or_default());
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
mod tests {
    use super::super::testing::{assert_close, operator, tensor, waves};
    use super::*;

    fn reduced(op_type: &str, params: &[(&str, &str)], x: &Tensor) -> Tensor {
        operator(op_type, params).run_one(&[x]).unwrap()
    }

    #[test]
    fn they_are_those_of_pytorch() {
        let x = waves(&[2, 3, 2]);
        for (op_type, params, shape, want) in REDUCED {
            assert_close(&reduced(op_type, params, &x), shape, want);
        }
        let single = reduced("torch.mean", &[("dim", "(1)")], &x.cast(DType::F32).unwrap());
        assert_close(&single, &[2, 2], REDUCED[1].3);
    }

    #[test]
    fn types_and_empty_inputs() {
        let bools = tensor(&[2, 2], &[true, true, false, true]);
        assert_eq!(reduced("torch.sum", &[("dim", "1")], &bools).to_vec::<i64>().unwrap(), [2, 1]);
        assert_eq!(reduced("torch.all", &[("dim", "1")], &bools).to_vec::<bool>().unwrap(), [true, false]);
        assert_eq!(reduced("torch.any", &[], &bools).to_vec::<bool>().unwrap(), [true]);
        let bytes = tensor(&[2], &[200u8, 100]);
        assert_eq!(reduced("torch.prod", &[], &bytes).to_vec::<i64>().unwrap(), [20000]);
        assert_eq!(reduced("torch.sum", &[("dtype", "torch.uint8")], &bytes).to_vec::<u8>().unwrap(), [44]);
        assert_eq!(reduced("torch.amax", &[], &bytes).to_vec::<u8>().unwrap(), [200]);
        assert_eq!(reduced("torch.mean", &[("dtype", "torch.float")], &bytes).to_vec::<f32>().unwrap(), [150.0]);
        assert!(operator("torch.mean", &[]).run(&[&bytes]).is_err());
        let empty = Tensor::zeros(DType::F32, &[0, 2]).unwrap();
        assert_eq!(reduced("torch.sum", &[("dim", "0")], &empty).to_vec::<f32>().unwrap(), [0.0, 0.0]);
        assert_eq!(reduced("torch.prod", &[], &empty).to_vec::<f32>().unwrap(), [1.0]);
        assert!(reduced("torch.mean", &[], &empty).item::<f32>().unwrap().is_nan());
        assert!(operator("torch.amax", &[("dim", "0")]).run(&[&empty]).is_err());
        assert_eq!(reduced("torch.amax", &[("dim", "1")], &empty).num_elements(), 0);
    }

    #[test]
    fn nan_and_infinity() {
        let x = tensor(&[2, 2], &[1f32, f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY]);
        let values = |op_type| reduced(op_type, &[("dim", "1")], &x).to_vec::<f32>().unwrap();
        assert!(values("torch.amax")[0].is_nan() && values("torch.amin")[0].is_nan());
        assert_eq!(values("torch.logsumexp")[1], f32::NEG_INFINITY);
        let halves = tensor(&[4096], &[1f32; 4096]).cast(DType::F16).unwrap();
        assert_eq!(reduced("torch.sum", &[], &halves).cast(DType::F32).unwrap().item::<f32>().unwrap(), 4096.0);
    }

    #[test]
    fn symbols_and_odd_inputs() {
        let x = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(3), Dim::symbol("w")]);
        let infer = |params: &[(&str, &str)]| operator("torch.mean", params).infer(std::slice::from_ref(&x));
        assert_eq!(infer(&[("dim", "(1,-1)"), ("keepdim", "True")]).unwrap()[0].to_string(), "n×1×1 f32");
        assert_eq!(infer(&[("dim", "1")]).unwrap()[0].to_string(), "n×w f32");
        assert!(infer(&[("dim", "(1,-2)")]).is_err() && infer(&[("dim", "3")]).is_err());
        for op_type in ["torch.sum", "torch.mean", "torch.prod", "torch.amax", "torch.std", "torch.norm", "torch.all"] {
            operator(op_type, &[("dim", "(-1)")]).survives(1);
            operator(op_type, &[]).survives(1);
        }
    }

    const REDUCED: [(&str, &[(&str, &str)], &[usize], &[f64]); 14] = [
        ("torch.sum", &[("dim", "(-1,0)")], &[3], &[0.5, 0.25, -1.5]),
        ("torch.mean", &[("dim", "(1)")], &[2, 2], &[-1.0833333333333333, -1.1666666666666667, 1.0833333333333333, 0.9166666666666666]),
        ("torch.mean", &[("dim", "(1,2)"), ("keepdim", "True")], &[2, 1, 1], &[-1.125, 1.0]),
        ("torch.prod", &[("dim", "1")], &[2, 2], &[0.0, -0.625, 0.5625, -5.0]),
        ("torch.amax", &[("dim", "(0,2)")], &[3], &[2.0, 2.0, 1.5]),
        ("torch.amin", &[("dim", "()"), ("keepdim", "True")], &[1, 1, 1], &[-2.75]),
        ("torch.logsumexp", &[("dim", "(1)")], &[2, 2], &[0.5130981521677797, 0.18285546687876886, 2.3270243620189506, 2.7123487487424196]),
        ("torch.var", &[("dim", "(1)"), ("unbiased", "False")], &[2, 2], &[1.4305555555555556, 0.513888888888889, 0.34722222222222227, 2.3472222222222228]),
        ("torch.std", &[("dim", "(0,1)"), ("unbiased", "True")], &[2], &[1.5732132722552274, 1.7374550353894054]),
        ("torch.std", &[("dim", "None"), ("correction", "2")], &[], &[1.6587834397533634]),
        ("torch.norm", &[("dim", "None"), ("p", "2")], &[], &[5.25]),
        ("torch.norm", &[("dim", "1"), ("p", "1"), ("keepdim", "True")], &[2, 1, 2], &[3.25, 3.5, 3.25, 5.25]),
        ("torch.norm", &[("dim", "(0,1)"), ("p", "inf")], &[2], &[2.75, 2.0]),
        ("torch.norm", &[("dim", "2"), ("p", "3")], &[2, 3], &[2.75068853282797, 2.0, 1.2761171805003657, 2.2489707226377074, 2.0013012365414586, 1.7465920069545264]),
    ];
}
