//! The two-input, two-output plugin in the interpreter, in the engine and in a saved plan.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use ixion::Limits;
use ixion::engine::{Builder, Formats, PlanFile, Precision};
use ixion::graph::RuntimeGraph;
use ixion::op::Registry;
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};

fn registry() -> Registry {
    let mut registry = Registry::default();
    plugins::register(&mut registry).unwrap();
    registry
}

/// A model that consists of the plugin alone; `settings` are its parameters.
fn model(dtype: &str, settings: &str) -> Graph {
    let text = format!(
        "7767517\n4 4\npnnx.Input a 0 1 x #x=(1,2,2){dtype}\npnnx.Input b 0 1 y #y=(1,2,2){dtype}\n\
         CopyConcat both 2 2 x y copy whole {settings}\npnnx.Output out 2 0 copy whole\n"
    );
    Graph::parse(&text, &Limits::default()).unwrap()
}

fn tensor(values: [f32; 4]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[1, 2, 2]).unwrap()
}

/// The inputs of the guide's printed run.
fn printed() -> [Tensor; 2] {
    [tensor([72.438, 32.25, 77.625, 82.625]), tensor([96.438, 9.562, 47.094, 70.188])]
}

fn run(model: Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut graph = RuntimeGraph::from_pnnx(model.clone()).with_registry(registry());
    graph.build().unwrap();
    let wanted = graph.run_with(inputs.to_vec()).unwrap();
    let plan = Builder::from_pnnx(model).with_registry(registry()).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.plan");
    plan.save(&path).unwrap();
    let loaded = PlanFile::open(&path, &Limits::default()).unwrap().with_registry(registry()).load().unwrap();
    for plan in [&plan, &loaded] {
        assert_eq!(plan.context().unwrap().run(inputs).unwrap(), wanted);
    }
    wanted
}

#[test]
fn defaults_reproduce_the_output_in_the_guide() {
    let outputs = run(model("f32", ""), &printed());
    assert_eq!(outputs[0], printed()[1], "a copy of the second input");
    assert_eq!(outputs[1].shape().dims(), &[1, 4, 2], "both along axis 1");
    let concatenated = [72.438, 32.25, 77.625, 82.625, 96.438, 9.562, 47.094, 70.188];
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), concatenated);
}

#[test]
fn halves_are_moved_bit_by_bit() {
    let halves = printed().map(|tensor| tensor.cast(DType::F16).unwrap());
    let outputs = run(model("f16", ""), &halves);
    let floats = run(model("f32", ""), &printed());
    for (half, float) in outputs.iter().zip(&floats) {
        assert_eq!(*half, float.cast(DType::F16).unwrap());
    }
}

#[test]
fn the_engine_may_choose_halves_for_a_model_of_floats() {
    let plan = Builder::from_pnnx(model("f32", ""))
        .with_registry(registry())
        .with_precisions([Precision::F16])
        .with_formats(Formats::Narrowest)
        .build()
        .unwrap();
    let selection = plan.selections().iter().find(|selection| selection.operator == "both").unwrap();
    assert_eq!(selection.candidates[selection.chosen.unwrap()].to_string(), "f16");
    let outputs = plan.context().unwrap().run(&printed()).unwrap();
    let rounded = printed()[1].cast(DType::F16).unwrap().cast(DType::F32).unwrap();
    assert_eq!(outputs[0], rounded);
}

#[test]
fn fields_select_the_input_and_the_axis() {
    let outputs = run(model("f32", "copy=0 axis=-1"), &printed());
    assert_eq!(outputs[0], printed()[0]);
    assert_eq!(outputs[1].shape().dims(), &[1, 2, 4]);
    let concatenated = [72.438, 32.25, 96.438, 9.562, 77.625, 82.625, 47.094, 70.188];
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), concatenated);
}

#[test]
fn errors_name_the_operator_and_the_cause() {
    let refused = |dtype: &str, settings: &str| {
        let mut graph = RuntimeGraph::from_pnnx(model(dtype, settings)).with_registry(registry());
        let built = graph.build().and_then(|()| graph.run_with(printed().to_vec()).map(drop));
        built.unwrap_err().to_string()
    };
    let name = "examples/CopyConcat/1 `both`";
    for (settings, wanted) in [
        ("copy=2", "parameter `copy` is 2: there are two inputs: 0 and 1"),
        ("copy=one", "parameter `copy`: expected an integer of at least 0, got `one`"),
        ("axis=3", "parameter `axis` is 3: the inputs have 3 axes"),
        ("axis=-9223372036854775808", "the inputs have 3 axes"),
        ("along=1", "unknown parameters: `along`; supported: `axis`, `copy`"),
    ] {
        let error = refused("f32", settings);
        assert!(error.contains(name) && error.contains(wanted), "{settings}: {error}");
    }
    let plan = Builder::from_pnnx(model("f64", "")).with_registry(registry()).build();
    let error = plan.unwrap_err().to_string();
    assert!(error.contains(name) && error.contains("input 0 (`x`): takes nothing, refuses f64"), "{error}");
}
