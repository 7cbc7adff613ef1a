//! Functions of single elements.

use super::fields::{ElementType, Flag, Optional};
use super::recipe::{Recipe, Source};
use super::steps::Determinant;
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::activation::elementwise::{ELU, Sigmoid, Softsign as TorchSoftsign, Threshold};
use crate::ops::arithmetic::bitwise::{LeftShift, RightShift};
use crate::ops::arithmetic::comparison::{Eq, Gt, IsInf as TorchIsInf, IsNan as TorchIsNan, Lt};
use crate::ops::creation::random::RandLike;
use crate::ops::indexing::selection::{Clamp, Where};
use crate::ops::support::arguments::{InputCount, Operand};
use crate::ops::support::broadcast::Factor;
use crate::ops::support::choices::choices;
use crate::ops::support::ready::Ready;
use crate::tensor::Scalar;
use std::ops::RangeInclusive;

/// The only input of most of these operators.
const X: Source = Source::Input(0);

crate::operator! {
    /// `IsInf` (since 10): whether an element is infinite.
    pub struct IsInf for "IsInf" {
        /// Whether -∞ counts.
        detect_negative: Flag = Flag::of(1),
        /// Whether +∞ counts.
        detect_positive: Flag = Flag::of(1),
    }
}

crate::operator! {
    /// `IsNaN` (since 9): whether an element is NaN.
    pub struct IsNan for "IsNaN" {}
}

crate::operator! {
    /// `Selu` (since 1): gamma · x where x is above 0, else gamma · alpha · (eˣ − 1).
    pub struct Selu for "Selu" {
        /// What powers of e are multiplied by.
        alpha: f64 = 1.673_263_192_176_818_8,
        /// What everything is multiplied by.
        gamma: f64 = 1.050_701_022_148_132_3,
    }
}

crate::operator! {
    /// `Shrink` (since 9): x + bias where x is below −lambd, x − bias where it is above lambd, else 0.
    pub struct Shrink for "Shrink" {
        /// By how much elements move towards 0.
        bias: f64 = 0.0,
        /// The magnitude above which elements stay.
        lambd: f64 = 0.5,
    }
}

crate::operator! {
    /// `Softsign` (since 1): x / (1 + |x|).
    pub struct Softsign for "Softsign" {}
}

crate::operator! {
    /// `Swish` (since 24): x · sigmoid(alpha · x).
    pub struct Swish for "Swish" {
        /// How steep the sigmoid is.
        alpha: f64 = 1.0,
    }
}

crate::operator! {
    /// `ThresholdedRelu` (since 10): x where x is above alpha, else 0.
    pub struct ThresholdedRelu for "ThresholdedRelu" {
        /// The threshold.
        alpha: f64 = 1.0,
    }
}

crate::operator! {
    /// `PRelu` (since 7): x where x is at least 0, else slope · x. The slope is broadcast to the input from its last axis
    /// on.
    pub struct PRelu for "PRelu" {
        /// The slope.
        slope: Operand,
    }
}

crate::operator! {
    /// `Mean` (since 1): the mean of all inputs, which are broadcast.
    pub struct Mean for "Mean" {
        /// How many there are.
        inputs: InputCount,
    }
}

choices! {
    /// Where bits go.
    pub enum Direction {
        /// To higher places.
        Left = "LEFT",
        /// To lower places.
        Right = "RIGHT",
    }
}

crate::operator! {
    /// `BitShift` (since 11): bits moved by as many places as the second input says.
    pub struct BitShift for "BitShift" {
        /// Where they go.
        direction: Direction,
        /// By how many places, broadcast.
        by as "Y": Operand,
    }
}

crate::operator! {
    /// `Bernoulli` (since 15): 1 with the probability that an element is, else 0.
    pub struct Bernoulli for "Bernoulli" {
        /// The element type of the output, by its number; that of the input where absent.
        dtype: Option<ElementType> = None,
        /// Accepted for compatibility: ONNX leaves open what random numbers follow from it.
        seed: Option<f64> = None,
    }
}

crate::operator! {
    /// `Clip` (since 1): elements kept between two others. Of a single bound it is the lower one.
    pub struct Clip for "Clip" {
        /// The least that stays.
        min: Optional = Optional(None),
        /// The most that stays.
        max: Optional = Optional(None),
    }
}

crate::operator! {
    /// `CastLike` (since 15): the input converted to the element type of another tensor.
    pub struct CastLike for "CastLike" {
        /// The other tensor.
        target_type: Operand,
    }
}

crate::operator! {
    /// `Det` (since 11): the determinants of square matrices.
    pub struct Det for "Det" {}
}

crate::operator! {
    /// `Mod` (since 10): the remainder of a division, with the sign of the divisor; or of the dividend.
    pub struct Mod for "Mod" {
        /// Whether the sign is that of the dividend.
        fmod: Flag = Flag::of(0),
        /// The divisor, broadcast.
        b as "B": Operand,
    }
}

