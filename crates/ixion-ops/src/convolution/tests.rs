//! Convolutions against values that PyTorch computes from [`waves`].

use crate::op::TensorMeta;
use crate::support::testing::{Operator, assert_close, operator, waves};
use ixion_tensor::{DType, Dim};

/// A module with weights of this shape, and a bias for `bias` channels if that is not 0.
fn module<'a>(
    op_type: &'a str,
    params: &[(&'a str, &'a str)],
    weight: &[usize],
    bias: usize,
) -> Operator<'a> {
    let module = operator(op_type, params).with_attr("weight", waves(weight));
    if bias > 0 { module.with_attr("bias", waves(&[bias])) } else { module }
}

/// Runs the module, and the functional form with weights as inputs: both must give PyTorch's result.
fn check(
    op_type: &str,
    params: &[(&str, &str)],
    (input, weight, bias): (&[usize], &[usize], usize),
    shape: &[usize],
    want: &[f64],
) {
    let x = waves(input);
    assert_close(&module(op_type, params, weight, bias).run_one(&[&x]).unwrap(), shape, want);
    let functional = match op_type {
        "nn.Conv1d" => "F.conv1d",
        "nn.Conv2d" => "F.conv2d",
        "nn.Conv3d" => "F.conv3d",
        "nn.ConvTranspose1d" => "F.conv_transpose1d",
        "nn.ConvTranspose2d" => "F.conv_transpose2d",
        _ => "F.conv_transpose3d",
    };
    let (weight, bias_values) = (waves(weight), waves(&[bias.max(1)]));
    let output = match bias {
        0 => operator(functional, &[params, &[("bias", "None")]].concat())
            .with_names(&["input", "weight"])
            .run_one(&[&x, &weight]),
        _ => operator(functional, params).with_names(&["input", "weight", "bias"]).run_one(&[
            &x,
            &weight,
            &bias_values,
        ]),
    };
    assert_close(&output.unwrap(), shape, want);
}

#[test]
fn transposed_in_one_dimension() {
    let params = [("stride", "(2)"), ("padding", "(1)"), ("output_padding", "(1)")];
    let want =
        [-6.0625, -3.3125, -3.6875, -4.75, -5.25, -3.0625, -1.875, 5.1875, -0.875, -1.8125, -2.125, 1.3125];
    check("nn.ConvTranspose1d", &params, (&[1, 2, 3], &[2, 2, 3], 2), &[1, 2, 6], &want);
    let params = [("dilation", "(2)"), ("padding", "(2)"), ("groups", "2")];
    let want = [-2.0625, 2.1875, -0.125, 1.0625, 2.0, -1.375, 3.6875, 0.125];
    check("nn.ConvTranspose1d", &params, (&[1, 4, 4], &[4, 1, 3], 0), &[1, 2, 4], &want);
    let want = [7.5625, 4.6875, 0.0, 0.6875, 1.0625, 0.0, 0.0, 2.5];
    check("nn.ConvTranspose1d", &[("stride", "3")], (&[2, 3], &[2, 1, 2], 0), &[1, 8], &want);
}

#[test]
fn transposed_in_two_dimensions() {
    let params = [("stride", "(2,1)"), ("padding", "(1,0)"), ("output_padding", "(1,0)")];
    let want = [
        -2.375, 6.25, 1.8125, -2.25, 9.375, 10.0625, 0.125, -5.25, -2.25, 5.625, 0.9375, -2.75, 1.25, -0.25,
        -5.25, 0.375,
    ];
    check("nn.ConvTranspose2d", &params, (&[1, 2, 2, 3], &[2, 1, 3, 2], 1), &[1, 1, 4, 4], &want);
    let params = [("dilation", "2"), ("output_padding", "1")];
    let want = [
        7.5625, 0.6875, 0.6875, 0.0625, 0.0, 0.0, 5.5, 0.0, 0.5, 0.0, 0.0, 0.0, 5.5, 0.5, 0.0, 0.0, 0.0, 0.0,
        4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ];
    check("nn.ConvTranspose2d", &params, (&[1, 1, 2, 2], &[1, 1, 2, 2], 0), &[1, 1, 5, 5], &want);
    let params = [("dilation", "(1,2)"), ("padding", "(0,1)"), ("groups", "2")];
    let want = [
        -2.0625, -2.0625, 2.75, 2.75, -2.75, -2.75, 0.375, 0.375, -3.125, -3.125, 2.75, 2.75, -8.25, -2.8125,
        0.6875, -3.625, -2.75, -5.75, 0.75, 0.375, -3.125, -1.25, -0.625, -0.25,
    ];
    check("nn.ConvTranspose2d", &params, (&[2, 2, 2, 2], &[2, 1, 2, 2], 2), &[2, 2, 3, 2], &want);
}

