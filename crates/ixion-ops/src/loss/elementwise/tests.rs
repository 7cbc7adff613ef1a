use super::*;
use crate::support::testing::{assert_close, counting, operator, tensor, waves};
use ixion_tensor::{Complex, DType, Tensor};
use std::f64::consts::LN_2;

const NONE: (&str, &str) = ("reduction", "none");

/// The target of most tests.
fn target() -> Tensor {
    tensor(&[2, 3], &[0.5, -1.0, 0.0, 2.0, 1.5, -3.0])
}

/// Probabilities.
fn shares() -> Tensor {
    tensor(&[2, 3], &[0.0, 1.0, 0.25, 0.5, 0.75, 1.0])
}

/// The losses of single elements, compared with PyTorch's.
#[track_caller]
fn check(op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor], want: &[f64]) {
    let params = [params, &[NONE]].concat();
    let got = operator(op_type, &params).run_one(inputs).unwrap();
    assert_close(&got, inputs[0].shape().dims(), want);
}

#[test]
fn distances_are_those_of_pytorch() {
    let (x, y) = (waves(&[2, 3]), target());
    let check = |op_type, params: &[(&str, &str)], want| check(op_type, params, &[&x, &y], want);
    check("aten::mse_loss", &[], &[10.5625, 0.5625, 0.0, 16.0, 4.0, 3.0625]);
    check("aten::l1_loss", &[], &[3.25, 0.75, 0.0, 4.0, 2.0, 1.75]);
    check("aten::smooth_l1_loss", &[("beta", "0.7")], &[2.9, 0.4, 0.0, 3.65, 1.65, 1.4]);
    check("aten::smooth_l1_loss", &[("beta", "0.0")], &[3.25, 0.75, 0.0, 4.0, 2.0, 1.75]);
    check("aten::huber_loss", &[("delta", "0.7")], &[2.03, 0.28, 0.0, 2.555, 1.155, 0.98]);
    check("aten::huber_loss", &[("delta", "inf")], &[5.28125, 0.28125, 0.0, 8.0, 2.0, 1.53125]);
}

#[test]
fn losses_are_combined() {
    let (x, y) = (waves(&[2, 3]), target());
    for (op_type, mean, sum) in [
        ("aten::mse_loss", 5.697916666666667, 34.1875),
        ("aten::l1_loss", 1.9583333333333333, 11.75),
        ("aten::smooth_l1_loss", 1.546875, 9.28125),
        ("aten::huber_loss", 1.546875, 9.28125),
    ] {
        for (reduction, want) in [("1", mean), ("mean", mean), ("2", sum), ("sum", sum)] {
            let combined = operator(op_type, &[("reduction", reduction)]).run_one(&[&x, &y]).unwrap();
            assert_close(&combined, &[], &[want]);
        }
        assert_close(&operator(op_type, &[]).run_one(&[&x, &y]).unwrap(), &[], &[mean]);
        let nothing = Tensor::zeros(DType::F32, &[0, 3]).unwrap();
        let mean = operator(op_type, &[]).run_one(&[&nothing, &nothing]).unwrap();
        assert_close(&mean, &[], &[f64::NAN]);
        let sum = operator(op_type, &[("reduction", "2")]).run_one(&[&nothing, &nothing]).unwrap();
        assert_close(&sum, &[], &[0.0]);
    }
}

#[test]
fn divergences_and_likelihoods_are_those_of_pytorch() {
    let (x, q) = (waves(&[2, 3]), shares());
    let want = [0.0, 0.25, -0.34657359027997264, 0.6534264097200273, 0.15923844566116432, 1.25];
    check("aten::kl_div", &[], &[&x, &q], &want);
    let want = [
        2.75,
        3.3978522855738063,
        0.32100635417193535,
        4.121803176750321,
        2.6462500207658435,
        6.116134114032851,
    ];
    check("aten::kl_div", &[("log_target", "True")], &[&x, &q], &want);
    let counts = tensor(&[2, 3], &[0.0, 1.0, 2.5, 0.5, 3.0, 1.5]);
    let more: Tensor = counts.map(|x: f64| x + 1.0).unwrap();
    let want = [
        0.06392786120670757,
        1.028800783071405,
        1.0,
        1.1353352832366128,
        2.106530659712633,
        2.16150479686019,
    ];
    check("aten::poisson_nll_loss", &[], &[&x, &counts], &want);
    let want = [
        4.605170185988091,
        1.6319058228981997,
        1.7090007711832214,
        1.7398855793166499,
        1.7495028432010433,
        1.6375366017600554,
    ];
    let params = [("log_input", "False"), ("full", "True"), ("eps", "0.01")];
    check("aten::poisson_nll_loss", &params, &[&counts, &more], &want);
}

