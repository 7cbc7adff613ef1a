//! Reductions along axes: sum, mean, product, extremes, variance, norm, any and all.

mod composed;
mod fold;

pub use composed::{
    DeviationAndMean, LinalgNorm, MatrixNorm, MinAndMax, NanMean, NanSum, VarianceAndMean, VectorNorm,
};

pub use crate::linalg::order::Order;
use crate::op::{CpuLayer, ForwardContext, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::arguments::Accumulator;
use crate::support::broadcast::Converted;
use crate::support::delegation::delegating;
use ixion_kernels::reduce;
pub use ixion_kernels::reduce::fold::Operation;
use ixion_kernels::reduce::quantifiers::Quantifier;
use ixion_tensor::{
    Complex, DType, Dim, Element, Limits, MAX_RANK, Tensor, TensorView, TensorViewMut, Workspace,
    resolve_axis,
};
use smallvec::{SmallVec, smallvec};

/// The axes of a reduction, for an input of some rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    /// One flag for each axis of the input: true if the axis is reduced.
    pub reduced: SmallVec<[bool; MAX_RANK]>,
    keep: bool,
}

impl Axes {
    /// The axes that `dim` names; all axes if it is absent or empty.
    ///
    /// # Errors
    /// Returns an error if an axis is out of range or named twice.
    pub fn new(dim: Option<&[i64]>, keep: bool, rank: usize) -> Result<Self> {
        let mut reduced: SmallVec<[bool; MAX_RANK]> = smallvec![false; rank];
        for &axis in dim.unwrap_or_default() {
            let axis = resolve_axis(axis, rank)?;
            // A 0-D tensor may be reduced along "axis 0" as well.
            let Some(place) = reduced.get_mut(axis) else { continue };
            if std::mem::replace(place, true) {
                let found = format!("{:?}", dim.unwrap_or_default());
                return Err(LayerError::invalid("dim", found, "it names an axis twice"));
            }
        }
        if dim.unwrap_or_default().is_empty() {
            reduced.fill(true);
        }
        Ok(Self { reduced, keep })
    }

    /// The axis `dim`; all axes if it is absent.
    pub(crate) fn along(dim: Option<i64>, keep: bool, rank: usize) -> Result<Self> {
        Self::new(Some(dim.as_slice()), keep, rank)
    }

    /// The dimensions of the output.
    pub(crate) fn dims(&self, input: &TensorMeta) -> Vec<Dim> {
        let axes = input.dims().iter().zip(&self.reduced);
        axes.filter_map(|(dim, &reduced)| match (reduced, self.keep) {
            (false, _) => Some(dim.clone()),
            (true, true) => Some(Dim::Fixed(1)),
            (true, false) => None,
        })
        .collect()
    }

    /// The number of elements that are reduced to one.
    pub(crate) fn len(&self, shape: &[usize]) -> usize {
        shape.iter().zip(&self.reduced).filter(|(_, reduced)| **reduced).map(|(len, _)| len).product()
    }

    /// The input with the reduced axes last, so that each row is reduced to one element.
    pub(crate) fn rows<'a>(&self, input: &TensorView<'a>) -> Result<TensorView<'a>> {
        let axes = |are_reduced: bool| {
            self.reduced.iter().enumerate().filter(move |axis| *axis.1 == are_reduced).map(|axis| axis.0)
        };
        let order: SmallVec<[usize; MAX_RANK]> = axes(false).chain(axes(true)).collect();
        Ok(input.with_layout(input.layout().permute(&order)?)?)
    }

    /// Checks that there is at least one element to reduce.
    pub(crate) fn check_not_empty(&self, input: &TensorMeta) -> Result<()> {
        let mut axes = input.dims().iter().zip(&self.reduced);
        if axes.any(|(dim, &reduced)| reduced && *dim == 0usize) {
            return Err(LayerError::shape("the input", "at least one element along the axes", input));
        }
        Ok(())
    }
}

