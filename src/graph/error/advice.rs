//! Advice for operators without a registered layer.

use crate::op::PluginName;

/// The advice for an operator type without a registered layer.
pub(in crate::graph) fn advice(op_type: &str) -> String {
    if let Ok(name) = op_type.parse::<PluginName>() {
        let (namespace, op_type, version) = (name.namespace(), name.op_type(), name.version());
        return format!(
            "a plugin: register type `{op_type}`, version `{version}`, in namespace `{namespace}`, or load the library that provides it"
        );
    }
    advice_for_type(op_type).to_owned()
}

fn advice_for_type(op_type: &str) -> &'static str {
    const BUILT_IN: [&str; 5] = ["nn.", "F.", "torch.", "Tensor.", "torchvision."];
    match op_type {
        _ if op_type.starts_with("pnnx.custom_op.") => {
            "a custom operator (`customop`): register a layer of this type with the fields arg_0, arg_1, …"
        }
        _ if op_type.contains('/') => "a plugin name? Expected namespace/type/version, such as acme/Conv/1",
        "prim::If" => {
            "PNNX does not write the branches of prim::If, so what they compute is not in the file: trace the model \
             (torch.jit.trace) instead of scripting it; if the branch depends on values, compute both and choose with \
             torch.where, or export each branch by itself. If it was traced, it calls a function that is scripted even then: \
             instead of torchvision.ops.batched_nms, call torchvision.ops.nms(boxes + classes[:, None] * 4096, scores, iou)"
        }
        "prim::Loop" => {
            "PNNX does not write the body of prim::Loop, so what it computes is not in the file: trace the model \
             (torch.jit.trace) instead of scripting it, which writes every round; if their number depends on values, export \
             one round by itself, and run it in a loop of your program"
        }
        "aten::append" => {
            "a list that grows where it is not known how it began: construct it as a whole, or trace the model \
             (torch.jit.trace) instead of scripting it"
        }
        _ if op_type.contains("::") => {
            "PNNX has no operator for this: export without optlevel=0, or register a layer of this type"
        }
        _ if BUILT_IN.iter().any(|prefix| op_type.starts_with(prefix)) => "register a layer of this type",
        _ => {
            "a module that PNNX kept whole (`moduleop`)? Export without `moduleop`, or register a layer of this type"
        }
    }
}
