//! The runtime graph's public API: states, names, tuples, release of buffers, errors, and the life cycle of a layer.

use ixion::graph::{BuildState, GraphError, RuntimeGraph};
use ixion::op::{CpuLayer, Creator, ForwardContext, Io, Layer, LayerError, Registry, TensorMeta, View};
use ixion::pnnx;
use ixion::tensor::{DType, Layout, Shape, Tensor};
use ixion::{LimitError, Limits};
use std::sync::{Arc, Mutex};

/// The calls of a [`Recorder`], in order.
type Calls = Arc<Mutex<Vec<String>>>;

/// Adds 1 to each of its outputs and writes down every call.
#[derive(Debug)]
struct Recorder {
    calls: Calls,
    outputs: usize,
    state: Vec<u8>,
}

impl Recorder {
    fn note(&self, call: impl Into<String>) {
        self.calls.lock().unwrap().push(call.into());
    }
}

impl Clone for Recorder {
    fn clone(&self) -> Self {
        self.note("clone");
        Self { calls: Arc::clone(&self.calls), outputs: self.outputs, state: self.state.clone() }
    }
}

impl Layer for Recorder {
    fn num_outputs(&self) -> usize {
        self.outputs
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.note(format!("infer {}", inputs[0]));
        Ok(vec![inputs[0].clone(); self.outputs])
    }
}

impl CpuLayer for Recorder {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        self.note("forward");
        assert_eq!(io.context.scratch::<f32>(4)?.len(), 4);
        for output in &mut *io.outputs {
            output.array::<f32>()?.assign(&(&io.inputs[0].array::<f32>()? + 1.0));
        }
        Ok(())
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<(), LayerError> {
        self.note(format!("configure {}", inputs[0]));
        Ok(())
    }

    fn workspace(&self, _: &[TensorMeta], _: &[TensorMeta]) -> usize {
        self.note("workspace");
        16
    }

    fn initialize(&mut self) -> Result<(), LayerError> {
        self.note("initialize");
        Ok(())
    }

    fn terminate(&mut self) {
        self.note("terminate");
    }

    fn serialize(&self) -> Result<Vec<u8>, LayerError> {
        self.note("serialize");
        Ok(self.state.clone())
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        self.note("deserialize");
        self.state = bytes.to_vec();
        Ok(())
    }
}

fn recording_registry(calls: &Calls) -> Registry {
    let mut registry = Registry::default();
    let calls = Arc::clone(calls);
    let create = move |reader: &mut ixion::op::OperatorReader<'_>| {
        let outputs = reader.param("outputs").and_then(|count| count.as_i64().ok()).unwrap_or(1) as usize;
        let recorder = Recorder { calls: Arc::clone(&calls), outputs, state: vec![1, 2, 3] };
        recorder.note("create");
        Ok(Box::new(recorder) as Box<dyn CpuLayer>)
    };
    registry.add("test.Record", Creator::new("test", "1", create)).unwrap();
    registry
}

fn parse(text: &str) -> pnnx::Graph {
    pnnx::Graph::parse(text, &Limits::default()).unwrap()
}

fn graph_of(text: &str) -> RuntimeGraph {
    RuntimeGraph::from_pnnx(parse(text)).with_registry(recording_registry(&Calls::default()))
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(DType::F32, shape).unwrap()
}

const CHAIN: &str = "7767517\n3 2\n\
    pnnx.Input in 0 1 a #a=(?,2)f32\n\
    test.Record rec 1 1 a b #a=(?,2)f32 #b=(?,2)f32\n\
    pnnx.Output out 1 0 b\n";

#[test]
fn the_life_of_a_layer_is_as_documented() {
    let calls = Calls::default();
    let mut graph = RuntimeGraph::from_pnnx(parse(CHAIN)).with_registry(recording_registry(&calls));
    graph.build().unwrap();
    for shape in [[1, 2], [1, 2], [3, 2]] {
        let outputs = graph.run_with(vec![ones(&shape)]).unwrap();
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), vec![2.0; shape[0] * 2]);
    }
    drop(graph);
    let run = ["infer 1×2 f32", "configure 1×2 f32", "workspace", "forward"];
    let again = ["infer 1×2 f32", "workspace", "forward"];
    let changed = ["infer 3×2 f32", "configure 3×2 f32", "workspace", "forward"];
    let want = [&["create", "initialize"][..], &run, &again, &changed, &["terminate"]].concat();
    assert_eq!(*calls.lock().unwrap(), want);
}

