//! The engine's public API: contexts and threads, changing shapes, caller-provided buffers, donations, and runs that end early.

mod failures;

use crate::common::layers::{TIMES_OUT, TOUCHY, registry, tell_when_waiting, with};
use ixion::engine::{Builder, Context, EngineError, Model, Plan};
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::memory::Root;
use ixion::pnnx;
use ixion::shape::{InputRange, ShapeError};
use ixion::tensor::{DType, Tensor, TensorView};
use ixion::{Limits, engine};
use std::sync::Arc;
use std::time::Duration;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/digits.pnnx.param");

fn digits() -> Tensor {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/in_0.npy");
    Tensor::load_npy(path, &Limits::default()).unwrap()
}

fn graph(text: &str) -> pnnx::Graph {
    let (operators, operands) = (text.lines().count(), 0);
    let text = format!("7767517\n{operators} {operands}\n{text}\n");
    pnnx::Graph::parse(&text, &Limits::default()).unwrap()
}

fn plan(text: &str) -> Plan {
    Builder::from_pnnx(graph(text)).with_registry(registry()).build().unwrap()
}

fn interpreted(text: &str, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut graph = RuntimeGraph::from_pnnx(graph(text)).with_registry(registry());
    graph.build().unwrap();
    graph.run_with(inputs.to_vec()).unwrap()
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().unwrap()
}

#[test]
fn a_model_runs_in_one_line() {
    let outputs = Model::load(DIGITS).unwrap().run(&[digits()]).unwrap();
    let mut graph = RuntimeGraph::new(DIGITS);
    graph.build().unwrap();
    let wanted = graph.run_with(vec![digits()]).unwrap();
    let difference = outputs[0].max_abs_diff(&wanted[0]);
    assert!(difference < 1e-4, "{difference}");
}

trait Difference {
    fn max_abs_diff(&self, other: &Tensor) -> f32;
}

impl Difference for Tensor {
    fn max_abs_diff(&self, other: &Tensor) -> f32 {
        assert_eq!(self.shape(), other.shape());
        values(self).iter().zip(values(other)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }
}

#[test]
fn four_contexts_on_two_threads_have_the_bits_of_one() {
    for threads in [1, 2, 3] {
        let plan = Builder::new(DIGITS).with_threads(threads).build().unwrap();
        assert_eq!(plan.threads(), threads);
        let wanted = Model::load(DIGITS).unwrap().run(&[digits()]).unwrap();
        let run = |mut contexts: Vec<Context<'_>>| {
            for _ in 0..3 {
                for context in &mut contexts {
                    assert_eq!(context.run(&[digits()]).unwrap(), wanted);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let contexts = (0..2).map(|_| plan.context().unwrap()).collect();
                scope.spawn(move || run(contexts));
            }
        });
    }
}

#[test]
fn no_number_of_threads_stands_for_all_there_are() {
    let all = std::thread::available_parallelism().unwrap().get();
    assert_eq!(Builder::new(DIGITS).with_threads(0).build().unwrap().threads(), all);
}

#[test]
fn a_shared_plan_outlives_its_maker() {
    let plan = Arc::new(Builder::new(DIGITS).build().unwrap());
    let mut context = Context::shared(Arc::clone(&plan)).unwrap();
    drop(plan);
    let thread = std::thread::spawn(move || context.run(&[digits()]).unwrap().len());
    assert_eq!(thread.join().unwrap(), 1);
}

#[test]
fn batches_of_other_sizes_come_and_go() {
    let plan = Builder::new(DIGITS).build().unwrap();
    let mut context = plan.context().unwrap();
    let all = digits();
    let wanted = context.run(&[all.clone()]).unwrap().remove(0);
    for len in [1, 4, 10, 4, 1, 10] {
        let outputs = context.run(&[all.narrow(0, 0, len).unwrap()]).unwrap();
        let difference = outputs[0].max_abs_diff(&wanted.narrow(0, 0, len).unwrap());
        assert!(difference < 1e-5, "{len}: {difference}");
    }
}

