//! Convolution of tensors whose channels lie in blocks.

mod state;

use super::method::Method;
use super::{Conv, pad_same};
use crate::kernels::blocked::{
    BlockedShape, Blocking, DenseConv, DenseWeights, DepthwiseConv, WinogradConv, WinogradWeights,
};
use crate::kernels::elementwise::Finish;
use crate::kernels::isa;
use crate::kernels::packed::{Ending, Panels};
use crate::op::{
    FieldValue, ForwardContext, LayerError, NO_KEY, OperatorReader, TensorFormat, TensorMeta, Weight,
};
use crate::ops::layout::padding::PaddingMode;
use crate::ops::support::epilogue::Epilogue;
use crate::ops::support::float;
use crate::ops::support::ready::Ready;
use crate::ops::support::stored::{Stored, numbers_of};
use crate::tensor::{DType, Format, Shape, Tensor, TensorView, TensorViewMut};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// Padded samples may be so many times as large as they are without padding, or have so many elements.
const SURROUNDED: usize = 4;
const ALWAYS: usize = 1 << 20;

/// What a convolution keeps for blocked tensors. Clones share the weights.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    /// None where tensors were not settled to be blocked.
    blocking: Option<Blocking>,
    method: Method,
    weights: Option<Arc<OnceLock<Weights>>>,
    stored: Stored<(Blocking, Method)>,
    sizes: Ready<(Shape, Sizes)>,
}

/// Weights in the order of the kernel.
#[derive(Debug)]
enum Weights {
    Depthwise(Panels),
    Dense(DenseWeights),
    Winograd(WinogradWeights),
}

impl Weights {
    fn panels(&self) -> &[Panels] {
        match self {
            Self::Depthwise(panels) => std::slice::from_ref(panels),
            Self::Dense(weights) => weights.panels(),
            Self::Winograd(weights) => weights.panels(),
        }
    }
}

/// What depends on the input's shape.
#[derive(Debug)]
enum Sizes {
    Depthwise(DepthwiseConv),
    Dense(DenseConv),
    Winograd(WinogradConv),
}

impl FieldValue for Blocks {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Stored::read(reader, key)?.map(|stored| Self { stored, ..Self::default() }))
    }
}

/// The channels of a block, of a format that kernels know.
fn block_of(format: Format) -> Option<u8> {
    match format {
        Format::Blocked { axis: 1, block: block @ (8 | 16) } => Some(block),
        _ => None,
    }
}

/// How tensors lie, by the formats of input and output; none where the output is not blocked.
fn blocking_of(input: Format, output: Format) -> Option<Blocking> {
    let block = block_of(output)?;
    let is_input_blocked = input == output;
    (is_input_blocked || input == Format::Plain).then_some(Blocking { block: block.into(), is_input_blocked })
}

impl Conv {
    /// Whether there is a kernel for tensors that lie so, as far as the parameters tell.
    fn suits(&self, blocking: Blocking) -> bool {
        let (Weight::Attribute(weight), None | Some(Weight::Attribute(_))) = (&self.weight, &self.bias)
        else {
            return false;
        };
        let [out_channels, per_group, rows, columns] = *weight.shape() else { return false };
        let is_depthwise = per_group == 1 && self.groups == out_channels && self.groups > 1;
        let channels = per_group.saturating_mul(self.groups);
        weight.dtype() == DType::F32
            && out_channels > 0
            && self.padding_mode == PaddingMode::Zeros
            && match is_depthwise {
                true => {
                    let reach = self.windows(&[rows, columns]).is_ok_and(|windows| match windows[..] {
                        [high, wide] => DepthwiseConv::suits([high, wide], blocking.block),
                        _ => false,
                    });
                    blocking.is_input_blocked && reach
                }
                false => blocking.suits(channels, out_channels, self.groups),
            }
    }

    /// Whether the tensor at a position may have its format: all lie the same way, input, output and what the epilogue
    /// reads; the input alone may be plain where the others are blocked.
    pub(super) fn takes(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let (Some(&format), Some(&first)) = (formats.get(position), formats.first()) else { return false };
        if format.is_quantized {
            return false;
        }
        let blocking = match position {
            // What the output is to be is not known yet.
            0 if format.format == Format::Plain => return true,
            0 => blocking_of(format.format, format.format),
            _ if formats[..=position].iter().all(|format| format.format == Format::Plain) => return true,
            _ if formats[1] != format => return false,
            _ => blocking_of(first.format, format.format),
        };
        let is_single = format.dtype == DType::F32 && first.dtype == DType::F32;
        is_single && blocking.is_some_and(|blocking| self.suits(blocking))
    }

