//! Selection of tactics by timing.

use ixion::Limits;
use ixion::engine::{Builder, Plan, TimingCache};
use ixion::op::{CpuLayer, Creator, Io, Layer, LayerError, OperatorReader, Registry, Tactic, TensorMeta};
use ixion::pnnx;
use ixion::tensor::Tensor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Copies its input, the slower the higher the number of its tactic is not.
#[derive(Debug, Clone)]
struct Copy {
    tactics: &'static [Tactic],
    tactic: u32,
    runs: Arc<AtomicUsize>,
}

const TWO: &[Tactic] = &[Tactic { id: 3, name: "slow" }, Tactic { id: 8, name: "quick" }];

impl Layer for Copy {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Copy {
    fn tactics(&self) -> Vec<Tactic> {
        self.tactics.to_vec()
    }

    fn set_tactic(&mut self, id: u32) -> Result<(), LayerError> {
        self.tactic = id;
        Ok(())
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        if self.tactic == 3 {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }
}

/// A plan of one such layer, and the number of its runs while the plan was built.
fn built(tactics: &'static [Tactic], cache: Option<TimingCache>) -> (Plan, usize) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let create = move |_: &mut OperatorReader<'_>| {
        let layer = Copy { tactics, tactic: tactics[0].id, runs: Arc::clone(&counted) };
        Ok(Box::new(layer) as Box<dyn CpuLayer>)
    };
    let mut registry = Registry::default();
    registry.add("my.Copy", Creator::new("test", "1", create)).unwrap();
    let text = "7767517\n3 0\npnnx.Input in 0 1 x #x=(2,3)f32\nmy.Copy copy 1 1 x y\npnnx.Output out 1 0 y\n";
    let mut builder =
        Builder::from_pnnx(pnnx::Graph::parse(text, &Limits::default()).unwrap()).with_registry(registry);
    if let Some(cache) = cache {
        builder = builder.with_tuning(cache);
    }
    let plan = builder.build().unwrap();
    (plan, runs.load(Ordering::Relaxed))
}

fn chosen(plan: &Plan) -> &'static str {
    let selection = &plan.selections()[0];
    selection.candidates[selection.chosen.unwrap()].tactic.name
}

#[test]
fn the_quickest_tactic_is_found_by_running_all() {
    let (plan, runs) = built(TWO, Some(TimingCache::in_memory()));
    assert_eq!(chosen(&plan), "quick");
    assert!(runs >= 4, "{runs} runs");
    let prices: Vec<f64> = plan.selections()[0].candidates.iter().map(|candidate| candidate.price).collect();
    assert!(prices[0] > 2e7 && prices[1] < prices[0], "{prices:?}");
    let x = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
    assert_eq!(plan.context().unwrap().run(&[x.clone()]).unwrap(), [x]);
}

#[test]
fn nothing_runs_without_need() {
    let (plan, runs) = built(TWO, None);
    assert_eq!((chosen(&plan), runs), ("slow", 0), "the tactic for general use, by the cost model");
    let (_, runs) = built(&[Tactic::DEFAULT], Some(TimingCache::in_memory()));
    assert_eq!(runs, 0, "there is nothing to choose from");
}

#[test]
fn what_was_measured_once_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timings.json");
    let (_, first) = built(TWO, Some(TimingCache::open(&path)));
    let (plan, second) = built(TWO, Some(TimingCache::open(&path)));
    assert!(first > 0 && second == 0, "{first} and {second} runs");
    assert_eq!(chosen(&plan), "quick");
    assert_eq!(TimingCache::open(&path).len(), 2);
}

#[test]
fn a_damaged_or_unwritable_cache_only_costs_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timings.json");
    std::fs::write(&path, "{ \"version\": 1, \"devi").unwrap();
    let (plan, runs) = built(TWO, Some(TimingCache::open(&path)));
    assert!(runs > 0 && chosen(&plan) == "quick");
    assert_eq!(TimingCache::open(&path).len(), 2, "it was replaced");

    // A folder can neither be read nor replaced like a file.
    let (plan, runs) = built(TWO, Some(TimingCache::open(folder.path())));
    assert!(runs > 0 && chosen(&plan) == "quick");
}

#[test]
fn models_are_tuned_as_a_whole() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/digits.pnnx.param");
    let cache = || TimingCache::in_memory();
    let plan = Builder::new(model).with_tuning(cache()).with_threads(2).build().unwrap();
    let measured = plan.selections().iter().flat_map(|selection| &selection.candidates);
    assert!(measured.filter(|candidate| candidate.price > 0.0).count() > 10);
    let x = Tensor::from_vec(vec![0.5f32; 64], &[1, 1, 8, 8]).unwrap();
    let want = Builder::new(model).build().unwrap().context().unwrap().run(&[x.clone()]).unwrap();
    let got = plan.context().unwrap().run(&[x]).unwrap();
    assert!(got[0].allclose(&want[0], 1e-4, 1e-5, true).unwrap().holds());
}