#[test]
fn transposed_in_three_dimensions() {
    let params = [("stride", "(1,2,1)"), ("padding", "(0,1,0)"), ("output_padding", "(0,1,0)")];
    let want = [
        -2.0625, -2.6875, -2.75, 2.75, -2.75, -2.25, -2.75, -2.75, -1.25, -2.3125, -3.4375, -3.9375, -3.125,
        -2.25, -2.75, -0.25, -2.5, -2.125, -5.125, -5.1875, -3.5, -3.75, -4.625, -5.25,
    ];
    check("nn.ConvTranspose3d", &params, (&[1, 1, 2, 2, 2], &[1, 1, 2, 3, 1], 1), &[1, 1, 3, 4, 2], &want);
}

#[test]
fn transposed_to_a_given_size() {
    let want = [7.5625, 0.6875, 0.6875, 0.0625, 0.0, 0.0, 0.0, 0.0];
    let to = |size| {
        let params = [("stride", "(2)"), ("output_size", size)];
        module("nn.ConvTranspose1d", &params, &[1, 1, 3], 0).run_one(&[&waves(&[1, 1, 3])])
    };
    assert_close(&to("(8)").unwrap(), &[1, 1, 8], &want);
    assert_close(&to("(1,1,7)").unwrap(), &[1, 1, 7], &want[..7]);
    assert_eq!(to("(9)").unwrap_err().to_string(), "output_size: expected 7 or up to stride − 1 more, got 9");
    assert!(to("(6)").is_err() && to("(8,8)").is_err() && to("()").is_err());
}

#[test]
fn padding_that_keeps_the_length() {
    let same = [("padding", "same")];
    let want = [0.6875, 11.625, 1.6875, 0.5, 5.625];
    check("nn.Conv1d", &same, (&[1, 1, 5], &[1, 1, 4], 0), &[1, 1, 5], &want);
    // ONNX's SAME_UPPER: every second element of the result above.
    let strided = [("padding", "same"), ("stride", "2")];
    check("nn.Conv1d", &strided, (&[1, 1, 5], &[1, 1, 4], 0), &[1, 1, 3], &[0.6875, 1.6875, 5.625]);
    let want = [0.0, 8.0625, 0.8125, 0.0, 5.5];
    let dilated = [("padding", "same"), ("dilation", "(3)")];
    check("nn.Conv1d", &dilated, (&[1, 1, 5], &[1, 1, 2], 0), &[1, 1, 5], &want);
    let want = [-0.4375, 10.6875, -0.4375, -5.5, -1.4375, -5.1875, -3.125, -7.375, -8.3125];
    check("nn.Conv2d", &same, (&[1, 1, 3, 3], &[1, 1, 2, 3], 1), &[1, 1, 3, 3], &want);
    let want = [10.125, 0.6875, -3.5, 5.5, 1.6875, 3.4375, -4.625, -5.5];
    check("nn.Conv3d", &same, (&[1, 2, 2, 2], &[1, 1, 2, 1, 2], 0), &[1, 2, 2, 2], &want);
}

