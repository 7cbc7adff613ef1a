//! Element-wise functions.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::{ElementType, Flag, Optional};
use super::lowering::Source;
use super::steps::Determinant;
use crate::activation::elementwise::{ELU, Sigmoid, Softsign as TorchSoftsign, Threshold};
use crate::activation::gating::PRelu as TorchPRelu;
use crate::arithmetic::bitwise::{LeftShift, RightShift};
use crate::arithmetic::comparison::{Eq, Gt, IsInf as TorchIsInf, IsNan as TorchIsNan, Lt};
use crate::creation::random::RandLike;
use crate::indexing::selection::{Clamp, Where};
use crate::op::{Result, TensorMeta, Weight};
use crate::support::arguments::{InputCount, InputIndex};
use crate::support::broadcast::TensorOrScalar;
use crate::support::choices::choices;
use crate::support::int8::Lookup;
use crate::support::shape_cache::ShapeCache;
use ixion_tensor::{Dim, Scalar};
use std::ops::RangeInclusive;

/// The only input of most of these operators.
const X: Source = Source::Input(0);

crate::operator! {
    /// `IsInf` (since 10): whether each element is infinite.
    pub struct IsInf for "IsInf" {
        /// Whether -∞ counts.
        detect_negative: Flag = Flag::of(1),
        /// Whether +∞ counts.
        detect_positive: Flag = Flag::of(1),
    }
}

crate::operator! {
    /// `IsNaN` (since 9): whether each element is NaN.
    pub struct IsNan for "IsNaN" {}
}

crate::operator! {
    /// `Selu` (since 1): gamma · x if x > 0, else gamma · alpha · (eˣ − 1).
    pub struct Selu for "Selu" {
        /// Factor of the exponential.
        alpha: f64 = 1.673_263_192_176_818_8,
        /// Factor of the result.
        gamma: f64 = 1.050_701_022_148_132_3,
    }
}

crate::operator! {
    /// `Shrink` (since 9): x + bias if x < −lambd, x − bias if x > lambd, else 0.
    pub struct Shrink for "Shrink" {
        /// Distance by which elements move towards 0.
        bias: f64 = 0.0,
        /// Threshold of the absolute value, up to which results are 0.
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
        /// Factor of the sigmoid's argument.
        alpha: f64 = 1.0,
    }
}

crate::operator! {
    /// `ThresholdedRelu` (since 10): x if x > alpha, else 0.
    pub struct ThresholdedRelu for "ThresholdedRelu" {
        /// The threshold.
        alpha: f64 = 1.0,
    }
}

crate::operator! {
    /// `PRelu` (since 7): x if x ≥ 0, else slope · x. The slope is broadcast to the input, aligned at the last axis.
    pub struct PRelu for "PRelu" {
        /// The slope.
        slope: InputIndex,
    }
}

crate::operator! {
    /// `Mean` (since 1): the element-wise mean of all inputs, which are broadcast.
    pub struct Mean for "Mean" {
        /// Number of inputs.
        inputs: InputCount,
    }
}

choices! {
    /// The direction of a bit shift.
    pub enum ShiftDirection {
        /// Towards the high bits.
        Left = "LEFT",
        /// Towards the low bits.
        Right = "RIGHT",
    }
}

crate::operator! {
    /// `BitShift` (since 11): the bits of the first input shifted by the second input.
    pub struct BitShift for "BitShift" {
        /// Direction of the shift.
        direction: ShiftDirection,
        /// Number of bits to shift by, broadcast.
        by as "Y": InputIndex,
    }
}

crate::operator! {
    /// `Bernoulli` (since 15): random numbers, 1 with the probability that the element gives, else 0.
    pub struct Bernoulli for "Bernoulli" {
        /// Element type of the output, as its ONNX number; that of the input if absent.
        dtype: Option<ElementType> = None,
        /// Accepted for compatibility, without effect: ONNX does not define which random numbers follow from a seed.
        seed: Option<f64> = None,
    }
}

