//! The example plugin in C: compiled, loaded, run by the interpreter and by plans, and saved and loaded with a plan.

use crate::common::compiler;
use ixion::Limits;
use ixion::engine::{Builder, Formats, PlanFile};
use ixion::graph::RuntimeGraph;
use ixion::op::Registry;
use ixion::plugin::{Plugin, abi};
use ixion::pnnx::{Attribute, Graph};
use ixion::shape::InputShape;
use ixion::tensor::{Dim, Tensor};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Compiles the example into a folder.
fn compiled(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plugins/c/activations.c");
    compiler::library(&source, folder, &[])
}

/// The example, compiled once.
fn plugin() -> &'static Plugin {
    static PLUGIN: OnceLock<Plugin> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: the example follows the header.
        unsafe { Plugin::load(compiled(folder.path())) }.unwrap()
    })
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    plugin().register(&mut registry).unwrap();
    registry
}

const MODEL: &str = "7767517
6 5
pnnx.Input       input  0 1 x #x=(?,3,?)f32
my.Swish         swish  1 1 x a beta=2
my.ChannelScale  scale  1 1 a b @weight=(3)f32
my.Halve         halve  1 1 b c
nn.ReLU          relu   1 1 c d
pnnx.Output      output 1 0 d
";

fn model() -> Graph {
    let mut graph = Graph::parse(MODEL, &Limits::default()).unwrap();
    let scale = graph.operator_named("scale").unwrap();
    let weight = Attribute::from_f32s(vec![3], &[1.0, -2.0, 0.5]).unwrap();
    graph.set_attribute(scale, "weight", weight).unwrap();
    graph
}

fn wanted(x: &Tensor) -> Vec<f32> {
    let (values, shape) = (x.to_vec::<f32>().unwrap(), x.shape().dims());
    let length = shape[2];
    let swish = |x: f32| x / (1.0 + (-2.0 * x).exp());
    let of = |(at, x): (usize, &f32)| {
        let weight = [1.0, -2.0, 0.5][at / length % 3];
        (at % length % 2 == 0).then(|| (swish(*x) * weight).max(0.0))
    };
    values.iter().enumerate().filter_map(of).collect()
}

fn check(found: &Tensor, x: &Tensor) {
    let [n, c, length] = *x.shape().dims() else { panic!("three axes") };
    assert_eq!(found.shape().dims(), &[n, c, length.div_ceil(2)]);
    for (found, wanted) in found.to_vec::<f32>().unwrap().iter().zip(wanted(x)) {
        assert!((found - wanted).abs() < 1e-6, "{found} instead of {wanted}");
    }
}

fn inputs() -> [Tensor; 3] {
    [[1, 3, 8], [2, 3, 5], [4, 3, 1]].map(|shape| Tensor::randn(&shape, 7).unwrap())
}

#[test]
fn what_is_published_is_that_of_the_table() {
    let plugin = plugin();
    assert_eq!(plugin.name(), "activations");
    let registry = registry();
    let swish = registry.get("my.Swish").unwrap();
    assert_eq!((swish.namespace.as_str(), swish.version.as_str()), ("examples", "1"));
    let field = &swish.fields[0];
    assert_eq!(
        (field.key, field.kind, field.default_in_file().as_deref()),
        ("beta", "a number", Some("1.0"))
    );
    assert_eq!(registry.get("my.ChannelScale").unwrap().fields[0].kind, "a weight");
    let error = plugin.register(&mut registry.clone()).unwrap_err().to_string();
    assert!(
        error.contains("libactivations") && error.contains("already registered for `examples/my."),
        "{error}"
    );
}

#[test]
fn the_interpreter_runs_it() {
    let mut graph = RuntimeGraph::from_pnnx(model()).with_registry(registry());
    graph.build().unwrap();
    for x in inputs() {
        check(&graph.run_with(vec![x.clone()]).unwrap()[0], &x);
    }
}

#[test]
fn plans_run_it_whatever_the_formats_and_threads() {
    for formats in [Formats::Cheapest, Formats::Plain, Formats::Alternating] {
        for threads in [1, 2] {
            let builder = Builder::from_pnnx(model()).with_registry(registry()).with_threads(threads);
            let plan = builder.with_formats(formats.clone()).build().unwrap();
            let mut context = plan.context().unwrap();
            for x in inputs() {
                check(&context.run(&[x.clone()]).unwrap()[0], &x);
            }
        }
    }
}

#[test]
fn lengths_that_are_symbols_are_computed_with() {
    let shape = InputShape::parse_named("input=n,3,w").unwrap().1;
    let plan =
        Builder::from_pnnx(model()).with_registry(registry()).with_shape("input", shape).build().unwrap();
    let output = plan.graph().outputs()[0].operand;
    let meta = plan.shapes().metas()[output.position()].clone().unwrap();
    let width = Dim::symbol("w");
    assert_eq!(meta.dims(), &[Dim::symbol("n"), Dim::Fixed(3), width.ceil_div(2usize)]);
}

#[test]
fn inputs_with_gaps_are_copied() {
    let mut graph = RuntimeGraph::from_pnnx(model()).with_registry(registry());
    graph.build().unwrap();
    let turned = Tensor::randn(&[2, 6, 3], 3).unwrap().permute(&[0, 2, 1]).unwrap();
    check(&graph.run_with(vec![turned.clone()]).unwrap()[0], &turned.contiguous().unwrap());
}

