//! The life cycle of a plugin, recorded by one that logs its calls. Each sequence is compared with TensorRT's documentation and
//! with the file shown in the book: `IXION_WRITE=1 cargo test --test it lifecycle` writes `book/src/traces`.

use ixion::Limits;
use ixion::engine::{Builder, Context, Fields, Formats, Network, Plan, PlanFile, Precision, TimingCache};
use ixion::op::{
    Cost, CpuLayer, Creator, Io, Layer, LayerError, OperatorReader, PluginName, Registry, Tactic,
    TensorFormat, TensorMeta,
};
use ixion::tensor::{DType, Tensor};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The recorded calls, with the layer's name: the first layer is `a`, the next one `b`.
#[derive(Debug, Default)]
struct Diary {
    lines: Vec<String>,
    layers: u8,
}

type Shared = Arc<Mutex<Diary>>;

/// The identity, with all calls recorded in a diary.
#[derive(Debug)]
struct Recorder {
    name: char,
    diary: Shared,
}

impl Recorder {
    fn new(diary: &Shared, born: impl FnOnce(char) -> String) -> Self {
        let mut open = diary.lock().unwrap();
        let name = char::from(b'a' + open.layers % 26);
        open.layers += 1;
        open.lines.push(born(name));
        Self { name, diary: Arc::clone(diary) }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.diary.lock().unwrap().lines.push(format!("{}: {what}", self.name));
    }
}

impl Clone for Recorder {
    fn clone(&self) -> Self {
        Self::new(&self.diary, |name| format!("{}: clone → {name}", self.name))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.note("drop");
    }
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

impl Layer for Recorder {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.note("num_inputs → 1");
        1..=1
    }

    fn num_outputs(&self) -> usize {
        self.note("num_outputs → 1");
        1
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.note(format_args!("infer({}) → {0}", list(inputs)));
        Ok(vec![inputs[0].clone()])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        self.note("cost");
        Cost::of_moving(inputs, outputs)
    }
}

impl CpuLayer for Recorder {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let own = formats[position];
        let takes = match position {
            0 => [TensorFormat::plain(DType::F32), TensorFormat::plain(DType::F16)].contains(&own),
            _ => own == formats[0],
        };
        self.note(format_args!("supports({position}, {}) → {takes}", list(formats)));
        takes
    }

    fn tactics(&self) -> Vec<Tactic> {
        self.note("tactics → default");
        vec![Tactic::DEFAULT]
    }

    fn set_tactic(&mut self, id: u32) -> Result<(), LayerError> {
        self.note(format_args!("set_tactic({id})"));
        Ok(())
    }

    fn efficiency(&self, _: &[TensorMeta], _: &[TensorMeta]) -> f64 {
        self.note("efficiency → 1");
        1.0
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        self.note(format_args!("configure({} → {})", list(inputs), list(outputs)));
        Ok(())
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        self.note(format_args!("workspace({}) → 64", list(inputs)));
        64
    }

    fn initialize(&mut self) -> Result<(), LayerError> {
        self.note("initialize");
        Ok(())
    }

    fn terminate(&mut self) {
        self.note("terminate");
    }

    fn serialize(&self) -> Result<Vec<u8>, LayerError> {
        self.note("serialize → 2 bytes");
        Ok(vec![1, 2])
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        self.note(format_args!("deserialize({} bytes)", bytes.len()));
        assert_eq!(bytes, [1, 2]);
        Ok(())
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        self.note("forward");
        io.context.scratch::<u8>(64)?;
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }
}

fn registry(diary: &Shared) -> Registry {
    let mut registry = Registry::default();
    let diary = Arc::clone(diary);
    let create = move |_: &mut OperatorReader<'_>| {
        Ok(Box::new(Recorder::new(&diary, |name| format!("create → {name}"))) as Box<dyn CpuLayer>)
    };
    registry.add_plugin("Recorder", Creator::new("test", "1", create)).unwrap();
    registry
}

/// A network of one recorder on a matrix with any number of rows.
fn network(diary: &Shared) -> Network {
    let plugin: PluginName = "test/Recorder/1".parse().unwrap();
    let mut network = Network::new().with_registry(registry(diary));
    let x = network.add_input("x", DType::F32, ["n".into(), 3.into()]).unwrap();
    let y = network.add_plugin(&plugin, "recorder", &[x], &Fields::new()).unwrap();
    network.mark_output(y[0], "y").unwrap();
    network
}