    /// Takes note of blocked tensors.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for a single sample, for padding that is larger than what it surrounds, an epilogue that
    /// broadcasts, or another method than the definition on an input that is not blocked, or that it doesn't suit.
    pub(super) fn configure_blocks(
        &mut self,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
    ) -> Result<(), LayerError> {
        let formats = inputs.first().zip(outputs.first());
        let blocking = formats.and_then(|(input, output)| blocking_of(input.format(), output.format()));
        if blocking != self.blocks.blocking {
            self.settle_blocks(blocking, self.blocks.method);
        }
        if self.blocks.method != Method::Definition
            && !blocking.is_some_and(|blocking| self.has_method(blocking, self.blocks.method))
        {
            let (name, reason) = (self.blocks.method.tactic().name, "needs the input's channels in blocks");
            return Err(LayerError::Unsupported(format!("the tactic {name} {reason} that suit it")));
        }
        let (Some(_), Some(output)) = (blocking, outputs.first()) else { return Ok(()) };
        let further = inputs.get(1..).unwrap_or_default();
        let is_pointwise = self.epilogue.as_ref().is_none_or(Epilogue::is_pointwise)
            && further.iter().all(|input| input.dims() == output.dims());
        if output.rank() != 4 || !is_pointwise {
            let reason =
                "channels in blocks need a batch, and an epilogue whose inputs have the output's shape";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        // Once this is settled, other shapes have no other way to be computed.
        let is_asked = self.blocks.weights.is_none();
        match inputs.first().and_then(|input| input.shape().ok()).filter(|_| is_asked) {
            Some(input) => check_padding(&self.blocked_shape(&input)?),
            None => Ok(()),
        }
    }

    /// Forgets what was prepared for tensors that lie otherwise, and for another method.
    fn settle_blocks(&mut self, blocking: Option<Blocking>, method: Method) {
        let stored = std::mem::take(&mut self.blocks.stored);
        self.blocks = Blocks { blocking, method, stored, ..Blocks::default() };
    }

    /// Settles how blocks are computed.
    pub(super) fn settle_method(&mut self, method: Method) {
        if method != self.blocks.method {
            self.settle_blocks(self.blocks.blocking, method);
        }
    }

    /// Puts the weights in order, where tensors are blocked.
    ///
    /// # Errors
    /// Weights that cannot be read.
    pub(super) fn initialize_blocks(&mut self) -> Result<(), LayerError> {
        self.blocks.weights = self.blocks.blocking.map(|_| Arc::default());
        let (Some(blocking), Some(weights)) = (self.blocks.blocking, &self.blocks.weights) else {
            return Ok(());
        };
        self.made(blocking, weights).map(drop)
    }

    /// The weights in order, which a plan stores.
    pub(super) fn packed_blocks(&self) -> Option<Vec<f32>> {
        self.blocks.weights.as_ref()?.get().map(|weights| numbers_of(weights.panels()))
    }

    /// Weights in order, which are made once.
    fn made<'a>(
        &self,
        blocking: Blocking,
        weights: &'a OnceLock<Weights>,
    ) -> Result<&'a Weights, LayerError> {
        if let Some(weights) = weights.get() {
            return Ok(weights);
        }
        let made = match self.stored_weights(blocking)? {
            Some(stored) => stored,
            None => self.ordered(blocking)?,
        };
        Ok(weights.get_or_init(|| made))
    }

    /// Those that a plan stored, where they are of the right order and size.
    fn stored_weights(&self, blocking: Blocking) -> Result<Option<Weights>, LayerError> {
        let method = self.blocks.method;
        let Some(numbers) = self.blocks.stored.numbers(&(blocking, method))? else { return Ok(None) };
        let shape = self.blocked_shape(&[1, 1, 1, 1])?;
        Ok(match method {
            Method::Winograd(tile) => {
                WinogradWeights::stored(&shape, &numbers, (tile, blocking.block)).map(Weights::Winograd)
            }
            _ if shape.is_depthwise() => {
                DepthwiseConv::stored(&shape, blocking.block, numbers).map(Weights::Depthwise)
            }
            _ => {
                DenseWeights::stored(&shape, numbers, self.blocks.method.dense(blocking)).map(Weights::Dense)
            }
        })
    }

    fn ordered(&self, blocking: Blocking) -> Result<Weights, LayerError> {
        let Weight::Attribute(weight) = &self.weight else { return Err(computed()) };
        // What is put in order is not needed any more as it was.
        let (weight, bias) = (
            weight.load()?,
            match &self.bias {
                Some(Weight::Attribute(bias)) => Some(bias.load()?),
                _ => None,
            },
        );
        let (weight, bias) = (weight.slice::<f32>()?, bias.as_ref().map(Tensor::slice::<f32>).transpose()?);
        let shape = self.blocked_shape(&[1, 1, 1, 1])?;
        if let Some(found) = bias.map(<[f32]>::len).filter(|&len| len != shape.out_channels) {
            let wanted = shape.out_channels;
            return Err(LayerError::Unsupported(format!("a bias of {found} numbers for {wanted} channels")));
        }
        let weights = if shape.is_depthwise() {
            let conv = DepthwiseConv::new(shape, blocking.block);
            conv.map(|conv| Weights::Depthwise(conv.weights(weight, bias)))
        } else if let Method::Winograd(tile) = self.blocks.method {
            let method = (tile, blocking.block);
            WinogradWeights::new(&shape, (weight, bias), method).map(Weights::Winograd)
        } else {
            DenseWeights::new(&shape, (weight, bias), self.blocks.method.dense(blocking)).map(Weights::Dense)
        };
        weights.ok_or_else(no_kernel)
    }

    /// The sizes for an input of this shape.
    pub(super) fn blocked_shape(&self, input: &[usize]) -> Result<BlockedShape, LayerError> {
        let (Weight::Attribute(weight), [_, _, lens @ ..]) = (&self.weight, input) else {
            return Err(computed());
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
            channels: per_group.saturating_mul(self.groups),
            out_channels,
            groups: self.groups,
            lens: [height, width],
            windows: [high, wide],
        })
    }

    fn sizes(&self, input: &[usize], blocking: Blocking) -> Result<Sizes, LayerError> {
        let shape = self.blocked_shape(input)?;
        if shape.is_depthwise() {
            let conv = DepthwiseConv::new(shape, blocking.block);
            return conv.map(Sizes::Depthwise).ok_or_else(no_kernel);
        }
        if with_channels(&shape, shape.padded_lens()) > isize::MAX as usize {
            return Err(LayerError::Unsupported("the padding is longer than memory".to_owned()));
        }
        let Method::Winograd(tile) = self.blocks.method else {
            return Ok(Sizes::Dense(DenseConv::new(shape, self.blocks.method.dense(blocking))));
        };
        WinogradConv::new(shape, (tile, blocking.block)).map(Sizes::Winograd).ok_or_else(no_kernel)
    }

    /// Bytes of scratch memory for blocked tensors.
    pub(super) fn blocked_workspace(&self, inputs: &[TensorMeta]) -> usize {
        let (Some(blocking), Some(input)) = (self.blocks.blocking, inputs.first()) else { return 0 };
        let sizes = input.shape().map_err(LayerError::from).and_then(|shape| self.sizes(&shape, blocking));
        match sizes {
            Ok(Sizes::Dense(conv)) => conv.scratch().saturating_mul(size_of::<f32>()),
            Ok(Sizes::Winograd(conv)) => conv.scratch().saturating_mul(size_of::<f32>()),
            _ => 0,
        }
    }

    /// Convolves blocked tensors.
    ///
    /// # Errors
    /// A deadline that has passed; what the epilogue says.
    pub(super) fn run_blocked(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let Some(blocking) = blocking_of(inputs[0].layout().format(), output.layout().format()) else {
            return Err(LayerError::Unsupported("tensors that lie in different blocks".to_owned()));
        };
        if self.blocks.weights.is_none() || self.blocks.blocking != Some(blocking) {
            let method = Some(self.blocks.method).filter(|_| blocking.is_input_blocked);
            self.settle_blocks(Some(blocking), method.unwrap_or_default());
        }
        let weights = Arc::clone(self.blocks.weights.get_or_insert_default());
        let weights = self.made(blocking, &weights)?;
        let (mut sizes, mut epilogue) = (self.blocks.sizes.take(), self.epilogue.take());
        let result = sizes
            .of(*inputs[0].shape(), |input| self.sizes(input, blocking))
            .and_then(|sizes| run(sizes, weights, epilogue.as_mut(), inputs, output, context));
        (self.blocks.sizes, self.epilogue) = (sizes, epilogue);
        result
    }

    /// How many times as fast the settled method is as the definition.
    fn gain(&self, input: &TensorMeta, block: usize) -> f64 {
        let shape = input.shape().map_err(LayerError::from).and_then(|shape| self.blocked_shape(&shape));
        shape.map_or(1.0, |shape| self.blocks.method.gain(&shape, block))
    }

    /// How well the kernel uses the processor, compared with a product of matrices: measured on AVX-512, but for the 1.3 of dense
    /// blocks, an estimate of what they save around the product.
    pub(super) fn blocked_efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> f64 {
        let (Some(input), Some(output)) = (inputs.first(), outputs.first()) else { return 1.0 };
        let block = block_of(output.format()).map(usize::from);
        let is_wide = self.weight.meta(inputs).is_ok_and(|weight| match weight.dims() {
            [_, _, .., columns] => columns.fixed().is_some_and(|columns| columns > 3),
            _ => false,
        });
        let is_strided = self.stride.values().iter().any(|&stride| stride > 1);
        let is_depthwise = match &self.weight {
            Weight::Attribute(weight) => self.groups > 1 && weight.shape().get(1) == Some(&1),
            Weight::Input(_) => false,
        };
        match (block, is_depthwise) {
            (Some(block), false) => 1.3 * block as f64 / isa().lanes() as f64 * self.gain(input, block),
            (Some(_), true) if is_wide && is_strided => 0.33,
            (Some(_), true) if is_wide => 0.5,
            (Some(_), true) if is_strided => 0.15,
            (Some(_), true) => 0.3,
            (None, _) if self.groups > 1 && is_strided => 0.1,
            (None, _) if self.groups > 1 => 0.155,
            // Numbers of half precision become others first.
            (None, _) if input.dtype().size() == 2 => 0.85,
            (None, _) => 1.0,
        }
    }
}

