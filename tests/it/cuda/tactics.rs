//! Tactics on a device: each gives the same results as the CPU, the fastest is found by timing all, and nothing is timed twice.

use super::{emulators, noise, one, several};
use ixion::Limits;
use ixion::cuda::device::{Argument, Device, Grid, Info, Unit};
use ixion::cuda::{CudaIo, CudaLayer, CudaLayers, Tf32};
use ixion::engine::{Builder, Context, Formats, Plan, PlanFile, Precision, Scales, TimingCache};
use ixion::op::{CpuLayer, Creator, Io, Layer, OperatorReader, Registry, Result, Tactic, TensorMeta};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn builder(text: &str) -> Builder {
    Builder::from_pnnx(Graph::parse(text, &Limits::default()).unwrap()).with_random_weights(1)
}

fn run(builder: Builder, inputs: &[Tensor]) -> (Vec<Tensor>, Arc<Plan>) {
    let plan = Arc::new(builder.build().unwrap());
    let mut context = Context::shared(Arc::clone(&plan)).unwrap();
    let first = context.run(inputs).unwrap();
    // Later runs replay a graph.
    assert_eq!(context.run(inputs).unwrap(), first);
    (first, plan)
}

/// The names of the selected tactics of all operators with candidates.
fn chosen(plan: &Plan) -> Vec<&'static str> {
    let all = plan.selections().iter().filter(|selection| !selection.candidates.is_empty());
    all.map(|selection| selection.candidates[selection.chosen.unwrap()].tactic.name).collect()
}

/// The plan after saving and loading.
fn stored(plan: &Plan, device: &Device, layers: CudaLayers) -> Plan {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stored.plan");
    plan.save(&path).unwrap();
    let file = PlanFile::open(&path, &Limits::default()).unwrap();
    let loaded = file.with_device(device.clone(), layers).load().unwrap();
    assert_eq!(loaded.selections(), plan.selections());
    loaded
}

/// Forces a tactic, which `count` operators of the graph have, on both emulators.
fn by(tactic: &str, count: usize, tf32: Tf32, make: &dyn Fn() -> Builder, inputs: &[Tensor], tolerance: f64) {
    let (wanted, _) = run(make(), inputs);
    for device in emulators() {
        let layers = CudaLayers::default().with_tf32(tf32);
        let builder = make().with_tactics([tactic]).with_device(device.clone(), layers.clone());
        let (found, plan) = run(builder, inputs);
        assert_eq!(stored(&plan, device, layers).context().unwrap().run(inputs).unwrap(), found);
        assert_eq!(chosen(&plan).into_iter().filter(|name| *name == tactic).count(), count, "{tactic}");
        for (found, wanted) in found.iter().zip(&wanted) {
            let comparison = found.allclose(wanted, tolerance, tolerance, true).unwrap();
            assert!(comparison.holds(), "{tactic}: {comparison}");
        }
    }
}

const TILES: [&str; 2] = ["tiles-128", "tiles-64"];

#[test]
fn products_by_each_tactic() {
    for (dtype, tolerance) in [(DType::F32, 1e-2), (DType::F16, 2e-2), (DType::Bf16, 1e-1)] {
        let name = dtype.name();
        let inputs = [noise(dtype, &[140, 40], 1), noise(dtype, &[40, 70], 2)];
        let linear = format!(
            "nn.Linear l 1 1 a y bias=True in_features=70 out_features=9 @bias=(9){name} @weight=(9,70){name}"
        );
        let lines = ["torch.matmul m 2 1 x x1 a $input=x $other=x1", &linear];
        let make = || builder(&several(&lines, &inputs));
        for tactic in TILES {
            by(tactic, 2, Tf32::ALL, &make, &inputs, tolerance);
        }
        // Only f32 has a tactic without tensor cores.
        by("plain", if dtype == DType::F32 { 2 } else { 0 }, Tf32::ALL, &make, &inputs, tolerance);
    }
}

const CONVOLUTIONS: [&str; 3] = [
    "nn.Conv2d c 1 1 x a bias=True dilation=(1,1) groups=1 in_channels=6 kernel_size=(3,3) out_channels=32 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(32)f32 @weight=(32,6,3,3)f32",
    "nn.ReLU r 1 1 a b",
    "nn.ConvTranspose2d t 1 1 b y bias=True dilation=(1,1) groups=1 in_channels=32 kernel_size=(2,2) out_channels=10 output_padding=(0,0) padding=(0,0) stride=(2,2) @bias=(10)f32 @weight=(32,10,2,2)f32",
];

