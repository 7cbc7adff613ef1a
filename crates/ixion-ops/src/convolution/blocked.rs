//! Convolution of tensors with blocked channels.

mod samples;
mod state;

use super::algorithm::ConvAlgorithm;
use super::{Conv, border, pad_same};
use crate::layout::padding::PaddingMode;
use crate::op::{ForwardContext, LayerError, Result, TensorFormat, TensorMeta, Weight};
use crate::support::epilogue::Epilogue;
use crate::support::packed::{BF16, NO_PAIRS};
use crate::support::packed_weights::numbers_of;
use ixion_kernels::blocked::{
    BlockedShape, Blocking, DenseConv, DenseWeights, DepthwiseConv, Tile, WinogradConv, WinogradWeights,
};
use ixion_kernels::{Isa, isa, multiplies_pairs};
use ixion_tensor::{DType, Format, Limits, Tensor, TensorView, TensorViewMut};
use samples::run;
pub(super) use state::Blocks;
use state::{Ready, Sizes, Weights};
use std::sync::{Arc, OnceLock};

/// Padding may enlarge a sample by at most this factor, unless it still has no more than [`MAX_PADDED_ELEMENTS`].
const MAX_PADDED_RATIO: usize = 4;
const MAX_PADDED_ELEMENTS: usize = 1 << 20;

/// The number of channels per block of a format that the kernels support.
fn block_of(format: Format) -> Option<u8> {
    match format {
        Format::Blocked { axis: 1, block: block @ (8 | 16) } => Some(block),
        _ => None,
    }
}

/// The blocking of tensors with these formats; `None` if the output is not blocked.
fn blocking_of(input: Format, output: Format) -> Option<Blocking> {
    let block = block_of(output)?;
    let is_input_blocked = input == output;
    (is_input_blocked || input == Format::Plain).then_some(Blocking { block: block.into(), is_input_blocked })
}

impl Conv {
    /// Returns true if a kernel supports this blocking, judging by the parameters.
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
            && self.padding_mode != PaddingMode::Constant
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

    /// Returns true if the tensor at a position may have its format. Input, output and the epilogue's inputs must have the same
    /// format, except that the input may be plain if the others are blocked.
    pub(super) fn takes(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let (Some(&format), Some(&first)) = (formats.get(position), formats.first()) else { return false };
        if format.is_quantized {
            return false;
        }
        let blocking = match position {
            // The output's format is not known yet.
            0 if format.format == Format::Plain => return true,
            0 => blocking_of(format.format, format.format),
            _ if formats[..=position].iter().all(|format| format.format == Format::Plain) => return true,
            _ if formats[1] != format => return false,
            _ => blocking_of(first.format, format.format),
        };
        let is_single = format.dtype == DType::F32 && first.dtype == DType::F32;
        is_single && blocking.is_some_and(|blocking| self.suits(blocking))
    }

