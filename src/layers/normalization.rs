//! Normalisation of channels: by stored statistics (batch norm) or by those of a sample (instance and group norm).

use super::float::{self, with_float};
use super::weights;
use crate::graph::{CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta, Weight};
use crate::kernels::Float;
use crate::kernels::norm;
use crate::tensor::{Dim, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.BatchNorm1d`, `2d`, `3d` (Ioffe and Szegedy 2015) when they are evaluated: each channel of N×C×… minus
    /// its running mean, over √(running variance + eps), times a weight, plus a bias.
    pub struct BatchNorm for "nn.BatchNorm2d", "nn.BatchNorm1d", "nn.BatchNorm3d", "F.batch_norm" {
        /// Number of channels; only compared with the input.
        num_features: Option<usize> = None,
        /// Added to the variance.
        eps: f64 = 1e-5,
        /// Whether there are weights.
        affine: bool = false,
        /// Whether the model is trained; only `False` can be run.
        training: bool = false,
        /// How fast running statistics change in training.
        momentum: Option<f64> = None,
        /// The mean of each channel.
        running_mean: Weight,
        /// The variance of each channel.
        running_var: Weight,
        /// A factor for each channel.
        weight: Option<Weight> = None,
        /// A summand for each channel.
        bias: Option<Weight> = None,
    }
    validate |layer| {
        if layer.training {
            let reason = "Ixion runs trained models; export it after `model.eval()`".to_owned();
            return Err(LayerError::InvalidParameter { key: "training", found: "True".to_owned(), reason });
        }
        weights::check_promised(layer.affine, layer.weight.as_ref())
    }
}

crate::operator! {
    /// `torch.nn.functional.instance_norm` (Ulyanov et al. 2016): each channel of each sample of N×C×… minus its mean, over
    /// √(its variance + eps), times a weight, plus a bias.
    pub struct InstanceNorm for "F.instance_norm" {
        /// Whether mean and variance are the sample's own; otherwise they are the running ones.
        use_input_stats: bool = true,
        /// Added to the variance.
        eps: f64 = 1e-5,
        /// How fast running statistics change in training.
        momentum: Option<f64> = None,
        /// The mean of each channel; unused where the sample's own is taken.
        running_mean: Option<Weight> = None,
        /// The variance of each channel; unused where the sample's own is taken.
        running_var: Option<Weight> = None,
        /// A factor for each channel.
        weight: Option<Weight> = None,
        /// A summand for each channel.
        bias: Option<Weight> = None,
    }
    validate |layer| { layer.norm().map(drop) }
}

macro_rules! instance_norms {
    ($($(#[doc = $doc:literal])* $name:ident($axes:literal) for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// Number of channels; only compared with the input.
                num_features: Option<usize> = None,
                /// Added to the variance.
                eps: f64 = 1e-5,
                /// Whether there are weights.
                affine: bool = false,
                /// Whether mean and variance are the running ones, and not the sample's own.
                track_running_stats: bool = false,
                /// How fast running statistics change in training.
                momentum: Option<f64> = None,
                /// The mean of each channel.
                running_mean: Option<Weight> = None,
                /// The variance of each channel.
                running_var: Option<Weight> = None,
                /// A factor for each channel.
                weight: Option<Weight> = None,
                /// A summand for each channel.
                bias: Option<Weight> = None,
            }
            validate |layer| {
                weights::check_promised(layer.affine, layer.weight.as_ref())?;
                layer.norm().map(drop)
            }
        }

        impl $name {
            fn norm(&self) -> Result<ChannelNorm<'_>, LayerError> {
                Ok(ChannelNorm {
                    place: Place::Before { axes: $axes },
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

            fn weights(&self) -> [Option<&Weight>; 4] {
                [&self.running_mean, &self.running_var, &self.weight, &self.bias].map(Option::as_ref)
            }
        }

        channel_layer!($name);
    )*};
}

crate::operator! {
    /// `torch.nn.GroupNorm` (Wu and He 2018): each group of channels of each sample of N×C×… minus its mean, over
    /// √(its variance + eps), times a weight for each channel, plus a bias.
    pub struct GroupNorm for "nn.GroupNorm", "F.group_norm" {
        /// Number of groups; the number of channels is a multiple of it.
        num_groups: usize,
        /// Number of channels; only compared with the input.
        num_channels: Option<usize> = None,
        /// Added to the variance.
        eps: f64 = 1e-5,
        /// Whether there are weights.
        affine: bool = false,
        /// A factor for each channel.
        weight: Option<Weight> = None,
        /// A summand for each channel.
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

/// A normalisation as all operators of this family understand it.
struct ChannelNorm<'a> {
    place: Place,
    channels: Option<usize>,
    statistics: Statistics<'a>,
    eps: f64,
    weight: Option<&'a Weight>,
    bias: Option<&'a Weight>,
}

/// Where the channels stand.
enum Place {
    /// Axis 1 of a tensor that has at least so many axes.
    One { least_rank: usize },
    /// Before the last so many axes; there may be a batch before them.
    Before { axes: usize },
}

/// What is subtracted and divided by.
enum Statistics<'a> {
    /// Mean and variance that are stored.
    Stored(&'a Weight, &'a Weight),
    /// Those of each channel of each sample.
    OfChannels,
    /// Those of each of so many groups of channels of each sample.
    OfGroups(usize),
}

fn stored<'a>(mean: &'a Option<Weight>, variance: &'a Option<Weight>) -> Result<Statistics<'a>, LayerError> {
    let missing = |key: &str| LayerError::MissingWeight { key: key.to_owned() };
    let mean = mean.as_ref().ok_or_else(|| missing("running_mean"))?;
    Ok(Statistics::Stored(mean, variance.as_ref().ok_or_else(|| missing("running_var"))?))
}

impl ChannelNorm<'_> {
    fn axis(&self, rank: usize) -> Option<usize> {
        match self.place {
            Place::One { least_rank } => (rank >= least_rank).then_some(1),
            Place::Before { axes } => rank.checked_sub(axes + 1).filter(|batch| *batch <= 1),
        }
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
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

    fn run<T: Float>(&self, inputs: &[TensorView<'_>], output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
        let input = float::read::<T>(&inputs[0])?;
        let (weight, bias) = (weights::read::<T>(self.weight, inputs)?, weights::read::<T>(self.bias, inputs)?);
        let shape = inputs[0].shape();
        let axis = self.axis(shape.rank()).unwrap_or(0);
        let (channels, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        float::write::<T>(output, |output| {
            match self.statistics {
                Statistics::Stored(mean, variance) => {
                    let mean = float::read::<T>(&mean.view(inputs)?)?;
                    let variance = float::read::<T>(&variance.view(inputs)?)?;
                    let (scale, shift) = self.scale_and_shift(&mean, &variance, weight.as_deref(), bias.as_deref());
                    output.copy_from_slice(&input);
                    norm::affine(output, inner, Some(&scale), Some(&shift));
                    return Ok(());
                }
                Statistics::OfChannels => norm::standardize(&input, output, inner, self.eps),
                Statistics::OfGroups(groups) => norm::standardize(&input, output, channels / groups * inner, self.eps),
            }
            norm::affine(output, inner, weight.as_deref(), bias.as_deref());
            Ok(())
        })
    }

    /// One factor and one summand for each channel, which do what stored statistics and weights do together.
    fn scale_and_shift<T: Float>(
        &self,
        mean: &[T],
        variance: &[T],
        weight: Option<&[T]>,
        bias: Option<&[T]>,
    ) -> (Vec<T>, Vec<T>) {
        let wide = |values: Option<&[T]>, channel: usize, none: f64| {
            values.map_or(none, |values| values[channel].to_f64().unwrap_or(f64::NAN))
        };
        let channels = 0..mean.len();
        let numbers = channels.map(|channel| {
            let deviation = (wide(Some(variance), channel, 1.0) + self.eps).sqrt();
            let scale = wide(weight, channel, 1.0) / deviation;
            let shift = wide(bias, channel, 0.0) - wide(Some(mean), channel, 0.0) * scale;
            (T::of(scale), T::of(shift))
        });
        numbers.unzip()
    }
}

impl BatchNorm {
    fn norm(&self) -> Result<ChannelNorm<'_>, LayerError> {
        Ok(ChannelNorm {
            place: Place::One { least_rank: 2 },
            channels: self.num_features,
            statistics: Statistics::Stored(&self.running_mean, &self.running_var),
            eps: self.eps,
            weight: self.weight.as_ref(),
            bias: self.bias.as_ref(),
        })
    }

    fn weights(&self) -> [Option<&Weight>; 4] {
        [Some(&self.running_mean), Some(&self.running_var), self.weight.as_ref(), self.bias.as_ref()]
    }
}

impl InstanceNorm {
    fn norm(&self) -> Result<ChannelNorm<'_>, LayerError> {
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

    fn weights(&self) -> [Option<&Weight>; 4] {
        [&self.running_mean, &self.running_var, &self.weight, &self.bias].map(Option::as_ref)
    }
}

impl GroupNorm {
    fn norm(&self) -> Result<ChannelNorm<'_>, LayerError> {
        Ok(ChannelNorm {
            place: Place::One { least_rank: 2 },
            channels: self.num_channels,
            statistics: Statistics::OfGroups(self.num_groups),
            eps: self.eps,
            weight: self.weight.as_ref(),
            bias: self.bias.as_ref(),
        })
    }

    fn weights(&self) -> [Option<&Weight>; 2] {
        [self.weight.as_ref(), self.bias.as_ref()]
    }
}

macro_rules! channel_layer {
    ($name:ident) => {
        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                let count = 1 + weights::num_inputs(self.weights());
                count..=count
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                self.norm()?.infer(inputs)
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                with_float!(inputs[0].dtype(), T => self.norm()?.run::<T>(inputs, &mut outputs[0]))
            }
        }
    };
}

channel_layer!(BatchNorm);
channel_layer!(InstanceNorm);
channel_layer!(GroupNorm);

instance_norms! {
    /// `torch.nn.InstanceNorm1d` when it is evaluated: [`InstanceNorm`] of N×C×L or C×L.
    InstanceNorm1d(1) for "nn.InstanceNorm1d";

    /// `torch.nn.InstanceNorm2d` when it is evaluated: [`InstanceNorm`] of N×C×H×W or C×H×W.
    InstanceNorm2d(2) for "nn.InstanceNorm2d";

    /// `torch.nn.InstanceNorm3d` when it is evaluated: [`InstanceNorm`] of N×C×D×H×W or C×D×H×W.
    InstanceNorm3d(3) for "nn.InstanceNorm3d";
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<BatchNorm>()?;
    registry.register::<InstanceNorm>()?;
    registry.register::<InstanceNorm1d>()?;
    registry.register::<InstanceNorm2d>()?;
    registry.register::<InstanceNorm3d>()?;
    registry.register::<GroupNorm>()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, counting, operator, tensor, waves};
    use super::*;
    use crate::tensor::{DType, Tensor};

    fn statistics() -> [(&'static str, Tensor); 4] {
        [
            ("running_mean", tensor(&[3], &[0.5, -1.0, 0.25])),
            ("running_var", tensor(&[3], &[1.0, 4.0, 0.25])),
            ("weight", tensor(&[3], &[2.0, -1.0, 0.5])),
            ("bias", tensor(&[3], &[0.0, 1.0, -1.0])),
        ]
    }

    /// The layer on 2×3×2, with the first of the four weights as attributes, and as named inputs.
    fn run(module: &str, function: &str, eps: &str, count: usize) -> [Tensor; 2] {
        let (x, statistics) = (waves(&[2, 3, 2]), statistics());
        let given = if count == 4 { "True" } else { "False" };
        let mut layer = operator(module, &[("eps", eps), ("affine", given)]);
        for (key, tensor) in &statistics[..count] {
            layer = layer.with_attr(key, tensor.clone());
        }
        let none = [("eps", eps), ("weight", "None"), ("bias", "None")];
        let names = ["input", "running_mean", "running_var", "weight", "bias"];
        let inputs: Vec<&Tensor> = [&x].into_iter().chain(statistics[..count].iter().map(|(_, tensor)| tensor)).collect();
        let function = operator(function, &none[..if count == 4 { 1 } else { 3 }]).with_names(&names);
        [layer.run_one(&[&x]).unwrap(), function.run_one(&inputs).unwrap()]
    }

    #[test]
    fn stored_statistics() {
        for got in run("nn.BatchNorm1d", "F.batch_norm", "1.000000e-3", 4) {
            let want = [
                -6.496752435470526, -1.4992505620316599, 0.5000624882836909, 1.499937511716309, -1.7485044850523117,
                -2.4970089701046234, 1.9990007493755464, 2.9985011240633197, 0.3750781103546137, -0.4998125351489272,
                0.24750747508718635, -2.4970089701046234,
            ];
            assert_close(&got, &[2, 3, 2], &want);
        }
        for got in run("nn.BatchNorm1d", "F.batch_norm", "1.000000e-5", 2) {
            let want = [
                -3.2499837501218742, -0.7499962500281248, 0.49999937500117186, -0.49999937500117186, -1.49997000089997,
                -2.99994000179994, 0.9999950000374997, 1.4999925000562495, 0.6249992187514648, 1.4999981250035157,
                2.4999500014999496, -2.99994000179994,
            ];
            assert_close(&got, &[2, 3, 2], &want);
        }
    }

    #[test]
    fn statistics_of_each_channel_or_stored_ones() {
        let own = [
            -1.9993603070362518, 1.9993603070362516, 0.0004996253122268035, 1.999500374687773, -0.501768352135471,
            -1.498231647864529, -1.9841894753313625, 1.9841894753313625, 1.999347577813441, 0.0006524221865591429,
            -0.5001321789726354, -1.4998678210273646,
        ];
        for got in run("nn.InstanceNorm1d", "F.instance_norm", "0.001", 4) {
            assert_close(&got, &[2, 3, 2], &own);
        }
        let mut layer = operator("nn.InstanceNorm1d", &[("eps", "0.001"), ("track_running_stats", "True")]);
        for (key, tensor) in statistics() {
            layer = layer.with_attr(key, tensor);
        }
        let [stored, _] = run("nn.BatchNorm1d", "F.batch_norm", "0.001", 4);
        let stored = stored.to_vec::<f64>().unwrap();
        assert_close(&layer.run_one(&[&waves(&[2, 3, 2])]).unwrap(), &[2, 3, 2], &stored);
        let absent = operator("nn.InstanceNorm1d", &[("track_running_stats", "True")]).create(1);
        assert!(matches!(absent, Err(LayerError::MissingWeight { .. })));
    }

    #[test]
    fn a_sample_without_a_batch() {
        let got = operator("nn.InstanceNorm1d", &[("num_features", "3")]).run_one(&[&waves(&[3, 4])]).unwrap();
        let want = [
            -1.2939884636094239, 0.8626589757396159, 1.07832371967452, -0.6469942318047119, -0.6941153175765005,
            -1.2494075716377009, 0.7866640265867006, 1.156858862627501, -0.29851021128956806, 1.094537441395083,
            0.6965238263423256, -1.4925510564478404,
        ];
        assert_close(&got, &[3, 4], &want);
    }

    #[test]
    fn statistics_of_groups() {
        let weights = [waves(&[4]), waves(&[4]).map(|x: f64| x + 1.0).unwrap()];
        let x = waves(&[1, 4, 3]);
        let got = operator("F.group_norm", &[("num_groups", "2"), ("eps", "1.000000e-5")])
            .with_names(&["input", "weight", "bias"])
            .run_one(&[&x, &weights[0], &weights[1]])
            .unwrap();
        let want = [
            2.7780753034505237, -4.1881943941656665, -4.884821363927285, 0.9716540358332424, 0.5916756886905411,
            0.7816648622618918, 1.0, 1.0, 1.0, -2.718669351850286, -1.859334675925143, 2.8670060416631435,
        ];
        assert_close(&got, &[1, 4, 3], &want);
        let got = operator("nn.GroupNorm", &[("num_groups", "1"), ("eps", "0.01")]).run_one(&[&waves(&[2, 2])]).unwrap();
        let want = [-0.9968152785361251, 0.9968152785361251, 0.9950371902099893, -0.9950371902099893];
        assert_close(&got, &[2, 2], &want);
    }

    #[test]
    fn half_inputs_take_f32_weights() {
        let layer = operator("nn.GroupNorm", &[("num_groups", "1"), ("num_channels", "4")])
            .with_attr("weight", Tensor::ones(DType::F32, &[4]).unwrap());
        let x = waves(&[1, 4]).cast(DType::F16).unwrap();
        assert_eq!(layer.run_one(&[&x]).unwrap().dtype(), DType::F16);
        assert!(matches!(layer.run(&[&waves(&[1, 4])]), Err(LayerError::DType { .. })));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let groups = operator("F.group_norm", &[("num_groups", "2")]);
        let error = groups.run(&[&waves(&[1, 3, 2])]).unwrap_err().to_string();
        assert_eq!(error, "the input: a multiple of 2 channels along axis 1 needed, but it is 1×3×2 f64");
        assert!(operator("F.group_norm", &[("num_groups", "0")]).create(1).is_err());
        assert!(operator("nn.GroupNorm", &[("num_groups", "1"), ("affine", "True")]).create(1).is_err());
        let batch = operator("nn.BatchNorm2d", &[("num_features", "3")])
            .with_attr("running_mean", counting(DType::F32, &[3]))
            .with_attr("running_var", counting(DType::F32, &[3]));
        assert!(batch.run(&[&counting(DType::F32, &[2, 4])]).is_err());
        let trained = operator("F.batch_norm", &[("training", "True")]);
        let error = trained.with_names(&["input", "running_mean", "running_var"]).create(3).unwrap_err();
        assert!(matches!(error, LayerError::InvalidParameter { key: "training", .. }));
        assert!(matches!(operator("F.batch_norm", &[]).create(1), Err(LayerError::MissingWeight { .. })));
    }

    #[test]
    fn odd_inputs() {
        let batch = || {
            operator("F.batch_norm", &[])
                .with_attr("running_mean", Tensor::ones(DType::F32, &[4]).unwrap())
                .with_attr("running_var", Tensor::ones(DType::F32, &[4]).unwrap())
        };
        batch().survives(1);
        operator("F.instance_norm", &[]).survives(1);
        operator("nn.InstanceNorm2d", &[]).survives(1);
        operator("F.group_norm", &[("num_groups", "2")]).survives(1);
        operator("F.group_norm", &[("num_groups", "1")]).survives(2);
    }
}
