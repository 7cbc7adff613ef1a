//! Rearranging elements between channels and space, and between groups of channels.

use super::parts::at_least_one;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::delegation::delegating;
use ixion_tensor::{Dim, Layout, Shape};
use std::fmt;

crate::operator! {
    /// `torch.nn.PixelShuffle` (Shi et al. 2016): rearranges …×C·r²×H×W to …×C×H·r×W·r.
    pub struct PixelShuffle for "nn.PixelShuffle", "F.pixel_shuffle", "aten::pixel_shuffle" {
        /// The factor r.
        upscale_factor: usize,
    }
    validate |layer| { at_least_one("upscale_factor", layer.upscale_factor) }
}

crate::operator! {
    /// `torch.nn.PixelUnshuffle`: rearranges …×C×H·r×W·r to …×C·r²×H×W, the inverse of [`PixelShuffle`].
    pub struct PixelUnshuffle for "nn.PixelUnshuffle", "F.pixel_unshuffle", "aten::pixel_unshuffle" {
        /// The factor r.
        downscale_factor: usize,
    }
    validate |layer| { at_least_one("downscale_factor", layer.downscale_factor) }
}

crate::operator! {
    /// `torch.nn.ChannelShuffle` (Zhang et al. 2017): divides the channels of N×C×… into groups and interleaves them: the first
    /// channel of each group, then the second of each, and so on.
    pub struct ChannelShuffle for
        "nn.ChannelShuffle", "F.channel_shuffle", "aten::channel_shuffle", "aten::native_channel_shuffle"
    {
        /// The number of groups; the number of channels must be a multiple of it.
        groups: usize,
    }
    validate |layer| { at_least_one("groups", layer.groups) }
}

/// The length of an axis divided by a number, which must divide it.
fn divided(input: &TensorMeta, axis: usize, by: usize) -> Result<Dim> {
    let len = &input.dims()[axis];
    let by = Dim::from(by);
    let divides = |len: i64| by.fixed().is_none_or(|by| len % by == 0);
    if len.fixed().is_none_or(divides) {
        return Ok(len.clone().floor_div(by));
    }
    Err(LayerError::shape("the input", format!("a multiple of {by} along axis {axis}"), input))
}

/// A rearrangement: axes are split, permuted, and merged again.
pub trait Shuffle: fmt::Debug + Send + Sync {
    /// The output's dimensions.
    fn dims(&self, input: &TensorMeta) -> Result<Vec<Dim>>;

    /// The input's shape with axes split, and their order in the output.
    fn split(&self, input: &Shape) -> (Vec<usize>, Vec<usize>);
}

impl Shuffle for PixelShuffle {
    fn dims(&self, input: &TensorMeta) -> Result<Vec<Dim>> {
        let channels = channel_axis(input)?;
        let mut dims = input.dims().to_vec();
        dims[channels] = divided(input, channels, self.upscale_factor.saturating_mul(self.upscale_factor))?;
        for axis in [channels + 1, channels + 2] {
            dims[axis] = dims[axis].clone() * self.upscale_factor;
        }
        Ok(dims)
    }

    fn split(&self, input: &Shape) -> (Vec<usize>, Vec<usize>) {
        let (batch, r) = (input.rank() - 3, self.upscale_factor);
        let [c, h, w] = [input[batch], input[batch + 1], input[batch + 2]];
        (vec![input[..batch].iter().product(), c / r / r, r, r, h, w], vec![0, 1, 4, 2, 5, 3])
    }
}

impl Shuffle for PixelUnshuffle {
    fn dims(&self, input: &TensorMeta) -> Result<Vec<Dim>> {
        let channels = channel_axis(input)?;
        let mut dims = input.dims().to_vec();
        // PyTorch returns an empty tensor unchanged.
        if dims.iter().any(|len| *len == 0usize) {
            return Ok(dims);
        }
        dims[channels] = dims[channels].clone() * self.downscale_factor * self.downscale_factor;
        for axis in [channels + 1, channels + 2] {
            dims[axis] = divided(input, axis, self.downscale_factor)?;
        }
        Ok(dims)
    }

    fn split(&self, input: &Shape) -> (Vec<usize>, Vec<usize>) {
        let (batch, r) = (input.rank() - 3, self.downscale_factor);
        let [c, h, w] = [input[batch], input[batch + 1], input[batch + 2]];
        (vec![input[..batch].iter().product(), c, h / r, r, w / r, r], vec![0, 1, 3, 5, 2, 4])
    }
}

impl Shuffle for ChannelShuffle {
    fn dims(&self, input: &TensorMeta) -> Result<Vec<Dim>> {
        if input.rank() < 3 {
            return Err(LayerError::shape("the input", "at least 3 axes", input));
        }
        divided(input, 1, self.groups)?;
        Ok(input.dims().to_vec())
    }

