//! The built-in layers against the naive ones.

use super::*;
use crate::op::FromOperator;
use crate::support::testing::{Operator, operator, tensor};
use ixion_tensor::Tensor;
use proptest::prelude::*;

/// Numbers between -3 and 3 that look random.
fn noise(shape: &[usize], seed: usize) -> Tensor {
    let number = |i: usize| ((i * 37 + seed * 11) % 97) as f32 / 16.0 - 3.0;
    tensor(shape, &(0..shape.iter().product()).map(number).collect::<Vec<f32>>())
}

/// Checks that the layers of both registries agree on an input, up to rounding.
#[track_caller]
fn compare(operator: &Operator<'_>, input: &Tensor) {
    let [fast, slow] = [Registry::default(), registry().unwrap()]
        .map(|registry| operator.run_from(&registry, &[input]).unwrap().remove(0));
    assert_eq!((fast.dtype(), fast.shape()), (slow.dtype(), slow.shape()));
    for (fast, slow) in fast.to_vec::<f32>().unwrap().into_iter().zip(slow.to_vec::<f32>().unwrap()) {
        let close = (fast - slow).abs() <= 1e-5 * (1.0 + slow.abs()) || (fast.is_nan() && slow.is_nan());
        assert!(close || fast == slow, "{fast} and {slow}");
    }
}

proptest! {
    #[test]
    fn functions_of_one_element(shape in prop::collection::vec(0usize..6, 0..4), seed: u8) {
        let input = noise(&shape, seed.into());
        for op_type in [ReLU::TYPES, LeakyReLU::TYPES, Sigmoid::TYPES].concat() {
            compare(&operator(op_type, &[]), &input);
        }
        compare(&operator("nn.LeakyReLU", &[("negative_slope", "0.5")]), &input);
    }

    #[test]
    fn products_with_weights(
        leading in prop::collection::vec(0usize..4, 0..3),
        (features, outputs) in (0usize..40, 0usize..40),
        biased: bool,
        seed: u8,
    ) {
        let lengths = [features, outputs].map(|length| length.to_string());
        let params = [("in_features", &*lengths[0]), ("out_features", &*lengths[1])];
        let mut linear = operator("nn.Linear", &params).with_attr("weight", noise(&[outputs, features], 5));
        if biased {
            linear = linear.with_attr("bias", noise(&[outputs], 7));
        }
        compare(&linear, &noise(&[leading, vec![features]].concat(), seed.into()));
    }
}

#[test]
fn nan_and_infinities() {
    let input = tensor(&[5], &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 200.0]);
    for op_type in ["nn.ReLU", "nn.LeakyReLU", "nn.Sigmoid"] {
        compare(&operator(op_type, &[]), &input);
    }
}
