use super::*;
use crate::{Attribute, GraphError, WeightError};
use ixion_tensor::DType;
use ixion_tensor::Limits;

fn limits() -> Limits {
    Limits::default()
}

fn sample() -> Graph {
    let text = "7767517\n3 2\n\
        pnnx.Input in 0 1 x\n\
        nn.Linear fc 1 1 x y bias=True\n\
        pnnx.Output out 1 0 y\n";
    let mut graph = Graph::parse(text, &limits()).unwrap();
    let fc = graph.operator_named("fc").unwrap();
    graph.set_attribute(fc, "weight", Attribute::from_f32s(vec![2, 1], &[1.0, 0.1]).unwrap()).unwrap();
    graph.set_attribute(fc, "bias", Attribute::from_f32s(vec![2], &[3.0, 4.0]).unwrap()).unwrap();
    graph
}

fn weight(graph: &Graph, key: &str) -> Vec<f32> {
    let fc = graph.operator_named("fc").unwrap();
    graph.operator(fc).attr(key).unwrap().to_f32s().unwrap()
}

#[test]
fn a_saved_graph_loads_again() {
    let folder = tempfile::tempdir().unwrap();
    let (param, bin) = (folder.path().join("m.param"), folder.path().join("m.bin"));
    let graph = sample();
    graph.save(&param, &bin).unwrap();
    let loaded = Graph::load(&param, Some(&bin), &limits()).unwrap();
    assert_eq!(loaded.to_param_text(), graph.to_param_text());
    assert_eq!((weight(&loaded, "weight"), weight(&loaded, "bias")), (vec![1.0, 0.1], vec![3.0, 4.0]));
    let names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "no temporary file is left: {names:?}");
}

#[test]
fn a_graph_can_be_saved_over_the_files_it_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let (param, bin) = (folder.path().join("m.param"), folder.path().join("m.bin"));
    sample().save(&param, &bin).unwrap();
    let mut loaded = Graph::load(&param, Some(&bin), &limits()).unwrap();
    let fc = loaded.operator_named("fc").unwrap();
    loaded.rename_operator(fc, "head").unwrap();
    loaded.save(&param, &bin).unwrap();
    loaded.save(&param, &bin).unwrap();
    let again = Graph::load(&param, Some(&bin), &limits()).unwrap();
    let head = again.operator_named("head").unwrap();
    assert_eq!(again.operator(head).attr("bias").unwrap().to_f32s().unwrap(), [3.0, 4.0]);
}

