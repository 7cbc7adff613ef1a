//! What depends on the order of elements along an axis: the largest and their places, sums and products of all so far,
//! sequences backwards.

use super::fields::Flag;
use super::recipe::{Recipe, Source};
use super::steps::Backwards;
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::creation::filled::ZerosLike;
use crate::ops::indexing::scattering::Scatter;
use crate::ops::layout::padding::{Pad, PaddingMode};
use crate::ops::layout::repetition::Flip;
use crate::ops::reduction::distance::Normalize;
use crate::ops::reduction::extremes::{Argmax, Argmin, Topk};
use crate::ops::reduction::scan::{Cumprod, Cumsum};
use crate::ops::support::arguments::{Accumulator, Argument, Operand, OutputCount, Wanted};
use crate::ops::support::broadcast::Factor;
use crate::ops::support::views::axis_of;
use crate::tensor::{Dim, Scalar};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

macro_rules! places {
    ($($(#[doc = $doc:literal])* $name:ident is $layer:ident for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The axis; may count from the end.
                axis: i64 = 0,
                /// Whether the axis stays, with length 1.
                keepdims: Flag = Flag::of(1),
                /// Whether the last of equal elements is meant, instead of the first.
                select_last_index: Flag = Flag::of(0),
            }
        }

        impl Translate for $name {
            fn names(&self) -> &'static [(&'static str, &'static str)] {
                &[("dim", "axis")]
            }

            fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
                let axis = axis_of(self.axis, recipe.meta(X)?)?;
                let layer = $layer { dim: Some(self.axis), keepdim: self.keepdims.0 };
                if !self.select_last_index.0 {
                    return Ok(vec![recipe.then(layer, &[X])?]);
                }
                let len = recipe.meta(X)?.dims().get(axis).cloned().unwrap_or(Dim::Fixed(1));
                let flipped = recipe.then(Flip { dims: vec![self.axis] }, &[X])?;
                let place = recipe.then(layer, &[flipped])?;
                // Counted from the other end.
                Ok(vec![match len.fixed() {
                    Some(len) => recipe.compute(&format!("sub({},@0)", len - 1), &[place])?,
                    None => recipe.compute(&format!("sub(sub(size(@1,{axis}),1),@0)"), &[place, X])?,
                }])
            }
        }
    )*};
}

places! {
    /// `ArgMax` (since 1): the place of the largest element.
    ArgMax is Argmax for "ArgMax";

    /// `ArgMin` (since 1): the place of the smallest element.
    ArgMin is Argmin for "ArgMin";
}

crate::operator! {
    /// `Hardmax` (since 13): 1 at the first largest element along an axis, else 0.
    pub struct Hardmax for "Hardmax" {
        /// The axis; may count from the end.
        axis: i64 = -1,
    }
}

crate::operator! {
    /// `TopK` (since 10): the k largest or smallest elements along an axis, and their places.
    pub struct TopK for "TopK" {
        /// The axis; may count from the end.
        axis: i64 = -1,
        /// Whether the largest are taken.
        largest: Flag = Flag::of(1),
        /// Whether they are sorted, the first of equal elements first.
        sorted: Flag = Flag::of(1),
        /// How many, where the file says it; else an input.
        k as "K": Argument<Vec<i64>>,
        /// How many outputs the file lists.
        outputs: OutputCount,
    }
}

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident is $layer:ident from $start:literal for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// Whether an element does not count for its own place.
                exclusive: Flag = Flag::of(0),
                /// Whether it begins at the end.
                reverse: Flag = Flag::of(0),
                /// The axis, where the file says it; else an input. It may count from the end.
                axis: Argument<Vec<i64>>,
            }
        }

        impl Translate for $name {
            fn names(&self) -> &'static [(&'static str, &'static str)] {
                &[("dim", "axis")]
            }

            fn num_inputs(&self) -> RangeInclusive<usize> {
                let count = 1 + self.axis.num_inputs();
                count..=count
            }

            fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
                let dim = one("axis", &self.axis, recipe)?;
                let axis = axis_of(dim, recipe.meta(X)?)?;
                let mut x = X;
                if self.reverse.0 {
                    x = recipe.then(Flip { dims: vec![dim] }, &[x])?;
                }
                if self.exclusive.0 {
                    let mut pad = vec![0; 2 * (recipe.rank(x)? - axis - 1)];
                    pad.extend([1, -1]);
                    let (pad, mode) = (Argument::Value(pad), PaddingMode::Constant);
                    x = recipe.then(Pad { pad, mode, value: Some($start) }, &[x])?;
                }
                let dtype = Accumulator(Some(Wanted::Given(recipe.dtype(x)?)));
                x = recipe.then($layer { dim, dtype }, &[x])?;
                if self.reverse.0 {
                    x = recipe.then(Flip { dims: vec![dim] }, &[x])?;
                }
                Ok(vec![x])
            }
        }
    )*};
}

