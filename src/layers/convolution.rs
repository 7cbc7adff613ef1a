//! Convolution in one, two and three dimensions.

use super::choices::{PerAxis, choices};
use super::float::{self, with_float};
use crate::Limits;
use crate::graph::{
    Cost, CpuLayer, ForwardContext, FromParameter, Layer, LayerError, Registry, RegistryError,
    RuntimeParameter, TensorMeta, Weight,
};
use crate::kernels::Float;
use crate::kernels::conv::{ConvShape, conv};
use crate::kernels::naive::{PadMode, pad};
use crate::kernels::window::Window;
use crate::tensor::{Dim, TensorError, TensorView, TensorViewMut};
use ndarray::{ArrayViewD, IxDyn};
use std::borrow::Cow;
use std::ops::RangeInclusive;

choices! {
    /// What a convolution sees outside of its input.
    pub enum PaddingMode {
        /// Zeros.
        Zeros = "zeros",
        /// The input mirrored at its edge, the edge element once.
        Reflect = "reflect",
        /// The edge element repeated.
        Replicate = "replicate",
        /// The other end of the input.
        Circular = "circular",
    }
}

/// The padding of a convolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Padding {
    /// So many places on both sides of each axis.
    Places(PerAxis),
    /// As many places as keep the length; the odd one goes to the end.
    Same,
    /// None.
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
}

crate::operator! {
    /// `torch.nn.Conv1d`, `Conv2d`, `Conv3d` and their functional forms: cross-correlation of N×C×… (or C×…) with
    /// weights O×(C/groups)×…, as many axes as the weights have. Output: N×O×⌊(len + padding − reach)/stride + 1⌋….
    pub struct Conv for "nn.Conv2d", "nn.Conv1d", "nn.Conv3d", "F.conv2d", "F.conv1d", "F.conv3d" {
        /// Number of input channels; only compared with the weights.
        in_channels: Option<usize> = None,
        /// Number of output channels; only compared with the weights.
        out_channels: Option<usize> = None,
        /// Lengths of the window; only compared with the weights.
        kernel_size: Option<PerAxis> = None,
        /// Distance between one position of the window and the next.
        stride: PerAxis = PerAxis::all(1),
        /// Places added around the input, or `same`, or `valid`.
        padding: Padding = Padding::Places(PerAxis::all(0)),
        /// Distance between the places that the window looks at.
        dilation: PerAxis = PerAxis::all(1),
        /// Number of groups; each sees its own share of the channels.
        groups: usize = 1,
        /// What lies outside of the input.
        padding_mode: PaddingMode = PaddingMode::Zeros,
        /// O×(C/groups)×… weights.
        weight: Weight,
        /// One number for each output channel, added at the end.
        bias: Option<Weight> = None,
    }
    validate |conv| {
        let positive = |key, axes: &PerAxis| match axes.values().contains(&0) {
            false => Ok(()),
            true => Err(invalid(key, axes.values(), "it must be at least 1")),
        };
        positive("stride", &conv.stride)?;
        positive("dilation", &conv.dilation)?;
        if conv.groups == 0 {
            return Err(invalid("groups", &[0], "it must be at least 1"));
        }
        if conv.padding == Padding::Same && conv.stride.values().iter().any(|&stride| stride != 1) {
            return Err(invalid("stride", conv.stride.values(), "with padding `same` it must be 1"));
        }
        conv.check_weight()
    }
}

fn invalid(key: &'static str, found: &[usize], reason: &str) -> LayerError {
    LayerError::InvalidParameter { key, found: format!("{found:?}"), reason: reason.to_owned() }
}

impl Conv {
    /// Compares the numbers that a module repeats with the weights that it stores.
    fn check_weight(&self) -> Result<(), LayerError> {
        let Weight::Attribute(weight) = &self.weight else { return Ok(()) };
        let [out_channels, in_per_group, kernel @ ..] = weight.shape() else {
            return Err(LayerError::shape("the weight", "O×(C/groups)×… ", format!("{:?}", weight.shape())));
        };
        let says = |key, said: Option<usize>, is: usize| match said {
            Some(said) if said != is => Err(invalid(key, &[said], &format!("the weights have {is}"))),
            _ => Ok(()),
        };
        says("out_channels", self.out_channels, *out_channels)?;
        says("in_channels", self.in_channels, in_per_group.saturating_mul(self.groups))?;
        match self.kernel_size.as_ref().map(|size| size.get(kernel.len())) {
            Some(said) if said.as_deref() != Some(kernel) => Err(invalid(
                "kernel_size",
                self.kernel_size.as_ref().map_or(&[], |k| k.values()),
                "the weights differ",
            )),
            _ => Ok(()),
        }
    }

