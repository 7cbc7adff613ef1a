use super::*;
use crate::support::testing::{assert_close, operator, tensor, waves};
use ixion_tensor::Tensor;

/// A factor for each of 4 classes.
fn weight() -> Tensor {
    tensor(&[4], &[0.5, 2.0, 1.0, 0.25])
}

/// The losses for each reduction: none, mean and sum.
#[track_caller]
fn check(op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor], wants: [&[f64]; 3]) {
    for (reduction, want) in ["0", "1", "2"].iter().zip(wants) {
        let params = [params, &[("reduction", *reduction)]].concat();
        let got = operator(op_type, &params).run_one(inputs).unwrap();
        let shape = if *reduction == "0" { inputs[1].shape().to_vec() } else { Vec::new() };
        assert_close(&got, &shape, want);
    }
}

#[test]
fn classes_are_compared_as_in_pytorch() {
    let (x, target) = (waves(&[3, 4]), tensor(&[3], &[2i64, 0, 3]));
    let each = [0.6821185519475892, 3.046611521323889, 3.8483302251476097];
    let wants: [&[f64]; 3] = [&each, &[2.525686766139696], &[7.577060298419088]];
    check("aten::cross_entropy_loss", &[], &[&x, &target], wants);
    let bytes = target.cast(DType::U8).unwrap();
    check("aten::cross_entropy_loss", &[], &[&x, &bytes], wants);
    let each = [0.7372303109979168, 0.0, 0.9766552592658007];
    let params = [("ignore_index", "0"), ("label_smoothing", "0.1")];
    let wants: [&[f64]; 3] = [&each, &[1.3711084562109739], &[1.7138855702637175]];
    check("aten::cross_entropy_loss", &params, &[&x, &target, &weight()], wants);
    let each = [0.8071185519475892, 2.952861521323889, 3.66083022514761];
    let wants: [&[f64]; 3] = [&each, &[2.473603432806363], &[7.420810298419089]];
    check("aten::cross_entropy_loss", &[("label_smoothing", "0.1")], &[&x, &target], wants);
    let wants: [&[f64]; 3] = [&[0.0, 0.25, 0.0], &[1.0 / 6.0], &[0.25]];
    check("aten::nll_loss_nd", &[("ignore_index", "3")], &[&x, &target, &weight()], wants);
}

#[test]
fn probabilities_are_compared_as_in_pytorch() {
    let x = waves(&[3, 4]);
    let target: Tensor = x.map(|x: f64| x.abs() / 4.0).unwrap();
    let each = [1.551903540665278, 2.9342706055059233, 1.3289540595779636];
    for (reduction, shape, want) in [
        ("none", &[3][..], &each[..]),
        ("mean", &[], &[1.938376068583055]),
        ("sum", &[], &[5.815128205749165]),
    ] {
        let params = [("label_smoothing", "0.2"), ("reduction", reduction)];
        let loss = operator("aten::cross_entropy_loss", &params);
        assert_close(&loss.run_one(&[&x, &target, &weight()]).unwrap(), shape, want);
    }
    let shares = tensor(&[3], &[0.2, 0.3, 0.5]);
    let one = operator("aten::cross_entropy_loss", &[]).run_one(&[&waves(&[3]), &shares]).unwrap();
    assert_close(&one, &[], &[1.2362474319701073]);
}

#[test]
fn samples_may_have_any_shape() {
    let (x, target) = (waves(&[2, 3, 2]), tensor(&[2, 2], &[0i64, 2, 1, 1]));
    let wants: [&[f64]; 3] = [&[2.75, 1.25, -0.25, -2.0], &[0.4375], &[1.75]];
    check("aten::nll_loss_nd", &[], &[&x, &target], wants);
    let mean = operator("aten::cross_entropy_loss", &[]).run_one(&[&x, &target]).unwrap();
    assert_close(&mean, &[], &[1.87133168245198]);
    let one = operator("aten::nll_loss", &[]).run_one(&[&waves(&[3]), &Tensor::scalar(2i64)]).unwrap();
    assert_close(&one, &[], &[0.0]);
    let planes = Tensor::zeros(DType::I64, &[2, 2, 2]).unwrap();
    let sum = operator("aten::nll_loss2d", &[("reduction", "sum")]);
    assert_close(&sum.run_one(&[&waves(&[2, 3, 2, 2]), &planes]).unwrap(), &[], &[7.75]);
}

#[test]
fn the_mean_of_nothing_is_not_a_number() {
    let x = waves(&[3, 4]);
    let zeros = Tensor::zeros(DType::I64, &[3]).unwrap();
    let ignored = [("ignore_index", "0")];
    let mean = operator("aten::nll_loss_nd", &ignored).run_one(&[&x, &zeros]).unwrap();
    assert_close(&mean, &[], &[f64::NAN]);
    let sum = operator("aten::nll_loss_nd", &[&ignored[..], &[("reduction", "2")]].concat());
    assert_close(&sum.run_one(&[&x, &zeros]).unwrap(), &[], &[0.0]);
    let (nothing, classes) = (Tensor::zeros(DType::F32, &[0, 4]), Tensor::zeros(DType::I64, &[0]));
    let (nothing, classes) = (nothing.unwrap(), classes.unwrap());
    for target in [&nothing, &classes] {
        let mean = operator("aten::cross_entropy_loss", &[]).run_one(&[&nothing, target]).unwrap();
        assert_close(&mean, &[], &[f64::NAN]);
    }
}

#[test]
fn what_does_not_fit() {
    let x = waves(&[3, 4]);
    let error = |op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor]| {
        operator(op_type, params).run(inputs).unwrap_err().to_string()
    };
    let refused = |target: &Tensor| error("aten::cross_entropy_loss", &[], &[&x, target]);
    assert_eq!(refused(&tensor(&[3], &[0i64, 4, 1])), "class 4 is out of range: there are 4");
    assert_eq!(refused(&tensor(&[3], &[0i64, -1, 1])), "class -1 is out of range: there are 4");
    assert_eq!(refused(&tensor(&[2], &[0i64, 1])), "the classes of the target: expected 3 i64, got 2 i64");
    assert_eq!(refused(&waves(&[3])), "the probabilities of the target: expected 3×4 f64, got 3 f64");
    assert_eq!(refused(&tensor(&[3], &[0i32, 1, 2])), "the target: expected i64, u8 and floats, got i32");
    assert!(error("aten::nll_loss", &[], &[&x, &x]).contains("expected i64 and u8, got f64"));
    let target = tensor(&[3], &[0i64, 1, 2]);
    let short = error("aten::nll_loss", &[], &[&x, &target, &waves(&[3])]);
    assert_eq!(short, "the weight: expected a vector of 4 classes, got 3 f64");
    assert!(error("aten::cross_entropy_loss", &[("ignore_index", "1")], &[&x, &x]).contains("ignore_index"));
    assert!(error("aten::cross_entropy_loss", &[("label_smoothing", "1.5")], &[&x, &x]).contains("0 to 1"));
    for reduction in ["none", "mean"] {
        let params = [("reduction", reduction)];
        operator("aten::nll_loss_nd", &params).survives(2);
        operator("aten::cross_entropy_loss", &params).survives(2);
        operator("aten::cross_entropy_loss", &params).survives(3);
    }
}