scans! {
    /// `CumSum` (since 11): what each element and those before it along an axis add up to, in the input's element type.
    CumSum is Cumsum from 0.0 for "CumSum";

    /// `CumProd` (since 26): the product of each element and those before it along an axis, in the input's element type.
    CumProd is Cumprod from 1.0 for "CumProd";
}

crate::operator! {
    /// `LpNormalization` (since 1): elements divided by the norm along an axis.
    pub struct LpNormalization for "LpNormalization" {
        /// The axis; may count from the end.
        axis: i64 = -1,
        /// The order of the norm.
        p: i64 = 2,
    }
}

crate::operator! {
    /// `ReverseSequence` (since 10): the first elements of each sequence of a batch in reverse order.
    pub struct ReverseSequence for "ReverseSequence" {
        /// The axis of the batch, 0 or 1.
        batch_axis: usize = 1,
        /// The axis of the sequences, 1 or 0.
        time_axis: usize = 0,
        /// How many elements of each sequence are turned.
        sequence_lens: Operand,
    }
}

/// The only number of an argument, which must be known.
fn one(key: &'static str, argument: &Argument<Vec<i64>>, recipe: &Recipe) -> Result<i64, LayerError> {
    let values = argument.dims(recipe.inputs())?;
    match values.as_slice() {
        [value] => value.fixed().ok_or_else(|| LayerError::Unsupported(format!("`{key}` must be a number"))),
        values => Err(LayerError::shape(format!("`{key}`"), "one number", values.len())),
    }
}

impl Translate for Hardmax {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        axis_of(self.axis, recipe.meta(X)?)?;
        let place = recipe.then(Argmax { dim: Some(self.axis), keepdim: true }, &[X])?;
        let zeros = recipe.then(ZerosLike { dtype: None, memory_format: None }, &[X])?;
        let (index, src) = (Operand(1), Factor::Number(Scalar::Int(1)));
        Ok(vec![recipe.then(Scatter { dim: self.axis, index, src }, &[zeros, place])?])
    }
}

impl Translate for TopK {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("k", "K")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.k.num_inputs();
        count..=count
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 2)
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let found = one("K", &self.k, recipe)?;
        let Ok(k) = usize::try_from(found) else {
            return Err(LayerError::invalid("K", found, "it must be at least 0"));
        };
        let layer = Topk { k, dim: self.axis, largest: self.largest.0, sorted: self.sorted.0 };
        let values = recipe.then(layer, &[X])?;
        Ok((0..self.num_outputs()).map(|output| values.output(output)).collect())
    }
}

impl Translate for LpNormalization {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (p, dim) = (self.p as f64, vec![self.axis]);
        Ok(vec![recipe.then(Normalize { p, dim, eps: 1e-12 }, &[X])?])
    }
}

impl Translate for ReverseSequence {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let axes = [self.batch_axis, self.time_axis];
        if axes != [0, 1] && axes != [1, 0] {
            let reason = "`batch_axis` and `time_axis` must be 0 and 1, or 1 and 0";
            return Err(LayerError::invalid("batch_axis", self.batch_axis, reason));
        }
        let lens = Source::Input(self.sequence_lens.0);
        Ok(vec![recipe.step(Backwards { time: self.time_axis }, &[X, lens])?])
    }
}

operators! {
    entry => ArgMax, ArgMin, Hardmax, TopK, CumSum, CumProd, LpNormalization, ReverseSequence
}
