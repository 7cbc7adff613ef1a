//! Writing the operators: inputs, outputs and containers here, the others by type.

use super::arithmetic::{Input, is_number, source};
use super::literal::{string, tuple};
use super::module::is_module;
use super::names::is_dotted;
use super::prelude::Helper;
use super::{Writer, literal};
use crate::Value;
use crate::expression::Expr;
use crate::ids::OperatorId;
use crate::operator::Operator;

impl Writer<'_> {
    /// Writes an operator.
    pub(super) fn operator(&mut self, id: OperatorId, operator: &Operator) {
        match operator.op_type() {
            "pnnx.Input" => self.inputs.extend(self.output_variables(operator)),
            "pnnx.Output" => self.outputs.extend(self.input_variables(operator)),
            "pnnx.Attribute" => self.attribute(id, operator),
            "pnnx.Expression" => self.expression(operator),
            "pnnx.SliceIndexes" => self.slice_indexes(operator),
            "prim::TupleConstruct" => self.construct(operator, tuple),
            "prim::ListConstruct" => self.construct(operator, |items| format!("[{}]", items.join(", "))),
            "prim::DictConstruct" => self.construct(operator, dictionary),
            "prim::TupleUnpack" | "prim::ListUnpack" => self.unpack(operator),
            "Tensor.slice" => self.slice(operator),
            "Tensor.slice_copy" => self.slice_copy(operator),
            "Tensor.index" => self.index(operator),
            "Tensor.index_put" => self.index_put(operator),
            op_type => self.by_prefix(id, operator, op_type),
        }
    }

    fn by_prefix(&mut self, id: OperatorId, operator: &Operator, op_type: &str) {
        let method = op_type.strip_prefix("Tensor.");
        match method {
            _ if !is_dotted(op_type) => self.unknown(operator),
            // PyTorch has only the in-place method.
            Some("fill") => self.filled(operator),
            Some(method) => self.method(operator, method),
            None if is_module(op_type) => self.module(id, operator),
            None if op_type.starts_with("pnnx.custom_op.") => self.custom(operator, op_type),
            None if is_function(op_type) => self.function(operator),
            None => self.unknown(operator),
        }
    }

    /// Writes an operator without a counterpart in PyTorch. The source stays valid, and raises an error when it reaches the
    /// operator.
    pub(super) fn unknown(&mut self, operator: &Operator) {
        let message = format!("operator {} of type {}", operator.name(), operator.op_type());
        self.forward.push(format!("raise NotImplementedError({})", string(&message)));
        self.assign(operator, "None");
    }

    /// Writes a constant, as a parameter or buffer of the model.
    fn attribute(&mut self, id: OperatorId, operator: &Operator) {
        let Some((key, attribute)) = operator.attrs().iter().next() else {
            return self.unknown(operator);
        };
        let member = self.member(id);
        let (entry, dtype) = (string(&format!("{}.{key}", operator.name())), attribute.dtype().torch_name());
        let shape = tuple(attribute.shape().iter().map(usize::to_string));
        let name = string(member.trim_start_matches("self."));
        self.init.push(format!("keep(self, {name}, weights.tensor({entry}, {dtype}, {shape}))"));
        self.assign(operator, &member);
    }

    fn expression(&mut self, operator: &Operator) {
        let Some(Ok(expr)) = operator.param("expr").map(|parameter| Expr::parse(parameter.raw())) else {
            return self.unknown(operator);
        };
        let inputs = self.expression_inputs(operator);
        if is_number(&expr, &inputs) {
            self.numbers.extend(operator.outputs());
        }
        self.assign(operator, &source(&expr, &inputs));
    }

    fn expression_inputs(&self, operator: &Operator) -> Vec<Input> {
        let input = |&id| Input { variable: self.variable(id), is_number: self.numbers.contains(&id) };
        operator.inputs().iter().map(input).collect()
    }

    /// Writes a list of indices such as `indexes=(@0,2147483647)`, some of which are inputs.
    fn slice_indexes(&mut self, operator: &Operator) {
        let raw = operator.param("indexes").map_or("()", |parameter| parameter.raw());
        let inner = raw.trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
        let Ok(expr) = Expr::parse(&format!("[{inner}]")) else {
            return self.unknown(operator);
        };
        let inputs = self.expression_inputs(operator);
        self.assign(operator, &source(&expr, &inputs));
    }

    fn construct(&mut self, operator: &Operator, join: impl Fn(Vec<String>) -> String) {
        let items = self.input_variables(operator);
        self.assign(operator, &join(items));
    }

    /// Unpacks a sequence. A single output takes its first element.
    fn unpack(&mut self, operator: &Operator) {
        let sequence = self.input_variables(operator).join(", ");
        match operator.outputs() {
            [_] => self.assign(operator, &format!("{sequence}[0]")),
            _ => self.assign(operator, &sequence),
        }
    }

    fn slice(&mut self, operator: &Operator) {
        let Some(tensor) = self.input_variables(operator).into_iter().next() else {
            return self.unknown(operator);
        };
        let region = self.region(operator, &tensor);
        self.assign(operator, &format!("{tensor}[{region}]"));
    }

    /// Copies a tensor and replaces a part of the copy.
    fn slice_copy(&mut self, operator: &Operator) {
        let inputs = self.input_variables(operator);
        let ([tensor, part, ..], [_]) = (inputs.as_slice(), operator.outputs()) else {
            return self.unknown(operator);
        };
        let region = self.region(operator, tensor);
        self.assign(operator, &format!("{tensor}.clone()"));
        let copy = self.output_variables(operator).concat();
        self.forward.push(format!("{copy}[{region}] = {part}"));
    }

    /// The index of a part of a tensor: one axis (`dim`, `start`, …) or several (`dims`, `starts`, …).
    fn region(&mut self, operator: &Operator, tensor: &str) -> String {
        self.helpers.insert(Helper::Region);
        let several = ["dims", "starts", "ends", "steps", "selects"];
        let one = ["dim", "start", "end", "step"];
        if operator.has_param("dims") {
            let values =
                several.iter().filter_map(|&key| Some(format!("{key}={}", self.argument(operator, key)?)));
            let values: Vec<String> = values.collect();
            return format!("region({tensor}, {})", values.join(", "));
        }
        let value = |&key: &&str| {
            let value = self.argument(operator, key).unwrap_or_else(|| "None".to_owned());
            format!("{key}s=({value},)")
        };
        let values: Vec<String> = one.iter().map(value).collect();
        format!("region({tensor}, {})", values.join(", "))
    }

    /// An argument that is an input or a parameter.
    fn argument(&self, operator: &Operator, key: &str) -> Option<String> {
        let input = operator.named_input(key).map(|input| self.variable(input));
        input.or_else(|| operator.param(key).map(literal::literal))
    }

    fn index(&mut self, operator: &Operator) {
        let inputs = self.expression_inputs(operator);
        let given = operator.named_input("expr").map(|input| self.variable(input));
        let written = operator.param("expr").and_then(|parameter| Expr::parse(parameter.raw()).ok());
        let items = given.or_else(|| written.map(|expr| source(&expr, &inputs)));
        let (Some(items), Some(tensor)) = (items, inputs.first()) else {
            return self.unknown(operator);
        };
        let value = format!("{}[index({items})]", tensor.variable);
        self.helpers.insert(Helper::Index);
        self.assign(operator, &value);
    }

    fn index_put(&mut self, operator: &Operator) {
        let inputs = self.input_variables(operator);
        let (Some(tensor), Some(indices)) = (inputs.first(), self.argument(operator, "indices")) else {
            return self.unknown(operator);
        };
        let values = self.argument(operator, "values").unwrap_or_else(|| "0".to_owned());
        let accumulate = self.argument(operator, "accumulate").unwrap_or_else(|| "False".to_owned());
        self.helpers.insert(Helper::Index);
        let values = format!("torch.as_tensor({values}, dtype={tensor}.dtype)");
        self.assign(
            operator,
            &format!("{tensor}.index_put(index({indices}), {values}, accumulate={accumulate})"),
        );
    }

    fn filled(&mut self, operator: &Operator) {
        let inputs = self.input_variables(operator);
        let (Some(tensor), Some(value)) = (inputs.first(), self.argument(operator, "value")) else {
            return self.unknown(operator);
        };
        self.assign(operator, &format!("torch.fill({tensor}, {value})"));
    }

    /// Writes an operator of a custom library. Its arguments are named `arg_0`, `arg_1`, … and may be in any order.
    fn custom(&mut self, operator: &Operator, op_type: &str) {
        let name = op_type.trim_start_matches("pnnx.custom_op.");
        let mut arguments: Vec<(usize, String)> = Vec::new();
        let number = |key: &str| key.strip_prefix("arg_").and_then(|number| number.parse().ok());
        for (index, (key, &input)) in operator.input_names().iter().zip(operator.inputs()).enumerate() {
            let place = key.as_deref().and_then(number).unwrap_or(index);
            arguments.push((place, self.variable(input)));
        }
        for (key, parameter) in operator.params() {
            let is_list = matches!(parameter.value(), Value::None) && parameter.raw() != "None";
            let value = if is_list { "[]".to_owned() } else { literal::literal(parameter) };
            arguments.push((number(key).unwrap_or(usize::MAX), value));
        }
        arguments.sort_by_key(|(place, _)| *place);
        let arguments: Vec<String> = arguments.into_iter().map(|(_, value)| value).collect();
        self.assign(operator, &format!("torch.ops.{name}({})", arguments.join(", ")));
    }
}

/// Returns true if a type is the name of a function of PyTorch or of one of its libraries.
fn is_function(op_type: &str) -> bool {
    ["F.", "torch.", "torchvision.", "torchaudio."].iter().any(|prefix| op_type.starts_with(prefix))
}

/// A dictionary of alternating keys and values.
fn dictionary(items: Vec<String>) -> String {
    let pairs: Vec<String> = items.chunks(2).map(|pair| pair.join(": ")).collect();
    format!("{{{}}}", pairs.join(", "))
}