fn builder(diary: &Shared) -> Builder {
    network(diary).builder().unwrap()
}

/// The calls since the diary was last closed; consecutive equal lines are merged.
fn closed(diary: &Shared) -> Vec<String> {
    let lines = std::mem::take(&mut diary.lock().unwrap().lines);
    let mut counted: Vec<(String, usize)> = Vec::new();
    for line in lines {
        match counted.last_mut() {
            Some((last, count)) if *last == line => *count += 1,
            _ => counted.push((line, 1)),
        }
    }
    let text = |(line, count): (String, usize)| match count {
        1 => line,
        // The number of timed runs of a candidate varies.
        _ if line.ends_with(": forward") => format!("{line}, again and again"),
        _ => format!("{line}, {count} times"),
    };
    counted.into_iter().map(text).collect()
}

/// The steps of a sequence, without calls that have no side effects and without layer names.
fn steps(lines: &[String]) -> Vec<&str> {
    const STEPS: [&str; 10] = [
        "create",
        "clone",
        "supports",
        "configure",
        "initialize",
        "forward",
        "serialize",
        "deserialize",
        "terminate",
        "drop",
    ];
    let step = |line: &'_ String| {
        let what = line.split_once(": ").map_or(line.as_str(), |(_, what)| what);
        STEPS.into_iter().find(|step| what.starts_with(step))
    };
    let mut steps: Vec<&str> = lines.iter().filter_map(step).collect();
    steps.dedup_by(|a, b| a == b && *a == "supports");
    steps
}

/// Compares a sequence with the book's file, or writes the file.
fn in_book(name: &str, lines: &[String]) {
    let path = format!("{}/book/src/traces/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = lines.join("\n") + "\n";
    if std::env::var_os("IXION_WRITE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        known, text,
        "{path} is out of date; update it with IXION_WRITE=1 cargo test --test it lifecycle"
    );
}

fn rows(count: usize) -> Tensor {
    Tensor::ones(DType::F32, &[count, 3]).unwrap()
}

fn run(context: &mut Context<'_>, count: usize) {
    assert_eq!(context.run(&[rows(count)]).unwrap(), [rows(count)]);
}

/// Builds a plan, and closes the diary.
fn built(diary: &Shared) -> Plan {
    let plan = builder(diary).build().unwrap();
    closed(diary);
    plan
}

#[test]
fn creation() {
    let diary = Shared::default();
    let network = network(&diary);
    let trace = closed(&diary);
    in_book("1-creation", &trace);
    // TensorRT creates a plugin, queries the number and the types of its outputs, and keeps a clone. Here, a network keeps the
    // fields, so that it can be saved: the layer is created again when the network is built.
    assert_eq!(steps(&trace), ["create", "drop"]);
    assert!(trace.iter().any(|line| line == "a: num_outputs → 1"));
    drop(network);
    assert!(closed(&diary).is_empty());
}

#[test]
fn building() {
    let diary = Shared::default();
    let builder = builder(&diary);
    closed(&diary);
    let plan = builder.build().unwrap();
    let trace = closed(&diary);
    in_book("2-building", &trace);
    // Shapes, formats, final configuration, resources: TensorRT's order. A single candidate is not timed.
    let steps = steps(&trace);
    let end = ["supports", "configure", "initialize"];
    assert!(steps.ends_with(&end), "{steps:?}");
    assert_eq!(steps.iter().filter(|step| **step == "initialize").count(), 1);
    assert!(!steps.contains(&"forward"), "a single candidate is never timed");
    drop(plan);
}

#[test]
fn candidates() {
    let diary = Shared::default();
    let builder = builder(&diary).with_precisions([Precision::F16]);
    closed(&diary);
    let plan = builder.build().unwrap();
    let trace = closed(&diary);
    in_book("3a-candidates", &trace);
    // Two candidates, f32 and f16: a clone of each is configured and priced.
    let priced = trace.iter().filter(|line| line.ends_with("cost")).count();
    assert_eq!(priced, 2);
    let selection = &plan.selections()[0];
    assert_eq!(selection.candidates.iter().map(ToString::to_string).collect::<Vec<_>>(), ["f32", "f16"]);
}

#[test]
fn timing() {
    let diary = Shared::default();
    let builder = builder(&diary).with_precisions([Precision::F16]).with_tuning(TimingCache::in_memory());
    closed(&diary);
    let plan = builder.build().unwrap();
    let trace = closed(&diary);
    in_book("3b-timing", &trace);
    // For each candidate, TensorRT's documented sequence: clone, configure, initialize, configure, enqueue, terminate, destroy.
    let steps = steps(&trace);
    let timed = ["clone", "configure", "initialize", "configure", "forward", "terminate", "drop"];
    let count = steps.windows(timed.len()).filter(|window| *window == timed).count();
    assert_eq!(count, 2, "{steps:?}");
    drop(plan);

    let builder = self::builder(&diary).with_tuning(TimingCache::in_memory());
    let plan = builder.build().unwrap();
    let trace = closed(&diary);
    assert!(
        !trace.iter().any(|line| line.contains("forward")),
        "a single candidate is never timed: {trace:?}"
    );
    drop(plan);
}

#[test]
fn every_initialize_has_its_terminate() {
    let diary = Shared::default();
    let precisions = [Precision::F16, Precision::Bf16];
    let plan = builder(&diary).with_precisions(precisions).with_formats(Formats::Narrowest).build().unwrap();
    let mut context = plan.context().unwrap();
    run(&mut context, 2);
    drop(context);
    drop(plan);
    let lines = std::mem::take(&mut diary.lock().unwrap().lines);
    let count = |what: &str| lines.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!(count(": initialize"), 1, "one engine");
    assert_eq!(count(": terminate"), 1);
    assert_eq!(count(": drop"), usize::from(diary.lock().unwrap().layers), "every layer is dropped");
}

#[test]
fn finalisation() {
    let diary = Shared::default();
    let folder = tempfile::tempdir().unwrap();
    let plan = built(&diary);
    plan.save(folder.path().join("x.plan")).unwrap();
    let trace = closed(&diary);
    in_book("4-finalisation", &trace);
    assert_eq!(steps(&trace), ["serialize"]);
}

/// A plan saved with a separate diary.
fn saved(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("x.plan");
    builder(&Shared::default()).build().unwrap().save(&path).unwrap();
    path
}

#[test]
fn loading() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path());
    let diary = Shared::default();
    let file = PlanFile::open(&path, &Limits::default()).unwrap().with_registry(registry(&diary));
    assert!(closed(&diary).is_empty(), "opening creates no layer");
    let plan = file.load().unwrap();
    let trace = closed(&diary);
    in_book("5-loading", &trace);
    // As documented: created from its fields and bytes, and initialised. Nothing is negotiated or configured again.
    assert_eq!(steps(&trace), ["create", "deserialize", "initialize"]);
    drop(plan);
}

