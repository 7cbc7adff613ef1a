//! Convolution as a plugin: in `f32`, or in int8 if the engine provides scales.
//!
//! It uses only public names, like a plugin from outside of Ixion: typed fields, a shape rule, formats by position, the
//! engine's configuration and the state that a plan stores, scratch memory, arithmetic. Its name is `course/Conv2d/1`, and
//! [`registry`] routes `nn.Conv2d` to it.

mod bytes;
mod int8;
mod product;
#[cfg(test)]
mod tests;

pub use bytes::{decode, encode};
pub use int8::{QuantizedWeights, quantize, to_int8};
pub use product::{int8_sums, unfold_into};

use super::window::{check, planes, windows};
use crate::op::{
    Cost, CpuLayer, Io, Layer, LayerError, PluginName, Registry, RegistryError, Result, State, TensorFormat,
    TensorMeta, Weight,
};
use ixion_kernels::window::Window;
use ixion_tensor::{DType, Dim};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayView4, ArrayViewMut2, ArrayViewMut4, Ix4};
use std::sync::Arc;

// ANCHOR: fields
crate::operator! {
    /// `torch.nn.Conv2d` with one group: slides a window over H and W of an N×C×H×W input. Each output element is the sum of
    /// the products of the elements in the window with the O×C×kH×kW weights of its channel, plus a bias.
    pub struct Conv2d for "Conv2d" {
        /// The number of input channels, C.
        in_channels: usize,
        /// The number of output channels, O.
        out_channels: usize,
        /// The height and width of the window.
        kernel_size: [usize; 2],
        /// The distance between one position of the window and the next.
        stride: [usize; 2] = [1, 1],
        /// The number of zeros added on both sides of H and W.
        padding: [usize; 2] = [0, 0],
        /// The distance between the elements that the window covers.
        dilation: [usize; 2] = [1, 1],
        /// The number of groups; only 1 is supported.
        groups: usize = 1,
        /// The values outside of the input; only `zeros` is supported.
        padding_mode: String = "zeros".to_owned(),
        /// The weights, O×C×kH×kW.
        weight: Weight,
        /// The bias, O elements.
        bias: Option<Weight> = None,
        /// The engine's configuration. It is not a key of the file.
        state: State<Option<Configuration>>,
    }
    validate |conv| {
        conv.check()
    }
}

/// The configuration that the engine selected for a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// N, C, H and W of the input.
    pub input: [usize; 4],
    /// N, O, H and W of the output.
    pub output: [usize; 4],
    /// The quantised weights; `None` if all tensors are `f32`. Clones of a layer share them.
    pub int8: Option<Arc<QuantizedWeights>>,
}
// ANCHOR_END: fields

// ANCHOR: check
impl Conv2d {
    /// Checks that this layer supports its fields.
    fn check(&self) -> Result<()> {
        // ANCHOR: check_todo -- task 1: return an error for padding other than zeros, groups, weights of other shapes, and windows that cannot slide
        if self.padding_mode != "zeros" {
            return Err(LayerError::invalid("padding_mode", &self.padding_mode, "only zeros is supported"));
        }
        if self.groups != 1 {
            return Err(LayerError::invalid("groups", self.groups, "this layer supports only one group"));
        }
        let [height, width] = self.kernel_size;
        stored("the weight", &self.weight, &[self.out_channels, self.in_channels, height, width])?;
        if let Some(bias) = &self.bias {
            stored("the bias", bias, &[self.out_channels])?;
        }
        check(&self.windows())
        // ANCHOR_END: check_todo
    }
}
// ANCHOR_END: check

// ANCHOR: given
/// Checks that a weight is stored in the file, in `f32` and in this shape.
fn stored(what: &str, weight: &Weight, shape: &[usize]) -> Result<()> {
    let Weight::Attribute(found) = weight else {
        return Err(LayerError::Unsupported(format!("{what} must be stored in the file")));
    };
    if found.dtype() != DType::F32 {
        return Err(LayerError::dtype(what, DType::F32, found.dtype()));
    }
    if found.shape() != shape || shape.contains(&0) {
        return Err(LayerError::shape(what, format!("{shape:?}"), format!("{:?}", found.shape())));
    }
    Ok(())
}

/// N, C, H and W as the engine configured them.
fn lens(meta: &TensorMeta) -> Result<[usize; 4]> {
    let shape = meta.shape()?;
    shape.dims().try_into().map_err(|_| LayerError::shape("a tensor", "N×C×H×W", meta))
}

impl Conv2d {
    /// The windows over rows and over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }

