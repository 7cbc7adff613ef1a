//! Plan files: what they restore, what is rejected, and that no work is repeated.

use crate::common::saved::{bits, differences, map};
use ixion::Limits;
use ixion::engine::file::Kind;
use ixion::engine::{Builder, EngineError, Formats, Model, Plan, PlanFile, PlanFileProblem};
use ixion::graph::{GraphError, Stage};
use ixion::op::{CpuLayer, Creator, Io, Layer, LayerError, Registry, TensorMeta};
use ixion::passes::{Outcome, Pass, PassContext, PassError, Passes};
use ixion::pnnx::Graph;
use ixion::shape::{InputRange, ShapeError};
use ixion::tensor::{DType, Format, Tensor};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file").join(name)
}

fn param(name: &str) -> PathBuf {
    folder(name).join(format!("{name}.pnnx.param"))
}

fn graph(text: &str) -> Graph {
    let text = format!("7767517\n{} 0\n{text}\n", text.lines().count());
    Graph::parse(&text, &Limits::default()).unwrap()
}

fn floats(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape).unwrap()
}

/// Saves a plan in a temporary folder.
fn saved(plan: &Plan) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    plan.save(&path).unwrap();
    (folder, path)
}

fn problem(error: EngineError) -> PlanFileProblem {
    match error {
        EngineError::PlanFile(error) => error.problem,
        other => panic!("{other}"),
    }
}

#[test]
fn the_models_of_the_repository_give_the_same_bits() {
    let models = ["linear", "conv3", "two_inputs", "digits", "shapes_detector", "shapes_unet"].map(folder);
    for formats in [Formats::Cheapest, Formats::Alternating] {
        assert_eq!(differences(&models, &formats), Vec::<String>::new());
    }
}

#[test]
fn formats_and_candidates_are_restored() {
    let plan = Builder::new(param("shapes_unet")).with_formats(Formats::Alternating).build().unwrap();
    let (_folder, path) = saved(&plan);
    let loaded = Plan::load(&path).unwrap();
    let formats = |plan: &Plan| plan.graph().operands().iter().map(|it| it.format()).collect::<Vec<_>>();
    let names =
        |plan: &Plan| plan.graph().operators().iter().map(|it| it.name().to_owned()).collect::<Vec<_>>();
    assert_eq!((formats(&loaded), names(&loaded)), (formats(&plan), names(&plan)));
    assert!(formats(&loaded).iter().any(|format| *format != Format::Plain));
    assert_eq!(loaded.selections(), plan.selections());
    assert!(plan.selections().iter().any(|selection| !selection.inexact.is_empty()));
}

#[test]
fn a_large_model_with_random_weights_survives_saving() {
    let plan = Builder::new(param("resnet18")).with_random_weights(3).build().unwrap();
    let (_folder, path) = saved(&plan);
    let loaded = map(&path, &Limits::default()).unwrap().with_threads(2).load().unwrap();
    let x = Tensor::randn(&[1, 3, 64, 64], 5).unwrap();
    let run = |plan: &Plan| bits(&plan.context().unwrap().run(&[x.clone()]).unwrap());
    assert_eq!(run(&plan), run(&loaded));
    assert_eq!((loaded.threads(), loaded.weight_bytes()), (2, plan.weight_bytes()));
}

#[test]
fn only_plans_store_how_weights_are_packed() {
    let plan = Builder::new(param("digits")).build().unwrap();
    let (_folder, path) = saved(&plan);
    let mut graph = PlanFile::open(&path, &Limits::default()).unwrap().graph().unwrap();
    let packed = |operator: &ixion::pnnx::Operator| Some(operator.attrs().get("ixion.packed")?.shape()[0]);
    let found: Vec<_> =
        graph.operators().filter_map(|(id, operator)| Some((id, packed(operator)?))).collect();
    assert!(!found.is_empty());
    for (id, len) in found {
        let zeros = ixion::pnnx::Attribute::from_f32s(vec![len], &vec![0.0; len]).unwrap();
        graph.set_attribute(id, "ixion.packed", zeros).unwrap();
    }
    let rebuilt = Builder::from_pnnx(graph).build().unwrap();
    let x = Tensor::randn(&[2, 1, 8, 8], 5).unwrap();
    let run = |plan: &Plan| bits(&plan.context().unwrap().run(&[x.clone()]).unwrap());
    assert_eq!(run(&plan), run(&rebuilt));
}

#[test]
fn two_builds_give_the_same_bytes() {
    let bytes = || {
        let (_folder, path) = saved(&Builder::new(param("digits")).build().unwrap());
        std::fs::read(path).unwrap()
    };
    assert!(bytes() == bytes(), "something in the file depends on the time or the run");
}

