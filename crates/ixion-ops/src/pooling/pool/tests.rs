use crate::op::TensorMeta;
use crate::support::testing::{assert_close, operator, waves};
use ixion_tensor::{DType, Dim, Tensor};

#[test]
fn maxima_and_their_indices_are_those_of_pytorch() {
    let params = [("kernel_size", "3"), ("stride", "2"), ("padding", "1"), ("ceil_mode", "True")];
    let with_indices = [&params[..], &[("return_indices", "True")]].concat();
    let x = waves(&[1, 2, 7]);
    let [values, indices] = &operator("F.max_pool1d", &with_indices).run(&[&x]).unwrap()[..] else {
        panic!()
    };
    let want = [-0.25, 0.0, -0.5, 1.5, 2.0, 2.0, 1.5, -0.5];
    assert_close(values, &[1, 2, 4], &want);
    assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 2, 4, 6, 0, 2, 3, 5]);
    assert_close(&operator("nn.MaxPool1d", &params).run_one(&[&x]).unwrap(), &[1, 2, 4], &want);

    let params = [("kernel_size", "(3,2)"), ("stride", "(2,3)"), ("padding", "(1,0)"), ("dilation", "(1,2)")];
    let params = [&params[..], &[("ceil_mode", "True"), ("return_indices", "True")]].concat();
    let outputs = operator("nn.MaxPool2d", &params).run(&[&waves(&[1, 1, 5, 6])]).unwrap();
    assert_close(&outputs[0], &[1, 1, 3, 2], &[1.5, 2.0, 2.75, 2.75, 2.75, 2.75]);
    assert_eq!(outputs[1].to_vec::<i64>().unwrap(), [6, 9, 18, 21, 18, 21]);
}

#[test]
fn samples_without_a_batch_and_volumes() {
    let params = [("kernel_size", "(2)"), ("stride", "None"), ("dilation", "(3)")];
    let flat = operator("F.max_pool1d", &params).run_one(&[&waves(&[2, 6])]).unwrap();
    assert_close(&flat, &[2, 2], &[-2.0, 0.0, 2.0, 0.25]);
    let params = [("kernel_size", "2"), ("stride", "(1,2,1)"), ("padding", "(1,0,1)")];
    let volume = operator("F.max_pool3d", &params).run_one(&[&waves(&[1, 3, 4, 3])]).unwrap();
    let want = [
        -2.0, -0.25, 0.0, 0.0, 2.0, 2.0, 2.0, 0.25, -0.25, -0.25, 0.0, 0.0, 2.75, 2.75, 2.0, 0.25, -0.25,
        0.0, 1.5, 1.5, 2.75, 2.75, 2.0, 2.0, -0.25, 0.0, 1.5, 1.5, 2.0, 2.0, 2.0, 2.0,
    ];
    assert_close(&volume, &[1, 4, 2, 4], &want);
}

#[test]
fn means_divide_as_pytorch_does() {
    let params = [("kernel_size", "3"), ("stride", "2"), ("padding", "1"), ("ceil_mode", "True")];
    let ninths = [-2.75, 1.5, -0.25, -2.5, -1.75, 2.25, -1.0, -3.5, -1.0];
    let counts = [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0];
    let cases = [
        (("count_include_pad", "True"), ninths.map(|sum| sum / 9.0)),
        (("count_include_pad", "False"), std::array::from_fn(|i| ninths[i] / counts[i])),
        (("divisor_override", "5"), ninths.map(|sum| sum / 5.0)),
    ];
    for (param, want) in cases {
        let layer = [&params[..], &[param]].concat();
        assert_close(
            &operator("F.avg_pool2d", &layer).run_one(&[&waves(&[1, 5, 5])]).unwrap(),
            &[1, 3, 3],
            &want,
        );
    }
    let partial = [("kernel_size", "3"), ("padding", "1"), ("ceil_mode", "True")];
    let got = operator("nn.AvgPool2d", &partial).run_one(&[&waves(&[1, 1, 4, 4])]).unwrap();
    assert_close(
        &got,
        &[1, 1, 2, 2],
        &[-0.5277777777777778, 0.16666666666666666, -0.027777777777777776, 0.0],
    );
    let params = [("kernel_size", "4"), ("stride", "3"), ("padding", "2"), ("count_include_pad", "False")];
    let params = [&params[..], &[("ceil_mode", "True")]].concat();
    let got = operator("F.avg_pool1d", &params).run_one(&[&waves(&[1, 1, 6])]).unwrap();
    assert_close(&got, &[1, 1, 3], &[-1.5, -0.6875, -0.875]);
    let params = [("kernel_size", "2"), ("stride", "1")];
    let got = operator("F.avg_pool3d", &params).run_one(&[&waves(&[1, 2, 3, 3])]).unwrap();
    assert_close(&got, &[1, 1, 2, 2], &[-0.5625, -0.46875, -0.5625, -0.75]);
}