    /// The number of input elements that each output element depends on.
    fn taps(&self) -> usize {
        self.in_channels * self.kernel_size[0] * self.kernel_size[1]
    }

    /// The weights as a matrix, with one row for each output channel.
    fn rows(&self) -> Result<ArrayView2<'_, f32>> {
        let weights = self.weight.view(&[])?.slice::<f32>()?;
        Ok(ArrayView2::from_shape((self.out_channels, self.taps()), weights)?)
    }

    /// One bias for each output channel.
    fn biases(&self) -> Result<Vec<f32>> {
        match &self.bias {
            Some(bias) => Ok(bias.view(&[])?.to_vec::<f32>()?),
            None => Ok(vec![0.0; self.out_channels]),
        }
    }
}
// ANCHOR_END: given

impl Layer for Conv2d {
    // ANCHOR: infer
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        // ANCHOR: infer_todo -- task 1: return N×O×H×W for an f32 input, whose lengths are numbers or symbols
        let input = &inputs[0];
        if input.dtype() != DType::F32 {
            return Err(LayerError::dtype("the input", DType::F32, input.dtype()));
        }
        let [batch, channels, height, width] = planes(input, &self.windows())?;
        if channels.differs(&Dim::from(self.in_channels)) {
            return Err(LayerError::shape("the channels of the input", self.in_channels, channels));
        }
        Ok(vec![input.with_dims([batch, Dim::from(self.out_channels), height, width])])
        // ANCHOR_END: infer_todo
    }
    // ANCHOR_END: infer

    // ANCHOR: cost
    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let elements = outputs.first().and_then(|output| output.num_elements().fixed()).unwrap_or(0);
        let macs = elements.unsigned_abs().saturating_mul(self.taps() as u64);
        Cost::of_moving(inputs, outputs).with_macs(macs)
    }
    // ANCHOR_END: cost
}

impl CpuLayer for Conv2d {
    // ANCHOR: supports
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        // ANCHOR: supports_todo -- task 2: support plain f32 and quantised tensors, the same format for all
        let known = [TensorFormat::plain(DType::F32), TensorFormat::quantized()];
        let format = formats.get(position);
        format.is_some_and(|format| known.contains(format)) && format == formats.first()
        // ANCHOR_END: supports_todo
    }
    // ANCHOR_END: supports

    // ANCHOR: configure
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        // ANCHOR: configure_todo -- task 3: store all lengths; with scales, also the quantised weights, and keep the present ones if the scales did not change
        let scales = inputs[0].scale().zip(outputs[0].scale()).map(|(x, y)| [x, y]);
        let known = self.state.0.take().and_then(|configuration| configuration.int8);
        let int8 = match (scales, known) {
            (None, _) => None,
            (Some(scales), Some(known)) if known.scales == scales => Some(known),
            (Some(scales), _) => Some(Arc::new(quantize(self.rows()?, &self.biases()?, scales)?)),
        };
        self.state.0 = Some(Configuration { input: lens(&inputs[0])?, output: lens(&outputs[0])?, int8 });
        Ok(())
        // ANCHOR_END: configure_todo
    }
    // ANCHOR_END: configure

    // ANCHOR: workspace
    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        // ANCHOR: workspace_todo -- task 3: return the bytes for the columns of one image, and for one element of each output channel and position
        let Ok([_, channels, height, width]) = lens(&outputs[0]) else { return 0 };
        (self.taps() + channels).saturating_mul(height * width).saturating_mul(size_of::<f32>())
        // ANCHOR_END: workspace_todo
    }
    // ANCHOR_END: workspace

    // ANCHOR: forward
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let Some(Configuration { input, output, int8 }) = &self.state.0 else {
            return Err(LayerError::Unsupported("the layer was not configured".to_owned()));
        };
        if io.inputs[0].shape().dims() != input || io.outputs[0].shape().dims() != output {
            return Err(LayerError::shape("the input", format!("{input:?}"), io.inputs[0].shape()));
        }
        let elements = (self.taps() + output[1]) * output[2] * output[3];
        match int8 {
            None => {
                let x = io.inputs[0].array::<f32>()?.into_dimensionality::<Ix4>()?;
                let y = io.outputs[0].array::<f32>()?.into_dimensionality::<Ix4>()?;
                self.forward_f32(x, y, io.context.scratch::<f32>(elements)?)
            }
            Some(weights) => {
                let x = io.inputs[0].array::<i8>()?.into_dimensionality::<Ix4>()?;
                let y = io.outputs[0].array::<i8>()?.into_dimensionality::<Ix4>()?;
                self.forward_int8(weights, x, y, io.context.scratch::<i32>(elements)?)
            }
        }
    }
    // ANCHOR_END: forward

    // ANCHOR: state
    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.state.0.as_ref().map(encode).unwrap_or_default())
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        // ANCHOR: deserialize_todo -- task 5: decode the state, if it belongs to this convolution; none if there are no bytes
        let configuration = decode(bytes).filter(|configuration| self.fits(configuration));
        if configuration.is_none() && !bytes.is_empty() {
            let reason = "the stored state does not belong to this convolution";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        self.state.0 = configuration;
        Ok(())
        // ANCHOR_END: deserialize_todo
    }
    // ANCHOR_END: state
}

