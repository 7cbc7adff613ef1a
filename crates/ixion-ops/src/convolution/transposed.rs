//! Transposed convolution in one, two and three dimensions.

use super::common::{Parameters, Sizes, each_sample, invalid, per_axis};
use crate::inserted::device_tactic::DeviceTactic;
use crate::op::{
    Cost, CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly,
};
use crate::support::arguments::ParamOrInput;
use crate::support::choices::PerAxis;
use crate::support::epilogue;
use crate::support::epilogue::Epilogue;
use crate::support::float;
use crate::support::float::with_real;
use crate::support::shape_cache::ShapeCache;
use ixion_kernels::Float;
use ixion_kernels::conv::Factors;
use ixion_kernels::conv_transpose::{ConvTransposeShape, conv_transpose};
use ixion_kernels::window::Window;
use ixion_tensor::{Dim, Shape, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.ConvTranspose1d`, `ConvTranspose2d`, `ConvTranspose3d` and their functional forms: transposed convolution,
    /// the gradient of a convolution with respect to its input, of an N×C×… (or C×…) input with C×(O/groups)×… weights,
    /// over as many spatial axes (1, 2 or 3) as the weights have. Output: N×O×((len − 1)·stride − 2·padding + reach +
    /// output_padding)…, where reach = dilation·(kernel − 1) + 1.
    pub struct ConvTranspose for
        "nn.ConvTranspose2d", "nn.ConvTranspose1d", "nn.ConvTranspose3d",
        "F.conv_transpose2d", "aten::conv_transpose2d", "F.conv_transpose1d", "aten::conv_transpose1d",
        "F.conv_transpose3d", "aten::conv_transpose3d"
    {
        /// Number of input channels; only checked against the weights.
        in_channels: Option<usize> = None,
        /// Number of output channels; only checked against the weights.
        out_channels: Option<usize> = None,
        /// Size of the kernel; only checked against the weights.
        kernel_size: Option<PerAxis> = None,
        /// Stride of the window on the output.
        stride: PerAxis = PerAxis::all(1),
        /// Elements cut off from both sides of each axis of the output.
        padding: PerAxis = PerAxis::all(0),
        /// Elements added at the end of each axis of the output; less than the stride or the dilation.
        output_padding: PerAxis = PerAxis::all(0),
        /// Spacing between kernel elements.
        dilation: PerAxis = PerAxis::all(1),
        /// Number of groups of channels that are convolved separately.
        groups: usize = 1,
        /// Weights, C×(O/groups)×….
        weight: Weight,
        /// Bias of each output channel.
        bias: Option<Weight> = None,
        /// Spatial size of the output, instead of the size that `output_padding` gives.
        output_size: Option<ParamOrInput<Vec<i64>>> = None,
        /// Operations fused into this one and applied to the result before it is stored; set by Ixion's passes.
        epilogue: Option<Epilogue> = None,
        /// State prepared for the shapes of the last run.
        ready: ShapeCache<PreparedTranspose>,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
    validate |layer| { layer.parameters().validate() }
}

impl ConvTranspose {
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
            transposed: true,
        }
    }

    /// The window along each spatial axis, for weights of these spatial lengths, with the same padding on both sides.
    ///
    /// # Errors
    /// Returns an error if `padding`, `stride` or `dilation` has neither one value nor one for each axis, or if a window is
    /// empty or too large.
    pub fn windows(&self, kernel: &[usize]) -> Result<Vec<Window>> {
        let pads = per_axis("padding", &self.padding, kernel)?;
        self.parameters().windows(kernel, pads.into_iter().map(|pad| (pad, pad)))
    }

    /// The number of elements to add at the end of each axis of the output.
    fn output_padding(
        &self,
        inputs: &[TensorMeta],
        windows: &[Window],
        smallest: &[Dim],
    ) -> Result<Vec<Dim>> {
        let fits = |padding: &Dim, window: &Window| {
            padding
                .fixed()
                .is_none_or(|p| usize::try_from(p).is_ok_and(|p| p < window.stride.max(window.dilation)))
        };
        let Some(size) = &self.output_size else {
            let kernel: Vec<usize> = windows.iter().map(|window| window.kernel).collect();
            let padding = per_axis("output_padding", &self.output_padding, &kernel)?;
            let padding: Vec<Dim> = padding.into_iter().map(Dim::from).collect();
            return match padding.iter().zip(windows).all(|(padding, window)| fits(padding, window)) {
                true => Ok(padding),
                false => {
                    let found = self.output_padding.values();
                    Err(invalid(
                        "output_padding",
                        found,
                        "it must be smaller than the stride or the dilation",
                    ))
                }
            };
        };
        let given = size.dims(inputs)?;
        let all = inputs[0].rank();
        let skipped = if given.len() == all { all - windows.len() } else { 0 };
        let sizes = given.get(skipped..).unwrap_or_default();
        let padding: Vec<Dim> =
            sizes.iter().zip(smallest).map(|(size, least)| size.clone() - least.clone()).collect();
        let fit = padding.iter().zip(windows).all(|(padding, window)| fits(padding, window));
        if sizes.len() == windows.len() && fit {
            return Ok(padding);
        }
        let dims = |dims: &[Dim]| dims.iter().map(Dim::to_string).collect::<Vec<_>>().join("×");
        let wanted = format!("{} or up to stride − 1 more", dims(smallest));
        Err(LayerError::shape("output_size", wanted, dims(sizes)))
    }

    /// The spatial size of the output.
    fn lens(&self, inputs: &[TensorMeta], sizes: &Sizes) -> Result<Vec<Dim>> {
        let (input, windows) = (&inputs[0], self.windows(&sizes.kernel)?);
        let axes = windows.iter().zip(&input.dims()[sizes.leading..]);
        let smallest: Vec<Dim> = axes
            .map(|(window, len)| {
                let reach = window.dilation * (window.kernel - 1) + 1;
                (len.clone() - 1) * window.stride + reach - (window.pad_before + window.pad_after)
            })
            .collect();
        let padding = self.output_padding(inputs, &windows, &smallest)?;
        let lens: Vec<Dim> =
            smallest.into_iter().zip(padding).map(|(least, padding)| least + padding).collect();
        let empty = |dim: &Dim| dim.fixed().is_some_and(|len| len < 1);
        if lens.iter().any(empty) || input.dims()[sizes.leading..].iter().any(empty) {
            let wanted = "axes long enough for `padding` to be cut off";
            return Err(LayerError::shape("the input", wanted, input));
        }
        Ok(lens)
    }

    fn shape(&self, input: &[usize], weight: &[usize], output: &[usize]) -> Result<ConvTransposeShape> {
        let kernel = weight.get(2..).unwrap_or_default();
        let last = |shape: &[usize]| shape[shape.len().saturating_sub(kernel.len())..].to_vec();
        Ok(ConvTransposeShape {
            channels: weight[0],
            out_channels: weight[1].saturating_mul(self.groups),
            groups: self.groups,
            lens: last(input),
            outputs: last(output),
            windows: self.windows(kernel)?,
        })
    }

    fn run<T: Float>(
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

    fn run_with<T: Float>(
        &self,
        ready: &mut ShapeCache<PreparedTranspose>,
        epilogue: Option<&mut Epilogue>,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let (weights, bias) = Parameters::read::<T>(&self.weight, self.bias.as_ref(), inputs)?;
        let shapes = [*inputs[0].shape(), *self.weight.view(inputs)?.shape(), *output.shape()];
        let [input, weight, outputs] = &shapes;
        let make = || Ok(PreparedTranspose { shapes, shape: self.shape(input, weight, outputs)? });
        let shape = &ready.get_or_make(|ready| ready.shapes == shapes, make)?.shape;
        let data = float::read::<T>(&inputs[0])?;
        let [sample, out_sample] = shape.sample();
        if out_sample == 0 {
            return Ok(());
        }
        let limits = context.limits();
        let scratch = context.scratch::<T>(shape.scratch(size_of::<T>()))?;
        epilogue::with::<T>(epilogue, inputs, output, limits, |output, epilogue| {
            let factors = Factors { weight: &weights, bias: bias.as_deref(), epilogue: None };
            each_sample((&data, sample), (output, out_sample), factors, epilogue, |input, factors, output| {
                conv_transpose(shape, input, factors, output, scratch, limits)
            })
        })
    }
}

/// State that depends on the shapes of input, weights and output.
#[derive(Debug)]
pub struct PreparedTranspose {
    shapes: [Shape; 3],
    shape: ConvTransposeShape,
}

impl Layer for ConvTranspose {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let sizes = self.parameters().sizes(inputs)?;
        let mut dims = inputs[0].dims()[..sizes.leading - 1].to_vec();
        dims.push(Dim::from(sizes.out_channels));
        dims.extend(self.lens(inputs, &sizes)?);
        let output = inputs[0].with_dims(dims);
        epilogue::check(self.epilogue.as_ref(), &output, inputs)?;
        Ok(vec![output])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        self.parameters().cost(inputs, outputs, &inputs[0])
    }
}

impl CpuLayer for ConvTranspose {
    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let scratch = || -> Option<usize> {
            let weight = self.weight.meta(inputs).ok()?.shape().ok()?;
            let (input, output) = (inputs.first()?.shape().ok()?, outputs.first()?.shape().ok()?);
            let shape = self.shape(&input, &weight, &output).ok()?;
            let size = float::computed_size(inputs[0].dtype());
            shape.scratch(size).checked_mul(size)
        };
        scratch().unwrap_or(0)
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_real!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0], &mut io.context))
    }
}
