//! Tensors created from the shape or the indices of another one, and random tensors.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::ElementType;
use super::lowering::Source;
use super::steps::OneHotEncode;
use crate::activation::softmax::Softmax;
use crate::creation::filled::{Arange, NumberArgument};
use crate::creation::random::draws::{Multinomial as Draws, RandOf};
use crate::creation::random::{RandLike, Randn, RandnLike};
use crate::op::{LayerError, Result, exactly};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::broadcast::TensorOrScalar;
use ixion_tensor::DType;
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

crate::operator! {
    /// `OneHot` (since 9): one-hot encoding. Each index becomes a new axis with one value at the index and another
    /// elsewhere. Negative indices count from the end; an index that is out of range selects no element.
    pub struct OneHot for "OneHot" {
        /// Position of the new axis in the output; a negative one counts from the end.
        axis: i64 = -1,
        /// Length of the new axis.
        depth: ParamOrInput<Vec<i64>>,
        /// The value elsewhere and the value at the index, in this order.
        values: InputIndex,
    }
}

crate::operator! {
    /// `Range` (since 11): the numbers from a start in steps of `delta` up to but excluding a limit, in the start's element type.
    pub struct Range for "Range" {
        /// The limit, a number or an input with one element.
        limit: TensorOrScalar,
        /// The difference of adjacent numbers.
        delta: TensorOrScalar,
    }
}

impl Decompose for Range {
    fn is_data_dependent(&self) -> bool {
        true
    }

    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("end", "limit"), ("step", "delta")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let mut inputs = vec![X];
        let mut number = |operand: TensorOrScalar| match operand {
            TensorOrScalar::Input(position) => {
                inputs.push(Source::Input(position));
                NumberArgument(Some(TensorOrScalar::Input(inputs.len() - 1)))
            }
            number => NumberArgument(Some(number)),
        };
        let (end, step) = (number(self.limit), number(self.delta));
        let start = NumberArgument(Some(TensorOrScalar::Input(0)));
        let layer = Arange { start, end, step, dtype: Some(decomposition.dtype(X)?) };
        Ok(vec![decomposition.then(layer, &inputs)?])
    }
}

