//! Convolution of tensors whose channels lie in blocks.

use super::super::epilogue::Epilogue;
use super::super::padding::PaddingMode;
use super::super::ready::Ready;
use super::{Conv, pad_same};
use crate::Limits;
use crate::graph::{FieldValue, LayerError, NO_KEY, OperatorReader, TensorFormat, TensorMeta, Weight};
use crate::kernels::blocked::{BlockedShape, BlockedWeights};
use crate::tensor::{DType, Format, Shape, TensorView, TensorViewMut};
use std::sync::Arc;

/// What a convolution keeps for blocked tensors. Clones share the weights.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    /// The channels of a block, where tensors were settled to be blocked.
    block: Option<u8>,
    weights: Option<Arc<Weights>>,
    shape: Ready<(Shape, BlockedShape)>,
}

/// Weights in the order of the kernel.
#[derive(Debug)]
enum Weights {
    Eight(BlockedWeights<8>),
    Sixteen(BlockedWeights<16>),
}

impl FieldValue for Blocks {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self::default()))
    }
}

fn block_of(format: Format) -> Option<u8> {
    match format {
        Format::Blocked { axis: 1, block: block @ (8 | 16) } => Some(block),
        _ => None,
    }
}

impl Conv {
    /// Whether there is a blocked kernel for these parameters, as far as they tell.
    fn may_be_blocked(&self) -> bool {
        let (Weight::Attribute(weight), None | Some(Weight::Attribute(_))) = (&self.weight, &self.bias)
        else {
            return false;
        };
        let [out_channels, per_group, _, _] = *weight.shape() else { return false };
        let is_depthwise = per_group == 1 && self.groups == out_channels;
        weight.dtype() == DType::F32
            && self.padding_mode == PaddingMode::Zeros
            && (self.groups == 1 || is_depthwise)
    }

    /// All tensors lie the same way: input, output and what the epilogue reads.
    pub(super) fn takes(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let (Some(format), Some(first)) = (formats.get(position), formats.first()) else { return false };
        if format.is_quantized || format.format != first.format {
            return false;
        }
        format.format == Format::Plain
            || (block_of(format.format).is_some() && format.dtype == DType::F32 && self.may_be_blocked())
    }

