//! Models that are damaged, wrong, or need too much.

use crate::lower::testing::{
    FLOAT, INT64, boolean, call, function, graph, integer, lines, model, node, of_graph, of_int, read,
    reference, refusal, refusal_of, tensor, value,
};
use crate::schema::{
    ElementsType, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, Place, SparseTensorProto,
    TensorProto, TypeProto, ValueType,
};
use crate::{Options, from_bytes};
use ixion_pnnx::Graph;
use ixion_tensor::Limits;
use prost::Message;

/// Limits that keep damaged models from needing much.
fn tight() -> Limits {
    Limits { max_tensor_bytes: 1 << 16, max_total_bytes: 1 << 20, max_ops: 200, ..Limits::default() }
}

/// A model that has one of everything that the reader knows.
fn everything() -> ModelProto {
    let branch = |op_type: &str| graph(&[], vec![node(op_type, &["b"], &["t"], vec![])], &["t"]);
    let branches = vec![of_graph("then_branch", branch("Relu")), of_graph("else_branch", branch("Sigmoid"))];
    let mut body =
        graph(&["i", "go", "s"], vec![node("Add", &["s", "w"], &["n"], vec![])], &["go", "n", "n"]);
    body.input[0] = value("i", INT64, &[]);
    let constant = vec![reference("value", "of")];
    let f = function(
        "f",
        &["p"],
        vec![node("Constant", &[], &["k"], constant), node("Add", &["p", "k"], &["q"], vec![])],
        &["q"],
    );
    let mut used = call("f", &["y"], &["z"]);
    used.attribute.push(crate::lower::testing::of_tensor("of", tensor("", FLOAT, &[2], &[0; 8])));
    let nodes = vec![
        node("Add", &["x", "w"], &["a"], vec![]),
        node("Mul", &["a", "v"], &["b"], vec![]),
        node("If", &["c"], &["d"], branches),
        node("Loop", &["m", "c", "d"], &["y", "all"], vec![of_graph("body", body)]),
        used,
    ];
    let mut graph = graph(&["x"], nodes, &["z", "all"]);
    graph.initializer = vec![tensor("w", FLOAT, &[2], &[1; 8]), boolean("c", true), integer("m", 2)];
    graph.sparse_initializer = vec![sparse(&[2], &[1])];
    model(graph, vec![f])
}

/// A sparse tensor `v` with one element at these indices.
fn sparse(dims: &[i64], index: &[i64]) -> SparseTensorProto {
    let bytes: Vec<u8> = index.iter().flat_map(|index| index.to_le_bytes()).collect();
    let count = i64::try_from(index.len()).unwrap();
    let indices = if count == 1 { vec![1] } else { vec![1, count] };
    SparseTensorProto {
        values: Some(tensor("v", FLOAT, &[1], &[0, 0, 128, 63])),
        indices: Some(tensor("", INT64, &indices, &bytes)),
        dims: dims.to_vec(),
    }
}

#[test]
fn a_model_with_everything_is_read() {
    let graph = from_bytes(everything().encode_to_vec(), &tight()).unwrap().graph;
    assert!(graph.operand_named("all").is_some() && graph.operand_named("z").is_some());
}

#[test]
fn every_beginning_of_a_file() {
    let bytes = everything().encode_to_vec();
    for end in 0..bytes.len() {
        // The operator sets are at the end, so that no beginning is a model.
        let error = from_bytes(&bytes[..end], &tight()).err();
        assert!(error.is_some() || end + 40 > bytes.len(), "{end} of {} bytes were read", bytes.len());
    }
}

