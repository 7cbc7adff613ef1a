//! A convolution in f32, and in int8 if the engine provides scales.
//!
//! In int8, weights have one scale per output channel, w = w_scale\[o\]·q. Sums are i32 in units of x_scale·w_scale\[o\], and
//! the bias is quantised to the same units in advance. The f32 output is the sum times x_scale·w_scale\[o\]; for an int8
//! output, the result is divided by y_scale and rounded.

mod bytes;
mod geometry;
mod kernel;
mod quantized;

use geometry::{Geometry, sizes};
use ixion::op::{Cost, CpuLayer, Io, Layer, LayerError, Result, State, TensorFormat, TensorMeta, Weight};
use ixion::tensor::{DType, Dim};
use kernel::{Factors, convolve};
use ndarray::{ArrayViewMutD, CowArray, IxDyn};
use quantized::{Quantized, to_int8};
use std::sync::Arc;

// ANCHOR: fields
ixion::operator! {
    /// A convolution of N×C×H×W with weights O×(C/groups)×K×L, with the fields of `torch.nn.Conv2d`.
    pub struct Convolution for "Convolution" {
        /// The number of input channels.
        in_channels: usize,
        /// The number of output channels.
        out_channels: usize,
        /// The height and width of the kernel.
        kernel_size: [usize; 2],
        /// The step of the kernel along each axis.
        stride: [usize; 2] = [1, 1],
        /// The zeros added on both sides of each axis.
        padding: [usize; 2] = [0, 0],
        /// The spacing between kernel elements.
        dilation: [usize; 2] = [1, 1],
        /// The number of groups; each connects its own share of the channels.
        groups: usize = 1,
        /// How the input is padded; only `zeros` is supported.
        padding_mode: String = "zeros".to_owned(),
        /// The weights.
        weight: Weight,
        /// One value per output channel.
        bias: Option<Weight> = None,
        /// The result of `configure`.
        state: State<Option<Configuration>>,
    }
    validate |this| {
        this.check()
    }
}
// ANCHOR_END: fields

// ANCHOR: configuration
/// The sizes, scales and prepared weights of a configured layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    geometry: Geometry,
    /// The scales and quantised weights; `None` in f32.
    quantized: Option<Arc<Quantized>>,
}
// ANCHOR_END: configuration

impl Convolution {
    fn check(&self) -> Result<()> {
        if self.padding_mode != "zeros" {
            return Err(LayerError::invalid("padding_mode", &self.padding_mode, "only `zeros` is supported"));
        }
        let groups = self.groups;
        if groups == 0
            || !self.in_channels.is_multiple_of(groups)
            || !self.out_channels.is_multiple_of(groups)
        {
            let channels = format!("{} and {} channels", self.in_channels, self.out_channels);
            return Err(LayerError::invalid("groups", groups, format!("it must divide {channels}")));
        }
        for (key, values) in
            [("kernel_size", self.kernel_size), ("stride", self.stride), ("dilation", self.dilation)]
        {
            if values.contains(&0) {
                return Err(LayerError::invalid(key, format!("{values:?}"), "it must be at least 1"));
            }
        }
        let [height, width] = self.kernel_size;
        let weights = [self.out_channels, self.in_channels / groups, height, width];
        let bias = [self.out_channels];
        let weights = [("weight", Some(&self.weight), &weights[..]), ("bias", self.bias.as_ref(), &bias[..])];
        for (key, weight, wanted) in weights {
            match weight {
                Some(Weight::Attribute(attribute)) if attribute.shape() != wanted => {
                    let found = format!("{:?}", attribute.shape());
                    return Err(LayerError::shape(format!("the {key}"), format!("{wanted:?}"), found));
                }
                Some(Weight::Input(_)) => {
                    return Err(LayerError::Unsupported(format!("the {key} must be stored in the file")));
                }
                Some(Weight::Attribute(_)) | None => {}
            }
        }
        Ok(())
    }

    /// The extent of the dilated kernel along an axis, and the sum of the padding on both sides.
    fn reach_and_padding(&self, axis: usize) -> (Dim, Dim) {
        let reach = Dim::from(self.dilation[axis]) * (Dim::from(self.kernel_size[axis]) - 1) + 1;
        (reach, Dim::from(self.padding[axis]) * 2)
    }

    fn configuration(&self) -> Result<&Configuration> {
        let not_yet = || LayerError::Unsupported("the layer was not configured".to_owned());
        self.state.0.as_ref().ok_or_else(not_yet)
    }
}