    /// Takes note of blocked tensors.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for a single sample, or an epilogue that broadcasts.
    pub(super) fn configure_blocks(
        &mut self,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
    ) -> Result<(), LayerError> {
        let block = inputs.first().and_then(|input| block_of(input.format()));
        if block != self.blocks.block {
            self.blocks = Blocks { block, ..Blocks::default() };
        }
        let (Some(_), Some(output)) = (block, outputs.first()) else { return Ok(()) };
        let further = inputs.get(1..).unwrap_or_default();
        let is_pointwise = self.epilogue.as_ref().is_none_or(Epilogue::is_pointwise)
            && further.iter().all(|input| input.dims() == output.dims());
        if output.rank() != 4 || !is_pointwise {
            let reason =
                "channels in blocks need a batch, and an epilogue whose inputs have the output's shape";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        Ok(())
    }

    /// What a plan stores of it: the channels of a block, where there are blocks.
    pub(super) fn stored_blocks(&self) -> Vec<u8> {
        self.blocks.block.into_iter().collect()
    }

    /// Takes over what [`Conv::stored_blocks`] returned.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for anything else.
    pub(super) fn restore_blocks(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        let block = match bytes {
            [] => None,
            [block @ (8 | 16)] if self.may_be_blocked() => Some(*block),
            _ => return Err(LayerError::Unsupported(format!("{bytes:?} are no channels of a block"))),
        };
        self.blocks = Blocks { block, ..Blocks::default() };
        Ok(())
    }

    /// Orders the weights, where tensors are blocked.
    ///
    /// # Errors
    /// Weights that cannot be read.
    pub(super) fn initialize_blocks(&mut self) -> Result<(), LayerError> {
        self.blocks.weights = match self.blocks.block {
            Some(block) => Some(Arc::new(self.ordered(block)?)),
            None => None,
        };
        Ok(())
    }

    fn ordered(&self, block: u8) -> Result<Weights, LayerError> {
        let (Weight::Attribute(weight), bias) = (&self.weight, &self.bias) else {
            return Err(LayerError::Unsupported("weights that the graph computes are not blocked".into()));
        };
        let bias = match bias {
            Some(Weight::Attribute(bias)) => Some(bias.decode()?.slice::<f32>()?),
            _ => None,
        };
        let shape = self.blocked_shape(&[1, 1, 1, 1])?;
        let weight = weight.decode()?.slice::<f32>()?;
        Ok(match block {
            8 => Weights::Eight(BlockedWeights::new(&shape, weight, bias)),
            _ => Weights::Sixteen(BlockedWeights::new(&shape, weight, bias)),
        })
    }

    /// The sizes for an input of this shape.
    fn blocked_shape(&self, input: &[usize]) -> Result<BlockedShape, LayerError> {
        let (Weight::Attribute(weight), [_, _, lens @ ..]) = (&self.weight, input) else {
            return Err(LayerError::Unsupported("weights that the graph computes are not blocked".into()));
        };
        let (&[out_channels, per_group, rows, columns], &[height, width]) = (weight.shape(), lens) else {
            return Err(LayerError::Unsupported("channels in blocks need two axes beside them".into()));
        };
        let mut windows = self.windows(&[rows, columns])?;
        if self.padding == super::Padding::Same {
            windows.iter_mut().zip([height, width]).for_each(|(window, len)| pad_same(window, len));
        }
        let &[high, wide] = &windows[..] else {
            return Err(LayerError::Unsupported("a window of two axes is needed".into()));
        };
        Ok(BlockedShape {
            channels: per_group * self.groups,
            out_channels,
            is_depthwise: per_group == 1 && self.groups == out_channels && self.groups > 1,
            lens: [height, width],
            windows: [high, wide],
        })
    }

    /// Convolves blocked tensors.
    ///
    /// # Errors
    /// A deadline that has passed; what the epilogue says.
    pub(super) fn run_blocked(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        if self.blocks.weights.is_none() {
            self.blocks.block = block_of(inputs[0].layout().format());
            self.initialize_blocks()?;
        }
        let mut shape = self.blocks.shape.take();
        let result = shape.of(*inputs[0].shape(), |input| self.blocked_shape(input)).and_then(|shape| {
            match self.blocks.weights.as_deref() {
                Some(Weights::Eight(weights)) => samples(shape, weights, &inputs[0], output, limits),
                Some(Weights::Sixteen(weights)) => samples(shape, weights, &inputs[0], output, limits),
                None => Err(LayerError::Unsupported("the weights were not ordered".into())),
            }
        });
        self.blocks.shape = shape;
        result?;
        let Some(epilogue) = &mut self.epilogue else { return Ok(()) };
        finish(epilogue, inputs, output, limits)
    }

    /// How well the kernel uses the processor, compared with a product of matrices: measured on AVX-512.
    pub(super) fn blocked_efficiency(&self, inputs: &[TensorMeta]) -> f64 {
        let Some(input) = inputs.first() else { return 1.0 };
        let is_blocked = block_of(input.format()).is_some();
        let is_wide = self.weight.meta(inputs).is_ok_and(|weight| match weight.dims() {
            [_, _, .., columns] => columns.fixed().is_some_and(|columns| columns > 3),
            _ => false,
        });
        let is_strided = self.stride.values().iter().any(|&stride| stride > 1);
        match (is_blocked, self.groups > 1) {
            (true, false) => 0.22,
            (true, true) if is_wide => 0.115,
            (true, true) if is_strided => 0.17,
            (true, true) => 0.2,
            (false, true) if is_strided => 0.1,
            (false, true) => 0.155,
            // Numbers of half precision become others first.
            (false, false) if input.dtype().size() == 2 => 0.85,
            (false, false) => 1.0,
        }
    }
}

/// Convolves one sample after the other.
fn samples<const B: usize>(
    shape: &BlockedShape,
    weights: &BlockedWeights<B>,
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
) -> Result<(), LayerError> {
    let [sample, out_sample] = shape.sample::<B>();
    if out_sample == 0 {
        return Ok(());
    }
    let input = input.with_layout(input.layout().unrolled()?)?;
    let layout = output.layout().unrolled()?;
    let mut output = output.reborrow().with_layout(layout)?;
    let (input, output) = (input.slice::<f32>()?, output.slice::<f32>()?);
    for (index, output) in output.chunks_exact_mut(out_sample).enumerate() {
        shape.run(&input[index * sample..][..sample], weights, output, limits)?;
    }
    Ok(())
}

/// Applies an epilogue: element by element, for all tensors lie the same way.
fn finish(
    epilogue: &mut Epilogue,
    inputs: &[TensorView<'_>],
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
) -> Result<(), LayerError> {
    let lying: Vec<TensorView<'_>> = inputs
        .iter()
        .map(|input| Ok(input.with_layout(input.layout().unrolled()?)?))
        .collect::<Result<_, LayerError>>()?;
    let layout = output.layout().unrolled()?;
    epilogue.apply(&lying, &mut output.reborrow().with_layout(layout)?, limits)
}
