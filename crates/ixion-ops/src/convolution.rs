//! Convolution and its transpose in one, two and three dimensions.
//!
//! [`Conv`] has three kinds of kernels: for plain tensors ([`ixion_kernels::conv`]); for images in `f32` with blocked channels,
//! which an engine selects where they are faster ([`ixion_kernels::blocked`], called in `blocked.rs`); and for int8
//! ([`ixion_kernels::quantized`]), on images with innermost channels (called in `bytes.rs`) and on any others (`int8.rs`).

mod algorithm;
mod blocked;
mod border;
mod bytes;
mod common;
mod deformable;
mod int8;
mod time_first;
mod transposed;

use crate::inserted::device_tactic::DeviceTactic;
use crate::layout::padding::PaddingMode;
use crate::op::{
    Cost, CpuLayer, ForwardContext, FromOperator, FromParameter, Io, Layer, LayerError, QuantizedWeight,
    Result, RuntimeParameter, Tactic, TensorFormat, TensorMeta, Weight, exactly,
};
use crate::support::choices::PerAxis;
use crate::support::epilogue;
use crate::support::epilogue::Epilogue;
use crate::support::float;
use crate::support::float::with_real;
use crate::support::int8::{ByteState, Int8};
use crate::support::rules;
use crate::support::shape_cache::ShapeCache;
use algorithm::ConvAlgorithm;
use blocked::Blocks;
use border::{Border, PreparedInt8};
use common::{Parameters, Sizes, each_sample, per_axis};
pub use deformable::{DeformConv, DeformConvFunction};
use ixion_kernels::conv::{ConvPlan, ConvShape, Convolve, Factors};
use ixion_kernels::parallel::threads;
use ixion_kernels::quantized::Rows;
use ixion_kernels::window::Window;
use ixion_tensor::{DType, Dim, Format, Limits, Shape, TensorView, TensorViewMut};
use std::ops::RangeInclusive;
pub use time_first::ConvTimeFirst;
pub use transposed::ConvTranspose;

/// The padding of a convolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Padding {
    /// This many elements on both sides of each axis.
    Places(PerAxis),
    /// Pads each axis such that its output length is ⌈length / stride⌉; an odd element goes to the end. PyTorch rejects
    /// strides other than 1 here; PNNX writes ONNX's `SAME_UPPER` this way.
    Same,
    /// No padding.
    Valid,
}

impl FromParameter for Padding {
    const KIND: &'static str = "an integer of at least 0, one for each axis, `same` or `valid`";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        match parameter.raw() {
            "same" => Some(Self::Same),
            "valid" => Some(Self::Valid),
            _ => PerAxis::from_parameter(parameter).map(Self::Places),
        }
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        match self {
            Self::Places(places) => places.to_parameter(),
            Self::Same => Some("same".into()),
            Self::Valid => Some("valid".into()),
        }
    }
}