#[test]
fn binary_cross_entropies_are_those_of_pytorch() {
    let (x, q) = (waves(&[2, 3]), shares());
    let weight = tensor(&[3], &[0.5, 2.0, 1.0]);
    let p = tensor(&[2, 3], &[0.0, 1.0, 0.25, 0.5, 0.75, 0.125]);
    let want = [0.0, 0.0, 0.5623351446188083, LN_2, 0.5623351446188083, 2.0794415416798357];
    check("aten::binary_cross_entropy", &[], &[&p, &q], &want);
    let mean = operator("aten::binary_cross_entropy", &[]).run_one(&[&p, &q, &weight]).unwrap();
    assert_close(&mean, &[], &[0.6855034276360389]);
    let want = [
        0.061967589003198764,
        0.8259394198788436,
        LN_2,
        1.1269280110429727,
        0.8490769841801067,
        1.501929081345373,
    ];
    check("aten::binary_cross_entropy_with_logits", &[], &[&x, &q], &want);
    let want = [
        0.030983794501599382,
        4.955636519273061,
        0.8664339756999316,
        0.8293300069018579,
        4.620384920900533,
        3.003858162690746,
    ];
    let more: Tensor = weight.map(|x: f64| x + 1.0).unwrap();
    check("aten::binary_cross_entropy_with_logits", &[], &[&x, &q, &weight, &more], &want);
}

#[test]
fn margins_are_those_of_pytorch() {
    let (x, y) = (waves(&[2, 3]), target());
    let signs = tensor(&[2, 3], &[1.0, -1.0, 1.0, -1.0, -1.0, 2.0]);
    let want = [-2.75, 1.05, 0.0, 2.8, 1.3, 0.8];
    check("aten::hinge_embedding_loss", &[("margin", "0.8")], &[&x, &signs], &want);
    let want = [3.55, 1.05, 0.3, 0.0, 0.0, 0.0];
    check("aten::margin_ranking_loss", &[("margin", "0.3")], &[&x, &y, &signs], &want);
    let want = [
        2.8119675890031988,
        0.5759394198788436,
        LN_2,
        0.1269280110429725,
        0.4740769841801067,
        2.5788897342925496,
    ];
    check("aten::soft_margin_loss", &[], &[&x, &signs], &want);
}

#[test]
fn special_values_are_treated_as_in_pytorch() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = tensor(&[6], &[inf, inf, -inf, nan, 1.0, 0.5]);
    let signs = tensor(&[6], &[-1.0, 1.0, 1.0, -1.0, nan, 0.0]);
    check("aten::hinge_embedding_loss", &[], &[&x, &signs], &[0.0, inf, -inf, nan, 1.0, 1.0]);
    let nothing = tensor(&[6], &[0.0; 6]);
    check("aten::huber_loss", &[], &[&x, &nothing], &[inf, inf, inf, nan, 0.5, 0.125]);
    check("aten::smooth_l1_loss", &[], &[&x, &nothing], &[inf, inf, inf, nan, 0.5, 0.125]);
    let logs = tensor(&[5], &[-1.0, -2.0, inf, 0.0, 1.0]);
    let targets = tensor(&[5], &[0.0, -1.0, 1.0, nan, inf]);
    check("aten::kl_div", &[], &[&logs, &targets], &[0.0, nan, -inf, nan, nan]);
    let zeros = tensor(&[4], &[0.0; 4]);
    let counts = tensor(&[4], &[inf, -inf, nan, 1.0]);
    check("aten::poisson_nll_loss", &[("full", "True")], &[&zeros, &counts], &[nan, nan, nan, 1.0]);
}

