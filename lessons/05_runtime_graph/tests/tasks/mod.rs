//! The tests of each task of lesson 05.

use super::subject::{
    add_input, add_operand, add_outputs, add_tensor, connect, flatten, inputs_of, pack, runtime_operand,
    runtime_operator, unpack,
};
use ixion::Limits;
use ixion::course::draft::{Draft, Value};
use ixion::graph::{OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperand, RuntimeOperator};
use ixion::pnnx::{self, Dim, Graph};
use ixion::tensor::DType;
use std::path::{Path, PathBuf};

/// The folder of models in the repository that contains this package.
fn models() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap()
}

fn param(model: &str) -> PathBuf {
    models().join(model).join(format!("{model}.pnnx.param"))
}

/// The graph of a model, with its archive.
fn load(model: &str) -> Graph {
    let param = param(model);
    Graph::load(&param, Some(&param.with_extension("bin")), &Limits::default()).unwrap()
}

/// The graph of these lines.
fn parse(operators: usize, operands: usize, lines: &str) -> Graph {
    Graph::parse(&format!("7767517\n{operators} {operands}\n{lines}"), &Limits::default()).unwrap()
}

fn named<'g>(graph: &'g Graph, name: &str) -> &'g pnnx::Operator {
    graph.operator(graph.operator_named(name).unwrap())
}

fn operands(indices: &[usize]) -> Vec<OperandIndex> {
    indices.iter().map(|&index| OperandIndex::new(index)).collect()
}

fn operators(indices: &[usize]) -> Vec<OperatorIndex> {
    indices.iter().map(|&index| OperatorIndex::new(index)).collect()
}

/// A draft with this many unconnected operands.
fn draft(count: usize) -> Draft {
    let operands = (0..count).map(|number| RuntimeOperand::new(number.to_string())).collect();
    Draft { operands, ..Draft::default() }
}

fn operator(name: &str, inputs: &[usize], outputs: &[usize]) -> RuntimeOperator {
    let operator = RuntimeOperator::new(name, "F.relu");
    operator.with_inputs(operands(inputs), Vec::new()).with_outputs(operands(outputs))
}

// --- task 1: operators and operands ---

#[test]
fn task1_an_operator_keeps_name_type_and_line() {
    let graph = load("linear");
    let operator = runtime_operator(named(&graph, "linear"));
    assert_eq!(operator.name(), "linear", "the name is the operator's own, not its type");
    assert_eq!(operator.op_type(), "nn.Linear", "the type determines what it computes");
    assert_eq!(operator.line(), Some(4), "errors name the line in the file");
    assert!(operator.inputs().is_empty() && operator.layer().is_none(), "it is not connected yet");
}

#[test]
fn task1_parameters_keep_their_types() {
    let graph = load("linear");
    let operator = runtime_operator(named(&graph, "linear"));
    let found: Vec<(&str, &pnnx::Value)> =
        operator.params().iter().map(|(key, value)| (key.as_str(), value.value())).collect();
    let wanted = [
        ("bias", &pnnx::Value::Bool(true)),
        ("in_features", &pnnx::Value::Int(32)),
        ("out_features", &pnnx::Value::Int(128)),
    ];
    assert_eq!(found, wanted, "all parameters, with the types that they have in the file's operator");
}

#[test]
fn task1_weights_are_recorded_and_not_read() {
    let graph = load("linear");
    let operator = runtime_operator(named(&graph, "linear"));
    let shapes: Vec<(&str, &[usize])> =
        operator.attrs().iter().map(|(key, weight)| (key.as_str(), weight.shape())).collect();
    let hint = "one row for each output: (128,32)";
    assert_eq!(shapes, [("bias", &[128][..]), ("weight", &[128, 32])], "{hint}");
    for (key, weight) in operator.attrs() {
        assert_eq!(weight.dtype(), DType::F32);
        assert!(!weight.is_decoded(), "`{key}` was read, but nothing has needed it yet");
    }
    let first = operator.attrs()["bias"].to_vec::<f32>().unwrap()[0];
    assert_eq!(first, 0.128_595_84, "the weight leads to the bytes in the archive");
}

