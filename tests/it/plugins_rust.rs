//! Rust layers loaded through the C ABI give the same results as when they are linked.

#[allow(dead_code, unreachable_pub, reason = "exported items are not called here")]
#[path = "../../examples/plugins/shared.rs"]
mod shared;

use ixion::Limits;
use ixion::engine::{Builder, EngineError, Plan, PlanFile};
use ixion::graph::RuntimeGraph;
use ixion::op::Registry;
use ixion::plugin::Plugin;
use ixion::pnnx::{Attribute, Graph};
use ixion::shape::InputShape;
use ixion::tensor::{Dim, Tensor};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The features beyond the default ones, and whether this program has them.
const FEATURES: [(&str, bool); 3] = [
    ("ixion/linalg", cfg!(feature = "linalg")),
    ("ixion/cuda", cfg!(feature = "cuda")),
    ("ixion/cuda-emulator", cfg!(feature = "cuda-emulator")),
];

/// The library, which a plain `cargo test` has already built. If `IXION_EXAMPLES_BUILT` is set, it is taken as it is: cargo
/// would wait for another cargo that builds into the same folder.
fn library() -> PathBuf {
    let target = std::env::current_exe().unwrap();
    let profile = target.parent().unwrap().parent().unwrap();
    if std::env::var_os("IXION_EXAMPLES_BUILT").is_none() {
        build(profile.file_name().unwrap());
    }
    let name = format!("{}shared_plugin{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    profile.join("examples").join(name)
}

/// Builds the library with the features of this program: with others, all of Ixion would be built again.
fn build(profile: &OsStr) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--offline", "--example", "shared_plugin"]);
    command.arg("--profile").arg(if profile == "debug" { "dev".as_ref() } else { profile });
    let features = FEATURES.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name);
    command.arg("--features").arg(features.collect::<Vec<_>>().join(","));
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn loaded() -> Registry {
    static PLUGIN: OnceLock<Plugin> = OnceLock::new();
    let plugin = PLUGIN.get_or_init(|| {
        // SAFETY: the library is the example, exported by the macro.
        unsafe { Plugin::load(library()) }.unwrap()
    });
    let mut registry = Registry::default();
    plugin.register(&mut registry).unwrap();
    registry
}

fn linked() -> Registry {
    let mut registry = Registry::default();
    shared::register(&mut registry).unwrap();
    registry
}

fn model(operators: &str, weights: &[(&str, &[f32])]) -> Graph {
    let operators = operators.trim();
    let count = operators.lines().count();
    let text = format!(
        "7767517\n{} {}\npnnx.Input input 0 1 x #x=(?,?,4)f32\n{operators}\npnnx.Output output 1 0 y\n",
        count + 2,
        count + 1,
    );
    let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
    for (key, values) in weights {
        let affine = graph.operator_named("affine").unwrap();
        let weight = Attribute::from_f32s(vec![values.len()], values).unwrap();
        graph.set_attribute(affine, key, weight).unwrap();
    }
    graph
}

const WEIGHT: (&str, &[f32]) = ("weight", &[1.0, -2.0, 0.5, 3.0]);
const BIAS: (&str, &[f32]) = ("bias", &[0.0, 1.0, 2.0, -3.0]);

fn affine() -> Graph {
    let text = "my.Affine affine 1 1 x a times=2 @weight=(4)f32 @bias=(4)f32\nmy.Pairs pairs 1 1 a y";
    model(text, &[WEIGHT, BIAS])
}

fn bits(outputs: &[Tensor]) -> Vec<Vec<u8>> {
    outputs.iter().map(|output| output.to_le_bytes().unwrap()).collect()
}

#[test]
fn the_same_layers_give_the_same_bits_both_ways() {
    let x = Tensor::randn(&[2, 3, 4], 1).unwrap();
    let run = |registry: Registry| {
        let plan = Builder::from_pnnx(affine()).with_registry(registry.clone()).build().unwrap();
        let mut graph = RuntimeGraph::from_pnnx(affine()).with_registry(registry);
        graph.build().unwrap();
        (
            bits(&plan.context().unwrap().run(&[x.clone()]).unwrap()),
            bits(&graph.run_with(vec![x.clone()]).unwrap()),
        )
    };
    let (ours, theirs) = (run(linked()), run(loaded()));
    assert_eq!(ours, theirs);
    assert_eq!(ours.0, ours.1);
}

