use super::*;
use crate::op::{Field, LayerError, OperatorReader};
use ixion_tensor::Limits;

fn creator(namespace: &str, version: &str) -> Creator {
    Creator::new(namespace, version, |_: &mut OperatorReader<'_>| {
        Err(LayerError::Unsupported("only its name matters".to_owned()))
    })
}

fn name(text: &str) -> PluginName {
    text.parse().unwrap()
}

fn resolved(registry: &Registry, operator: &str) -> Graph {
    let text = format!("7767517\n3 2\npnnx.Input in 0 1 x\n{operator} op 1 1 x y\npnnx.Output out 1 0 y\n");
    let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
    registry.resolve(&mut graph).unwrap();
    let before = graph.to_param_text();
    registry.resolve(&mut graph).unwrap();
    assert_eq!(graph.to_param_text(), before, "a resolved graph does not change");
    graph
}

fn type_of(registry: &Registry, operator: &str) -> String {
    let graph = resolved(registry, operator);
    graph.operator(graph.operator_named("op").unwrap()).op_type().to_owned()
}

#[test]
fn names_have_three_parts_of_bounded_length() {
    let long = "x".repeat(PluginName::MAX_BYTES);
    assert!(PluginName::new(&*long, &*long, &*long).is_ok());
    let error = PluginName::new("acme", format!("{long}x"), "1").unwrap_err().to_string();
    assert!(error.ends_with("its type has 1025 bytes, the maximum is 1024") && error.len() < 200, "{error}");
    for wrong in ["", "Conv", "a/b", "a//c", "/b/c", "a/b/", "a/b c/1", "a/b/c/d", "a/b\n/c"] {
        assert!(matches!(wrong.parse::<PluginName>(), Err(RegistryError::Name { .. })), "{wrong}");
    }
    let mut registry: Registry = Registry::empty();
    assert!(registry.add_plugin("a b", creator("acme", "1")).is_err());
    assert!(registry.add_plugin("", creator("acme", "1")).is_err());
    assert!(registry.add_plugin("Conv", creator("ac/me", "1")).is_err());
    assert_eq!(registry.iter().count(), 0);
}

#[test]
fn namespace_type_and_version_identify_plugins() {
    let mut registry: Registry = Registry::empty();
    for (namespace, version) in [("acme", "1"), ("acme", "2"), ("other", "1")] {
        registry.add_plugin("Conv", creator(namespace, version)).unwrap();
    }
    let duplicate = registry.add_plugin("Conv", creator("acme", "2")).unwrap_err();
    assert_eq!(duplicate, RegistryError::Duplicate { op_type: "acme/Conv/2".to_owned() });
    let names: Vec<String> = registry.names().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["acme/Conv/1", "acme/Conv/2", "other/Conv/1"]);
    assert_eq!(registry.name_of("Conv"), Some(name("acme/Conv/1")), "the first one");
    assert_eq!(registry.find(&name("acme/Conv/2")).unwrap().version, "2");
    assert!(registry.find(&name("acme/Conv/3")).is_none());

    let replaced = registry.replace_plugin("Conv", creator("acme", "1").described("new", [])).unwrap();
    assert!(replaced.is_some_and(|creator| creator.doc.is_empty()));
    assert_eq!(registry.get("Conv").unwrap().doc, "new", "under its type as well");
    assert_eq!(registry.find(&name("acme/Conv/1")).unwrap().doc, "new");
    assert_eq!(registry.names().len(), 3);
}

#[test]
fn built_in_layers_have_their_own_namespace() {
    let mut registry = Registry::default();
    assert!(registry.names().iter().all(|name| name.namespace() == "ixion"));
    assert_eq!(registry.names().len(), registry.iter().count());
    assert!(registry.find(&name("ixion/nn.ReLU/1")).is_some());
    assert!(registry.find(&name("ixion/nn.ReLU/2")).is_none());
    let taken = registry.add_plugin("nn.ReLU", creator("ixion", "1")).unwrap_err();
    assert_eq!(taken, RegistryError::Duplicate { op_type: "ixion/nn.ReLU/1".to_owned() });
    registry.add_plugin("nn.ReLU", creator("acme", "1")).unwrap();
    assert_eq!(registry.name_of("nn.ReLU"), Some(name("ixion/nn.ReLU/1")), "it keeps its operators");
    assert_eq!(type_of(&registry, "nn.ReLU"), "nn.ReLU");
    assert_eq!(type_of(&registry, "acme/nn.ReLU/1"), "acme/nn.ReLU/1");
    assert_eq!(type_of(&registry, "ixion/nn.ReLU/1"), "nn.ReLU");
    assert_eq!(type_of(&registry, "ixion/nn.ReLU/7"), "ixion/nn.ReLU/7", "which is then reported");
}

