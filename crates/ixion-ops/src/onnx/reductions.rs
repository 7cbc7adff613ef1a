//! Reductions along axes.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::{Flag, List, numbers};
use super::lowering::Source;
use crate::op::Result;
use crate::reduction::along_axes::{Amax, Amin, Axes, LogSumExp, Mean, Norm, Power, Product, Sum};
use crate::support::arguments::{Accumulator, Wanted};
use crate::support::broadcast::integer_range;
use ixion_tensor::DType;

/// The axes of a reduction.
struct Reduced {
    dim: Option<Vec<i64>>,
    keepdim: bool,
}

impl Reduced {
    /// The sum, in the element type of the input.
    fn sum(self, decomposition: &mut Decomposition, x: Source) -> Result<Source> {
        let dtype = same_type(decomposition.dtype(x)?);
        decomposition.then(Sum { dtype, dim: self.dim, keepdim: self.keepdim }, &[x])
    }
}

impl Reduced {
    /// Returns true if a tensor has no elements along the reduced axes. Symbolic lengths are not 0.
    fn is_empty(&self, decomposition: &mut Decomposition, x: Source) -> Result<bool> {
        let meta = decomposition.meta(x)?;
        let axes = Axes::new(self.dim.as_deref(), self.keepdim, meta.rank())?;
        let is_empty = axes.check_not_empty(meta).is_err();
        if meta.dims().iter().any(|len| len.fixed().is_none()) {
            decomposition.depend_on_sizes();
        }
        Ok(is_empty)
    }

    /// The result for no elements along the axes: the smallest value of the type everywhere, or the largest.
    fn of_nothing(self, decomposition: &mut Decomposition, x: Source, extreme: usize) -> Result<Source> {
        let values = extremes(decomposition.dtype(x)?);
        let value = values.get(extreme).map_or("0", String::as_str);
        let zeros = self.sum(decomposition, x)?;
        decomposition.compute(&format!("add(@0,{value})"), &[zeros])
    }
}

/// The smallest and the largest value of a type, as text of an expression.
fn extremes(dtype: DType) -> [String; 2] {
    match integer_range(dtype) {
        Some((least, most)) => [least.to_string(), most.to_string()],
        None if dtype == DType::Bool => ["False".to_owned(), "True".to_owned()],
        None => ["-inf".to_owned(), "inf".to_owned()],
    }
}

/// In ONNX, sums of integers keep their type; in PyTorch, they are i64.
fn same_type(dtype: DType) -> Accumulator {
    Accumulator(Some(Wanted::Given(dtype)))
}

macro_rules! reductions {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $op_type:literal by |$decomposition:ident, $x:ident, $along:ident| $steps:expr;
        alone $($alone:literal)?;
    )*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The axes, as a parameter or an input; all if absent or empty. Negative ones count from the end.
                axes: List = None,
                /// Whether reduced axes are kept, with length 1.
                keepdims: Flag = Flag::of(1),
                /// Whether nothing is reduced if there are no axes.
                noop_with_empty_axes: Flag = Flag::of(0),
            }
        }

        impl Decompose for $name {
            fn names(&self) -> &'static [(&'static str, &'static str)] {
                &[("dim", "axes")]
            }

            fn decompose(&self, $decomposition: &mut Decomposition) -> Result<Vec<Source>> {
                let $x = Source::Input(0);
                let axes = numbers("axes", &self.axes, $decomposition.inputs())?.unwrap_or_default();
                if axes.is_empty() && self.noop_with_empty_axes.0 {
                    $(return Ok(vec![$decomposition.compute($alone, &[$x])?]);)?
                    #[allow(unreachable_code, reason = "some reductions of single elements return above")]
                    return Ok(vec![$x]);
                }
                let $along = Reduced { dim: Some(axes), keepdim: self.keepdims.0 };
                Ok(vec![$steps?])
            }
        }
    )*};
}

