//! C plugins on a GPU: their kernels are compiled, launched and captured in graphs like others, and faulty launches are errors.

use super::{emulators, several};
use crate::common::compiler;
use ixion::Limits;
use ixion::cuda::CudaLayers;
use ixion::engine::{Builder, Context};
use ixion::op::Registry;
use ixion::plugin::Plugin;
use ixion::pnnx::{Attribute, Graph};
use ixion::tensor::{DType, Tensor};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The operators of the example, and one with faulty launches.
fn registry() -> Registry {
    static PLUGINS: OnceLock<[Plugin; 2]> = OnceLock::new();
    let plugins = PLUGINS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        ["examples/plugins/c/activations.c", "tests/it/cuda/launches.c"].map(|source| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
            // SAFETY: both follow the header in everything that cannot be checked.
            unsafe { Plugin::load(compiler::library(&source, folder.path(), &[])) }.unwrap()
        })
    });
    let mut registry = Registry::default();
    plugins.iter().for_each(|plugin| plugin.register(&mut registry).unwrap());
    registry
}

fn builder(text: &str) -> Builder {
    let mut graph = Graph::parse(text, &Limits::default()).unwrap();
    if let Some(scale) = graph.operator_named("scale") {
        let weight = Attribute::from_f32s(vec![3], &[1.0, -2.0, 0.5]).unwrap();
        graph.set_attribute(scale, "weight", weight).unwrap();
    }
    Builder::from_pnnx(graph).with_registry(registry())
}

/// Compares a graph on the CPU and on both emulators, twice each; `on_cpu` lists the operators that run on the CPU.
fn check(text: &str, inputs: &[Tensor], on_cpu: &[&str]) {
    let plan = Arc::new(builder(text).build().unwrap());
    let wanted = Context::shared(plan).unwrap().run(inputs).unwrap();
    for device in emulators() {
        let builder = builder(text).with_device(device.clone(), CudaLayers::default());
        let mut context = Context::shared(Arc::new(builder.build().unwrap())).unwrap();
        for _ in 0..2 {
            let found = context.run(inputs).unwrap();
            let comparison = found[0].allclose(&wanted[0], 1e-6, 1e-6, true).unwrap();
            assert!(comparison.holds(), "{comparison}\n{text}");
        }
        let found: Vec<String> = context.on_cpu().iter().map(|it| it.op_type().to_owned()).collect();
        assert_eq!(found, on_cpu, "{text}");
    }
}

#[test]
fn kernels_of_the_example() {
    let x = Tensor::randn(&[2, 3, 5], 7).unwrap();
    let lines = [
        "my.Swish swish 1 1 x a beta=2",
        "my.ChannelScale scale 1 1 a b @weight=(3)f32",
        "nn.ReLU relu 1 1 b y",
    ];
    check(&several(&lines, &[x.clone()]), &[x.clone()], &[]);
    // The plugin ignores strides.
    let lines = ["torch.transpose t 1 1 x a dim0=1 dim1=2", "my.Swish swish 1 1 a y beta=0.5"];
    check(&several(&lines, &[x.clone()]), &[x.clone()], &[]);
    // An operator without a kernel runs on the CPU, between two that have one.
    let lines = ["my.Swish s1 1 1 x a", "my.Halve halve 1 1 a b", "my.Swish s2 1 1 b y"];
    check(&several(&lines, &[x.clone()]), &[x], &["examples/my.Halve/1"]);
    let none = Tensor::zeros(DType::F32, &[0, 3, 5]).unwrap();
    check(&several(&["my.Swish swish 1 1 x y"], &[none.clone()]), &[none], &[]);
}

#[test]
fn kernels_of_other_types() {
    let x = Tensor::randn(&[70], 7).unwrap().cast(DType::F64).unwrap();
    check(&several(&["my.Copy copy 1 1 x y"], &[x.clone()]), &[x], &[]);
}

/// The error of the first run with a launch that has this defect.
fn error(defect: usize, device: usize) -> String {
    let x = Tensor::randn(&[70], 7).unwrap().cast(DType::F64).unwrap();
    let text = several(&[&format!("my.Copy copy 1 1 x y defect={defect}")], &[x.clone()]);
    let builder = builder(&text).with_device(emulators()[device].clone(), CudaLayers::default());
    let plan = match builder.build() {
        Ok(plan) => plan,
        Err(error) => return error.to_string(),
    };
    let error = Context::shared(Arc::new(plan)).and_then(|mut context| context.run(&[x])).unwrap_err();
    error.to_string()
}

#[test]
fn faulty_launches_are_errors() {
    let wanted = [
        (1, "the launch of `copy` has no source"),
        (2, "a launch names no kernel"),
        (3, "the `size` of a launch is 8 bytes, which is too small; set it with sizeof"),
        (4, "the launch of `copy` has more than 256 arguments, or a null pointer to them"),
        (5, "the launch of `copy` has more than 256 arguments, or a null pointer to them"),
        (6, "there is no kernel `copies` in `plugin.cu`; it has copy"),
        (7, "the kernels of `plugin.cu` cannot be compiled"),
        (8, "input 3"),
        (9, "weight 0"),
        (10, "99"),
        (11, "1099511627776"),
        (12, "the launch of `copy` has 0 threads in a block; expected 1 to 1024"),
        (13, "the launch of `copy` has 4096 threads in a block; expected 1 to 1024"),
        (14, "no kernel today"),
        (15, "it gave no reason"),
        (16, "it enqueues more than 1024 launches"),
    ];
    for (defect, part) in wanted {
        let error = error(defect, 0);
        assert!(error.contains(part) && error.contains("my.Copy"), "defect {defect}: {error}");
    }
    let error = error(17, 1);
    assert!(error.contains("kernel `copy`") && error.contains("thread"), "{error}");
}