impl Translate for Mod {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let expression = if self.fmod.0 { "fmod(@0,@1)" } else { "remainder(@0,@1)" };
        Ok(vec![recipe.compute(expression, &[X, Source::Input(self.b.0)])?])
    }
}

impl Translate for Clip {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.min.count() + self.max.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let bounds = [self.min, self.max].map(|bound| bound.0.map(Factor::Input));
        let inputs: Vec<Source> = (0..recipe.inputs().len()).map(Source::Input).collect();
        Ok(vec![match bounds {
            [None, None] => X,
            [min, max] => recipe.then(Clamp { min, max, ready: Ready::default() }, &inputs)?,
        }])
    }
}

impl Translate for CastLike {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let dtype = recipe.dtype(Source::Input(self.target_type.0))?;
        Ok(vec![recipe.cast(X, dtype)?])
    }
}

impl Translate for Det {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        Ok(vec![recipe.step(Determinant, &[X])?])
    }
}

fn number(value: f64) -> Factor {
    Factor::Number(Scalar::Float(value))
}

impl Translate for IsInf {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let is = |value: f64| Eq { other: number(value) };
        Ok(vec![match (self.detect_negative.0, self.detect_positive.0) {
            (true, true) => recipe.then(TorchIsInf {}, &[X])?,
            (true, false) => recipe.then(is(f64::NEG_INFINITY), &[X])?,
            (false, true) => recipe.then(is(f64::INFINITY), &[X])?,
            // Nothing equals NaN.
            (false, false) => recipe.then(is(f64::NAN), &[X])?,
        }])
    }
}

impl Translate for IsNan {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        Ok(vec![recipe.then(TorchIsNan {}, &[X])?])
    }
}

impl Translate for Selu {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let elu = recipe.then(ELU { alpha: self.alpha }, &[X])?;
        Ok(vec![recipe.compute(&format!("mul(@0,{:?})", self.gamma), &[elu])?])
    }
}

impl Translate for Shrink {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let dtype = recipe.dtype(X)?;
        let is_below = recipe.then(Lt { other: number(-self.lambd) }, &[X])?;
        let is_above = recipe.then(Gt { other: number(self.lambd) }, &[X])?;
        let up = recipe.compute(&format!("add(@0,{:?})", self.bias), &[X])?;
        let down = recipe.compute(&format!("sub(@0,{:?})", self.bias), &[X])?;
        let zero = Factor::Number(Scalar::Int(0));
        let down = recipe.then(Where { input: Factor::Input(1), other: zero }, &[is_above, down])?;
        let (input, other) = (Factor::Input(1), Factor::Input(2));
        let shrunk = recipe.then(Where { input, other }, &[is_below, up, down])?;
        Ok(vec![recipe.cast(shrunk, dtype)?])
    }
}

impl Translate for Softsign {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        Ok(vec![recipe.then(TorchSoftsign {}, &[X])?])
    }
}

impl Translate for Swish {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let steep = recipe.compute(&format!("mul(@0,{:?})", self.alpha), &[X])?;
        let gate = recipe.then(Sigmoid {}, &[steep])?;
        Ok(vec![recipe.compute("mul(@0,@1)", &[X, gate])?])
    }
}

impl Translate for ThresholdedRelu {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let layer = Threshold { threshold: self.alpha, value: 0.0 };
        Ok(vec![recipe.then(layer, &[X])?])
    }
}

impl Translate for PRelu {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let is_negative = recipe.then(Lt { other: number(0.0) }, &[X])?;
        let steep = recipe.compute("mul(@0,@1)", &[X, Source::Input(self.slope.0)])?;
        let (input, other) = (Factor::Input(1), Factor::Input(2));
        Ok(vec![recipe.then(Where { input, other }, &[is_negative, steep, X])?])
    }
}

impl Translate for Mean {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.inputs.0.max(1)..=self.inputs.0.max(1)
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let mut sum = X;
        for position in 1..self.inputs.0 {
            sum = recipe.compute("add(@0,@1)", &[sum, Source::Input(position)])?;
        }
        Ok(vec![recipe.compute(&format!("div(@0,{})", self.inputs.0.max(1)), &[sum])?])
    }
}

impl Translate for BitShift {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (inputs, other) = ([X, Source::Input(self.by.0)], Factor::Input(1));
        Ok(vec![match self.direction {
            Direction::Left => recipe.then(LeftShift { other }, &inputs)?,
            Direction::Right => recipe.then(RightShift { other }, &inputs)?,
        }])
    }
}

impl Translate for Bernoulli {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let dtype = self.dtype.map_or(recipe.dtype(X)?, |dtype| dtype.0);
        let random = recipe.call::<RandLike>(&[], &[(None, X)], 1)?;
        let is_below = recipe.then(Lt { other: Factor::Input(1) }, &[random, X])?;
        Ok(vec![recipe.cast(is_below, dtype)?])
    }
}

operators! {
    entry => IsInf, IsNan, Selu, Shrink, Softsign, Swish, ThresholdedRelu, PRelu, Mean, BitShift, Mod, Clip, CastLike, Det,
    Bernoulli
}