#[test]
fn contexts_and_runs() {
    let diary = Shared::default();
    let plan = built(&diary);

    let mut context = plan.context().unwrap();
    let trace = closed(&diary);
    in_book("6-context", &trace);
    assert_eq!(steps(&trace), ["clone"], "clones are initialised");

    run(&mut context, 2);
    let trace = closed(&diary);
    in_book("7-first-run", &trace);
    assert_eq!(steps(&trace), ["configure", "forward"]);

    for _ in 0..3 {
        run(&mut context, 2);
        let trace = closed(&diary);
        in_book("8-later-run", &trace);
        assert_eq!(steps(&trace), ["forward"]);
    }

    run(&mut context, 5);
    let trace = closed(&diary);
    in_book("9-other-shape", &trace);
    assert_eq!(steps(&trace), ["configure", "forward"]);

    run(&mut context, 2);
    assert_eq!(steps(&closed(&diary)), ["configure", "forward"], "back to an earlier shape");

    drop(context);
    drop(plan);
    let trace = closed(&diary);
    in_book("10-destruction", &trace);
    assert_eq!(steps(&trace), ["drop", "terminate", "drop"]);
}

#[test]
fn contexts_have_clones_of_their_own() {
    let diary = Shared::default();
    let plan = built(&diary);
    let mut contexts = [plan.context().unwrap(), plan.context().unwrap()];
    run(&mut contexts[0], 2);
    run(&mut contexts[1], 3);
    let lines = closed(&diary);
    let forwards: Vec<&str> = lines.iter().filter_map(|line| line.strip_suffix(": forward")).collect();
    assert_eq!(forwards.len(), 2);
    assert_ne!(forwards[0], forwards[1]);
    assert!(!lines.iter().any(|line| line.contains("initialize") || line.contains("terminate")));
}
