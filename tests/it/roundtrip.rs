//! Loads every conformance model and writes it back: the text must be identical byte for byte, the weights bit for bit.
//!
//! The models are in the folder named by `PNNX_CASES`, or else in `../shared/conformance`. Without either, these tests print a
//! note and check nothing; the unit tests of `ixion::pnnx` need no files.

use crate::common::conformance_cases;
use ixion::Limits;
use ixion::pnnx::{Archive, Attribute, Expr, Graph, Parameter, Value};
use std::path::Path;

fn load(folder: &Path) -> Graph {
    let bin = folder.join("model.bin");
    let graph = Graph::load(folder.join("model.param"), Some(&bin), &Limits::default());
    graph.unwrap_or_else(|error| panic!("{error}"))
}

fn attributes(graph: &Graph) -> impl Iterator<Item = (String, &Attribute)> {
    graph.operators().flat_map(|(_, operator)| {
        operator.attrs().iter().map(move |(key, attribute)| (format!("{}.{key}", operator.name()), attribute))
    })
}

#[test]
fn texts_come_back_byte_for_byte() {
    for case in conformance_cases() {
        let text = std::fs::read_to_string(case.join("model.param")).unwrap();
        assert!(load(&case).to_param_text() == text, "{}", case.display());
    }
}

#[test]
fn archives_are_complete_undamaged_and_come_back_byte_for_byte() {
    for case in conformance_cases() {
        let graph = load(&case);
        assert!(graph.check_weights().is_empty(), "{}: {:?}", case.display(), graph.check_weights());
        assert!(graph.verify_checksums().is_empty(), "{}", case.display());
        assert!(graph.unused_entries().is_empty(), "{}", case.display());
        let written = graph.to_bin_bytes().unwrap();
        assert!(written == std::fs::read(case.join("model.bin")).unwrap(), "{}", case.display());
    }
}

#[test]
fn saved_models_load_with_the_same_weights() {
    let folder = tempfile::tempdir().unwrap();
    let (param, bin) = (folder.path().join("m.param"), folder.path().join("m.bin"));
    for case in conformance_cases() {
        let graph = load(&case);
        graph.save(&param, &bin).unwrap();
        let again = Graph::load(&param, Some(&bin), &Limits::default()).unwrap();
        assert_eq!(again.to_param_text(), graph.to_param_text());
        let (saved, original): (Vec<_>, Vec<_>) =
            (attributes(&again).collect(), attributes(&graph).collect());
        assert!(saved == original, "{}", case.display());
    }
}

#[test]
fn archives_without_a_directory_have_the_same_entries() {
    for case in conformance_cases() {
        let bytes = std::fs::read(case.join("model.bin")).unwrap();
        let whole = Archive::from_bytes(bytes.clone(), &Limits::default()).unwrap();
        let end =
            whole.entries().last().map_or(0, |entry| usize::try_from(entry.offset() + entry.size()).unwrap());
        if end > 0 {
            let walked = Archive::from_bytes(&bytes[..end], &Limits::default()).unwrap();
            assert_eq!(walked.entries(), whole.entries(), "{}", case.display());
        }
    }
}

#[test]
fn floats_are_encoded_as_in_the_files() {
    for case in conformance_cases() {
        for (_, operator) in load(&case).operators() {
            for parameter in operator.params().values() {
                let encoded = match parameter.value() {
                    Value::Float(value) => Parameter::from(*value as f32),
                    Value::Floats(values) => Parameter::from(values.clone()),
                    Value::Int(value) => Parameter::from(*value),
                    Value::Ints(values) => Parameter::from(values.clone()),
                    Value::Bool(value) => Parameter::from(*value),
                    _ => continue,
                };
                assert_eq!(encoded.raw(), parameter.raw(), "{}: {}", case.display(), operator.name());
            }
        }
    }
}

#[test]
fn expressions_print_as_the_same_tree() {
    for case in conformance_cases() {
        for (_, operator) in load(&case).operators() {
            let Some(parameter) = operator.param("expr") else {
                continue;
            };
            let expr =
                Expr::parse(parameter.raw()).unwrap_or_else(|error| panic!("{}: {error}", case.display()));
            assert_eq!(Expr::parse(&expr.to_string()).as_ref(), Ok(&expr), "{}", case.display());
            if operator.op_type() == "pnnx.Expression" {
                assert_eq!(expr.input_count(), operator.inputs().len(), "{}: {expr}", case.display());
            }
        }
    }
}

/// Edits a small model in every way, saves it, loads it and checks the result.
#[test]
fn an_edited_model_keeps_its_meaning() {
    let text = "7767517\n3 2\n\
        pnnx.Input               in                       0 1 x #x=(1,2)f32\n\
        nn.Linear                fc                       1 1 x y bias=False @weight=(2,2)f32 #x=(1,2)f32 #y=(1,2)f32\n\
        pnnx.Output              out                      1 0 y #y=(1,2)f32\n";
    let mut graph = Graph::parse(text, &Limits::default()).unwrap();
    let weight = Attribute::from_f32s(vec![2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let [fc, out] = ["fc", "out"].map(|name| graph.operator_named(name).unwrap());
    let [x, y] = ["x", "y"].map(|name| graph.operand_named(name).unwrap());
    graph.set_attribute(fc, "weight", weight.clone()).unwrap();

    let relu = graph.new_operator_before("F.relu", "relu", fc).unwrap();
    let relu_out = graph.new_operand("relu_out").unwrap();
    graph.connect_input(relu, x, Some("input")).unwrap();
    graph.connect_output(relu, relu_out).unwrap();
    graph.replace_input(fc, 0, relu_out).unwrap();

    let scale = graph.new_operator_after("pnnx.Expression", "scale", fc).unwrap();
    let scale_out = graph.new_operand("scale_out").unwrap();
    graph.replace_uses(y, scale_out).unwrap();
    graph.connect_input(scale, y, None).unwrap();
    graph.connect_output(scale, scale_out).unwrap();
    graph.set_param(scale, "expr", "mul(@0,0.5)").unwrap();

    let constant = Attribute::from_f32s(vec![], &[7.0]).unwrap();
    graph.set_attribute(scale, "offset", constant.clone()).unwrap();
    graph.rename_operator(fc, "head").unwrap();
    graph.rename_operand(y, "logits").unwrap();

    let folder = tempfile::tempdir().unwrap();
    let (param, bin) = (folder.path().join("m.param"), folder.path().join("m.bin"));
    graph.save(&param, &bin).unwrap();
    let loaded = Graph::load(&param, Some(&bin), &Limits::default()).unwrap();

    assert_eq!(loaded.to_param_text(), graph.to_param_text());
    let names: Vec<&str> = loaded.operators().map(|(_, operator)| operator.name()).collect();
    assert_eq!(names, ["in", "relu", "head", "scale", "out"]);
    let operator = |name: &str| loaded.operator(loaded.operator_named(name).unwrap());
    let reads = |name: &str| loaded.operand(operator(name).inputs()[0]).name();
    assert_eq!(
        (reads("relu"), reads("head"), reads("scale"), reads("out")),
        ("x", "relu_out", "logits", "scale_out")
    );
    assert_eq!(operator("relu").input_names(), [Some("input".to_owned())]);
    assert_eq!(operator("scale").get::<String>("expr").unwrap(), "mul(@0,0.5)");
    assert_eq!(operator("scale").attr("offset"), Some(&constant));
    assert_eq!(operator("head").attr("weight"), Some(&weight));
    assert_eq!(graph.operator(out).op_type(), "pnnx.Output");
}