    /// Configures the convolution for blocked tensors.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for an input without a batch axis, padding far larger than the input, an epilogue that
    /// broadcasts, or an algorithm other than direct convolution on an input that is not blocked or does not suit it.
    pub(super) fn configure_blocks(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let formats = inputs.first().zip(outputs.first());
        let blocking = formats.and_then(|(input, output)| blocking_of(input.format(), output.format()));
        if blocking != self.blocks.blocking {
            self.reset_blocks(blocking, self.blocks.algorithm);
        }
        if self.blocks.algorithm != ConvAlgorithm::Direct
            && !blocking.is_some_and(|blocking| self.supports_algorithm(blocking, self.blocks.algorithm))
        {
            let name = self.blocks.algorithm.tactic().name;
            let found = inputs.first().map_or_else(|| "none".to_owned(), TensorMeta::to_string);
            return Err(LayerError::Unsupported(format!(
                "the tactic `{name}`: expected an input with channel blocks that suit it, got {found}"
            )));
        }
        let (Some(_), Some(output)) = (blocking, outputs.first()) else { return Ok(()) };
        let further = inputs.get(1..).unwrap_or_default();
        let is_pointwise = self.epilogue.as_ref().is_none_or(Epilogue::is_pointwise)
            && further.iter().all(|input| input.dims() == output.dims());
        if output.rank() != 4 || !is_pointwise {
            let reason = "blocked channels require a batch axis, and epilogue inputs of the output's shape";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        // Once configured, the layer must accept other shapes: they cannot be computed in another format.
        let is_unconfigured = self.blocks.weights.is_none();
        match inputs.first().and_then(|input| input.shape().ok()).filter(|_| is_unconfigured) {
            Some(input) => self.check_padding(&self.blocked_shape(&input)?, &input),
            None => Ok(()),
        }
    }

    /// Returns true if the input is stored with its padding.
    fn stores_padded(&self, shape: &BlockedShape) -> bool {
        !shape.is_depthwise() || self.padding_mode.mirror().is_some()
    }

    /// Rejects an input that is small compared with its padding, which is stored with it.
    fn check_padding(&self, shape: &BlockedShape, input: &[usize]) -> Result<()> {
        let lens = input.last_chunk::<2>().copied().unwrap_or(shape.lens);
        let [elements, padded] = [lens, shape.padded_lens()].map(|lens| with_channels(shape, lens));
        let most = elements.saturating_mul(MAX_PADDED_RATIO).max(MAX_PADDED_ELEMENTS);
        if self.stores_padded(shape) && padded > most {
            return Err(LayerError::Unsupported("the padding is far larger than the input".to_owned()));
        }
        Ok(())
    }

    /// Discards state that was prepared for another blocking or algorithm.
    fn reset_blocks(&mut self, blocking: Option<Blocking>, algorithm: ConvAlgorithm) {
        let stored = std::mem::take(&mut self.blocks.stored);
        self.blocks = Blocks { blocking, algorithm, stored, ..Blocks::default() };
    }

    /// The tile sizes that Winograd's algorithm supports, judging by the parameters: it requires a 3×3 kernel, a stride and
    /// dilation of 1, and one group.
    fn tiles(&self, weight: &[usize]) -> &'static [Tile] {
        let is_all_ones = |values: &[usize]| values.iter().all(|&value| value == 1);
        let suits = matches!(weight, [_, _, 3, 3])
            && self.groups == 1
            && is_all_ones(self.stride.values())
            && is_all_ones(self.dilation.values());
        if suits { &Tile::ALL } else { &[] }
    }

    /// The algorithms that may be available, direct convolution first.
    pub(super) fn algorithms(&self) -> Vec<ConvAlgorithm> {
        let mut algorithms = vec![ConvAlgorithm::Direct];
        let (Weight::Attribute(weight), None | Some(Weight::Attribute(_))) = (&self.weight, &self.bias)
        else {
            return algorithms;
        };
        let channels = weight.shape().get(1).copied().unwrap_or(0);
        if weight.dtype() == DType::F32 && self.padding_mode != PaddingMode::Constant {
            algorithms.extend(self.tiles(weight.shape()).iter().copied().map(ConvAlgorithm::Winograd));
            let are_pairs = weight.shape().len() == 4 && channels.is_multiple_of(2) && channels > 0;
            algorithms.extend((are_pairs && multiplies_pairs()).then_some(ConvAlgorithm::Bf16));
        }
        algorithms
    }

    /// Returns true if an algorithm other than direct convolution supports this blocking.
    fn supports_algorithm(&self, blocking: Blocking, algorithm: ConvAlgorithm) -> bool {
        let Weight::Attribute(weight) = &self.weight else { return false };
        let [out_channels, per_group, ..] = *weight.shape() else { return false };
        let channels = per_group.saturating_mul(self.groups);
        blocking.is_input_blocked && algorithm.dense(blocking).suits(channels, out_channels, self.groups)
    }

    /// Selects the algorithm of a tactic.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if no algorithm has this id.
    pub(super) fn select_tactic(&mut self, id: u32) -> Result<()> {
        let algorithm = self.algorithms().into_iter().find(|algorithm| algorithm.tactic().id == id);
        let algorithm = algorithm.ok_or_else(|| LayerError::Unsupported(format!("unknown tactic {id}")))?;
        self.set_algorithm(algorithm);
        Ok(())
    }

    /// Sets the algorithm for blocked tensors.
    fn set_algorithm(&mut self, algorithm: ConvAlgorithm) {
        if algorithm != self.blocks.algorithm {
            self.reset_blocks(self.blocks.blocking, algorithm);
        }
    }

