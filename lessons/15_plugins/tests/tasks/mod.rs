//! What each task of lesson 15 must fulfil.

mod watched;

use super::subject::{CopyConcat, PluginName, Smooth, add, find, guarded, replace, route};
use ixion::Limits;
use ixion::engine::{Fields, Network, Plan, PlanFile, Precision};
use ixion::graph::{
    self, CpuLayer, Creator, ForwardContext, Layer, LayerError, OperatorReader, Registry, RegistryError,
    RuntimeParameter, State, TensorFormat, TensorMeta,
};
use ixion::tensor::{DType, Dim, Tensor, TensorView, TensorViewMut, Workspace};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use watched::{Diary, steps};

/// What came out, or a panic that says why nothing did.
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

/// Runs a layer as an engine does, with outputs that hold arbitrary values and as much scratch memory as it asked for.
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
    ok(asked(|| layer.forward(&views, &mut writable, &mut context)), hint);
    drop(writable);
    outputs
}

/// What a layer says. A panic in it is to be a red test with a hint, not the words of an array; but a `todo!` is shown as it is.
#[track_caller]
fn asked<T>(call: impl FnOnce() -> Result<T, LayerError>) -> Result<T, LayerError> {
    match graph::guarded(call) {
        Err(LayerError::Panic(text)) if text.starts_with("not yet implemented") => panic!("{text}"),
        result => result,
    }
}

/// Compares first shapes, then numbers, and says where the first difference is.
#[track_caller]
fn check(got: &Tensor, shape: &[usize], want: &[f32], hint: &str) {
    assert_eq!(got.shape().dims(), shape, "the shape is wrong. {hint}");
    let got = got.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
    for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
        let close = (got - want).abs() <= 1e-6 * want.abs().max(1.0);
        assert!(close, "element {at} is {got}, but should be {want}. {hint}");
    }
}

// Task 1: the name.

fn reason(result: Result<PluginName, RegistryError>) -> String {
    match result {
        Ok(name) => format!("none: `{name}` was taken for a name"),
        Err(RegistryError::Name { reason, .. }) => reason,
        Err(other) => format!("not RegistryError::Name, but {other:?}"),
    }
}

#[test]
fn task1_three_parts_are_a_name() {
    let name = ok(PluginName::new("acme", "Conv", "1"), "Nothing is wrong with acme/Conv/1.");
    let parts = (name.namespace(), name.op_type(), name.version());
    assert_eq!(parts, ("acme", "Conv", "1"), "whose it is, what it runs, which version");
    assert_eq!(
        name.to_string(),
        "acme/Conv/1",
        "printed as namespace/type/version, with slashes between them"
    );
}

#[test]
fn task1_what_is_printed_can_be_parsed() {
    for text in ["acme/Conv/1", "ixion/nn.ReLU/1", "my_ops/models.common.Focus/2.0-beta", "ä/ö/ü"] {
        let name: PluginName = ok(text.parse(), "A name was refused.");
        assert_eq!(name.to_string(), text, "are two parts swapped?");
        let parts = format!("{}/{}/{}", name.namespace(), name.op_type(), name.version());
        assert_eq!(parts, text, "are two parts swapped?");
    }
}

#[test]
fn task1_there_are_three_parts_not_two_or_four() {
    for text in ["", "Conv", "acme/Conv", "a/b/c/d", "a/b/c/"] {
        let reason = reason(text.parse());
        assert!(
            reason.contains("three parts"),
            "`{text}`: what is wrong is the number of parts, not: {reason}"
        );
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
        "of several faults the first counts"
    );
}

#[test]
fn task1_a_part_has_at_most_1024_bytes() {
    let long = "x".repeat(1024);
    let hint = "1024 bytes are allowed, in each of the three parts.";
    ok(PluginName::new(&*long, &*long, &*long), hint);
    let reason_of = |op_type: String| reason(PluginName::new("acme", op_type, "1"));
    assert_eq!(reason_of("x".repeat(1025)), "its type has 1025 bytes, and 1024 are allowed");
    let umlauts = "ö".repeat(513);
    let hint = "513 characters, but `ö` has two bytes: it is bytes that are counted";
    assert_eq!(reason_of(umlauts), "its type has 1026 bytes, and 1024 are allowed", "{hint}");
}

#[test]
fn task1_a_message_stays_readable() {
    let error = PluginName::new("acme", "x".repeat(5000), "1").unwrap_err().to_string();
    assert!(error.len() < 300, "a name of 5,000 bytes is `shortened` before an error shows it");
}

