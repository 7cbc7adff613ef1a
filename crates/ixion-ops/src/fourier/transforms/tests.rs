use super::*;
use crate::support::testing::{assert_close, operator, tensor, waves};

type Case = (&'static str, bool, &'static [(&'static str, &'static str)], &'static [usize], &'static [f64]);

/// Results of PyTorch: operator, whether the input is complex, parameters, shape and values, with the real and imaginary
/// parts of complex values in turn. All operators with all parameters are in `tests/cases/torch_fft_*`.
const CASES: &[Case] = &[
    (
        "torch.fft.fft",
        false,
        &[],
        &[3, 4],
        &[
            -5.0, 0.0, -2.75, -1.75, -0.5, 0.0, -2.75, 1.75, 1.75, 0.0, -2.0, 3.25, 0.25, 0.0, -2.0, -3.25,
            2.5, 0.0, -1.25, -3.25, 1.0, 0.0, -1.25, 3.25,
        ],
    ),
    (
        "torch.fft.ifft",
        true,
        &[],
        &[3, 4],
        &[
            -1.25, 0.625, -1.5, 0.125, -0.125, 0.25, 0.125, -0.75, 0.4375, 0.4375, 0.3125, -1.3125, 0.0625,
            0.0625, -1.3125, 0.3125, 0.625, -1.25, -0.75, 0.125, 0.25, -0.125, 0.125, -1.5,
        ],
    ),
    (
        "torch.fft.ifft",
        false,
        &[("n", "2"), ("dim", "-2"), ("norm", "forward")],
        &[2, 4],
        &[-3.25, -0.0, -1.5, -0.0, 1.5, -0.0, 0.0, -0.0, -2.25, -0.0, 1.0, -0.0, -1.5, -0.0, -4.0, -0.0],
    ),
    (
        "torch.fft.rfft",
        false,
        &[],
        &[3, 3],
        &[
            -5.0, 0.0, -2.75, -1.75, -0.5, 0.0, 1.75, 0.0, -2.0, 3.25, 0.25, 0.0, 2.5, 0.0, -1.25, -3.25,
            1.0, 0.0,
        ],
    ),
    (
        "torch.fft.irfft",
        false,
        &[("n", "3")],
        &[3, 3],
        &[
            -1.0833333333333333,
            -0.8333333333333333,
            -0.8333333333333333,
            -1.0,
            0.25,
            0.25,
            1.4166666666666665,
            -0.5833333333333333,
            -0.5833333333333333,
        ],
    ),
    (
        "torch.fft.ihfft",
        false,
        &[],
        &[3, 3],
        &[
            -1.25, -0.0, -0.6875, 0.4375, -0.125, -0.0, 0.4375, -0.0, -0.5, -0.8125, 0.0625, -0.0, 0.625,
            -0.0, -0.3125, 0.8125, 0.25, -0.0,
        ],
    ),
    (
        "torch.fft.hfft2",
        true,
        &[("s", "(3,3)")],
        &[3, 3],
        &[
            -2.0,
            -2.6339745962155616,
            -4.366025403784438,
            -3.6584936490538906,
            10.452722283113836,
            -8.823557158514987,
            -4.09150635094611,
            -4.926442841485012,
            -4.702722283113839,
        ],
    ),
];

/// 3×4 complex numbers: the real parts are [`waves`], the imaginary parts their rows in reverse order.
fn complex_waves() -> Tensor {
    let real = waves(&[3, 4]).to_vec::<f64>().unwrap();
    let imaginary = real.chunks(4).rev().flatten();
    let values: Vec<_> = real.iter().zip(imaginary).map(|(&re, &im)| Complex::new(re, im)).collect();
    tensor(&[3, 4], &values)
}

/// Real tensors unchanged, complex ones as real and imaginary parts along a new last axis.
fn parts(x: &Tensor) -> Tensor {
    if !x.dtype().is_complex() {
        return x.clone();
    }
    let values = x.cast(DType::C128).unwrap().to_vec::<Complex<f64>>().unwrap();
    let parts: Vec<f64> = values.iter().flat_map(|value| [value.re, value.im]).collect();
    let real = if x.dtype() == DType::C128 { DType::F64 } else { DType::F32 };
    tensor(&[x.shape().dims(), &[2]].concat(), &parts).cast(real).unwrap()
}