/// Reduces a row of complex numbers; a real result has the imaginary part 0.
fn complex(operation: Operation, row: &[Complex<f64>]) -> Complex<f64> {
    let norm = |p| reduce::norm(&row.iter().map(|z| z.norm()).collect::<Vec<f64>>(), p);
    match operation {
        Operation::Mean => reduce::complex::sum(row) / row.len() as f64,
        Operation::Product => reduce::complex::product(row),
        Operation::LogSumExp => reduce::complex::log_sum_exp(row),
        Operation::Variance { correction } => reduce::complex::variance(row, correction).into(),
        Operation::Deviation { correction } => reduce::complex::variance(row, correction).sqrt().into(),
        Operation::Norm { p } => norm(p).into(),
        _ => reduce::complex::sum(row),
    }
}

/// Reduces rows of `len` elements and writes the results, converted to the output's type.
fn write_rows<T: Element>(
    rows: &[T],
    len: usize,
    reduce: impl Fn(&[T]) -> T,
    output: &mut TensorViewMut<'_>,
) -> Result<()> {
    let row = |index| rows.get(index * len..(index + 1) * len).unwrap_or_default();
    let values: Vec<T> = (0..output.num_elements()).map(|index| reduce(row(index))).collect();
    let shape = *output.shape();
    Ok(output.copy_from(&Tensor::from_vec(values, &shape)?.cast(output.dtype())?.view())?)
}

/// A reduction and its parameters.
pub struct Reduction<'a> {
    /// The function that reduces the elements along the axes to one.
    pub operation: Operation,
    /// The axes, of which negative ones count from the end; `None` or an empty list for all axes.
    pub dim: Option<&'a [i64]>,
    /// Whether the output keeps the reduced axes, with length 1.
    pub keepdim: bool,
    pub(crate) dtype: Accumulator,
}

impl Reduction<'_> {
    /// The element type that the input is converted to.
    pub fn computed(&self, input: DType) -> Result<DType> {
        let inexact = input.is_float() || input.is_complex();
        let dtype = self.dtype.of(input).unwrap_or(match self.operation {
            Operation::Sum | Operation::Product if !inexact => DType::I64,
            Operation::LogSumExp if !inexact => DType::F32,
            _ => input,
        });
        let ordered = matches!(self.operation, Operation::Max | Operation::Min);
        let integers = ordered || matches!(self.operation, Operation::Sum | Operation::Product);
        if dtype.is_float() || (integers && !dtype.is_complex()) || (dtype.is_complex() && !ordered) {
            return Ok(dtype);
        }
        let wanted = if ordered { "real numbers" } else { "floats and complex numbers" };
        Err(LayerError::dtype("the input", wanted, dtype))
    }

    /// The element type of the result; variances, deviations and norms are real.
    fn result_dtype(&self, input: DType) -> Result<DType> {
        let computed = self.computed(input)?;
        let is_real = matches!(
            self.operation,
            Operation::Variance { .. } | Operation::Deviation { .. } | Operation::Norm { .. }
        );
        Ok(if is_real { computed.real() } else { computed })
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axes = Axes::new(self.dim, self.keepdim, inputs[0].rank())?;
        if matches!(self.operation, Operation::Max | Operation::Min) {
            axes.check_not_empty(&inputs[0])?;
        }
        let dtype = self.result_dtype(inputs[0].dtype())?;
        Ok(vec![TensorMeta::new(dtype, axes.dims(&inputs[0]))])
    }

    fn forward(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let axes = Axes::new(self.dim, self.keepdim, input.shape().rank())?;
        let len = axes.len(input.shape());
        let computed = self.computed(input.dtype())?;
        if computed.is_complex() {
            let rows = axes.rows(input)?.cast(computed)?.cast(DType::C128)?;
            return write_rows(rows.slice()?, len, |row| complex(self.operation, row), output);
        }
        // Integers are summed as they are; all other types are converted first.
        let is_integer = !input.dtype().is_float() && !input.dtype().is_complex();
        let computed = if is_integer && computed == DType::I64 { input.dtype() } else { computed };
        let input = Converted::of(input, computed)?;
        fold::reduce(self.operation, &input.view(), &axes.reduced, len, output, context)
    }

    /// As [`Reduction::forward`], with its own scratch memory.
    fn forward_alone(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let mut workspace = Workspace::new()?;
        workspace.reserve(fold::scratch_bytes(output.num_elements()))?;
        self.forward(input, output, &mut ForwardContext::new(&mut workspace, limits))
    }
}

