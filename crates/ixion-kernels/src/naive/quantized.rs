//! Convolutions and matrix products of quantised values.

use crate::quantization::{ChannelStep, Quantization, quantize, quantize_channel};
use crate::window::Window;
use ndarray::{Array2, Array3, Array4, ArrayView2, ArrayView3, ArrayView4, Zip};

/// The exact sums of a convolution of quantised values N×C×H×W with quantised weights O×(C/groups)×h×w. All zero points
/// are 0.
pub fn int8_conv2d(
    input: ArrayView4<'_, i32>,
    weight: ArrayView4<'_, i32>,
    windows: &[Window; 2],
    groups: usize,
) -> Array4<i64> {
    let (samples, _, height, width) = input.dim();
    let (outputs, channels, kernel, across) = weight.dim();
    let positions = [windows[0].positions(height), windows[1].positions(width)];
    Array4::from_shape_fn((samples, outputs, positions[0], positions[1]), |(n, o, i, j)| {
        let first = o / (outputs / groups) * channels;
        let mut sum = 0;
        for (c, y, x) in ndarray::indices((channels, kernel, across)) {
            let row = windows[0].source(i, y, height);
            let column = windows[1].source(j, x, width);
            if let (Some(row), Some(column)) = (row, column) {
                sum += i64::from(input[(n, first + c, row, column)]) * i64::from(weight[(o, c, y, x)]);
            }
        }
        sum
    })
}

/// A function of the elements of two quantised tensors, the second of which is broadcast to the shape of the first.
///
/// # Panics
/// Panics if it cannot be broadcast.
pub fn int8_pairs(
    [a, b]: [ArrayView3<'_, i8>; 2],
    operands: [Quantization; 2],
    of: impl Fn(f32, f32) -> f32,
    output: Quantization,
) -> Array3<i8> {
    let number = |a: i8, b: i8| of(operands[0].dequantize(a.into()), operands[1].dequantize(b.into()));
    Zip::from(a).and_broadcast(b).map_collect(|&a, &b| output.quantize(number(a, b)) as i8)
}

// ANCHOR: int8_matmul
/// The exact product of quantised rows R×I with the transpose of quantised weights O×I. All zero points are 0.
pub fn int8_matmul(rows: ArrayView2<'_, i32>, weight: ArrayView2<'_, i32>) -> Array2<i64> {
    // ANCHOR: int8_matmul_todo -- task 3: each row times each row of weights, in i64
    Array2::from_shape_fn((rows.nrows(), weight.nrows()), |(row, output)| {
        let pairs = rows.row(row).into_iter().zip(weight.row(output));
        pairs.map(|(&x, &w)| i64::from(x) * i64::from(w)).sum()
    })
    // ANCHOR_END: int8_matmul_todo
}
// ANCHOR_END: int8_matmul

// ANCHOR: int8_linear
/// A linear layer in int8: inputs R×I, weights O×I and O biases give outputs R×O.
///
/// # Panics
/// Panics if there are fewer biases than rows of weights, or the rows of weights differ in length from those of the
/// input.
pub fn int8_linear(
    input: ArrayView2<'_, f32>,
    weight: ArrayView2<'_, f32>,
    bias: &[f32],
    input_scale: f32,
) -> Array2<f32> {
    // ANCHOR: int8_linear_todo -- task 3: quantise inputs and channels, sum exactly, convert the sums to floats
    let channels: Vec<(Vec<i8>, ChannelStep)> = (weight.rows().into_iter().zip(bias))
        .map(|(row, &bias)| quantize_channel(&row.to_vec(), bias, input_scale))
        .collect();
    let input = input.mapv(|x| i32::from(quantize(x, input_scale)));
    let weight = Array2::from_shape_fn(weight.dim(), |(output, i)| i32::from(channels[output].0[i]));
    let sums = int8_matmul(input.view(), weight.view());
    Array2::from_shape_fn(sums.dim(), |(row, output)| channels[output].1.real(sums[[row, output]] as f64))
    // ANCHOR_END: int8_linear_todo
}
// ANCHOR_END: int8_linear

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn a_channel_without_weights_is_its_bias() {
        let weight = array![[1.27f32, -0.02], [0.0, 0.0]];
        let output = int8_linear(array![[1.0f32, 0.5]].view(), weight.view(), &[3.0, 0.123], 0.01);
        assert!((output[[0, 0]] - 4.26).abs() < 1e-4, "{output}");
        assert_eq!(output[[0, 1]], 0.123);
    }
}