#[test]
fn weights_stay_in_the_mapped_file() {
    let (_folder, path) = saved(&Builder::new(param("digits")).build().unwrap());
    let weight = |plan: &Plan| {
        let attrs = plan.graph().operators().iter().flat_map(|operator| operator.attrs().values());
        let weight = attrs.max_by_key(|attribute| attribute.byte_len()).unwrap().clone();
        weight.decode().unwrap().storage_id()
    };
    let mapped = map(&path, &Limits::default()).unwrap().load().unwrap();
    let (first, second) = (weight(&mapped), weight(&mapped));
    assert_eq!((first, first % 64), (second, 0));
    // Copies of weights that were read are separate; copies of mapped weights share the mapping.
    let detached = |plan: &Plan| {
        let attrs = plan.graph().operators().iter().flat_map(|operator| operator.attrs().values());
        let weight = attrs.max_by_key(|attribute| attribute.byte_len()).unwrap().detached();
        weight.decode().unwrap().clone()
    };
    assert_eq!(detached(&mapped).storage_id(), detached(&mapped).storage_id());
    let read = Plan::load(&path).unwrap();
    let (one, other) = (detached(&read), detached(&read));
    assert_ne!(one.storage_id(), other.storage_id());
}

/// A pass that changes nothing and counts its runs.
#[derive(Debug)]
struct Counting(Arc<AtomicUsize>);

impl Pass for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn doc(&self) -> &'static str {
        "Counts."
    }

    fn run(&self, _: &mut Graph, _: &mut PassContext) -> Result<Outcome, PassError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Outcome::default())
    }
}

#[test]
fn loading_runs_no_pass() {
    let (count, mut passes) = (Arc::new(AtomicUsize::new(0)), Passes::default());
    passes.add(10, Counting(Arc::clone(&count))).unwrap();
    let plan = Builder::new(param("digits")).with_passes(passes).build().unwrap();
    let runs = count.load(Ordering::Relaxed);
    let (_folder, path) = saved(&plan);
    let loaded = Plan::load(&path).unwrap();
    assert!(runs > 0 && count.load(Ordering::Relaxed) == runs);
    assert_eq!(loaded.statistics().to_string(), plan.statistics().to_string());
    assert_eq!(loaded.statistics().time(), std::time::Duration::ZERO);
    // What the usual passes would change, they do not see.
    let plain = Builder::new(param("digits")).with_passes(Passes::empty()).build().unwrap();
    let (_folder, path) = saved(&plain);
    let loaded = Plan::load(&path).unwrap();
    let count = |plan: &Plan| plan.graph().operators().len();
    assert!(count(&loaded) == count(&plain) && count(&plain) > count(&plan));
}

const SUM: &str = "pnnx.Input left 0 1 a #a=(?,3)f32
pnnx.Input right 0 1 b #b=(?,3)f32
pnnx.Expression sum 2 1 a b z expr=add(@0,@1)
pnnx.Output output 1 0 z";

#[test]
fn settings_of_the_builder_are_kept() {
    let range = |name: &str| InputRange::new(name, DType::F32, [1, 3], [2, 3], [4, 3]).unwrap();
    let builder = Builder::from_pnnx(graph(SUM)).with_shape("left", "n,3".parse().unwrap());
    let plan = builder
        .with_shape("right", "n,3".parse().unwrap())
        .with_range(range("left"))
        .with_range(range("right"))
        .with_donation("right", "output")
        .with_card("task = \"classify\"\n")
        .build()
        .unwrap();
    let (_folder, path) = saved(&plan);
    let loaded = Plan::load(&path).unwrap();
    assert_eq!(loaded.profile(), plan.profile());
    assert_eq!(
        (loaded.card(), loaded.inputs(), loaded.outputs()),
        (plan.card(), plan.inputs(), plan.outputs())
    );
    assert_eq!(loaded.shapes().metas(), plan.shapes().metas());
    let mut context = loaded.context().unwrap();
    assert_eq!(context.arena_bytes(), plan.context().unwrap().arena_bytes());
    let rows = |count: usize| floats(&vec![1.0; count * 3], &[count, 3]);
    assert_eq!(context.run(&[rows(2), rows(2)]).unwrap()[0], floats(&[2.0; 6], &[2, 3]));
    let unequal = context.run(&[rows(2), rows(3)]).unwrap_err();
    assert!(matches!(unequal, EngineError::Shape(ShapeError::Contradiction { .. })), "{unequal}");
    let large = context.run(&[rows(5), rows(5)]).unwrap_err();
    assert!(matches!(large, EngineError::Shape(ShapeError::OutOfRange { .. })), "{large}");
    let (left, mut right) = (rows(2), rows(2));
    let request = context.request().input("left", left.view()).unwrap();
    request.donate("right", "output", right.view_mut().unwrap()).unwrap().run().unwrap();
    assert_eq!(right, floats(&[2.0; 6], &[2, 3]));
}