#[test]
fn task1_an_operand_keeps_type_and_shape_of_the_file() {
    let graph = parse(2, 2, "pnnx.Input in 0 1 x #x=(1,?)f16\nF.relu relu 1 1 x y\n");
    let operand = |name: &str| runtime_operand(graph.operand(graph.operand_named(name).unwrap()));
    let x = operand("x");
    assert_eq!((x.name(), x.dtype()), ("x", Some(DType::F16)));
    assert_eq!(
        x.shape(),
        Some(&[Dim::Fixed(1), Dim::Unknown][..]),
        "the file's shape, unknown lengths included"
    );
    assert!(x.producer().is_none() && x.consumers().is_empty(), "nothing writes or reads it yet");
    let y = operand("y");
    assert_eq!(
        (y.name(), y.dtype(), y.shape()),
        ("y", None, None),
        "the file has neither for y, so the operand has none"
    );
}

// --- task 2: connections ---

#[test]
fn task2_an_index_is_a_position() {
    let mut draft = Draft::default();
    for (position, name) in ["a", "b", "c"].into_iter().enumerate() {
        let index = add_operand(&mut draft, RuntimeOperand::new(name));
        assert_eq!(index.position(), position, "the first operand has index 0");
    }
    assert_eq!(draft.operands[2].name(), "c");
}

#[test]
fn task2_producer_and_consumers_know_each_other() {
    let mut draft = draft(3);
    for (position, added) in
        [operator("first", &[0], &[1]), operator("second", &[1], &[2])].into_iter().enumerate()
    {
        let index = connect(&mut draft, added);
        assert_eq!(
            index.position(),
            position,
            "an operator's index is its position in the list; the first is 0"
        );
    }
    let names: Vec<&str> = draft.operators.iter().map(RuntimeOperator::name).collect();
    assert_eq!(names, ["first", "second"], "operators are in the order in which they were added");
    let [x, y, z] = draft.operands.as_slice() else { panic!("there are still three operands") };
    assert_eq!((x.producer(), x.consumers()), (None, &operators(&[0])[..]), "an input has no producer");
    let hint =
        "operand 1 is written by operator 0 and read by operator 1: is the index taken before the push?";
    assert_eq!((y.producer(), y.consumers()), (Some(OperatorIndex::new(0)), &operators(&[1])[..]), "{hint}");
    assert_eq!(
        (z.producer(), z.consumers()),
        (Some(OperatorIndex::new(1)), &[][..]),
        "the last operand has no consumers"
    );
}

#[test]
fn task2_each_use_counts() {
    let mut draft = draft(3);
    connect(&mut draft, operator("square", &[0, 0], &[1]));
    connect(&mut draft, operator("other", &[0], &[2]));
    let uses = draft.operands[0].consumers().len();
    assert_eq!(uses, 3, "operator 0 reads operand 0 twice, as in mul(x, x): one entry for each use");
    let hint = "operator 0, operator 0 again, operator 1: is the index taken before the push?";
    assert_eq!(draft.operands[0].consumers(), operators(&[0, 0, 1]), "{hint}");
    assert_eq!(draft.operators[0].inputs(), operands(&[0, 0]));
}

#[test]
fn task2_an_operator_may_have_several_outputs() {
    let mut draft = draft(3);
    connect(&mut draft, operator("chunk", &[0], &[1, 2]));
    for output in [1, 2] {
        let producer = draft.operands[output].producer();
        assert_eq!(
            producer,
            Some(OperatorIndex::new(0)),
            "operand {output} is written by operator 0: does every output have its producer?"
        );
    }
}

// --- task 3: inputs ---

/// The position of the operand that a value represents, if it is a tensor.
fn tensor(value: &Value) -> Option<usize> {
    match value {
        Value::Tensor(index) => Some(index.position()),
        _ => None,
    }
}