// ANCHOR: real
impl Conv2d {
    /// Computes in `f32`. The scratch memory holds the columns and the products.
    fn forward_f32(
        &self,
        x: ArrayView4<'_, f32>,
        mut y: ArrayViewMut4<'_, f32>,
        memory: &mut [f32],
    ) -> Result<()> {
        // ANCHOR: forward_f32_todo -- task 4: for each image, compute its columns, and the weights times the columns, plus the bias
        let (rows, biases, positions) = (self.rows()?, self.biases()?, y.dim().2 * y.dim().3);
        let (columns, products) = memory.split_at_mut(self.taps() * positions);
        for (picture, mut planes) in x.outer_iter().zip(y.outer_iter_mut()) {
            unfold_into(picture, &self.windows(), columns);
            let columns = ArrayView2::from_shape((self.taps(), positions), columns)?;
            let mut products = ArrayViewMut2::from_shape((self.out_channels, positions), products)?;
            general_mat_mul(1.0, &rows, &columns, 0.0, &mut products);
            for ((mut plane, products), bias) in
                planes.outer_iter_mut().zip(products.outer_iter()).zip(&biases)
            {
                plane.iter_mut().zip(products).for_each(|(y, product)| *y = product + bias);
            }
        }
        Ok(())
        // ANCHOR_END: forward_f32_todo
    }
}
// ANCHOR_END: real

// ANCHOR: whole
impl Conv2d {
    /// Computes in int8. The scratch memory has as many elements as for `f32`.
    fn forward_int8(
        &self,
        quantized: &QuantizedWeights,
        x: ArrayView4<'_, i8>,
        mut y: ArrayViewMut4<'_, i8>,
        memory: &mut [i32],
    ) -> Result<()> {
        // ANCHOR: forward_int8_todo -- task 4: for each image, compute its columns, the sums of each channel, and the sums times its step, rounded once
        let positions = y.dim().2 * y.dim().3;
        let (columns, sums) = memory.split_at_mut(self.taps() * positions);
        for (picture, mut planes) in x.outer_iter().zip(y.outer_iter_mut()) {
            unfold_into(picture, &self.windows(), columns);
            for (channel, mut plane) in planes.outer_iter_mut().enumerate() {
                let (weights, bias, step) = quantized.channel(channel)?;
                let sums = &mut sums[..positions];
                int8_sums(weights, bias, columns, sums);
                plane.iter_mut().zip(sums).for_each(|(y, sum)| *y = to_int8(f64::from(*sum) * step));
            }
        }
        Ok(())
        // ANCHOR_END: forward_int8_todo
    }
}
// ANCHOR_END: whole

// ANCHOR: fits
impl Conv2d {
    /// Returns true if a configuration belongs to this convolution: if it has the shapes of the shape rule, and as many
    /// quantised weights as there are weights.
    fn fits(&self, configuration: &Configuration) -> bool {
        let input = TensorMeta::new(DType::F32, configuration.input);
        let output = TensorMeta::new(DType::F32, configuration.output);
        let is_inferred = self.infer(&[input]).is_ok_and(|outputs| outputs == [output]);
        is_inferred
            && configuration
                .int8
                .as_ref()
                .is_none_or(|quantized| quantized.fits(self.out_channels, self.taps()))
    }
}
// ANCHOR_END: fits

// ANCHOR: registry
/// The built-in layers, with `nn.Conv2d` routed to [`Conv2d`].
///
/// # Errors
/// Returns an error if the plugin's name is invalid or already in use.
pub fn registry() -> Result<Registry, RegistryError> {
    // ANCHOR: registry_todo -- task 2: add the plugin to the default registry, and route `nn.Conv2d` to it
    let mut registry = Registry::default();
    registry.register_plugin::<Conv2d>("course", "1")?;
    registry.route("nn.Conv2d", &PluginName::new("course", "Conv2d", "1")?)?;
    Ok(registry)
    // ANCHOR_END: registry_todo
}
// ANCHOR_END: registry
