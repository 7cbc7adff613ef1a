//! The requirements of each task of lesson 15.

mod layer;
mod life;
mod panics;
mod watched;

use super::subject::{CopyConcat, PluginName, Smooth, add, catch_panic, find, replace, route};
use ixion::Limits;
use ixion::engine::{Fields, Network, Plan, PlanFile, Precision};
use ixion::op::{
    self, CpuLayer, Creator, ForwardContext, Io, Layer, LayerError, OperatorReader, Registry, RegistryError,
    RuntimeParameter, State, TensorFormat, TensorMeta,
};
use ixion::tensor::{DType, Dim, Tensor, TensorView, TensorViewMut, Workspace};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use watched::{Diary, steps};

/// Unwraps a result; panics with the hint and the error.
#[track_caller]
fn ok<T, E: Display>(result: Result<T, E>, hint: &str) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{hint} The error: {error}"),
    }
}

fn tensor(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape).unwrap()
}

fn meta(dims: &[Dim]) -> TensorMeta {
    TensorMeta::new(DType::F32, dims.to_vec())
}

fn numbers(dims: &[usize]) -> TensorMeta {
    TensorMeta::new(DType::F32, dims.iter().copied())
}

/// Runs a layer as an engine does, with outputs that hold arbitrary values and as much scratch memory as it requested.
#[track_caller]
fn forward(layer: &mut dyn CpuLayer, inputs: &[Tensor], hint: &str) -> Vec<Tensor> {
    let views: Vec<TensorView<'_>> = inputs.iter().map(Tensor::view).collect();
    let given = TensorMeta::of_all(&views);
    let metas = ok(asked(|| layer.infer(&given)), hint);
    let full = |meta: &TensorMeta| {
        let full = Tensor::full(meta.shape().unwrap().dims(), 777f32).unwrap();
        full.cast(meta.dtype()).unwrap()
    };
    let mut outputs: Vec<Tensor> = metas.iter().map(full).collect();
    let mut workspace = Workspace::new().unwrap();
    let bytes = ok(asked(|| Ok(layer.workspace(&given, &metas))), hint);
    workspace.reserve(bytes).unwrap();
    let limits = Limits::default();
    let mut context = ForwardContext::new(&mut workspace, &limits);
    let mut writable: Vec<TensorViewMut<'_>> =
        outputs.iter_mut().map(|output| output.view_mut().unwrap()).collect();
    ok(asked(|| layer.forward(&mut Io::new(&views, &mut writable, &mut context))), hint);
    drop(writable);
    outputs
}

/// Calls a layer. A panic in it becomes an error, so that the failing test shows its hint; but a `todo!` is shown as it is.
#[track_caller]
fn asked<T>(call: impl FnOnce() -> Result<T, LayerError>) -> Result<T, LayerError> {
    match op::catch_panic(call) {
        Err(LayerError::Panic(text)) if text.starts_with("not yet implemented") => panic!("{text}"),
        result => result,
    }
}

/// Compares shapes, then values, and reports the first difference.
#[track_caller]
fn check(got: &Tensor, shape: &[usize], want: &[f32], hint: &str) {
    assert_eq!(got.shape().dims(), shape, "the shape is wrong. {hint}");
    let got = got.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
    for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
        let close = (got - want).abs() <= 1e-6 * want.abs().max(1.0);
        assert!(close, "element {at}: got {got}, expected {want}. {hint}");
    }
}

/// A network with the two-input plugin, which copies its second input and concatenates both along axis 1.
fn both(plugin: &str, registry: Registry, dtype: DType) -> Network {
    let mut network = Network::new().with_registry(registry);
    let x = network.add_input("x", dtype, [1.into(), "n".into(), 2.into()]).unwrap();
    let y = network.add_input("y", dtype, [1.into(), "m".into(), 2.into()]).unwrap();
    let plugin = plugin.parse().unwrap();
    let outputs = ok(network.add_plugin(&plugin, "both", &[x, y], &Fields::new()), "The network accepts it.");
    network.mark_output(outputs[0], "copy").unwrap();
    network.mark_output(outputs[1], "whole").unwrap();
    network
}