#[test]
fn task3_an_operand_of_the_file_represents_a_tensor() {
    let graph = load("linear");
    let mut draft = draft(5);
    let id = graph.operand_named("1").unwrap();
    let index = add_tensor(&mut draft, &graph, id);
    assert_eq!(index.position(), 5, "five operands were there before");
    assert_eq!(draft.operands[5].name(), "1", "it has the name of the file's operand");
    let value = draft.values.get(&id).expect("`values` must contain what the operand represents");
    assert_eq!(tensor(value), Some(5), "it represents the tensor with this index");
}

#[test]
fn task3_a_model_may_have_several_inputs() {
    let graph = load("two_inputs");
    let mut draft = Draft::default();
    for name in ["pnnx_input_0", "pnnx_input_1"] {
        add_input(&mut draft, &graph, named(&graph, name));
    }
    let ports: Vec<(&str, usize)> =
        draft.inputs.iter().map(|port| (port.name.as_str(), port.operand.position())).collect();
    let hint = "a port has the name of the `pnnx.Input` and the index of its tensor";
    assert_eq!(ports, [("pnnx_input_0", 0), ("pnnx_input_1", 1)], "{hint}");
    assert_eq!(draft.operands[1].shape().unwrap()[1], Dim::Fixed(4), "the second input has 4 channels");
    assert!(draft.operators.is_empty(), "an input is a port, not an operator");
}

#[test]
fn task3_inputs_are_looked_up_in_their_order() {
    let lines =
        "pnnx.Input a 0 1 x\npnnx.Input b 0 1 y\ntorch.sub sub 2 1 y x z\ntorch.stack st 3 1 x x y s\n";
    let graph = parse(4, 4, lines);
    let mut draft = draft(3);
    for name in ["x", "y"] {
        add_tensor(&mut draft, &graph, graph.operand_named(name).unwrap());
    }
    let found = |name: &str| -> Vec<Option<usize>> {
        let values = inputs_of(&draft, named(&graph, name)).expect("both inputs are known");
        values.iter().map(tensor).collect()
    };
    assert_eq!(found("sub"), [Some(4), Some(3)], "y − x is not x − y: in the order of the line");
    assert_eq!(found("st"), [Some(3), Some(3), Some(4)], "an operand that is read twice appears twice");
}

#[test]
fn task3_an_input_without_a_producer_is_an_error() {
    let lines = "pnnx.Input a 0 1 x\npnnx.Input b 0 1 y\ntorch.add add 2 1 x y z\n";
    let graph = parse(3, 3, lines);
    let mut draft = Draft::default();
    add_input(&mut draft, &graph, named(&graph, "a"));
    let error =
        inputs_of(&draft, named(&graph, "add")).expect_err("y represents nothing yet: is it left out?");
    assert_eq!(graph.operand(error).name(), "y", "the error names the operand that is missing");
}

// --- task 4: tuples ---

/// A model that returns `(values, (x, indices))`, and takes a tuple apart on the way.
const NESTED: &str = "pnnx.Input in 0 1 x\n\
    torch.max max 1 2 x values indices dim=1\n\
    prim::TupleConstruct inner 2 1 x indices pair\n\
    prim::TupleUnpack apart 1 2 pair p0 p1\n\
    F.relu relu 1 1 p0 r\n\
    prim::TupleConstruct outer 3 1 values pair r all\n\
    pnnx.Output out 1 0 all\n";

fn nested() -> Graph {
    parse(7, 8, NESTED)
}

fn values(indices: &[usize]) -> Vec<Value> {
    operands(indices).into_iter().map(Value::Tensor).collect()
}

fn leaves(value: &Value) -> Vec<Option<usize>> {
    let mut found = Vec::new();
    flatten(value, &mut found);
    found.into_iter().map(tensor).collect()
}

#[test]
fn task4_a_tuple_is_neither_a_tensor_nor_an_operator() {
    let graph = nested();
    let mut draft = draft(2);
    pack(&mut draft, named(&graph, "inner"), values(&[0, 1])).unwrap();
    assert!(draft.operators.is_empty() && draft.operands.len() == 2, "nothing is added to the graph");
    let pair = draft.values.get(&graph.operand_named("pair").unwrap()).expect("`pair` represents a tuple");
    let Value::Tuple(tuple) = pair else { panic!("`pair` represents a tuple, not {pair:?}") };
    assert_eq!(
        tuple.items.iter().map(tensor).collect::<Vec<_>>(),
        [Some(0), Some(1)],
        "both items, in order"
    );
    let error = pack(&mut draft, named(&graph, "max"), values(&[0])).expect_err("max has two outputs");
    assert!(error.contains('2'), "the error must contain the number of outputs, 2: {error}");
}