crate::operator! {
    /// `Clip` (since 1): elements clamped between two bounds. A single bound is the lower one.
    pub struct Clip for "Clip" {
        /// Lower bound.
        min: Optional = Optional(None),
        /// Upper bound.
        max: Optional = Optional(None),
    }
}

crate::operator! {
    /// `CastLike` (since 15): the input cast to the element type of another tensor.
    pub struct CastLike for "CastLike" {
        /// The other tensor.
        target_type: InputIndex,
    }
}

crate::operator! {
    /// `Det` (since 11): the determinants of square matrices.
    pub struct Det for "Det" {}
}

crate::operator! {
    /// `Mod` (since 10): the remainder of a division, with the sign of the divisor, or with `fmod` that of the
    /// dividend.
    pub struct Mod for "Mod" {
        /// Whether the result has the sign of the dividend.
        fmod: Flag = Flag::of(0),
        /// The divisor, broadcast.
        b as "B": InputIndex,
    }
}

impl Decompose for Mod {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let expression = if self.fmod.0 { "fmod(@0,@1)" } else { "remainder(@0,@1)" };
        Ok(vec![decomposition.compute(expression, &[X, Source::Input(self.b.0)])?])
    }
}

impl Decompose for Clip {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let bounds = [self.min, self.max].map(|bound| bound.0.map(TensorOrScalar::Input));
        let inputs: Vec<Source> = (0..decomposition.inputs().len()).map(Source::Input).collect();
        Ok(vec![match bounds {
            [None, None] => X,
            [min, max] => decomposition.then(Clamp { min, max, ready: ShapeCache::default() }, &inputs)?,
        }])
    }
}

impl Decompose for CastLike {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let dtype = decomposition.dtype(Source::Input(self.target_type.0))?;
        Ok(vec![decomposition.cast(X, dtype)?])
    }
}

impl Decompose for Det {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        Ok(vec![decomposition.step(Determinant, &[X])?])
    }
}

fn number(value: f64) -> TensorOrScalar {
    TensorOrScalar::Number(Scalar::Float(value))
}

impl Decompose for IsInf {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let is = |value: f64| Eq { other: number(value) };
        Ok(vec![match (self.detect_negative.0, self.detect_positive.0) {
            (true, true) => decomposition.then(TorchIsInf {}, &[X])?,
            (true, false) => decomposition.then(is(f64::NEG_INFINITY), &[X])?,
            (false, true) => decomposition.then(is(f64::INFINITY), &[X])?,
            // Nothing equals NaN.
            (false, false) => decomposition.then(is(f64::NAN), &[X])?,
        }])
    }
}

impl Decompose for IsNan {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        Ok(vec![decomposition.then(TorchIsNan {}, &[X])?])
    }
}

impl Decompose for Selu {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let elu = decomposition.then(ELU { alpha: self.alpha, lookup: Lookup::default() }, &[X])?;
        Ok(vec![decomposition.compute(&format!("mul(@0,{:?})", self.gamma), &[elu])?])
    }
}

impl Decompose for Shrink {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let dtype = decomposition.dtype(X)?;
        let is_below = decomposition.then(Lt { other: number(-self.lambd) }, &[X])?;
        let is_above = decomposition.then(Gt { other: number(self.lambd) }, &[X])?;
        let up = decomposition.compute(&format!("add(@0,{:?})", self.bias), &[X])?;
        let down = decomposition.compute(&format!("sub(@0,{:?})", self.bias), &[X])?;
        let zero = TensorOrScalar::Number(Scalar::Int(0));
        let down =
            decomposition.then(Where { input: TensorOrScalar::Input(1), other: zero }, &[is_above, down])?;
        let (input, other) = (TensorOrScalar::Input(1), TensorOrScalar::Input(2));
        let shrunk = decomposition.then(Where { input, other }, &[is_below, up, down])?;
        Ok(vec![decomposition.cast(shrunk, dtype)?])
    }
}