#[test]
fn element_types_are_those_of_pytorch() {
    let meta = |dtype| TensorMeta::new(dtype, [2, 3]);
    let inferred = |op_type: &str, first, second| {
        operator(op_type, &[]).infer(&[meta(first), meta(second)]).map(|outputs| outputs[0].dtype())
    };
    use DType::{Bf16, C64, F16, F32, F64, I64};
    assert_eq!(inferred("aten::mse_loss", F32, F64).unwrap(), F64);
    assert_eq!(inferred("aten::huber_loss", F16, F32).unwrap(), F16);
    assert_eq!(inferred("aten::hinge_embedding_loss", Bf16, I64).unwrap(), Bf16);
    assert_eq!(inferred("aten::soft_margin_loss", F32, F64).unwrap(), F32);
    assert_eq!(inferred("aten::binary_cross_entropy_with_logits", F32, F16).unwrap(), F16);
    assert_eq!(inferred("aten::l1_loss", C64, C64).unwrap(), F32);
    for (op_type, first, second) in [
        ("aten::mse_loss", I64, I64),
        ("aten::huber_loss", F32, C64),
        ("aten::huber_loss", I64, F32),
        ("aten::l1_loss", I64, I64),
        ("aten::binary_cross_entropy", F32, F64),
        ("aten::binary_cross_entropy", I64, I64),
    ] {
        assert!(inferred(op_type, first, second).is_err(), "{op_type} of {first} and {second}");
    }
    let integers = counting(DType::I64, &[3]);
    let sum = operator("aten::l1_loss", &[("reduction", "sum")]);
    assert_eq!(sum.run_one(&[&integers, &Tensor::scalar(2i64)]).unwrap().item::<i64>().unwrap(), 3);
    let z = tensor(&[1], &[Complex::new(3f32, 4.0)]);
    let origin = tensor(&[1], &[Complex::new(0f32, 0.0)]);
    assert_close(&operator("aten::l1_loss", &[NONE]).run_one(&[&z, &origin]).unwrap(), &[1], &[5.0]);
}

#[test]
fn what_does_not_fit() {
    let error = |op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor]| {
        operator(op_type, params).run(inputs).unwrap_err().to_string()
    };
    let x = waves(&[2, 3]);
    assert_eq!(
        error("aten::binary_cross_entropy", &[], &[&x, &x]),
        "the input: expected probabilities from 0 to 1, got -2.75"
    );
    let target = error("aten::binary_cross_entropy", &[], &[&shares(), &x]);
    assert_eq!(target, "the target: expected probabilities from 0 to 1, got -2.75");
    let other = error("aten::binary_cross_entropy", &[], &[&x, &waves(&[3])]);
    assert_eq!(other, "the target: expected 2×3 f64, got 3 f64");
    assert!(error("aten::huber_loss", &[("delta", "0.0")], &[&x, &x]).contains("`delta` is 0"));
    assert!(error("aten::smooth_l1_loss", &[("beta", "nan")], &[&x, &x]).contains("`beta` is NaN"));
    assert!(error("aten::mse_loss", &[("reduction", "3")], &[&x, &x]).contains("none mean sum"));
    assert!(error("aten::mse_loss", &[], &[&x, &waves(&[2])]).contains("broadcast"));
    for op_type in [MseLoss::TYPES, L1Loss::TYPES, SmoothL1Loss::TYPES, HuberLoss::TYPES, KlDiv::TYPES]
        .iter()
        .chain(&[BinaryCrossEntropy::TYPES, BinaryCrossEntropyWithLogits::TYPES, PoissonNllLoss::TYPES])
        .chain(&[HingeEmbeddingLoss::TYPES, SoftMarginLoss::TYPES])
        .flat_map(|types| types.iter())
    {
        operator(op_type, &[]).survives(2);
        operator(op_type, &[NONE]).survives(2);
    }
    operator("aten::margin_ranking_loss", &[]).survives(3);
}
