//! Models that state how they are quantised, by fake quantisation or by operators that quantise and dequantise: without any
//! precision or scales being given, they are computed in int8, and give the results of the model as it is.

use ixion::Limits;
use ixion::engine::{Builder, Formats, Plan, Precision};
use ixion::graph::{RuntimeGraph, RuntimeOperand, RuntimeOperator};
use ixion::op::{CpuLayer, Creator, Io, Layer, LayerError, Properties, Registry, TensorFormat, TensorMeta};
use ixion::pnnx::{Attribute, Graph};
use ixion::tensor::{DType, Tensor};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The cases, with the scale of their outputs, and the number of their convolutions and linear layers.
const CASES: [(&str, f32, usize); 6] = [
    ("quantized_in_training", 0.010_352, 4),
    ("quantized_in_training_in_8_bits", 0.006_786, 4),
    ("quantized_in_pairs", 0.004_233, 4),
    ("quantized_in_affine_pairs", 0.004_139, 4),
    ("quantized_perceptron", 0.002_476, 3),
    ("onnx_quantized_in_pairs", 0.05, 4),
];

/// Those of the cases whose numbers need zero points in int8.
const AFFINE: [&str; 3] =
    ["quantized_in_training_in_8_bits", "quantized_in_affine_pairs", "quantized_perceptron"];

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
    for (name, _, count) in CASES {
        let plan = plan(name, Formats::Narrowest);
        let products = products(&plan);
        assert_eq!(products.len(), count, "{name}");
        for operator in products {
            let mut operands = operator.inputs().iter().take(1).chain(operator.outputs());
            let are_int8 = operands.all(|&operand| plan.graph().operand(operand).scale().is_some());
            assert!(are_int8, "{name}: `{}`", operator.name());
        }
    }
}

#[test]
fn weights_keep_their_integers() {
    for (name, _, count) in CASES {
        let fired = plan(name, Formats::Narrowest).statistics().fired("quantized_weights");
        assert_eq!(fired, count, "{name}");
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
    for (name, step, _) in CASES {
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

#[test]
fn plans_keep_zero_points() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ..) in CASES {
        let plan = plan(name, Formats::Narrowest);
        let path = folder.path().join(name);
        plan.save(&path).unwrap();
        let loaded = Plan::load(&path).unwrap();
        let steps = |plan: &Plan| -> Vec<_> {
            let operands = plan.graph().operands().iter();
            operands.map(RuntimeOperand::step).collect()
        };
        assert_eq!(steps(&loaded), steps(&plan), "{name}");
        assert_eq!(output(&loaded, name), output(&plan, name), "{name}");
        let has_zero_points = steps(&plan).into_iter().flatten().any(|step| step.zero_point != 0);
        assert_eq!(has_zero_points, AFFINE.contains(&name), "{name}");
    }
}

/// Joins two rows, and knows scales, but no zero points.
#[derive(Debug, Clone)]
struct Joined;

impl Layer for Joined {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].with_dims([1, 8])])
    }
}

impl CpuLayer for Joined {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let known = [TensorFormat::plain(DType::F32), TensorFormat::quantized()];
        formats.get(position).is_some_and(|format| known.contains(format))
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        let mut steps = inputs.iter().chain(outputs).filter_map(TensorMeta::step);
        assert!(steps.all(|step| step.zero_point == 0), "it knows no zero points");
        Ok(())
    }

    fn forward(&mut self, _: &mut Io<'_, '_>) -> Result<(), LayerError> {
        Err(LayerError::Unsupported("it is never run".to_owned()))
    }
}

#[test]
fn layers_that_know_no_zero_points_get_none() {
    let reads_int8 = |zero_point: i64| {
        let fake = |name: &str, operands: &str, scale: f32| {
            format!(
                "aten::fake_quantize_per_tensor_affine {name} 1 1 {operands} quant_max=255 quant_min=0 scale={scale} \
                 zero_point={zero_point} $input={}\n",
                &operands[..1]
            )
        };
        let [first, second, last] = [fake("p", "x a", 0.5), fake("q", "x b", 0.25), fake("r", "c y", 0.125)];
        let text = format!(
            "7767517\n6 5\npnnx.Input in 0 1 x #x=(1,4)f32\n{first}{second}torch.cat j 2 1 a b c\n{last}\
             pnnx.Output out 1 0 y\n"
        );
        let mut registry = Registry::default();
        let creator = Creator::new("test", "1", |_| Ok(Box::new(Joined) as Box<dyn CpuLayer>));
        registry.replace("torch.cat", creator).unwrap();
        let builder = Builder::from_pnnx(Graph::parse(&text, &Limits::default()).unwrap());
        let plan = builder.with_registry(registry).with_formats(Formats::Narrowest).build().unwrap();
        let joined = plan.graph().operator_named("j").unwrap();
        plan.graph().operand(joined.inputs()[0]).scale().is_some()
    };
    assert!(reads_int8(128) && !reads_int8(100));
}
