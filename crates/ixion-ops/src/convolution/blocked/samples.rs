//! The samples of a convolution of tensors with blocked channels.

use super::state::{Ready, Sizes, Weights};
use crate::op::{ForwardContext, LayerError, Result};
use crate::support::epilogue::Epilogue;
use crate::support::float;
use ixion_kernels::elementwise::ApplyEpilogue;
use ixion_kernels::packed::SumEpilogue;
use ixion_tensor::{DType, Format, TensorView, TensorViewMut};
use smallvec::SmallVec;

/// Convolves all samples.
pub(super) fn run(
    ready: &Ready,
    weights: &Weights,
    epilogue: Option<&mut Epilogue>,
    inputs: &[TensorView<'_>],
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    let mut unrolled: SmallVec<[TensorView<'_>; 4]> = SmallVec::new();
    for input in inputs {
        unrolled.push(input.with_layout(input.layout().unrolled()?)?);
    }
    let layout = output.layout().unrolled()?;
    let mut output = output.reborrow().with_layout(layout)?;
    let simple = epilogue.as_ref().and_then(|epilogue| epilogue.in_registers(&unrolled, &output));
    let (bounds, added) = simple.unwrap_or((SumEpilogue::NONE.bounds, None));
    let epilogue = epilogue.filter(|_| simple.is_none());
    let run = epilogue.map(|epilogue| epilogue.start(&unrolled, DType::F32, layout.shape())).transpose()?;
    let elementwise = run.as_ref().map(|run| run as &dyn ApplyEpilogue<f32>);
    // A plain input may have any strides.
    let (input, output) = (float::read::<f32>(&unrolled[0])?, output.slice::<f32>()?);
    let inner = match inputs[0].layout().format() {
        Format::Blocked { block, .. } => usize::from(block),
        Format::Plain | Format::ChannelsLast => 1,
    };
    let samples = Samples {
        ready,
        weights,
        input: &input,
        count: inputs[0].shape().first().copied().unwrap_or(1).max(1),
        inner,
    };
    samples.run(output, &SumEpilogue { bounds, added, elementwise, first: 0 }, context)
}

/// The samples of an input.
struct Samples<'a> {
    ready: &'a Ready,
    weights: &'a Weights,
    input: &'a [f32],
    count: usize,
    /// The number of adjacent elements at each position of a plane.
    inner: usize,
}

impl Samples<'_> {
    /// Convolves the samples in turn, or all together where that is faster.
    fn run(
        &self,
        output: &mut [f32],
        epilogue: &SumEpilogue<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let (sample, out_sample) = (self.input.len() / self.count, output.len() / self.count);
        if out_sample == 0 {
            return Ok(());
        }
        let (limits, room) = (context.limits(), self.ready.room);
        let scratch = match &self.ready.sizes {
            Sizes::Dense(conv) => context.scratch::<f32>(room.saturating_add(conv.scratch()))?,
            Sizes::Winograd(conv) => {
                let [least, most] =
                    [conv.least_scratch(), conv.scratch()].map(|len| room.saturating_add(len));
                context.scratch_between::<f32>(least, most)?
            }
            Sizes::Depthwise(_) => context.scratch::<f32>(room)?,
        };
        let (padded, scratch) = scratch.split_at_mut(room);
        let together = match &self.ready.sizes {
            Sizes::Winograd(conv) => conv.samples(),
            Sizes::Dense(_) | Sizes::Depthwise(_) => 1,
        };
        let (sample, out_sample) = (sample * together, out_sample * together);
        for (index, output) in output.chunks_exact_mut(out_sample).enumerate() {
            let (input, first) = (&self.input[index * sample..][..sample], index * out_sample);
            let input = match &self.ready.border {
                Some(border) => border.pad(input, self.inner, &mut *padded, limits)?,
                None => input,
            };
            let added = epilogue.added.map(|added| &added[first..][..out_sample]);
            let epilogue = SumEpilogue { added, first, ..*epilogue };
            match (&self.ready.sizes, self.weights) {
                (Sizes::Dense(conv), Weights::Dense(weights)) => {
                    conv.run(input, weights, output, scratch, &epilogue, limits)?;
                }
                (Sizes::Depthwise(conv), Weights::Depthwise(weights)) => {
                    conv.run(input, weights, output, &epilogue, limits)?;
                }
                (Sizes::Winograd(conv), Weights::Winograd(weights)) => {
                    conv.run(input, weights, output, scratch, &epilogue, limits)?;
                }
                _ => {
                    return Err(LayerError::Unsupported(
                        "the weights were packed for another kind of convolution".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }
}