#[test]
fn convolutions_by_each_tactic() {
    let inputs = [noise(DType::F32, &[2, 6, 9, 8], 1)];
    let make = || builder(&several(&CONVOLUTIONS, &inputs));
    by("tiles-128", 2, Tf32::ALL, &make, &inputs, 2e-2);
    by("tiles-64", 2, Tf32::ALL, &make, &inputs, 2e-2);
    by("plain", 2, Tf32::ALL, &make, &inputs, 1e-5);
    let narrow = || make().with_precisions([Precision::F16]).with_formats(Formats::Narrowest);
    for tactic in TILES {
        by(tactic, 2, Tf32::NONE, &narrow, &inputs, 5e-2);
    }
}

#[test]
fn int8_by_each_tactic() {
    let inputs = [noise(DType::F32, &[2, 6, 8, 8], 1)];
    let lines = [
        CONVOLUTIONS[0],
        "torch.flatten f 1 1 a b start_dim=1 end_dim=-1",
        "nn.Linear l 1 1 b y bias=True in_features=2048 out_features=7 @bias=(7)f32 @weight=(7,2048)f32",
    ];
    let scales: Scales = [("x", 0.02), ("a", 0.05), ("b", 0.05)].into_iter().collect();
    let make = || {
        let builder = builder(&several(&lines, &inputs)).with_formats(Formats::Narrowest);
        builder.with_precisions([Precision::Int8]).with_scales(scales.clone())
    };
    for tactic in TILES {
        by(tactic, 2, Tf32::NONE, &make, &inputs, 1e-6);
    }
}

#[cfg(feature = "cli")]
#[test]
fn the_command_tunes_for_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let ixion = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ixion"));
        command.args(args).args(["--device", "cuda-emulator"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        command
            .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/command"))
            .env_remove("RUST_LOG");
        let ended = command.output().unwrap();
        let said = [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        said.concat()
    };
    let [timings, tuned] = ["timings.json", "tuned.plan"].map(|name| folder.path().join(name));
    let (timings, tuned) = (timings.to_str().unwrap(), tuned.to_str().unwrap());
    let model = "model_file/digits/digits.pnnx.param";
    let said = ixion(&["build", model, "-o", tuned, "--tune", "--timing-cache", timings]);
    assert!(said.contains("tuned.plan: "), "{said}");
    assert!(!TimingCache::open(timings).is_empty());
    let shown = ixion(&["plan", tuned]);
    let is_measured =
        |line: &&str| line.contains("f32 cuda") && line.contains("tiles-64") && !line.contains('~');
    assert!(shown.lines().filter(is_measured).count() > 1, "{shown}");
    let said = ixion(&["run", tuned, "--input", "model_file/digits/samples/7.png"]);
    assert!(said.contains('7') && !said.contains("error"), "{said}");
    let said = ixion(&["plan", model, "--tactic", "tiles", "--without-tactic", "nonsense"]);
    assert!(said.contains("no operator has a tactic `nonsense`") && !said.contains("`tiles`"), "{said}");
}

/// The tactics offered for the only operator of a graph in row-major order.
fn offered(text: &str, tf32: Tf32) -> Vec<&'static str> {
    let layers = CudaLayers::default().with_tf32(tf32);
    let plain = builder(text).with_formats(Formats::Plain);
    let plan = plain.with_device(emulators()[0].clone(), layers).build().unwrap();
    plan.selections()[0].candidates.iter().map(|candidate| candidate.tactic.name).collect()
}

#[test]
fn equivalent_tactics_are_not_offered() {
    let all = ["default", "tiles-128", "tiles-64", "plain"];
    let product = |dtype: DType| {
        let inputs = [noise(dtype, &[4, 5], 1), noise(dtype, &[5, 6], 2)];
        one("torch.mm m 2 1 x x1 y $input=x $mat2=x1", &inputs)
    };
    assert_eq!(offered(&product(DType::F32), Tf32::ALL), all);
    assert_eq!(offered(&product(DType::F32), Tf32::default()), ["default"]);
    assert_eq!(offered(&product(DType::F16), Tf32::NONE), all[..3]);
    for dtype in [DType::F64, DType::I32, DType::I8] {
        assert_eq!(offered(&product(dtype), Tf32::ALL), ["default"]);
    }
    let inputs = [noise(DType::F32, &[1, 4, 5, 5], 1)];
    let convolution = |groups: usize| {
        let weights = format!("@weight=(4,{},3,3)f32", 4 / groups);
        one(
            &format!(
                "nn.Conv2d c 1 1 x y bias=False dilation=(1,1) groups={groups} in_channels=4 kernel_size=(3,3) out_channels=4 padding=(1,1) padding_mode=zeros stride=(1,1) {weights}"
            ),
            &inputs,
        )
    };
    assert_eq!(offered(&convolution(1), Tf32::default()), all);
    assert_eq!(offered(&convolution(4), Tf32::default()), ["default"]);
    let without = builder(&convolution(1)).with_formats(Formats::Plain).without_tactics(["tiles"]);
    let without = without.with_device(emulators()[0].clone(), CudaLayers::default()).build().unwrap();
    assert_eq!(without.selections()[0].candidates.len(), 2);
    assert_eq!(chosen(&without), ["default"]);
}