    /// The window along each axis, for a kernel of these lengths.
    fn windows(&self, kernel: &[usize]) -> Result<Vec<Window>, LayerError> {
        let per_axis = |key, axes: &PerAxis| {
            let reason = format!("the weights have {} axes after the channels", kernel.len());
            axes.get(kernel.len()).ok_or_else(|| invalid(key, axes.values(), &reason))
        };
        let stride = per_axis("stride", &self.stride)?;
        let dilation = per_axis("dilation", &self.dilation)?;
        let places = match &self.padding {
            Padding::Places(places) => per_axis("padding", places)?,
            Padding::Same | Padding::Valid => vec![0; kernel.len()],
        };
        let windows = kernel.iter().zip(stride).zip(dilation).zip(places);
        let windows = windows.map(|(((&kernel, stride), dilation), places)| {
            let total = if self.padding == Padding::Same {
                dilation.saturating_mul(kernel.saturating_sub(1))
            } else {
                0
            };
            let (pad_before, pad_after) = (places + total / 2, places + total - total / 2);
            let window = Window { kernel, stride, dilation, pad_before, pad_after };
            window.is_sane().then_some(window)
        });
        let windows: Option<Vec<Window>> = windows.collect();
        windows.ok_or_else(|| invalid("kernel_size", kernel, "the window is empty or too large"))
    }

    /// Element types and shapes that fit each other; the kernel's lengths.
    fn check(&self, inputs: &[TensorMeta]) -> Result<Vec<usize>, LayerError> {
        let (input, weight) = (&inputs[0], self.weight.meta(inputs)?);
        float::check("the input", input)?;
        let weights = [Some(weight.clone()), self.bias.as_ref().map(|bias| bias.meta(inputs)).transpose()?];
        if let Some(other) = weights.iter().flatten().find(|weight| weight.dtype() != input.dtype()) {
            let what = "weight or bias".to_owned();
            return Err(LayerError::DType { what, wanted: input.dtype().to_string(), found: other.dtype() });
        }
        let weight = weight.shape()?;
        let [out_channels, in_per_group, kernel @ ..] = weight.dims() else {
            return Err(LayerError::shape("the weight", "O×(C/groups)×…", weight));
        };
        if out_channels % self.groups != 0 {
            return Err(invalid(
                "groups",
                &[self.groups],
                &format!("{out_channels} output channels do not divide by it"),
            ));
        }
        if kernel.is_empty() || kernel.len() > 3 {
            return Err(LayerError::shape("the weight's rank", "3, 4 or 5", weight.rank()));
        }
        let unbatched = input.rank() + 1 == weight.rank();
        if input.rank() != weight.rank() && !unbatched {
            return Err(LayerError::shape("the input's rank", weight.rank(), input));
        }
        let channels = &input.dims()[usize::from(!unbatched)];
        let wanted = in_per_group.saturating_mul(self.groups);
        if channels.fixed().is_some_and(|channels| usize::try_from(channels) != Ok(wanted)) {
            return Err(LayerError::shape("the number of input channels", wanted, input));
        }
        if let Some(bias) = weights[1].as_ref().filter(|bias| bias.num_elements() != *out_channels) {
            return Err(LayerError::shape("the bias", format!("{out_channels} elements"), bias));
        }
        Ok(kernel.to_vec())
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let weight = self.weight.view(inputs)?;
        let bias = self.bias.as_ref().map(|bias| bias.view(inputs)).transpose()?;
        let (weights, bias) =
            (float::read::<T>(&weight)?, bias.map(|bias| float::read::<T>(&bias)).transpose()?);
        let (data, mut shape) = self.padded_input::<T>(&inputs[0], weight.shape(), context.limits())?;
        shape.out_channels = weight.shape()[0];
        let sample = shape.channels * shape.lens.iter().product::<usize>();
        let out_sample = shape.out_channels * shape.outputs().iter().product::<usize>();
        if out_sample == 0 {
            return Ok(());
        }
        let scratch = context.scratch::<T>(shape.scratch(size_of::<T>()))?;
        float::write::<T>(output, |output| {
            for (index, output) in output.chunks_exact_mut(out_sample).enumerate() {
                let input = data.get(index * sample..(index + 1) * sample).unwrap_or_default();
                conv(&shape, input, &weights, bias.as_deref(), output, scratch);
            }
            Ok(())
        })
    }

