//! Normalisation along the last axes: layer norm and RMS norm.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Optional;
use super::lowering::Source;
use crate::normalization::last_axes::{LayerNorm, RmsNorm};
use crate::op::{LayerError, Result, Weight};
use crate::reduction::along_axes::Mean;
use crate::support::arguments::{Accumulator, InputIndex, OutputCount};
use ixion_tensor::{DType, Dim, resolve_axis};

const X: Source = Source::Input(0);

crate::operator! {
    /// `LayerNormalization` (since 17): (x − mean) / √(variance + epsilon) · scale + bias, along the last axes. Further outputs are
    /// the means, and the reciprocals of the roots.
    pub struct LayerNormalization for "LayerNormalization" {
        /// The first of the axes; a negative one counts from the end.
        axis: i64 = -1,
        /// Added to the variance.
        epsilon: f64 = 1e-5,
        /// ONNX's number of the type in which statistics are computed: 1 for f32. Inputs of f64 keep their type.
        stash_type: i64 = 1,
        /// Factors, broadcast.
        scale: InputIndex,
        /// Summands, broadcast; none if absent.
        b as "B": Optional = Optional(None),
        /// Number of outputs that the file lists.
        outputs: OutputCount,
    }
}

crate::operator! {
    /// `RMSNormalization` (since 23): x / √(mean of squares + epsilon) · scale, along the last axes.
    pub struct RmsNormalization for "RMSNormalization" {
        /// The first of the axes; a negative one counts from the end.
        axis: i64 = -1,
        /// Added to the mean of squares.
        epsilon: f64 = 1e-5,
        /// ONNX's number of the type in which the mean is computed: 1 for f32. Inputs of f64 keep their type.
        stash_type: i64 = 1,
        /// Factors, broadcast.
        scale: InputIndex,
    }
}

/// The axes from `axis` on.
fn axes_from(decomposition: &Decomposition, axis: i64) -> Result<Vec<i64>> {
    let rank = decomposition.rank(X)?;
    let first = resolve_axis(axis, rank)?;
    Ok((first as i64..rank as i64).collect())
}

/// The lengths of the last `count` axes, if they are known, and all of `weights` have them and the type of the input: then
/// PyTorch's norms compute the same.
fn plain(decomposition: &Decomposition, count: usize, weights: &[Source]) -> Result<Option<Vec<i64>>> {
    let meta = decomposition.meta(X)?;
    let Some(last) = meta.rank().checked_sub(count).and_then(|first| meta.dims().get(first..)) else {
        return Ok(None);
    };
    for weight in weights {
        let weight = decomposition.meta(*weight)?;
        if weight.dims() != last || weight.dtype() != meta.dtype() {
            return Ok(None);
        }
    }
    Ok(last.iter().map(Dim::fixed).collect())
}

/// The input in a type that holds sums of it.
fn wide(decomposition: &mut Decomposition) -> Result<Source> {
    match decomposition.dtype(X)? {
        DType::F16 | DType::Bf16 => decomposition.cast(X, DType::F32),
        _ => Ok(X),
    }
}

fn mean(decomposition: &mut Decomposition, x: Source, axes: &[i64]) -> Result<Source> {
    decomposition.then(Mean { dtype: Accumulator(None), dim: Some(axes.to_vec()), keepdim: true }, &[x])
}

/// The normalised elements in the type of the input, times the scale, plus the bias.
fn scaled(
    decomposition: &mut Decomposition,
    y: Source,
    scale: usize,
    bias: Option<Source>,
) -> Result<Source> {
    let dtype = decomposition.dtype(X)?;
    let y = decomposition.cast(y, dtype)?;
    let scale = decomposition.cast(Source::Input(scale), dtype)?;
    match bias {
        Some(bias) => {
            let bias = decomposition.cast(bias, dtype)?;
            decomposition.compute("add(mul(@0,@1),@2)", &[y, scale, bias])
        }
        None => decomposition.compute("mul(@0,@1)", &[y, scale]),
    }
}

/// Rejects types of statistics other than f32.
fn check_stash_type(stash_type: i64) -> Result<()> {
    match stash_type {
        1 => Ok(()),
        other => Err(LayerError::invalid("stash_type", other, "only 1 (f32) is supported")),
    }
}

impl Decompose for LayerNormalization {
    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 3)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        check_stash_type(self.stash_type)?;
        let axes = axes_from(decomposition, self.axis)?;
        let (scale, bias) = (Source::Input(self.scale.0), self.b.source());
        let weights: Vec<Source> = [Some(scale), bias].into_iter().flatten().collect();
        let lens = plain(decomposition, axes.len(), &weights)?;
        if let Some(normalized_shape) = lens.filter(|_| self.num_outputs() == 1) {
            let layer = LayerNorm {
                normalized_shape,
                eps: self.epsilon,
                elementwise_affine: true,
                weight: Some(Weight::Input(1)),
                bias: bias.map(|_| Weight::Input(2)),
            };
            let inputs: Vec<Source> = [X].into_iter().chain(weights).collect();
            return Ok(vec![decomposition.then_as("F.layer_norm".to_owned(), layer, &inputs)?]);
        }
        let x = wide(decomposition)?;
        let average = mean(decomposition, x, &axes)?;
        let squares = decomposition.compute("square(sub(@0,@1))", &[x, average])?;
        let variance = mean(decomposition, squares, &axes)?;
        let root = decomposition.compute(&format!("rsqrt(add(@0,{:?}))", self.epsilon), &[variance])?;
        let y = decomposition.compute("mul(sub(@0,@1),@2)", &[x, average, root])?;
        let mut outputs = vec![scaled(decomposition, y, self.scale.0, bias)?];
        for statistic in [average, root].into_iter().take(self.num_outputs() - 1) {
            outputs.push(decomposition.cast(statistic, DType::F32)?);
        }
        Ok(outputs)
    }
}

impl Decompose for RmsNormalization {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        check_stash_type(self.stash_type)?;
        let axes = axes_from(decomposition, self.axis)?;
        let scale = Source::Input(self.scale.0);
        if let Some(normalized_shape) = plain(decomposition, axes.len(), &[scale])? {
            let layer = RmsNorm {
                normalized_shape,
                eps: Some(self.epsilon),
                elementwise_affine: true,
                weight: Some(Weight::Input(1)),
            };
            return Ok(vec![decomposition.then_as("F.rms_norm".to_owned(), layer, &[X, scale])?]);
        }
        let x = wide(decomposition)?;
        let squares = decomposition.compute("square(@0)", &[x])?;
        let power = mean(decomposition, squares, &axes)?;
        let y = decomposition.compute(&format!("mul(@0,rsqrt(add(@1,{:?})))", self.epsilon), &[x, power])?;
        Ok(vec![scaled(decomposition, y, self.scale.0, None)?])
    }
}

operators! { entry => LayerNormalization, RmsNormalization; category Normalization }
