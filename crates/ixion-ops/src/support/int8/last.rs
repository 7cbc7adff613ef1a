//! Layers in int8 that multiply bytes, on tensors whose channels are last.

use super::bytes;
use crate::op::{LayerError, Step, state};
use crate::quantized::write;
use crate::support::epilogue::Epilogue;
use crate::support::shape_cache::ShapeCache;
use ixion_kernels::quantization::ChannelStep;
use ixion_kernels::quantized::{ByteConv, BytePanels, ByteWeights, ChannelFactors, MAX_DEPTH, ZeroPoint};
use ixion_tensor::{Layout, MAX_RANK, Result, Shape, TensorView, TensorViewMut};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// State for quantised tensors whose channels are innermost. Clones share the weights.
#[derive(Debug, Clone, Default)]
pub struct ByteState {
    pub(crate) weights: Option<ByteWeights>,
    /// The step of the tensor that the epilogue adds.
    pub(crate) added_step: Option<Step>,
    /// The part of the epilogue to whose result it is added, if that is a function.
    pub(crate) function: Option<Epilogue>,
    pub(crate) conv: ShapeCache<(Shape, ByteConv)>,
}

state! { ByteState }

/// Weights that are multiplied as bytes, once they are packed. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct PackedBytes(pub(crate) Option<ByteWeights>);

state! { PackedBytes }

/// The most products per output: if there is a zero point, an `i32` holds half as many products of a difference from it, plus a
/// bias.
pub(crate) fn max_depth(zero_point: i8) -> usize {
    if zero_point == 0 { MAX_DEPTH } else { MAX_DEPTH / 2 }
}

/// Packed weights with the steps of their channels, for inputs that the engine quantised with a zero point.
pub(crate) fn byte_weights(panels: BytePanels, zero_point: i8, steps: &[ChannelStep]) -> ByteWeights {
    let nothing = ChannelFactors { start: 0, offset: 0.0, multiplier: 0.0 };
    let factors = |channel: usize| steps.get(channel).map_or(nothing, |&step| ChannelFactors::from(step));
    ByteWeights::new(Arc::new(panels), ZeroPoint::I8(zero_point), factors)
}

/// The elements of an int8 tensor whose channels are last, in the order of memory; copied if there are gaps between them.
///
/// # Errors
/// Returns an error if the tensor has no channels, or is not int8.
pub(crate) fn bytes_last<'a>(tensor: &TensorView<'a>) -> std::result::Result<Cow<'a, [i8]>, LayerError> {
    bytes(&tensor.with_layout(with_channels_last(tensor.layout())?)?)
}

/// Lets `fill` write all elements of an int8 output whose channels are last, in the order of memory.
///
/// # Errors
/// The errors of `fill`; an error if the output has no channels, or is not int8.
pub(crate) fn write_last(
    output: &mut TensorViewMut<'_>,
    fill: impl FnOnce(&mut [i8]) -> std::result::Result<(), LayerError>,
) -> std::result::Result<(), LayerError> {
    let layout = with_channels_last(output.layout())?;
    write::<i8>(&mut output.reborrow().with_layout(layout)?, fill)
}

/// The layout with the channels as its last axis.
pub(super) fn with_channels_last(layout: &Layout) -> Result<Layout> {
    let others = 2..layout.shape().rank();
    let order: SmallVec<[usize; MAX_RANK]> = [0].into_iter().chain(others).chain([1]).collect();
    layout.permute(&order)
}