crate::operator! {
    /// `torch.nn.Conv1d`, `Conv2d`, `Conv3d` and their functional forms: cross-correlation of an N×C×… (or C×…) input with
    /// O×(C/groups)×… weights, over as many spatial axes (1, 2 or 3) as the weights have. Output: N×O×⌊(len + padding −
    /// reach)/stride + 1⌋…, where the padding counts both sides and reach = dilation·(kernel − 1) + 1.
    pub struct Conv for "nn.Conv2d", "nn.Conv1d", "nn.Conv3d",
        "F.conv2d", "aten::conv2d", "F.conv1d", "aten::conv1d", "F.conv3d", "aten::conv3d"
    {
        /// Number of input channels; only checked against the weights.
        in_channels: Option<usize> = None,
        /// Number of output channels; only checked against the weights.
        out_channels: Option<usize> = None,
        /// Size of the kernel; only checked against the weights.
        kernel_size: Option<PerAxis> = None,
        /// Stride of the sliding window.
        stride: PerAxis = PerAxis::all(1),
        /// Padding added to both sides of each axis, or `same` or `valid`.
        padding: Padding = Padding::Places(PerAxis::all(0)),
        /// Spacing between kernel elements.
        dilation: PerAxis = PerAxis::all(1),
        /// Number of groups of channels that are convolved separately.
        groups: usize = 1,
        /// How the padding is filled.
        padding_mode: PaddingMode = PaddingMode::Zeros,
        /// Weights, O×(C/groups)×….
        weight: Weight,
        /// Bias of each output channel.
        bias: Option<Weight> = None,
        /// Operations fused into this one and applied to the result before it is stored; set by Ixion's passes.
        epilogue: Option<Epilogue> = None,
        /// State prepared for the shapes of the last run.
        ready: ShapeCache<PreparedConv>,
        /// State for blocked channels.
        blocks: Blocks,
        /// State for int8 execution.
        int8: Int8<Rows>,
        /// State prepared for the input shape of the last int8 run.
        int8_conv: ShapeCache<(Shape, PreparedInt8)>,
        /// State for int8 execution with innermost channels.
        bytes: ByteState,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
    validate |conv| {
        conv.parameters().validate()
    }
}

impl Conv {
    fn parameters(&self) -> Parameters<'_> {
        Parameters {
            in_channels: self.in_channels,
            out_channels: self.out_channels,
            kernel_size: self.kernel_size.as_ref(),
            stride: &self.stride,
            dilation: &self.dilation,
            groups: self.groups,
            weight: &self.weight,
            bias: self.bias.as_ref(),
            transposed: false,
        }
    }

    /// The window along each axis, for a kernel of the given size.
    fn windows(&self, kernel: &[usize]) -> Result<Vec<Window>> {
        let pads: Vec<(usize, usize)> = match &self.padding {
            // With some padding modes, PNNX writes two numbers per axis, the last axis first.
            Padding::Places(places) if places.values().len() == 2 * kernel.len() => {
                places.values().rchunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
            }
            Padding::Places(places) => {
                per_axis("padding", places, kernel)?.into_iter().map(|pad| (pad, pad)).collect()
            }
            Padding::Valid => vec![(0, 0); kernel.len()],
            Padding::Same => {
                let dilation = per_axis("dilation", &self.dilation, kernel)?.into_iter();
                let total =
                    dilation.zip(kernel).map(|(step, len)| step.saturating_mul(len.saturating_sub(1)));
                total.map(|total| (total / 2, total - total / 2)).collect()
            }
        };
        self.parameters().windows(kernel, pads)
    }

    /// The sizes of one sample, and the padding to add to each axis of the input beforehand; empty if the padding is zeros,
    /// which the kernel handles.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] if a parameter has a wrong number of values, or a window is empty or too large.
    pub fn shape(&self, input: &[usize], weight: &[usize]) -> Result<(ConvShape, Vec<(usize, usize)>)> {
        let kernel = weight.get(2..).unwrap_or_default();
        let mut windows = self.windows(kernel)?;
        let mut lens = input[input.len().saturating_sub(kernel.len())..].to_vec();
        if self.padding == Padding::Same {
            windows.iter_mut().zip(&lens).for_each(|(window, &len)| pad_same(window, len));
        }
        let mut pads = Vec::new();
        if self.padding_mode.mirror().is_some() {
            pads = vec![(0, 0); input.len() - kernel.len()];
            for (window, len) in windows.iter_mut().zip(&mut lens) {
                pads.push((window.pad_before, window.pad_after));
                *len += window.pad_before + window.pad_after;
                (window.pad_before, window.pad_after) = (0, 0);
            }
        }
        let (groups, channels) = (self.groups, weight[1] * self.groups);
        Ok((ConvShape { channels, out_channels: weight[0], groups, lens, windows }, pads))
    }

    /// The border of a sample, whose axes are the last ones of the input, with the padding that [`Conv::shape`] returned.
    fn border(&self, input: &[usize], pads: &[(usize, usize)], limits: &Limits) -> Result<Option<Border>> {
        let Some(mode) = self.padding_mode.mirror() else { return Ok(None) };
        // Axes of the batch and the channels are not padded.
        let first = pads.iter().position(|&pad| pad != (0, 0)).unwrap_or(pads.len());
        let (lens, pads) = (input.get(first..).unwrap_or_default(), pads.get(first..).unwrap_or_default());
        Border::new(mode, lens, pads, limits)
    }

    /// Prepares everything that depends on shapes alone.
    fn plan(&self, input: &[usize], weight: &[usize], dtype: DType, limits: &Limits) -> Result<PreparedConv> {
        let (shape, pads) = self.shape(input, weight)?;
        let border = self.border(input, &pads, limits)?;
        if border.is_some() {
            let bytes = padded_elements(&shape).saturating_mul(float::computed_size(dtype));
            limits.check_tensor("the padded input", bytes as u64)?;
        }
        let conv = ConvPlan::new(shape, float::computed_size(dtype));
        Ok(PreparedConv {
            input: Shape::new(input)?,
            weight: Shape::new(weight)?,
            threads: threads(),
            border,
            conv,
        })
    }

    fn run<T: Convolve>(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let (mut ready, mut epilogue) = (self.ready.take(), self.epilogue.take());
        let result = self.run_with::<T>(&mut ready, epilogue.as_mut(), inputs, output, context);
        (self.ready, self.epilogue) = (ready, epilogue);
        result
    }

    fn run_with<T: Convolve>(
        &self,
        ready: &mut ShapeCache<PreparedConv>,
        epilogue: Option<&mut Epilogue>,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let (weights, bias) = Parameters::read::<T>(&self.weight, self.bias.as_ref(), inputs)?;
        let (input, weight) = (&inputs[0], self.weight.view(inputs)?);
        let limits = context.limits();
        let ready = ready.get_or_make(
            |ready| ready.fits(input.shape(), weight.shape()),
            || self.plan(input.shape(), weight.shape(), input.dtype(), limits),
        )?;
        let data = float::read::<T>(input)?;
        let ([sample, out_sample], border) = (ready.conv.sample(), ready.border.as_ref());
        if out_sample == 0 {
            return Ok(());
        }
        let (bare, room) = border.map_or((sample, 0), |border| (border.bare(sample), border::room(sample)));
        let least = room.saturating_add(ready.conv.least_scratch());
        let scratch = context.scratch_between::<T>(least, room.saturating_add(ready.conv.scratch()))?;
        let (padded, scratch) = scratch.split_at_mut(room);
        epilogue::with::<T>(epilogue, inputs, output, limits, |output, epilogue| {
            let factors = Factors { weight: &weights, bias: bias.as_deref(), epilogue: None };
            each_sample((&data, bare), (output, out_sample), factors, epilogue, |input, factors, output| {
                let input = match border {
                    Some(border) => border.pad(input, 1, &mut *padded, limits)?,
                    None => input,
                };
                Ok::<_, LayerError>(ready.conv.run(input, factors, output, scratch, limits)?)
            })
        })
    }
}

