//! Two-dimensional convolution by a matrix product: the algorithm of the fast kernel, without tiles and threads.

use super::unfold;
use crate::Float;
use crate::window::Window;
use ndarray::{Array3, Array4, ArrayView3, ArrayView4, Axis, s};

// ANCHOR: conv_group
/// Convolves a C×H×W image with O×C×kH×kW filters, each of which sees all channels, by unfolding the image and
/// multiplying.
///
/// # Panics
/// Panics if channels, filters and bias do not match.
pub fn conv_group<T: Float>(
    image: ArrayView3<'_, T>,
    filters: ArrayView4<'_, T>,
    bias: Option<&[T]>,
    windows: &[Window; 2],
) -> Array3<T> {
    // ANCHOR: conv_group_todo -- task 5: each filter, flattened to a row, times each unfolded column, plus the bias
    let (channels, height, width) = image.dim();
    assert_eq!(channels, filters.dim().1, "each filter has a plane for each channel of the image");
    let columns = unfold(image, windows);
    let shape = (filters.dim().0, windows[0].positions(height), windows[1].positions(width));
    let mut planes = Array3::zeros(shape);
    for (channel, mut plane) in planes.outer_iter_mut().enumerate() {
        let row = filters.index_axis(Axis(0), channel);
        let bias = bias.map_or(T::zero(), |bias| bias[channel]);
        for (output, column) in plane.iter_mut().zip(columns.columns()) {
            *output = bias + row.iter().zip(column).map(|(&weight, &x)| weight * x).sum::<T>();
        }
    }
    planes
    // ANCHOR_END: conv_group_todo
}
// ANCHOR_END: conv_group

// ANCHOR: conv2d
/// Cross-correlation of N×C×H×W with O×(C/groups)×kH×kW, as `torch.nn.functional.conv2d`.
///
/// The channels are split into `groups` equal parts, and so are the filters. The filters of a group only see its
/// channels.
///
/// # Panics
/// Panics if channels, filters, bias and groups do not match.
pub fn conv2d<T: Float>(
    input: ArrayView4<'_, T>,
    weight: ArrayView4<'_, T>,
    bias: Option<&[T]>,
    windows: &[Window; 2],
    groups: usize,
) -> Array4<T> {
    // ANCHOR: conv2d_todo -- task 5: convolve each group of each sample separately
    let (channels, filters) = (input.dim().1 / groups, weight.dim().0 / groups);
    let [height, width] = [windows[0].positions(input.dim().2), windows[1].positions(input.dim().3)];
    let mut output = Array4::zeros((input.dim().0, filters * groups, height, width));
    for (image, mut planes) in input.outer_iter().zip(output.outer_iter_mut()) {
        for group in 0..groups {
            let seen = group * channels..(group + 1) * channels;
            let made = group * filters..(group + 1) * filters;
            let image = image.slice(s![seen, .., ..]);
            let weight = weight.slice(s![made.clone(), .., .., ..]);
            let bias = bias.map(|bias| &bias[made.clone()]);
            planes.slice_mut(s![made, .., ..]).assign(&conv_group(image, weight, bias, windows));
        }
    }
    output
    // ANCHOR_END: conv2d_todo
}
// ANCHOR_END: conv2d

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::testing::integer_noise;
    use ndarray::Ix4;
    use proptest::prelude::*;

    fn window() -> impl Strategy<Value = Window> {
        (1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3).prop_map(
            |(kernel, stride, dilation, pad_before, pad_after)| Window {
                kernel,
                stride,
                dilation,
                pad_before,
                pad_after,
            },
        )
    }

    proptest! {
        #[test]
        fn a_product_of_matrices_equals_the_definition(
            windows in [window(), window()],
            (samples, groups, channels, filters) in (1usize..3, 1usize..4, 0usize..3, 0usize..3),
            [height, width] in [1usize..8, 1usize..8],
            with_bias: bool,
        ) {
            let input = integer_noise(&[samples, channels * groups, height, width], 1);
            let kernel = windows.map(|window| window.kernel);
            let weight = integer_noise(&[filters * groups, channels, kernel[0], kernel[1]], 2);
            let bias = integer_noise(&[filters * groups], 3);
            let bias = with_bias.then(|| bias.as_slice().unwrap());
            let want = naive::conv(input.view(), weight.view(), bias, &windows, groups);
            let input = input.view().into_dimensionality::<Ix4>().unwrap();
            let weight = weight.view().into_dimensionality::<Ix4>().unwrap();
            prop_assert_eq!(conv2d(input, weight, bias, &windows, groups).into_dyn(), want);
        }
    }
}