// Task 1: the name.

fn reason(result: Result<PluginName, RegistryError>) -> String {
    match result {
        Ok(name) => format!("none: `{name}` was accepted as a name"),
        Err(RegistryError::Name { reason, .. }) => reason,
        Err(other) => format!("not RegistryError::Name, but {other:?}"),
    }
}

#[test]
fn task1_three_parts_are_a_name() {
    let name = ok(PluginName::new("acme", "Conv", "1"), "Nothing is wrong with acme/Conv/1.");
    let parts = (name.namespace(), name.op_type(), name.version());
    assert_eq!(parts, ("acme", "Conv", "1"), "namespace, type, version");
    assert_eq!(
        name.to_string(),
        "acme/Conv/1",
        "printed as namespace/type/version, with slashes between them"
    );
}

#[test]
fn task1_what_is_printed_can_be_parsed() {
    for text in ["acme/Conv/1", "ixion/nn.ReLU/1", "my_ops/models.common.Focus/2.0-beta", "ä/ö/ü"] {
        let name: PluginName = ok(text.parse(), "A valid name was rejected.");
        assert_eq!(name.to_string(), text, "are two parts swapped?");
        let parts = format!("{}/{}/{}", name.namespace(), name.op_type(), name.version());
        assert_eq!(parts, text, "are two parts swapped?");
    }
}

#[test]
fn task1_there_are_three_parts_not_two_or_four() {
    for text in ["", "Conv", "acme/Conv", "a/b/c/d", "a/b/c/"] {
        let reason = reason(text.parse());
        assert!(reason.contains("three parts"), "`{text}` has the wrong number of parts, got: {reason}");
    }
}

#[test]
fn task1_no_part_is_empty() {
    let empty = |text: &str| reason(text.parse());
    assert_eq!(empty("/Conv/1"), "its namespace is empty");
    assert_eq!(empty("acme//1"), "its type is empty");
    assert_eq!(empty("acme/Conv/"), "its version is empty");
    assert_eq!(
        reason(PluginName::new("", "", "")),
        "its namespace is empty",
        "the first of several faults is reported"
    );
}

#[test]
fn task1_a_part_has_at_most_1024_bytes() {
    let long = "x".repeat(1024);
    let hint = "1024 bytes are allowed, in each of the three parts.";
    ok(PluginName::new(&*long, &*long, &*long), hint);
    let reason_of = |op_type: String| reason(PluginName::new("acme", op_type, "1"));
    assert_eq!(reason_of("x".repeat(1025)), "its type has 1025 bytes, the maximum is 1024");
    let umlauts = "ö".repeat(513);
    let hint = "513 characters, but `ö` has two bytes: bytes are counted";
    assert_eq!(reason_of(umlauts), "its type has 1026 bytes, the maximum is 1024", "{hint}");
}

#[test]
fn task1_a_message_stays_readable() {
    let error = PluginName::new("acme", "x".repeat(5000), "1").unwrap_err().to_string();
    assert!(error.len() < 300, "a name of 5,000 bytes must be `shortened` in the error");
}

#[test]
fn task1_slashes_and_blanks_are_in_no_part() {
    let wrong = "contains a slash, whitespace or a control character";
    for part in ["a/b", "a b", " a", "a\t", "a\n", "a\u{7}b", "a\u{a0}b"] {
        assert_eq!(reason(PluginName::new(part, "Conv", "1")), format!("its namespace {wrong}"), "{part:?}");
        assert_eq!(reason(PluginName::new("acme", part, "1")), format!("its type {wrong}"), "{part:?}");
        assert_eq!(reason(PluginName::new("acme", "Conv", part)), format!("its version {wrong}"), "{part:?}");
    }
}

// Task 2: the registry.

/// A creator that creates nothing; `doc` distinguishes it from others.
fn creator(namespace: &str, version: &str, doc: &str) -> Creator {
    let create =
        |_: &mut OperatorReader<'_>| Err(LayerError::Unsupported("only its name matters".to_owned()));
    Creator::new(namespace, version, create).described(doc, [])
}

