//! Reductions: what elements along axes become, and where the largest is.

use super::fields::{Flag, List, count, numbers};
use super::recipe::{Recipe, Source};
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::reduction::along_axes::{Amax, Amin, Axes, LogSumExp, Mean, Norm, Power, Product, Sum};
use crate::ops::support::arguments::{Accumulator, Wanted};
use crate::tensor::DType;
use std::ops::RangeInclusive;

/// What a reduction does along its axes.
struct Reduced {
    dim: Option<Vec<i64>>,
    keepdim: bool,
}

impl Reduced {
    /// The sum, of the element type of what is summed.
    fn sum(self, recipe: &mut Recipe, x: Source) -> Result<Source, LayerError> {
        let dtype = same_type(recipe.dtype(x)?);
        recipe.then(Sum { dtype, dim: self.dim, keepdim: self.keepdim }, &[x])
    }
}

impl Reduced {
    /// Whether floats are reduced of which there are none.
    fn is_empty(&self, recipe: &Recipe, x: Source) -> Result<bool, LayerError> {
        let meta = recipe.meta(x)?;
        let axes = Axes::new(self.dim.as_deref(), self.keepdim, meta.rank())?;
        Ok(meta.dtype().is_float() && axes.check_not_empty(meta).is_err())
    }

    /// What the largest or smallest of no elements is.
    fn of_nothing(self, recipe: &mut Recipe, x: Source, value: &str) -> Result<Source, LayerError> {
        let zeros = self.sum(recipe, x)?;
        recipe.compute(&format!("add(@0,{value})"), &[zeros])
    }
}

/// Sums of integers are of their type in ONNX, not of i64.
fn same_type(dtype: DType) -> Accumulator {
    Accumulator(Some(Wanted::Given(dtype)))
}

macro_rules! reductions {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $op_type:literal by |$recipe:ident, $x:ident, $along:ident| $steps:expr;
        alone $($alone:literal)?;
    )*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The axes, as an attribute or an input; all where absent or empty. They may count from the end.
                axes: List = None,
                /// Whether reduced axes stay, with length 1.
                keepdims: Flag = Flag::of(1),
                /// Whether nothing is reduced where there are no axes.
                noop_with_empty_axes: Flag = Flag::of(0),
            }
        }

        impl Translate for $name {
            fn names(&self) -> &'static [(&'static str, &'static str)] {
                &[("dim", "axes")]
            }

            fn num_inputs(&self) -> RangeInclusive<usize> {
                let count = 1 + count(&self.axes);
                count..=count
            }

            fn translate(&self, $recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
                let $x = Source::Input(0);
                let axes = numbers("axes", &self.axes, $recipe.inputs())?.unwrap_or_default();
                if axes.is_empty() && self.noop_with_empty_axes.0 {
                    $(return Ok(vec![$recipe.compute($alone, &[$x])?]);)?
                    #[allow(unreachable_code, reason = "what is reduced alone may be more than itself")]
                    return Ok(vec![$x]);
                }
                let $along = Reduced { dim: Some(axes), keepdim: self.keepdims.0 };
                Ok(vec![$steps?])
            }
        }
    )*};
}

reductions! {
    /// `ReduceSum` (since 1): the sum, of the input's element type.
    ReduceSum for "ReduceSum" by |recipe, x, along| along.sum(recipe, x); alone;

    /// `ReduceMean` (since 1): the mean; of integers rounded towards 0.
    ReduceMean for "ReduceMean" by |recipe, x, along| {
        let dtype = recipe.dtype(x)?;
        let x = if dtype.is_float() { x } else { recipe.cast(x, DType::F64)? };
        let mean = Mean { dtype: Accumulator(None), dim: along.dim, keepdim: along.keepdim };
        let mean = recipe.then(mean, &[x])?;
        recipe.cast(mean, dtype)
    }; alone;

    /// `ReduceProd` (since 1): the product, of the input's element type.
    ReduceProd for "ReduceProd" by |recipe, x, along| {
        let dtype = same_type(recipe.dtype(x)?);
        recipe.then(Product { dtype, dim: along.dim, keepdim: along.keepdim }, &[x])
    }; alone;

    /// `ReduceMax` (since 1): the largest element; NaN where there is one, −∞ of no floats.
    ReduceMax for "ReduceMax" by |recipe, x, along| {
        if along.is_empty(recipe, x)? {
            return Ok(vec![along.of_nothing(recipe, x, "-inf")?]);
        }
        recipe.then(Amax { dim: along.dim, keepdim: along.keepdim }, &[x])
    }; alone;

    /// `ReduceMin` (since 1): the smallest element; NaN where there is one, ∞ of no floats.
    ReduceMin for "ReduceMin" by |recipe, x, along| {
        if along.is_empty(recipe, x)? {
            return Ok(vec![along.of_nothing(recipe, x, "inf")?]);
        }
        recipe.then(Amin { dim: along.dim, keepdim: along.keepdim }, &[x])
    }; alone;

    /// `ReduceL1` (since 1): the sum of magnitudes.
    ReduceL1 for "ReduceL1" by |recipe, x, along| {
        let magnitudes = recipe.compute("abs(@0)", &[x])?;
        along.sum(recipe, magnitudes)
    }; alone "abs(@0)";

    /// `ReduceL2` (since 1): the root of the sum of squares.
    ReduceL2 for "ReduceL2" by |recipe, x, along| {
        let dtype = recipe.dtype(x)?;
        let x = if dtype.is_float() { x } else { recipe.cast(x, DType::F64)? };
        let norm = Norm { p: Power(2.0), dtype: Accumulator(None), dim: along.dim, keepdim: along.keepdim };
        let norm = recipe.then(norm, &[x])?;
        recipe.cast(norm, dtype)
    }; alone "abs(@0)";

    /// `ReduceSumSquare` (since 1): the sum of squares.
    ReduceSumSquare for "ReduceSumSquare" by |recipe, x, along| {
        let squares = recipe.compute("mul(@0,@0)", &[x])?;
        along.sum(recipe, squares)
    }; alone "mul(@0,@0)";

    /// `ReduceLogSum` (since 1): the logarithm of the sum.
    ReduceLogSum for "ReduceLogSum" by |recipe, x, along| {
        let sum = along.sum(recipe, x)?;
        recipe.compute("log(@0)", &[sum])
    }; alone "log(@0)";

    /// `ReduceLogSumExp` (since 1): the logarithm of the sum of powers of e, without overflow.
    ReduceLogSumExp for "ReduceLogSumExp" by |recipe, x, along| {
        let dtype = recipe.dtype(x)?;
        let sum = recipe.then(LogSumExp { dim: along.dim, keepdim: along.keepdim }, &[x])?;
        recipe.cast(sum, dtype)
    }; alone;
}

operators! {
    entry => ReduceSum, ReduceMean, ReduceProd, ReduceMax, ReduceMin, ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum,
    ReduceLogSumExp
}
