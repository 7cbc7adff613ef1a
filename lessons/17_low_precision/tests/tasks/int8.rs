//! Tasks 2 and 3: quantised values and their sums.

use super::super::subject::{
    ChannelStep, channel_scale, dequantize, int8_linear, int8_matmul, quantize, quantize_channel,
};
use super::made_up;
use ndarray::{Array2, array};

#[test]
fn task2_a_float_becomes_the_nearest_integer() {
    assert_eq!(quantize(1.0, 0.25), 4, "1 is four steps of a quarter: divide by the scale");
    assert_eq!(quantize(-0.3, 0.25), -1, "−1.2 steps");
    assert_eq!(quantize(0.49, 0.25), 2, "1.96 steps are 2: rounded, not truncated");
    let ties = [0.25, 0.75, 1.25, -0.25, -0.75].map(|x| quantize(x, 0.5));
    assert_eq!(ties, [0, 2, 2, 0, -2], "ties go to the even neighbour, on both sides of zero");
}

#[test]
fn task2_values_outside_are_clipped_symmetrically() {
    assert_eq!([63.5, 64.0, 1e9, f32::INFINITY].map(|x| quantize(x, 0.5)), [127; 4], "more than 127 steps");
    let hint = "−128 has no counterpart above zero: the ends are −127 and 127.";
    assert_eq!([-63.5, -64.0, -1e9, f32::NEG_INFINITY].map(|x| quantize(x, 0.5)), [-127; 4], "{hint}");
    assert_eq!(quantize(f32::NAN, 0.5), 0, "NaN becomes 0");
}

#[test]
fn task2_there_and_back_loses_half_a_step() {
    assert_eq!(dequantize(-3, 0.5), -1.5, "three steps of a half");
    assert_eq!(dequantize(127, 1.0), 127.0, "i8 becomes f32 first, and does not overflow");
    for x in made_up(1, 1000) {
        let found = dequantize(quantize(x, 1.0 / 127.0), 1.0 / 127.0);
        assert!((found - x).abs() <= 0.501 / 127.0, "{x} came back as {found}, more than half a step away");
    }
}

#[test]
fn task2_each_channel_has_its_own_scale() {
    assert_eq!(channel_scale(&[0.5, 1.27]), 1.27 / 127.0, "the largest becomes 127");
    assert_eq!(channel_scale(&[0.5, -2.54]), 2.54 / 127.0, "magnitudes count: −2.54 is the largest");
    assert_eq!(channel_scale(&[0.0, 0.0]), 0.0, "only zeros");
    assert_eq!(channel_scale(&[]), 0.0, "no weights");
}

#[test]
fn task3_a_bias_is_counted_in_steps() {
    let step = ChannelStep::new(0.5, 0.25, 100.0).expect("an ordinary channel has a step");
    assert_eq!(step.scale, 0.125, "an increment of the sum is one step of the input times one of the weight");
    assert_ne!(step.bias, 127.0, "A bias is added to sums, not to inputs: it has more than eight bits.");
    assert_eq!(step.bias, 800.0, "100 / 0.125");
    let bias = |bias| ChannelStep::new(1.0, 1.0, bias).map(|step| step.bias);
    assert_eq!([2.5, 3.5, -2.5].map(bias), [Some(2.0), Some(4.0), Some(-2.0)], "rounded half to even");
    assert_eq!(bias(1e9), Some(1e9), "far beyond 16 bits");
}

#[test]
fn task3_some_channels_have_no_step() {
    let hint = "None: the weights' scale, the step or the bias is out of range.";
    for (weight, input, bias) in
        [(0.0, 1.0, 1.0), (1e-40, 1e30, 0.0), (1e-20, 1e-20, 0.0), (1e-20, 1e-17, 1e3)]
    {
        assert_eq!(ChannelStep::new(weight, input, bias), None, "{weight:e} · {input:e}, {bias}. {hint}");
    }
}