    fn split(&self, input: &Shape) -> (Vec<usize>, Vec<usize>) {
        let inner = input[2..].iter().product();
        (vec![input[0], self.groups, input[1] / self.groups, inner], vec![0, 2, 1, 3])
    }
}

fn channel_axis(input: &TensorMeta) -> Result<usize> {
    input.rank().checked_sub(3).ok_or_else(|| LayerError::shape("the input", "at least 3 axes", input))
}

/// Copies the elements to their new positions.
#[derive(Debug, Clone)]
struct Shuffled<S>(S);

impl<S: Shuffle> Layer for Shuffled<S> {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dims(self.0.dims(&inputs[0])?)])
    }
}

impl<S: Shuffle + Clone + 'static> CpuLayer for Shuffled<S> {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        if input.num_elements() == 0 {
            return Ok(());
        }
        let (split, order) = self.0.split(input.shape());
        let split = Shape::new(&split)?;
        let copy;
        let from = match input.layout().reshape(&split)? {
            Some(layout) => input.with_layout(layout)?,
            None => {
                copy = input.to_tensor()?;
                copy.view().with_layout(Layout::contiguous(split))?
            }
        };
        let from = from.with_layout(from.layout().permute(&order)?)?;
        if let Some(layout) = output.layout().reshape(from.shape())? {
            return Ok(output.reborrow().with_layout(layout)?.copy_from(&from)?);
        }
        Ok(output.copy_from(&from.to_tensor()?.reshape(output.shape())?.view())?)
    }
}

delegating! {
    PixelShuffle |layer| Shuffled(layer.clone());
    PixelUnshuffle |layer| Shuffled(layer.clone());
    ChannelShuffle |layer| Shuffled(layer.clone());
}

operators! { PixelShuffle: moves(Moved), PixelUnshuffle: moves(Moved), ChannelShuffle: moves(Moved) }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator};
    use ixion_tensor::DType;

    #[test]
    fn pixels_move_between_channels_and_space() {
        let x = counting(DType::I16, &[1, 4, 1, 2]);
        let wide = operator("nn.PixelShuffle", &[("upscale_factor", "2")]).run_one(&[&x]).unwrap();
        assert_eq!(wide.shape().dims(), &[1, 1, 2, 4]);
        assert_eq!(wide.to_vec::<i16>().unwrap(), [0, 2, 1, 3, 4, 6, 5, 7]);
        let back = operator("F.pixel_unshuffle", &[("downscale_factor", "2")]).run_one(&[&wide]).unwrap();
        assert_eq!(back, x);
        let many = counting(DType::C64, &[2, 3, 18, 2, 1]);
        let wide = operator("F.pixel_shuffle", &[("upscale_factor", "3")]).run_one(&[&many]).unwrap();
        assert_eq!(wide.shape().dims(), &[2, 3, 2, 6, 3]);
        assert_eq!(
            operator("nn.PixelUnshuffle", &[("downscale_factor", "3")]).run_one(&[&wide]).unwrap(),
            many
        );
    }

    #[test]
    fn channels_are_interleaved() {
        let x = counting(DType::F32, &[1, 6, 1, 2]);
        let y = operator("nn.ChannelShuffle", &[("groups", "3")]).run_one(&[&x]).unwrap();
        assert_eq!(
            y.to_vec::<f32>().unwrap(),
            [0.0, 1.0, 4.0, 5.0, 8.0, 9.0, 2.0, 3.0, 6.0, 7.0, 10.0, 11.0]
        );
    }

    #[test]
    fn symbols_errors_and_odd_inputs() {
        let layer = operator("nn.PixelShuffle", &[("upscale_factor", "2")]);
        let dims = [Dim::symbol("n"), Dim::Fixed(12), Dim::symbol("h"), Dim::Fixed(5)];
        assert_eq!(
            layer.infer(&[TensorMeta::new(DType::F32, dims)]).unwrap()[0].to_string(),
            "n×3×(h * 2)×10 f32"
        );
        let error = layer.run(&[&counting(DType::F32, &[3, 1, 1])]).unwrap_err().to_string();
        assert_eq!(error, "the input: expected a multiple of 4 along axis 0, got 3×1×1 f32");
        assert!(operator("nn.PixelShuffle", &[("upscale_factor", "0")]).create(1).is_err());
        for factor in ["1", "2", "9223372036854775807"] {
            operator("F.pixel_shuffle", &[("upscale_factor", factor)]).survives(1);
            operator("F.pixel_unshuffle", &[("downscale_factor", factor)]).survives(1);
            operator("F.channel_shuffle", &[("groups", factor)]).survives(1);
        }
    }
}