const CHAIN: &str = "pnnx.Input input 0 1 x #x=(?,4)f32
F.relu a 1 1 x 1
torch.permute b 1 1 1 2 dims=(1,0)
F.sigmoid c 1 1 2 y
pnnx.Output output 1 0 y";

#[test]
fn inputs_and_buffers_may_be_strided() {
    let x = Tensor::from_vec((0..12).map(|i| i as f32 - 6.0).collect(), &[4, 3]).unwrap();
    let turned = x.permute(&[1, 0]).unwrap();
    let wanted = interpreted(CHAIN, &[turned.clone()]).remove(0);
    let plan = plan(CHAIN);
    let mut context = plan.context().unwrap();
    assert_eq!(context.run(&[turned.clone()]).unwrap(), [wanted.clone()]);
    let mut wide = Tensor::zeros(DType::F32, &[4, 6]).unwrap();
    let half = wide.layout().narrow(1, 2, 3).unwrap();
    let buffer = wide.view_mut().unwrap().with_layout(half).unwrap();
    context.run_into(&[turned.view()], &mut [buffer]).unwrap();
    assert_eq!(wide.narrow(1, 2, 3).unwrap(), wanted);
    assert!(values(&wide.narrow(1, 0, 2).unwrap()).iter().all(|x| *x == 0.0));
}

#[test]
fn buffers_that_do_not_fit_are_refused_and_the_context_runs_on() {
    let plan = plan(CHAIN);
    let mut context = plan.context().unwrap();
    let x = Tensor::zeros(DType::F32, &[3, 4]).unwrap();
    let mut small = Tensor::zeros(DType::F32, &[3, 4]).unwrap();
    let error = context.run_into(&[x.view()], &mut [small.view_mut().unwrap()]).unwrap_err().to_string();
    assert_eq!(error, "the buffer for output `output` is 3×4 f32, but the output is 4×3 f32");
    assert!(matches!(context.run_into(&[x.view()], &mut []), Err(EngineError::OutputCount { .. })));
    assert_eq!(context.run(&[x.clone()]).unwrap()[0].shape().dims(), [4, 3]);
    let reused = context.run_reusing(&[x.view()]).unwrap();
    assert_eq!(reused[0].as_ref().unwrap().shape().dims(), [4, 3]);
}

#[test]
fn what_is_returned_may_be_anything() {
    // An input, the same output twice, a view of it, a constant, and a view of the input.
    let text = "pnnx.Input input 0 1 x #x=(2,3)f32
pnnx.Expression constant 0 1 k expr=2.5
F.relu relu 1 1 x y
torch.permute turned 1 1 y z dims=(1,0)
torch.flatten flat 1 1 x w start_dim=0
pnnx.Output output 6 0 x y y z k w";
    let x = Tensor::from_vec(vec![-1.0f32, 2.0, -3.0, 4.0, -5.0, 6.0], &[2, 3]).unwrap();
    let plan = plan(text);
    let mut context = plan.context().unwrap();
    for _ in 0..2 {
        assert_eq!(context.run(&[x.clone()]).unwrap(), interpreted(text, &[x.clone()]));
    }
}

#[test]
fn sizes_that_depend_on_values_are_found_while_running() {
    let text = "pnnx.Input input 0 1 x #x=(?)f32
F.relu relu 1 1 x y
aten::nonzero places 1 1 y p
Tensor.to floats 1 1 p f dtype=torch.float
torch.sum sum 1 1 f s dim=(0)
pnnx.Expression more 2 1 s y t expr=add(@0,@1)
pnnx.Output output 3 0 f t y";
    let plan = plan(text);
    let mut context = plan.context().unwrap();
    for x in [&[1.0f32, -1.0, 2.0, 3.0][..], &[0.0, 0.0, 0.0, 0.5], &[1.0, 1.0, 1.0, 1.0]] {
        let x = floats(x);
        assert_eq!(context.run(&[x.clone()]).unwrap(), interpreted(text, &[x]));
    }
    let mut buffers: Vec<Tensor> = interpreted(text, &[floats(&[1.0, 0.0])]);
    let [a, b, c] = &mut buffers[..] else { panic!() };
    let mut views = [a.view_mut().unwrap(), b.view_mut().unwrap(), c.view_mut().unwrap()];
    context.run_into(&[floats(&[0.0, 7.0]).view()], &mut views).unwrap();
    assert_eq!(values(&buffers[2]), [0.0, 7.0]);
    let mut views: Vec<_> = buffers.iter_mut().map(|buffer| buffer.view_mut().unwrap()).collect();
    let error = context.run_into(&[floats(&[1.0, 7.0]).view()], &mut views).unwrap_err();
    assert!(matches!(error, EngineError::OutputBuffer { .. }), "{error}");
}