/// Elements of planes of these lengths, those of a last block among them.
fn with_channels(shape: &BlockedShape, lens: [usize; 2]) -> usize {
    let channels = shape.channels.saturating_add(16);
    [channels, lens[0], lens[1]].into_iter().fold(1, usize::saturating_mul)
}

/// Refuses an input that is little beside the padding around it, which is stored with it.
fn check_padding(shape: &BlockedShape) -> Result<(), LayerError> {
    let [elements, padded] = [shape.lens, shape.padded_lens()].map(|lens| with_channels(shape, lens));
    if !shape.is_depthwise() && padded > elements.saturating_mul(SURROUNDED).max(ALWAYS) {
        return Err(LayerError::Unsupported("there is far more padding than input".to_owned()));
    }
    Ok(())
}

fn no_kernel() -> LayerError {
    LayerError::Unsupported("no kernel for these blocks of channels".to_owned())
}

fn computed() -> LayerError {
    LayerError::Unsupported("weights that the graph computes are not blocked".to_owned())
}

/// Convolves all samples.
fn run(
    sizes: &Sizes,
    weights: &Weights,
    epilogue: Option<&mut Epilogue>,
    inputs: &[TensorView<'_>],
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<(), LayerError> {
    let mut lying: SmallVec<[TensorView<'_>; 4]> = SmallVec::new();
    for input in inputs {
        lying.push(input.with_layout(input.layout().unrolled()?)?);
    }
    let layout = output.layout().unrolled()?;
    let mut output = output.reborrow().with_layout(layout)?;
    let simple = epilogue.as_ref().and_then(|epilogue| epilogue.in_registers(&lying, &output));
    let (bounds, added) = simple.unwrap_or((Ending::NONE.bounds, None));
    let epilogue = epilogue.filter(|_| simple.is_none());
    let run = epilogue.map(|epilogue| epilogue.start(&lying, DType::F32, layout.shape())).transpose()?;
    let finish = run.as_ref().map(|run| run as &dyn Finish<f32>);
    // A plain input may have any strides.
    let (input, output) = (float::read::<f32>(&lying[0])?, output.slice::<f32>()?);
    let samples = inputs[0].shape().first().copied().unwrap_or(1).max(1);
    let ending = Ending { bounds, added, finish, first: 0 };
    run_samples(sizes, weights, &input, (output, samples), &ending, context)
}

/// Convolves one sample after the other.
fn run_samples(
    sizes: &Sizes,
    weights: &Weights,
    input: &[f32],
    (output, samples): (&mut [f32], usize),
    ending: &Ending<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<(), LayerError> {
    let (sample, out_sample) = (input.len() / samples, output.len() / samples);
    if out_sample == 0 {
        return Ok(());
    }
    let limits = context.limits();
    let scratch = match sizes {
        Sizes::Dense(conv) => context.scratch::<f32>(conv.scratch())?,
        Sizes::Winograd(conv) => context.scratch_between::<f32>(conv.least_scratch(), conv.scratch())?,
        Sizes::Depthwise(_) => &mut [],
    };
    for (index, output) in output.chunks_exact_mut(out_sample).enumerate() {
        let (input, first) = (&input[index * sample..][..sample], index * out_sample);
        let added = ending.added.map(|added| &added[first..][..out_sample]);
        let ending = Ending { added, first, ..*ending };
        match (sizes, weights) {
            (Sizes::Dense(conv), Weights::Dense(weights)) => {
                conv.run(input, weights, output, scratch, &ending, limits)?;
            }
            (Sizes::Depthwise(conv), Weights::Depthwise(weights)) => {
                conv.run(input, weights, output, &ending, limits)?;
            }
            (Sizes::Winograd(conv), Weights::Winograd(weights)) => {
                conv.run(input, weights, output, scratch, &ending, limits)?;
            }
            _ => return Err(LayerError::Unsupported("weights of another kind of convolution".to_owned())),
        }
    }
    Ok(())
}