#[test]
fn routes_lead_from_types_to_plugins_and_back() {
    let mut registry = Registry::default();
    registry.add_plugin("Relu", creator("acme", "1")).unwrap();
    let missing = registry.route("nn.ReLU", &name("acme/Relu/2")).unwrap_err();
    assert_eq!(missing.to_string(), "no layer is registered for `acme/Relu/2`; did you mean `acme/Relu/1`?");
    registry.route("nn.ReLU", &name("acme/Relu/1")).unwrap();
    assert_eq!(type_of(&registry, "nn.ReLU"), "acme/Relu/1");
    assert_eq!(registry.name_of("nn.ReLU"), Some(name("acme/Relu/1")));
    assert!(registry.find(&name("ixion/nn.ReLU/1")).is_some(), "the built-in one is still there");
    registry.route("nn.ReLU", &name("ixion/nn.ReLU/1")).unwrap();
    assert_eq!(registry.name_of("nn.ReLU"), Some(name("ixion/nn.ReLU/1")));

    registry.route("nn.Hardswish", &name("ixion/nn.SiLU/1")).unwrap();
    assert_eq!(type_of(&registry, "nn.Hardswish"), "nn.SiLU");
    assert_eq!(registry.name_of("nn.Hardswish"), Some(name("ixion/nn.SiLU/1")));
    assert_eq!(type_of(&registry, "nn.SiLU"), "nn.SiLU");
    assert!(registry.find(&name("ixion/nn.Hardswish/1")).is_some());
}

/// A layer that replaced a built-in layer under its full name stays registered after a route.
#[test]
fn a_replacement_of_a_built_in_layer_survives_a_route() {
    let mut registry = Registry::default();
    registry.add_plugin("Relu", creator("acme", "1")).unwrap();
    registry.replace_plugin("nn.ReLU", creator("ixion", "1")).unwrap();
    registry.route("nn.ReLU", &name("acme/Relu/1")).unwrap();
    let kept = registry.find(&name("ixion/nn.ReLU/1")).unwrap();
    assert_eq!(kept.plugin.as_deref(), Some("ixion/nn.ReLU/1"), "not the built-in one");
}

#[test]
fn whole_modules_and_custom_operators_lead_to_plugins() {
    let field = |key, kind| Field { key, kind, default: None, doc: "", is_parameter: false };
    let fields = [field("mask", INPUT_KIND), field("threshold", "a number")];
    let mut registry = Registry::default();
    let creator = creator("my_ops", "1").described("", fields);
    registry.add_plugin("gated", creator.clone()).unwrap();
    registry.add_plugin("models.common.Focus", creator).unwrap();
    assert_eq!(type_of(&registry, "models.common.Focus"), "my_ops/models.common.Focus/1");
    assert_eq!(type_of(&registry, "pnnx.custom_op.my_ops.gated"), "my_ops/gated/1");
    assert_eq!(type_of(&registry, "pnnx.custom_op.others.gated"), "pnnx.custom_op.others.gated");

    let text = "7767517\n4 3\npnnx.Input a 0 1 x\npnnx.Input b 0 1 m\n\
        pnnx.custom_op.my_ops.gated op 2 1 x m y arg_2=0.5 $arg_0=x $arg_1=m\npnnx.Output out 1 0 y\n";
    let mut graph = Graph::parse(text, &Limits::default()).unwrap();
    registry.resolve(&mut graph).unwrap();
    let operator = graph.operator(graph.operator_named("op").unwrap());
    assert_eq!(operator.input_names(), [Some("input".to_owned()), Some("mask".to_owned())]);
    assert_eq!(operator.param("threshold").unwrap().raw(), "0.5");

    let second = Creator::new("my_ops", "2", |_| Err(LayerError::Unsupported(String::new())));
    registry.add_plugin("gated", second).unwrap();
    let either = type_of(&registry, "pnnx.custom_op.my_ops.gated");
    assert_eq!(either, "pnnx.custom_op.my_ops.gated", "the version is ambiguous");
}

#[test]
fn a_registry_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Registry>();
}