const CACHE: &str = "pnnx.Input cache 0 1 c #c=(4)f32
pnnx.Input step 0 1 x #x=(4)f32
test.Accumulate add 2 1 c x y
F.relu read 1 1 y r
pnnx.Output next 1 0 y
pnnx.Output result 1 0 r";

#[test]
fn a_donated_input_becomes_the_output() {
    let builder = || Builder::from_pnnx(graph(CACHE)).with_registry(registry());
    let plan = builder().with_donation("cache", "next").build().unwrap();
    let mut context = plan.context().unwrap();
    let mut cache = floats(&[1.0, 2.0, 3.0, 4.0]);
    let place = cache.storage_id();
    for _ in 0..2 {
        let step = floats(&[1.0, 0.0, 0.0, -9.0]);
        let request = context.request().input("step", step.view()).unwrap();
        let outputs = request.donate("cache", "next", cache.view_mut().unwrap()).unwrap().run().unwrap();
        assert!(outputs.get("next").is_none() && outputs.get("result").is_some());
    }
    assert_eq!((values(&cache), cache.storage_id()), (vec![3.0, 2.0, 3.0, -14.0], place));
    let (next, metas) = (plan.outputs()[0].operand, context.metas().len());
    assert!(next < metas);
    let shapes: Vec<_> = (0..2).map(|_| ixion::op::TensorMeta::new(DType::F32, [4])).collect();
    assert_eq!(context.memory_plan(&shapes).unwrap().places[next].unwrap().root, Root::Input(0));
    // If the caller keeps the input, the output is a new tensor.
    let kept = floats(&[1.0, 1.0, 1.0, 1.0]);
    let outputs = context.run(&[kept.clone(), kept.clone()]).unwrap();
    assert_eq!((values(&kept), values(&outputs[0])), (vec![1.0; 4], vec![2.0; 4]));
    let error = builder().with_donation("cache", "nxt").build().unwrap_err().to_string();
    assert!(error.contains("no output `nxt`; it has `next`, `result`"), "{error}");
    let other = builder().build().unwrap();
    let mut context = other.context().unwrap();
    let refused = context.request().donate("cache", "next", cache.view_mut().unwrap());
    assert!(matches!(refused, Err(EngineError::Donation { .. })));
}