/// The number of elements of a sample with its padding.
fn padded_elements(shape: &ConvShape) -> usize {
    shape.lens.iter().fold(shape.channels, |elements, &len| elements.saturating_mul(len))
}

/// Pads a window over `len` elements such that it has ⌈`len` / stride⌉ positions.
fn pad_same(window: &mut Window, len: usize) {
    let moved = len.div_ceil(window.stride.max(1)).saturating_sub(1).saturating_mul(window.stride);
    let reach = window.dilation * window.kernel.saturating_sub(1) + 1;
    let total = (moved + reach).saturating_sub(len);
    (window.pad_before, window.pad_after) = (total / 2, total - total / 2);
}

/// State that depends on the shapes of the input and the weights.
#[derive(Debug)]
pub struct PreparedConv {
    input: Shape,
    weight: Shape,
    threads: usize,
    /// The border to add to a sample beforehand; `None` if its padding is zeros.
    border: Option<Border>,
    conv: ConvPlan,
}

impl PreparedConv {
    fn fits(&self, input: &Shape, weight: &Shape) -> bool {
        self.input == *input && self.weight == *weight && self.threads == threads()
    }
}

impl Layer for Conv {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Sizes { out_channels, kernel, leading: first } = self.parameters().sizes(inputs)?;
        let input = &inputs[0];
        let mut dims = input.dims()[..first - 1].to_vec();
        dims.push(Dim::from(out_channels));
        for (axis, window) in self.windows(&kernel)?.into_iter().enumerate() {
            let len = &input.dims()[first + axis];
            if self.padding == Padding::Same {
                dims.push(len.clone().ceil_div(window.stride));
                continue;
            }
            let reach = window.dilation * (window.kernel - 1) + 1;
            let padding = window.pad_before + window.pad_after;
            let positions = rules::positions(&window, len, false);
            if positions.fixed().is_some_and(|positions| positions < 1) {
                let wanted = format!(
                    "at least {} elements along axis {}",
                    reach.saturating_sub(padding),
                    first + axis
                );
                return Err(LayerError::shape("the input", wanted, input));
            }
            dims.push(positions);
        }
        let output = input.with_dims(dims);
        epilogue::check(self.epilogue.as_ref(), &output, inputs)?;
        Ok(vec![output])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        outputs.first().map_or(Cost::default(), |output| self.parameters().cost(inputs, outputs, output))
    }
}