#[test]
fn task4_each_output_gets_one_item() {
    let graph = nested();
    let mut draft = draft(2);
    unpack(&mut draft, named(&graph, "apart"), &Value::tuple(values(&[1, 0]))).unwrap();
    let found = |name: &str| draft.values.get(&graph.operand_named(name).unwrap()).and_then(tensor);
    assert_eq!((found("p0"), found("p1")), (Some(1), Some(0)), "the first output is the first item");
    assert!(draft.operators.is_empty(), "nothing runs when a tuple is taken apart");
}

#[test]
fn task4_a_mismatch_is_an_error() {
    let graph = nested();
    let apart = named(&graph, "apart");
    let fault = |value: &Value| {
        let mut draft = draft(3);
        let error = unpack(&mut draft, apart, value).expect_err("`apart` has two outputs");
        assert!(draft.values.is_empty(), "after an error, nothing may be recorded: check first");
        error
    };
    let error = fault(&Value::tuple(values(&[0, 1, 2])));
    assert!(error.contains('2') && error.contains('3'), "two outputs, three items; the error is: {error}");
    fault(&Value::tuple(values(&[0])));
    fault(&Value::Tensor(OperandIndex::new(0)));
}

#[test]
fn task4_tuples_are_flattened_depth_first() {
    assert_eq!(leaves(&Value::Tensor(OperandIndex::new(7))), [Some(7)], "a tensor is its own only leaf");
    let inner = Value::tuple(values(&[1, 2]));
    let mixed = Value::tuple([values(&[0]), vec![inner.clone()], values(&[3])].concat());
    let hint = "(0, (1, 2), 3): the inner items take the inner tuple's place";
    assert_eq!(leaves(&mixed), [Some(0), Some(1), Some(2), Some(3)], "{hint}");
    let deep = Value::tuple(vec![Value::tuple(vec![inner.clone(), Value::tuple(Vec::new())]), inner]);
    assert_eq!(
        leaves(&deep),
        [1, 2, 1, 2].map(Some),
        "an empty tuple has no leaves, and a tensor may appear twice"
    );
    let constant = Value::tuple(vec![Value::constant("2", None)]);
    assert_eq!(leaves(&constant), [None], "a constant is a leaf too");
}

// --- task 5: outputs ---

fn ports(draft: &Draft) -> Vec<(&str, usize)> {
    draft.outputs.iter().map(|port| (port.name.as_str(), port.operand.position())).collect()
}

#[test]
fn task5_a_single_output_has_the_name_of_its_operator() {
    let graph = load("linear");
    let mut draft = draft(3);
    add_outputs(&mut draft, named(&graph, "pnnx_output_0"), &operands(&[2]));
    assert_eq!(
        ports(&draft),
        [("pnnx_output_0", 2)],
        "a single output has the operator's name, not the operand's"
    );
    let marks: Vec<bool> = draft.operands.iter().map(RuntimeOperand::is_output).collect();
    assert_eq!(marks, [false, false, true], "the operand must be marked, or its buffer is reused");
}

#[test]
fn task5_several_outputs_have_their_own_names() {
    let graph = load("linear");
    let mut draft = draft(3);
    add_outputs(&mut draft, named(&graph, "pnnx_output_0"), &operands(&[2, 0]));
    let hint = "two ports with one name could not be distinguished";
    assert_eq!(ports(&draft), [("2", 2), ("0", 0)], "{hint}; they keep their order");
    add_outputs(&mut draft, named(&graph, "pnnx_output_0"), &operands(&[1]));
    assert_eq!(draft.outputs.len(), 3, "a second `pnnx.Output` adds ports, and removes none");
}