#[test]
fn transforms_are_those_of_pytorch() {
    for &(op_type, is_complex, params, shape, want) in CASES {
        let input = if is_complex { complex_waves() } else { waves(&[3, 4]) };
        let single = input.cast(if is_complex { DType::C64 } else { DType::F32 }).unwrap();
        for input in [input, single] {
            let got = operator(op_type, params).run_one(&[&input]).unwrap();
            let is_wide = matches!(input.dtype(), DType::F64 | DType::C128);
            assert_eq!(matches!(got.dtype(), DType::F64 | DType::C128), is_wide, "{op_type}");
            let real = want.len() == shape.iter().product::<usize>();
            let shape = if real { shape.to_vec() } else { [shape, &[2]].concat() };
            assert_close(&parts(&got), &shape, want);
        }
    }
}

#[test]
fn integers_are_transformed_in_f32() {
    let got =
        operator("torch.fft.fft", &[("n", "None"), ("norm", "None")]).run_one(&[&tensor(&[2], &[1i64, 2])]);
    let got = got.unwrap();
    assert_eq!(got.dtype(), DType::C64);
    assert_close(&parts(&got), &[2, 2], &[3.0, 0.0, -1.0, 0.0]);
    let bools = operator("torch.fft.irfft", &[]).run_one(&[&tensor(&[2], &[true, true])]).unwrap();
    assert_close(&bools, &[2], &[1.0, 0.0]);
}

#[test]
fn lengths_may_come_from_the_graph_and_be_symbols() {
    let fft = operator("torch.fft.rfft", &[]).with_names(&["input", "n"]);
    let got = fft.run_one(&[&waves(&[2, 4]), &tensor(&[], &[6i64])]).unwrap();
    assert_eq!(got.shape().dims(), &[2, 4]);
    let n = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::symbol("m")]);
    let infer = |op_type| operator(op_type, &[]).infer(std::slice::from_ref(&n)).unwrap()[0].to_string();
    assert_eq!(infer("torch.fft.rfft"), "n×(m / 2 + 1) c64");
    assert_eq!(infer("torch.fft.irfft2"), "n×(m * 2 - 2) f32");
}

#[test]
fn empty_batches_have_transforms_and_empty_signals_have_none() {
    let run = |op_type, params: &[(&str, &str)], shape: &[usize]| {
        operator(op_type, params).run_one(&[&Tensor::zeros(DType::F32, shape).unwrap()])
    };
    assert_eq!(run("torch.fft.rfft", &[], &[0, 4]).unwrap().shape().dims(), &[0, 3]);
    assert_eq!(run("torch.fft.fft", &[("n", "3")], &[2, 0]).unwrap().shape().dims(), &[2, 3]);
    assert!(run("torch.fft.fft", &[], &[2, 0]).is_err());
    assert!(run("torch.fft.irfft", &[], &[2, 1]).is_err());
    assert!(run("torch.fft.fft", &[("n", "0")], &[2, 2]).is_err());
    assert!(run("torch.fft.fft", &[], &[]).is_err());
    assert!(run("torch.fft.fft2", &[("dim", "(0,0)")], &[2, 2]).is_err());
    assert!(run("torch.fft.fft2", &[("s", "(2,2,2)")], &[2, 2]).is_err());
    assert!(run("torch.fft.fftn", &[("s", "(2,2,2)")], &[2, 2]).is_err());
    assert!(run("torch.fft.rfftn", &[("dim", "()")], &[2, 2]).is_err());
    assert!(run("torch.fft.fft", &[("n", "999999999999")], &[2, 2]).is_err());
    assert!(operator("torch.fft.rfft", &[]).run(&[&complex_waves()]).is_err());
    let half = waves(&[4]).cast(DType::F16).unwrap();
    assert!(operator("torch.fft.fft", &[]).run(&[&half]).is_err());
}

#[test]
fn odd_inputs() {
    for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"] {
        for axes in ["", "2", "n"] {
            operator(&format!("torch.fft.{name}{axes}"), &[]).survives(1);
        }
    }
    operator("torch.fft.irfft", &[("n", "5")]).survives(1);
    operator("torch.fft.hfftn", &[("s", "(3,4)")]).survives(1);
}
