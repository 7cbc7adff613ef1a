//! Models that state how they are quantised, by fake quantisation or by operators that quantise and dequantise: without any
//! precision or scales being given, they are computed in int8, and give the results of the model as it is.

use ixion::Limits;
use ixion::engine::{Builder, Formats, Plan, Precision};
use ixion::graph::{RuntimeGraph, RuntimeOperator};
use ixion::op::Properties;
use ixion::pnnx::{Attribute, Graph};
use ixion::tensor::Tensor;
use std::path::{Path, PathBuf};

/// The cases, with the scale of their outputs.
const CASES: [(&str, f32); 3] = [
    ("quantized_in_training", 0.010_352),
    ("quantized_in_pairs", 0.004_233),
    ("onnx_quantized_in_pairs", 0.05),
];

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// The only input of a case.
fn input(name: &str) -> Tensor {
    Tensor::load_npz_entry(case(name).join("arrays.npz"), "in_0", &Limits::default()).unwrap()
}

fn plan(name: &str, formats: Formats) -> Plan {
    Builder::new(case(name).join("model.param")).with_formats(formats).build().unwrap()
}

/// The convolutions and linear layers of a plan.
fn products(plan: &Plan) -> Vec<&RuntimeOperator> {
    let is_product = |op_type: &str| Properties::of(op_type).product.is_some();
    plan.graph().operators().iter().filter(|operator| is_product(operator.op_type())).collect()
}

fn output(plan: &Plan, name: &str) -> Vec<f32> {
    plan.context().unwrap().run(&[input(name)]).unwrap().remove(0).to_vec::<f32>().unwrap()
}

/// The output of the model as it is.
fn literal(name: &str) -> Vec<f32> {
    let mut model = RuntimeGraph::new(case(name).join("model.param"));
    model.build().unwrap();
    model.run_with(vec![input(name)]).unwrap().remove(0).to_vec::<f32>().unwrap()
}

#[test]
fn products_read_and_write_int8() {
    for (name, _) in CASES {
        let plan = plan(name, Formats::Narrowest);
        let products = products(&plan);
        assert_eq!(products.len(), 4, "{name}");
        for operator in products {
            let mut operands = operator.inputs().iter().take(1).chain(operator.outputs());
            let are_int8 = operands.all(|&operand| plan.graph().operand(operand).scale().is_some());
            assert!(are_int8, "{name}: `{}`", operator.name());
        }
    }
}

#[test]
fn weights_keep_their_integers() {
    for (name, _) in CASES {
        let fired = plan(name, Formats::Narrowest).statistics().fired("quantized_weights");
        assert_eq!(fired, 4, "{name}");
    }
}

/// Int8 would round them.
#[test]
fn weights_that_are_no_multiples_of_a_scale_stay_floats_unless_int8_is_allowed() {
    let folder = case("quantized_in_pairs");
    let (param, bin) = (folder.join("model.param"), folder.join("model.bin"));
    let mut graph = Graph::load(param, Some(&bin), &Limits::default()).unwrap();
    let first = graph.operator_named("first").unwrap();
    let weight: Vec<f32> = (0..8 * 27u8).map(|index| f32::from(index).sin()).collect();
    let weight = Attribute::from_f32s(vec![8, 3, 3, 3], &weight).unwrap();
    graph.set_attribute(first, "weight", weight).unwrap();
    let in_int8 = |precisions: &[Precision]| {
        let builder = Builder::from_pnnx(graph.clone()).with_formats(Formats::Narrowest);
        let plan = builder.with_precisions(precisions.iter().copied()).build().unwrap();
        let reads_int8 =
            |operator: &&RuntimeOperator| plan.graph().operand(operator.inputs()[0]).scale().is_some();
        products(&plan).into_iter().filter(reads_int8).count()
    };
    assert_eq!((in_int8(&[]), in_int8(&[Precision::Int8])), (3, 4));
}

#[test]
fn results_are_those_of_the_model_or_one_step_away() {
    for (name, step) in CASES {
        let wanted = literal(name);
        for formats in [Formats::Cheapest, Formats::Narrowest, Formats::Plain] {
            let found = output(&plan(name, formats.clone()), name);
            let steps: Vec<f32> = found.iter().zip(&wanted).map(|(a, b)| ((a - b) / step).abs()).collect();
            assert!(steps.iter().all(|&steps| steps < 1.01), "{name}, {formats:?}: {steps:?}");
            let count = steps.iter().filter(|&&steps| steps > 0.01).count();
            assert!(4 * count <= steps.len(), "{name}, {formats:?}: {steps:?}");
        }
    }
}
