//! Quantised products, computed by hand.

use crate::support::testing::{Operator, operator, tensor};
use ixion_tensor::Tensor;
use proptest::prelude::*;

/// An operator with weights of scales 0.5 and 0.25 and the given parameters.
fn weighted<'a>(
    op_type: &'a str,
    shape: &[usize],
    weight: &[i8],
    more: &[(&'a str, &'a str)],
) -> Operator<'a> {
    let params = [("scale", "0.5"), ("zero_point", "4"), ("input_scale", "0.5"), ("input_zero_point", "2")];
    operator(op_type, &[&params, more].concat())
        .with_attr("weight", tensor(shape, weight))
        .with_attr("weight.q_per_channel_scales", tensor(&[2], &[0.5f64, 0.25]))
        .with_attr("weight.q_per_channel_zero_points", tensor(&[2], &[0i64, 1]))
        .with_attr("bias", tensor(&[2], &[0.25f32, -1.0]))
}

#[test]
fn a_linear_map_by_hand() {
    let weight = [1i8, -2, 3, 1, 0, 5];
    let (x, none) = (tensor(&[2, 3], &[3u8, 2, 4, 0, 255, 2]), &[][..]);
    let linear = weighted("nn.quantized.Linear", &[2, 3], &weight, none);
    // The first row is 1, 0, 2 steps from its zero point, so its sums are 7 quarters and 8 eighths: with the bias 2 and 0,
    // which is four and zero steps of the output. The second row saturates.
    assert_eq!(linear.run_one(&[&x]).unwrap().to_vec::<u8>().unwrap(), [8, 4, 0, 0]);
    let relu = weighted("nn.intrinsic.quantized.LinearReLU", &[2, 3], &weight, none);
    assert_eq!(relu.run_one(&[&x]).unwrap().to_vec::<u8>().unwrap(), [8, 4, 4, 4]);
    assert!(linear.run(&[&tensor(&[1, 3], &[0i8, 1, 2])]).is_ok());
    assert!(linear.run(&[&tensor(&[1, 3], &[0.0f32, 1.0, 2.0])]).is_err());
    assert!(linear.run(&[&tensor(&[1, 2], &[0u8, 1])]).is_err());
    linear.survives(1);
}

#[test]
fn padding_represents_zero() {
    let more = [("padding", "1"), ("kernel_size", "(2,2)"), ("groups", "1"), ("padding_mode", "zeros")];
    let conv = weighted("nn.quantized.Conv2d", &[2, 1, 2, 2], &[1, 1, 1, 1, 1, 1, 1, 5], &more);
    let out = conv.run_one(&[&tensor(&[1, 1, 1, 1], &[4u8])]).unwrap();
    assert_eq!(out.shape().dims(), [1, 2, 2, 2]);
    // The input represents 1, under each weight once: 0.5 + 0.25 is a step and a half, which is rounded to the even 2; the
    // second kernel only has 1 in its last corner, which cancels the bias.
    assert_eq!(out.to_vec::<u8>().unwrap(), [6, 6, 6, 6, 4, 2, 2, 2]);
    let relu = weighted("nn.intrinsic.quantized.ConvReLU2d", &[2, 1, 2, 2], &[1, 1, 1, 1, 1, 1, 1, 5], &more);
    let out = relu.run_one(&[&tensor(&[1, 1, 1, 1], &[4u8])]).unwrap();
    assert_eq!(out.to_vec::<u8>().unwrap(), [6, 6, 6, 6, 4, 4, 4, 4]);
    conv.survives(1);
}

#[test]
fn mismatched_weights_are_rejected() {
    let shape = [2usize, 1, 1, 1];
    let with = |more: &[(&'static str, &'static str)]| {
        weighted("nn.quantized.Conv2d", &shape, &[1, 1], more).create(1).map(drop)
    };
    assert!(with(&[]).is_ok());
    for more in [
        ("groups", "0"),
        ("stride", "0"),
        ("padding_mode", "reflect"),
        ("out_channels", "3"),
        ("dilation", "0"),
    ] {
        assert!(with(&[more]).is_err(), "{more:?}");
    }
    let weights = || operator("nn.quantized.Linear", &[("scale", "1.0"), ("zero_point", "0")]);
    assert!(weights().create(1).is_err());
    let per_tensor = weights().with_attr("weight", tensor(&[2, 2], &[1i8; 4]));
    let error = per_tensor.create(1).unwrap_err().to_string();
    assert!(error.contains("weight.q_per_channel_scales"), "{error}");
}