#[test]
fn task1_slashes_and_blanks_are_in_no_part() {
    let wrong = "has a slash, a blank or a control character in it";
    for part in ["a/b", "a b", " a", "a\t", "a\n", "a\u{7}b", "a\u{a0}b"] {
        assert_eq!(reason(PluginName::new(part, "Conv", "1")), format!("its namespace {wrong}"), "{part:?}");
        assert_eq!(reason(PluginName::new("acme", part, "1")), format!("its type {wrong}"), "{part:?}");
        assert_eq!(reason(PluginName::new("acme", "Conv", part)), format!("its version {wrong}"), "{part:?}");
    }
}

// Task 2: the registry.

/// A creator that makes nothing; `doc` tells it from others.
fn creator(namespace: &str, version: &str, doc: &str) -> Creator {
    let create =
        |_: &mut OperatorReader<'_>| Err(LayerError::Unsupported("only its name matters".to_owned()));
    Creator::new(namespace, version, create).described(doc, [])
}

fn name(text: &str) -> PluginName {
    ok(text.parse(), "This is a name: look at task 1.")
}

/// The documentation of what is found under a name.
fn found(registry: &Registry, text: &str) -> Option<String> {
    find(registry, &name(text)).map(|creator| creator.doc.clone())
}

/// Who runs operators of a type.
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
        "the creator has namespace and version, the call says the type"
    );
    assert_eq!(found(&registry, "acme/Conv/1").as_deref(), Some("first"), "look under the full name");
    let keys: Vec<&str> = registry.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["Conv", "acme/Conv/1"], "one creator, two keys: a file may say the type alone");
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
    assert_eq!(found(&registry, "acme/Conv/2").as_deref(), Some("a2"), "is the version looked at?");
    assert_eq!(found(&registry, "other/Conv/1").as_deref(), Some("o1"), "is the namespace looked at?");
    assert_eq!(found(&registry, "acme/Conv/3"), None, "nobody brought a version 3");
    let hint = "the type went to who came first; those after are asked for by name";
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
        "two libraries bring the same name: say so"
    );
    assert_eq!(found(&registry, "acme/Conv/1").as_deref(), Some("first"), "an error changes nothing");
    let error = add(&mut registry, "a b", creator("acme", "1", "")).map(|name| name.to_string());
    assert!(matches!(error, Err(RegistryError::Name { .. })), "`a b` is no type, so acme/a b/1 is no name");
}

#[test]
fn task2_built_in_layers_have_names_too() {
    let mut registry = Registry::default();
    let is_there = |registry: &Registry, text: &str| find(registry, &name(text)).is_some();
    assert!(is_there(&registry, "ixion/nn.ReLU/1"), "built-in layers stand under their types alone");
    assert!(!is_there(&registry, "ixion/nn.ReLU/2"), "the built-in one is version 1");
    assert!(!is_there(&registry, "acme/nn.ReLU/1"), "the built-in one is of the namespace `ixion`");
    let taken = add(&mut registry, "nn.ReLU", creator("ixion", "1", "")).map(|name| name.to_string());
    let duplicate = RegistryError::Duplicate { op_type: "ixion/nn.ReLU/1".to_owned() };
    assert_eq!(taken, Err(duplicate), "a built-in name is taken as well");
    added(&mut registry, "nn.ReLU", creator("acme", "1", "ours"));
    assert_eq!(
        runs(&registry, "nn.ReLU"),
        None,
        "whoever adds a plugin takes no operators from the built-in layer"
    );
    assert_eq!(found(&registry, "acme/nn.ReLU/1").as_deref(), Some("ours"));
}

#[test]
fn task2_a_replacement_is_one_everywhere() {
    let mut registry = Registry::default();
    added(&mut registry, "Relu", creator("acme", "1", "old"));
    ok(route(&mut registry, "nn.ReLU", &name("acme/Relu/1")), "The plugin is there.");
    let before = ok(replace(&mut registry, "Relu", creator("acme", "1", "new")), "Replacing was asked for.");
    assert_eq!(before.map(|creator| creator.doc).as_deref(), Some("old"));
    for key in ["acme/Relu/1", "Relu", "nn.ReLU"] {
        let hint = "every key that leads to this name: its creator's `plugin` says so";
        assert_eq!(registry.known(key).map(|creator| creator.doc.as_str()), Some("new"), "`{key}`: {hint}");
    }
}

