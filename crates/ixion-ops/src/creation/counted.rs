//! Tensors that follow from numbers alone, which a file states or the graph computes: what ranges, windows and identity
//! matrices share.

use super::filled::Leading;
use crate::op::{LayerError, Result, TensorMeta};
use crate::support::arguments::ParamOrInput;
use crate::support::float::not_a_float;
use ixion_tensor::{DType, Dim, Limits, Tensor, TensorView};

/// An integer, which may be the first input.
pub type Integer = Leading<i64>;

/// An integer of the file, as a default.
pub(crate) const fn integer(value: i64) -> Integer {
    Leading(ParamOrInput::Value(value))
}

impl Integer {
    /// The integer; an unknown one if it depends on values that are not known before the run.
    ///
    /// # Errors
    /// [`LayerError::DType`] if the input is not i64, [`LayerError::Shape`] if it is a list.
    pub(crate) fn dim(&self, inputs: &[TensorMeta]) -> Result<Dim> {
        let is_open = |input: &TensorMeta| input.may_have_values() && input.values().is_none();
        match self.0 {
            ParamOrInput::Input(position) if inputs.get(position).is_some_and(is_open) => {
                Ok(Dim::fresh("counted"))
            }
            _ => self.0.dim(inputs),
        }
    }

    /// As [`Integer::dim`], for a length, which must not be negative.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] for a negative length; otherwise as [`Integer::dim`].
    pub(crate) fn length(&self, key: &'static str, inputs: &[TensorMeta]) -> Result<Dim> {
        let len = self.dim(inputs)?;
        if len.fixed().is_some_and(|len| len < 0) {
            return Err(negative(key, &len));
        }
        Ok(len)
    }

    /// The integer during a run.
    ///
    /// # Errors
    /// As [`Integer::dim`].
    pub(crate) fn value(&self, inputs: &[TensorView<'_>]) -> Result<i64> {
        Ok(self.0.dim(&TensorMeta::of_all(inputs))?.fixed().unwrap_or(0))
    }

    /// The length during a run.
    ///
    /// # Errors
    /// As [`Integer::length`].
    pub(crate) fn count(&self, key: &'static str, inputs: &[TensorView<'_>]) -> Result<usize> {
        let value = self.value(inputs)?;
        usize::try_from(value).map_err(|_| negative(key, &Dim::Fixed(value)))
    }
}

fn negative(key: &'static str, found: &Dim) -> LayerError {
    LayerError::invalid(key, found, "it must not be negative")
}

/// The floating-point type of a result, f32 by default.
///
/// # Errors
/// [`LayerError::DType`] for any other type.
pub(crate) fn float_type(dtype: Option<DType>) -> Result<DType> {
    let dtype = dtype.unwrap_or(DType::F32);
    if dtype.is_float() { Ok(dtype) } else { Err(not_a_float("`dtype`", dtype)) }
}

/// A vector of floats, given the number at each position. It is called `what` if it exceeds the limits.
///
/// # Errors
/// [`LayerError::Limit`] if it is larger than the limits allow.
pub(crate) fn vector(
    what: &str,
    count: usize,
    dtype: DType,
    limits: &Limits,
    number: &dyn Fn(usize) -> f64,
) -> Result<Tensor> {
    limits.check_tensor(what, (count as u64).saturating_mul(8))?;
    let numbers: Vec<f64> = (0..count).map(number).collect();
    Ok(Tensor::from_vec(numbers, &[count])?.cast(dtype)?)
}

/// Implements [`Layer`](crate::op::Layer) and [`CpuLayer`](crate::op::CpuLayer) for operators all of whose inputs are fields, by
/// their methods `meta`, which returns the metadata of the only output, and `tensor`, which computes it.
macro_rules! counted_layers {
    ($($name:ident),+ $(,)?) => {
        $(
            impl $crate::op::Layer for $name {
                fn num_inputs(&self) -> std::ops::RangeInclusive<usize> {
                    $crate::op::exactly($crate::op::FromOperator::field_inputs(self))
                }

                fn infer(
                    &self,
                    inputs: &[$crate::op::TensorMeta],
                ) -> $crate::op::Result<Vec<$crate::op::TensorMeta>> {
                    Ok(vec![self.meta(inputs)?])
                }

                fn constant(
                    &self,
                    limits: &$crate::tensor::Limits,
                ) -> $crate::op::Result<Option<$crate::tensor::Tensor>> {
                    if $crate::op::FromOperator::field_inputs(self) > 0 {
                        return Ok(None);
                    }
                    self.tensor(&[], limits).map(Some)
                }

                fn is_data_dependent(&self) -> bool {
                    $crate::op::FromOperator::field_inputs(self) > 0
                }
            }

            impl $name {
                fn compute(
                    &self,
                    inputs: &[$crate::tensor::TensorView<'_>],
                    limits: &$crate::tensor::Limits,
                ) -> $crate::op::Result<Vec<$crate::tensor::Tensor>> {
                    Ok(vec![self.tensor(inputs, limits)?])
                }
            }
        )+

        $crate::support::dynamic::dynamic_layers!($($name),+);
    };
}

pub(crate) use counted_layers;