#[test]
fn task3_one_rounding_at_the_end() {
    assert_eq!(ChannelStep { bias: 800.0, scale: 0.125 }.real(-792.0), 1.0, "(−792 + 800) / 8");
    let step = ChannelStep { bias: -16_777_216.0, scale: 0.5 };
    let hint = "In f32, 16777217 is 16777216: add in f64, and round the result.";
    assert_eq!(step.real(16_777_217.0), 0.5, "{hint}");
}

#[test]
fn task3_a_channel_in_int8() {
    let (weights, step) = quantize_channel(&[127.0 / 128.0, -2.0 / 128.0, 0.0], 3.0, 0.5);
    assert_eq!(weights, [127, -2, 0], "the weights' own scale is 1/128, whatever the input's");
    assert_eq!(step, ChannelStep { bias: 768.0, scale: 1.0 / 256.0 }, "3 is 768 steps of 1/128 · 1/2");
    for weights in [[0.0, 0.0], [1e-41, 0.0]] {
        let (found, step) = quantize_channel(&weights, 0.125, 0.5);
        assert_eq!(found, [0, 0], "{weights:?} have no step: still return one int8 for each");
        assert_eq!(step.real(0.0), 0.125, "then the output is the bias itself");
    }
}

#[test]
fn task3_rows_times_rows() {
    let (rows, weight) = (array![[1, 2], [3, 4]], array![[1, 0], [0, 1], [1, -1]]);
    let found = int8_matmul(rows.view(), weight.view());
    assert_eq!(found.dim(), (2, 3), "a row for each row of the input, a column for each output");
    assert_eq!(found, array![[1, 2, -1], [3, 4, -1]], "weights are in rows: they are already transposed");
    let large = Array2::from_elem((1, 2), 100_000);
    assert_eq!(int8_matmul(large.view(), large.view()), array![[20_000_000_000i64]], "wider than i32");
}

#[test]
fn task3_a_linear_layer_by_hand() {
    let weight = array![[127.0f32 / 128.0, -2.0 / 128.0], [0.0, 127.0], [0.0, 0.0]];
    let output =
        int8_linear(array![[1.0f32, 0.5], [0.0, -0.25]].view(), weight.view(), &[3.0, -500.0, 0.123], 0.25);
    assert_eq!(output.dim(), (2, 3), "rows by outputs");
    assert_eq!(output[[0, 0]], 3.984375, "(4 · 127 − 2 · 2 + 1536) / 512");
    assert_eq!(output[[1, 0]], 1538.0 / 512.0, "(−1 · −2 + 1536) / 512");
    let hint = "(2 · 127 − 2000) / 4. The bias is −2000 steps; int8 would clip it to −127.";
    assert_eq!(output[[0, 1]], -436.5, "{hint}");
    assert_eq!([output[[0, 2]], output[[1, 2]]], [0.123; 2], "a channel without weights is its bias");
}

#[test]
fn task3_channels_of_different_size_stay_separate() {
    let (rows, inputs, outputs) = (5, 40, 3);
    let input = Array2::from_shape_vec((rows, inputs), made_up(2, rows * inputs)).unwrap();
    let mut weight = Array2::from_shape_vec((outputs, inputs), made_up(3, outputs * inputs)).unwrap();
    let sizes = [0.001f32, 1.0, 100.0];
    weight.rows_mut().into_iter().zip(sizes).for_each(|(mut row, size)| row *= size);
    let bias = sizes.map(|size| 3.0 * size);
    let found = int8_linear(input.view(), weight.view(), &bias, 1.0 / 127.0);
    for ((row, output), &found) in found.indexed_iter() {
        let wanted = input.row(row).dot(&weight.row(output)) + bias[output];
        // Forty products of errors below 1/254 each, on both sides.
        let most = sizes[output] * 40.0 / 127.0;
        let hint = "Does each channel have its own scale?";
        assert!(
            (found - wanted).abs() < most,
            "row {row}, output {output}: got {found}, expected {wanted}. {hint}"
        );
        assert!(
            (found - wanted).abs() < 0.1 * sizes[output],
            "got {found}, expected {wanted}: errors mostly cancel. {hint}"
        );
    }
}