#[test]
fn task2_a_type_is_routed_to_a_plugin() {
    let mut registry = Registry::default();
    added(&mut registry, "Relu", creator("acme", "1", "ours"));
    ok(route(&mut registry, "nn.ReLU", &name("acme/Relu/1")), "The plugin is there.");
    let hint = "operators of the type nn.ReLU are now the plugin's";
    assert_eq!(runs(&registry, "nn.ReLU").as_deref(), Some("acme/Relu/1"), "{hint}");
    assert_eq!(
        found(&registry, "acme/nn.ReLU/1"),
        None,
        "a plugin is asked for by its own name, acme/Relu/1"
    );
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
        "only a built-in layer gets a new key: plugins have theirs"
    );
    let keys = registry.iter().count();
    ok(route(&mut registry, "nn.ReLU", &name("acme/Relu/2")), "It leads there already.");
    assert_eq!(registry.iter().count(), keys, "nothing is left to do");
}

#[test]
fn task2_a_route_to_nowhere_is_an_error() {
    let mut registry = Registry::default();
    added(&mut registry, "Relu", creator("acme", "1", ""));
    let result = route(&mut registry, "nn.ReLU", &name("acme/Relu/2"));
    let nearest = Some("acme/Relu/1".to_owned());
    let missing = RegistryError::Missing { op_type: "acme/Relu/2".to_owned(), nearest };
    assert_eq!(result, Err(missing), "say what was wanted, and what is near: `registry.nearest`");
    assert_eq!(runs(&registry, "nn.ReLU"), None, "an error changes nothing");
}

// Task 3: the plugin.

/// A layer of these parameters, as a creator makes it from a line of a file.
fn create(params: &[(&str, &str)]) -> Result<Box<dyn CpuLayer>, LayerError> {
    let params: BTreeMap<_, _> =
        params.iter().map(|(key, text)| (key.to_string(), RuntimeParameter::parse(text))).collect();
    let weights = BTreeMap::new();
    let reader = OperatorReader::new(&params, &weights, &[None, None], 2);
    asked(|| Creator::of::<CopyConcat>().create(reader))
}

#[test]
fn task3_two_inputs_are_0_and_1() {
    let hint = "0 and 1 are inputs.";
    for copy in ["0", "1"] {
        ok(create(&[("copy", copy)]), hint);
    }
    let result = create(&[("copy", "2")]).map(drop);
    let is_right = matches!(&result, Err(LayerError::InvalidParameter { key: "copy", .. }));
    assert!(
        is_right,
        "copy=2 needs LayerError::invalid(\"copy\", …): there is no third input. It was {result:?}"
    );
}

#[test]
fn task3_an_axis_counts_from_either_end() {
    let position = |axis, rank| CopyConcat { copy: 1, axis }.position(rank);
    assert_eq!([0, 1, 2].map(|axis| position(axis, 3).ok()), [Some(0), Some(1), Some(2)]);
    let hint = "-1 is the last axis, -3 the first of three";
    assert_eq!([-1, -2, -3].map(|axis| position(axis, 3).ok()), [Some(2), Some(1), Some(0)], "{hint}");
    for (axis, rank) in [(3, 3), (-4, 3), (0, 0), (-1, 0), (i64::MAX, 3), (i64::MIN, 3)] {
        let result = position(axis, rank);
        let is_right = matches!(result, Err(LayerError::InvalidParameter { key: "axis", .. }));
        assert!(is_right, "{rank} axes have no axis {axis}: it was {result:?}");
    }
}

#[track_caller]
fn shapes(layer: &CopyConcat, inputs: [&TensorMeta; 2], want: [&TensorMeta; 2], hint: &str) {
    let outputs = ok(asked(|| layer.infer(&inputs.map(Clone::clone))), hint);
    assert_eq!(outputs.len(), 2, "there are two outputs");
    assert_eq!(&outputs[0], want[0], "the copy. {hint}");
    assert_eq!(&outputs[1], want[1], "side by side. {hint}");
}

#[test]
fn task3_lengths_are_added_along_the_axis() {
    let layer = CopyConcat { copy: 1, axis: 1 };
    let (x, y) = (numbers(&[1, 2, 2]), numbers(&[1, 5, 2]));
    shapes(&layer, [&x, &y], [&y, &numbers(&[1, 7, 2])], "2 + 5 = 7, and the copy is the second input's.");
    let first = CopyConcat { copy: 0, axis: 1 };
    shapes(&first, [&x, &y], [&x, &numbers(&[1, 7, 2])], "copy=0 copies the first input.");
    let last = CopyConcat { copy: 1, axis: -1 };
    let (x, y) = (numbers(&[4, 3]), numbers(&[4, 6]));
    shapes(&last, [&x, &y], [&y, &numbers(&[4, 9])], "axis=-1 is the last axis.");
}

