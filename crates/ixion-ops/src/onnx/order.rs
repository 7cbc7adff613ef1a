//! Operators that depend on the order of elements along an axis: indices of extremes, cumulative sums and products,
//! reversed sequences.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Flag;
use super::lowering::Source;
use super::softmax::flattened;
use super::steps::ReverseSequences;
use crate::creation::filled::ZerosLike;
use crate::indexing::scattering::Scatter;
use crate::layout::padding::{Pad, PaddingMode};
use crate::layout::repetition::Flip;
use crate::op::{LayerError, Result};
use crate::reduction::distance::Normalize;
use crate::reduction::extremes::{Argmax, Argmin, Topk};
use crate::reduction::scan::{Cumprod, Cumsum};
use crate::support::arguments::{Accumulator, InputIndex, OutputCount, ParamOrInput, Wanted};
use crate::support::broadcast::TensorOrScalar;
use crate::support::views::axis_of;
use ixion_tensor::{Dim, Scalar};

const X: Source = Source::Input(0);

macro_rules! places {
    ($($(#[doc = $doc:literal])* $name:ident is $layer:ident for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The axis; a negative one counts from the end.
                axis: i64 = 0,
                /// Whether the axis is kept, with length 1.
                keepdims: Flag = Flag::of(1),
                /// Whether the last of equal elements is selected, instead of the first.
                select_last_index: Flag = Flag::of(0),
            }
        }

        impl Decompose for $name {
            fn names(&self) -> &'static [(&'static str, &'static str)] {
                &[("dim", "axis")]
            }

            fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
                let axis = axis_of(self.axis, decomposition.meta(X)?)?;
                let layer = $layer { dim: Some(self.axis), keepdim: self.keepdims.0 };
                if !self.select_last_index.0 {
                    return Ok(vec![decomposition.then(layer, &[X])?]);
                }
                let len = decomposition.meta(X)?.dims().get(axis).cloned().unwrap_or(Dim::Fixed(1));
                let flipped = decomposition.then(Flip { dims: vec![self.axis] }, &[X])?;
                let place = decomposition.then(layer, &[flipped])?;
                // Convert the index in the flipped tensor back.
                Ok(vec![match len.fixed() {
                    Some(len) => decomposition.compute(&format!("sub({},@0)", len - 1), &[place])?,
                    None => decomposition.compute(&format!("sub(sub(size(@1,{axis}),1),@0)"), &[place, X])?,
                }])
            }
        }
    )*};
}

places! {
    /// `ArgMax` (since 1): the index of the largest element along an axis.
    ArgMax is Argmax for "ArgMax";

    /// `ArgMin` (since 1): the index of the smallest element along an axis.
    ArgMin is Argmin for "ArgMin";
}

crate::operator! {
    /// `Hardmax` (since 13): 1 at the first largest element along an axis, 0 elsewhere.
    pub struct Hardmax for "Hardmax" {
        /// The axis; a negative one counts from the end.
        axis: i64 = -1,
        /// Whether all axes from this one on count as one, as before version 13. PNNX never writes it.
        flattened: Flag = Flag::of(0),
    }
}

crate::operator! {
    /// `TopK` (since 10): the k largest or smallest elements along an axis, and their indices.
    pub struct TopK for "TopK" {
        /// The axis; a negative one counts from the end.
        axis: i64 = -1,
        /// Whether the largest elements are taken, instead of the smallest.
        largest: Flag = Flag::of(1),
        /// Whether they are sorted, equal elements in their order in the input.
        sorted: Flag = Flag::of(1),
        /// Number of elements, as a parameter or an input.
        k as "K": ParamOrInput<Vec<i64>>,
        /// Number of outputs that the file lists.
        outputs: OutputCount,
    }
}

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident is $layer:ident from $start:literal for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// Whether each result excludes the element at its own position.
                exclusive: Flag = Flag::of(0),
                /// Whether to accumulate from the end.
                reverse: Flag = Flag::of(0),
                /// The axis, as a parameter or an input; a negative one counts from the end.
                axis: ParamOrInput<Vec<i64>>,
            }
        }

        impl Decompose for $name {
            fn names(&self) -> &'static [(&'static str, &'static str)] {
                &[("dim", "axis")]
            }

            fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
                let dim = one("axis", &self.axis, decomposition)?;
                let axis = axis_of(dim, decomposition.meta(X)?)?;
                let mut x = X;
                if self.reverse.0 {
                    x = decomposition.then(Flip { dims: vec![dim] }, &[x])?;
                }
                if self.exclusive.0 {
                    let mut pad = vec![0; 2 * (decomposition.rank(x)? - axis - 1)];
                    pad.extend([1, -1]);
                    let (pad, mode) = (ParamOrInput::Value(pad), PaddingMode::Constant);
                    x = decomposition.then(Pad { pad, mode, value: Some($start) }, &[x])?;
                }
                let dtype = Accumulator(Some(Wanted::Given(decomposition.dtype(x)?)));
                x = decomposition.then($layer { dim, dtype }, &[x])?;
                if self.reverse.0 {
                    x = decomposition.then(Flip { dims: vec![dim] }, &[x])?;
                }
                Ok(vec![x])
            }
        }
    )*};
}

