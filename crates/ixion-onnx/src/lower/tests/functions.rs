//! Functions that a model defines.

use crate::lower::testing::{
    FLOAT, call, function, graph, integer, lines_of, model, node, of_graph, of_int, of_tensor, read,
    reference, refusal_of, tensor,
};
use crate::schema::{FunctionProto, GraphProto};
use crate::{Limits, Options};

#[track_caller]
fn check(graph: GraphProto, functions: Vec<FunctionProto>, wanted: &[&str]) {
    assert_eq!(lines_of(&read(&model(graph, functions), &Options::default()).unwrap()), wanted);
}

#[test]
fn functions_within_functions() {
    let inner = function("inner", &["a"], vec![node("Relu", &["a"], &["b"], vec![])], &["b"]);
    let nodes = vec![call("inner", &["p"], &["q"]), call("inner", &["q"], &["r"])];
    let outer = function("outer", &["p"], nodes, &["r"]);
    let graph = graph(&["x"], vec![call("outer", &["x"], &["y"])], &["y"]);
    check(graph, vec![inner, outer], &["F.relu x -> b", "F.relu b -> y"]);
}

#[test]
fn a_function_does_not_see_the_values_around_its_call() {
    let inner = function("f", &["a"], vec![node("Add", &["a", "x"], &["b"], vec![])], &["b"]);
    let error = refusal_of(&model(graph(&["x"], vec![call("f", &["x"], &["y"])], &["y"]), vec![inner]));
    assert!(error.contains("no value `x`"), "{error}");
}

/// An input that the call leaves out is also left out by the nodes that it is passed to.
#[test]
fn inputs_that_a_call_leaves_out() {
    let clip = function(
        "f",
        &["a", "low", "high"],
        vec![node("Clip", &["a", "low", "high"], &["b"], vec![])],
        &["b"],
    );
    let mut graph = graph(&["x"], vec![call("f", &["x", "", "most"], &["y"])], &["y"]);
    graph.initializer = vec![tensor("most", FLOAT, &[], &2f32.to_le_bytes())];
    check(graph, vec![clip], &["torch.clamp x -> y max=2.0 min=None"]);
}

#[test]
fn overloads() {
    let of = |overload: &str, op_type: &str| FunctionProto {
        overload: Some(overload.to_owned()),
        ..function("f", &["a"], vec![node(op_type, &["a"], &["b"], vec![])], &["b"])
    };
    let mut call = call("f", &["x"], &["y"]);
    call.overload = Some("second".to_owned());
    let functions = vec![of("first", "Relu"), of("second", "Sigmoid")];
    check(graph(&["x"], vec![call.clone()], &["y"]), functions, &["F.sigmoid x -> y"]);
    let twice = vec![of("second", "Relu"), of("second", "Relu")];
    let error = refusal_of(&model(graph(&["x"], vec![call], &["y"]), twice));
    assert!(error.contains("two functions are called `local.f:second`"), "{error}");
}

/// The attribute of the call decides a condition inside a graph of the function.
#[test]
fn references_to_attributes_within_graphs() {
    let branch = |op_type: &str, attributes| {
        let nodes = vec![node(op_type, &["a"], &["c"], attributes)];
        of_graph(if op_type == "Relu" { "else_branch" } else { "then_branch" }, graph(&[], nodes, &["c"]))
    };
    let branches = vec![branch("Flatten", vec![reference("axis", "where")]), branch("Relu", vec![])];
    let nodes = vec![
        node("Constant", &[], &["k"], vec![reference("value", "flag")]),
        node("If", &["k"], &["b"], branches),
    ];
    let mut f = function("f", &["a"], nodes, &["b"]);
    f.attribute = vec!["flag".to_owned()];
    f.attribute_proto = vec![of_int("where", 1)];
    let flag = crate::lower::testing::boolean("", true);
    let mut with = call("f", &["x"], &["y"]);
    with.attribute = vec![of_tensor("flag", flag), of_int("where", 0)];
    let lines = lines_of(
        &read(&model(graph(&["x"], vec![with.clone()], &["y"]), vec![f.clone()]), &Options::default())
            .unwrap(),
    );
    assert!(lines.len() == 1 && lines[0].contains("axis=0"), "{lines:?}");
    with.attribute.pop();
    let lines =
        lines_of(&read(&model(graph(&["x"], vec![with], &["y"]), vec![f]), &Options::default()).unwrap());
    assert!(lines.len() == 1 && lines[0].contains("axis=1"), "{lines:?}");
}