#[test]
fn every_flipped_bit() {
    let bytes = everything().encode_to_vec();
    for position in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[position / 8] ^= 1 << (position % 8);
        if let Err(error) = from_bytes(damaged, &tight()) {
            assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn no_message() {
    let refused = |bytes: &[u8], why: &str| {
        let error = from_bytes(bytes, &tight()).unwrap_err().to_string();
        assert!(error.contains(why), "`{why}` is not in: {error}");
    };
    refused(b"", "an empty file");
    refused(b"PK\x03\x04", "a zip archive");
    refused(b"<!DOCTYPE html>\n", "text");
    refused(b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull");
    // The graph as a number, as a group, of no wire type, with a length that does not end, and longer than the file.
    refused(&[0x38, 1], "graph");
    refused(&[0x3b, 1], "wire type 3");
    refused(&[0x3f, 1], "wire type 7");
    refused(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "more than 64 bits");
    refused(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "extends past");
    refused(&[0x3a, 9, 1], "extends past");
    refused(&[0x3a], "cut off");
    refused(b"7767517\n3 2\n", "this is text, not an ONNX file");
}

/// Only the reader may say where in the file data are.
#[test]
fn a_place_in_a_file_is_dropped() {
    let mut graph = graph(&["x"], vec![node("Add", &["x", "w"], &["y"], vec![])], &["y"]);
    let place = Some(Place { offset: 0, length: 8 });
    graph.initializer = vec![TensorProto { raw_data: None, place, ..tensor("w", FLOAT, &[2], &[]) }];
    let error = refusal(graph);
    assert!(error.contains("tensor `w`") && error.contains("found 0 in float_data"), "{error}");
}

fn nested(depth: usize) -> GraphProto {
    let mut inner = graph(&[], vec![node("Relu", &["x"], &["y"], vec![])], &["y"]);
    for _ in 1..depth {
        let branches =
            vec![of_graph("then_branch", inner), of_graph("else_branch", graph(&[], vec![], &["x"]))];
        inner = graph(&[], vec![node("If", &["c"], &["y"], branches)], &["y"]);
    }
    inner.input.push(value("x", FLOAT, &[2]));
    inner.initializer.push(boolean("c", true));
    inner
}

#[test]
fn graphs_within_graphs() {
    assert_eq!(lines(nested(32)), ["F.relu x -> y"]);
    assert!(refusal(nested(33)).contains("more than 32 graphs are nested"));
    assert!(refusal(nested(1000)).contains("more than 32 graphs are nested"));
}

#[test]
fn types_within_types() {
    let mut kind = value("x", FLOAT, &[2]).r#type.unwrap();
    for _ in 0..1000 {
        let element = ElementsType { elem_type: Some(Box::new(kind)) };
        kind = TypeProto { value: Some(ValueType::Sequence(Box::new(element))) };
    }
    let mut graph = graph(&["x"], vec![node("Relu", &["x"], &["y"], vec![])], &["y"]);
    graph.input[0].r#type = Some(kind);
    assert!(refusal(graph).contains("recursion"));
}

#[test]
fn functions_within_functions() {
    let chain = |len: usize| {
        let mut functions = vec![function("f0", &["a"], vec![node("Relu", &["a"], &["b"], vec![])], &["b"])];
        functions.extend((1..len).map(|level| {
            let inner = call(&format!("f{}", level - 1), &["a"], &["b"]);
            function(&format!("f{level}"), &["a"], vec![inner], &["b"])
        }));
        model(graph(&["x"], vec![call(&format!("f{}", len - 1), &["x"], &["y"])], &["y"]), functions)
    };
    assert!(read(&chain(64), &Options::default()).is_ok());
    assert!(refusal_of(&chain(65)).contains("more than 64 graphs or functions are nested"));
}

#[test]
fn values_that_do_not_exist_or_exist_twice() {
    let relu = |from: &str, to: &str| node("Relu", &[from], &[to], vec![]);
    let refused = |graph: GraphProto, why: &str| {
        let error = refusal(graph);
        assert!(error.contains(why), "`{why}` is not in: {error}");
    };
    refused(
        graph(&["x"], vec![relu("b", "a"), relu("a", "b")], &["b"]),
        "node `a` (Relu): there is no value `b`",
    );
    refused(graph(&["x"], vec![relu("x", "a")], &["b"]), "no value `b`");
    refused(
        graph(&["x"], vec![relu("x", "a"), relu("x", "a")], &["a"]),
        "node `a` (Relu): two values are called `a`",
    );
    refused(graph(&["x"], vec![relu("x", "x")], &["x"]), "two values are called `x`");
    refused(graph(&["x", "x"], vec![relu("x", "a")], &["a"]), "input `x`: two inputs");
    refused(graph(&["x"], vec![node("Relu", &[], &["a"], vec![])], &["a"]), "input 0 is required");
    refused(
        graph(&["x"], vec![node("Relu", &["x"], &["a", "b"], vec![])], &["a"]),
        "at most 1 outputs, got 2",
    );
    let mut twice = graph(&["x"], vec![relu("x", "a")], &["a"]);
    twice.initializer = vec![integer("w", 1), integer("w", 2)];
    refused(twice, "two initializers are called `w`");
}

#[test]
fn wrong_versions() {
    let refused = |opsets: &[(&str, i64)], why: &str| {
        let mut model = model(graph(&["x"], vec![node("Relu", &["x"], &["y"], vec![])], &["y"]), vec![]);
        let opset = |(domain, version): &(&str, i64)| OperatorSetIdProto {
            domain: Some((*domain).to_owned()),
            version: Some(*version),
        };
        model.opset_import = opsets.iter().map(opset).collect();
        let error = refusal_of(&model);
        assert!(error.contains(why), "`{why}` is not in: {error}");
    };
    refused(&[], "opset_import");
    refused(&[("", 5)], "version 5");
    refused(&[("", i64::MAX)], "and Ixion reads versions");
    refused(&[("ai.onnx", -1)], "version -1");
    refused(&[("com.microsoft", 1)], "node `y` (Relu): the operator set `ai.onnx` is not imported");
}

#[test]
fn tensors_that_are_wrong() {
    let refused = |tensor: TensorProto, why: &str| {
        let mut graph = graph(&["x"], vec![node("Add", &["x", "w"], &["y"], vec![])], &["y"]);
        graph.initializer = vec![tensor];
        let error = refusal(graph);
        assert!(error.contains(why) && error.contains("tensor `w`"), "`{why}` is not in: {error}");
    };
    refused(tensor("w", FLOAT, &[-1], &[]), "negative length");
    refused(tensor("w", FLOAT, &[1 << 62], &[]), "overflows");
    refused(tensor("w", FLOAT, &[1 << 32, 1 << 32], &[]), "overflows");
    refused(tensor("w", FLOAT, &[0, i64::MAX, i64::MAX], &[]), "overflows");
    refused(tensor("w", 2, &[1 << 60], &[]), "max_tensor_bytes");
    refused(tensor("w", FLOAT, &[2], &[0; 7]), "expected 8 bytes for its shape [2], found 7");
    refused(tensor("w", FLOAT, &[2000], &[0; 7000]), "expected 8000 bytes for its shape [2000], found 7000");
    refused(tensor("w", 8, &[1], &[]), "string");
    refused(tensor("w", 0, &[1], &[]), "number 0");
    refused(tensor("w", 21, &[3], &[0; 1]), "expected 2 bytes");
    let listed = |count: usize| TensorProto {
        raw_data: None,
        float_data: vec![0.0; count],
        ..tensor("w", FLOAT, &[2], &[])
    };
    refused(listed(1), "expected 2 elements for its shape [2], found 1 in float_data");
    refused(listed(3), "found 3 in float_data");
}

#[test]
fn sparse_tensors_that_are_wrong() {
    let refused = |tensor: SparseTensorProto, why: &str| {
        let mut graph = graph(&["x"], vec![node("Add", &["x", "v"], &["y"], vec![])], &["y"]);
        graph.sparse_initializer = vec![tensor];
        let error = refusal(graph);
        assert!(error.contains(why), "`{why}` is not in: {error}");
    };
    refused(sparse(&[2], &[2]), "out of range");
    refused(sparse(&[2], &[-1]), "out of range");
    refused(sparse(&[2, 3], &[0, 3]), "out of range");
    refused(sparse(&[2, 3], &[1, -1]), "out of range");
    refused(sparse(&[2], &[i64::MAX]), "out of range");
    refused(sparse(&[2], &[0, 1]), "as many indices");
    refused(sparse(&[], &[0, 1]), "as many indices");
    refused(sparse(&[-2], &[0]), "negative length");
    refused(sparse(&[1 << 62], &[0]), "overflows");
    refused(sparse(&[1 << 40], &[0]), "max_tensor_bytes");
    refused(SparseTensorProto { values: None, ..sparse(&[2], &[1]) }, "no value `v`");
    refused(SparseTensorProto { indices: None, ..sparse(&[2], &[1]) }, "elements of type");
}

#[test]
fn all_tensors_together_are_limited() {
    let names: Vec<String> = (0..40).map(|number| format!("w{number}")).collect();
    let add = |name: &String| node("Add", &["x", name], &[&format!("y{name}")], vec![]);
    let mut graph = graph(&["x"], names.iter().map(add).collect(), &["yw0"]);
    graph.initializer = names.iter().map(|name| tensor(name, FLOAT, &[8000], &[0; 32000])).collect();
    let options = Options { limits: tight(), ..Options::default() };
    let error = read(&model(graph, vec![]), &options).unwrap_err().to_string();
    assert!(error.contains("the tensors of the file") && error.contains("max_total_bytes"), "{error}");
}

/// A node needs two bytes in the file, and a hundred times as many in memory.
#[test]
fn many_empty_nodes() {
    let mut graph = graph(&["x"], vec![], &["x"]);
    graph.node = vec![NodeProto::default(); 10_000];
    let options = Options { limits: tight(), ..Options::default() };
    let error = read(&model(graph, vec![]), &options).unwrap_err().to_string();
    assert!(error.contains("the message without its weights"), "{error}");
}

#[test]
fn a_long_chain() {
    let name = |number: usize| if number == 0 { "x".to_owned() } else { format!("v{number}") };
    let nodes = (0..20_000).map(|number| node("Identity", &[&name(number)], &[&name(number + 1)], vec![]));
    let graph = graph(&["x"], nodes.collect(), &["v20000"]);
    assert_eq!(lines(graph), ["torch.clone x -> v20000"]);
}

/// Nodes, outputs and operators may have any names, and those of a loop repeat.
#[test]
fn names_that_meet() {
    let named = |name: &str, op_type: &str, from: &str, to: &str| NodeProto {
        name: Some(name.to_owned()),
        ..node(op_type, &[from], &[to], vec![])
    };
    let nodes = vec![
        named("b", "Relu", "x", "a"),
        named("a", "Sigmoid", "a", "b"),
        named("y", "Relu", "b", "c d"),
        named("", "Relu", "c d", "c_d"),
        named("a", "Relu", "c_d", "y"),
    ];
    assert_eq!(lines(graph(&["x"], nodes, &["y"])).len(), 5);
}

/// Work that would grow faster than the file is left to the engine, or ends at a limit.
#[test]
fn constants_that_are_joined_and_stretched_without_end() {
    let options = Options {
        limits: Limits { max_tensor_bytes: 1 << 20, max_total_bytes: 1 << 26, ..tight() },
        ..Options::default()
    };
    let mut many = graph(&["x"], vec![node("Unsqueeze", &["c", "axes"], &["y"], vec![])], &["y"]);
    let axes: Vec<u8> = (0..100_000i64).flat_map(i64::to_le_bytes).collect();
    many.initializer = vec![integer("c", 1), tensor("axes", INT64, &[100_000], &axes)];
    let types = |graph: &Graph| -> Vec<String> {
        graph.operators().map(|(_, operator)| operator.op_type().to_owned()).collect()
    };
    let left = types(&read(&model(many, Vec::new()), &options).unwrap());
    assert!(left.iter().any(|op_type| op_type == "torch.unsqueeze"), "{left:?}");
    for op_type in ["Concat", "Max"] {
        let inputs = vec!["c"; 20_000];
        let attributes = if op_type == "Concat" { vec![of_int("axis", 0)] } else { Vec::new() };
        let mut joined = graph(&["x"], vec![node(op_type, &inputs, &["y"], attributes)], &["y"]);
        let numbers: Vec<u8> = (0..4096i64).flat_map(i64::to_le_bytes).collect();
        joined.initializer = vec![tensor("c", INT64, &[4096], &numbers)];
        match (op_type, read(&model(joined, Vec::new()), &options)) {
            ("Concat", Ok(graph)) => assert!(types(&graph).contains(&"torch.cat".to_owned())),
            ("Max", Err(error)) => assert!(error.to_string().contains("the nodes of the graph"), "{error}"),
            (_, other) => panic!("{op_type}: {other:?}"),
        }
    }
}