// ANCHOR: layer
impl Layer for Convolution {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [batch, channels, lens @ ..] = inputs[0].dims() else {
            return Err(LayerError::shape("the input", "N×C×H×W", &inputs[0]));
        };
        if lens.len() != 2 || channels.differs(&Dim::from(self.in_channels)) {
            let wanted = format!("N×{}×H×W", self.in_channels);
            return Err(LayerError::shape("the input", wanted, &inputs[0]));
        }
        let mut dims = vec![batch.clone(), Dim::from(self.out_channels)];
        for (axis, len) in lens.iter().enumerate() {
            let (reach, padding) = self.reach_and_padding(axis);
            let room = len.clone() + padding - reach;
            if room.fixed().is_some_and(|room| room < 0) {
                return Err(LayerError::shape("the input", "at least as large as the window", &inputs[0]));
            }
            dims.push(room.floor_div(self.stride[axis]) + 1);
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let [height, width] = self.kernel_size.map(|len| len as u64);
        let weights = (self.in_channels / self.groups) as u64 * height * width;
        let elements = outputs.first().and_then(|output| output.num_elements().fixed()).unwrap_or(0);
        Cost::of_moving(inputs, outputs).with_macs(weights.saturating_mul(elements.unsigned_abs()))
    }
}
// ANCHOR_END: layer

impl CpuLayer for Convolution {
    // ANCHOR: supports
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let (float, int8) = (TensorFormat::plain(DType::F32), TensorFormat::quantized());
        match (position, formats) {
            (0, &[x, ..]) => x == float || x == int8,
            // An int8 input allows an int8 or an f32 output.
            (1, &[x, y, ..]) => y == float || (x == int8 && y == int8),
            _ => false,
        }
    }
    // ANCHOR_END: supports

    // ANCHOR: configure
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let geometry = self.geometry(sizes(&inputs[0])?, sizes(&outputs[0])?)?;
        let quantized = match inputs[0].scale().map(|x_scale| (x_scale, outputs[0].scale())) {
            None => None,
            // If only the shapes have changed, the quantised weights are reused.
            Some(scales) => match self.state.0.take().and_then(|configuration| configuration.quantized) {
                Some(known) if known.scales() == scales => Some(known),
                _ => Some(Arc::new(self.quantize(scales)?)),
            },
        };
        self.state.0 = Some(Configuration { geometry, quantized });
        Ok(())
    }
    // ANCHOR_END: configure

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        // One row of sums, i32 or f32.
        let row = outputs.first().and_then(|output| output.dims().last()?.fixed()).unwrap_or(0);
        usize::try_from(row).unwrap_or(0).saturating_mul(size_of::<i32>())
    }

    // ANCHOR: serialize
    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.state.0.as_ref().map(bytes::encode).unwrap_or_default())
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let configuration = bytes::decode(bytes)?;
        let same = self.geometry(configuration.geometry.input, configuration.geometry.output)?;
        if same != configuration.geometry
            || configuration.quantized.as_ref().is_some_and(|it| !it.fits(&same))
        {
            return Err(LayerError::Unsupported(
                "the stored state belongs to another convolution".to_owned(),
            ));
        }
        self.state.0 = Some(configuration);
        Ok(())
    }
    // ANCHOR_END: serialize

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let Configuration { geometry, quantized } = self.configuration()?;
        match quantized {
            Some(quantized) => {
                let x = io.inputs[0].array::<i8>()?;
                let x = x.as_standard_layout();
                let (sums, limits) = io.context.scratch_and_limits::<i32>(geometry.row())?;
                let Quantized { weights, bias, .. } = &**quantized;
                let product = |x: i8, w: i8| i32::from(x) * i32::from(w);
                let factors = Factors { x: elements(&x)?, weights, bias: Some(bias), product };
                if quantized.y_scale.is_some() {
                    let mut y = io.outputs[0].array::<i8>()?;
                    let y = flat(&mut y)?;
                    convolve(geometry, &factors, sums, limits, |channel, at, sums| {
                        quantized.finish(channel, sums, &mut y[at..at + sums.len()], to_int8);
                    })
                } else {
                    let mut y = io.outputs[0].array::<f32>()?;
                    let y = flat(&mut y)?;
                    convolve(geometry, &factors, sums, limits, |channel, at, sums| {
                        quantized.finish(channel, sums, &mut y[at..at + sums.len()], |y| y);
                    })
                }
            }
            None => {
                let (x, mut y) = (io.inputs[0].array::<f32>()?, io.outputs[0].array::<f32>()?);
                let (x, y) = (x.as_standard_layout(), flat(&mut y)?);
                let (sums, limits) = io.context.scratch_and_limits::<f32>(geometry.row())?;
                let weights = self.weight.view(&[])?.slice::<f32>()?;
                let bias =
                    self.bias.as_ref().map(|bias| bias.view(&[])?.slice::<f32>().map_err(LayerError::from));
                let product = |x: f32, w: f32| x * w;
                let factors = Factors { x: elements(&x)?, weights, bias: bias.transpose()?, product };
                convolve(geometry, &factors, sums, limits, |_, at, sums| {
                    y[at..at + sums.len()].copy_from_slice(sums);
                })
            }
        }
    }
}

/// The elements of a contiguous array.
fn elements<'a, T>(array: &'a CowArray<'_, T, IxDyn>) -> Result<&'a [T]> {
    array.as_slice().ok_or_else(|| LayerError::Unsupported("the input is not contiguous".to_owned()))
}

/// The elements of an output; the engine passes contiguous ones.
fn flat<'a, T>(array: &'a mut ArrayViewMutD<'_, T>) -> Result<&'a mut [T]> {
    array.as_slice_mut().ok_or_else(|| LayerError::Unsupported("the output is not contiguous".to_owned()))
}