reductions! {
    /// `ReduceSum` (since 1): the sum along axes, in the input's element type.
    ReduceSum for "ReduceSum" by |decomposition, x, along| along.sum(decomposition, x); alone;

    /// `ReduceMean` (since 1): the mean along axes; for integers, rounded towards 0.
    ReduceMean for "ReduceMean" by |decomposition, x, along| {
        let dtype = decomposition.dtype(x)?;
        let x = if dtype.is_float() { x } else { decomposition.cast(x, DType::F64)? };
        let mean = Mean { dtype: Accumulator(None), dim: along.dim, keepdim: along.keepdim };
        let mean = decomposition.then(mean, &[x])?;
        decomposition.cast(mean, dtype)
    }; alone;

    /// `ReduceProd` (since 1): the product along axes, in the input's element type.
    ReduceProd for "ReduceProd" by |decomposition, x, along| {
        let dtype = same_type(decomposition.dtype(x)?);
        decomposition.then(Product { dtype, dim: along.dim, keepdim: along.keepdim }, &[x])
    }; alone;

    /// `ReduceMax` (since 1): the largest element along axes; NaN if there is one, the smallest of the type for empty axes.
    ReduceMax for "ReduceMax" by |decomposition, x, along| {
        if along.is_empty(decomposition, x)? {
            return Ok(vec![along.of_nothing(decomposition, x, 0)?]);
        }
        decomposition.then(Amax { dim: along.dim, keepdim: along.keepdim }, &[x])
    }; alone;

    /// `ReduceMin` (since 1): the smallest element along axes; NaN if there is one, the largest of the type for empty axes.
    ReduceMin for "ReduceMin" by |decomposition, x, along| {
        if along.is_empty(decomposition, x)? {
            return Ok(vec![along.of_nothing(decomposition, x, 1)?]);
        }
        decomposition.then(Amin { dim: along.dim, keepdim: along.keepdim }, &[x])
    }; alone;

    /// `ReduceL1` (since 1): the L1 norm along axes, the sum of absolute values.
    ReduceL1 for "ReduceL1" by |decomposition, x, along| {
        let magnitudes = decomposition.compute("abs(@0)", &[x])?;
        along.sum(decomposition, magnitudes)
    }; alone "abs(@0)";

    /// `ReduceL2` (since 1): the L2 norm along axes, the square root of the sum of squares.
    ReduceL2 for "ReduceL2" by |decomposition, x, along| {
        let dtype = decomposition.dtype(x)?;
        let x = if dtype.is_float() { x } else { decomposition.cast(x, DType::F64)? };
        let norm = Norm { p: Power(2.0), dtype: Accumulator(None), dim: along.dim, keepdim: along.keepdim };
        let norm = decomposition.then(norm, &[x])?;
        decomposition.cast(norm, dtype)
    }; alone "abs(@0)";

    /// `ReduceSumSquare` (since 1): the sum of squares along axes.
    ReduceSumSquare for "ReduceSumSquare" by |decomposition, x, along| {
        let squares = decomposition.compute("mul(@0,@0)", &[x])?;
        along.sum(decomposition, squares)
    }; alone "mul(@0,@0)";

    /// `ReduceLogSum` (since 1): the logarithm of the sum along axes.
    ReduceLogSum for "ReduceLogSum" by |decomposition, x, along| {
        let sum = along.sum(decomposition, x)?;
        decomposition.compute("log(@0)", &[sum])
    }; alone "log(@0)";

    /// `ReduceLogSumExp` (since 1): the logarithm of the sum of exponentials along axes, without overflow.
    ReduceLogSumExp for "ReduceLogSumExp" by |decomposition, x, along| {
        let dtype = decomposition.dtype(x)?;
        let sum = decomposition.then(LogSumExp { dim: along.dim, keepdim: along.keepdim }, &[x])?;
        decomposition.cast(sum, dtype)
    }; alone;
}

operators! {
    entry => ReduceSum, ReduceMean, ReduceProd, ReduceMax, ReduceMin, ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum,
    ReduceLogSumExp; category Elementwise
}