#[test]
fn recursion() {
    let f = function("f", &["a"], vec![call("g", &["a"], &["b"])], &["b"]);
    let g = function("g", &["a"], vec![call("f", &["a"], &["b"])], &["b"]);
    let error = refusal_of(&model(graph(&["x"], vec![call("f", &["x"], &["y"])], &["y"]), vec![f, g]));
    assert!(error.contains("local.f") && error.contains("calls itself"), "{error}");
}

#[test]
fn wrong_numbers_of_inputs_and_outputs() {
    let f = || vec![function("f", &["a"], vec![node("Relu", &["a"], &["b"], vec![])], &["b"])];
    let error = refusal_of(&model(graph(&["x"], vec![call("f", &["x", "x"], &["y"])], &["y"]), f()));
    assert!(error.contains("at most 1 inputs, got 2"), "{error}");
    let error = refusal_of(&model(graph(&["x"], vec![call("f", &["x"], &["y", "z"])], &["y"]), f()));
    assert!(error.contains("at most 1 outputs, got 2"), "{error}");
    let error = refusal_of(&model(graph(&["x"], vec![call("f", &[], &["y"])], &["y"]), f()));
    assert!(error.contains("required, but left out"), "{error}");
}

/// Twenty functions that call each the next one ten times stand for 10^20 nodes.
#[test]
fn functions_that_multiply() {
    for op_type in ["Relu", "Identity"] {
        let mut functions = vec![function("f0", &["a"], vec![node(op_type, &["a"], &["b"], vec![])], &["b"])];
        for level in 1..20 {
            let inner = format!("f{}", level - 1);
            let nodes = (0..10).map(|at| call(&inner, &["a"], &[&format!("b{at}")])).collect();
            functions.push(function(&format!("f{level}"), &["a"], nodes, &["b9"]));
        }
        let model = model(graph(&["x"], vec![call("f19", &["x"], &["y"])], &["y"]), functions);
        let limits = Limits { max_ops: 20_000, ..Limits::default() };
        let error = read(&model, &Options { limits, ..Options::default() }).unwrap_err().to_string();
        assert!(error.contains("max_ops"), "{error}");
    }
}

/// Each call copies a large attribute.
#[test]
fn copies_of_attributes_are_limited() {
    let nodes = vec![
        node("Constant", &[], &["k"], vec![reference("value", "big")]),
        node("Identity", &["a"], &["b"], vec![]),
    ];
    let f = function("f", &["a"], nodes, &["b"]);
    let mut big = integer("", 0);
    big.dims = vec![1000];
    big.raw_data = Some(vec![0; 8000]);
    let calls = (0..2000).map(|at| {
        let mut call = call("f", &["x"], &[&format!("y{at}")]);
        call.name = Some("n".repeat(5000));
        call.attribute.push(of_tensor("big", big.clone()));
        call.attribute.last_mut().unwrap().t.as_mut().unwrap().int64_data = vec![1; 8000];
        call
    });
    let model = model(graph(&["x"], calls.collect(), &["y0"]), vec![f]);
    let limits = Limits { max_ops: 10_000, ..Limits::default() };
    let error = read(&model, &Options { limits, ..Options::default() }).unwrap_err().to_string();
    assert!(error.contains("kilobytes of nodes in functions and loops"), "{error}");
}