#[test]
fn an_error_leaves_the_old_files_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let (param, bin) = (folder.path().join("m.param"), folder.path().join("m.bin"));
    sample().save(&param, &bin).unwrap();
    let before = (std::fs::read(&param).unwrap(), std::fs::read(&bin).unwrap());
    let without_weights = Graph::load(&param, None, &limits()).unwrap();
    let error = without_weights.save(&param, &bin).unwrap_err();
    assert!(matches!(error, PnnxError::Weight(WeightError::NotLoaded { .. })), "{error}");
    assert_eq!((std::fs::read(&param).unwrap(), std::fs::read(&bin).unwrap()), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn damaged_weights_are_not_given_a_new_checksum() {
    let graph = sample();
    let mut bin = graph.to_bin_bytes().unwrap();
    let at = bin.windows(4).position(|window| window == 0.1_f32.to_le_bytes()).unwrap();
    bin[at] ^= 1;
    let damaged = Graph::from_bytes(graph.to_param_text().as_bytes(), Some(bin), &limits()).unwrap();
    let error = damaged.to_bin_bytes().unwrap_err();
    assert!(
        matches!(&error, PnnxError::Weight(WeightError::Checksum { key, .. }) if key == "weight"),
        "{error}"
    );
}

#[test]
fn a_graph_out_of_order_is_not_saved() {
    let mut graph = sample();
    let (input, y) = (graph.operator_named("in").unwrap(), graph.operand_named("y").unwrap());
    let early = graph.new_operator_before("F.relu", "early", input).unwrap();
    graph.connect_input(early, y, None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = graph.save(folder.path().join("a"), folder.path().join("b")).unwrap_err();
    assert!(matches!(error, PnnxError::Graph(GraphError::NotInOrder { .. })), "{error}");
}

#[test]
fn two_attributes_with_one_entry_name_are_rejected() {
    let mut graph = sample();
    let other = graph.new_operator("T", "fc.a").unwrap();
    let byte = |value: u8| Attribute::new(DType::U8, vec![1], vec![value]).unwrap();
    graph.set_attribute(other, "b", byte(1)).unwrap();
    let fc = graph.operator_named("fc").unwrap();
    graph.set_attribute(fc, "a.b", byte(2)).unwrap();
    let error = graph.to_bin_bytes().unwrap_err().to_string();
    assert!(error.contains("duplicate entry `fc.a.b`"), "{error}");
}

/// As PNNX writes it at optimisation level 0: two tensors of `cell`, and a module that is called twice.
const REPEATED: &str = "7767517\n6 5\n\
    pnnx.Input               in                       0 1 x\n\
    pnnx.Attribute           cell                     0 1 b @data=(2)u8 #b=(2)u8\n\
    pnnx.Attribute           cell                     0 1 a @data=(2)u8 #a=(2)u8\n\
    nn.Linear                fc                       1 1 x y bias=False @weight=(1)u8\n\
    nn.Linear                fc                       1 1 y z bias=False @weight=(1)u8\n\
    pnnx.Output              out                      1 0 z\n";

fn repeated() -> (Graph, Vec<u8>) {
    let mut writer = ArchiveWriter::new(std::io::Cursor::new(Vec::new())).with_repeated_names();
    let entries: [(&str, &[u8]); 4] =
        [("cell.data", &[1, 2]), ("cell.data", &[3, 4]), ("fc.weight", &[5]), ("fc.weight", &[5])];
    for (name, data) in entries {
        writer.add(name, data).unwrap();
    }
    let bin = writer.finish().unwrap().into_inner();
    (Graph::from_bytes(REPEATED.as_bytes(), Some(bin.clone()), &limits()).unwrap(), bin)
}

#[test]
fn repeated_names_come_back_with_their_weights_in_order() {
    let (graph, bin) = repeated();
    assert!(graph.check_weights().is_empty() && graph.unused_entries().is_empty());
    let bytes = |name: &str, key: &str| {
        let operator = graph.operator(graph.operator_named(name).unwrap());
        operator.attr(key).unwrap().bytes().unwrap().into_owned()
    };
    assert_eq!((bytes("cell", "data"), bytes("cell@2", "data")), (vec![1, 2], vec![3, 4]));
    assert_eq!((bytes("fc", "weight"), bytes("fc@2", "weight")), (vec![5], vec![5]));
    assert_eq!(graph.to_param_text(), REPEATED);
    assert_eq!(graph.to_bin_bytes().unwrap(), bin);
}

#[test]
fn repeated_names_can_be_made_unique() {
    let (mut graph, _) = repeated();
    let second = graph.operator_named("cell@2").unwrap();
    assert_eq!(graph.operator(second).written_name(), "cell");
    graph.rename_operator(second, "gate").unwrap();
    assert_eq!(graph.operator(second).written_name(), "gate");
    graph.write_unique_names();
    let names: Vec<String> =
        graph.operators().map(|(_, operator)| operator.written_name().to_owned()).collect();
    assert_eq!(names, ["in", "cell", "gate", "fc", "fc@2", "out"]);
    let text = graph.to_param_text();
    let again = Graph::from_bytes(text.as_bytes(), Some(graph.to_bin_bytes().unwrap()), &limits()).unwrap();
    let gate = again.operator(again.operator_named("gate").unwrap());
    assert_eq!(gate.attr("data").unwrap().bytes().unwrap()[..], [3, 4]);
}

#[test]
fn names_are_padded_by_bytes() {
    let mut graph = Graph::new();
    graph.new_operator("é", "a_name_of_more_than_twenty_four_bytes").unwrap();
    let line = graph.to_param_text().lines().nth(2).unwrap().to_owned();
    assert_eq!(line, format!("é{} a_name_of_more_than_twenty_four_bytes 0 0", " ".repeat(22)));
}

#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("none").join("m.param");
    let error = sample().save(&nowhere, folder.path().join("m.bin")).unwrap_err().to_string();
    assert!(error.contains("m.param: cannot create a temporary file next to it"), "{error}");
}

#[cfg(unix)]
#[test]
fn saved_files_have_ordinary_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (param, bin, plain) = (folder.path().join("p"), folder.path().join("b"), folder.path().join("plain"));
    sample().save(&param, &bin).unwrap();
    std::fs::write(&plain, "").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!((mode(&param), mode(&bin)), (mode(&plain), mode(&plain)));
}
