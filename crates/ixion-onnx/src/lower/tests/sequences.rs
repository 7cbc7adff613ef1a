//! Sequences and optional values.

use crate::lower::testing::{
    FLOAT, INT64, graph, integer, lines, node, of_graph, of_int, refusal, tensor, value,
};
use crate::schema::NodeProto;

fn pair() -> NodeProto {
    node("SequenceConstruct", &["x", "z"], &["s"], vec![])
}

fn positions() -> Vec<crate::schema::TensorProto> {
    vec![integer("first", 0), integer("last", -1), integer("beyond", 2)]
}

#[track_caller]
fn check(nodes: Vec<NodeProto>, wanted: &[&str]) {
    let mut graph = graph(&["x", "z"], nodes, &["y"]);
    graph.initializer = positions();
    assert_eq!(lines(graph), wanted);
}

#[test]
fn elements_by_position() {
    check(
        vec![
            pair(),
            node("SequenceAt", &["s", "last"], &["e"], vec![]),
            node("Relu", &["e"], &["y"], vec![]),
        ],
        &["F.relu z -> y"],
    );
    let insert = node("SequenceInsert", &["s", "x", "first"], &["t"], vec![]);
    let join = |of: &str| node("ConcatFromSequence", &[of], &["y"], vec![of_int("axis", 0)]);
    check(vec![pair(), insert, join("t")], &["torch.cat x x z -> y dim=0"]);
    let append = node("SequenceInsert", &["s", "x"], &["t"], vec![]);
    check(vec![pair(), append, join("t")], &["torch.cat x z x -> y dim=0"]);
    let erase = node("SequenceErase", &["s", "first"], &["t"], vec![]);
    check(vec![pair(), erase, join("t")], &["torch.cat z -> y dim=0"]);
    let count = node("SequenceLength", &["s"], &["n"], vec![]);
    check(
        vec![pair(), count, node("SequenceInsert", &["s", "z", "n"], &["t"], vec![]), join("t")],
        &["torch.cat x z z -> y dim=0"],
    );
}

#[test]
fn parts_of_a_tensor() {
    let split = |attributes| node("SplitToSequence", &["x"], &["s"], attributes);
    let stack = node("ConcatFromSequence", &["s"], &["y"], vec![of_int("axis", 1), of_int("new_axis", 1)]);
    check(
        vec![split(vec![]), stack.clone()],
        &["torch.split x -> s s.1 dim=0 split_size_or_sections=1", "torch.stack s s.1 -> y dim=1"],
    );
    check(
        vec![split(vec![of_int("keepdims", 0)]), stack],
        &["torch.unbind x -> s s.1 dim=0", "torch.stack s s.1 -> y dim=1"],
    );
}

#[test]
fn a_graph_for_each_element() {
    let body = graph(&["a", "b"], vec![node("Add", &["a", "b"], &["c"], vec![])], &["c"]);
    let map = node("SequenceMap", &["s", "x"], &["t"], vec![of_graph("body", body)]);
    check(
        vec![pair(), map, node("ConcatFromSequence", &["t"], &["y"], vec![of_int("axis", 0)])],
        &[
            "pnnx.Expression x -> c expr=add(@0,@0)",
            "pnnx.Expression z x -> c.1 expr=add(@0,@1)",
            "torch.cat c c.1 -> y dim=0",
        ],
    );
}

#[test]
fn optional_values() {
    let nodes = vec![
        node("Optional", &["x"], &["o"], vec![]),
        node("OptionalGetElement", &["o"], &["e"], vec![]),
        node("Relu", &["e"], &["y"], vec![]),
    ];
    check(nodes, &["F.relu x -> y"]);
    let nodes =
        vec![node("Optional", &[], &["o"], vec![]), node("OptionalGetElement", &["o"], &["y"], vec![])];
    assert!(refusal(graph(&["x"], nodes, &["y"])).contains("the optional value is empty"));
    let mut has = graph(&["x"], vec![node("OptionalHasElement", &[], &["y"], vec![])], &["y"]);
    has.output[0] = value("y", 9, &[]);
    assert!(lines(has)[0].starts_with("pnnx.Attribute"));
}

#[test]
fn positions_that_do_not_exist_or_are_not_known() {
    let refused = |nodes: Vec<NodeProto>, why: &str| {
        let mut graph = graph(&["x", "z"], nodes, &["y"]);
        graph.initializer = positions();
        graph.input.push(value("n", INT64, &[]));
        graph.input.push(value("open", FLOAT, &[-1]));
        let error = refusal(graph);
        assert!(error.contains(why), "`{why}` is not in: {error}");
    };
    refused(
        vec![pair(), node("SequenceAt", &["s", "beyond"], &["y"], vec![])],
        "no position 2 in a sequence of 2",
    );
    refused(vec![pair(), node("SequenceAt", &["s", "n"], &["y"], vec![])], "computed by the graph");
    refused(vec![pair(), node("SequenceConstruct", &["s"], &["y"], vec![])], "input 0 to be a tensor");
    refused(vec![pair(), node("Relu", &["s"], &["y"], vec![])], "got a sequence");
    refused(vec![pair(), node("Identity", &["s"], &["y"], vec![])], "output `y`: expected a tensor");
    refused(vec![node("SplitToSequence", &["open"], &["y"], vec![])], "length of axis 0 is not known");
    refused(
        vec![node("SequenceEmpty", &[], &["s"], vec![]), node("SequenceErase", &["s"], &["y"], vec![])],
        "is empty",
    );
}

#[test]
fn parts_of_lengths_that_do_not_fit_are_left_to_the_run() {
    let nodes = vec![
        node("SplitToSequence", &["x", "sizes"], &["s"], vec![]),
        node("SequenceAt", &["s", "first"], &["y"], vec![]),
    ];
    let mut graph = graph(&["x"], nodes, &["y"]);
    graph.initializer = positions();
    graph.initializer.push(tensor("sizes", INT64, &[2], &[1i64.to_le_bytes(), 9i64.to_le_bytes()].concat()));
    assert_eq!(lines(graph)[0], "torch.split x -> y s.1 dim=0 split_size_or_sections=(1,9)");
}
