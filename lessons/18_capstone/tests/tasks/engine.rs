//! Task 6: the plugin in an engine.

use super::*;
use ixion::engine::{Builder, Calibration, EngineError, Method, Plan, PlanFile, Scales};
use ixion::op::{Registry, Result};
use ixion::tensor::Picture;
use ixion::vision::ModelCard;
use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::ThreadId;

fn digits() -> Builder {
    Builder::new(model_file("digits/digits.pnnx.param"))
}

fn batch(len: usize) -> Vec<Tensor> {
    let pictures = Tensor::load_npy(model_file("digits/in_0.npy"), &Limits::default()).unwrap();
    vec![pictures.narrow(0, 0, len).unwrap()]
}

const DIGITS: [&[usize]; 3] = [&[1, 1, 8, 8], &[4, 1, 8, 8], &[8, 1, 8, 8]];

#[test]
fn task6_one_plan_has_a_range_of_shapes() {
    let plan = plan_for(digits(), "pnnx_input_0", DIGITS, None).unwrap();
    let range = &plan.profile().expect("`with_range` creates a profile").ranges()[0];
    assert_eq!((range.min(), range.optimum(), range.max()), (DIGITS[0], DIGITS[1], DIGITS[2]));
    let error = plan.context().unwrap().run(&batch(9)).unwrap_err().to_string();
    assert!(error.contains("axis 0") && error.contains("allows 1 to 8"), "{error}");
    let error = plan_for(digits(), "pnnx_input_0", [DIGITS[1], DIGITS[0], DIGITS[2]], None);
    assert!(error.is_err(), "the range is checked: the optimum is below the minimum here");
}

#[test]
fn task6_outputs_are_in_the_order_of_the_inputs() {
    let plan = plan_for(digits(), "pnnx_input_0", DIGITS, None).unwrap();
    let inputs: Vec<Vec<Tensor>> = [5, 1, 8, 2, 3].into_iter().map(batch).collect();
    let mut context = plan.context().unwrap();
    let wanted: Vec<Vec<Tensor>> = inputs.iter().map(|inputs| context.run(inputs).unwrap()).collect();
    for threads in [1, 2, 3, 9] {
        let outputs = run_all(&plan, &inputs, threads).unwrap();
        assert_eq!(outputs.len(), 5, "{threads} threads: are some inputs forgotten?");
        assert!(
            outputs == wanted,
            "{threads} threads: the outputs differ from those of one context, or their order does"
        );
    }
    assert!(run_all(&plan, &[], 2).unwrap().is_empty(), "nothing to do: `chunks(0)` would panic");
    let error = run_all(&plan, &[batch(1), batch(9)], 2).unwrap_err().to_string();
    assert!(error.contains("allows 1 to 8"), "`run_all` must return the error of a thread: {error}");
}

/// Returns its input, and records on which thread it runs.
#[derive(Debug, Clone)]
struct Seen(Arc<Mutex<HashSet<ThreadId>>>);

impl Layer for Seen {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(inputs.to_vec())
    }
}

impl CpuLayer for Seen {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.0.lock().unwrap().insert(std::thread::current().id());
        io.outputs[0].array::<f32>()?.assign(&io.inputs[0].array::<f32>()?);
        Ok(())
    }
}

#[test]
fn task6_each_share_has_a_thread() {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let mut registry = Registry::default();
    let layer = Seen(Arc::clone(&seen));
    let create = move |_: &mut OperatorReader<'_>| Ok(Box::new(layer.clone()) as Box<dyn CpuLayer>);
    registry.replace("nn.ReLU", Creator::new("tests", "1", create));
    let builder = digits().with_registry(registry).with_passes(ixion::passes::Passes::empty());
    let plan = plan_for(builder, "pnnx_input_0", DIGITS, None).unwrap();
    seen.lock().unwrap().clear();
    run_all(&plan, &[batch(1), batch(2), batch(3), batch(4)], 2).unwrap();
    assert_eq!(seen.lock().unwrap().len(), 2, "four inputs, two threads");
}

