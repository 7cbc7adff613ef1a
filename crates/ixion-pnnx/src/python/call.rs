//! Operators that become calls to functions and methods.

use super::Writer;
use super::arguments::{Arguments, has_number_as_input, names_a_tensor};
use super::arithmetic::{as_tensor, one_element};
use super::error::{PythonProblem, Written};
use super::kind::{Kind, is_unpack};
use super::literal::tuple;
use super::names::is_identifier;
use super::prelude::Helper;
use crate::ids::OperatorId;
use crate::operand::Dim;
use crate::operator::Operator;

/// Functions that take all their tensors as one sequence.
const TAKE_SEQUENCE: &[&str] = &[
    "torch.cat",
    "torch.concat",
    "torch.concatenate",
    "torch.stack",
    "torch.hstack",
    "torch.vstack",
    "torch.dstack",
    "torch.column_stack",
];

/// Functions that return a sequence even if it has one element.
const GIVE_SEQUENCE: &[&str] = &["torch.chunk", "torch.split", "torch.tensor_split", "torch.unbind"];

/// Functions that return values and indices if an axis is given.
const GIVE_INDICES: &[&str] = &["torch.max", "torch.min", "torch.median"];

/// PNNX's names for sizes that methods take by position if they take nothing else.
const BY_POSITION: &[&str] = &["shape", "sizes", "dims"];

/// PNNX's names for sizes, which may be computed by a tensor.
const SIZES: &[&str] = &["shape", "sizes", "size", "dims"];