/// The scratch memory, in bytes, that a reduction to this output needs.
pub(crate) fn workspace(outputs: &[TensorMeta]) -> usize {
    let results = outputs.first().and_then(|output| usize::try_from(output.num_elements().fixed()?).ok());
    fold::scratch_bytes(results.unwrap_or(0))
}

/// Writes the largest or smallest of all elements; NaN if there is one. It needs the scratch memory of [`workspace`].
///
/// # Errors
/// [`LayerError::DType`] for complex numbers.
pub(crate) fn extreme_of_all(
    largest: bool,
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    let operation = if largest { Operation::Max } else { Operation::Min };
    let reduced = &[true; MAX_RANK][..input.shape().rank()];
    fold::reduce(operation, input, reduced, input.num_elements(), output, context)
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
                /// The axes; by default all. Negative values count from the end.
                dim: Option<Vec<i64>> = None,
                /// Whether to keep the reduced axes, with length 1.
                keepdim: bool = false,
            }
        }

        impl $name {
            /// The reduction with this operator's parameters; its axes are not yet checked against an input.
            pub fn reduction(&self) -> Reduction<'_> {
                let $layer = self;
                let (operation, dtype) = ($operation, $dtype);
                Reduction { operation, dim: self.dim.as_deref(), keepdim: self.keepdim, dtype }
            }
        }

        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                self.reduction().infer(inputs)
            }
        }

        impl CpuLayer for $name {
            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                self.reduction().forward(&io.inputs[0], &mut io.outputs[0], &mut io.context)
            }

            fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
                workspace(outputs)
            }
        }
    )*};
}

reductions! {
    /// `torch.sum`: the sum of the elements, 0 for an empty input. Integers and bool are summed as i64.
    Sum for "torch.sum", "aten::sum" {
        /// The element type that the input is converted to first.
        dtype: Accumulator = Accumulator(None),
    } |layer| Operation::Sum, layer.dtype;

    /// `torch.mean`: the mean of the elements, NaN for an empty input.
    Mean for "torch.mean", "aten::mean" {
        /// The element type that the input is converted to first.
        dtype: Accumulator = Accumulator(None),
    } |layer| Operation::Mean, layer.dtype;

    /// `torch.prod`: the product of the elements, 1 for an empty input. Integers and bool are multiplied as i64.
    Product for "torch.prod", "aten::prod" {
        /// The element type that the input is converted to first.
        dtype: Accumulator = Accumulator(None),
    } |layer| Operation::Product, layer.dtype;

    /// `torch.amax`: the largest element; NaN if there is one.
    Amax for "torch.amax", "aten::amax" {} |_layer| Operation::Max, Accumulator(None);

    /// `torch.amin`: the smallest element; NaN if there is one.
    Amin for "torch.amin", "aten::amin" {} |_layer| Operation::Min, Accumulator(None);

    /// `torch.logsumexp`: the logarithm of the sum of the exponentials, ln Σeˣ.
    LogSumExp for "torch.logsumexp", "aten::logsumexp" {} |_layer| Operation::LogSumExp, Accumulator(None);

    /// `torch.var`: the variance; NaN if there are no elements. With no more elements than `correction`, the divisor is 0.
    Variance for "torch.var", "aten::var" {
        /// The squared deviations are divided by the number of elements minus this. By default `unbiased` determines it.
        correction: Option<f64> = None,
        /// Instead of `correction`: `True` for 1, `False` for 0, or the value of the correction, as PNNX writes it.
        unbiased: Unbiased = Unbiased(1.0),
    } |layer| Operation::Variance { correction: layer.correction.unwrap_or(layer.unbiased.0) }, Accumulator(None);

    /// `torch.std`: the standard deviation, the square root of the variance.
    Deviation for "torch.std", "aten::std" {
        /// The squared deviations are divided by the number of elements minus this. By default `unbiased` determines it.
        correction: Option<f64> = None,
        /// Instead of `correction`: `True` for 1, `False` for 0, or the value of the correction, as PNNX writes it.
        unbiased: Unbiased = Unbiased(1.0),
    } |layer| Operation::Deviation { correction: layer.correction.unwrap_or(layer.unbiased.0) }, Accumulator(None);

    /// `torch.norm`: the p-norm (Σ|x|ᵖ)^(1/p).
    Norm for "torch.norm", "aten::norm" {
        /// The order p: a number, `inf`, `-inf`, or `fro` for 2.
        p: Power = Power(2.0),
        /// The element type that the input is converted to first.
        dtype: Accumulator = Accumulator(None),
    } |layer| Operation::Norm { p: layer.p.0 }, layer.dtype;
}

