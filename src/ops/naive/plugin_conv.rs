//! Convolution as a plugin: of real numbers, or of whole ones of 8 bits where the engine says what they stand for.
//!
//! It is what somebody outside of Ixion would write, with nothing but public names: typed fields, a shape rule, formats by
//! position, what the engine settles and what a plan keeps of it, scratch memory, arithmetic. Its name is `course/Conv2d/1`,
//! and [`registry`] has it run what files call `nn.Conv2d`.

mod bytes;
mod product;
#[cfg(test)]
mod tests;
mod whole;

pub use bytes::{decode, encode};
pub use product::{unfold_into, whole_sums};
pub use whole::{Whole, quantize, to_whole};

use super::window::{check, planes, windows};
use crate::kernels::window::Window;
use crate::op::{
    Cost, CpuLayer, ForwardContext, Layer, LayerError, PluginName, Registry, RegistryError, State,
    TensorFormat, TensorMeta, Weight,
};
use crate::tensor::{DType, Dim, TensorView, TensorViewMut};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayView4, ArrayViewMut2, ArrayViewMut4, Ix4};
use std::sync::Arc;

// ANCHOR: fields
crate::operator! {
    /// `torch.nn.Conv2d` with one group: N×C×H×W under windows that slide over H and W, times O×C×kH×kW weights, plus a
    /// bias.
    pub struct Conv2d for "Conv2d" {
        /// C.
        in_channels: usize,
        /// O.
        out_channels: usize,
        /// Height and width of the window.
        kernel_size: [usize; 2],
        /// Distance between one position of the window and the next.
        stride: [usize; 2] = [1, 1],
        /// Zeros added on both sides.
        padding: [usize; 2] = [0, 0],
        /// Distance between the places that the window looks at.
        dilation: [usize; 2] = [1, 1],
        /// Number of groups; only 1.
        groups: usize = 1,
        /// What lies outside of the input; only `zeros`.
        padding_mode: String = "zeros".to_owned(),
        /// O×C×kH×kW weights.
        weight: Weight,
        /// O numbers, added at the end.
        bias: Option<Weight> = None,
        /// What the engine settled; no key of a file sets it.
        state: State<Option<Settled>>,
    }
    validate |conv| {
        conv.check()
    }
}

/// What the engine settled for a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// N, C, H and W of the input.
    pub input: [usize; 4],
    /// N, O, H and W of the output.
    pub output: [usize; 4],
    /// The weights as whole numbers; none where all tensors are of f32. Clones of a layer share them.
    pub whole: Option<Arc<Whole>>,
}
// ANCHOR_END: fields

// ANCHOR: check
impl Conv2d {
    /// Refuses fields that this layer cannot work with.
    fn check(&self) -> Result<(), LayerError> {
        // ANCHOR: check_todo -- task 1: refuse another padding than zeros, groups, weights of other shapes, and windows that cannot slide
        if self.padding_mode != "zeros" {
            return Err(LayerError::invalid("padding_mode", &self.padding_mode, "only zeros can be added"));
        }
        if self.groups != 1 {
            return Err(LayerError::invalid("groups", self.groups, "this layer has one group"));
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
/// Refuses a weight that the file does not hold, or not in f32 and in this shape.
fn stored(what: &str, weight: &Weight, shape: &[usize]) -> Result<(), LayerError> {
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

/// N, C, H and W as the engine settled them.
fn lens(meta: &TensorMeta) -> Result<[usize; 4], LayerError> {
    let shape = meta.shape()?;
    shape.dims().try_into().map_err(|_| LayerError::shape("a tensor", "N×C×H×W", meta))
}

impl Conv2d {
    /// The window over rows, and the window over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }

    /// How many numbers of the input an output is made of.
    fn taps(&self) -> usize {
        self.in_channels * self.kernel_size[0] * self.kernel_size[1]
    }

    /// The weights as one row for each output channel.
    fn rows(&self) -> Result<ArrayView2<'_, f32>, LayerError> {
        let weights = self.weight.view(&[])?.slice::<f32>()?;
        Ok(ArrayView2::from_shape((self.out_channels, self.taps()), weights)?)
    }

    /// One bias for each output channel.
    fn biases(&self) -> Result<Vec<f32>, LayerError> {
        match &self.bias {
            Some(bias) => Ok(bias.view(&[])?.to_vec::<f32>()?),
            None => Ok(vec![0.0; self.out_channels]),
        }
    }
}
// ANCHOR_END: given

impl Layer for Conv2d {
    // ANCHOR: infer
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        // ANCHOR: infer_todo -- task 1: N×O×H×W of an f32 input, whose lengths are numbers or symbols
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
        // ANCHOR: supports_todo -- task 2: plain f32 or quantised numbers, and all tensors alike
        let known = [TensorFormat::plain(DType::F32), TensorFormat::quantized()];
        let format = formats.get(position);
        format.is_some_and(|format| known.contains(format)) && format == formats.first()
        // ANCHOR_END: supports_todo
    }
    // ANCHOR_END: supports

    // ANCHOR: configure
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        // ANCHOR: configure_todo -- task 3: note all lengths; whole weights where there are scales, those that are there if these did not change
        let scales = inputs[0].scale().zip(outputs[0].scale()).map(|(x, y)| [x, y]);
        let known = self.state.0.take().and_then(|settled| settled.whole);
        let whole = match (scales, known) {
            (None, _) => None,
            (Some(scales), Some(known)) if known.scales == scales => Some(known),
            (Some(scales), _) => Some(Arc::new(quantize(self.rows()?, &self.biases()?, scales)?)),
        };
        self.state.0 = Some(Settled { input: lens(&inputs[0])?, output: lens(&outputs[0])?, whole });
        Ok(())
        // ANCHOR_END: configure_todo
    }
    // ANCHOR_END: configure

    // ANCHOR: workspace
    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        // ANCHOR: workspace_todo -- task 3: bytes for the columns of one picture, and for one number of each output channel and position
        let Ok([_, channels, height, width]) = lens(&outputs[0]) else { return 0 };
        (self.taps() + channels).saturating_mul(height * width).saturating_mul(size_of::<f32>())
        // ANCHOR_END: workspace_todo
    }
    // ANCHOR_END: workspace

