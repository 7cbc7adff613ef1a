use super::*;
use crate::support::testing::{assert_close, operator, tensor, waves};

fn reduced(op_type: &str, params: &[(&str, &str)], x: &Tensor) -> Tensor {
    operator(op_type, params).run_one(&[x]).unwrap()
}

#[test]
fn results_are_those_of_pytorch() {
    let x = waves(&[2, 3, 2]);
    for (op_type, params, shape, want) in REDUCED {
        assert_close(&reduced(op_type, params, &x), shape, want);
    }
    let single = reduced("torch.mean", &[("dim", "(1)")], &x.cast(DType::F32).unwrap());
    assert_close(&single, &[2, 2], REDUCED[1].3);
}

#[test]
fn types_and_empty_inputs() {
    let bools = tensor(&[2, 2], &[true, true, false, true]);
    assert_eq!(reduced("torch.sum", &[("dim", "1")], &bools).to_vec::<i64>().unwrap(), [2, 1]);
    assert_eq!(reduced("torch.all", &[("dim", "1")], &bools).to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(reduced("torch.any", &[], &bools).to_vec::<bool>().unwrap(), [true]);
    let bytes = tensor(&[2], &[200u8, 100]);
    assert_eq!(reduced("torch.prod", &[], &bytes).to_vec::<i64>().unwrap(), [20000]);
    assert_eq!(reduced("torch.sum", &[("dtype", "torch.uint8")], &bytes).to_vec::<u8>().unwrap(), [44]);
    assert_eq!(reduced("torch.amax", &[], &bytes).to_vec::<u8>().unwrap(), [200]);
    assert_eq!(reduced("torch.mean", &[("dtype", "torch.float")], &bytes).to_vec::<f32>().unwrap(), [150.0]);
    assert!(operator("torch.mean", &[]).run(&[&bytes]).is_err());
    let empty = Tensor::zeros(DType::F32, &[0, 2]).unwrap();
    assert_eq!(reduced("torch.sum", &[("dim", "0")], &empty).to_vec::<f32>().unwrap(), [0.0, 0.0]);
    assert_eq!(reduced("torch.prod", &[], &empty).to_vec::<f32>().unwrap(), [1.0]);
    assert!(reduced("torch.mean", &[], &empty).item::<f32>().unwrap().is_nan());
    assert!(operator("torch.amax", &[("dim", "0")]).run(&[&empty]).is_err());
    assert_eq!(reduced("torch.amax", &[("dim", "1")], &empty).num_elements(), 0);
}

#[test]
fn nan_and_infinity() {
    let x = tensor(&[2, 2], &[1f32, f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY]);
    let values = |op_type| reduced(op_type, &[("dim", "1")], &x).to_vec::<f32>().unwrap();
    assert!(values("torch.amax")[0].is_nan() && values("torch.amin")[0].is_nan());
    assert_eq!(values("torch.logsumexp")[1], f32::NEG_INFINITY);
    let halves = tensor(&[4096], &[1f32; 4096]).cast(DType::F16).unwrap();
    assert_eq!(reduced("torch.sum", &[], &halves).cast(DType::F32).unwrap().item::<f32>().unwrap(), 4096.0);
}

#[test]
fn symbols_and_odd_inputs() {
    let x = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(3), Dim::symbol("w")]);
    let infer = |params: &[(&str, &str)]| operator("torch.mean", params).infer(std::slice::from_ref(&x));
    assert_eq!(infer(&[("dim", "(1,-1)"), ("keepdim", "True")]).unwrap()[0].to_string(), "n×1×1 f32");
    assert_eq!(infer(&[("dim", "1")]).unwrap()[0].to_string(), "n×w f32");
    assert!(infer(&[("dim", "(1,-2)")]).is_err() && infer(&[("dim", "3")]).is_err());
    for op_type in
        ["torch.sum", "torch.mean", "torch.prod", "torch.amax", "torch.std", "torch.norm", "torch.all"]
    {
        operator(op_type, &[("dim", "(-1)")]).survives(1);
        operator(op_type, &[]).survives(1);
    }
}

/// An operator, its parameters, and the shape and values of PyTorch's result.
type Reduced = (&'static str, &'static [(&'static str, &'static str)], &'static [usize], &'static [f64]);

const REDUCED: [Reduced; 14] = [
    ("torch.sum", &[("dim", "(-1,0)")], &[3], &[0.5, 0.25, -1.5]),
    (
        "torch.mean",
        &[("dim", "(1)")],
        &[2, 2],
        &[-1.0833333333333333, -1.1666666666666667, 1.0833333333333333, 0.9166666666666666],
    ),
    ("torch.mean", &[("dim", "(1,2)"), ("keepdim", "True")], &[2, 1, 1], &[-1.125, 1.0]),
    ("torch.prod", &[("dim", "1")], &[2, 2], &[0.0, -0.625, 0.5625, -5.0]),
    ("torch.amax", &[("dim", "(0,2)")], &[3], &[2.0, 2.0, 1.5]),
    ("torch.amin", &[("dim", "()"), ("keepdim", "True")], &[1, 1, 1], &[-2.75]),
    (
        "torch.logsumexp",
        &[("dim", "(1)")],
        &[2, 2],
        &[0.5130981521677797, 0.18285546687876886, 2.3270243620189506, 2.7123487487424196],
    ),
    (
        "torch.var",
        &[("dim", "(1)"), ("unbiased", "False")],
        &[2, 2],
        &[1.4305555555555556, 0.513888888888889, 0.34722222222222227, 2.3472222222222228],
    ),
    ("torch.std", &[("dim", "(0,1)"), ("unbiased", "True")], &[2], &[1.5732132722552274, 1.7374550353894054]),
    ("torch.std", &[("dim", "None"), ("correction", "2")], &[], &[1.6587834397533634]),
    ("torch.norm", &[("dim", "None"), ("p", "2")], &[], &[5.25]),
    ("torch.norm", &[("dim", "1"), ("p", "1"), ("keepdim", "True")], &[2, 1, 2], &[3.25, 3.5, 3.25, 5.25]),
    ("torch.norm", &[("dim", "(0,1)"), ("p", "inf")], &[2], &[2.75, 2.0]),
    (
        "torch.norm",
        &[("dim", "2"), ("p", "3")],
        &[2, 3],
        &[
            2.75068853282797,
            2.0,
            1.2761171805003657,
            2.2489707226377074,
            2.0013012365414586,
            1.7465920069545264,
        ],
    ),
];