#[test]
fn task3_the_sum_may_be_a_symbol() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let layer = CopyConcat { copy: 1, axis: 1 };
    let (x, y) = (meta(&[1.into(), n.clone(), 2.into()]), meta(&[1.into(), m.clone(), 2.into()]));
    let whole = meta(&[1.into(), n.clone() + m, 2.into()]);
    shapes(&layer, [&x, &y], [&y, &whole], "n and m give n + m: add `Dim`s, not numbers.");
    let three = meta(&[1.into(), 3.into(), 2.into()]);
    let whole = meta(&[1.into(), n + 3, 2.into()]);
    shapes(&layer, [&x, &three], [&three, &whole], "n and 3 give n + 3.");
}

#[test]
fn task3_all_other_lengths_must_agree() {
    let layer = CopyConcat { copy: 1, axis: 1 };
    let infer = |x: &TensorMeta, y: &TensorMeta| asked(|| layer.infer(&[x.clone(), y.clone()]));
    let x = numbers(&[1, 2, 2]);
    for other in
        [numbers(&[1, 2, 3]), numbers(&[2, 2, 2]), numbers(&[1, 2]), numbers(&[1]), numbers(&[1, 2, 2, 1])]
    {
        let result = infer(&x, &other);
        assert!(
            matches!(result, Err(LayerError::Shape { .. })),
            "{x} and {other} don't fit: it was {result:?}"
        );
    }
    let open = meta(&[Dim::symbol("b"), 2.into(), 2.into()]);
    ok(infer(&x, &open), "b may turn out to be 1: refuse only what is known to differ.");
}

#[test]
fn task3_all_tensors_have_one_type() {
    let layer = CopyConcat { copy: 1, axis: 0 };
    let (x, half) = (numbers(&[2]), TensorMeta::new(DType::F16, [2]));
    let result = layer.infer(&[x, half.clone()]);
    assert!(matches!(result, Err(LayerError::DType { .. })), "f32 and f16 in one output? It was {result:?}");
    let whole = TensorMeta::new(DType::F16, [4]);
    shapes(&layer, [&half, &half], [&half, &whole], "Two inputs of f16 make outputs of f16.");
}

#[test]
fn task3_the_second_stands_behind_the_first() {
    let inputs = [tensor(&[2, 1], &[1.0, 2.0]), tensor(&[2, 2], &[10.0, 11.0, 20.0, 21.0])];
    let hint = "A row of the output is a row of the first input, then one of the second.";
    let outputs = forward(&mut CopyConcat { copy: 1, axis: 1 }, &inputs, hint);
    check(&outputs[0], &[2, 2], &[10.0, 11.0, 20.0, 21.0], "The copy of the second input.");
    check(&outputs[1], &[2, 3], &[1.0, 10.0, 11.0, 2.0, 20.0, 21.0], hint);
}