#[test]
fn padding_modes() {
    type Case<'a> = (&'a str, [f64; 6], [f64; 9], [f64; 8]);
    let cases: [Case<'_>; 3] = [
        (
            "reflect",
            [0.0625, 1.375, 7.625, 0.6875, 0.5, 5.5],
            [4.0, 13.4375, 2.9375, -5.375, 1.3125, -4.9375, -3.25, 1.1875, -3.3125],
            [7.375, 1.6875, 7.375, 1.6875, -7.625, -4.3125, -7.625, -4.3125],
        ),
        (
            "replicate",
            [8.25, 8.25, 7.625, 0.6875, 0.5, 6.0],
            [13.875, 13.4375, 3.875, -0.25, 1.3125, -2.75, -10.75, -8.9375, -10.0],
            [13.75, 0.6875, 10.0, 4.1875, -7.5, -6.0625, -10.0, -1.3125],
        ),
        (
            "circular",
            [0.5, 6.1875, 7.625, 0.6875, 0.5, 6.1875],
            [4.8125, 13.4375, 4.8125, 0.1875, 1.3125, -4.3125, 0.625, 1.0, -1.625],
            [9.4375, 1.6875, 9.4375, 1.6875, -0.0625, -4.3125, -0.0625, -4.3125],
        ),
    ];
    for (mode, row, plane, volume) in cases {
        let params = [("padding", "(2)"), ("padding_mode", mode)];
        let output = module("nn.Conv1d", &params, &[1, 1, 3], 0).run_one(&[&waves(&[1, 1, 4])]).unwrap();
        assert_close(&output, &[1, 1, 6], &row);
        let params = [("padding", "same"), ("padding_mode", mode)];
        let output = module("nn.Conv2d", &params, &[1, 1, 2, 3], 0).run_one(&[&waves(&[1, 3, 3])]).unwrap();
        assert_close(&output, &[1, 3, 3], &plane);
        let params = [("padding", "(0,1,1)"), ("stride", "(1,2,2)"), ("padding_mode", mode)];
        let conv = module("nn.Conv3d", &params, &[1, 1, 1, 2, 2], 0);
        assert_close(&conv.run_one(&[&waves(&[1, 2, 2, 3])]).unwrap(), &[1, 2, 2, 2], &volume);
    }
}

#[test]
fn depthwise_convolution() {
    let params = [("groups", "2"), ("stride", "2"), ("padding", "1")];
    let want = [
        2.75, -2.75, -5.25, -1.5625, -5.75, -0.625, 5.25, 5.0625, -2.5, 3.8125, -0.6875, -2.4375, -2.5,
        -1.6875, -0.9375, -0.5625,
    ];
    check("nn.Conv2d", &params, (&[1, 2, 3, 3], &[4, 1, 2, 2], 4), &[1, 4, 2, 2], &want);
    let params = [("groups", "3"), ("padding", "1")];
    let want = [-2.0625, 4.875, -2.0625, -2.25, 1.5625, -0.5, -1.0, -4.25, 1.0, 4.75, 5.6875, -0.25];
    check("nn.Conv1d", &params, (&[3, 4], &[3, 1, 3], 3), &[3, 4], &want);
    let params = [("groups", "2"), ("dilation", "(1,1,2)")];
    let want = [10.0625, -1.6875, -3.625, -1.8125];
    check("nn.Conv3d", &params, (&[1, 2, 2, 2, 3], &[2, 1, 1, 2, 2], 0), &[1, 2, 2, 1, 1], &want);
}

#[test]
fn symbols_and_costs() {
    let dims = [Dim::symbol("n"), Dim::Fixed(4), Dim::symbol("h"), Dim::Fixed(5)];
    let input = TensorMeta::new(DType::F64, dims);
    let conv = module("nn.Conv2d", &[("stride", "2"), ("padding", "1")], &[6, 4, 3, 3], 0);
    assert_eq!(conv.infer(std::slice::from_ref(&input)).unwrap()[0].to_string(), "n×6×((h + 1) / 2)×3 f64");
    let transposed = module("nn.ConvTranspose2d", &[("stride", "2"), ("padding", "1")], &[4, 3, 4, 4], 0);
    let output = &transposed.infer(&[input]).unwrap()[0];
    assert_eq!((&output.dims()[0], &output.dims()[1]), (&Dim::symbol("n"), &Dim::Fixed(3)));
    assert!(output.dims()[2].fixed().is_none() && output.dims()[3] == Dim::Fixed(10), "{output}");
    let input = [TensorMeta::new(DType::F64, [1, 4, 5, 5])];
    let macs = |operator: Operator<'_>| {
        let layer = operator.create(1).unwrap();
        layer.cost(&input, &layer.infer(&input).unwrap()).macs
    };
    assert_eq!(macs(conv), 6 * 9 * 4 * 9);
    assert_eq!(macs(transposed), 4 * 25 * 3 * 16);
}

