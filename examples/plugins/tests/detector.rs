//! The convolution plugin in whole numbers on what the convolutions of a trained detector see.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{best_scale, create, forward, quantized, real, settle, signal_to_noise};
use ixion::Limits;
use ixion::graph::{RuntimeAttribute, RuntimeGraph};
use ixion::pnnx::{Graph, OperandId, OperatorId};
use ixion::tensor::Tensor;
use std::collections::BTreeMap;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../model_file/shapes_detector");

/// The detector, which returns what its convolutions read and make.
fn opened() -> (Graph, Vec<OperatorId>, Vec<OperandId>) {
    let file = |ending: &str| format!("{FOLDER}/shapes_detector.pnnx.{ending}");
    let mut graph = Graph::load(file("param"), Some(file("bin").as_ref()), &Limits::default()).unwrap();
    let is_conv = |id: &OperatorId| graph.operator(*id).op_type() == "nn.Conv2d";
    let convs: Vec<OperatorId> = graph.operator_ids().iter().copied().filter(is_conv).collect();
    let mut operands: Vec<OperandId> = Vec::new();
    for &conv in &convs {
        let operator = graph.operator(conv).clone();
        for &operand in operator.inputs().iter().chain(operator.outputs()) {
            if !operands.contains(&operand) {
                let output = graph.new_operator("pnnx.Output", &format!("seen_{}", operands.len())).unwrap();
                graph.connect_input(output, operand, None).unwrap();
                operands.push(operand);
            }
        }
    }
    (graph, convs, operands)
}

#[test]
fn convolutions_of_the_detector_are_30_decibels_above_their_noise() {
    let (graph, convs, operands) = opened();
    let pictures = Tensor::load_npy(format!("{FOLDER}/in_0.npy"), &Limits::default()).unwrap();
    let mut runtime = RuntimeGraph::from_pnnx(graph.clone());
    runtime.build().unwrap();
    runtime.run_with(vec![pictures]).unwrap();
    let seen: BTreeMap<OperandId, Tensor> = operands
        .iter()
        .enumerate()
        .map(|(index, &operand)| (operand, runtime.output(&format!("seen_{index}")).unwrap()))
        .collect();
    let mut ratios = Vec::new();
    for &conv in &convs {
        let operator = graph.operator(conv);
        let (x, wanted) = (&seen[&operator.inputs()[0]], &seen[&operator.outputs()[0]]);
        let attrs = operator.attrs().iter();
        let attrs = attrs.map(|(key, weight)| (key.clone(), RuntimeAttribute::from_file(weight.clone())));
        let mut layer = create(operator.params().clone(), attrs.collect()).unwrap();
        let scales = (best_scale(x), best_scale(wanted));
        settle(&mut *layer, x, Some(scales));
        let y = forward(&mut *layer, &quantized(x, scales.0));
        let ratio = signal_to_noise(&wanted.to_vec().unwrap(), &real(&y, scales.1));
        println!("{:20} {ratio:.1} dB", operator.name());
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let loud = ratios.iter().filter(|&&ratio| ratio >= 30.0).count();
    assert_eq!(ratios.len(), 54);
    // Half of them have more than 33 dB. Four are between 28 and 30: each of the numbers that they read is rounded to 8 bits.
    assert!(loud >= 50 && ratios[0] >= 28.0 && ratios[27] >= 33.0, "{loud} have 30 dB: {ratios:.1?}");
}
