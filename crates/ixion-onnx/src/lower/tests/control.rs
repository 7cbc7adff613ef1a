//! Branches and loops.

use crate::lower::testing::{
    BOOL, FLOAT, INT64, boolean, graph, integer, lines, lines_of, model, node, of_graph, of_int, read,
    refusal, value,
};
use crate::schema::{GraphProto, NodeProto};
use crate::{Fixed, Options};
use ixion_tensor::Limits;

fn branches(condition: &str) -> NodeProto {
    let then = graph(&[], vec![node("Relu", &["x"], &["a"], vec![])], &["a"]);
    let other = graph(&[], vec![node("Sigmoid", &["x"], &["a"], vec![])], &["a"]);
    node("If", &[condition], &["y"], vec![of_graph("then_branch", then), of_graph("else_branch", other)])
}

#[test]
fn a_known_condition_leaves_one_branch() {
    for (condition, wanted) in [(true, "F.relu x -> y"), (false, "F.sigmoid x -> y")] {
        let mut graph = graph(&["x"], vec![branches("c")], &["y"]);
        graph.initializer.push(boolean("c", condition));
        assert_eq!(lines(graph), [wanted]);
    }
}

#[test]
fn a_computed_condition_chooses_between_both_branches() {
    let mut graph = graph(&["x"], vec![branches("c")], &["y"]);
    graph.input.push(value("c", BOOL, &[]));
    let lines = lines(graph);
    assert_eq!(lines, ["F.relu x -> a", "F.sigmoid x -> a.1", "If c a a.1 -> y"]);
}

#[test]
fn results_that_are_the_same_in_both_branches_are_not_chosen() {
    let branch = || graph(&[], vec![node("Identity", &["x"], &["a"], vec![])], &["a"]);
    let branches = vec![of_graph("then_branch", branch()), of_graph("else_branch", branch())];
    let mut graph = graph(
        &["x"],
        vec![node("If", &["c"], &["z"], branches), node("Relu", &["z"], &["y"], vec![])],
        &["y"],
    );
    graph.input.push(value("c", BOOL, &[]));
    assert_eq!(lines(graph), ["F.relu x -> y"]);
}

#[test]
fn an_input_that_is_fixed_decides_a_condition() {
    let nodes = vec![node("Equal", &["rate", "wanted"], &["c"], vec![]), branches("c")];
    let mut graph = graph(&["x"], nodes, &["y"]);
    graph.initializer.push(integer("wanted", 16000));
    graph.input.push(value("rate", INT64, &[]));
    let model = model(graph, vec![]);
    let mut options = Options::default();
    options.constants.insert("rate".to_owned(), Fixed::Integers(vec![16000]));
    let graph = read(&model, &options).unwrap();
    assert_eq!(lines_of(&graph), ["F.relu x -> y"]);
    assert!(graph.operand_named("rate").is_none());
    options.constants.insert("rat".to_owned(), Fixed::Integers(vec![1]));
    let error = read(&model, &options).unwrap_err().to_string();
    assert!(error.contains("`rat`: there is no such input; inputs are: x, rate"), "{error}");
}

#[test]
fn branches_that_cannot_be_chosen_between() {
    let then = graph(&[], vec![node("SequenceConstruct", &["x"], &["a"], vec![])], &["a"]);
    let other = graph(&[], vec![node("SequenceConstruct", &["x", "x"], &["a"], vec![])], &["a"]);
    let both = vec![of_graph("then_branch", then), of_graph("else_branch", other)];
    let mut graph = graph(&["x"], vec![node("If", &["c"], &["y"], both)], &["y"]);
    graph.input.push(value("c", BOOL, &[]));
    let error = refusal(graph);
    assert!(error.contains("a sequence of 1 and a sequence of 2"), "{error}");
}

/// A loop that adds x to y, and also returns each sum.
fn summing() -> GraphProto {
    let nodes =
        vec![node("Identity", &["go"], &["goes"], vec![]), node("Add", &["sum", "x"], &["next"], vec![])];
    let mut body = graph(&["i", "go", "sum"], nodes, &["goes", "next", "next"]);
    body.input[0] = value("i", INT64, &[]);
    body.input[1] = value("go", BOOL, &[]);
    body
}

fn looped(inputs: &[&str], body: GraphProto) -> GraphProto {
    graph(&["x"], vec![node("Loop", inputs, &["y", "all"], vec![of_graph("body", body)])], &["y", "all"])
}

