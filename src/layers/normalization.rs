//! Normalisation of channels: by stored statistics (batch norm) or by those of a sample (instance and group norm).

use super::float::{self, with_float};
use super::weights;
use crate::graph::{
    CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta, Weight,
};
use crate::kernels::Float;
use crate::kernels::norm;
use crate::tensor::{Dim, Shape, TensorView, TensorViewMut};
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

macro_rules! instance_norms {
    ($($(#[doc = $doc:literal])* $name:ident($axes:expr) for $op_type:literal, $track:literal { $($fields:tt)* })*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                $($fields)*
                /// Added to the variance.
                eps: f64 = 1e-5,
                /// How fast running statistics change in training.
                momentum: Option<f64> = None,
                /// The mean of each channel, where it is stored.
                running_mean: Option<Weight> = None,
                /// The variance of each channel, where it is stored.
                running_var: Option<Weight> = None,
                /// A factor for each channel.
                weight: Option<Weight> = None,
                /// A summand for each channel.
                bias: Option<Weight> = None,
            }
            validate |layer| {
                weights::check_promised(layer.promises_weights(), layer.weight.as_ref())?;
                layer.channels().check_statistics()
            }
        }

        impl $name {
            fn channels(&self) -> Channels<'_> {
                Channels {
                    axes: $axes,
                    num_features: self.num_features(),
                    statistics: match self.uses_running_statistics() {
                        true => Statistics::Stored(self.running_mean.as_ref(), self.running_var.as_ref()),
                        false => Statistics::OfGroups(None),
                    },
                    eps: self.eps,
                    unused: match self.uses_running_statistics() {
                        true => [None, None],
                        false => [self.running_mean.as_ref(), self.running_var.as_ref()],
                    },
                    weight: self.weight.as_ref(),
                    bias: self.bias.as_ref(),
                }
            }
        }

        channel_layer!($name);
    )*};
}

/// What the mean and variance of a channel are.
#[derive(Debug, Clone, Copy)]
enum Statistics<'a> {
    /// Stored ones.
    Stored(Option<&'a Weight>, Option<&'a Weight>),
    /// Those of each sample's channels, in so many groups; each channel by itself without a number.
    OfGroups(Option<usize>),
}