#[test]
fn task6_a_saved_plan_comes_back_with_its_plugin() {
    let builder = || digits().with_registry(registry().unwrap());
    let mut calibration = Calibration::new(builder()).unwrap();
    calibration.see_range(batch(8)).unwrap();
    let scales = calibration.scales(Method::MinMax);
    let plan = plan_for(builder(), "pnnx_input_0", DIGITS, Some(&scales)).unwrap();
    let wanted = run_all(&plan, &[batch(3)], 1).unwrap();

    let name = format!("ixion-18-{}-{:?}.plan", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    plan.save(&path).unwrap();
    let open = || PlanFile::open(&path, &Limits::default()).unwrap();
    let (loaded, without) = (open().with_registry(registry().unwrap()).load(), open().load());
    std::fs::remove_file(&path).unwrap();
    let outputs = run_all(&loaded.unwrap(), &[batch(3)], 1).unwrap();
    assert_eq!(outputs, wanted, "the layers are restored with their state, and give the same bits");
    let error = without.unwrap_err().to_string();
    assert!(
        error.contains("Conv2d") && error.contains("course"),
        "the error must name the missing plugin: {error}"
    );
}

fn unet() -> Builder {
    Builder::new(model_file("shapes_unet/shapes_unet.pnnx.param"))
}

/// The centre of a picture, in three sizes.
fn pictures() -> Vec<Vec<Tensor>> {
    let limits = Limits::default();
    let card = ModelCard::load(model_file("shapes_unet/model.toml")).unwrap();
    let picture = Picture::load(model_file("shapes_unet/samples/1.png"), &limits).unwrap();
    let (input, _) = card.prepare(&picture, &limits).unwrap();
    let middle = |size: usize| {
        let at = (128 - size) / 2;
        vec![input.narrow(2, at, size).unwrap().narrow(3, at, size).unwrap()]
    };
    [64, 96, 72].into_iter().map(middle).collect()
}

const UNET: [&[usize]; 3] = [&[1, 3, 64, 64], &[1, 3, 72, 72], &[1, 3, 96, 96]];

fn unet_plan(builder: Builder, scales: Option<&Scales>) -> Result<Plan, EngineError> {
    plan_for(builder, "pnnx_input_0", UNET, scales)
}

/// The number of operators that the plugin runs, and how many of them read and write int8.
fn plugins(plan: &Plan) -> (usize, usize) {
    let graph = plan.graph();
    let own: Vec<_> = graph.operators().iter().filter(|it| it.op_type() == "course/Conv2d/1").collect();
    let is_int8 = |operand| graph.operand(operand).scale().is_some();
    let in_int8 = own.iter().filter(|it| is_int8(it.inputs()[0]) && is_int8(it.outputs()[0])).count();
    (own.len(), in_int8)
}

/// The class of each pixel.
fn classes(scores: &Tensor) -> Vec<usize> {
    let scores = scores.array::<f32>().unwrap().into_dimensionality::<Ix4>().unwrap();
    let (_, count, height, width) = scores.dim();
    let best = |y: usize, x: usize| {
        (0..count).max_by(|&a, &b| scores[[0, a, y, x]].total_cmp(&scores[[0, b, y, x]])).unwrap()
    };
    (0..height * width).map(|pixel| best(pixel / width, pixel % width)).collect()
}

#[test]
fn task6_a_unet_runs_on_the_plugin_at_three_sizes() {
    let inputs = pictures();
    let wanted = run_all(&unet_plan(unet(), None).unwrap(), &inputs, 1).unwrap();

    let plan = unet_plan(unet().with_registry(registry().unwrap()), None).unwrap();
    assert_eq!(plugins(&plan), (15, 0), "all convolutions are the plugin's, in f32");
    let outputs = run_all(&plan, &inputs, 2).unwrap();
    for (output, wanted) in outputs.iter().zip(&wanted) {
        assert_eq!(output[0].shape(), wanted[0].shape());
        let [y, wanted] = [&output[0], &wanted[0]].map(|tensor| tensor.to_vec::<f32>().unwrap());
        let off = y.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(off < 1e-2, "{off} off the scores of Ixion's own convolution");
    }

    let mut calibration = Calibration::new(unet().with_registry(registry().unwrap())).unwrap();
    calibration.see_range(inputs[1].clone()).unwrap();
    let scales = calibration.scales(Method::MinMax);
    let plan = unet_plan(unet().with_registry(registry().unwrap()), Some(&scales)).unwrap();
    assert_eq!(plugins(&plan), (15, 15), "with scales, all of them are in int8");
    let outputs = run_all(&plan, &inputs, 2).unwrap();
    for (output, wanted) in outputs.iter().zip(&wanted) {
        let (found, wanted) = (classes(&output[0]), classes(&wanted[0]));
        let same = found.iter().zip(&wanted).filter(|(a, b)| a == b).count() as f64 / found.len() as f64;
        assert!(same > 0.97, "only {:.1} % of the pixels have the class that they have in f32", 100.0 * same);
    }
}