/// The correction that `unbiased` specifies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unbiased(pub f64);

impl crate::op::FromParameter for Unbiased {
    const KIND: &'static str = "a bool or a number";

    fn from_parameter(parameter: &crate::op::RuntimeParameter) -> Option<Self> {
        let truth = parameter.as_bool().map(|unbiased| f64::from(u8::from(unbiased)));
        truth.or_else(|_| parameter.as_f64()).ok().map(Self)
    }

    fn to_parameter(&self) -> Option<crate::op::RuntimeParameter> {
        Some(self.0.into())
    }
}

/// The order p of a [`Norm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power(pub f64);

impl crate::op::FromParameter for Power {
    const KIND: &'static str = "a number, or fro";

    fn from_parameter(parameter: &crate::op::RuntimeParameter) -> Option<Self> {
        match parameter.raw() {
            "fro" | "None" => Some(Self(2.0)),
            _ => parameter.as_f64().ok().map(Self),
        }
    }

    fn to_parameter(&self) -> Option<crate::op::RuntimeParameter> {
        Some(self.0.into())
    }
}

delegating! {
    {
        /// The axes; by default all. Negative values count from the end.
        dim: Option<Vec<i64>> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
    }

    /// `torch.any`: whether any element is nonzero.
    Any for "torch.any", "aten::any"
    |layer| Quantified { quantifier: Quantifier::Any, dim: layer.dim.clone(), keepdim: layer.keepdim };

    /// `torch.all`: whether all elements are nonzero.
    All for "torch.all", "aten::all"
    |layer| Quantified { quantifier: Quantifier::Each, dim: layer.dim.clone(), keepdim: layer.keepdim };
}

/// Whether any element along axes is nonzero, or whether all are.
#[derive(Debug, Clone)]
struct Quantified {
    quantifier: Quantifier,
    dim: Option<Vec<i64>>,
    keepdim: bool,
}

impl Layer for Quantified {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axes = Axes::new(self.dim.as_deref(), self.keepdim, inputs[0].rank())?;
        let dtype = if inputs[0].dtype() == DType::U8 { DType::U8 } else { DType::Bool };
        Ok(vec![TensorMeta::new(dtype, axes.dims(&inputs[0]))])
    }
}

impl CpuLayer for Quantified {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        let axes = Axes::new(self.dim.as_deref(), self.keepdim, input.shape().rank())?;
        if !input.dtype().is_complex() && input.dtype() != DType::Bool {
            return fold::quantify(self.quantifier, input, &axes.reduced, output, &mut io.context);
        }
        // A search ends at the first element that decides: all are nonzero if none is zero.
        let truth = axes.rows(input)?.cast(DType::Bool)?;
        let is_any = self.quantifier == Quantifier::Any;
        let reduce = |row: &[bool]| row.contains(&is_any) == is_any;
        write_rows(truth.slice::<bool>()?, axes.len(input.shape()), reduce, output)
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        workspace(outputs)
    }
}

operators! {
    Sum, Mean: when_quantized(InFloats(OfMean)), Product, Amax, Amin, LogSumExp, Variance,
    Deviation: when_quantized(InFloats(OfInput)), Norm, Any, All; of composed;
    overload "aten::sum"(input, dim, keepdim, dtype) of 4,
        "aten::mean"(input, dim, keepdim, dtype) of 4,
        "aten::prod"(input, dim, keepdim, dtype) of 4,
        "aten::var"(input, unbiased) of 2,
        "aten::var"(input, dim, unbiased, keepdim),
        "aten::std"(input, unbiased) of 2,
        "aten::std"(input, dim, unbiased, keepdim),
        "aten::norm"(input, p, dtype) of 3,
        "aten::norm"(input, p, dim, keepdim, dtype)
}

#[cfg(test)]
mod tests;