#[test]
fn the_model_card_is_included() {
    let (_folder, path) = saved(&Builder::new(param("digits")).build().unwrap());
    let file = PlanFile::open(&path, &Limits::default()).unwrap();
    assert_eq!(file.card(), Some(&*std::fs::read_to_string(folder("digits").join("model.toml")).unwrap()));
    assert_eq!((file.model(), file.written_by()), (Some("digits.pnnx.param"), env!("CARGO_PKG_VERSION")));
    assert_eq!(file.len(), path.metadata().unwrap().len());
    let kinds: Vec<Kind> = file.sections().iter().map(|section| section.kind).collect();
    assert_eq!(
        kinds,
        [Kind::Graph, Kind::Card, Kind::Choices, Kind::States, Kind::Weights, Kind::Table, Kind::Settings]
    );
    assert!(PlanFile::is_plan(&path) && !PlanFile::is_plan(param("digits")) && !PlanFile::is_plan("no/such"));
    let outputs = Model::load(&path).unwrap().run(&[digits()]).unwrap();
    assert_eq!(bits(&outputs), bits(&Model::load(param("digits")).unwrap().run(&[digits()]).unwrap()));
}

fn digits() -> Tensor {
    Tensor::load_npy(folder("digits").join("in_0.npy"), &Limits::default()).unwrap()
}

#[test]
fn an_operator_that_fails_is_named_by_the_line_of_its_model() {
    let path = saved(&Builder::new(param("digits")).build().unwrap());
    let message = |plan: &Plan| {
        let wrong = Tensor::zeros(DType::F32, &[1, 2, 8, 8]).unwrap();
        let mut context = plan.context().unwrap();
        context.run(&[wrong]).unwrap_err().to_string()
    };
    let built = Builder::new(param("digits")).build().unwrap();
    let folder = format!("{}/", folder("digits").display());
    assert_eq!(message(&Plan::load(&path.1).unwrap()), message(&built).replace(&folder, ""));
}

#[test]
fn a_plan_may_take_its_own_place() {
    let (folder, path) = saved(&Builder::new(param("linear")).build().unwrap());
    let before = std::fs::read(&path).unwrap();
    let plan = map(&path, &Limits::default()).unwrap().load().unwrap();
    plan.save(&path).unwrap();
    assert!(std::fs::read(&path).unwrap() == before);
    plan.context().unwrap().run(&[Tensor::zeros(DType::F32, &[1, 32]).unwrap()]).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let error = plan.save(folder.path().join("no/such/x.plan")).unwrap_err().to_string();
    assert!(error.contains("no/such/x.plan: cannot create a temporary file next to it"), "{error}");
}

/// The identity, with a state.
#[derive(Debug, Clone)]
struct Remembers {
    calls: Arc<Mutex<Vec<String>>>,
    state: Vec<u8>,
}

impl Layer for Remembers {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].clone()])
    }
}

impl CpuLayer for Remembers {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }

    fn initialize(&mut self) -> Result<(), LayerError> {
        self.calls.lock().unwrap().push(format!("initialize {:?}", self.state));
        Ok(())
    }

    fn serialize(&self) -> Result<Vec<u8>, LayerError> {
        Ok(self.state.clone())
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        self.calls.lock().unwrap().push(format!("deserialize {bytes:?}"));
        assert_ne!(bytes, [9, 9], "an unexpected state");
        if bytes == [8, 8] {
            return Err(LayerError::Unsupported("a state of 8s".to_owned()));
        }
        self.state = bytes.to_vec();
        Ok(())
    }
}

type Calls = Arc<Mutex<Vec<String>>>;

/// A registry whose `my.Remember` has this namespace and version.
fn remembering(namespace: &str, version: &str, calls: &Calls) -> Registry {
    let (mut registry, calls) = (Registry::default(), Arc::clone(calls));
    let create = move |reader: &mut ixion::op::OperatorReader<'_>| {
        let state = reader.param("state").and_then(|state| state.as_i64().ok()).unwrap_or(0) as u8;
        let state = if state == 0 { vec![] } else { vec![state, state] };
        Ok(Box::new(Remembers { calls: Arc::clone(&calls), state }) as Box<dyn CpuLayer>)
    };
    registry.add("my.Remember", Creator::new(namespace, version, create)).unwrap();
    registry
}