impl CpuLayer for Conv {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        match formats.first() {
            Some(first) if first.is_quantized && first.format == Format::ChannelsLast => {
                self.supports_bytes(position, formats)
            }
            Some(first) if first.is_quantized => self.supports_int8(position, formats),
            _ => self.takes(position, formats),
        }
    }

    fn takes_zero_points(&self) -> bool {
        true
    }

    fn tactics(&self) -> Vec<Tactic> {
        self.algorithms().into_iter().map(ConvAlgorithm::tactic).collect()
    }

    fn set_tactic(&mut self, id: u32) -> Result<()> {
        self.select_tactic(id)
    }

    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> f64 {
        match inputs.first() {
            Some(input) if input.scale().is_some() && input.format() == Format::ChannelsLast => {
                self.byte_efficiency(outputs)
            }
            Some(input) if input.scale().is_some() => self.int8_efficiency(),
            _ => self.blocked_efficiency(inputs, outputs),
        }
    }

    fn rounding(&self) -> f64 {
        self.blocked_rounding()
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        if self.int8.configure(inputs, outputs) {
            self.bytes = ByteState::default();
        }
        if self.int8.is_last() {
            self.configure_bytes(inputs, outputs)?;
        }
        self.configure_blocks(inputs, outputs)
    }

    fn initialize(&mut self) -> Result<()> {
        self.initialize_blocks()?;
        match self.int8.is_last() {
            true => self.initialize_bytes(),
            false => self.initialize_int8(),
        }
    }

    fn packed(&self) -> Result<Option<Vec<f32>>> {
        Ok(self.packed_blocks())
    }

    fn quantized_weight(&self) -> Result<Option<QuantizedWeight>> {
        self.int8.stored_weights(&self.weight)
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.int8.stored().unwrap_or_else(|| self.stored_blocks()))
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes = ByteState::default();
        if self.may_be_int8() && self.int8.restore(bytes) {
            return Ok(());
        }
        self.int8 = Int8::default();
        self.restore_blocks(bytes)
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        if inputs.first().is_some_and(|input| input.scale().is_some()) {
            return self.bytes_workspace(outputs);
        }
        if outputs.first().is_some_and(|output| output.format() != Format::Plain) {
            return self.blocked_workspace(inputs);
        }
        let scratch = || -> Option<usize> {
            let (input, weight) = (inputs.first()?, self.weight.meta(inputs).ok()?.shape().ok()?);
            outputs.first()?.shape().ok()?;
            let (shape, pads) = self.shape(&input.shape().ok()?, &weight).ok()?;
            let is_padded = pads.iter().any(|&pad| pad != (0, 0));
            let room = if is_padded { border::room(padded_elements(&shape)) } else { 0 };
            let size = float::computed_size(input.dtype());
            ConvPlan::new(shape, size).scratch().checked_add(room)?.checked_mul(size)
        };
        scratch().unwrap_or(0)
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.outputs[0].layout().format() != Format::Plain {
            return self.run_blocked(io.inputs, &mut io.outputs[0], &mut io.context);
        }
        if io.inputs[0].dtype() == DType::I8 && self.int8.is_selected() {
            return match self.int8.is_last() {
                true => self.run_bytes(io.inputs, &mut io.outputs[0], &mut io.context),
                false => self.run_int8(io.inputs, &mut io.outputs[0], io.context.limits()),
            };
        }
        with_real!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0], &mut io.context))
    }
}

operators! {
    Conv: multiplies(Convolution), ConvTranspose: multiplies(Transposed), DeformConv, DeformConvFunction; of time_first;
    category Weighted;
    overload "aten::conv1d"(input, weight, bias, stride, padding, dilation, groups),
        "aten::conv2d"(input, weight, bias, stride, padding, dilation, groups),
        "aten::conv3d"(input, weight, bias, stride, padding, dilation, groups),
        "aten::conv_transpose1d"(input, weight, bias, stride, padding, output_padding, groups, dilation),
        "aten::conv_transpose2d"(input, weight, bias, stride, padding, output_padding, groups, dilation),
        "aten::conv_transpose3d"(input, weight, bias, stride, padding, output_padding, groups, dilation)
}

#[cfg(test)]
mod tests;