fn name(text: &str) -> PluginName {
    ok(text.parse(), "This is a valid name: see task 1.")
}

/// The `doc` of the creator found under a name.
fn found(registry: &Registry, text: &str) -> Option<String> {
    find(registry, &name(text)).map(|creator| creator.doc.clone())
}

/// The name of the plugin that runs operators of a type.
fn runs(registry: &Registry, op_type: &str) -> Option<String> {
    registry.known(op_type).and_then(|creator| creator.plugin.as_deref().map(str::to_owned))
}

#[track_caller]
fn added(registry: &mut Registry, op_type: &str, creator: Creator) {
    ok(add(registry, op_type, creator), "The name is free.");
}

#[test]
fn task2_a_plugin_is_found_by_its_name_and_by_its_type() {
    let mut registry = Registry::empty();
    let made = ok(add(&mut registry, "Conv", creator("acme", "1", "first")), "The name is free.");
    assert_eq!(
        made.to_string(),
        "acme/Conv/1",
        "the creator has namespace and version, the call gives the type"
    );
    assert_eq!(found(&registry, "acme/Conv/1").as_deref(), Some("first"), "find it under the full name");
    let keys: Vec<&str> = registry.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["Conv", "acme/Conv/1"], "one creator, two keys: a file may give the type alone");
    let hint = "a creator in the registry knows its name: `creator.plugin`";
    assert_eq!(runs(&registry, "Conv").as_deref(), Some("acme/Conv/1"), "{hint}");
    assert_eq!(runs(&registry, "acme/Conv/1").as_deref(), Some("acme/Conv/1"), "{hint}");
}

#[test]
fn task2_namespace_type_and_version_tell_plugins_apart() {
    let mut registry = Registry::empty();
    for (namespace, version, doc) in [("acme", "1", "a1"), ("acme", "2", "a2"), ("other", "1", "o1")] {
        added(&mut registry, "Conv", creator(namespace, version, doc));
    }
    assert_eq!(found(&registry, "acme/Conv/1").as_deref(), Some("a1"));
    assert_eq!(found(&registry, "acme/Conv/2").as_deref(), Some("a2"), "is the version compared?");
    assert_eq!(found(&registry, "other/Conv/1").as_deref(), Some("o1"), "is the namespace compared?");
    assert_eq!(found(&registry, "acme/Conv/3"), None, "there is no version 3");
    let hint = "the first plugin gets the type; later ones are selected by name";
    assert_eq!(runs(&registry, "Conv").as_deref(), Some("acme/Conv/1"), "{hint}");
}

#[test]
fn task2_a_duplicate_is_an_error_and_the_first_stays() {
    let mut registry = Registry::empty();
    added(&mut registry, "Conv", creator("acme", "1", "first"));
    let again = add(&mut registry, "Conv", creator("acme", "1", "second"));
    let duplicate = RegistryError::Duplicate { op_type: "acme/Conv/1".to_owned() };
    assert_eq!(
        again.map(|name| name.to_string()),
        Err(duplicate),
        "two libraries register the same name: return an error"
    );
    assert_eq!(found(&registry, "acme/Conv/1").as_deref(), Some("first"), "an error changes nothing");
    let error = add(&mut registry, "a b", creator("acme", "1", "")).map(|name| name.to_string());
    assert!(
        matches!(error, Err(RegistryError::Name { .. })),
        "`a b` is not a valid type, so acme/a b/1 is not a valid name"
    );
}

