//! Dividing the inputs of an operator into tensors and parameters.
//!
//! At optimisation level 2, PNNX writes the arguments of an operator as parameters. At lower levels it leaves constants that
//! feed named inputs (`$dim=3`), and TorchScript operators (`aten::add`) whose inputs have no names at all. Both are converted
//! to the form of level 2 here, so that layers only need to support that.

use super::values::expression_text;
use super::{Arguments, Converter};
use crate::graph::draft::{self, Constant, Tuple, Value};
use crate::graph::{GraphError, OperandIndex};
use crate::op::{Creator, INPUT_KIND, Registry, RuntimeParameter};
use crate::pnnx;

/// Arguments of TorchScript operators that are ignored: the device, layout and memory format of a tensor, the library that
/// computes it, and settings that only affect training.
const IGNORED: [&str; 8] = [
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
fn argument_names(operator: &pnnx::Operator, creator: &Creator, values: &[Value]) -> Vec<Option<String>> {
    let (names, count) = (operator.input_names(), operator.inputs().len());
    if !operator.op_type().contains("::") || names.iter().any(Option::is_some) {
        return names.to_vec();
    }
    // The arguments of TorchScript do not depend on who runs the operator: a replaced layer keeps those of the built-in one.
    let built_in = || Registry::default().known(operator.op_type())?.overload(values.len());
    if let Some(keys) = creator.overload(values.len()).or_else(built_in) {
        return keys.iter().map(|key| Some((*key).to_owned())).collect();
    }
    if creator.fields.is_empty() {
        return (0..count).map(|position| Some(format!("arg_{position}"))).collect();
    }
    let keys = creator.fields.iter().map(|field| field.key).filter(|&key| key != "input");
    std::iter::once("input").chain(keys).take(count).map(|key| Some(key.to_owned())).collect()
}

/// Returns true if a layer reads a constant with this key as a parameter instead of a tensor.
fn takes_parameter(creator: &Creator, key: &str, position: usize) -> bool {
    match creator.fields.iter().find(|field| field.key == key) {
        Some(field) => field.kind != INPUT_KIND,
        None => position > 0 || creator.fields.is_empty(),
    }
}

/// Returns true if a constant can only be a parameter, such as the equation of an einsum.
fn is_word(constant: &Constant) -> bool {
    let parameter = &constant.parameter;
    matches!(parameter.value(), pnnx::Value::Str(_)) && parameter.as_f64().is_err()
}

/// The parameter for a constant. Element types, which TorchScript writes as numbers, become names.
fn as_parameter(key: &str, constant: &Constant) -> RuntimeParameter {
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
fn is_index(op_type: &str, key: &str) -> bool {
    matches!((op_type, key), ("Tensor.index", "expr") | ("Tensor.index_put", "indices"))
}

impl Converter<'_> {
    /// Divides an operator's inputs into parameters and tensors.
    pub(super) fn arguments(
        &mut self,
        operator: &pnnx::Operator,
        creator: &Creator,
        values: &[Value],
    ) -> Result<Arguments, GraphError> {
        let names = argument_names(operator, creator, values);
        let mut arguments = Arguments { params: operator.params().clone(), ..Arguments::default() };
        for (position, value) in values.iter().enumerate() {
            let name = names.get(position).cloned().flatten();
            let key = name.as_deref().unwrap_or_default();
            let value = self.listed(value);
            match &value {
                Value::Constant(constant) if name.is_none() && is_word(constant) => {
                    let given = |key: &str| arguments.params.contains_key(key);
                    let field =
                        creator.fields.iter().find(|field| field.kind != INPUT_KIND && !given(field.key));
                    let key = field.map_or_else(|| format!("arg_{position}"), |field| field.key.to_owned());
                    arguments.params.insert(key, constant.parameter.clone());
                }
                _ if operator.op_type().contains("::") && IGNORED.contains(&key) => {}
                // An absent argument for which the layer has no field.
                Value::Constant(constant)
                    if name.is_none()
                        && position > 0
                        && constant.parameter.raw() == "None"
                        && operator.op_type().contains("::") => {}
                Value::Constant(constant) if name.is_some() && takes_parameter(creator, key, position) => {
                    arguments.params.insert(key.to_owned(), as_parameter(key, constant));
                }
                Value::Tuple(items) if is_index(operator.op_type(), key) => {
                    self.add_index(operator, key, items, &mut arguments)?;
                }
                Value::Tuple(items) if self.is_numbers(items) => {
                    let list = self.number_list(operator, position, items)?;
                    arguments.push(&[list], name);
                }
                _ => {
                    let mut inputs = Vec::new();
                    self.flatten(operator, &value, &mut inputs)?;
                    arguments.push(&inputs, name);
                }
            }
        }
        if operator.op_type() == "aten::embedding" {
            // TorchScript passes the table first, the layer expects the indices first.
            arguments.inputs.rotate_left(1);
            arguments.names.rotate_left(1);
        }
        Ok(arguments)
    }

    /// Turns a list of constants into a constant; other values are returned unchanged.
    fn listed(&self, value: &Value) -> Value {
        let Value::Tuple(tuple) = value else { return value.clone() };
        let text = |item: &Value| match item {
            Value::Constant(constant) => Some(expression_text(&constant.parameter)),
            _ => None,
        };
        match tuple.items.iter().map(text).collect::<Option<Vec<String>>>() {
            Some(texts) if !texts.is_empty() => Value::constant(&format!("[{}]", texts.join(",")), None),
            _ => value.clone(),
        }
    }

    /// Returns true if a list contains only constants and numbers that the graph computes.
    fn is_numbers(&self, tuple: &Tuple) -> bool {
        let is_number = |item: &Value| match item {
            Value::Tensor(index) => self.numbers.contains(index),
            Value::Constant(_) => true,
            Value::Tuple(_) => false,
        };
        !tuple.items.is_empty() && tuple.items.iter().all(is_number)
    }

    /// Combines the numbers of a list into one tensor.
    fn number_list(
        &mut self,
        operator: &pnnx::Operator,
        position: usize,
        tuple: &Tuple,
    ) -> Result<OperandIndex, GraphError> {
        let (mut arguments, mut texts) = (Arguments::default(), Vec::new());
        for item in &tuple.items {
            match item {
                Value::Constant(constant) => texts.push(expression_text(&constant.parameter)),
                item => {
                    texts.push(format!("@{}", arguments.inputs.len()));
                    let mut inputs = Vec::new();
                    self.flatten(operator, item, &mut inputs)?;
                    arguments.push(&inputs, None);
                }
            }
        }
        let arguments = arguments.with_param("expr", &format!("[{}]", texts.join(",")));
        let name = format!("{}.{position}", operator.name());
        self.insert(operator, "pnnx.Expression", name, arguments)
    }

    /// Turns a list of indices into a parameter, as for a list of constants, whose tensors become inputs.
    fn add_index(
        &mut self,
        operator: &pnnx::Operator,
        key: &str,
        tuple: &Tuple,
        arguments: &mut Arguments,
    ) -> Result<(), GraphError> {
        let mut texts = Vec::new();
        for item in &tuple.items {
            match item {
                Value::Constant(constant) => texts.push(expression_text(&constant.parameter)),
                Value::Tensor(index) => {
                    texts.push(format!("@{}", arguments.inputs.len()));
                    arguments.push(&[*index], None);
                }
                Value::Tuple(_) => {
                    return Err(self.tuple_error(
                        operator,
                        "expected a tensor or a constant as index, got a tuple".to_owned(),
                    ));
                }
            }
        }
        let text = format!("[{}]", texts.join(","));
        arguments.params.insert(key.to_owned(), RuntimeParameter::parse(&text));
        Ok(())
    }

    /// Appends all tensors of a value, depth first. Constants become tensors.
    pub(super) fn flatten(
        &mut self,
        operator: &pnnx::Operator,
        value: &Value,
        into: &mut Vec<OperandIndex>,
    ) -> Result<(), GraphError> {
        let mut leaves = Vec::new();
        draft::flatten(value, &mut leaves);
        for leaf in leaves {
            match leaf {
                Value::Tensor(index) => into.push(*index),
                Value::Constant(constant) => into.push(self.constant_tensor(operator, constant)?),
                Value::Tuple(_) => {}
            }
        }
        Ok(())
    }

    /// The tensor for a constant that a layer reads as a tensor.
    fn constant_tensor(
        &mut self,
        operator: &pnnx::Operator,
        constant: &Constant,
    ) -> Result<OperandIndex, GraphError> {
        if let Some(made) = constant.operand.and_then(|operand| self.made.get(&operand)) {
            return Ok(*made);
        }
        let producer = constant.operand.and_then(|operand| self.file.operand(operand).producer());
        let operator = producer.map_or(operator, |producer| self.file.operator(producer));
        let arguments = Arguments::default().with_param("expr", &expression_text(&constant.parameter));
        let index = self.insert(operator, "pnnx.Expression", operator.name().to_owned(), arguments)?;
        if let Some(operand) = constant.operand {
            self.name_operand(index, operand);
            self.made.insert(operand, index);
        }
        Ok(index)
    }
}
