//! Helpers for the unit tests of fusions, which check that a model computes the same before and after a pass.

use crate::graph::RuntimeGraph;
use crate::op::TensorMeta;
use crate::passes::testing::{graph, lines, run_in};
use crate::passes::{Outcome, Pass, PassContext};
use crate::pnnx::{Dim, Graph, OperatorId};
use crate::tensor::{DType, Tensor};

/// Pseudo-random numbers between -1 and 1.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A model with random weights; variances are positive.
pub(super) fn model(text: &str) -> Graph {
    let mut graph = graph(text);
    for (seed, id) in graph.operator_ids().to_vec().into_iter().enumerate() {
        for (key, mut attribute) in graph.operator(id).attrs().clone() {
            if attribute.dtype().is_float() {
                let mut values = noise(attribute.elem_count(), seed as u64 * 31 + key.len() as u64);
                if [key.as_str(), graph.operator(id).name()].contains(&"running_var") {
                    values.iter_mut().for_each(|value| *value = value.abs() + 0.1);
                }
                attribute.set_f32s(&values).unwrap();
                graph.set_attribute(id, &key, attribute).unwrap();
            }
        }
    }
    graph
}

/// Random inputs of a model in the shapes of its file, and a context with these shapes. Unknown sizes are 3.
fn inputs(graph: &Graph) -> (Vec<Tensor>, PassContext) {
    let (mut tensors, mut context) = (Vec::new(), PassContext::default());
    let is_input = |id: &OperatorId| graph.operator(*id).op_type() == "pnnx.Input";
    for id in graph.operator_ids().iter().copied().filter(is_input) {
        let operator = graph.operator(id);
        let operand = graph.operand(operator.outputs()[0]);
        let size = |dim: &Dim| match dim {
            Dim::Fixed(size) => *size as usize,
            _ => 3,
        };
        let dims: Vec<usize> = operand.shape().unwrap().iter().map(size).collect();
        let (dtype, count) = (operand.dtype().unwrap(), dims.iter().product());
        let values = noise(count, tensors.len() as u64 + 99).iter().map(|x| 2.0 * x).collect();
        let tensor = Tensor::from_vec::<f32>(values, &dims).unwrap().cast(dtype).unwrap();
        context = context.with_input(operator.name(), TensorMeta::new(dtype, dims));
        tensors.push(tensor);
    }
    (tensors, context)
}

fn outputs(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut runtime = RuntimeGraph::from_pnnx(graph.clone());
    runtime.build().unwrap();
    runtime.run_with(inputs.to_vec()).unwrap()
}

fn assert_close(got: &[Tensor], want: &[Tensor], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()));
        let values = |tensor: &Tensor| tensor.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
        for (got, want) in values(got).iter().zip(values(want)) {
            assert!((got - want).abs() <= tolerance * (1.0 + want.abs()), "{got} where it was {want}");
        }
    }
}

/// Runs a pass on a model. The pass must fire, and the model must then compute the same. Returns its operators.
#[track_caller]
pub(super) fn fires(pass: &impl Pass, text: &str) -> Vec<String> {
    fires_within(pass, text, 1e-5)
}

/// As [`fires`], with another tolerance.
#[track_caller]
pub(super) fn fires_within(pass: &impl Pass, text: &str, tolerance: f64) -> Vec<String> {
    let (before, mut after) = (model(text), model(text));
    let (tensors, context) = inputs(&before);
    let outcome = run_in(pass, &mut after, context);
    assert!(outcome.fired > 0, "it did not fire: {:?}", outcome.refused);
    assert_close(&outputs(&after, &tensors), &outputs(&before, &tensors), tolerance);
    lines(&after)
}

/// Runs a pass on a model, which it must leave unchanged.
#[track_caller]
pub(super) fn refuses(pass: &impl Pass, text: &str) -> Outcome {
    leaves(pass, model(text))
}

/// As [`refuses`], on a model without its weights.
#[track_caller]
pub(super) fn refuses_without_weights(pass: &impl Pass, text: &str) -> Outcome {
    leaves(pass, graph(text))
}

fn leaves(pass: &impl Pass, mut graph: Graph) -> Outcome {
    let text = graph.to_param_text();
    let (_, context) = inputs(&graph);
    let outcome = run_in(pass, &mut graph, context);
    assert_eq!(outcome.fired, 0);
    assert_eq!(graph.to_param_text(), text);
    outcome
}