fn remember(state: u8, calls: &Calls) -> Plan {
    let text = format!(
        "pnnx.Input in 0 1 x #x=(2)f32\nmy.Remember first 1 1 x y state={state}\nmy.Remember second 1 1 y z state=0\n\
         pnnx.Output out 1 0 z"
    );
    Builder::from_pnnx(graph(&text)).with_registry(remembering("me", "2", calls)).build().unwrap()
}

#[test]
fn layers_have_their_state_back_before_they_are_initialised() {
    let calls = Calls::default();
    let (_folder, path) = saved(&remember(7, &calls));
    calls.lock().unwrap().clear();
    let file = PlanFile::open(&path, &Limits::default()).unwrap();
    assert!(
        file.sections().iter().any(|section| section.kind == Kind::States && section.length == 4 + 5 + 8 + 2)
    );
    file.with_registry(remembering("me", "2", &calls)).load().unwrap();
    let found = calls.lock().unwrap().clone();
    assert_eq!(found, ["deserialize [7, 7]", "deserialize []", "initialize [7, 7]", "initialize []"]);
}

#[test]
fn layers_that_refuse_their_state_or_panic_are_named() {
    for (state, told) in [(8, "a state of 8s"), (9, "an unexpected state")] {
        let calls = Calls::default();
        let (_folder, path) = saved(&remember(state, &calls));
        let file = PlanFile::open(&path, &Limits::default()).unwrap();
        let error = file.with_registry(remembering("me", "2", &calls)).load().unwrap_err();
        assert!(
            matches!(&error, EngineError::Graph(GraphError::Operator { stage: Stage::Restore, .. })),
            "{error}"
        );
        assert!(error.to_string().contains(told) && error.to_string().contains("`first`"), "{error}");
    }
}

#[test]
fn other_layers_than_those_of_the_plan_are_refused() {
    let calls = Calls::default();
    let (_folder, path) = saved(&remember(1, &calls));
    let error = |registry: Registry| {
        let file = PlanFile::open(&path, &Limits::default()).unwrap();
        problem(file.with_registry(registry).load().unwrap_err()).to_string()
    };
    assert!(error(Registry::default()).contains("needs the layer `me/my.Remember/2`"));
    assert!(error(Registry::default()).contains("none of this type is registered"));
    assert!(error(remembering("me", "3", &calls)).contains("but `me/my.Remember/3` is registered"));
    assert!(error(remembering("you", "2", &calls)).contains("but `you/my.Remember/2` is registered"));
}

#[test]
fn damaged_weights_are_named_on_verification() {
    let (_folder, path) = saved(&Builder::new(param("digits")).build().unwrap());
    let weights = PlanFile::open(&path, &Limits::default()).unwrap();
    let weights = *weights.sections().iter().find(|section| section.kind == Kind::Weights).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = usize::try_from(weights.offset + weights.length - 1).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(&path, &bytes).unwrap();
    let file = PlanFile::open(&path, &Limits::default()).unwrap();
    let error = problem(file.verify().unwrap_err());
    assert!(
        matches!(&error, PlanFileProblem::Checksum { what, .. } if what.contains("of operator `")),
        "{error}"
    );
    // Without verification, the only effect is a wrong result.
    Plan::load(&path).unwrap().context().unwrap().run(&[digits()]).unwrap();
    let damaged = Plan::load(&path).unwrap().save(path.with_file_name("y.plan")).unwrap_err().to_string();
    assert!(damaged.contains("checksum"), "{damaged}");
}

#[test]
fn limits_hold_for_plans_too() {
    let (_folder, path) = saved(&Builder::new(param("digits")).build().unwrap());
    let small = Limits { max_tensor_bytes: 100, ..Limits::default() };
    let error = PlanFile::open(&path, &small).unwrap_err();
    assert!(matches!(error.problem, PlanFileProblem::Limit(_)), "{error}");
    let few = Limits { max_ops: 3, ..Limits::default() };
    let error = PlanFile::open(&path, &few).unwrap().load().unwrap_err().to_string();
    assert!(error.contains("max_ops"), "{error}");
    let late = Limits::default().with_timeout(std::time::Duration::ZERO);
    let error = PlanFile::open(&path, &late).unwrap().verify().unwrap_err();
    assert!(matches!(error, EngineError::Limit(_)), "{error}");
}

#[test]
fn files_that_are_not_plans_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let limits = Limits::default();
    let error = |path: &Path| PlanFile::open(path, &limits).unwrap_err().to_string();
    assert!(error(&path).contains("x: cannot open the plan"));
    assert!(error(folder.path()).contains("cannot open the plan"));
    for bytes in [&b""[..], b"7767517\n", b"\x89IXPLN\r", b"PK\x03\x04"] {
        std::fs::write(&path, bytes).unwrap();
        assert!(error(&path).ends_with("not a plan; create one with `ixion build` from a .param file"));
        assert!(map(&path, &limits).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