scans! {
    /// `CumSum` (since 11): the cumulative sum along an axis, in the input's element type.
    CumSum is Cumsum from 0.0 for "CumSum";

    /// `CumProd` (since 26): the cumulative product along an axis, in the input's element type.
    CumProd is Cumprod from 1.0 for "CumProd";
}

crate::operator! {
    /// `LpNormalization` (since 1): elements divided by the Lp norm along an axis.
    pub struct LpNormalization for "LpNormalization" {
        /// The axis; a negative one counts from the end.
        axis: i64 = -1,
        /// Order of the norm.
        p: i64 = 2,
    }
}

crate::operator! {
    /// `ReverseSequence` (since 10): the first elements of each sequence in a batch in reverse order, the others
    /// unchanged.
    pub struct ReverseSequence for "ReverseSequence" {
        /// Axis of the batch, 0 or 1.
        batch_axis: usize = 1,
        /// Axis of the time steps, 1 or 0.
        time_axis: usize = 0,
        /// Number of elements to reverse in each sequence.
        sequence_lens: InputIndex,
    }
}

/// The only value of an argument, which must be known.
fn one(key: &'static str, argument: &ParamOrInput<Vec<i64>>, decomposition: &Decomposition) -> Result<i64> {
    let values = argument.dims(decomposition.inputs())?;
    match values.as_slice() {
        [value] => value.fixed().ok_or_else(|| LayerError::Unsupported(format!("`{key}` must be known"))),
        values => Err(LayerError::shape(format!("`{key}`"), "one value", format!("{} values", values.len()))),
    }
}

impl Decompose for Hardmax {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        if self.flattened.0 {
            return Ok(vec![flattened(decomposition, self.axis, hardmax)?]);
        }
        axis_of(self.axis, decomposition.meta(X)?)?;
        Ok(vec![hardmax(decomposition, X, self.axis)?])
    }
}

/// 1 at the first largest element along an axis, 0 elsewhere.
fn hardmax(decomposition: &mut Decomposition, x: Source, axis: i64) -> Result<Source> {
    let place = decomposition.then(Argmax { dim: Some(axis), keepdim: true }, &[x])?;
    let zeros = decomposition.then(ZerosLike { dtype: None, memory_format: None }, &[x])?;
    let (index, src) = (InputIndex(1), TensorOrScalar::Number(Scalar::Int(1)));
    decomposition.then(Scatter { dim: axis, index, src, reduce: None }, &[zeros, place])
}

impl Decompose for TopK {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("k", "K")]
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 2)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let found = one("K", &self.k, decomposition)?;
        let Ok(k) = usize::try_from(found) else {
            return Err(LayerError::invalid("K", found, "it must be at least 0"));
        };
        let layer = Topk { k, dim: self.axis, largest: self.largest.0, sorted: self.sorted.0 };
        let values = decomposition.then(layer, &[X])?;
        Ok((0..self.num_outputs()).map(|output| values.output(output)).collect())
    }
}

impl Decompose for LpNormalization {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (p, dim) = (self.p as f64, vec![self.axis]);
        Ok(vec![decomposition.then(Normalize { p, dim, eps: 1e-12 }, &[X])?])
    }
}

impl Decompose for ReverseSequence {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let axes = [self.batch_axis, self.time_axis];
        if axes != [0, 1] && axes != [1, 0] {
            let reason = "`batch_axis` and `time_axis` must be 0 and 1, or 1 and 0";
            return Err(LayerError::invalid("batch_axis", self.batch_axis, reason));
        }
        let lens = Source::Input(self.sequence_lens.0);
        Ok(vec![decomposition.step(ReverseSequences { time: self.time_axis }, &[X, lens])?])
    }
}

operators! {
    entry => ArgMax, ArgMin, Hardmax, TopK, CumSum, CumProd, LpNormalization, ReverseSequence
}
