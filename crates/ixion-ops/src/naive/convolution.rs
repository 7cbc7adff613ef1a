//! Convolution.

use super::window::{check, planes, windows};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, Weight};
use ixion_kernels::naive::conv2d;
use ixion_kernels::window::Window;
use ixion_tensor::Dim;

// ANCHOR: conv2d
crate::operator! {
    /// `torch.nn.Conv2d`: slides a window over H and W of an N×C×H×W input. Each output element is the sum of the products of
    /// the elements in the window with the O×(C/groups)×kH×kW weights of its channel, plus a bias.
    pub struct Conv2d for "nn.Conv2d" {
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
        /// The number of groups; each uses its own share of the channels.
        groups: usize = 1,
        /// The values outside of the input; only `zeros` is supported.
        padding_mode: String = "zeros".to_owned(),
        /// The weights, O×(C/groups)×kH×kW.
        weight: Weight,
        /// The bias, O elements.
        bias: Option<Weight> = None,
    }
    validate |conv| {
        if conv.padding_mode != "zeros" {
            return Err(LayerError::invalid("padding_mode", &conv.padding_mode, "only zeros is supported"));
        }
        let divides = |channels: usize| conv.groups != 0 && channels.is_multiple_of(conv.groups);
        if !divides(conv.in_channels) || !divides(conv.out_channels) {
            return Err(LayerError::invalid("groups", conv.groups, "it must divide both numbers of channels"));
        }
        check(&conv.windows())
    }
}

impl Conv2d {
    /// The windows over rows and over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }

    /// Checks that the weight and the bias have the shapes that the parameters specify.
    fn check_weights(&self, inputs: &[TensorMeta]) -> Result<()> {
        let [height, width] = self.kernel_size;
        let wanted = [self.out_channels, self.in_channels / self.groups, height, width].map(Dim::from);
        let weight = self.weight.meta(inputs)?;
        if weight.dims() != wanted {
            return Err(LayerError::shape("the weight", format!("{wanted:?}"), &weight));
        }
        match &self.bias {
            Some(bias) if bias.meta(inputs)?.dims() != &wanted[..1] => {
                Err(LayerError::shape("the bias", &wanted[0], bias.meta(inputs)?))
            }
            _ => Ok(()),
        }
    }
}

impl Layer for Conv2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        // ANCHOR: conv_infer_todo -- task 2: check weights and channels; then return N×O×H×W
        self.check_weights(inputs)?;
        let [batch, channels, height, width] = planes(&inputs[0], &self.windows())?;
        if channels.differs(&Dim::from(self.in_channels)) {
            return Err(LayerError::shape("the channels of the input", self.in_channels, channels));
        }
        Ok(vec![inputs[0].with_dims([batch, Dim::from(self.out_channels), height, width])])
        // ANCHOR_END: conv_infer_todo
    }
}

impl CpuLayer for Conv2d {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // ANCHOR: conv_forward_todo -- task 2: get input, weight and bias as arrays, and call conv2d
        let x = io.inputs[0].array::<f32>()?.into_dimensionality()?;
        let weight = self.weight.view(io.inputs)?.array::<f32>()?.into_dimensionality()?;
        let bias = match &self.bias {
            Some(bias) => Some(bias.view(io.inputs)?.to_vec::<f32>()?),
            None => None,
        };
        let y = conv2d(x, weight, bias.as_deref(), &self.windows(), self.groups);
        io.outputs[0].array::<f32>()?.assign(&y);
        Ok(())
        // ANCHOR_END: conv_forward_todo
    }
}
// ANCHOR_END: conv2d