#[test]
fn a_layer_is_cloned_and_rebuilt_from_bytes() {
    let calls = Calls::default();
    let mut layer: Box<dyn CpuLayer> =
        Box::new(Recorder { calls: Arc::clone(&calls), outputs: 1, state: vec![7] });
    let mut copy = layer.clone();
    layer.deserialize(&[8, 9]).unwrap();
    assert_eq!((layer.serialize().unwrap(), copy.serialize().unwrap()), (vec![8, 9], vec![7]));
    copy.deserialize(&layer.serialize().unwrap()).unwrap();
    assert_eq!(copy.serialize().unwrap(), [8, 9]);
    assert_eq!(calls.lock().unwrap()[0], "clone");
    assert_eq!(layer.tactics().len(), 1);
    assert!(layer.set_tactic(0).is_ok() && layer.set_tactic(1).is_err());
    assert!(
        layer
            .forward_in_place(&mut ones(&[1]).view_mut().unwrap(), &[], &mut context(&mut workspace()))
            .is_err()
    );
    assert!(layer.forward_dynamic(&[], &mut context(&mut workspace())).is_err());
}

fn workspace() -> ixion::tensor::Workspace {
    ixion::tensor::Workspace::new().unwrap()
}

fn context(workspace: &mut ixion::tensor::Workspace) -> ForwardContext<'_> {
    ForwardContext::new(workspace, Box::leak(Box::default()))
}

#[test]
fn states_follow_each_other_and_building_is_idempotent() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/two_inputs/two_inputs.pnnx.param");
    let mut graph = RuntimeGraph::new(path);
    assert_eq!(graph.state(), BuildState::NeedsInit);
    assert!(matches!(graph.run(), Err(GraphError::NotBuilt)));
    graph.init().unwrap();
    assert_eq!(graph.state(), BuildState::NeedsBuild);
    graph.build().unwrap();
    graph.build().unwrap();
    assert_eq!(graph.state(), BuildState::Complete);
    graph.init().unwrap();
    assert_eq!(graph.state(), BuildState::NeedsBuild);
    graph.build().unwrap();
    assert_eq!(graph.state(), BuildState::Complete);
}

#[test]
fn initialisation_fails_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.param");
    std::fs::write(&empty, "7767517\n0 0\n").unwrap();
    assert!(matches!(RuntimeGraph::new("").build(), Err(GraphError::EmptyPath)));
    assert!(matches!(RuntimeGraph::new("no/such/file.param").build(), Err(GraphError::Pnnx(_))));
    assert!(matches!(RuntimeGraph::new(folder.path()).build(), Err(GraphError::Pnnx(_))));
    assert!(matches!(RuntimeGraph::new(&empty).build(), Err(GraphError::NoOperators { .. })));
}

#[test]
fn inputs_are_named_checked_and_set_before_every_run() {
    let mut graph = graph_of(CHAIN);
    assert!(matches!(graph.set_input("in", ones(&[1, 2])), Err(GraphError::NotBuilt)));
    graph.build().unwrap();
    let error = graph.set_input("x", ones(&[1, 2])).unwrap_err().to_string();
    assert_eq!(error, "the model has no input `x`; it has `in`");
    assert!(matches!(graph.set_input("in", ones(&[2])), Err(GraphError::InputShape { .. })));
    let integers = Tensor::zeros(DType::I64, &[1, 2]).unwrap();
    assert!(matches!(graph.set_input("in", integers), Err(GraphError::InputDType { .. })));
    assert!(matches!(graph.run(), Err(GraphError::MissingInputs { .. })));
    assert!(matches!(graph.output("out"), Err(GraphError::NotRun(_))));
    graph.set_input("a", ones(&[1, 2])).unwrap();
    graph.run().unwrap();
    assert_eq!(graph.output("out").unwrap(), graph.output("b").unwrap());
    assert!(matches!(graph.run(), Err(GraphError::MissingInputs { .. })));
    assert!(matches!(graph.run_with(vec![ones(&[1, 2]); 2]), Err(GraphError::TooManyInputs { .. })));
}