#[test]
fn a_saved_plan_gives_the_same_bits_and_needs_the_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.plan");
    let plan = Builder::from_pnnx(model()).with_registry(registry()).build().unwrap();
    plan.save(&path).unwrap();
    let open = || PlanFile::open(&path, &Limits::default()).unwrap();
    let loaded = open().with_registry(registry()).load().unwrap();
    for x in inputs() {
        let run = |plan: &ixion::engine::Plan| {
            plan.context().unwrap().run(&[x.clone()]).unwrap()[0].to_le_bytes().unwrap()
        };
        assert_eq!(run(&plan), run(&loaded));
    }
    let error = open().load().unwrap_err().to_string();
    assert!(error.contains("examples/my.ChannelScale/1"), "{error}");
}

#[test]
fn contexts_in_threads_have_layers_of_their_own() {
    let plan = Builder::from_pnnx(model()).with_registry(registry()).build().unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let plan = &plan;
            scope.spawn(move || {
                let x = Tensor::randn(&[2, 3, 64], seed).unwrap();
                let mut context = plan.context().unwrap();
                for _ in 0..20 {
                    check(&context.run(&[x.clone()]).unwrap()[0], &x);
                }
            });
        }
    });
}

#[test]
fn its_errors_name_the_operator_and_say_what_it_said() {
    let fails = |from: &str, to: &str, wanted: &str| {
        let text = MODEL.replace(from, to);
        let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
        let scale = graph.operator_named("scale").unwrap();
        if text.contains("@weight") {
            let weight = Attribute::from_f32s(vec![3], &[1.0; 3]).unwrap();
            graph.set_attribute(scale, "weight", weight).unwrap();
        }
        let error = RuntimeGraph::from_pnnx(graph).with_registry(registry()).build().unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    };
    fails(
        "beta=2",
        "beta=fast",
        "examples/my.Swish/1 `swish` cannot be built: parameter `beta`: expected a number, got `fast`",
    );
    fails("beta=2", "betta=2", "unknown parameters: `betta`; supported: `beta`");
    fails("@weight=(3)f32", "", "missing weight `weight`");
    let mut graph = RuntimeGraph::from_pnnx(model()).with_registry(registry());
    graph.build().unwrap();
    let error = graph.run_with(vec![Tensor::randn(&[1, 4, 2], 1).unwrap()]).unwrap_err().to_string();
    assert!(
        error.contains("examples/my.ChannelScale/1 `scale` rejects its inputs: axis 1 of the input must be"),
        "{error}"
    );
}

#[cfg(feature = "cli")]
#[test]
fn the_command_loads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (library, param, plan, x) =
        (compiled(folder.path()), path("net.param"), path("net.plan"), path("x.npy"));
    let text =
        "7767517\n3 2\npnnx.Input input 0 1 x #x=(1,3)f32\nmy.Swish swish 1 1 x y\npnnx.Output out 1 0 y\n";
    std::fs::write(&param, text).unwrap();
    Tensor::from_vec(vec![0.0f32, 1.0, -1.0], &[1, 3]).unwrap().save_npy(&x).unwrap();
    let ixion = |args: &[&str], with: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
        command.args(args);
        if with {
            command.arg("--plugin").arg(&library);
        }
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.code(), text)
    };
    let fine = |args: &[&str]| {
        let (code, text) = ixion(args, true);
        assert_eq!(code, Some(0), "{args:?}: {text}");
        text
    };
    let listed = fine(&["operators", "my."]);
    assert!(
        listed.contains("my.Swish") && listed.contains("The steepness of the step. (a number; default 1.0)"),
        "{listed}"
    );
    assert!(!fine(&["inspect", &param]).contains("not supported"));
    fine(&["run", &param, "--input", &x, "--timeout", "60"]);
    fine(&["run", &param, "--input", &x, "--interpret"]);
    fine(&["bench", &param, "--runs", "2"]);
    fine(&["build", &param, "-o", &plan]);
    fine(&["run", &plan, "--input", &x]);
    let (code, text) = ixion(&["run", &param, "--input", &x], false);
    assert!(code == Some(2) && text.contains("my.Swish `swish`"), "{text}");
    let (code, text) = ixion(&["run", &param, "--plugin", "no/such.so"], false);
    assert!(code == Some(2) && text.contains("no/such.so: there is no such file"), "{text}");
}

#[test]
fn an_optional_weight_says_its_kind_and_whether_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/plugins/given.c");
    let mut registry = Registry::default();
    // SAFETY: the plugin follows the header.
    let plugin = unsafe { Plugin::load(compiler::library(&source, folder.path(), &[])) }.unwrap();
    plugin.register(&mut registry).unwrap();
    let told = |operator: &str, weight: Option<f32>| {
        let text = format!(
            "7767517\n4 3\npnnx.Input in 0 1 x #x=(3)f32\npnnx.Input other 0 1 b #b=(3)f32\n\
            my.Given given {operator}\npnnx.Output out 1 0 y\n"
        );
        let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
        if let Some(weight) = weight {
            let weight = Attribute::from_f32s(vec![1], &[weight]).unwrap();
            graph.set_attribute(graph.operator_named("given").unwrap(), "bias", weight).unwrap();
        }
        let plan = Builder::from_pnnx(graph).with_registry(registry.clone()).build().unwrap();
        let x = Tensor::randn(&[3], 1).unwrap();
        plan.context().unwrap().run(&[x.clone(), x]).unwrap()[0].to_vec::<f32>().unwrap()
    };
    let (none, weight) = (abi::NONE as f32, abi::OPTIONAL_WEIGHT as f32);
    assert_eq!(told("1 1 x y", None), [none, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(told("1 1 x y bias=None", None), [none, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(told("1 1 x y", Some(0.5)), [weight, 1.0, 0.0, 1.0, 0.5]);
    assert_eq!(told("2 1 x b y $bias=b", None), [weight, 1.0, 1.0, 0.0, 0.0]);
}