macro_rules! random {
    ($($(#[doc = $doc:literal])* $name:ident is $layer:ident for $op_type:literal {
        $(#[doc = $first_doc:literal])* $first:ident = $first_value:literal,
        $(#[doc = $second_doc:literal])* $second:ident = $second_value:literal,
    } by $expression:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                $(#[doc = $first_doc])*
                $first: f64 = $first_value,
                $(#[doc = $second_doc])*
                $second: f64 = $second_value,
                /// Element type of the output, as its ONNX number; that of the input if absent.
                dtype: Option<ElementType> = None,
                /// Accepted for compatibility, without effect: ONNX does not define which random numbers follow from a
                /// seed.
                seed: Option<f64> = None,
            }
        }

        impl $name {
            /// The expression that turns standard random numbers into those of the distribution.
            fn expression(first: f64, second: f64) -> String {
                let (first, second) = (format!("{first:?}"), format!("{second:?}"));
                $expression.replace("first", &first).replace("second", &second)
            }
        }

        impl Decompose for $name {
            fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
                let dtype = self.dtype.map_or(decomposition.dtype(X)?, |dtype| dtype.0);
                let like = decomposition.cast(X, dtype)?;
                let random = decomposition.call::<$layer>(&[], &[(None, like)], 1)?;
                let random = decomposition.compute(&Self::expression(self.$first, self.$second), &[random])?;
                Ok(vec![decomposition.cast(random, dtype)?])
            }
        }
    )*};
}

random! {
    /// `RandomNormalLike` (since 1): normally distributed random numbers in the shape of a tensor.
    RandomNormalLike is RandnLike for "RandomNormalLike" {
        /// Mean of the distribution.
        mean = 0.0,
        /// Standard deviation of the distribution.
        scale = 1.0,
    } by "add(mul(@0,second),first)";

    /// `RandomUniformLike` (since 1): uniformly distributed random numbers in the shape of a tensor.
    RandomUniformLike is RandLike for "RandomUniformLike" {
        /// Lower bound, inclusive.
        low = 0.0,
        /// Upper bound, exclusive before numbers are rounded to the element type.
        high = 1.0,
    } by "add(mul(@0,sub(second,first)),first)";
}

macro_rules! random_of_shape {
    ($($(#[doc = $doc:literal])* $name:ident like $like:ident is $layer:ident for $op_type:literal {
        $(#[doc = $first_doc:literal])* $first:ident = $first_value:literal,
        $(#[doc = $second_doc:literal])* $second:ident = $second_value:literal,
    })*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                $(#[doc = $first_doc])*
                $first: f64 = $first_value,
                $(#[doc = $second_doc])*
                $second: f64 = $second_value,
                /// Element type of the output, as its ONNX number.
                dtype: ElementType = ElementType(DType::F32),
                /// Accepted for compatibility, without effect: ONNX does not define which random numbers follow from a
                /// seed.
                seed: Option<f64> = None,
                /// Shape of the output.
                shape: Vec<i64>,
            }
        }

        impl Decompose for $name {
            fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
                Some(exactly(0))
            }

            fn names(&self) -> &'static [(&'static str, &'static str)] {
                &[("size", "shape")]
            }

            fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
                let size: Vec<String> = self.shape.iter().map(i64::to_string).collect();
                let dtype = match self.dtype.0 {
                    DType::F64 => "torch.double",
                    DType::F16 => "torch.half",
                    DType::Bf16 => "torch.bfloat16",
                    DType::F32 => "torch.float",
                    other => return Err(LayerError::dtype("random numbers", "floats", other)),
                };
                let size = format!("({})", size.join(","));
                let random = decomposition.call::<$layer>(&[("size", &size), ("dtype", dtype)], &[], 1)?;
                let random = decomposition.compute(&$like::expression(self.$first, self.$second), &[random])?;
                Ok(vec![decomposition.cast(random, self.dtype.0)?])
            }
        }
    )*};
}

random_of_shape! {
    /// `RandomNormal` (since 1): normally distributed random numbers.
    RandomNormal like RandomNormalLike is Randn for "RandomNormal" {
        /// Mean of the distribution.
        mean = 0.0,
        /// Standard deviation of the distribution.
        scale = 1.0,
    }

    /// `RandomUniform` (since 1): uniformly distributed random numbers.
    RandomUniform like RandomUniformLike is RandOf for "RandomUniform" {
        /// Lower bound, inclusive.
        low = 0.0,
        /// Upper bound, exclusive before numbers are rounded to the element type.
        high = 1.0,
    }
}

crate::operator! {
    /// `Multinomial` (since 7): classes drawn at random for each row of N×classes unnormalised log-probabilities.
    pub struct Multinomial for "Multinomial" {
        /// Element type of the output, as its ONNX number.
        dtype: ElementType = ElementType(DType::I32),
        /// Number of draws per row.
        sample_size: usize = 1,
        /// Accepted for compatibility, without effect: ONNX does not define which random numbers follow from a seed.
        seed: Option<f64> = None,
    }
}

impl Decompose for Multinomial {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("num_samples", "sample_size")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let chances = decomposition.call::<Softmax>(&[("dim", "-1")], &[(None, X)], 1)?;
        let count = self.sample_size.to_string();
        let params = [("num_samples", count.as_str()), ("replacement", "True")];
        let places = decomposition.call::<Draws>(&params, &[(None, chances)], 1)?;
        Ok(vec![decomposition.cast(places, self.dtype.0)?])
    }
}

impl Decompose for OneHot {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let depth = self.depth.dims(decomposition.inputs())?;
        let [depth] = depth.as_slice() else {
            return Err(LayerError::shape("`depth`", "one value", format!("{} values", depth.len())));
        };
        let layer = OneHotEncode { axis: self.axis, depth: depth.clone() };
        Ok(vec![decomposition.step(layer, &[X, Source::Input(self.values.0)])?])
    }
}

operators! {
    entry => OneHot, Range, RandomNormalLike, RandomUniformLike, RandomNormal, RandomUniform, Multinomial
}