#[test]
fn two_inputs_whose_branches_join_run_in_order() {
    let mut graph = graph_of(
        "7767517\n7 6\n\
         pnnx.Input x 0 1 0\npnnx.Input y 0 1 1\n\
         test.Record left 1 1 0 2\ntest.Record right 1 1 1 3\n\
         torch.cat join 2 1 2 3 4 dim=0\ntest.Record last 1 1 4 5\npnnx.Output out 1 0 5\n",
    );
    graph.build().unwrap();
    graph.set_input("y", ones(&[1])).unwrap();
    graph.set_input("x", Tensor::zeros(DType::F32, &[2]).unwrap()).unwrap();
    graph.run().unwrap();
    assert_eq!(graph.output("out").unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0, 3.0]);
    let join = graph.operator_named("join").unwrap();
    let producers: Vec<&str> = graph.inputs_by_producer(join).map(|(name, _)| name).collect();
    assert_eq!(producers, ["left", "right"]);
    assert!(graph.operators().iter().all(|operator| operator.has_run()));
}

#[test]
fn activations_are_released_and_outputs_stay() {
    let mut graph = graph_of(
        "7767517\n6 5\npnnx.Input x 0 1 0\n\
         test.Record r1 1 1 0 1\ntest.Record r2 1 1 1 2\ntest.Record r3 1 1 2 3\n\
         prim::TupleConstruct t 2 1 1 3 4\npnnx.Output out 1 0 4\n",
    );
    graph.build().unwrap();
    graph.set_input("x", ones(&[1000])).unwrap();
    let trace = graph.run_traced().unwrap();
    assert_eq!(trace.layers.len(), 3);
    // At r3, the outputs of r1, r2 and r3 are alive; only x has been released.
    assert_eq!(trace.peak_bytes, 3 * 4000);
    let held: Vec<&str> = graph.operands().iter().filter(|o| o.data().is_some()).map(|o| o.name()).collect();
    assert_eq!(held, ["1", "3"]);
    let names: Vec<&str> = graph.outputs().iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["1", "3"]);
}

#[test]
fn nested_tuples_are_flattened_depth_first_and_unpacked() {
    let mut graph = graph_of(
        "7767517\n9 9\npnnx.Input x 0 1 0\n\
         test.Record pair 1 1 0 1 outputs=2\nprim::TupleUnpack u 1 2 1 2 3\n\
         test.Record more 1 1 3 4\n\
         prim::TupleConstruct inner 2 1 4 0 5\nprim::ListConstruct list 1 1 2 6\n\
         prim::TupleConstruct outer 3 1 5 6 3 7\ntest.Record lone 1 1 0 8\npnnx.Output out 1 0 7\n",
    );
    graph.build().unwrap();
    let outputs = graph.run_with(vec![Tensor::zeros(DType::F32, &[1]).unwrap()]).unwrap();
    let values: Vec<f32> = outputs.iter().map(|output| output.item::<f32>().unwrap()).collect();
    assert_eq!(values, [2.0, 0.0, 1.0, 1.0]);
    let names: Vec<&str> = graph.outputs().iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["4", "x", "2", "3"].map(|name| if name == "x" { "0" } else { name }));
}

#[test]
fn a_tuple_that_is_returned_without_unpacking_has_all_its_items() {
    let mut graph = graph_of(
        "7767517\n3 2\npnnx.Input x 0 1 0\ntest.Record pair 1 1 0 1 outputs=2\npnnx.Output out 1 0 1\n",
    );
    graph.build().unwrap();
    assert_eq!(graph.run_with(vec![ones(&[1])]).unwrap().len(), 2);
    assert_eq!(graph.outputs()[1].name, "1.1");
}

#[test]
fn misused_tuples_are_errors() {
    let unpacked = "7767517\n4 4\npnnx.Input x 0 1 0\nprim::TupleConstruct t 1 1 0 1\n\
                    prim::TupleUnpack u 1 2 1 2 3\npnnx.Output out 1 0 2\n";
    let error = graph_of(unpacked).build().unwrap_err().to_string();
    assert_eq!(error, "prim::TupleUnpack `u`: it unpacks 2 items from a tuple of 1");
    let no_tuple = "7767517\n3 2\npnnx.Input x 0 1 0\nprim::TupleUnpack u 1 1 0 1\npnnx.Output out 1 0 1\n";
    assert!(matches!(graph_of(no_tuple).build(), Err(GraphError::Tuple { .. })));
}

/// Nested tuples, each of which contains the previous one `times` times.
fn nested_tuples(levels: usize, times: usize) -> String {
    let mut text = format!("7767517\n{} {}\npnnx.Input x 0 1 0\n", levels + 2, levels + 1);
    for level in 0..levels {
        let items = vec![level.to_string(); times].join(" ");
        text += &format!("prim::TupleConstruct t{level} {times} 1 {items} {}\n", level + 1);
    }
    text + &format!("pnnx.Output out 1 0 {levels}\n")
}

