//! Normalisation by statistics of the input.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Flag;
use super::lowering::Source;
use crate::op::{LayerError, Result};
use crate::reduction::along_axes::{Mean, Norm, Power, Unbiased, Variance};
use crate::support::arguments::{Accumulator, InputIndex, OutputCount};
use ixion_tensor::Dim;

const X: Source = Source::Input(0);

crate::operator! {
    /// `MeanVarianceNormalization` (since 9): (x − mean) / standard deviation, along axes.
    pub struct MeanVarianceNormalization for "MeanVarianceNormalization" {
        /// Axes of the mean and the standard deviation; negative ones count from the end.
        axes: Vec<i64> = vec![0, 2, 3],
    }
}

crate::operator! {
    /// `BatchNormalization` (since 15) in training mode: N×C×… normalised by the statistics of the batch. Further
    /// outputs are the updated running statistics. Otherwise normalised by these, which may have another type.
    pub struct BatchNormalization for "BatchNormalization" {
        /// Added to the variance.
        epsilon: f64 = 1e-5,
        /// Weight of the old running statistics in the updated ones.
        momentum: f64 = 0.9,
        /// Whether to normalise by the statistics of the batch, instead of the running ones.
        training_mode: Flag = Flag::of(0),
        /// Scale of each channel.
        scale: InputIndex,
        /// Bias of each channel.
        b as "B": InputIndex,
        /// Running mean of each channel.
        input_mean: InputIndex,
        /// Running variance of each channel.
        input_var: InputIndex,
        /// Number of outputs that the file lists.
        outputs: OutputCount,
    }
}

crate::operator! {
    /// `GlobalLpPool` (since 1): (Σ|x|ᵖ)^(1/p) over all elements of each channel, N×C×….
    pub struct GlobalLpPool for "GlobalLpPool" {
        /// Order of the norm.
        p: i64 = 2,
    }
}

fn mean(decomposition: &mut Decomposition, x: Source, axes: &[i64]) -> Result<Source> {
    decomposition.then(Mean { dtype: Accumulator(None), dim: Some(axes.to_vec()), keepdim: true }, &[x])
}

/// The population variance along axes.
fn variance(decomposition: &mut Decomposition, x: Source, axes: &[i64]) -> Result<Source> {
    let (correction, unbiased) = (Some(0.0), Unbiased(0.0));
    decomposition.then(Variance { correction, unbiased, dim: Some(axes.to_vec()), keepdim: true }, &[x])
}

impl Decompose for MeanVarianceNormalization {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axes")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (mean, variance) = (mean(decomposition, X, &self.axes)?, variance(decomposition, X, &self.axes)?);
        Ok(vec![decomposition.compute("div(sub(@0,@1),add(sqrt(@2),1e-9))", &[X, mean, variance])?])
    }
}

impl Decompose for BatchNormalization {
    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, if self.training_mode.0 { 3 } else { 1 })
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let meta = decomposition.meta(X)?.clone();
        let Some(channels) = meta.dims().get(1).cloned() else {
            return Err(LayerError::shape("the input", "N×C×…", meta));
        };
        let mut dims = vec![Dim::Fixed(1); meta.rank()];
        dims[1] = channels.clone();
        let axes: Vec<i64> = (0..meta.rank() as i64).filter(|axis| *axis != 1).collect();
        let inputs = [self.scale, self.b, self.input_mean, self.input_var];
        let mut given = inputs.map(|input| Source::Input(input.0));
        for source in &mut given {
            *source = decomposition.reshape(dims.clone(), *source)?;
        }
        let [scale, bias, old_mean, old_variance] = given;
        let [mean, variance] = match self.training_mode.0 {
            true => [mean(decomposition, X, &axes)?, variance(decomposition, X, &axes)?],
            false => [old_mean, old_variance],
        };
        let expression = format!("add(mul(div(sub(@0,@1),sqrt(add(@2,{:?}))),@3),@4)", self.epsilon);
        let normalised = decomposition.compute(&expression, &[X, mean, variance, scale, bias])?;
        // Statistics may be wider than the input.
        let mut outputs = vec![decomposition.cast(normalised, meta.dtype())?];
        let moved = format!("add(mul(@0,{:?}),mul(@1,{:?}))", self.momentum, 1.0 - self.momentum);
        for pair in [[old_mean, mean], [old_variance, variance]].iter().take(self.num_outputs() - 1) {
            let moved = decomposition.compute(&moved, pair)?;
            outputs.push(decomposition.reshape(vec![channels.clone()], moved)?);
        }
        Ok(outputs)
    }
}

impl Decompose for GlobalLpPool {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let rank = decomposition.rank(X)?;
        if rank < 3 {
            return Err(LayerError::shape("the input", "N×C×…", decomposition.meta(X)?));
        }
        let (p, dim) = (Power(self.p as f64), Some((2..rank as i64).collect()));
        Ok(vec![decomposition.then(Norm { p, dtype: Accumulator(None), dim, keepdim: true }, &[X])?])
    }
}

operators! { entry => MeanVarianceNormalization, BatchNormalization, GlobalLpPool; category Normalization }
