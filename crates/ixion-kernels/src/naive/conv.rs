//! Convolution by its definition, in any number of dimensions.

use crate::Float;
use crate::window::Window;
use ndarray::{ArrayD, ArrayViewD, Axis, Dimension, IxDyn};

/// Cross-correlation of N×C×… with O×(C/groups)×…, as `torch.nn.functional.conv1d/2d/3d`.
///
/// Positions outside the input count as zero. `windows` has one entry for each axis after the channels.
///
/// # Panics
/// Panics if ranks or channels do not match.
pub fn conv<T: Float>(
    input: ArrayViewD<'_, T>,
    weight: ArrayViewD<'_, T>,
    bias: Option<&[T]>,
    windows: &[Window],
    groups: usize,
) -> ArrayD<T> {
    let (in_per_group, out_per_group) = (weight.shape()[1], weight.shape()[0] / groups);
    let kernel: Vec<usize> = windows.iter().map(|window| window.kernel).collect();
    let mut shape = vec![input.shape()[0], weight.shape()[0]];
    shape.extend(windows.iter().zip(&input.shape()[2..]).map(|(window, &len)| window.positions(len)));
    ArrayD::from_shape_fn(IxDyn(&shape), |at| {
        let (sample, channel, place) = (at[0], at[1], &at.slice()[2..]);
        let mut sum = bias.map_or(T::zero(), |bias| bias[channel]);
        for tap in ndarray::indices(IxDyn(&kernel)) {
            let source = windows.iter().zip(place).zip(tap.slice()).zip(&input.shape()[2..]);
            let source: Option<Vec<usize>> =
                source.map(|(((window, &place), &tap), &len)| window.source(place, tap, len)).collect();
            let Some(source) = source else { continue };
            for c in 0..in_per_group {
                let from = [&[sample, channel / out_per_group * in_per_group + c], &source[..]].concat();
                let with = [&[channel, c], tap.slice()].concat();
                sum += input[IxDyn(&from)] * weight[IxDyn(&with)];
            }
        }
        sum
    })
}

/// The transpose of [`conv`], as `torch.nn.functional.conv_transpose1d/2d/3d`: N×C×… with C×(O/groups)×… gives N×O×….
///
/// Each input element, times a weight, is added to every output element that a convolution would compute it from.
/// `windows` slide over the output, whose axes after the channels have the lengths `outputs`.
///
/// # Panics
/// Panics if ranks or channels do not match.
pub fn conv_transpose<T: Float>(
    input: ArrayViewD<'_, T>,
    weight: ArrayViewD<'_, T>,
    bias: Option<&[T]>,
    windows: &[Window],
    outputs: &[usize],
    groups: usize,
) -> ArrayD<T> {
    let (in_per_group, out_per_group) = (weight.shape()[0] / groups, weight.shape()[1]);
    let shape = [&[input.shape()[0], out_per_group * groups], outputs].concat();
    let mut output =
        ArrayD::from_shape_fn(IxDyn(&shape), |at| bias.map_or(T::zero(), |bias| bias[at.slice()[1]]));
    for (at, &x) in input.indexed_iter() {
        let (sample, channel, place) = (at[0], at[1], &at.slice()[2..]);
        for (with, &weight) in weight.index_axis(Axis(0), channel).indexed_iter() {
            let (o, tap) = (channel / in_per_group * out_per_group + with[0], &with.slice()[1..]);
            let target = windows.iter().zip(place).zip(tap).zip(outputs);
            let target: Option<Vec<usize>> =
                target.map(|(((window, &place), &tap), &len)| window.source(place, tap, len)).collect();
            let Some(target) = target else { continue };
            output[IxDyn(&[&[sample, o], &target[..]].concat())] += x * weight;
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kernel: usize, stride: usize, dilation: usize, pad: usize) -> Window {
        Window { kernel, stride, dilation, pad_before: pad, pad_after: pad }
    }

    fn array(shape: &[usize], values: &[f32]) -> ArrayD<f32> {
        ArrayD::from_shape_vec(IxDyn(shape), values.to_vec()).unwrap()
    }

    #[test]
    fn one_dimension_by_hand() {
        let x = array(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
        let w = array(&[1, 1, 2], &[1.0, 10.0]);
        let y = conv(x.view(), w.view(), Some(&[0.5]), &[window(2, 1, 1, 1)], 1);
        assert_eq!(y, array(&[1, 1, 5], &[10.5, 21.5, 32.5, 43.5, 4.5]));
        let dilated = conv(x.view(), w.view(), None, &[window(2, 1, 2, 0)], 1);
        assert_eq!(dilated, array(&[1, 1, 2], &[31.0, 42.0]));
    }

    #[test]
    fn each_group_reads_its_own_channels() {
        let x = array(&[1, 2, 1, 1], &[3.0, 5.0]);
        let w = array(&[4, 1, 1, 1], &[1.0, 2.0, 1.0, 2.0]);
        let y = conv(x.view(), w.view(), None, &[window(1, 1, 1, 0); 2], 2);
        assert_eq!(y, array(&[1, 4, 1, 1], &[3.0, 6.0, 5.0, 10.0]));
    }

    #[test]
    fn transposed_by_hand() {
        let (x, w) = (array(&[1, 1, 2], &[1.0, 2.0]), array(&[1, 1, 3], &[1.0, 10.0, 100.0]));
        let y = conv_transpose(x.view(), w.view(), Some(&[0.5]), &[window(3, 2, 1, 1)], &[4], 1);
        assert_eq!(y, array(&[1, 1, 4], &[10.5, 102.5, 20.5, 200.5]));
    }
}