#[test]
fn a_small_file_cannot_describe_a_huge_tuple() {
    let of_nothing = nested_tuples(40, 2).replace("pnnx.Input x 0 1 0", "prim::TupleConstruct x 0 1 0");
    for text in [nested_tuples(40, 2), nested_tuples(20_000, 1), of_nothing] {
        let error = graph_of(&text).build().unwrap_err().to_string();
        assert!(error.contains("is too large"), "{error}");
    }
    let mut graph = graph_of(&nested_tuples(10, 2));
    graph.build().unwrap();
    assert_eq!(graph.outputs().len(), 1024);
}

#[test]
fn a_view_is_within_the_limits_as_if_it_were_copied() {
    let text = "7767517\n3 2\npnnx.Input x 0 1 0\nTensor.expand e 1 1 0 1 sizes=(1,100000000000)\npnnx.Output out 1 0 1\n";
    let mut graph = graph_of(text);
    graph.build().unwrap();
    let error = graph.run_with(vec![ones(&[1, 1])]).unwrap_err().to_string();
    assert!(error.contains("max_tensor_bytes"), "{error}");
}

#[test]
fn keys_of_two_forms_are_not_mixed() {
    let text = "7767517\n3 2\npnnx.Input x 0 1 0\nTensor.slice s 1 1 0 1 starts=(1) ends=(2)\npnnx.Output out 1 0 1\n";
    let error = graph_of(text).build().unwrap_err().to_string();
    assert!(error.contains("without `dims`"), "{error}");
    let first = "7767517\n4 3\npnnx.Input x 0 1 0\npnnx.Input y 0 1 1\nF.linear f 2 1 0 1 2 $weight=0 bias=None\npnnx.Output out 1 0 2\n";
    let error = graph_of(first).build().unwrap_err().to_string();
    assert!(error.contains("the first input is the tensor that the operator works on"), "{error}");
}

#[test]
fn all_unknown_operators_are_reported_at_once() {
    let text = "7767517\n5 4\npnnx.Input x 0 1 0\nnn.Relu a 1 1 0 1\nmy.Thing b 1 1 1 2\nnn.Sigmoid c 1 1 2 3\n\
                pnnx.Output out 1 0 3\n";
    let error = graph_of(text).build().unwrap_err();
    let GraphError::UnknownOperators { operators } = &error else { panic!("{error}") };
    assert_eq!(operators.len(), 2);
    assert_eq!(operators[0].nearest.as_deref(), Some("nn.ReLU"));
    assert_eq!((operators[1].place.line, &operators[1].nearest), (Some(5), &None));
}

#[test]
fn errors_of_a_layer_name_the_operator_and_unusual_inputs() {
    let text = "7767517\n3 2\npnnx.Input x 0 1 0 #0=(1,3)f32\n\
                nn.Linear fc 1 1 0 1 bias=False in_features=3 out_features=2 @weight=(2,3)f32 #0=(1,3)f32\n\
                pnnx.Output out 1 0 1\n";
    let mut graph = RuntimeGraph::from_pnnx(parse(text)).with_random_weights(0);
    graph.build().unwrap();
    assert_eq!(graph.run_with(vec![ones(&[5, 3])]).unwrap()[0].shape().dims(), &[5, 2]);
    let error = graph.run_with(vec![ones(&[1, 4])]).unwrap_err().to_string();
    assert!(
        error.starts_with("nn.Linear `fc` rejects its inputs: the last axis of the input: expected 3"),
        "{error}"
    );
    assert!(error.ends_with("note: input `x` is 1×4, but the model was exported with 1×3"), "{error}");
    let surprise = text.replace("bias=False", "bias=False surprise=1");
    let error =
        RuntimeGraph::from_pnnx(parse(&surprise)).with_random_weights(0).build().unwrap_err().to_string();
    assert!(error.contains("cannot be built: unknown parameters: `surprise`"), "{error}");
    assert!(
        matches!(RuntimeGraph::from_pnnx(parse(text)).build(), Err(GraphError::Weights(errors)) if errors.len() == 1)
    );
}