    /// The input's elements and the sizes of the convolution; other padding than zeros is put around the input here.
    fn padded_input<'a, T: Float>(
        &self,
        input: &TensorView<'a>,
        weight: &[usize],
        limits: &Limits,
    ) -> Result<(Cow<'a, [T]>, ConvShape), LayerError> {
        let data = float::read::<T>(input)?;
        let kernel = &weight[2..];
        let mut windows = self.windows(kernel)?;
        let lens = input.shape()[input.shape().rank() - kernel.len()..].to_vec();
        let channels = weight[1] * self.groups;
        let shape =
            |lens, windows| ConvShape { channels, out_channels: 0, groups: self.groups, lens, windows };
        let mode = match self.padding_mode {
            PaddingMode::Zeros => return Ok((data, shape(lens, windows))),
            PaddingMode::Reflect => PadMode::Reflect,
            PaddingMode::Replicate => PadMode::Replicate,
            PaddingMode::Circular => PadMode::Circular,
        };
        let mut pads = vec![(0, 0); input.shape().rank() - kernel.len()];
        pads.extend(windows.iter().map(|window| (window.pad_before, window.pad_after)));
        let padded = input.shape().iter().zip(&pads).map(|(&len, pad)| (len + pad.0 + pad.1) as u64);
        let bytes = padded.fold(size_of::<T>() as u64, u64::saturating_mul);
        limits.check_tensor("the padded input", bytes)?;
        let array = ArrayViewD::from_shape(IxDyn(input.shape()), &data)?;
        let padded = pad(array, &pads, mode).map_err(TensorError::InvalidArgument)?;
        let lens = padded.shape()[pads.len() - kernel.len()..].to_vec();
        for window in &mut windows {
            (window.pad_before, window.pad_after) = (0, 0);
        }
        Ok((Cow::Owned(padded.iter().copied().collect()), shape(lens, windows)))
    }
}

impl Layer for Conv {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.weight.num_inputs() + self.bias.as_ref().map_or(0, Weight::num_inputs);
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let kernel = self.check(inputs)?;
        let input = &inputs[0];
        let first = input.rank() - kernel.len();
        let mut dims = input.dims()[..first].to_vec();
        if let Some(channels) = dims.last_mut() {
            *channels = self.weight.meta(inputs)?.dims()[0].clone();
        }
        for (axis, window) in self.windows(&kernel)?.into_iter().enumerate() {
            let len = &input.dims()[first + axis];
            let reach = window.dilation * (window.kernel - 1) + 1;
            let padding = window.pad_before + window.pad_after;
            let room = len.clone() + padding - reach;
            if room.fixed().is_some_and(|room| room < 0) {
                let wanted = format!(
                    "at least {} elements along axis {}",
                    reach.saturating_sub(padding),
                    first + axis
                );
                return Err(LayerError::shape("the window does not fit", wanted, input));
            }
            dims.push(room.floor_div(window.stride) + 1);
        }
        Ok(vec![input.with_dims(dims)])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let macs = || -> Option<u64> {
            let weight = self.weight.meta(inputs).ok()?;
            let taps = weight.dims().iter().skip(1).fold(Dim::Fixed(1), |product, dim| product * dim.clone());
            u64::try_from((outputs.first()?.num_elements() * taps).fixed()?).ok()
        };
        Cost::of_moving(inputs, outputs).with_macs(macs().unwrap_or(0))
    }
}

impl CpuLayer for Conv {
    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let scratch = || -> Option<usize> {
            let weight = self.weight.meta(inputs).ok()?.shape().ok()?;
            let output = outputs.first()?.shape().ok()?;
            let windows = self.windows(weight.get(2..)?).ok()?;
            let lens = windows.iter().zip(output.get(output.rank() - windows.len()..)?);
            let lens = lens.map(|(window, &positions)| window.len_of(positions)).collect();
            let channels = weight.get(1)?.checked_mul(self.groups)?;
            let shape = ConvShape { channels, out_channels: weight[0], groups: self.groups, lens, windows };
            let size = if inputs[0].dtype() == crate::tensor::DType::F64 { 8 } else { 4 };
            shape.scratch(size).checked_mul(size)
        };
        scratch().unwrap_or(0)
    }

    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_float!(inputs[0].dtype(), T => self.run::<T>(inputs, &mut outputs[0], context))
    }
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<Conv>()
}