/// Copies its input on a device, with a slow tactic, a fast one, and one whose kernel does not compile.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    tactics: &'static [Tactic],
    on_device: u32,
    runs: Arc<AtomicUsize>,
}

pub(crate) const SLOW: Tactic = Tactic { id: 3, name: "slow" };
pub(crate) const QUICK: Tactic = Tactic { id: 8, name: "quick" };
pub(crate) const BROKEN: Tactic = Tactic { id: 9, name: "broken" };

impl Layer for Copy {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(inputs.to_vec())
    }
}

impl CpuLayer for Copy {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }
}

const COPY: &str = r#"
#include "common.cuh"

extern "C" __global__ void copy(const f32* x, f32* y, i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) y[i] = x[i];
    FAULT
}"#;

impl CudaLayer for Copy {
    fn tactics(&self, _: &Info) -> Vec<Tactic> {
        self.tactics.to_vec()
    }

    fn set_tactic(&mut self, id: u32) -> Result<()> {
        if self.tactics.iter().all(|tactic| tactic.id != id) {
            return Err(ixion::cuda::no_tactic(id));
        }
        self.on_device = id;
        Ok(())
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        if self.on_device == SLOW.id {
            std::thread::sleep(Duration::from_millis(20));
        }
        let fault = if self.on_device == BROKEN.id { "y[0] = nothing;" } else { "" };
        let kernel = io.context.kernel(&Unit::new("mine.cu", COPY).define("FAULT", fault), "copy")?;
        let count = io.outputs[0].num_elements();
        let arguments =
            [Argument::Read(io.inputs[0]), Argument::Write(io.outputs[0]), Argument::Long(count as i64)];
        io.context.launch(&kernel, Grid::over(count), &arguments)
    }
}

pub(crate) const MODEL: &str =
    "7767517\n3 2\npnnx.Input in 0 1 x #x=(?,3)f32\nmy.Copy copy 1 1 x y\npnnx.Output out 1 0 y\n";

/// A registry with a layer that has these tactics, and a counter of its runs.
fn registry(tactics: &'static [Tactic]) -> (Registry, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let create = move |_: &mut OperatorReader<'_>| {
        let layer = Copy { tactics, on_device: tactics[0].id, runs: Arc::clone(&counted) };
        Ok(Box::new(layer) as Box<dyn CpuLayer>)
    };
    let mut registry = Registry::default();
    registry.add("my.Copy", Creator::new("test", "1", create)).unwrap();
    (registry, runs)
}

pub(crate) fn layers() -> CudaLayers {
    let mut layers = CudaLayers::default();
    layers.register::<Copy>();
    layers
}

/// A plan of one such layer for a device, and the number of its runs while the plan was built.
pub(crate) fn built(
    device: &Device,
    tactics: &'static [Tactic],
    cache: Option<TimingCache>,
) -> (Plan, Arc<AtomicUsize>) {
    let (registry, runs) = registry(tactics);
    let builder = builder(MODEL).with_registry(registry).with_device(device.clone(), layers());
    let builder = match cache {
        Some(cache) => builder.with_tuning(cache),
        None => builder,
    };
    (builder.build().unwrap(), runs)
}

fn count(runs: &AtomicUsize) -> usize {
    runs.load(Ordering::Relaxed)
}

fn x() -> Tensor {
    noise(DType::F32, &[5, 3], 1)
}

#[test]
fn the_quickest_is_found_by_running_all() {
    for device in emulators() {
        let held = device.allocations();
        let (plan, runs) = built(device, &[SLOW, QUICK], Some(TimingCache::in_memory()));
        assert_eq!(chosen(&plan), ["quick"]);
        assert!(count(&runs) >= 4, "{} runs", count(&runs));
        let selection = &plan.selections()[0];
        let prices: Vec<f64> = selection.candidates.iter().map(|candidate| candidate.price).collect();
        assert!(selection.candidates.iter().all(|candidate| candidate.is_measured));
        assert!(prices[0] > 2e7 && prices[1] < prices[0], "{prices:?}");
        assert_eq!(plan.context().unwrap().run(&[x()]).unwrap(), [x()]);
        drop(plan);
        assert!(device.allocations() <= held, "tuning releases its memory");
    }
}

#[test]
fn nothing_runs_without_need() {
    let device = &emulators()[0];
    let (plan, runs) = built(device, &[SLOW, QUICK], None);
    assert_eq!((chosen(&plan), count(&runs)), (vec!["slow"], 0), "the tactic for general use");
    let (_, runs) = built(device, &[QUICK], Some(TimingCache::in_memory()));
    assert_eq!(count(&runs), 0, "there is nothing to choose from");
}