    /// The number of channels per block, whether the input is blocked, and the tactic unless it is direct convolution. Empty if
    /// nothing is blocked.
    pub(super) fn stored_blocks(&self) -> Vec<u8> {
        let Some(Blocking { block, is_input_blocked }) = self.blocks.blocking else { return Vec::new() };
        let algorithm = self.blocks.algorithm;
        let tactic = (algorithm != ConvAlgorithm::Direct).then_some(algorithm.tactic().id as u8);
        [block as u8, is_input_blocked.into()].into_iter().chain(tactic).collect()
    }

    /// Restores the state that [`Conv::stored_blocks`] returned.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if the bytes are no such state, or no kernel supports it.
    pub(super) fn restore_blocks(&mut self, bytes: &[u8]) -> Result<()> {
        let state = self.read_state(bytes);
        if state.is_none() && !bytes.is_empty() {
            return Err(LayerError::Unsupported(refusal(bytes)));
        }
        let (blocking, algorithm) = state.unzip();
        self.reset_blocks(blocking, algorithm.unwrap_or_default());
        self.blocks.stored.set_order(state);
        Ok(())
    }

    /// Decodes the blocking and the algorithm; `None` if the bytes are invalid or no kernel supports them.
    fn read_state(&self, bytes: &[u8]) -> Option<(Blocking, ConvAlgorithm)> {
        let (block, is_input_blocked, id) = match *bytes {
            [block @ (8 | 16), flag @ (0 | 1)] => (block, flag == 1, None),
            [block @ (8 | 16), 1, id] => (block, true, Some(id)),
            _ => return None,
        };
        let blocking = Blocking { block: block.into(), is_input_blocked };
        let algorithm = match id {
            None => Some(ConvAlgorithm::Direct),
            Some(id) => self.algorithms().into_iter().skip(1).find(|it| it.tactic().id == u32::from(id)),
        };
        let supports_algorithm = |algorithm: &ConvAlgorithm| {
            *algorithm == ConvAlgorithm::Direct || self.supports_algorithm(blocking, *algorithm)
        };
        let algorithm = algorithm.filter(supports_algorithm).filter(|_| self.suits(blocking))?;
        Some((blocking, algorithm))
    }

    /// Packs the weights if tensors are blocked.
    ///
    /// # Errors
    /// Fails if the weights cannot be read.
    pub(super) fn initialize_blocks(&mut self) -> Result<()> {
        self.blocks.weights = self.blocks.blocking.map(|_| Arc::default());
        let (Some(blocking), Some(weights)) = (self.blocks.blocking, &self.blocks.weights) else {
            return Ok(());
        };
        self.packed_weights(blocking, weights).map(drop)
    }

    /// The packed weights, which a plan stores.
    pub(super) fn packed_blocks(&self) -> Option<Vec<f32>> {
        self.blocks.weights.as_ref()?.get().map(|weights| numbers_of(weights.panels()))
    }