#[test]
fn norms_are_those_of_pytorch() {
    let nan = [f64::NAN; 3];
    let cases = [
        ("1", [-3.0, -2.0, -1.0]),
        ("2", [2.7613402542968153, 2.0, 0.5f64.sqrt()]),
        ("3.0", nan),
        ("0.5", nan),
        ("-1", [-0.22916666666666669, 0.0, -0.25]),
    ];
    for (p, want) in cases {
        let params = [("norm_type", p), ("kernel_size", "2"), ("ceil_mode", "True"), ("stride", "None")];
        assert_close(&operator("F.lp_pool1d", &params).run_one(&[&waves(&[1, 5])]).unwrap(), &[1, 3], &want);
    }
    let params = [("norm_type", "2.0"), ("kernel_size", "(2,2)"), ("stride", "1")];
    let want = [
        3.072051431861127,
        1.9685019685029528,
        3.2015621187164243,
        2.4238399287081647,
        3.17214438511238,
        3.17214438511238,
    ];
    assert_close(
        &operator("nn.LPPool2d", &params).run_one(&[&waves(&[1, 1, 3, 4])]).unwrap(),
        &[1, 1, 2, 3],
        &want,
    );
}

#[test]
fn sizes_may_be_symbols() {
    let rule = |ceil_mode, len: Dim| {
        let params = [("kernel_size", "3"), ("stride", "2"), ("padding", "1"), ("ceil_mode", ceil_mode)];
        let input = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(8), len]);
        operator("nn.MaxPool1d", &params).infer(&[input]).unwrap().remove(0).dims()[2].clone()
    };
    assert_eq!(rule("False", Dim::symbol("l")).to_string(), "(l + 1) / 2");
    for ceil_mode in ["False", "True"] {
        for len in 1..9 {
            let symbolic = rule(ceil_mode, Dim::symbol("l")).evaluate(&|_| Some(len));
            assert_eq!(symbolic, rule(ceil_mode, Dim::Fixed(len)).fixed());
        }
    }
}

#[test]
fn half_precision_and_odd_inputs() {
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let x = waves(&[1, 1, 5]).cast(dtype).unwrap();
        let got = operator("nn.AvgPool1d", &[("kernel_size", "3")]).run_one(&[&x]).unwrap();
        assert_eq!(got.dtype(), dtype);
        assert_close(&got, &[1, 1, 1], &[(-2.75 - 0.25 + 0.0) / 3.0]);
    }
    let large = [("kernel_size", "1000000000"), ("stride", "1000000000"), ("padding", "500000000")];
    for name in
        ["nn.MaxPool1d", "nn.MaxPool2d", "nn.MaxPool3d", "nn.AvgPool1d", "nn.AvgPool2d", "nn.AvgPool3d"]
    {
        operator(name, &[("kernel_size", "2"), ("padding", "1"), ("ceil_mode", "True")]).survives(1);
        operator(name, &large).survives(1);
    }
    operator("nn.LPPool3d", &[("kernel_size", "2"), ("norm_type", "2")]).survives(1);
}

#[test]
fn invalid_parameters_are_rejected() {
    let refused =
        |params: &[(&str, &str)]| operator("nn.AvgPool2d", params).create(1).unwrap_err().to_string();
    assert_eq!(
        refused(&[("kernel_size", "3"), ("padding", "2")]),
        "parameter `padding` is [2]: it may be at most half of the window"
    );
    assert_eq!(
        refused(&[("kernel_size", "(3,3,3)")]),
        "parameter `kernel_size` is [3, 3, 3]: expected one number, or one for each of 2 axes"
    );
    refused(&[("kernel_size", "0")]);
    refused(&[("kernel_size", "2"), ("stride", "0")]);
    refused(&[("kernel_size", "2"), ("divisor_override", "0")]);
    refused(&[("kernel_size", "9223372036854775807")]);
    assert!(operator("nn.LPPool1d", &[("kernel_size", "2"), ("norm_type", "0.0")]).create(1).is_err());
    assert!(operator("nn.MaxPool1d", &[("kernel_size", "2"), ("dilation", "0")]).create(1).is_err());
    let small = Tensor::zeros(DType::F32, &[1, 1, 2, 2]).unwrap();
    let error = operator("nn.MaxPool2d", &[("kernel_size", "3")]).run(&[&small]).unwrap_err().to_string();
    assert_eq!(error, "the input: expected room for a window of 3 along axis 2, got 1×1×2×2 f32");
}