#[test]
fn without_input_channels_there_is_the_bias() {
    let bias = [-2.75, -0.25];
    let want = |places: usize| bias.iter().flat_map(|&b| vec![b; places]).collect::<Vec<_>>();
    check("nn.Conv1d", &[], (&[1, 0, 10], &[2, 0, 3], 2), &[1, 2, 8], &want(8));
    check("nn.Conv1d", &[], (&[1, 0, 5], &[2, 0, 1], 0), &[1, 2, 5], &[0.0; 10]);
    check("nn.Conv2d", &[("groups", "2")], (&[0, 3, 3], &[2, 0, 2, 2], 2), &[2, 2, 2], &want(4));
    check("nn.ConvTranspose1d", &[], (&[1, 0, 5], &[0, 2, 3], 2), &[1, 2, 7], &want(7));
    check("nn.ConvTranspose1d", &[], (&[1, 0, 5], &[0, 2, 3], 0), &[1, 2, 7], &[0.0; 14]);
    check("nn.Conv1d", &[], (&[1, 2, 5], &[0, 2, 3], 0), &[1, 0, 3], &[]);
    check("nn.ConvTranspose1d", &[], (&[1, 2, 5], &[2, 0, 3], 0), &[1, 0, 7], &[]);
}

/// Results of PyTorch: only the first position is inside.
#[test]
fn strides_beyond_the_input_cost_nothing() {
    let params = [("groups", "2"), ("stride", "500000000")];
    check("nn.Conv1d", &params, (&[1, 2, 10], &[2, 1, 3], 2), &[1, 2, 1], &[4.875, -2.0]);
    let params = [("groups", "2"), ("stride", "(1,500000000)")];
    check(
        "nn.Conv2d",
        &params,
        (&[1, 2, 3, 10], &[2, 1, 2, 3], 0),
        &[1, 2, 2, 1],
        &[5.875, -1.5, 5.5625, -2.0625],
    );
}

#[test]
fn invalid_parameters_and_odd_inputs() {
    let refused = |op_type, params: &[(&str, &str)], weight: &[usize]| {
        assert!(module(op_type, params, weight, 0).create(1).is_err(), "{params:?}")
    };
    for op_type in ["nn.Conv2d", "nn.ConvTranspose2d"] {
        refused(op_type, &[("stride", "0")], &[4, 4, 1, 1]);
        refused(op_type, &[("dilation", "(1,0)")], &[4, 4, 1, 1]);
        refused(op_type, &[("groups", "0")], &[4, 4, 1, 1]);
        refused(op_type, &[("in_channels", "5")], &[4, 4, 1, 1]);
        refused(op_type, &[("out_channels", "5")], &[4, 4, 1, 1]);
        refused(op_type, &[("kernel_size", "(2,1)")], &[4, 4, 1, 1]);
    }
    let fails = |params: &[(&str, &str)], weight: &[usize], input: &[usize]| {
        module("nn.ConvTranspose2d", params, weight, 0).run(&[&waves(input)]).unwrap_err().to_string()
    };
    fails(&[("output_padding", "2"), ("stride", "2")], &[4, 4, 1, 1], &[1, 4, 2, 2]);
    fails(&[("padding", "3")], &[4, 4, 2, 2], &[1, 4, 2, 2]);
    fails(&[("groups", "3")], &[4, 4, 1, 1], &[1, 4, 2, 2]);
    fails(&[], &[4, 4, 1, 1], &[1, 3, 2, 2]);
    fails(&[], &[4, 4, 1, 1], &[1, 4, 0, 2]);
    for padding in ["0", "1", "(2,0)", "1000000000000"] {
        for op_type in ["nn.Conv2d", "nn.ConvTranspose2d"] {
            module(op_type, &[("padding", padding), ("stride", "2")], &[4, 4, 2, 1], 4).survives(1);
            module(op_type, &[("padding", padding), ("groups", "4")], &[4, 1, 1, 2], 0).survives(1);
        }
        operator("F.conv_transpose1d", &[("padding", padding)]).with_names(&["input", "weight"]).survives(2);
    }
}