// ANCHOR: convert
/// Converts a whole graph as the framework does, but without layers.
fn converted(file: &Graph) -> Draft {
    let mut draft = Draft::default();
    for (_, operator) in file.operators() {
        if operator.op_type() == "pnnx.Input" {
            add_input(&mut draft, file, operator);
            continue;
        }
        let values = inputs_of(&draft, operator).unwrap();
        if operator.op_type() == "prim::TupleConstruct" {
            pack(&mut draft, operator, values).unwrap();
            continue;
        }
        if operator.op_type() == "prim::TupleUnpack" {
            unpack(&mut draft, operator, &values[0]).unwrap();
            continue;
        }
        let mut leaves = Vec::new();
        values.iter().for_each(|value| flatten(value, &mut leaves));
        let inputs: Vec<OperandIndex> =
            leaves.iter().filter_map(|leaf| tensor(leaf)).map(OperandIndex::new).collect();
        if operator.op_type() == "pnnx.Output" {
            add_outputs(&mut draft, operator, &inputs);
            continue;
        }
        let outputs = operator.outputs().iter().map(|&output| add_tensor(&mut draft, file, output)).collect();
        let runtime = runtime_operator(operator).with_inputs(inputs, operator.input_names().to_vec());
        connect(&mut draft, runtime.with_outputs(outputs));
    }
    draft
}
// ANCHOR_END: convert

#[test]
fn task5_tuples_vanish_from_the_whole_graph() {
    let draft = converted(&nested());
    let names: Vec<&str> = draft.operators.iter().map(RuntimeOperator::name).collect();
    assert_eq!(names, ["max", "relu"], "inputs, outputs and tuples are not operators of the runtime graph");
    let names: Vec<&str> = draft.operands.iter().map(RuntimeOperand::name).collect();
    assert_eq!(names, ["x", "values", "indices", "r"], "operands are tensors and nothing else");
    let consumers = draft.operands[0].consumers();
    assert_eq!(consumers, operators(&[0, 1]), "relu reads x, through a tuple that was taken apart");
    assert_eq!(ports(&draft), [("values", 1), ("x", 0), ("indices", 2), ("r", 3)], "flattened depth first");
}

#[test]
fn task5_real_models_are_converted_as_by_the_framework() {
    for model in ["linear", "two_inputs", "conv3", "shapes_unet"] {
        let draft = converted(&load(model));
        let mut graph = RuntimeGraph::new(param(model));
        graph.build().unwrap();
        let names = |operators: &[RuntimeOperator]| -> Vec<String> {
            operators.iter().map(|operator| operator.name().to_owned()).collect()
        };
        assert_eq!(names(&draft.operators), names(graph.operators()), "{model}: the operators");
        for (mine, wanted) in draft.operators.iter().zip(graph.operators()) {
            let at = format!("{model}, {}", wanted.name());
            assert_eq!(mine.op_type(), wanted.op_type(), "{at}: type");
            assert_eq!(
                (mine.inputs(), mine.outputs()),
                (wanted.inputs(), wanted.outputs()),
                "{at}: operands"
            );
            assert_eq!(mine.params(), wanted.params(), "{at}: parameters");
            assert_eq!(mine.weight_bytes(), wanted.weight_bytes(), "{at}: weights");
        }
        assert_eq!(draft.operands.len(), graph.operands().len(), "{model}: one operand for each tensor");
        for (mine, wanted) in draft.operands.iter().zip(graph.operands()) {
            let at = format!("{model}, operand {}", wanted.name());
            assert_eq!(mine.name(), wanted.name(), "{at}: name");
            assert_eq!(
                (mine.producer(), mine.consumers()),
                (wanted.producer(), wanted.consumers()),
                "{at}: links"
            );
            assert_eq!(
                (mine.shape(), mine.is_output()),
                (wanted.shape(), wanted.is_output()),
                "{at}: shape, mark"
            );
        }
        assert_eq!(
            (&draft.inputs[..], &draft.outputs[..]),
            (graph.inputs(), graph.outputs()),
            "{model}: ports"
        );
    }
}
