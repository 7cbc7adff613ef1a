//! The sizes of a convolution.

use super::Convolution;
use ixion::op::{LayerError, Result, TensorMeta};

/// N×C×H×W of input and output, and the kernel's parameters along height and width.
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

/// The four lengths of a tensor.
pub(super) fn sizes(meta: &TensorMeta) -> Result<[usize; 4]> {
    let shape = meta.shape()?;
    shape.dims().try_into().map_err(|_| LayerError::shape("a tensor", "N×C×H×W", meta))
}

impl Convolution {
    /// The geometry for input and output of these shapes.
    ///
    /// # Errors
    /// Returns an error if this convolution does not map `input` to `output`.
    pub(super) fn geometry(&self, input: [usize; 4], output: [usize; 4]) -> Result<Geometry> {
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
            "input and output",
            "shapes of this convolution",
            format!("{input:?} and {output:?}"),
        ))
    }
}

impl Geometry {
    /// The length of the output along an axis, or `None` if the kernel does not fit.
    fn len_out(&self, axis: usize) -> Option<usize> {
        let reach = self.dilation[axis].checked_mul(self.kernel[axis].checked_sub(1)?)?.checked_add(1)?;
        let padded = self.padding[axis].checked_mul(2)?.checked_add(self.input[2 + axis])?;
        Some(padded.checked_sub(reach)? / self.stride[axis] + 1)
    }

    /// The width of the output.
    pub(super) fn row(&self) -> usize {
        self.output[3]
    }

    /// The number of weights of one output channel.
    pub(super) fn window(&self) -> usize {
        self.input[1] / self.groups * self.kernel[0] * self.kernel[1]
    }

    /// The input index that kernel index `k` reads for the output index `out`, or `None` in the padding.
    pub(super) fn input_index(&self, axis: usize, out: usize, k: usize) -> Option<usize> {
        let padded = out * self.stride[axis] + k * self.dilation[axis];
        padded.checked_sub(self.padding[axis]).filter(|&index| index < self.input[2 + axis])
    }
}
