//! What can be done about operators that no layer is registered for.

use crate::op::PluginName;

/// What can be done about a type of operator that no layer is registered for.
pub(super) fn advice(op_type: &str) -> String {
    if let Ok(name) = op_type.parse::<PluginName>() {
        let (namespace, op_type, version) = (name.namespace(), name.op_type(), name.version());
        return format!(
            "a plugin: register type `{op_type}`, version `{version}`, of the namespace `{namespace}`, or load the library that has it"
        );
    }
    advice_for_type(op_type).to_owned()
}

fn advice_for_type(op_type: &str) -> &'static str {
    const BUILT_IN: [&str; 5] = ["nn.", "F.", "torch.", "Tensor.", "torchvision."];
    match op_type {
        _ if op_type.starts_with("pnnx.custom_op.") => {
            "an operator of your own (`customop`): register a layer of this type, whose fields are arg_0, arg_1, …"
        }
        _ if op_type.contains('/') => {
            "the name of a plugin? A name has three parts: namespace/type/version, such as acme/Conv/1"
        }
        _ if op_type.contains("::") => {
            "PNNX knows no operator for this: export without optlevel=0, or register a layer of this type"
        }
        _ if BUILT_IN.iter().any(|prefix| op_type.starts_with(prefix)) => "register a layer of this type",
        _ => {
            "a module that PNNX kept whole (`moduleop`)? Export without that, or register a layer of this type"
        }
    }
}