#[test]
fn limits_end_a_run() {
    let mut graph = graph_of(CHAIN);
    graph.build().unwrap();
    graph.set_limits(Limits { max_tensor_bytes: 100, ..Limits::default() });
    let error = graph.run_with(vec![ones(&[100, 2])]).unwrap_err().to_string();
    assert!(error.contains("max_tensor_bytes of 100"), "{error}");
    graph.set_limits(Limits { max_total_bytes: 1000, ..Limits::default() });
    let error = graph.run_with(vec![ones(&[100, 2])]).unwrap_err().to_string();
    assert!(error.contains("max_total_bytes of 1000"), "{error}");
    graph.set_limits(Limits::default().with_timeout(std::time::Duration::ZERO));
    let error = graph.run_with(vec![ones(&[1, 2])]).unwrap_err();
    assert!(matches!(error, GraphError::Limit { source: LimitError::DeadlineExceeded, .. }));
    graph.set_limits(Limits::default());
    assert!(graph.run_with(vec![ones(&[100, 2])]).is_ok());
}

#[test]
fn constants_and_counted_sizes_are_within_the_limits() {
    let counting = "7767517\n2 1\ntorch.arange a 0 1 0 end=100000000 #0=(100000000)i64\n\
                    pnnx.Output out 1 0 0 #0=(100000000)i64\n";
    for (limits, name) in [
        (Limits { max_tensor_bytes: 1000, ..Limits::default() }, "max_tensor_bytes of 1000"),
        (Limits { max_total_bytes: 1000, ..Limits::default() }, "max_total_bytes of 1000"),
    ] {
        let mut graph = RuntimeGraph::from_pnnx(parse(counting));
        graph.build().unwrap();
        graph.set_limits(limits);
        let error = graph.run().unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

/// Returns a view whose shape differs from the inferred one.
#[derive(Debug, Clone)]
struct Liar;

impl Layer for Liar {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].clone()])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>, LayerError> {
        Ok(Some(View { input: 0, layout: inputs[0].unsqueeze(0)? }))
    }
}

impl CpuLayer for Liar {
    fn forward(&mut self, _: &mut Io<'_, '_>) -> Result<(), LayerError> {
        Ok(())
    }
}

#[test]
fn a_layer_that_breaks_its_contract_is_detected() {
    let mut registry = Registry::default();
    registry
        .add("test.Liar", Creator::new("test", "1", |_| Ok(Box::new(Liar) as Box<dyn CpuLayer>)))
        .unwrap();
    let text = CHAIN.replace("test.Record", "test.Liar");
    let mut graph = RuntimeGraph::from_pnnx(parse(&text)).with_registry(registry);
    graph.build().unwrap();
    let error = graph.run_with(vec![ones(&[1, 2])]).unwrap_err().to_string();
    assert!(error.contains("this is a bug in the layer"), "{error}");
}

/// Runs a graph of one LSTM of 3 inputs and 4 units over 5 steps of 2 sequences, with outputs of these shapes.
fn lstm_outputs(shapes: &[&str]) -> Vec<Tensor> {
    let names: Vec<String> = (0..shapes.len()).map(|output| format!("o{output}")).collect();
    let hints: Vec<String> =
        names.iter().zip(shapes).map(|(name, shape)| format!("#{name}={shape}")).collect();
    let (count, names, hints) = (shapes.len(), names.join(" "), hints.join(" "));
    let weights = "@weight_ih_l0=(16,3)f32 @weight_hh_l0=(16,4)f32 @bias_ih_l0=(16)f32 @bias_hh_l0=(16)f32";
    let text = format!(
        "7767517\n3 {operands}\npnnx.Input in 0 1 x #x=(5,2,3)f32\nnn.LSTM lstm 1 {count} x {names} input_size=3 hidden_size=4 {weights} #x=(5,2,3)f32 {hints}\npnnx.Output out {count} 0 {names}\n",
        operands = count + 1
    );
    let file = pnnx::Graph::parse(&text, &Limits::default()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file).with_random_weights(7);
    graph.build().unwrap();
    graph.run_with(vec![Tensor::randn(&[5, 2, 3], 1).unwrap()]).unwrap()
}

#[test]
fn recorded_shapes_identify_results_of_lstms() {
    let all = lstm_outputs(&["(5,2,4)f32", "(1,2,4)f32", "(1,2,4)f32"]);
    let bytes = |tensor: &Tensor| tensor.to_le_bytes().unwrap();
    assert_ne!(bytes(&all[1]), bytes(&all[2]));
    assert_eq!(bytes(&lstm_outputs(&["(1,2,4)f32"])[0]), bytes(&all[1]));
    assert_eq!(bytes(&lstm_outputs(&["(5,2,4)f32"])[0]), bytes(&all[0]));
    let turned = lstm_outputs(&["(1,2,4)f32", "(5,2,4)f32"]);
    assert_eq!([bytes(&turned[0]), bytes(&turned[1])], [bytes(&all[1]), bytes(&all[0])]);
}
