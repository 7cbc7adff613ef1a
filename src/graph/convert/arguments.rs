//! The parameters and inputs with which a layer is created, and their names in TorchScript.

use crate::graph::OperandIndex;
use crate::graph::draft::Constant;
use crate::op::{Creator, INPUT_KIND, Registry, RuntimeParameter};
use crate::pnnx::{self, OperandId};
use std::collections::BTreeMap;

/// The parameters and inputs with which a layer is created.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) params: BTreeMap<String, RuntimeParameter>,
    pub(super) inputs: Vec<OperandIndex>,
    pub(super) names: Vec<Option<String>>,
}

impl Arguments {
    /// Adds inputs; the first one gets the name.
    pub(super) fn push(&mut self, inputs: &[OperandIndex], name: Option<String>) {
        if let Some(first) = inputs.first() {
            self.inputs.push(*first);
            self.names.push(name);
        }
        self.inputs.extend(inputs.iter().skip(1));
        self.names.resize(self.inputs.len(), None);
    }

    /// Adds a parameter.
    pub(super) fn with_param(mut self, key: &str, raw: &str) -> Self {
        self.params.insert(key.to_owned(), RuntimeParameter::parse(raw));
        self
    }
}

/// Arguments of TorchScript operators that are ignored: the device, layout and memory format of a tensor, the library that
/// computes it, and settings that only affect training.
pub(super) const IGNORED: [&str; 8] = [
    "layout",
    "device",
    "pin_memory",
    "memory_format",
    "non_blocking",
    "cudnn_enabled",
    "padding_idx",
    "generator",
];

/// The names of an operator's inputs. If the file has none, the inputs of TorchScript operators are named by position: after
/// the fields of the layer, or `arg_0`, `arg_1` and so on if the layer publishes no fields.
pub(super) fn argument_names(operator: &pnnx::Operator, creator: &Creator) -> Vec<Option<String>> {
    let (names, count) = (operator.input_names(), operator.inputs().len());
    if !operator.op_type().contains("::") || names.iter().any(Option::is_some) {
        return names.to_vec();
    }
    // The arguments of TorchScript do not depend on who runs the operator: a replaced layer keeps those of the built-in one.
    let built_in = || Registry::built_in().known(operator.op_type())?.overload(count);
    if let Some(keys) = creator.overload(count).or_else(built_in) {
        return keys.iter().map(|key| Some((*key).to_owned())).collect();
    }
    if creator.fields.is_empty() {
        return (0..count).map(|position| Some(format!("arg_{position}"))).collect();
    }
    let keys = creator.fields.iter().map(|field| field.key).filter(|&key| key != "input");
    std::iter::once("input").chain(keys).take(count).map(|key| Some(key.to_owned())).collect()
}

/// Returns true if an operator reads an operand as a parameter that the graph computes, such as a list of axes.
pub(super) fn reads_as_parameter(operator: &pnnx::Operator, creator: &Creator, operand: OperandId) -> bool {
    let names = argument_names(operator, creator);
    let is_parameter = |key: &str| creator.fields.iter().any(|field| field.is_parameter && field.key == key);
    let mut inputs = operator.inputs().iter().zip(&names);
    inputs.any(|(&input, name)| input == operand && name.as_deref().is_some_and(is_parameter))
}

/// Returns true if a layer reads a constant with this key as a parameter instead of a tensor.
pub(super) fn takes_parameter(creator: &Creator, key: &str, position: usize) -> bool {
    match creator.fields.iter().find(|field| field.key == key) {
        Some(field) => field.kind != INPUT_KIND,
        None => position > 0 || creator.fields.is_empty(),
    }
}

/// Returns true if a constant can only be a parameter, such as the equation of an einsum.
pub(super) fn is_word(constant: &Constant) -> bool {
    let parameter = &constant.parameter;
    matches!(parameter.value(), pnnx::Value::Str(_)) && parameter.as_f64().is_err()
}

/// The parameter for a constant. Element types, which TorchScript writes as numbers, become names.
pub(super) fn as_parameter(key: &str, constant: &Constant) -> RuntimeParameter {
    let name = match (key, constant.parameter.raw()) {
        ("dtype", "0") => "torch.uint8",
        ("dtype", "1") => "torch.int8",
        ("dtype", "2") => "torch.short",
        ("dtype", "3") => "torch.int",
        ("dtype", "4") => "torch.long",
        ("dtype", "5") => "torch.half",
        ("dtype", "6") => "torch.float",
        ("dtype", "7") => "torch.double",
        ("dtype", "8") => "torch.complex32",
        ("dtype", "9") => "torch.complex64",
        ("dtype", "10") => "torch.complex128",
        ("dtype", "11") => "torch.bool",
        ("dtype", "15") => "torch.bfloat16",
        _ => return constant.parameter.clone(),
    };
    RuntimeParameter::parse(name)
}

/// Returns true if this input of an operator is a list of indices, which may contain `None`, masks and tensors of different
/// shapes.
pub(super) fn is_index(op_type: &str, key: &str) -> bool {
    matches!((op_type, key), ("Tensor.index", "expr") | ("Tensor.index_put", "indices"))
}
