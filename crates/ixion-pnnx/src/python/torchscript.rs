//! Operators of TorchScript: calls by schema, lists of scripted models, and operators of custom libraries.

use super::Writer;
use super::arguments::Arguments;
use super::arithmetic::as_tensor;
use super::error::{PythonProblem, Written};
use super::kind::{Kind, constant};
use super::literal::{literal, string};
use super::prelude::Helper;
use crate::Value;
use crate::operator::Operator;

/// Operators whose results depend on the strides of a tensor, unless it is contiguous.
const STRIDED: &[&str] = &[
    "aten::as_strided",
    "aten::as_strided_copy",
    "aten::as_strided_scatter",
    "aten::view_as_complex",
    "aten::view_as_complex_copy",
];

impl Writer<'_> {
    /// Writes an operator of TorchScript. Most are called by their schema, which PyTorch knows.
    pub(super) fn torchscript(&mut self, operator: &Operator) -> Written {
        match operator.op_type() {
            "prim::NumToTensor" => {
                let number = self.input(operator, 0, "input")?;
                self.assign(operator, &as_tensor(&number));
            }
            // Of a branch without results, the file only lacks assertions.
            "prim::If" if self.is_unused(operator) => {}
            "prim::Print" | "aten::warn" => {}
            "prim::Loop" if self.never_runs(operator) => {
                let values: Vec<String> = self.input_variables(operator).into_iter().skip(2).collect();
                self.mark_unknown(operator);
                if !values.is_empty() {
                    self.assign(operator, &values.join(", "));
                }
            }
            "aten::append" => {
                let (list, item) = (self.input(operator, 0, "list")?, self.input(operator, 1, "item")?);
                self.forward.push(format!("{list}.append({item})"));
                self.mark(operator, Kind::List);
                self.assign(operator, &list);
            }
            "aten::__getitem__" => {
                let (list, index) = (self.input(operator, 0, "list")?, self.input(operator, 1, "index")?);
                self.mark_unknown(operator);
                self.assign(operator, &format!("{list}[{index}]"));
            }
            // By their schemas, they take numbers only, and round those of tensors.
            "prim::max" | "prim::min" => {
                let name = operator.op_type().trim_start_matches("prim::");
                let values = self.input_variables(operator).join(", ");
                self.mark_unknown(operator);
                self.assign(operator, &format!("{name}({values})"));
            }
            "aten::len" => {
                let list = self.input(operator, 0, "list")?;
                self.mark(operator, Kind::Number);
                self.assign(operator, &format!("len({list})"));
            }
            op_type => self.by_schema(operator, op_type)?,
        }
        Ok(())
    }

    fn by_schema(&mut self, operator: &Operator, op_type: &str) -> Written {
        let (space, name) = op_type.split_once("::").unwrap_or_default();
        let is_statement = space == "prim" && name.starts_with(char::is_uppercase);
        if is_statement || (space == "aten" && operator.outputs().is_empty()) {
            return Err(PythonProblem::Statement);
        }
        if space.is_empty() || name.is_empty() || name.contains("::") {
            return Err(PythonProblem::Unknown);
        }
        let mut texts = self.input_variables(operator);
        let sizes = operator.inputs().get(1).map(|&input| self.kind(input));
        // PNNX drops calls of `contiguous`, which views need.
        let name = match op_type {
            "aten::view" if sizes == Some(Kind::List) => "aten::reshape",
            "aten::view_as" => "aten::reshape_as",
            other => other,
        };
        if let Some(first) = texts.first_mut().filter(|_| STRIDED.contains(&op_type)) {
            first.push_str(".contiguous()");
        }
        let mut arguments = Arguments::of(operator, &texts);
        self.restore_empty_lists(operator, &mut arguments);
        let call = self.call(name, arguments);
        self.mark_unknown(operator);
        self.assign(operator, &call);
        Ok(())
    }

    /// A call of an operator of TorchScript by its schema.
    pub(super) fn call(&mut self, name: &str, mut arguments: Arguments) -> String {
        self.helpers.insert(Helper::Call);
        arguments.push_front(string(name));
        format!("call({})", arguments.text())
    }

    /// Notes that outputs without recorded axes may be numbers or lists.
    pub(super) fn mark_unknown(&mut self, operator: &Operator) {
        let are_sizes = operator.op_type() == "aten::size" && operator.inputs().len() == 1;
        for &output in operator.outputs() {
            if self.rank(output).is_none() {
                self.kinds.insert(output, if are_sizes { Kind::List } else { Kind::Other });
            }
        }
    }

    /// Returns true if no output is read.
    fn is_unused(&self, operator: &Operator) -> bool {
        let outputs = operator.outputs().iter().filter_map(|&output| self.graph.get_operand(output));
        outputs.map(|output| output.consumers().len()).sum::<usize>() == 0
    }

    /// Returns true if a loop ends before its first round: the number of rounds is at most 0, or the condition is `False` from the
    /// start. Its results are then the inputs after these two.
    fn never_runs(&self, operator: &Operator) -> bool {
        let given = |place: usize| {
            let producer = self.graph.get_operand(*operator.inputs().get(place)?)?.producer()?;
            constant(self.graph.get_operator(producer)?)
        };
        let count = given(0).and_then(|count| count.as_i64().ok());
        let ends = count.is_some_and(|count| count <= 0) || given(1).is_some_and(|go| go.raw() == "False");
        ends && operator.inputs().len() == operator.outputs().len() + 2
    }

    /// Writes an operator of a custom library. Its arguments are named `arg_0`, `arg_1`, … and may be in any order.
    pub(super) fn custom(&mut self, operator: &Operator, op_type: &str) {
        let name = op_type.trim_start_matches("pnnx.custom_op.");
        let mut arguments: Vec<(usize, String)> = Vec::new();
        let number = |key: &str| key.strip_prefix("arg_").and_then(|number| number.parse().ok());
        for (index, (key, &input)) in operator.input_names().iter().zip(operator.inputs()).enumerate() {
            let place = key.as_deref().and_then(number).unwrap_or(index);
            arguments.push((place, self.variable(input)));
        }
        for (key, parameter) in operator.params() {
            let is_list = matches!(parameter.value(), Value::None) && parameter.raw() != "None";
            let value = if is_list { "[]".to_owned() } else { literal(parameter) };
            arguments.push((number(key).unwrap_or(usize::MAX), value));
        }
        arguments.sort_by_key(|(place, _)| *place);
        let arguments: Vec<String> = arguments.into_iter().map(|(_, value)| value).collect();
        self.assign(operator, &format!("torch.ops.{name}({})", arguments.join(", ")));
    }
}