/// The outputs of an operator whose weights are these steps from a zero point.
fn outputs(
    op_type: &str,
    params: &[(&str, &str)],
    shape: &[usize],
    steps: &[i8],
    zero_point: i8,
    input: &Tensor,
) -> Tensor {
    let count = shape[0];
    let weight: Vec<i8> = steps.iter().map(|step| step + zero_point).collect();
    let scales: Vec<f64> = (0..count).map(|output| 0.01 + output as f64 * 0.003).collect();
    let bias: Vec<f32> = (0..count).map(|output| output as f32 * 0.7 - 2.0).collect();
    let operator = operator(op_type, params)
        .with_attr("weight", tensor(shape, &weight))
        .with_attr("weight.q_per_channel_scales", tensor(&[count], &scales))
        .with_attr("weight.q_per_channel_zero_points", tensor(&[count], &vec![i64::from(zero_point); count]))
        .with_attr("bias", tensor(&[count], &bias));
    operator.run_one(&[input]).unwrap()
}

/// Pseudo-random bytes below 127.
fn noise(count: usize, seed: usize) -> Vec<i8> {
    (0..count).map(|at| (((at + seed) * 7919 + at * at * 31) % 255) as i8).map(|byte| byte.min(126)).collect()
}

/// An input without columns, of more channels than are computed at a time.
#[test]
fn padding_alone_is_convolved() {
    let quantisation =
        [("scale", "0.5"), ("zero_point", "4"), ("input_scale", "0.5"), ("input_zero_point", "2")];
    let params = [&quantisation[..], &[("groups", "100"), ("padding", "1")]].concat();
    let x = tensor::<u8>(&[1, 100, 3, 0], &[]);
    let [bytes, differences] = [0, 1].map(|zero_point| {
        outputs("nn.quantized.Conv2d", &params, &[100, 1, 2, 2], &[1; 400], zero_point, &x)
    });
    assert_eq!(bytes.shape().dims(), [1, 100, 4, 1]);
    assert_eq!(bytes, differences);
}

proptest! {
    /// Weights whose zero points are 0 are multiplied as bytes; the others are not.
    #[test]
    fn zero_points_of_weights_do_not_change_results(
        (groups, each, more) in (1usize..4, 1usize..6, 1usize..20),
        (kernel, stride, padding, lens) in (1usize..4, 1usize..3, 0usize..2, [3usize..9, 3usize..9]),
        (is_signed, relu, is_depthwise, seed) in (any::<bool>(), any::<bool>(), any::<bool>(), 0usize..1000),
    ) {
        let (groups, each, more) = if is_depthwise { (groups * more + 1, 1, 1) } else { (groups, each, more) };
        let [groups_text, stride, padding] = [groups, stride, padding].map(|number| number.to_string());
        let quantisation = [("scale", "0.7"), ("zero_point", "9"), ("input_scale", "0.2"), ("input_zero_point", "5")];
        let window = [("groups", &*groups_text), ("stride", &*stride), ("padding", &*padding)];
        let [conv, linear] = match relu {
            true => ["nn.intrinsic.quantized.ConvReLU2d", "nn.intrinsic.quantized.LinearReLU"],
            false => ["nn.quantized.Conv2d", "nn.quantized.Linear"],
        };
        let input = |dims: &[usize]| {
            let bytes = noise(dims.iter().product(), seed);
            let unsigned: Vec<u8> = bytes.iter().map(|byte| byte.cast_unsigned()).collect();
            if is_signed { tensor(dims, &bytes) } else { tensor(dims, &unsigned) }
        };
        let of = |op_type: &str, params: &[(&str, &str)], shape: &[usize], x: &Tensor| {
            let steps = noise(shape.iter().product(), seed + 1);
            [0, 1].map(|zero_point| outputs(op_type, params, shape, &steps, zero_point, x))
        };
        let x = input(&[2, groups * each, lens[0], lens[1]]);
        let [bytes, differences] =
            of(conv, &[&quantisation[..], &window].concat(), &[groups * more, each, kernel, kernel], &x);
        prop_assert_eq!(bytes, differences);
        let x = input(&[2, 3, groups * each]);
        let [bytes, differences] = of(linear, &quantisation, &[more, groups * each], &x);
        prop_assert_eq!(bytes, differences);
    }
}