#[test]
fn task3_along_any_axis() {
    let inputs = [tensor(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]), tensor(&[1, 2, 2], &[5.0, 6.0, 7.0, 8.0])];
    let whole = |axis| {
        let hint = "Is the axis looked at, and counted from the end where it is negative?";
        forward(&mut CopyConcat { copy: 0, axis }, &inputs, hint).remove(1)
    };
    check(&whole(0), &[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "Axis 0.");
    check(&whole(1), &[1, 4, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "Axis 1.");
    check(&whole(-1), &[1, 2, 4], &[1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0], "Axis -1, the last.");
}

#[test]
fn task3_inputs_may_lie_in_any_order() {
    let turned = tensor(&[2, 2], &[1.0, 3.0, 2.0, 4.0]).permute(&[1, 0]).unwrap();
    let inputs = [turned, tensor(&[2, 2], &[5.0, 6.0, 7.0, 8.0])];
    let outputs = forward(&mut CopyConcat { copy: 0, axis: 0 }, &inputs, "Strides do not matter to arrays.");
    check(
        &outputs[1],
        &[4, 2],
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        "Are elements read as they lie in memory?",
    );
}

#[test]
fn task3_halves_are_moved_and_not_looked_at() {
    let halves =
        [tensor(&[2], &[1.5, -0.25]), tensor(&[1], &[f32::NAN])].map(|x| x.cast(DType::F16).unwrap());
    let hint = "Elements are 2 bytes or 4, whatever they mean.";
    let outputs = forward(&mut CopyConcat { copy: 1, axis: 0 }, &halves, hint);
    assert_eq!(outputs[1].dtype(), DType::F16);
    let bytes = |tensor: &Tensor| tensor.to_le_bytes().unwrap();
    let want = [bytes(&halves[0]), bytes(&halves[1])].concat();
    assert_eq!(bytes(&outputs[1]), want, "bit by bit, NaN included. {hint}");
}

// Task 4: formats.

/// What is answered about the last of these formats, with nothing behind it.
#[track_caller]
fn supports(formats: &[TensorFormat]) -> bool {
    let layer = CopyConcat { copy: 1, axis: 1 };
    let hint =
        "When a position is asked about, those behind it are not decided: look at `formats[..=position]`.";
    ok(asked(|| Ok(layer.supports(formats.len() - 1, formats))), hint)
}

#[test]
fn task4_the_first_tensor_is_of_f32_or_f16() {
    let first = |dtype| supports(&[TensorFormat::plain(dtype)]);
    assert!(first(DType::F32), "f32 is a type of this plugin");
    assert!(first(DType::F16), "f16 as well, equally: casting there and back would cost time");
    for dtype in [DType::F64, DType::Bf16, DType::I8, DType::I64, DType::Bool] {
        assert!(!first(dtype), "`forward` was not written for {dtype}");
    }
}

#[test]
fn task4_the_layout_is_plain() {
    let plain = TensorFormat::plain(DType::F32);
    assert!(!supports(&[plain.blocked(1, 8)]), "channels in blocks of 8 are not put side by side row by row");
    assert!(!supports(&[plain.channels_last()]), "channels last is another order, too");
    assert!(!supports(&[TensorFormat::quantized()]), "i8 with a scale: two inputs may have two scales");
}

#[test]
fn task4_all_others_are_as_the_first() {
    for dtype in [DType::F32, DType::F16] {
        for count in 2..=4 {
            let all = vec![TensorFormat::plain(dtype); count];
            assert!(supports(&all), "position {} is as position 0", count - 1);
            let other = if dtype == DType::F32 { DType::F16 } else { DType::F32 };
            for odd in [TensorFormat::plain(other), all[0].blocked(1, 8), all[0].channels_last()] {
                let mut formats = all.clone();
                formats[count - 1] = odd;
                assert!(!supports(&formats), "position {} is {odd}, and the first {}", count - 1, all[0]);
            }
        }
    }
}

#[test]
fn task4_the_engine_has_two_candidates() {
    supports(&[TensorFormat::plain(DType::F32)]);
    let mut registry = Registry::default();
    ok(registry.register_plugin::<CopyConcat>("mine", "1"), "The name is free.");
    let network = both("mine/CopyConcat/1", registry, DType::F32);
    let builder = ok(network.builder(), "The network is whole.").with_precisions([Precision::F16]);
    let plan = ok(builder.build(), "There are formats for all four tensors.");
    let settled = plan.settled();
    let candidates: Vec<String> = settled[0].candidates.iter().map(ToString::to_string).collect();
    assert_eq!(candidates, ["f32", "f16"], "with half precision allowed there are two ways to run it");
}

// Task 5: a life.

fn smooth(kernel: &[f64]) -> Smooth {
    Smooth { kernel: kernel.to_vec(), weights: State(None), row: State(None) }
}

/// Ready for rows of this length.
#[track_caller]
fn ready(row: usize) -> Smooth {
    let mut layer = smooth(&[1.0, 2.0, 1.0]);
    ok(layer.configure(&[numbers(&[1, row])], &[numbers(&[1, row])]), "A number is a length.");
    ok(layer.initialize(), "Nothing can go wrong.");
    layer
}

#[test]
fn task5_initialize_prepares_what_lasts() {
    let mut layer = smooth(&[1.0, 2.0, 1.0]);
    ok(layer.initialize(), "It may not count on `configure`: a plan that is loaded initialises first.");
    let weights = layer.weights.0.as_deref().unwrap_or_default();
    assert_eq!(weights, [0.25, 0.5, 0.25], "1, 2, 1 divided by their sum");
    assert_eq!(layer.kernel, [1.0, 2.0, 1.0], "the parameter stays as it was");
}

#[test]
fn task5_terminate_lets_go() {
    let mut layer = smooth(&[1.0, 3.0, 1.0]);
    ok(layer.initialize(), "Nothing can go wrong.");
    layer.terminate();
    assert!(layer.weights.0.is_none(), "what `initialize` made lasts until `terminate`");
    ok(layer.initialize(), "A layer may be initialised again.");
    assert_eq!(layer.weights.0.as_deref().unwrap_or_default(), [0.2, 0.6, 0.2]);
}

#[test]
fn task5_configure_notes_the_last_shape() {
    let mut layer = smooth(&[1.0]);
    for row in [4, 7, 4] {
        ok(layer.configure(&[numbers(&[3, row])], &[numbers(&[3, row])]), "A number is a length.");
        assert_eq!(
            layer.row.0,
            Some(row),
            "`configure` comes again with each new shape, and the last one counts"
        );
    }
    let open = meta(&[3.into(), Dim::symbol("n")]);
    let result = layer.configure(std::slice::from_ref(&open), std::slice::from_ref(&open));
    assert!(matches!(result, Err(LayerError::Shape { .. })), "n is no length: it was {result:?}");
}

#[test]
fn task5_workspace_is_in_bytes() {
    let bytes = |kernel: &[f64], row| smooth(kernel).workspace(&[numbers(&[9, row])], &[numbers(&[9, row])]);
    let hint = "a row of 4, one more element on both sides: 6 elements of 4 bytes; one row at a time";
    assert_eq!(bytes(&[1.0, 2.0, 1.0], 4), 24, "{hint}");
    assert_eq!(bytes(&[1.0; 5], 4), 32, "a kernel of 5 needs two more on both sides");
    assert_eq!(bytes(&[1.0], 4), 16, "a kernel of 1 needs none");
    let mut layer = ready(4);
    ok(layer.configure(&[numbers(&[1, 2])], &[numbers(&[1, 2])]), "A number is a length.");
    let asked = layer.workspace(&[numbers(&[1, 100])], &[numbers(&[1, 100])]);
    assert_eq!(asked, 408, "answer for the inputs that you are asked about");
}

#[test]
fn task5_a_spike_is_smoothed() {
    let mut layer = ready(4);
    let hint = "Was there enough scratch memory?";
    let output =
        forward(&mut layer, &[tensor(&[2, 4], &[0.0, 0.0, 4.0, 0.0, 8.0, 0.0, 0.0, 0.0])], hint).remove(0);
    let hint = "4 becomes 1, 2, 1. At the end the last element goes on: (8 + 2·8 + 0) / 4 = 6.";
    check(&output, &[2, 4], &[0.0, 1.0, 2.0, 1.0, 6.0, 2.0, 0.0, 0.0], hint);
}

#[test]
fn task5_a_clone_is_initialised_and_has_its_own_state() {
    let original = ready(4);
    let mut clone = original.clone();
    let (Some(ours), Some(theirs)) = (&original.weights.0, &clone.weights.0) else {
        panic!("a clone is created initialised: nobody calls `initialize` for it");
    };
    assert!(Arc::ptr_eq(ours, theirs), "weights that nobody changes are shared, not copied");
    ok(clone.configure(&[numbers(&[1, 2])], &[numbers(&[1, 2])]), "A number is a length.");
    assert_eq!((original.row.0, clone.row.0), (Some(4), Some(2)), "each context configures its own clone");
    let output = forward(&mut clone, &[tensor(&[1, 2], &[4.0, 0.0])], "It is initialised.").remove(0);
    check(&output, &[1, 2], &[3.0, 1.0], "(4 + 2·4 + 0) / 4 = 3.");
    let mut original = original;
    original.terminate();
    assert!(clone.weights.0.is_some(), "a clone that still runs keeps the weights");
}

#[test]
fn task5_state_comes_back() {
    for row in [1, 4, 300, 70_000] {
        let layer = ready(row);
        let bytes = ok(layer.serialize(), "A length can be written.");
        assert_eq!(bytes.len(), 8, "a length as u64; parameters are kept by the plan itself");
        let mut other = smooth(&[1.0, 2.0, 1.0]);
        ok(other.deserialize(&bytes), "These bytes were written by such a layer.");
        assert_eq!(other.row.0, Some(row), "is it written in one order of bytes and read in another?");
    }
    assert_eq!(
        ready(1).serialize().unwrap(),
        [1, 0, 0, 0, 0, 0, 0, 0],
        "little-endian: the lowest byte first"
    );
}

#[test]
fn task5_nothing_settled_is_no_bytes() {
    let layer = smooth(&[1.0]);
    assert!(ok(layer.serialize(), "There is nothing to write.").is_empty());
    let mut layer = ready(4);
    ok(layer.deserialize(&[]), "No bytes: nothing was settled.");
    assert_eq!(layer.row.0, None, "what comes back is what was stored");
}

#[test]
fn task5_damaged_state_is_refused() {
    for len in [1, 4, 7, 9, 16] {
        let mut layer = ready(4);
        let result = asked(|| layer.deserialize(&vec![1; len]));
        let is_right = matches!(result, Err(LayerError::Unsupported(_)));
        assert!(is_right, "{len} bytes are no length, and the file may be damaged: it was {result:?}");
        assert_eq!(layer.row.0, Some(4), "an error changes nothing");
    }
}

/// A network of one plugin on rows of any length, that writes down what it is asked.
fn watched(diary: &Diary) -> Network {
    let mut network = Network::new().with_registry(watched::registry(diary));
    let plugin = "test/Watched/1".parse().unwrap();
    let x = network.add_input("x", DType::F32, ["n".into(), "m".into()]).unwrap();
    let fields = Fields::new().with_param("kernel", vec![1.0, 2.0, 1.0]);
    let y = ok(network.add_plugin(&plugin, "smooth", &[x], &fields), "The network takes it.");
    network.mark_output(y[0], "y").unwrap();
    network
}

#[track_caller]
fn built(diary: &Diary) -> Plan {
    ready(1);
    let builder = ok(watched(diary).builder(), "The network is whole.");
    ok(builder.build(), "While a plan is built, `configure` comes first, then `initialize`.")
}

#[test]
fn task5_the_documented_order_while_it_is_built_and_saved() {
    let diary = Diary::default();
    let plan = built(&diary);
    let lines = watched::closed(&diary);
    assert!(steps(&lines).ends_with(&["configure", "initialize"]), "{lines:#?}");
    assert!(
        !steps(&lines).contains(&"forward"),
        "there is one way to run it, so nothing is timed: {lines:#?}"
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("smooth.plan");
    ok(plan.save(&path), "State is written.");
    assert_eq!(steps(&watched::closed(&diary)), ["serialize"], "the plan is written");
    drop(plan);
    watched::closed(&diary);

    let file = ok(PlanFile::open(&path, &Limits::default()), "It was just written.");
    let plan = ok(file.with_registry(watched::registry(&diary)).load(), "The state comes back.");
    let lines = watched::closed(&diary);
    assert_eq!(steps(&lines), ["create", "deserialize", "initialize"], "loading: {lines:#?}");
    let row = tensor(&[1, 2], &[4.0, 0.0]);
    let output = ok(ok(plan.context(), "A clone.").run(&[row]), "The loaded plan runs.").remove(0);
    check(&output, &[1, 2], &[3.0, 1.0], "The loaded plan computes the same.");
}

#[test]
fn task5_the_documented_order_while_it_runs() {
    let diary = Diary::default();
    let plan = built(&diary);
    watched::closed(&diary);
    let mut context = ok(plan.context(), "A context has a clone of its own.");
    assert_eq!(
        steps(&watched::closed(&diary)),
        ["clone"],
        "a context: a clone, which is initialised already"
    );

    let mut run = |len: usize| {
        let output = ok(context.run(&[Tensor::ones(DType::F32, &[2, len]).unwrap()]), "It is configured.");
        check(&output[0], &[2, len], &vec![1.0; 2 * len], "The mean of ones is one.");
        let lines = watched::closed(&diary);
        lines.iter().for_each(|line| println!("{line}"));
        steps(&lines).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(run(3), ["configure", "workspace", "forward"], "the first run");
    assert_eq!(run(3), ["forward"], "the same shape again: nothing but the arithmetic");
    assert_eq!(run(8), ["configure", "workspace", "forward"], "another shape");
    assert_eq!(run(3), ["configure", "forward"], "and back: the memory for this shape is planned already");

    drop(context);
    drop(plan);
    assert_eq!(
        steps(&watched::closed(&diary)),
        ["drop", "terminate", "drop"],
        "the clone, then the plan's layer"
    );
}

#[test]
fn task5_every_initialize_has_its_terminate() {
    let diary = Diary::default();
    let plan = built(&diary);
    let mut contexts: Vec<_> = (0..3).map(|_| ok(plan.context(), "A clone.")).collect();
    for (len, context) in (1..).zip(&mut contexts) {
        ok(context.run(&[Tensor::ones(DType::F32, &[1, len]).unwrap()]), "Each has its own length of a row.");
    }
    drop(contexts);
    drop(plan);
    let lines = watched::closed(&diary);
    let count = |what: &str| lines.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!((count(": initialize"), count(": terminate")), (1, 1), "one plan, three contexts: {lines:#?}");
    let born = lines.iter().filter(|line| line.contains(" → ")).count();
    assert_eq!(count(": drop"), born, "whoever was made is let go: {lines:#?}");
}

// Task 6: panics.

#[test]
fn task6_what_returns_is_returned() {
    assert_eq!(ok(guarded(|| Ok(7)), "Nothing happened."), 7);
    let error = guarded(|| -> Result<(), _> { Err(LayerError::Unsupported("no".to_owned())) });
    assert!(
        matches!(&error, Err(LayerError::Unsupported(text)) if text == "no"),
        "an error is no panic: {error:?}"
    );
}

/// The text of a panic that was caught.
fn caught(call: impl FnOnce()) -> String {
    let result = guarded(|| {
        call();
        Ok(())
    });
    match result {
        Err(LayerError::Panic(text)) => text,
        other => format!("not LayerError::Panic, but {other:?}"),
    }
}

#[test]
fn task6_the_words_of_a_panic_are_kept() {
    let hint =
        "a text without arguments comes as `&str`; is it the box that you ask, instead of what is in it?";
    assert_eq!(caught(|| panic!("too late")), "too late", "{hint}");
    let wanted = 3;
    assert_eq!(caught(|| panic!("{wanted} wanted")), "3 wanted", "a text with arguments comes as `String`");
}

#[test]
fn task6_a_panic_need_not_be_a_text() {
    assert_eq!(caught(|| std::panic::panic_any(42)), "without a message", "anything at all can be thrown");
}

#[test]
fn task6_a_real_mistake_is_an_error_that_says_what() {
    let empty: Vec<f32> = std::hint::black_box(Vec::new());
    let text = caught(|| assert_eq!(empty[std::hint::black_box(3)], 0.0));
    assert!(text.contains("the len is 0 but the index is 3"), "what Rust says about it must stay: {text}");
}

#[test]
fn task6_what_was_done_before_is_seen() {
    let mut done = Vec::new();
    let text = caught(|| {
        done.push(1);
        panic!("half way");
    });
    assert_eq!((text.as_str(), &done[..]), ("half way", &[1][..]), "the call may change what it borrows");
}

/// A network of the two-input plugin, which copies its second input and puts both side by side along axis 1.
fn both(plugin: &str, registry: Registry, dtype: DType) -> Network {
    let mut network = Network::new().with_registry(registry);
    let x = network.add_input("x", dtype, [1.into(), "n".into(), 2.into()]).unwrap();
    let y = network.add_input("y", dtype, [1.into(), "m".into(), 2.into()]).unwrap();
    let plugin = plugin.parse().unwrap();
    let outputs = ok(network.add_plugin(&plugin, "both", &[x, y], &Fields::new()), "The network takes it.");
    network.mark_output(outputs[0], "copy").unwrap();
    network.mark_output(outputs[1], "whole").unwrap();
    network
}

/// Your registry, your plugin, its defaults: from a network in code to a file, and from the file to the guide's numbers.
#[test]
fn task6_a_plan_with_your_plugin_is_saved_loaded_and_run() {
    ok(guarded(|| Ok(())), "Nothing happened.");
    let registry = || {
        let mut registry = Registry::default();
        let name = ok(
            add(&mut registry, "CopyConcat", Creator::plugin::<CopyConcat>("mine", "1")),
            "The name is free.",
        );
        assert_eq!(name.to_string(), "mine/CopyConcat/1");
        registry
    };
    let folder = tempfile::tempdir().unwrap();
    let (x, y) = ([72.438, 32.25, 77.625, 82.625], [96.438, 9.562, 47.094, 70.188]);
    for dtype in [DType::F32, DType::F16] {
        let path = folder.path().join(format!("{dtype}.plan"));
        let network = both("mine/CopyConcat/1", registry(), dtype);
        let plan = ok(ok(network.builder(), "The network is whole.").build(), "It can be built.");
        ok(plan.save(&path), "It can be saved.");
        refuses_without_the_plugin(&path);

        let file = ok(PlanFile::open(&path, &Limits::default()), "It was just written.");
        let plan = ok(file.with_registry(registry()).load(), "The plugin is there.");
        let [x, y] = [x, y].map(|values| tensor(&[1, 2, 2], &values).cast(dtype).unwrap());
        let outputs = ok(ok(plan.context(), "A clone.").run(&[x.clone(), y.clone()]), "It runs.");
        assert_eq!(outputs[0], y, "output 1 is the second input");
        assert_eq!(outputs[1].shape().dims(), [1, 4, 2], "output 2 has both along axis 1");
        let bytes = |tensor: &Tensor| tensor.to_le_bytes().unwrap();
        assert_eq!(
            bytes(&outputs[1]),
            [bytes(&x), bytes(&y)].concat(),
            "{dtype}: the first input, then the second"
        );
    }
}

/// A plan says which plugin it needs.
#[track_caller]
fn refuses_without_the_plugin(path: &Path) {
    let plan = ok(PlanFile::open(path, &Limits::default()), "It was just written.").load();
    let error = plan.map(drop).unwrap_err().to_string();
    assert!(error.contains("mine/CopyConcat/1"), "the error should name the plugin that is missing: {error}");
}