#[test]
fn what_is_published_is_the_same() {
    let (ours, theirs) = (linked(), loaded());
    assert_eq!(ours.names(), theirs.names());
    for name in ours.names().iter().filter(|name| name.namespace() == "examples") {
        let (ours, theirs) = (ours.find(name).unwrap(), theirs.find(name).unwrap());
        assert_eq!(ours.doc, theirs.doc);
        let facts = |creator: &ixion::op::Creator| -> Vec<_> {
            let fields = creator.fields.iter();
            fields.map(|field| (field.key, field.kind, field.default_in_file(), field.doc)).collect()
        };
        assert_eq!(facts(ours), facts(theirs));
    }
}

#[test]
fn lengths_stay_expressions() {
    let shape = InputShape::parse_named("input=n,c,w").unwrap().1;
    let file = model("my.Pairs pairs 1 1 x y", &[]);
    let plan = Builder::from_pnnx(file).with_registry(loaded()).with_shape("input", shape).build().unwrap();
    let meta = plan.shapes().metas()[plan.graph().outputs()[0].operand.position()].clone().unwrap();
    assert_eq!(meta.dims(), &[Dim::symbol("n"), Dim::symbol("c"), Dim::symbol("w").floor_div(2usize)]);
}

#[test]
fn weights_may_be_absent_or_inputs() {
    let x = Tensor::randn(&[1, 2, 4], 2).unwrap();
    let absent = "my.Affine affine 1 1 x y @weight=(4)f32";
    let none = "my.Affine affine 1 1 x y bias=None @weight=(4)f32";
    let named = "my.Affine affine 2 1 x x y @weight=(4)f32 $bias=x";
    let unnamed = "my.Affine affine 2 1 x x y @weight=(4)f32";
    for text in [absent, none, named, unnamed] {
        let run = |registry: Registry| {
            let mut graph = RuntimeGraph::from_pnnx(model(text, &[WEIGHT])).with_registry(registry);
            graph.build().map_err(|error| error.to_string())?;
            Ok::<_, String>(bits(&graph.run_with(vec![x.clone()]).unwrap()))
        };
        assert_eq!(run(linked()), run(loaded()), "{text}");
    }
}

#[test]
fn state_goes_with_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    let plan = Builder::from_pnnx(affine()).with_registry(loaded()).build().unwrap();
    plan.save(&path).unwrap();
    let x = Tensor::randn(&[2, 3, 4], 3).unwrap();
    let run = |plan: &Plan| bits(&plan.context().unwrap().run(&[x.clone()]).unwrap());
    for registry in [loaded(), linked()] {
        let again =
            PlanFile::open(&path, &Limits::default()).unwrap().with_registry(registry).load().unwrap();
        assert_eq!(run(&plan), run(&again));
    }
}

#[test]
fn panics_stop_at_the_border() {
    let built = |when: &str| {
        let file = model(&format!("my.Panics panics 1 1 x y when={when}"), &[]);
        Builder::from_pnnx(file).with_registry(loaded()).build()
    };
    let error = built("create").unwrap_err().to_string();
    assert!(error.contains("my.Panics/1 `panics`") && error.contains("create went wrong"), "{error}");
    let error = built("infer").unwrap_err().to_string();
    assert!(error.contains("my.Panics/1 `panics`") && error.contains("infer went wrong"), "{error}");
    let plan = built("forward").unwrap();
    let mut context = plan.context().unwrap();
    for _ in 0..2 {
        let x = Tensor::randn(&[1, 1, 4], 1).unwrap();
        let error = context.run(&[x]).unwrap_err();
        assert!(matches!(error, EngineError::Panic { .. }), "{error}");
        assert!(error.to_string().contains("forward went wrong"), "{error}");
    }
    let plan = built("never").unwrap();
    assert!(plan.context().unwrap().run(&[Tensor::randn(&[1, 1, 4], 1).unwrap()]).is_ok());
}

#[test]
fn errors_in_fields_say_what_is_wrong() {
    let error = |text: &str, weights: &[(&str, &[f32])]| {
        let built = RuntimeGraph::from_pnnx(model(text, weights)).with_registry(loaded()).build();
        built.unwrap_err().to_string()
    };
    let found = error("my.Affine affine 1 1 x y", &[]);
    assert!(found.contains("missing weight `weight`"), "{found}");
    let found = error("my.Affine affine 1 1 x y times=often @weight=(4)f32", &[WEIGHT]);
    assert!(found.contains("`times`: expected an integer of at least 0, got `often`"), "{found}");
    let found = error("my.Panics panics 1 1 x y", &[]);
    assert!(found.contains("missing parameter `when` (a string)"), "{found}");
    let found = error("my.Pairs pairs 1 1 x y more=1", &[]);
    assert!(found.contains("unknown parameters: `more`"), "{found}");
}