#[test]
fn a_donation_that_operators_do_not_allow_is_copied() {
    // The input is read again after the output was computed.
    let text = "pnnx.Input cache 0 1 c #c=(4)f32
test.Accumulate add 2 1 c c y
pnnx.Expression read 2 1 c y r expr=mul(@0,@1)
pnnx.Output next 1 0 y
pnnx.Output result 1 0 r";
    let builder = Builder::from_pnnx(graph(text)).with_registry(registry());
    let plan = builder.with_donation("cache", "next").build().unwrap();
    let mut context = plan.context().unwrap();
    let mut cache = floats(&[1.0, 2.0, 3.0, 4.0]);
    let request = context.request().donate("cache", "next", cache.view_mut().unwrap()).unwrap();
    assert_eq!(values(request.run().unwrap().get("result").unwrap()), [2.0, 8.0, 18.0, 32.0]);
    assert_eq!(values(&cache), [2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn what_does_not_fit_is_named() {
    let plan = Builder::new(DIGITS).build().unwrap();
    let mut context = plan.context().unwrap();
    let error = |result: Result<Vec<Tensor>, EngineError>| result.unwrap_err();
    assert!(matches!(error(context.run(&[])), EngineError::Graph(GraphError::MissingInputs { .. })));
    let two = [digits(), digits()];
    assert!(matches!(error(context.run(&two)), EngineError::Graph(GraphError::TooManyInputs { .. })));
    let whole = digits().cast(DType::F64).unwrap();
    assert!(matches!(error(context.run(&[whole])), EngineError::Graph(GraphError::InputDType { .. })));
    let flat = digits().reshape(&[10, 784]);
    if let Ok(flat) = flat {
        assert!(matches!(error(context.run(&[flat])), EngineError::Graph(GraphError::InputShape { .. })));
    }
    let unknown = context.request().input("y", digits().view()).map(|_| ()).unwrap_err().to_string();
    assert!(unknown.contains("no input `y`"), "{unknown}");
    assert!(matches!(Builder::new("").build(), Err(EngineError::Graph(GraphError::EmptyPath))));
    assert_eq!(context.run(&[digits()]).unwrap().len(), 1);
}

#[test]
fn a_trace_names_every_operator_that_ran() {
    let plan = Builder::new(DIGITS).build().unwrap();
    let mut context = plan.context().unwrap();
    let x = digits();
    let trace: engine::Trace = context.run_traced(&[x.view()]).unwrap();
    assert!(!trace.steps.is_empty());
    let total: Duration = trace.steps.iter().map(|step| step.time).sum();
    assert!(total <= trace.total);
    let starts: Vec<Duration> = trace.steps.iter().map(|step| step.start).collect();
    assert!(starts.is_sorted());
}

const SUM: &str = "pnnx.Input left 0 1 a #a=(?,3)f32
pnnx.Input right 0 1 b #b=(?,3)f32
F.relu first 1 1 a x
F.sigmoid second 1 1 b y
pnnx.Expression sum 2 1 x y z expr=add(@0,@1)
pnnx.Output output 1 0 z";

#[test]
fn random_operators_of_one_type_are_not_one() {
    for op_type in ["RandomNormalLike", "RandomUniformLike", "aten::rand_like", "torch.randn_like"] {
        let text = format!(
            "pnnx.Input in 0 1 x #x=(8)f32\n{op_type} first 1 1 x a\n{op_type} second 1 1 x b\n\
             pnnx.Expression difference 2 1 a b y expr=sub(@0,@1)\npnnx.Output out 1 0 y"
        );
        let input = floats(&[0.0; 8]);
        let found = plan(&text).context().unwrap().run(&[input.clone()]).unwrap();
        assert!(values(&found[0]).iter().all(|&x| x != 0.0), "{op_type}: {:?}", values(&found[0]));
        assert_eq!(values(&found[0]), values(&interpreted(&text, &[input])[0]), "{op_type}");
    }
}

fn range(name: &str, min: usize, optimum: usize, max: usize) -> Result<InputRange, ShapeError> {
    InputRange::new(name, DType::F32, [min, 3], [optimum, 3], [max, 3])
}

#[test]
fn a_profile_has_the_memory_of_the_largest_shapes() {
    let mut builder = Builder::from_pnnx(graph(SUM));
    for name in ["left", "right"] {
        builder = builder.with_range(range(name, 2, 4, 8).unwrap());
    }
    let plan = builder.build().unwrap();
    let mut context = plan.context().unwrap();
    let bytes = context.arena_bytes();
    let ones = |rows: usize| Tensor::ones(DType::F32, &[rows, 3]).unwrap();
    for rows in [8, 2, 5, 8] {
        assert_eq!(context.run(&[ones(rows), ones(rows)]).unwrap()[0].shape().dims(), [rows, 3]);
        assert_eq!(context.arena_bytes(), bytes);
    }
    for rows in [1, 9] {
        let error = context.run(&[ones(rows), ones(rows)]).unwrap_err().to_string();
        assert_eq!(error, format!("axis 0 of input `left` is {rows}, but the profile allows 2 to 8"));
    }
    assert!(context.run(&[ones(2), ones(2)]).is_ok());
    let error = range("left", 4, 2, 8).unwrap_err().to_string();
    assert!(error.contains("`left`") && error.contains("axis 0"), "{error}");
    let missing = Builder::from_pnnx(graph(SUM)).with_range(range("left", 2, 4, 8).unwrap()).build();
    assert!(matches!(missing, Err(EngineError::Shape(ShapeError::Profile { .. }))));
}

#[test]
fn named_lengths_are_one_number_in_all_inputs() {
    let shape = |text: &str| text.parse::<ixion::shape::InputShape>().unwrap();
    let builder = Builder::from_pnnx(graph(SUM)).with_shape("left", shape("n,3"));
    let plan = builder.with_shape("right", shape("n,3")).build().unwrap();
    let mut context = plan.context().unwrap();
    let ones = |rows: usize| Tensor::ones(DType::F32, &[rows, 3]).unwrap();
    let error = context.run(&[ones(2), ones(4)]).unwrap_err();
    assert!(matches!(error, EngineError::Shape(ShapeError::Contradiction { .. })), "{error}");
    let text = error.to_string();
    assert!(["`left`", "`right`", "`n`", "2", "4"].iter().all(|part| text.contains(part)), "{text}");
    assert!(context.run(&[ones(4), ones(4)]).is_ok());
}

#[test]
fn shapes_that_contradict_each_other_name_both_operators() {
    let plan = plan(SUM);
    let mut context = plan.context().unwrap();
    let ones = |rows: usize| Tensor::ones(DType::F32, &[rows, 3]).unwrap();
    let error = context.run(&[ones(2), ones(4)]).unwrap_err().to_string();
    assert!(["`sum`", "`first`", "`second`"].iter().all(|name| error.contains(name)), "{error}");
    assert_eq!(context.run(&[ones(4), ones(4)]).unwrap()[0].shape().dims(), [4, 3]);
}

/// PNNX passes weights shared by several modules as inputs to each of them.
#[test]
fn modules_that_share_weights_take_epilogues() {
    let text = "pnnx.Input input 0 1 x #x=(1,4,5,5)f32
pnnx.Attribute weight 0 1 w @data=(4,4,3,3)f32 #w=(4,4,3,3)f32
pnnx.Attribute bias 0 1 b @data=(4)f32 #b=(4)f32
nn.Conv2d first 3 1 w b x y bias=True dilation=(1,1) groups=1 in_channels=4 kernel_size=(3,3) out_channels=4 \
    padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(4)f32 @weight=(4,4,3,3)f32
pnnx.Expression sum 2 1 x y z expr=add(@0,@1)
F.relu relu 1 1 z r
pnnx.Output output 1 0 r"
        .replace("\\\n    ", "");
    let mut interpreted = RuntimeGraph::from_pnnx(graph(&text)).with_random_weights(3);
    interpreted.build().unwrap();
    let x = Tensor::randn(&ixion::tensor::Shape::new(&[1, 4, 5, 5]).unwrap(), 1).unwrap();
    let wanted = interpreted.run_with(vec![x.clone()]).unwrap();
    let builder = Builder::from_pnnx(graph(&text)).with_random_weights(3);
    let plan = builder.with_shape("input", "1,4,5,5".parse().unwrap()).build().unwrap();
    assert_eq!(plan.statistics().fired("fuse_epilogue"), 1);
    let found = plan.context().unwrap().run(&[x]).unwrap();
    let difference = found[0].max_abs_diff(&wanted[0]);
    assert!(difference < 1e-5, "{difference}");
}

fn assert_send_and_sync<T: Send + Sync>() {}

#[test]
fn plans_are_shared_and_contexts_move() {
    assert_send_and_sync::<Plan>();
    fn assert_send<T: Send>() {}
    assert_send::<Context<'static>>();
    assert_send::<TensorView<'static>>();
}