#[test]
fn a_known_number_of_iterations() {
    let mut graph = looped(&["trips", "", "x"], summing());
    graph.initializer.push(integer("trips", 2));
    let wanted = [
        "pnnx.Expression x -> next expr=add(@0,@0)",
        "pnnx.Expression next x -> y expr=add(@0,@1)",
        "torch.stack next y -> all dim=0",
    ];
    assert_eq!(lines(graph), wanted);
}

#[test]
fn a_condition_that_is_folded_ends_a_loop() {
    let mut body = summing();
    body.node[0] = node("Less", &["i", "last"], &["goes"], vec![]);
    let mut graph = looped(&["", "", "x"], body);
    graph.initializer.push(integer("last", 2));
    let count = lines(graph).iter().filter(|line| line.contains("add(")).count();
    assert_eq!(count, 3);
}

#[test]
fn no_iteration() {
    let mut graph = looped(&["trips", "", "x"], summing());
    graph.initializer.push(integer("trips", -1));
    let lines = lines(graph.clone());
    assert!(lines.iter().any(|line| line == "pnnx.Attribute  -> next"), "{lines:?}");
    graph.node[0].attribute[0].g.as_mut().unwrap().output[2] = value("next", FLOAT, &[-1]);
    let error = refusal(graph);
    assert!(error.contains("the shape of its output `next` is not declared"), "{error}");
}

#[test]
fn loops_of_unknown_length() {
    let mut graph = looped(&["trips", "", "x"], summing());
    graph.input.push(value("trips", INT64, &[]));
    let error = refusal(graph);
    assert!(error.contains("number of iterations") && error.contains("--constant"), "{error}");

    let mut graph = looped(&["", "go", "x"], summing());
    graph.input.push(value("go", BOOL, &[]));
    let error = refusal(graph);
    assert!(error.contains("condition is computed"), "{error}");

    let endless = model(looped(&["", "", "x"], summing()), vec![]);
    let limits = Limits { max_ops: 1000, ..Limits::default() };
    let error = read(&endless, &Options { limits, ..Options::default() }).unwrap_err().to_string();
    assert!(error.contains("max_ops"), "{error}");
}

fn scan(attributes: Vec<crate::schema::AttributeProto>) -> GraphProto {
    let mut body = graph(&["s", "part"], vec![node("Add", &["s", "part"], &["t"], vec![])], &["t", "t"]);
    body.name = Some("body".to_owned());
    let mut all = vec![of_graph("body", body), of_int("num_scan_inputs", 1)];
    all.extend(attributes);
    let mut graph = graph(&["x"], vec![node("Scan", &["x", "z"], &["y", "all"], all)], &["y", "all"]);
    graph.input.push(value("z", FLOAT, &[2, 2]));
    graph
}

#[test]
fn scanning_forwards_and_backwards() {
    let wanted = [
        "torch.unbind z -> y y.1 dim=0",
        "pnnx.Expression x y -> t expr=add(@0,@1)",
        "pnnx.Expression t y.1 -> t.1 expr=add(@0,@1)",
        "torch.stack t t.1 -> all dim=0",
    ];
    let forwards = lines(scan(vec![]));
    assert_eq!(forwards.len(), wanted.len(), "{forwards:?}");
    assert!(
        forwards[0].starts_with("torch.unbind z -> ") && forwards[3].ends_with("-> all dim=0"),
        "{forwards:?}"
    );
    let list = |name: &str, values: Vec<i64>| crate::schema::AttributeProto {
        name: Some(name.to_owned()),
        ints: values,
        ..Default::default()
    };
    let ways = vec![
        list("scan_input_directions", vec![1]),
        list("scan_input_axes", vec![-1]),
        list("scan_output_axes", vec![1]),
        list("scan_output_directions", vec![1]),
    ];
    let backwards = lines(scan(ways));
    assert!(backwards[0].ends_with("dim=-1") && backwards[3].ends_with("dim=1"), "{backwards:?}");
}

#[test]
fn scanning_an_unknown_length() {
    let mut graph = scan(vec![]);
    graph.input[1] = value("z", FLOAT, &[-1, 2]);
    let error = refusal(graph);
    assert!(error.contains("length of the axis that it scans is not known"), "{error}");
    let mut graph = scan(vec![]);
    graph.node[0].attribute[1] = of_int("num_scan_inputs", 7);
    assert!(refusal(graph).contains("at least 7 inputs"));
}