impl Decompose for Softsign {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        Ok(vec![decomposition.then(TorchSoftsign { lookup: Lookup::default() }, &[X])?])
    }
}

impl Decompose for Swish {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let steep = decomposition.compute(&format!("mul(@0,{:?})", self.alpha), &[X])?;
        let gate = decomposition.then(Sigmoid { lookup: Lookup::default() }, &[steep])?;
        Ok(vec![decomposition.compute("mul(@0,@1)", &[X, gate])?])
    }
}

impl Decompose for ThresholdedRelu {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let layer = Threshold { threshold: self.alpha, value: 0.0, lookup: Lookup::default() };
        Ok(vec![decomposition.then(layer, &[X])?])
    }
}

impl PRelu {
    /// The number of slopes, if there is one for all elements or one for each channel of a batch.
    fn channels(x: &TensorMeta, slope: &TensorMeta) -> Option<i64> {
        let count = slope.num_elements().fixed().filter(|count| *count >= 1)?;
        // Slopes are aligned at the last axis.
        let before = x.rank().checked_sub(slope.rank())?;
        let axis = slope.dims().iter().position(|len| len.fixed() != Some(1));
        let is_of_channels =
            axis.is_none_or(|axis| before + axis == 1 && slope.dims().get(axis) == x.dims().get(1));
        let rest_is_one = || slope.dims().iter().filter(|len| len.fixed() != Some(1)).count() <= 1;
        (x.dtype().is_float() && is_of_channels && rest_is_one()).then_some(count)
    }
}

impl Decompose for PRelu {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let slope = Source::Input(self.slope.0);
        if let Some(count) = Self::channels(decomposition.meta(X)?, decomposition.meta(slope)?) {
            let slopes = match decomposition.rank(slope)? {
                1 => slope,
                _ => decomposition.reshape(vec![Dim::Fixed(count)], slope)?,
            };
            let layer = TorchPRelu { num_parameters: None, weight: Weight::Input(1) };
            return Ok(vec![decomposition.then(layer, &[X, slopes])?]);
        }
        let is_negative = decomposition.then(Lt { other: number(0.0) }, &[X])?;
        let steep = decomposition.compute("mul(@0,@1)", &[X, slope])?;
        let (input, other) = (TensorOrScalar::Input(1), TensorOrScalar::Input(2));
        Ok(vec![decomposition.then(Where { input, other }, &[is_negative, steep, X])?])
    }
}

impl Decompose for Mean {
    fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
        Some(self.inputs.0.max(1)..=self.inputs.0.max(1))
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let mut sum = X;
        for position in 1..self.inputs.0 {
            sum = decomposition.compute("add(@0,@1)", &[sum, Source::Input(position)])?;
        }
        Ok(vec![decomposition.compute(&format!("div(@0,{})", self.inputs.0.max(1)), &[sum])?])
    }
}

impl Decompose for BitShift {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (inputs, other) = ([X, Source::Input(self.by.0)], TensorOrScalar::Input(1));
        Ok(vec![match self.direction {
            ShiftDirection::Left => decomposition.then(LeftShift { other }, &inputs)?,
            ShiftDirection::Right => decomposition.then(RightShift { other }, &inputs)?,
        }])
    }
}

impl Decompose for Bernoulli {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let dtype = self.dtype.map_or(decomposition.dtype(X)?, |dtype| dtype.0);
        let random = decomposition.call::<RandLike>(&[], &[(None, X)], 1)?;
        let is_below = decomposition.then(Lt { other: TensorOrScalar::Input(1) }, &[random, X])?;
        Ok(vec![decomposition.cast(is_below, dtype)?])
    }
}

operators! {
    entry => IsInf, IsNan, Selu, Shrink, Softsign, Swish, ThresholdedRelu, PRelu, Mean, BitShift, Mod, Clip, CastLike, Det,
    Bernoulli; category Elementwise
}