impl Writer<'_> {
    /// `F.relu(x)`, `torch.cat((a, b), dim=1)` and the like.
    pub(super) fn function(&mut self, id: OperatorId, operator: &Operator) -> Written {
        let texts = self.argument_texts(operator, false);
        let stored = self.stored(id, operator);
        let call = self.function_call(operator, &texts, &stored)?;
        self.assign_call(operator, &call);
        Ok(())
    }

    /// The tensors that a file stores with a call of a function, as arguments. A module holds them.
    fn stored(&mut self, id: OperatorId, operator: &Operator) -> Vec<(String, String)> {
        if operator.attrs().is_empty() {
            return Vec::new();
        }
        let member = self.member(id);
        self.init.push(format!("{member} = nn.Module()"));
        self.fill(&member, operator);
        let keys = operator.attrs().keys().filter(|key| is_identifier(key));
        keys.map(|key| (key.clone(), format!("{member}.{key}"))).collect()
    }

    /// `x.reshape(…)` and the like: the method is called on the first input.
    pub(super) fn method(&mut self, operator: &Operator, name: &str) -> Written {
        let texts = self.argument_texts(operator, !has_number_as_input(operator));
        let call = self.method_call(operator, name, &texts)?;
        if name == "size" {
            let has_axis = operator.has_param("dim") || operator.has_input("dim");
            self.mark(operator, if has_axis { Kind::Number } else { Kind::List });
        }
        self.assign_call(operator, &call);
        Ok(())
    }

    /// The inputs as arguments. PyTorch does not accept a tensor of sizes, nor a number in the place of a tensor.
    pub(super) fn argument_texts(&mut self, operator: &Operator, is_method: bool) -> Vec<String> {
        let takes_sequence = TAKE_SEQUENCE.contains(&operator.op_type());
        let mut texts = Vec::new();
        for (index, (&input, name)) in operator.inputs().iter().zip(operator.input_names()).enumerate() {
            let (text, kind) = (self.variable(input), self.kind(input));
            let is_self = is_method && index == 0;
            let is_tensor = index == 0 && name.as_deref().is_some_and(names_a_tensor);
            let is_item = takes_sequence && name.is_none();
            let is_size = !is_self && name.as_deref().is_some_and(|name| SIZES.contains(&name));
            texts.push(match kind {
                Kind::Number | Kind::List | Kind::Other if is_self || is_tensor => as_tensor(&text),
                Kind::Number if is_item && self.has_axes(input) => one_element(&text),
                Kind::Number if is_item => as_tensor(&text),
                Kind::Tensor | Kind::Other if is_size => {
                    self.helpers.insert(Helper::Ints);
                    format!("ints({text})")
                }
                _ => text,
            });
        }
        texts
    }

    /// The call of a function with these inputs, and these further arguments by name.
    pub(super) fn function_call(
        &self,
        operator: &Operator,
        texts: &[String],
        others: &[(String, String)],
    ) -> Written<String> {
        let op_type = operator.op_type();
        let mut arguments = Arguments::of(operator, texts);
        others.iter().for_each(|(name, value)| arguments.name(name, value.clone()));
        if has_number_as_input(operator) {
            arguments.change("input", as_tensor);
        }
        self.restore_empty_lists(operator, &mut arguments);
        if let Some(call) = self.other_call(operator, &mut arguments)? {
            return Ok(call);
        }
        self.adjust(operator, &mut arguments);
        if TAKE_SEQUENCE.contains(&op_type) && arguments.first().is_some() && !self.reads_sequence(operator) {
            arguments.gather(tuple);
        }
        arguments.drop_usual();
        Ok(format!("{op_type}({})", arguments.text()))
    }

    /// The call of a method of the first input.
    pub(super) fn method_call(&self, operator: &Operator, name: &str, texts: &[String]) -> Written<String> {
        let (tensor, mut arguments) =
            Arguments::of_method(operator, texts).ok_or(PythonProblem::Missing { key: "input" })?;
        self.restore_empty_lists(operator, &mut arguments);
        if !(operator.has_param("dim") || operator.has_input("dim")) {
            for size in BY_POSITION {
                arguments.by_position(size);
            }
        }
        arguments.by_position("split_size_or_sections");
        if let Some(shape) = self.copied_sizes(operator, &tensor) {
            arguments.gather(|_| shape);
        }
        arguments.drop_usual();
        Ok(match name {
            // A conversion to nothing else.
            "to" if arguments.is_empty() => tensor,
            // PNNX drops calls of `contiguous`, which views need.
            "view" if !arguments.has("dtype") => format!("{tensor}.reshape({})", arguments.text()),
            "view_as" => format!("{tensor}.reshape_as({})", arguments.text()),
            "as_strided" => format!("{tensor}.contiguous().{name}({})", arguments.text()),
            _ => format!("{tensor}.{name}({})", arguments.text()),
        })
    }

    /// The shape of a reshape whose parameter is not PyTorch's: in it, a 0 is the input's size along the same axis, unless the
    /// input is empty, and no sizes are `None`.
    pub(super) fn copied_sizes(&self, operator: &Operator, tensor: &str) -> Option<String> {
        let name = operator.op_type().rsplit('.').next()?;
        let shape = operator.param("shape").filter(|_| matches!(name, "reshape" | "view"))?;
        if shape.is_none() {
            return Some("()".to_owned());
        }
        let shape = shape.as_i64s().ok().filter(|shape| shape.contains(&0))?;
        let input = self.graph.get_operand(*operator.inputs().first()?)?;
        if input.shape().is_some_and(|dims| dims.contains(&Dim::Fixed(0))) {
            return None;
        }
        let size = |(axis, &size): (usize, &i64)| match size {
            0 => format!("{tensor}.size({axis})"),
            _ => size.to_string(),
        };
        Some(tuple(shape.iter().enumerate().map(size)))
    }

    /// Assigns the result of a call. If the function returns several values and the operator has one output, it takes the
    /// first, unless the output is unpacked.
    fn assign_call(&mut self, operator: &Operator, call: &str) {
        let op_type = operator.op_type();
        let has_axis = operator.has_param("dim") || operator.has_input("dim");
        let gives_several = GIVE_SEQUENCE.contains(&op_type) || (GIVE_INDICES.contains(&op_type) && has_axis);
        let takes_first = gives_several && operator.outputs().len() == 1 && !self.feeds_unpack(operator);
        let first = if takes_first { "[0]" } else { "" };
        self.assign(operator, &format!("{call}{first}"));
    }

    /// Returns true if the only input is already a sequence.
    fn reads_sequence(&self, operator: &Operator) -> bool {
        let [input] = operator.inputs() else { return false };
        let producer = self.graph.operand(*input).producer().and_then(|id| self.graph.get_operator(id));
        let is_sequence = producer.is_some_and(|producer| {
            GIVE_SEQUENCE.contains(&producer.op_type()) && producer.outputs().len() == 1
        });
        self.kind(*input) == Kind::List || is_sequence
    }

    /// Returns true if the only output is unpacked or read as a sequence.
    fn feeds_unpack(&self, operator: &Operator) -> bool {
        let [output] = operator.outputs() else { return false };
        let consumers = self.graph.operand(*output).consumers().iter();
        let mut consumers = consumers.filter_map(|&id| self.graph.get_operator(id));
        consumers.any(|consumer| {
            let op_type = consumer.op_type();
            let is_item = matches!(op_type, "aten::__getitem__" | "aten::len");
            let is_joined = TAKE_SEQUENCE.contains(&op_type) && consumer.inputs().len() == 1;
            is_item || is_joined || is_unpack(consumer)
        })
    }
}
