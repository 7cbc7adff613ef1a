//! Convolutions by a library of the device, if it has one: the work for the library, and the conditions under which kernels run
//! instead.

use super::convolution_operands::{ConvParams, ConvSizes, Operands};
use super::depthwise::is_depthwise;
use super::epilogue::EpilogueCode;
use super::prelude::*;
use super::product_library::{fused, is_worthwhile, scratch};
use super::tiles;
use super::windows::{AXES, mode};
use crate::cuda::device::{Activation, ConvolutionWork, LibraryWork};
use crate::kernels::window::Window;

/// A convolution in the form of a library.
pub(super) struct LibraryConvolution<'a> {
    pub(super) x: DeviceTensor<'a>,
    pub(super) weights: DeviceTensor<'a>,
    pub(super) bias: Option<DeviceTensor<'a>>,
    /// N×C×D×H×W.
    pub(super) y: DeviceTensor<'a>,
    /// The output with the operator's own rank.
    pub(super) output: DeviceTensor<'a>,
    pub(super) work: ConvolutionWork,
}

/// The lengths or strides of a tensor with five axes.
pub(super) fn five(values: &[usize]) -> Option<[usize; 5]> {
    values.try_into().ok()
}

/// Returns true if the layout is channels-last, without gaps or overlaps.
pub(super) fn is_channels_last(layout: &Layout) -> bool {
    let (Some(lens), Some(by)) = (five(layout.shape().dims()), five(layout.strides())) else { return false };
    let mut wanted = 1;
    [1, 4, 3, 2, 0].into_iter().all(|axis| {
        let is_dense = lens[axis] == 1 || by[axis] == wanted;
        wanted *= lens[axis];
        is_dense
    })
}

/// The strides of a channels-last tensor, also for axes of length 1.
pub(super) fn channels_last_strides(lens: [usize; 5]) -> [usize; 5] {
    let [_, c, d, h, w] = lens;
    let of_row = c.saturating_mul(w);
    let of_plane = of_row.saturating_mul(h);
    [of_plane.saturating_mul(d), 1, of_plane, of_row, c]
}

/// Computes a convolution and its epilogue by a library; returns false if no library can.
///
/// # Errors
/// Those of the library, and of the epilogue's kernel after it.
pub(super) fn run<'a>(
    mut convolution: LibraryConvolution<'a>,
    epilogue: &EpilogueCode,
    io: &mut CudaIo<'a, '_>,
) -> Result<bool> {
    let LibraryConvolution { x, weights, bias, y, output, ref mut work } = convolution;
    // Fused operations need a bias.
    let fused = fused(epilogue, io.inputs, &output).filter(|(added, activation)| match activation {
        Activation::Identity => bias.is_some() || added.is_none(),
        Activation::Relu => bias.is_some(),
        Activation::GeluTanh => false,
    });
    let (added, activation) = fused.unwrap_or((None, Activation::Identity));
    work.is_added = added.is_some();
    work.is_relu = activation == Activation::Relu;
    let per_output =
        work.taps.iter().fold(work.input[1] / work.groups.max(1), |all, taps| all.saturating_mul(*taps));
    if !is_worthwhile(fused.is_some(), y.num_elements().saturating_mul(per_output)) {
        return Ok(false);
    }
    // Tensor cores read words of 16 bytes.
    let are_aligned = [Some(x), Some(weights), Some(y), added].iter().flatten().all(|it| it.is_aligned(16));
    if !are_aligned {
        return Ok(false);
    }
    let call = [
        Argument::Read(x),
        Argument::Read(weights),
        bias.map_or(Argument::None, Argument::Read),
        added.map_or(Argument::None, Argument::Read),
        Argument::Write(y),
        scratch(io.context)?,
    ];
    if !io.context.call(&LibraryWork::Convolution(*work), &call)? {
        return Ok(false);
    }
    if fused.is_none() {
        epilogue.apply(io.inputs, &output, io.context)?;
    }
    Ok(true)
}

impl ConvParams<'_> {
    /// The work for a library; `None` if there is no library, or it is known not to support this convolution or to be slow.
    pub(super) fn for_library<'a>(
        &self,
        operands: &Operands<'a>,
        output: DeviceTensor<'a>,
        sizes: &ConvSizes,
        context: &CudaContext<'_>,
    ) -> Option<LibraryConvolution<'a>> {
        context.device().info().libraries.convolutions?;
        let &Operands { x, y, filter, bias, int8_scales } = operands;
        let allow_tf32 = context.tf32().convolutions;
        let has_same_dtype =
            [Some(filter.tensor), Some(y), bias].iter().flatten().all(|it| it.dtype() == x.dtype());
        let is_supported = tiles::supports(x.dtype(), allow_tf32, context.device().info());
        let is_symmetric = self.windows.iter().all(|window| window.pad_before == window.pad_after);
        let is_zero_padded = !self.transposed && mode(self.mode) == "ZEROS";
        let are_channels_last = [&x, &y].iter().all(|tensor| is_channels_last(tensor.layout()));
        if !has_same_dtype
            || !is_supported
            || !is_symmetric
            || !is_zero_padded
            || !are_channels_last
            || !filter.is_matrix
        {
            return None;
        }
        if int8_scales.is_some()
            || is_depthwise(sizes.out_channels, self.groups)
            || y.num_elements() == 0
            || x.num_elements() == 0
        {
            return None;
        }
        let of_windows = |value: fn(&Window) -> usize, default: usize| {
            let mut all = [default; AXES];
            let missing = AXES.saturating_sub(self.windows.len());
            all.iter_mut().skip(missing).zip(self.windows).for_each(|(it, window)| *it = value(window));
            all
        };
        let (input_lens, output_lens) = (five(x.shape().dims())?, five(y.shape().dims())?);
        Some(LibraryConvolution {
            x,
            weights: filter.tensor,
            bias,
            y,
            output,
            work: ConvolutionWork {
                dtype: x.dtype(),
                input: input_lens,
                input_strides: channels_last_strides(input_lens),
                output: output_lens,
                output_strides: channels_last_strides(output_lens),
                taps: of_windows(|window| window.kernel, 1),
                stride: of_windows(|window| window.stride, 1),
                padding: of_windows(|window| window.pad_before, 0),
                dilation: of_windows(|window| window.dilation, 1),
                groups: self.groups,
                has_bias: bias.is_some(),
                is_added: false,
                is_relu: false,
                allow_tf32,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Shape;

    #[test]
    fn only_one_order_is_channels_last() {
        let check = |lens: [usize; 5], by: [usize; 5]| {
            is_channels_last(&Layout::strided(Shape::new(&lens).unwrap(), &by, 0).unwrap())
        };
        assert!(check([2, 8, 1, 3, 4], [96, 1, 0, 32, 8]));
        assert!(check([1, 8, 2, 3, 4], [0, 1, 96, 32, 8]));
        assert!(!check([2, 8, 1, 3, 4], [96, 12, 0, 4, 1]));
        assert!(!check([2, 8, 1, 3, 4], [192, 1, 0, 64, 16]));
    }
}
