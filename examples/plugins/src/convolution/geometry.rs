//! The sizes of a convolution, as the engine settled them.

use super::Convolution;
use ixion::op::{LayerError, TensorMeta};

/// All sizes: N×C×H×W of input and output, and along height and width what the window does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) input: [usize; 4],
    pub(super) output: [usize; 4],
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) groups: usize,
}

/// The four sizes of a tensor.
pub(super) fn sizes(meta: &TensorMeta) -> Result<[usize; 4], LayerError> {
    let shape = meta.shape()?;
    shape.dims().try_into().map_err(|_| LayerError::shape("a tensor", "N×C×H×W", meta))
}

impl Convolution {
    /// The sizes for tensors of these shapes.
    ///
    /// # Errors
    /// Shapes that are not those of this convolution.
    pub(super) fn geometry(&self, input: [usize; 4], output: [usize; 4]) -> Result<Geometry, LayerError> {
        let geometry = Geometry {
            input,
            output,
            kernel: self.kernel_size,
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
            groups: self.groups,
        };
        let lens = [0, 1].map(|axis| geometry.len_out(axis));
        let wanted = [Some(input[0]), Some(self.out_channels), lens[0], lens[1]];
        if input[1] == self.in_channels && wanted == output.map(Some) {
            return Ok(geometry);
        }
        Err(LayerError::shape(
            "the tensors",
            "those of this convolution",
            format!("{input:?} and {output:?}"),
        ))
    }
}

impl Geometry {
    /// How many positions the window has along an axis, rounded down; none where it does not fit.
    fn len_out(&self, axis: usize) -> Option<usize> {
        let reach = self.dilation[axis].checked_mul(self.kernel[axis].checked_sub(1)?)?.checked_add(1)?;
        let padded = self.padding[axis].checked_mul(2)?.checked_add(self.input[2 + axis])?;
        Some(padded.checked_sub(reach)? / self.stride[axis] + 1)
    }

    /// The length of a row of the output.
    pub(super) fn row(&self) -> usize {
        self.output[3]
    }

    /// Weights of one output channel.
    pub(super) fn window(&self) -> usize {
        self.input[1] / self.groups * self.kernel[0] * self.kernel[1]
    }

    /// Where a window that is at `out` along an axis looks at with its place `k`; none for the zeros around the input.
    pub(super) fn place(&self, axis: usize, out: usize, k: usize) -> Option<usize> {
        let padded = out * self.stride[axis] + k * self.dilation[axis];
        padded.checked_sub(self.padding[axis]).filter(|&place| place < self.input[2 + axis])
    }
}
