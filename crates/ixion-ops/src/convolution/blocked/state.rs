//! The state of a convolution of tensors with blocked channels.

use crate::convolution::algorithm::ConvAlgorithm;
use crate::convolution::border::Border;
use crate::op::{FieldValue, NO_KEY, OperatorReader, Result, Written};
use crate::support::packed_weights::PackedWeights;
use crate::support::shape_cache::ShapeCache;
use ixion_kernels::blocked::{
    Blocking, DenseConv, DenseWeights, DepthwiseConv, WinogradConv, WinogradWeights,
};
use ixion_kernels::packed::Panels;
use ixion_tensor::Shape;
use std::sync::{Arc, OnceLock};

/// The state of a convolution for blocked tensors. Clones share the weights.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    /// `None` unless blocked formats were configured.
    pub(super) blocking: Option<Blocking>,
    pub(super) algorithm: ConvAlgorithm,
    pub(super) weights: Option<Arc<OnceLock<Weights>>>,
    pub(super) stored: PackedWeights<(Blocking, ConvAlgorithm)>,
    pub(super) ready: ShapeCache<(Shape, Ready)>,
}

/// Weights in the order of the kernel.
#[derive(Debug)]
pub(super) enum Weights {
    Depthwise(Panels),
    Dense(DenseWeights),
    Winograd(WinogradWeights),
}

impl Weights {
    pub(super) fn panels(&self) -> &[Panels] {
        match self {
            Self::Depthwise(panels) => std::slice::from_ref(panels),
            Self::Dense(weights) => weights.panels(),
            Self::Winograd(weights) => weights.panels(),
        }
    }
}

/// State that depends on the input's shape.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) sizes: Sizes,
    /// The border to add to a sample beforehand; `None` if its padding is zeros.
    pub(super) border: Option<Border>,
    /// The elements of scratch memory for a sample with its border.
    pub(super) room: usize,
}

/// The kernel, for the input's shape.
#[derive(Debug)]
pub(super) enum Sizes {
    Depthwise(DepthwiseConv),
    Dense(DenseConv),
    Winograd(WinogradConv),
}

impl FieldValue for Blocks {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        Ok(PackedWeights::read(reader, key)?.map(|stored| Self { stored, ..Self::default() }))
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}