    /// The packed weights, which are packed only once.
    fn packed_weights<'a>(&self, blocking: Blocking, weights: &'a OnceLock<Weights>) -> Result<&'a Weights> {
        if let Some(weights) = weights.get() {
            return Ok(weights);
        }
        let packed = match self.stored_weights(blocking)? {
            Some(stored) => stored,
            None => self.pack(blocking)?,
        };
        Ok(weights.get_or_init(|| packed))
    }

    /// The packed weights of a plan, if they match the packing order and size.
    fn stored_weights(&self, blocking: Blocking) -> Result<Option<Weights>> {
        let algorithm = self.blocks.algorithm;
        let Some(numbers) = self.blocks.stored.numbers(&(blocking, algorithm))? else { return Ok(None) };
        let shape = self.blocked_shape(&[1, 1, 1, 1])?;
        Ok(match algorithm {
            ConvAlgorithm::Winograd(tile) => {
                WinogradWeights::stored(&shape, &numbers, (tile, blocking.block)).map(Weights::Winograd)
            }
            _ if shape.is_depthwise() => {
                DepthwiseConv::stored(&shape, blocking.block, numbers).map(Weights::Depthwise)
            }
            _ => DenseWeights::stored(&shape, numbers, self.blocks.algorithm.dense(blocking))
                .map(Weights::Dense),
        })
    }

    fn pack(&self, blocking: Blocking) -> Result<Weights> {
        let Weight::Attribute(weight) = &self.weight else { return Err(computed()) };
        // Not cached: only the packed weights are needed from here on.
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
            return Err(LayerError::Unsupported(format!(
                "expected a bias of {wanted} elements, got {found}"
            )));
        }
        let weights = if shape.is_depthwise() {
            let conv = DepthwiseConv::new(shape, blocking.block);
            conv.map(|conv| Weights::Depthwise(conv.weights(weight, bias)))
        } else if let ConvAlgorithm::Winograd(tile) = self.blocks.algorithm {
            let algorithm = (tile, blocking.block);
            WinogradWeights::new(&shape, (weight, bias), algorithm).map(Weights::Winograd)
        } else {
            DenseWeights::new(&shape, (weight, bias), self.blocks.algorithm.dense(blocking))
                .map(Weights::Dense)
        };
        weights.ok_or_else(no_kernel)
    }

    /// The sizes of a convolution of an input of this shape, with its padding unless that is zeros.
    pub(super) fn blocked_shape(&self, input: &[usize]) -> Result<BlockedShape> {
        let (Weight::Attribute(weight), [_, _, lens @ ..]) = (&self.weight, input) else {
            return Err(computed());
        };
        let (&[out_channels, per_group, rows, columns], &[height, width]) = (weight.shape(), lens) else {
            return Err(LayerError::Unsupported("blocked channels require two spatial axes".into()));
        };
        let mut windows = self.windows(&[rows, columns])?;
        if self.padding == super::Padding::Same {
            windows.iter_mut().zip([height, width]).for_each(|(window, len)| pad_same(window, len));
        }
        let &[high, wide] = &windows[..] else {
            return Err(LayerError::Unsupported("blocked channels require a window of two axes".into()));
        };
        let (mut lens, mut windows) = ([height, width], [high, wide]);
        if self.padding_mode.mirror().is_some() {
            for (len, window) in lens.iter_mut().zip(&mut windows) {
                *len = len.saturating_add(window.pad_before).saturating_add(window.pad_after);
                (window.pad_before, window.pad_after) = (0, 0);
            }
        }
        let channels = per_group.saturating_mul(self.groups);
        Ok(BlockedShape { channels, out_channels, groups: self.groups, lens, windows })
    }

    fn sizes(&self, input: &[usize], blocking: Blocking) -> Result<Sizes> {
        let shape = self.blocked_shape(input)?;
        if self.stores_padded(&shape) && with_channels(&shape, shape.padded_lens()) > isize::MAX as usize {
            return Err(LayerError::Unsupported("the padded input exceeds the address space".to_owned()));
        }
        if shape.is_depthwise() {
            let conv = DepthwiseConv::new(shape, blocking.block);
            return conv.map(Sizes::Depthwise).ok_or_else(no_kernel);
        }
        let ConvAlgorithm::Winograd(tile) = self.blocks.algorithm else {
            return Ok(Sizes::Dense(DenseConv::new(shape, self.blocks.algorithm.dense(blocking))));
        };
        // A sample with another border than zeros is padded on its own.
        let is_alone = self.padding_mode.mirror().is_some();
        let samples = if is_alone { 1 } else { input.first().copied().unwrap_or(1) };
        let conv = WinogradConv::new(shape, samples, (tile, blocking.block));
        conv.map(Sizes::Winograd).ok_or_else(no_kernel)
    }

    /// The elements of scratch memory for a sample with its border.
    fn border_room(&self, input: &[usize], blocking: Blocking) -> Result<usize> {
        if self.padding_mode.mirror().is_none() {
            return Ok(0);
        }
        let shape = self.blocked_shape(input)?;
        let block = if blocking.is_input_blocked { blocking.block } else { 1 };
        let channels = shape.channels.checked_next_multiple_of(block).unwrap_or(usize::MAX);
        Ok(border::room(shape.lens.iter().fold(channels, |room, &len| room.saturating_mul(len))))
    }

    /// Prepares everything that depends on the shape of the input.
    fn ready(&self, input: &[usize], blocking: Blocking, limits: &Limits) -> Result<Ready> {
        let (sizes, room) = (self.sizes(input, blocking)?, self.border_room(input, blocking)?);
        limits.check_tensor("the padded input", (room as u64).saturating_mul(size_of::<f32>() as u64))?;
        let Weight::Attribute(weight) = &self.weight else { return Err(computed()) };
        let border = match self.padding_mode.mirror() {
            Some(_) => self.border(input, &self.shape(input, weight.shape())?.1, limits)?,
            None => None,
        };
        let room = if border.is_some() { room } else { 0 };
        Ok(Ready { sizes, border, room })
    }

    /// Bytes of scratch memory for blocked tensors.
    pub(super) fn blocked_workspace(&self, inputs: &[TensorMeta]) -> usize {
        let (Some(blocking), Some(input)) = (self.blocks.blocking, inputs.first()) else { return 0 };
        let elements = || -> Result<usize> {
            let shape = input.shape()?;
            let conv = match self.sizes(&shape, blocking)? {
                Sizes::Dense(conv) => conv.scratch(),
                Sizes::Winograd(conv) => conv.scratch(),
                Sizes::Depthwise(_) => 0,
            };
            Ok(conv.saturating_add(self.border_room(&shape, blocking)?))
        };
        elements().unwrap_or(0).saturating_mul(size_of::<f32>())
    }

    /// Convolves blocked tensors.
    ///
    /// # Errors
    /// Fails if the deadline has passed or the epilogue fails.
    pub(super) fn run_blocked(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let Some(blocking) = blocking_of(inputs[0].layout().format(), output.layout().format()) else {
            return Err(LayerError::Unsupported(
                "the input and the output have different channel blocks".to_owned(),
            ));
        };
        if self.blocks.weights.is_none() || self.blocks.blocking != Some(blocking) {
            let algorithm = Some(self.blocks.algorithm).filter(|_| blocking.is_input_blocked);
            self.reset_blocks(Some(blocking), algorithm.unwrap_or_default());
        }
        let weights = Arc::clone(self.blocks.weights.get_or_insert_default());
        let weights = self.packed_weights(blocking, &weights)?;
        let (mut ready, mut epilogue) = (self.blocks.ready.take(), self.epilogue.take());
        let limits = context.limits();
        let result = ready
            .of(*inputs[0].shape(), |input| self.ready(input, blocking, limits))
            .and_then(|ready| run(ready, weights, epilogue.as_mut(), inputs, output, context));
        (self.blocks.ready, self.epilogue) = (ready, epilogue);
        result
    }

    /// The speedup of the selected algorithm over direct convolution.
    fn gain(&self, input: &TensorMeta, block: usize) -> f64 {
        let shape = input.shape().map_err(LayerError::from).and_then(|shape| self.blocked_shape(&shape));
        shape.map_or(1.0, |shape| self.blocks.algorithm.gain(&shape, block))
    }

    /// The rounding error of the selected algorithm in multiples of that of direct convolution.
    pub(super) fn blocked_rounding(&self) -> f64 {
        self.blocks.algorithm.rounding()
    }

    /// The kernel's efficiency relative to a matrix product, as measured on AVX-512; only the 1.3 of dense blocks is an
    /// estimate, of what they save around the product.
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
            // Half-precision values are converted first.
            (None, _) if input.dtype().size() == 2 => 0.85,
            (None, _) => 1.0,
        }
    }
}

/// The number of elements of planes of these lengths, including the rest of a last block.
fn with_channels(shape: &BlockedShape, lens: [usize; 2]) -> usize {
    let channels = shape.channels.saturating_add(16);
    [channels, lens[0], lens[1]].into_iter().fold(1, usize::saturating_mul)
}

/// The reason for rejecting a state.
fn refusal(bytes: &[u8]) -> String {
    match *bytes {
        [16, 1, id] if u32::from(id) == BF16.id => NO_PAIRS.to_owned(),
        [16, ..] if isa() < Isa::Avx512 => {
            "blocks of 16 channels may need AVX-512: build the plan on a processor like this one".to_owned()
        }
        _ => format!("no kernel supports the channel blocking {bytes:?}"),
    }
}

fn no_kernel() -> LayerError {
    LayerError::Unsupported("no kernel supports these channel blocks".to_owned())
}

fn computed() -> LayerError {
    LayerError::Unsupported("blocked convolution requires weights from the file".to_owned())
}
