//! Normalisation of channels: by running statistics (batch norm) or by those of a sample (instance and group norm).

mod running;

use crate::op::{
    CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, SpatialAxes, TensorMeta, Weight,
    exactly,
};
use crate::support::float;
use crate::support::float::with_float;
use crate::support::views::with_first;
use crate::support::weights;
use ixion_kernels::Float;
use ixion_kernels::norm::{Affine, Norm};
use ixion_tensor::{Dim, Limits, TensorView, TensorViewMut};
pub use running::Running;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.BatchNorm1d`, `2d`, `3d` (Ioffe and Szegedy 2015) in evaluation mode: normalises each channel of an N×C×…
    /// input by its running statistics: (x − mean) / √(variance + eps) · weight + bias. Without running statistics, those of
    /// the batch are used.
    pub struct BatchNorm for "nn.BatchNorm2d", "nn.BatchNorm1d", "nn.BatchNorm3d", "F.batch_norm", "aten::batch_norm" {
        /// Number of channels; only checked against the input.
        num_features: Option<usize> = None,
        /// Added to the variance for numerical stability.
        eps: f64 = 1e-5,
        /// Whether there are learnt weights.
        affine: bool = false,
        /// Whether the statistics are those of the batch; `True` is supported without running statistics only.
        training: bool = false,
        /// Accepted for compatibility; it only matters in training.
        momentum: Option<f64> = None,
        /// Running mean of each channel; `None` for the mean of the batch. PNNX does not write `training`, but normalising
        /// without running statistics is possible in no other way.
        running_mean: Running,
        /// Running variance of each channel; `None` for the variance of the batch.
        running_var: Running,
        /// Factor of each channel.
        weight: Option<Weight> = None,
        /// Bias of each channel.
        bias: Option<Weight> = None,
    }
    validate |layer| {
        let [mean, variance] = [&layer.running_mean, &layer.running_var].map(|running| running.0.is_some());
        if layer.training && mean {
            let reason = "Ixion runs trained models; export it after `model.eval()`".to_owned();
            return Err(LayerError::InvalidParameter { key: "training", found: "True".to_owned(), reason });
        }
        if mean != variance {
            let key = if mean { "running_var" } else { "running_mean" };
            let reason = "both running statistics must be given, or neither".to_owned();
            return Err(LayerError::InvalidParameter { key, found: "None".to_owned(), reason });
        }
        weights::check_promised(layer.affine, layer.weight.as_ref())
    }
}

crate::operator! {
    /// `torch.nn.functional.instance_norm` (Ulyanov et al. 2016): normalises each channel of each sample of an N×C×… input
    /// by its own statistics: (x − mean) / √(variance + eps) · weight + bias.
    pub struct InstanceNorm for "F.instance_norm", "aten::instance_norm" {
        /// Whether to use each sample's own mean and variance instead of the running ones.
        use_input_stats: bool = true,
        /// Added to the variance for numerical stability.
        eps: f64 = 1e-5,
        /// Accepted for compatibility; it only matters in training.
        momentum: Option<f64> = None,
        /// Running mean of each channel; unused with `use_input_stats`.
        running_mean: Option<Weight> = None,
        /// Running variance of each channel; unused with `use_input_stats`.
        running_var: Option<Weight> = None,
        /// Factor of each channel.
        weight: Option<Weight> = None,
        /// Bias of each channel.
        bias: Option<Weight> = None,
    }
    validate |layer| { layer.norm().map(drop) }
}

crate::operator! {
    /// `torch.nn.InstanceNorm1d`, `2d`, `3d` in evaluation mode: [`InstanceNorm`] of an N×C×D×H×W or C×D×H×W input, with 1,
    /// 2 or 3 spatial axes, by the type.
    pub struct InstanceNormNd for "nn.InstanceNorm1d", "nn.InstanceNorm2d", "nn.InstanceNorm3d" {
        /// The number of axes after the channels.
        axes: SpatialAxes,
        /// Number of channels; only checked against the input.
        num_features: Option<usize> = None,
        /// Added to the variance for numerical stability.
        eps: f64 = 1e-5,
        /// Whether there are learnt weights.
        affine: bool = false,
        /// Whether to use the running mean and variance instead of each sample's own.
        track_running_stats: bool = false,
        /// Accepted for compatibility; it only matters in training.
        momentum: Option<f64> = None,
        /// Running mean of each channel.
        running_mean: Option<Weight> = None,
        /// Running variance of each channel.
        running_var: Option<Weight> = None,
        /// Factor of each channel.
        weight: Option<Weight> = None,
        /// Bias of each channel.
        bias: Option<Weight> = None,
    }
    validate |layer| {
        weights::check_promised(layer.affine, layer.weight.as_ref())?;
        layer.norm().map(drop)
    }
}

crate::operator! {
    /// `torch.nn.GroupNorm` (Wu and He 2018): normalises each group of channels of each sample of an N×C×… input by its own
    /// statistics: (x − mean) / √(variance + eps) · weight + bias, with a weight and a bias for each channel.
    pub struct GroupNorm for "nn.GroupNorm", "F.group_norm", "aten::group_norm" {
        /// Number of groups; must divide the number of channels.
        num_groups: usize,
        /// Number of channels; only checked against the input.
        num_channels: Option<usize> = None,
        /// Added to the variance for numerical stability.
        eps: f64 = 1e-5,
        /// Whether there are learnt weights.
        affine: bool = false,
        /// Factor of each channel.
        weight: Option<Weight> = None,
        /// Bias of each channel.
        bias: Option<Weight> = None,
    }
    validate |layer| {
        if layer.num_groups == 0 {
            let reason = "it must be at least 1".to_owned();
            return Err(LayerError::InvalidParameter { key: "num_groups", found: "0".to_owned(), reason });
        }
        weights::check_promised(layer.affine, layer.weight.as_ref())
    }
}

/// The parameters of a normalisation, common to all operators of this family.
#[derive(Debug)]
pub struct ChannelNorm<'a> {
    place: Place,
    channels: Option<usize>,
    /// The mean and the variance: stored, or computed from the input.
    pub statistics: Statistics<'a>,
    /// Added to the variance before its square root is taken.
    pub eps: f64,
    /// Factor of each channel after normalisation; `None` for 1.
    pub weight: Option<&'a Weight>,
    /// Summand of each channel after normalisation; `None` for 0.
    pub bias: Option<&'a Weight>,
}

/// The position of the channel axis.
#[derive(Debug)]
pub(crate) enum Place {
    /// Axis 1 of a tensor with at least this many axes.
    One { least_rank: usize },
    /// The axis before the last `axes` axes, after an optional batch axis.
    Before { axes: usize },
}

/// The statistics to normalise by.
#[derive(Debug)]
pub enum Statistics<'a> {
    /// The stored mean and variance.
    Stored(&'a Weight, &'a Weight),
    /// The statistics of each channel, over all samples.
    OfBatch,
    /// The statistics of each channel of each sample.
    OfChannels,
    /// The statistics of each of this many groups of channels of each sample.
    OfGroups(usize),
}

fn stored<'a>(mean: &'a Option<Weight>, variance: &'a Option<Weight>) -> Result<Statistics<'a>> {
    let missing = |key: &str| LayerError::MissingWeight { key: key.to_owned() };
    let mean = mean.as_ref().ok_or_else(|| missing("running_mean"))?;
    Ok(Statistics::Stored(mean, variance.as_ref().ok_or_else(|| missing("running_var"))?))
}

impl ChannelNorm<'_> {
    /// The channel axis of an input of `rank` axes; `None` if the operator does not accept this rank.
    pub fn axis(&self, rank: usize) -> Option<usize> {
        match self.place {
            Place::One { least_rank } => (rank >= least_rank).then_some(1),
            Place::Before { axes } => rank.checked_sub(axes + 1).filter(|batch| *batch <= 1),
        }
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        float::check("the input", input)?;
        let axis = self.axis(input.rank()).ok_or_else(|| {
            let wanted = match self.place {
                Place::One { least_rank } => format!("at least {least_rank} axes"),
                Place::Before { axes } => format!("{} or {} axes", axes + 1, axes + 2),
            };
            LayerError::shape("the input", wanted, input)
        })?;
        let channels = &input.dims()[axis];
        let groups = if let Statistics::OfGroups(groups) = self.statistics { groups } else { 1 };
        let fits = |len: i64| {
            let len = usize::try_from(len).unwrap_or(0);
            self.channels.is_none_or(|channels| channels == len) && len % groups == 0
        };
        if !channels.fixed().is_none_or(fits) {
            let wanted = match self.channels {
                Some(channels) => format!("{channels} channels in {groups} groups along axis {axis}"),
                None => format!("a multiple of {groups} channels along axis {axis}"),
            };
            return Err(LayerError::shape("the input", wanted, input));
        }
        let each_channel: [Dim; 1] = [channels.clone()];
        if let Statistics::Stored(mean, variance) = self.statistics {
            weights::check("the running mean", Some(mean), inputs, &each_channel)?;
            weights::check("the running variance", Some(variance), inputs, &each_channel)?;
        }
        weights::check("the weight", self.weight, inputs, &each_channel)?;
        weights::check("the bias", self.bias, inputs, &each_channel)?;
        Ok(vec![input.with_dims(input.dims().to_vec())])
    }

    /// The scratch memory for a factor and a summand per channel if all samples have the same statistics, in bytes.
    fn workspace(&self, inputs: &[TensorMeta]) -> usize {
        let (Statistics::Stored(..) | Statistics::OfBatch) = self.statistics else { return 0 };
        let channels = self.axis(inputs[0].rank()).and_then(|axis| inputs[0].dims()[axis].fixed());
        let channels = channels.and_then(|channels| usize::try_from(channels).ok()).unwrap_or(0);
        channels.saturating_mul(2 * float::computed_size(inputs[0].dtype()))
    }

    /// Runs in place on the output if there is no input; the weights are among `inputs`.
    fn run<T: Float>(
        &self,
        input: Option<&TensorView<'_>>,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let (weight, bias) =
            (weights::read::<T>(self.weight, inputs)?, weights::read::<T>(self.bias, inputs)?);
        let affine = Affine { weight: weight.as_deref(), bias: bias.as_deref() };
        let (shape, limits) = (*output.shape(), context.limits());
        let axis = self.axis(shape.rank()).unwrap_or(0);
        let (channels, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let in_group = match self.statistics {
            Statistics::Stored(mean, variance) => {
                let mean = float::read::<T>(&mean.view(inputs)?)?;
                let variance = float::read::<T>(&variance.view(inputs)?)?;
                let (scale, shift) = context.scratch::<T>(2 * channels)?.split_at_mut(channels);
                self.stored_affine(&mean, &variance, affine, scale, shift);
                return change_channels::<T>(input, output, [scale, shift], inner, limits);
            }
            Statistics::OfBatch => {
                let (scale, shift) = context.scratch::<T>(2 * channels)?.split_at_mut(channels);
                {
                    let data = input.copied().unwrap_or_else(|| output.as_view());
                    self.batch_affine(&float::read::<T>(&data)?, inner, affine, scale, shift);
                }
                return change_channels::<T>(input, output, [scale, shift], inner, limits);
            }
            Statistics::OfChannels => 1,
            Statistics::OfGroups(groups) => channels / groups,
        };
        let (norm, len) = (Norm::Standard { eps: self.eps }, in_group * inner);
        float::transform_rows::<T>(input, output, len, limits, &|group, input, data| {
            norm.planes(input, data, len, (inner, group * in_group), affine);
            Ok(())
        })
    }

    /// Writes a factor and a summand per channel, which combine the stored statistics and the weights.
    fn stored_affine<T: Float>(
        &self,
        mean: &[T],
        variance: &[T],
        affine: Affine<'_, T>,
        scale: &mut [T],
        shift: &mut [T],
    ) {
        let statistics = mean.iter().zip(variance).enumerate();
        for ((channel, (&mean, &variance)), (scale, shift)) in statistics.zip(scale.iter_mut().zip(shift)) {
            (*scale, *shift) = self.factor_and_summand([wide(mean), wide(variance)], affine.at(channel));
        }
    }

    /// As [`ChannelNorm::stored_affine`], for the statistics of N×C×`inner` elements, with a factor and a summand for each of
    /// the C channels.
    fn batch_affine<T: Float>(
        &self,
        values: &[T],
        inner: usize,
        affine: Affine<'_, T>,
        scale: &mut [T],
        shift: &mut [T],
    ) {
        let sample = scale.len().saturating_mul(inner).max(1);
        let count = (values.len() / sample * inner) as f64;
        for (channel, (scale, shift)) in scale.iter_mut().zip(shift).enumerate() {
            let elements = || {
                let samples = values.chunks_exact(sample);
                samples
                    .flat_map(move |sample| sample.iter().skip(channel * inner).take(inner))
                    .map(|&x| wide(x))
            };
            let mean = elements().sum::<f64>() / count;
            let variance = elements().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            (*scale, *shift) = self.factor_and_summand([mean, variance], affine.at(channel));
        }
    }

    /// The factor and the summand of a channel with this mean and variance, and this weight and bias.
    fn factor_and_summand<T: Float>(&self, [mean, variance]: [f64; 2], (weight, bias): (T, T)) -> (T, T) {
        let factor = wide(weight) / (variance + self.eps).sqrt();
        (T::of(factor), T::of(wide(bias) - mean * factor))
    }
}

fn wide<T: Float>(x: T) -> f64 {
    x.to_f64().unwrap_or(f64::NAN)
}

/// Multiplies the elements of each channel of an N×C×`inner` tensor by its factor and adds its summand. Works in place on the
/// output if there is no input.
fn change_channels<T: Float>(
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    [scale, shift]: [&[T]; 2],
    inner: usize,
    limits: &Limits,
) -> Result<()> {
    let affine = Affine { weight: Some(scale), bias: Some(shift) };
    match inner {
        1 => float::transform_rows::<T>(input, output, scale.len(), limits, &|_, input, rows| {
            affine.rows(input, rows);
            Ok(())
        }),
        _ => float::transform_rows::<T>(input, output, inner, limits, &|plane, input, planes| {
            affine.planes(input, planes, inner, plane);
            Ok(())
        }),
    }
}

impl BatchNorm {
    /// The normalisation of axis 1 by the running mean and variance, or by those of the batch.
    ///
    /// # Errors
    /// Never fails; other norms of this family can, and all are called alike.
    pub fn norm(&self) -> Result<ChannelNorm<'_>> {
        Ok(ChannelNorm {
            place: Place::One { least_rank: 2 },
            channels: self.num_features,
            statistics: match (&self.running_mean.0, &self.running_var.0) {
                (Some(mean), Some(variance)) => Statistics::Stored(mean, variance),
                _ => Statistics::OfBatch,
            },
            eps: self.eps,
            weight: self.weight.as_ref(),
            bias: self.bias.as_ref(),
        })
    }
}

impl InstanceNorm {
    /// The normalisation of axis 1 of an input of at least 3 axes, by each sample's own statistics or the running ones.
    ///
    /// # Errors
    /// Returns an error if `use_input_stats` is false and the running mean or variance is missing.
    pub fn norm(&self) -> Result<ChannelNorm<'_>> {
        Ok(ChannelNorm {
            place: Place::One { least_rank: 3 },
            channels: None,
            statistics: match self.use_input_stats {
                true => Statistics::OfChannels,
                false => stored(&self.running_mean, &self.running_var)?,
            },
            eps: self.eps,
            weight: self.weight.as_ref(),
            bias: self.bias.as_ref(),
        })
    }
}

impl InstanceNormNd {
    /// The normalisation of the axis before the spatial ones, by each sample's own statistics or the running ones.
    ///
    /// # Errors
    /// Returns an error if `track_running_stats` is true and the running mean or variance is missing.
    pub fn norm(&self) -> Result<ChannelNorm<'_>> {
        Ok(ChannelNorm {
            place: Place::Before { axes: self.axes.get() },
            channels: self.num_features,
            statistics: if self.track_running_stats {
                stored(&self.running_mean, &self.running_var)?
            } else {
                Statistics::OfChannels
            },
            eps: self.eps,
            weight: self.weight.as_ref(),
            bias: self.bias.as_ref(),
        })
    }
}

impl GroupNorm {
    /// The normalisation of axis 1 in `num_groups` groups of channels.
    ///
    /// # Errors
    /// Never fails; other norms of this family can, and all are called alike.
    pub fn norm(&self) -> Result<ChannelNorm<'_>> {
        Ok(ChannelNorm {
            place: Place::One { least_rank: 2 },
            channels: self.num_channels,
            statistics: Statistics::OfGroups(self.num_groups),
            eps: self.eps,
            weight: self.weight.as_ref(),
            bias: self.bias.as_ref(),
        })
    }
}

macro_rules! channel_layer {
    ($name:ident) => {
        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                exactly(1 + self.field_inputs())
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                self.norm()?.infer(inputs)
            }

            fn in_place(&self, _: usize) -> Option<usize> {
                Some(0)
            }
        }

        impl CpuLayer for $name {
            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                let (norm, output) = (self.norm()?, &mut io.outputs[0]);
                with_float!(output.dtype(), T => norm.run::<T>(Some(&io.inputs[0]), io.inputs, output, &mut io.context))
            }

            fn forward_in_place(
                &mut self,
                data: &mut TensorViewMut<'_>,
                others: &[TensorView<'_>],
                context: &mut ForwardContext<'_>,
            ) -> Result<()> {
                let (norm, inputs) = (self.norm()?, with_first(others)?);
                with_float!(data.dtype(), T => norm.run::<T>(None, &inputs, data, context))
            }

            fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
                self.norm().map_or(0, |norm| norm.workspace(inputs))
            }
        }
    };
}

channel_layer!(BatchNorm);
channel_layer!(InstanceNorm);
channel_layer!(InstanceNormNd);
channel_layer!(GroupNorm);

operators! {
    BatchNorm, InstanceNorm, InstanceNormNd, GroupNorm;
    overload "aten::instance_norm"(
            input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
        ),
        "aten::batch_norm"(
            input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
        ),
        "aten::group_norm"(input, num_groups, weight, bias, eps, cudnn_enabled)
}

#[cfg(test)]
mod tests;
