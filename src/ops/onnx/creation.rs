//! Tensors that are made from another one's shape or indices.

use super::fields::ElementType;
use super::recipe::{Recipe, Source};
use super::steps::OneAt;
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::activation::softmax::Softmax;
use crate::ops::creation::random::draws::{Multinomial as Draws, RandOf};
use crate::ops::creation::random::{RandLike, Randn, RandnLike};
use crate::ops::support::arguments::{Argument, Operand};
use crate::tensor::DType;
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

crate::operator! {
    /// `OneHot` (since 9): for each index a new axis with one value there and another elsewhere. An index may count from
    /// the end; one that is outside is nowhere.
    pub struct OneHot for "OneHot" {
        /// Where the new axis stands in the output; may count from its end.
        axis: i64 = -1,
        /// The length of the new axis.
        depth: Argument<Vec<i64>>,
        /// The value elsewhere, and the value at the index.
        values: Operand,
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
                /// The element type of the output, by its number; that of the input where absent.
                dtype: Option<ElementType> = None,
                /// Accepted for compatibility: ONNX leaves open what random numbers follow from it.
                seed: Option<f64> = None,
            }
        }

        impl $name {
            /// What makes of simple random numbers those of the distribution.
            fn expression(first: f64, second: f64) -> String {
                let (first, second) = (format!("{first:?}"), format!("{second:?}"));
                $expression.replace("first", &first).replace("second", &second)
            }
        }

        impl Translate for $name {
            fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
                let dtype = self.dtype.map_or(recipe.dtype(X)?, |dtype| dtype.0);
                let like = recipe.cast(X, dtype)?;
                let random = recipe.call::<$layer>(&[], &[(None, like)], 1)?;
                let random = recipe.compute(&Self::expression(self.$first, self.$second), &[random])?;
                Ok(vec![recipe.cast(random, dtype)?])
            }
        }
    )*};
}

random! {
    /// `RandomNormalLike` (since 1): numbers of a normal distribution in the shape of a tensor.
    RandomNormalLike is RandnLike for "RandomNormalLike" {
        /// The mean.
        mean = 0.0,
        /// The standard deviation.
        scale = 1.0,
    } by "add(mul(@0,second),first)";

    /// `RandomUniformLike` (since 1): numbers between two others, all as likely, in the shape of a tensor.
    RandomUniformLike is RandLike for "RandomUniformLike" {
        /// The least.
        low = 0.0,
        /// What all are below before they are rounded to the element type.
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
                /// The element type, by its number.
                dtype: ElementType = ElementType(DType::F32),
                /// Accepted for compatibility: ONNX leaves open what random numbers follow from it.
                seed: Option<f64> = None,
                /// The shape.
                shape: Vec<i64>,
            }
        }

        impl Translate for $name {
            fn names(&self) -> &'static [(&'static str, &'static str)] {
                &[("size", "shape")]
            }

            fn num_inputs(&self) -> RangeInclusive<usize> {
                0..=0
            }

            fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
                let size: Vec<String> = self.shape.iter().map(i64::to_string).collect();
                let dtype = match self.dtype.0 {
                    DType::F64 => "torch.double",
                    DType::F16 => "torch.half",
                    DType::Bf16 => "torch.bfloat16",
                    DType::F32 => "torch.float",
                    other => return Err(LayerError::dtype("random numbers", "floats", other)),
                };
                let size = format!("({})", size.join(","));
                let random = recipe.call::<$layer>(&[("size", &size), ("dtype", dtype)], &[], 1)?;
                let random = recipe.compute(&$like::expression(self.$first, self.$second), &[random])?;
                Ok(vec![recipe.cast(random, self.dtype.0)?])
            }
        }
    )*};
}

random_of_shape! {
    /// `RandomNormal` (since 1): numbers of a normal distribution.
    RandomNormal like RandomNormalLike is Randn for "RandomNormal" {
        /// The mean.
        mean = 0.0,
        /// The standard deviation.
        scale = 1.0,
    }

    /// `RandomUniform` (since 1): numbers between two others, all as likely.
    RandomUniform like RandomUniformLike is RandOf for "RandomUniform" {
        /// The least.
        low = 0.0,
        /// What all are below before they are rounded to the element type.
        high = 1.0,
    }
}

crate::operator! {
    /// `Multinomial` (since 7): places of each row of N×classes, drawn with probabilities whose logarithms stand there but
    /// for a constant.
    pub struct Multinomial for "Multinomial" {
        /// The element type of the output, by its number.
        dtype: ElementType = ElementType(DType::I32),
        /// How many places are drawn for each row.
        sample_size: usize = 1,
        /// Accepted for compatibility: ONNX leaves open what random numbers follow from it.
        seed: Option<f64> = None,
    }
}

impl Translate for Multinomial {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("num_samples", "sample_size")]
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let chances = recipe.call::<Softmax>(&[("dim", "-1")], &[(None, X)], 1)?;
        let count = self.sample_size.to_string();
        let params = [("num_samples", count.as_str()), ("replacement", "True")];
        let places = recipe.call::<Draws>(&params, &[(None, chances)], 1)?;
        Ok(vec![recipe.cast(places, self.dtype.0)?])
    }
}

impl Translate for OneHot {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.depth.num_inputs();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let depth = self.depth.dims(recipe.inputs())?;
        let [depth] = depth.as_slice() else {
            return Err(LayerError::shape("`depth`", "one number", depth.len()));
        };
        let layer = OneAt { axis: self.axis, depth: depth.clone() };
        Ok(vec![recipe.step(layer, &[X, Source::Input(self.values.0)])?])
    }
}

operators! {
    entry => OneHot, RandomNormalLike, RandomUniformLike, RandomNormal, RandomUniform, Multinomial
}
