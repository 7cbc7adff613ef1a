//! ONNX operators become ordinary operators before other passes run. `passes.rs` verifies what they compute.

use crate::common;
use ixion::Limits;
use ixion::graph::default_bin_path;
use ixion::op::TensorMeta;
use ixion::passes::{PassContext, Passes};
use ixion::pnnx::{Dim, Graph};
use std::collections::BTreeSet;

/// The ONNX operators of a graph: the types without a dot or colons.
fn onnx_operators(graph: &Graph) -> impl Iterator<Item = (&str, &str)> {
    let is_onnx = |op_type: &str| op_type.chars().all(char::is_alphanumeric);
    let named = graph.operators().map(|(_, operator)| (operator.name(), operator.op_type()));
    named.filter(move |(_, op_type)| is_onnx(op_type))
}

/// A context in which the inputs have the sizes of the sample that the model was exported with.
fn with_sizes_of_the_file(graph: &Graph) -> PassContext {
    let inputs = graph.operators().filter(|(_, operator)| operator.op_type() == "pnnx.Input");
    inputs.fold(PassContext::default(), |context, (_, input)| {
        let operand = graph.operand(input.outputs()[0]);
        let number = |dim: &Dim| if let Dim::Fixed(len) = dim { usize::try_from(*len).ok() } else { None };
        let dims: Option<Vec<usize>> = operand.shape().and_then(|dims| dims.iter().map(number).collect());
        match operand.dtype().zip(dims) {
            Some((dtype, dims)) => context.with_input(operand.name(), TensorMeta::new(dtype, dims)),
            None => context,
        }
    })
}

#[test]
fn most_onnx_operators_become_ordinary_ones() {
    let (mut lowered, mut kept) = (BTreeSet::new(), BTreeSet::new());
    for case in common::own_cases().iter().chain(&common::conformance_cases()) {
        let param = case.join("model.param");
        let bin = default_bin_path(&param);
        let mut graph =
            Graph::load(&param, bin.is_file().then_some(bin.as_path()), &Limits::default()).unwrap();
        let before: Vec<(String, String)> =
            onnx_operators(&graph).map(|(name, op_type)| (name.to_owned(), op_type.to_owned())).collect();
        if before.is_empty() {
            continue;
        }
        let mut passes = Passes::default();
        passes.set_all_enabled(false);
        passes.set_enabled("lower_onnx", true).unwrap();
        let context = with_sizes_of_the_file(&graph);
        passes.run(&mut graph, context).unwrap_or_else(|error| panic!("{error}"));
        let after: BTreeSet<&str> = onnx_operators(&graph).map(|(name, _)| name).collect();
        for (name, op_type) in before {
            if after.contains(name.as_str()) { &mut kept } else { &mut lowered }.insert(op_type);
        }
    }
    let always_kept: BTreeSet<&str> = kept.difference(&lowered).map(String::as_str).collect();
    let expected: BTreeSet<&str> = WITH_OWN_STEPS.into_iter().chain(RANDOM).chain(KEPT_IN_CASES).collect();
    // Conformance cases may be absent; they can only lower more.
    assert!(always_kept.is_subset(&expected), "{always_kept:?}");
    assert!(lowered.len() >= 50, "{lowered:?}");
}

/// Operators with a step that no ordinary operator computes.
const WITH_OWN_STEPS: [&str; 19] = [
    "BlackmanWindow",
    "CenterCropPad",
    "Det",
    "GRU",
    "Gather",
    "GatherElements",
    "GatherND",
    "HammingWindow",
    "HannWindow",
    "LSTM",
    "NonMaxSuppression",
    "OneHot",
    "RNN",
    "Resize",
    "ReverseSequence",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Unique",
];

/// Operators whose results depend on their names.
const RANDOM: [&str; 6] =
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];

/// Operators of which all cases have inputs of unknown types or values, or outputs that need a step of their own.
const KEPT_IN_CASES: [&str; 9] = [
    "Clip",
    "Expand",
    "MaxPool",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMean",
    "ReduceProd",
    "ReduceSum",
];

#[test]
fn operators_of_known_inputs_become_ordinary_ones() {
    let text = "7767517\n8 7\npnnx.Input in 0 1 x #x=(1,3,8,8)f32\n\
        MaxPool pool 1 1 x a kernel_shape=(3,3) pads=(1,1,1,1) strides=(2,2)\n\
        ReduceL1 l1 1 1 a b axes=(2)\nReduceL2 l2 1 1 b c axes=(3)\nReduceProd product 1 1 c d axes=(1)\n\
        Expand expand 1 1 d e shape=(1,3,4,4)\nReduceMean mean 1 1 e y axes=(2,3) keepdims=1\n\
        pnnx.Output out 1 0 y\n";
    let mut graph = Graph::parse(text, &Limits::default()).unwrap();
    let context = with_sizes_of_the_file(&graph);
    Passes::default().run(&mut graph, context).unwrap();
    assert_eq!(onnx_operators(&graph).count(), 0, "{}", graph.to_param_text());
}
