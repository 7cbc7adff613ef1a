//! Normalisation by statistics of the input.

use super::fields::Flag;
use super::recipe::{Recipe, Source};
use super::steps::InShape;
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::reduction::along_axes::{Mean, Norm, Power, Unbiased, Variance};
use crate::ops::support::arguments::{Accumulator, Operand, OutputCount};
use crate::tensor::Dim;
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

crate::operator! {
    /// `MeanVarianceNormalization` (since 9): elements less their mean, over their standard deviation.
    pub struct MeanVarianceNormalization for "MeanVarianceNormalization" {
        /// The axes along which both are taken; may count from the end.
        axes: Vec<i64> = vec![0, 2, 3],
    }
}

crate::operator! {
    /// `BatchNormalization` (since 15) as it is trained: by the statistics of this batch, N×C×…, with the running ones moved
    /// towards them as further outputs.
    pub struct BatchNormalization for "BatchNormalization" {
        /// What is added to variances.
        epsilon: f64 = 1e-5,
        /// What share of the running statistics stays.
        momentum: f64 = 0.9,
        /// Whether the statistics are those of this batch, instead of the running ones.
        training_mode: Flag = Flag::of(0),
        /// A factor for each channel.
        scale: Operand,
        /// What is added to each channel.
        b as "B": Operand,
        /// The running mean of each channel.
        input_mean: Operand,
        /// The running variance of each channel.
        input_var: Operand,
        /// How many outputs the file lists.
        outputs: OutputCount,
    }
}

crate::operator! {
    /// `GlobalLpPool` (since 1): (Σ|x|ᵖ)^(1/p) of all elements of a channel, N×C×….
    pub struct GlobalLpPool for "GlobalLpPool" {
        /// The order of the norm.
        p: i64 = 2,
    }
}

fn mean(recipe: &mut Recipe, x: Source, axes: &[i64]) -> Result<Source, LayerError> {
    recipe.then(Mean { dtype: Accumulator(None), dim: Some(axes.to_vec()), keepdim: true }, &[x])
}

/// The variance of all elements along axes, as of a whole population.
fn variance(recipe: &mut Recipe, x: Source, axes: &[i64]) -> Result<Source, LayerError> {
    let (correction, unbiased) = (Some(0.0), Unbiased(0.0));
    recipe.then(Variance { correction, unbiased, dim: Some(axes.to_vec()), keepdim: true }, &[x])
}

impl Translate for MeanVarianceNormalization {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axes")]
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (mean, variance) = (mean(recipe, X, &self.axes)?, variance(recipe, X, &self.axes)?);
        Ok(vec![recipe.compute("div(sub(@0,@1),add(sqrt(@2),1e-9))", &[X, mean, variance])?])
    }
}

impl Translate for BatchNormalization {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        5..=5
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, if self.training_mode.0 { 3 } else { 1 })
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let meta = recipe.meta(X)?.clone();
        let Some(channels) = meta.dims().get(1).cloned() else {
            return Err(LayerError::shape("the input", "N×C×…", meta));
        };
        let mut dims = vec![Dim::Fixed(1); meta.rank()];
        dims[1] = channels.clone();
        let axes: Vec<i64> = (0..meta.rank() as i64).filter(|axis| *axis != 1).collect();
        let inputs = [self.scale, self.b, self.input_mean, self.input_var];
        let mut given = inputs.map(|input| Source::Input(input.0));
        for source in &mut given {
            *source = recipe.step(InShape(dims.clone()), &[*source])?;
        }
        let [scale, bias, old_mean, old_variance] = given;
        let [mean, variance] = match self.training_mode.0 {
            true => [mean(recipe, X, &axes)?, variance(recipe, X, &axes)?],
            false => [old_mean, old_variance],
        };
        let expression = format!("add(mul(div(sub(@0,@1),sqrt(add(@2,{:?}))),@3),@4)", self.epsilon);
        let mut outputs = vec![recipe.compute(&expression, &[X, mean, variance, scale, bias])?];
        let moved = format!("add(mul(@0,{:?}),mul(@1,{:?}))", self.momentum, 1.0 - self.momentum);
        for pair in [[old_mean, mean], [old_variance, variance]].iter().take(self.num_outputs() - 1) {
            let moved = recipe.compute(&moved, pair)?;
            outputs.push(recipe.step(InShape(vec![channels.clone()]), &[moved])?);
        }
        Ok(outputs)
    }
}

impl Translate for GlobalLpPool {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let rank = recipe.rank(X)?;
        if rank < 3 {
            return Err(LayerError::shape("the input", "N×C×…", recipe.meta(X)?));
        }
        let (p, dim) = (Power(self.p as f64), Some((2..rank as i64).collect()));
        Ok(vec![recipe.then(Norm { p, dtype: Accumulator(None), dim, keepdim: true }, &[X])?])
    }
}

operators! { entry => MeanVarianceNormalization, BatchNormalization, GlobalLpPool }
