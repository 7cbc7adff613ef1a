//! Activation functions of an expression against the layers of the same name: they must give the same bits.

use super::*;
use crate::support::testing::operator;
use proptest::prelude::*;

/// An expression and the equivalent operator.
type Pair = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const PAIRS: &[Pair] = &[
    ("relu(@0)", "F.relu", &[]),
    ("relu6(@0)", "F.relu6", &[]),
    ("sigmoid(@0)", "F.sigmoid", &[]),
    ("silu(@0)", "F.silu", &[]),
    ("gelu(@0)", "F.gelu", &[]),
    ("gelu_tanh(@0)", "F.gelu", &[("approximate", "tanh")]),
    ("hardsigmoid(@0)", "F.hardsigmoid", &[]),
    ("hardswish(@0)", "F.hardswish", &[]),
    ("softplus(@0)", "F.softplus", &[]),
    ("mish(@0)", "F.mish", &[]),
    ("leaky_relu(@0,0.2)", "F.leaky_relu", &[("negative_slope", "0.2")]),
    ("elu(@0,1.5)", "F.elu", &[("alpha", "1.5")]),
    ("clamp(@0,-0.3,1.7)", "F.hardtanh", &[("min_val", "-0.3"), ("max_val", "1.7")]),
    ("tanh(@0)", "F.tanh", &[]),
];

fn check(x: &Tensor) {
    for (text, op_type, params) in PAIRS {
        let got = run(text, std::slice::from_ref(x)).unwrap();
        let want = operator(op_type, params).run_one(&[x]).unwrap();
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{text}");
        assert_eq!(got.to_le_bytes().unwrap(), want.to_le_bytes().unwrap(), "{text} of {x:?}");
    }
}

#[test]
fn corner_cases() {
    let corners =
        [0.0, -0.0, 20.0, 20.1, 6.0, 3.0, -3.0, -3.1, 1e30, -1e30, f64::INFINITY, f64::NEG_INFINITY];
    let x = tensor(&corners, &[corners.len()]);
    for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16] {
        check(&x.cast(dtype).unwrap());
    }
    let nan = run("clamp(mish(relu(@0)),0,1)", &[tensor(&[f32::NAN], &[1])]).unwrap();
    assert!(nan.item::<f32>().unwrap().is_nan());
}

#[test]
fn integers_follow_pytorch() {
    let x = tensor(&[-3i32, 0, 9], &[3]);
    let run = |text: &str| run(text, std::slice::from_ref(&x));
    assert_eq!(run("relu(@0)").unwrap().to_vec::<i32>().unwrap(), [0, 0, 9]);
    assert_eq!(run("relu6(@0)").unwrap().to_vec::<i32>().unwrap(), [0, 0, 6]);
    assert_eq!(run("clamp(@0,-1,4)").unwrap().to_vec::<i32>().unwrap(), [-1, 0, 4]);
    assert_eq!(run("clamp(@0,-1,4.5)").unwrap().to_vec::<f32>().unwrap(), [-1.0, 0.0, 4.5]);
    assert_eq!(run("sigmoid(@0)").unwrap().dtype(), DType::F32);
    assert!(run("gelu(@0)").is_err());
}

proptest! {
    #[test]
    fn the_same_bits_as_the_layers(values in prop::collection::vec(-30f64..30.0, 1..70)) {
        let x = tensor(&values, &[values.len()]);
        for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16] {
            check(&x.cast(dtype).unwrap());
        }
    }
}
