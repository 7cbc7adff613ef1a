//! Softmax and its relatives, by their definition before version 13: along all axes from one on, as if those were one.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::lowering::Source;
use crate::activation::softmax::{LogSoftmax as TorchLogSoftmax, Softmax as TorchSoftmax};
use crate::op::Result;
use crate::support::arguments::RecordedType;
use crate::support::views::axis_of;
use ixion_tensor::Dim;

const X: Source = Source::Input(0);

/// Computes a function along all axes from `axis` on, as if those were one. The function is given the axis that it works along.
pub(super) fn flattened(
    decomposition: &mut Decomposition,
    axis: i64,
    function: impl FnOnce(&mut Decomposition, Source, i64) -> Result<Source>,
) -> Result<Source> {
    let dims = decomposition.meta(X)?.dims().to_vec();
    let axis = axis_of(axis, decomposition.meta(X)?)?;
    let (outer, inner) = dims.split_at(axis.min(dims.len()));
    // Nothing to merge: the axes after this one have length 1.
    if inner.iter().skip(1).all(|len| len.fixed() == Some(1)) {
        return function(decomposition, X, i64::try_from(axis).unwrap_or(0));
    }
    let product = |dims: &[Dim]| dims.iter().fold(Dim::Fixed(1), |product, len| product * len.clone());
    let matrix = decomposition.reshape(vec![product(outer), product(inner)], X)?;
    let result = function(decomposition, matrix, 1)?;
    decomposition.reshape(dims, result)
}

macro_rules! flattened_softmax {
    ($($(#[doc = $doc:literal])* $name:ident is $layer:ident for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The first axis; a negative one counts from the end.
                axis: i64 = 1,
            }
        }

        impl Decompose for $name {
            fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
                Ok(vec![flattened(decomposition, self.axis, |decomposition, x, axis| {
                    let layer = $layer { dim: Some(axis), dtype: None, recorded: RecordedType(None) };
                    decomposition.then(layer, &[x])
                })?])
            }
        }
    )*};
}

flattened_softmax! {
    /// `Softmax` (before 13): softmax along all axes from one on.
    Softmax is TorchSoftmax for "Softmax";

    /// `LogSoftmax` (before 13): the logarithm of softmax along all axes from one on.
    LogSoftmax is TorchLogSoftmax for "LogSoftmax";
}

operators! {
    entry => Softmax, LogSoftmax
}