#[test]
fn task2_built_in_layers_have_names_too() {
    let mut registry = Registry::default();
    let is_there = |registry: &Registry, text: &str| find(registry, &name(text)).is_some();
    assert!(is_there(&registry, "ixion/nn.ReLU/1"), "built-in layers are registered under their types alone");
    assert!(!is_there(&registry, "ixion/nn.ReLU/2"), "the built-in one is version 1");
    assert!(!is_there(&registry, "acme/nn.ReLU/1"), "the built-in one has the namespace `ixion`");
    let taken = add(&mut registry, "nn.ReLU", creator("ixion", "1", "")).map(|name| name.to_string());
    let duplicate = RegistryError::Duplicate { op_type: "ixion/nn.ReLU/1".to_owned() };
    assert_eq!(taken, Err(duplicate), "a built-in name is taken as well");
    added(&mut registry, "nn.ReLU", creator("acme", "1", "ours"));
    assert_eq!(
        runs(&registry, "nn.ReLU"),
        None,
        "adding a plugin must not take operators from the built-in layer"
    );
    assert_eq!(found(&registry, "acme/nn.ReLU/1").as_deref(), Some("ours"));
}

#[test]
fn task2_a_replacement_applies_to_all_keys() {
    let mut registry = Registry::default();
    added(&mut registry, "Relu", creator("acme", "1", "old"));
    ok(route(&mut registry, "nn.ReLU", &name("acme/Relu/1")), "The plugin is there.");
    let before =
        ok(replace(&mut registry, "Relu", creator("acme", "1", "new")), "The replacement is on purpose.");
    assert_eq!(before.map(|creator| creator.doc).as_deref(), Some("old"));
    for key in ["acme/Relu/1", "Relu", "nn.ReLU"] {
        let hint = "replace it under every key whose creator's `plugin` is this name";
        assert_eq!(registry.known(key).map(|creator| creator.doc.as_str()), Some("new"), "`{key}`: {hint}");
    }
}

#[test]
fn task2_a_type_is_routed_to_a_plugin() {
    let mut registry = Registry::default();
    added(&mut registry, "Relu", creator("acme", "1", "ours"));
    ok(route(&mut registry, "nn.ReLU", &name("acme/Relu/1")), "The plugin is there.");
    let hint = "the plugin now runs operators of the type nn.ReLU";
    assert_eq!(runs(&registry, "nn.ReLU").as_deref(), Some("acme/Relu/1"), "{hint}");
    assert_eq!(found(&registry, "acme/nn.ReLU/1"), None, "a plugin is found by its own name, acme/Relu/1");
    assert!(
        find(&registry, &name("ixion/nn.ReLU/1")).is_some(),
        "the built-in layer must keep its full name"
    );
    ok(route(&mut registry, "nn.ReLU", &name("ixion/nn.ReLU/1")), "There is a way back.");
    assert_eq!(runs(&registry, "nn.ReLU").as_deref(), Some("ixion/nn.ReLU/1"), "the built-in layer again");
}

#[test]
fn task2_a_route_can_be_changed() {
    let mut registry = Registry::default();
    for version in ["1", "2"] {
        added(&mut registry, "Relu", creator("acme", version, version));
        ok(route(&mut registry, "nn.ReLU", &name(&format!("acme/Relu/{version}"))), "The plugin is there.");
    }
    assert_eq!(runs(&registry, "nn.ReLU").as_deref(), Some("acme/Relu/2"), "the last route counts");
    assert!(
        find(&registry, &name("ixion/nn.ReLU/1")).is_some(),
        "the built-in layer must keep its full name"
    );
    assert_eq!(
        found(&registry, "acme/nn.ReLU/1"),
        None,
        "only a built-in layer gets a new key: plugins already have one"
    );
    let keys = registry.iter().count();
    ok(route(&mut registry, "nn.ReLU", &name("acme/Relu/2")), "The route exists already.");
    assert_eq!(registry.iter().count(), keys, "there is nothing to do");
}

#[test]
fn task2_a_route_to_nowhere_is_an_error() {
    let mut registry = Registry::default();
    added(&mut registry, "Relu", creator("acme", "1", ""));
    let result = route(&mut registry, "nn.ReLU", &name("acme/Relu/2"));
    let nearest = Some("acme/Relu/1".to_owned());
    let missing = RegistryError::Missing { op_type: "acme/Relu/2".to_owned(), nearest };
    assert_eq!(result, Err(missing), "report the missing name and the nearest one: `registry.nearest`");
    assert_eq!(runs(&registry, "nn.ReLU"), None, "an error changes nothing");
}