#[test]
fn failing_tactics_are_skipped() {
    let device = &emulators()[0];
    let (plan, _) = built(device, &[BROKEN, SLOW], Some(TimingCache::in_memory()));
    assert_eq!((chosen(&plan), plan.selections()[0].candidates.len()), (vec!["slow"], 1));
    // If all fail, a run reports the reason.
    let (plan, _) =
        built(device, &[BROKEN, Tactic { id: 9, name: "as-broken" }], Some(TimingCache::in_memory()));
    assert_eq!((chosen(&plan), plan.selections()[0].candidates.len()), (vec!["broken"], 2));
    let error = plan.context().unwrap().run(&[x()]).unwrap_err().to_string();
    assert!(error.contains("my.Copy") && error.contains("`copy`") && error.contains("mine.cu"), "{error}");
}

#[test]
fn what_was_measured_once_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timings.json");
    let [device, other] = emulators();
    let build = |device: &Device| {
        let (plan, runs) = built(device, &[SLOW, QUICK], Some(TimingCache::open(&path)));
        assert_eq!(chosen(&plan), ["quick"]);
        count(&runs)
    };
    assert!(build(device) > 0);
    assert_eq!(build(device), 0);
    assert!(build(other) > 0, "another device has other times");
    assert_eq!((build(device), build(other)), (0, 0));
    assert_eq!(TimingCache::open(&path).len(), 4);
    // A damaged cache, and one that cannot be written.
    std::fs::write(&path, "{ \"version\": 1, \"devi").unwrap();
    assert!(build(device) > 0);
    assert_eq!(TimingCache::open(&path).len(), 2);
    let (plan, runs) = built(device, &[SLOW, QUICK], Some(TimingCache::open(folder.path())));
    assert!(count(&runs) > 0 && chosen(&plan) == ["quick"]);
}

fn loaded(path: &Path, tactics: &'static [Tactic]) -> Result<(Plan, Arc<AtomicUsize>), String> {
    let file = PlanFile::open(path, &Limits::default()).unwrap();
    let (registry, runs) = registry(tactics);
    let file = file.with_registry(registry).with_device(emulators()[0].clone(), layers());
    file.load().map(|plan| (plan, runs)).map_err(|error| error.to_string())
}

#[test]
fn a_plan_keeps_what_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.plan");
    let (plan, _) = built(&emulators()[0], &[SLOW, QUICK], Some(TimingCache::in_memory()));
    plan.save(&path).unwrap();
    let (again, runs) = loaded(&path, &[SLOW, QUICK]).unwrap();
    assert_eq!((chosen(&again), count(&runs)), (vec!["quick"], 0));
    assert_eq!(again.selections(), plan.selections());
    assert_eq!(again.context().unwrap().run(&[x()]).unwrap(), [x()]);
    let error = loaded(&path, &[SLOW]).unwrap_err();
    assert!(error.contains("`copy` has no tactic 8"), "{error}");
    // A different order of tactics does not matter.
    assert_eq!(chosen(&loaded(&path, &[QUICK, SLOW]).unwrap().0), ["quick"]);
}

#[test]
fn models_are_tuned_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let timings = folder.path().join("timings.json");
    let inputs = [noise(DType::F32, &[2, 6, 9, 8], 1)];
    let make = || builder(&several(&CONVOLUTIONS, &inputs)).with_precisions([Precision::F16]);
    let (wanted, _) = run(make().with_precisions([]), &inputs);
    let device = &emulators()[0];
    let tuned = || {
        let before = device.launches();
        let builder = make().with_device(device.clone(), CudaLayers::default());
        let plan = builder.with_tuning(TimingCache::open(&timings)).build().unwrap();
        (plan, device.launches() - before)
    };
    let (plan, _) = tuned();
    let candidates = || plan.selections().iter().flat_map(|selection| &selection.candidates);
    // Each convolution has four tactics in f32 and three in f16.
    assert_eq!(candidates().filter(|candidate| candidate.is_measured).count(), candidates().count());
    assert!(candidates().count() >= 14, "{}", candidates().count());
    let text = std::fs::read_to_string(&timings).unwrap();
    assert!(text.contains("gpu emulator on the CPU") && text.contains("ixion.Reformat | "), "{text}");
    let known = TimingCache::open(&timings).len();
    tuned();
    assert_eq!(TimingCache::open(&timings).len(), known);
    let loaded = stored(&plan, device, CudaLayers::default());
    for plan in [plan, loaded] {
        let found = plan.context().unwrap().run(&inputs).unwrap();
        let comparison = found[0].allclose(&wanted[0], 5e-2, 5e-2, true).unwrap();
        assert!(comparison.holds(), "{comparison}");
    }
}