    // ANCHOR: forward
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let Some(Settled { input, output, whole }) = &self.state.0 else {
            return Err(LayerError::Unsupported("the layer was not configured".to_owned()));
        };
        if inputs[0].shape().dims() != input || outputs[0].shape().dims() != output {
            return Err(LayerError::shape("the input", format!("{input:?}"), inputs[0].shape()));
        }
        let numbers = (self.taps() + output[1]) * output[2] * output[3];
        match whole {
            None => {
                let x = inputs[0].array::<f32>()?.into_dimensionality::<Ix4>()?;
                let y = outputs[0].array::<f32>()?.into_dimensionality::<Ix4>()?;
                self.forward_real(x, y, context.scratch::<f32>(numbers)?)
            }
            Some(whole) => {
                let x = inputs[0].array::<i8>()?.into_dimensionality::<Ix4>()?;
                let y = outputs[0].array::<i8>()?.into_dimensionality::<Ix4>()?;
                self.forward_whole(whole, x, y, context.scratch::<i32>(numbers)?)
            }
        }
    }
    // ANCHOR_END: forward

    // ANCHOR: state
    fn serialize(&self) -> Result<Vec<u8>, LayerError> {
        Ok(self.state.0.as_ref().map(encode).unwrap_or_default())
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        // ANCHOR: deserialize_todo -- task 5: the state that the bytes hold, if it is one of this convolution; none if there are no bytes
        let settled = decode(bytes).filter(|settled| self.fits(settled));
        if settled.is_none() && !bytes.is_empty() {
            let reason = "the stored state is not that of this convolution";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        self.state.0 = settled;
        Ok(())
        // ANCHOR_END: deserialize_todo
    }
    // ANCHOR_END: state
}

// ANCHOR: real
impl Conv2d {
    /// Computes in f32. The memory holds as many numbers as columns and products have.
    fn forward_real(
        &self,
        x: ArrayView4<'_, f32>,
        mut y: ArrayViewMut4<'_, f32>,
        memory: &mut [f32],
    ) -> Result<(), LayerError> {
        // ANCHOR: forward_real_todo -- task 4: columns of each picture, weights times columns, plus the bias
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
        // ANCHOR_END: forward_real_todo
    }
}
// ANCHOR_END: real

// ANCHOR: whole
impl Conv2d {
    /// Computes in whole numbers. The memory is as large as that for f32.
    fn forward_whole(
        &self,
        whole: &Whole,
        x: ArrayView4<'_, i8>,
        mut y: ArrayViewMut4<'_, i8>,
        memory: &mut [i32],
    ) -> Result<(), LayerError> {
        // ANCHOR: forward_whole_todo -- task 4: columns of each picture, the sums of each channel, and these times its step, rounded once
        let positions = y.dim().2 * y.dim().3;
        let (columns, sums) = memory.split_at_mut(self.taps() * positions);
        for (picture, mut planes) in x.outer_iter().zip(y.outer_iter_mut()) {
            unfold_into(picture, &self.windows(), columns);
            for (channel, mut plane) in planes.outer_iter_mut().enumerate() {
                let (weights, bias, step) = whole.channel(channel)?;
                let sums = &mut sums[..positions];
                whole_sums(weights, bias, columns, sums);
                plane.iter_mut().zip(sums).for_each(|(y, sum)| *y = to_whole(f64::from(*sum) * step));
            }
        }
        Ok(())
        // ANCHOR_END: forward_whole_todo
    }
}
// ANCHOR_END: whole

// ANCHOR: fits
impl Conv2d {
    /// Whether a state is one of this convolution: the shapes that its own rule gives, and as many numbers as it has weights.
    fn fits(&self, settled: &Settled) -> bool {
        let input = TensorMeta::new(DType::F32, settled.input);
        let output = TensorMeta::new(DType::F32, settled.output);
        let is_inferred = self.infer(&[input]).is_ok_and(|outputs| outputs == [output]);
        is_inferred && settled.whole.as_ref().is_none_or(|whole| whole.fits(self.out_channels, self.taps()))
    }
}
// ANCHOR_END: fits

// ANCHOR: registry
/// All layers that come with Ixion, and [`Conv2d`] for what files call `nn.Conv2d`.
///
/// # Errors
/// A name that is no name, or taken already.
pub fn registry() -> Result<Registry, RegistryError> {
    // ANCHOR: registry_todo -- task 2: add the plugin to the default registry, and route `nn.Conv2d` to it
    let mut registry = Registry::default();
    registry.register_plugin::<Conv2d>("course", "1")?;
    registry.route("nn.Conv2d", &PluginName::new("course", "Conv2d", "1")?)?;
    Ok(registry)
    // ANCHOR_END: registry_todo
}
// ANCHOR_END: registry
