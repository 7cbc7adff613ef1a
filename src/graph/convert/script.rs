//! Operators of scripted models that read lists, sizes and settings of tensors: `list[0]`, `x.shape[0]`, `len(list)`, `x.dtype`.
//!
//! PNNX writes the sizes of a tensor (`x.shape`) as the tensor itself where it fuses expressions, at optimisation levels 1 and 2.
//! TorchScript reads items of lists only, so an item of a tensor is one of its sizes.

use super::Converter;
use super::arguments::Arguments;
use super::values::expression_text;
use crate::graph::draft::{Constant, Value};
use crate::graph::lists::position;
use crate::graph::{GraphError, OperandIndex};
use crate::op::{CpuLayer, Creator, RuntimeParameter};
use crate::pnnx::{self, OperandId};

impl Converter<'_> {
    /// Returns true for the operators that [`add_scripted`](Self::add_scripted) adds, unless a layer is registered for them.
    pub(super) fn is_scripted(&self, op_type: &str) -> bool {
        matches!(op_type, "aten::__getitem__" | "aten::len" | "prim::dtype" | "prim::device")
            && self.registry.known(op_type).is_none()
    }

    /// Adds an operator that reads a list or a setting of a tensor.
    pub(super) fn add_scripted(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let &[output] = operator.outputs() else {
            let found = operator.outputs().len();
            return Err(self.tuple_error(operator, format!("expected 1 output, got {found}")));
        };
        let value = match operator.op_type() {
            "aten::__getitem__" => self.item(operator, output),
            "aten::len" => self.length(operator, output),
            _ => self.setting(operator, output),
        };
        self.draft.values.insert(output, value?);
        self.rename(output);
        Ok(())
    }

    /// An item of a list, of a dictionary, or of the sizes of a tensor.
    fn item(&mut self, operator: &pnnx::Operator, output: OperandId) -> Result<Value, GraphError> {
        let values = self.inputs_of(operator)?;
        let (&[list, _], [value, Value::Constant(key)]) = (operator.inputs(), values.as_slice()) else {
            return Err(self.tuple_error(operator, "expected a list and a constant index".to_owned()));
        };
        let found = match value {
            Value::Tuple(tuple) => {
                let place = self.place(list, key, tuple.items.len());
                place.and_then(|place| tuple.items.get(place).cloned())
            }
            Value::Constant(constant) => {
                let texts = item_texts(constant).unwrap_or_default();
                let place = key.parameter.as_i64().ok().and_then(|index| position(index, texts.len()));
                place.and_then(|place| Some(Value::constant(texts.get(place)?, None)))
            }
            Value::Tensor(index) => {
                let is_tensor = self.file.operand(list).shape().is_some().then_some(*index);
                let (Some(tensor), Ok(axis)) =
                    (self.tensor_of_sizes(*index).or(is_tensor), key.parameter.as_i64())
                else {
                    return Err(self.unknown_list(operator));
                };
                return self.number(operator, output, "pnnx.Expression", tensor, &format!("size(@0,{axis})"));
            }
        };
        let missing = || format!("the list has no item {}", key.parameter.raw());
        found.ok_or_else(|| self.tuple_error(operator, missing()))
    }

    /// The position of a value of a dictionary by its key, or of an item of a list by its index.
    fn place(&self, list: OperandId, key: &Constant, len: usize) -> Option<usize> {
        let producer = self.file.operator(self.file.operand(list).producer()?);
        if producer.op_type() == "prim::DictConstruct" {
            let is_key = |input: &OperandId| match self.draft.values.get(input) {
                Some(Value::Constant(known)) => known.parameter.raw() == key.parameter.raw(),
                _ => false,
            };
            return producer.inputs().iter().step_by(2).position(is_key);
        }
        position(key.parameter.as_i64().ok()?, len)
    }

    /// The number of items of a list. That of the sizes of a tensor is the number of its axes.
    fn length(&mut self, operator: &pnnx::Operator, output: OperandId) -> Result<Value, GraphError> {
        let values = self.inputs_of(operator)?;
        let count = match values.as_slice() {
            [Value::Tuple(tuple)] => tuple.items.len(),
            [Value::Constant(constant)] => {
                let items = item_texts(constant).ok_or_else(|| self.unknown_list(operator))?;
                items.len()
            }
            [Value::Tensor(index)] => {
                let tensor = self.tensor_of_sizes(*index).ok_or_else(|| self.unknown_list(operator))?;
                return self.number(operator, output, "aten::dim", tensor, "");
            }
            _ => return Err(self.tuple_error(operator, format!("expected 1 input, got {}", values.len()))),
        };
        Ok(Value::constant(&count.to_string(), Some(output)))
    }

    /// The element type that the file records for a tensor, or its device.
    fn setting(&mut self, operator: &pnnx::Operator, output: OperandId) -> Result<Value, GraphError> {
        let dtype = operator.inputs().first().and_then(|&tensor| self.file.operand(tensor).dtype());
        let text = match (operator.op_type(), dtype) {
            ("prim::device", _) => "cpu",
            (_, Some(dtype)) => dtype.torch_name(),
            (_, None) => {
                let reason = "the file does not record the element type of its input".to_owned();
                return Err(self.tuple_error(operator, reason));
            }
        };
        Ok(Value::constant(text, Some(output)))
    }

    /// The tensor of which an operand is the sizes.
    fn tensor_of_sizes(&self, sizes: OperandIndex) -> Option<OperandIndex> {
        let made = &self.draft.operators[self.draft.operands[sizes.0].producer?.0];
        let is_of_all = !made.params.contains_key("dim");
        let is_size = is_of_all && matches!(&*made.op_type, "aten::size" | "Tensor.size");
        let expr = made.params.get("expr").map(RuntimeParameter::raw);
        let is_expression = made.op_type == "pnnx.Expression" && matches!(expr, Some("@0" | "size(@0)"));
        made.inputs.first().copied().filter(|_| is_size || is_expression)
    }

    /// Inserts an operator that computes a number from a tensor.
    fn number(
        &mut self,
        operator: &pnnx::Operator,
        output: OperandId,
        op_type: &str,
        tensor: OperandIndex,
        expr: &str,
    ) -> Result<Value, GraphError> {
        let mut arguments = Arguments::default();
        if !expr.is_empty() {
            arguments = arguments.with_param("expr", expr);
        }
        arguments.push(&[tensor], None);
        let number = self.insert(operator, op_type, operator.name().to_owned(), arguments)?;
        self.name_operand(number, output);
        self.numbers.insert(number);
        Ok(Value::Tensor(number))
    }

    fn unknown_list(&self, operator: &pnnx::Operator) -> GraphError {
        let reason = "its input is not a list whose items are in the file: trace the model instead of \
                      scripting it, or unpack the list (`a, b = …`), and write `x.dim()` for `len(x.shape)` \
                      and `x.size(0)` for `len(x)`";
        self.tuple_error(operator, reason.to_owned())
    }

    /// Turns the parameter `input` of a built-in operator into the first input if all inputs have other names and the layer has
    /// no such field: PNNX writes a constant as a parameter, even if it is what the operator works on.
    pub(super) fn with_constant_input(
        &mut self,
        operator: &pnnx::Operator,
        creator: &Creator,
        mut arguments: Arguments,
    ) -> Result<Arguments, GraphError> {
        let is_built_in = creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN;
        let has_field = creator.fields.iter().any(|field| field.key == "input");
        let mut names = arguments.names.iter().map(Option::as_deref);
        let are_others = names.all(|name| name.is_some_and(|name| name != "input"));
        // References count the inputs.
        let refers = arguments.params.values().any(|parameter| parameter.raw().contains('@'));
        if !is_built_in || has_field || !are_others || refers {
            return Ok(arguments);
        }
        if let Some(constant) = arguments.params.remove("input") {
            let expr = Arguments::default().with_param("expr", &expression_text(&constant));
            let name = format!("{}.input", operator.name());
            let input = self.insert(operator, "pnnx.Expression", name, expr)?;
            arguments.inputs.insert(0, input);
            arguments.names.insert(0, Some("input".to_owned()));
        }
        Ok(arguments)
    }
}

/// The texts of the items of a constant list; `None` for a list of lists and for what is no list. PNNX writes `None` for an
/// empty list.
pub(super) fn item_texts(constant: &Constant) -> Option<Vec<String>> {
    let text = expression_text(&constant.parameter);
    let inner = match text.as_str() {
        "None" => "",
        text => text.strip_prefix('[')?.strip_suffix(']')?,
    };
    let items = inner.split(',').map(str::trim).filter(|item| !item.is_empty());
    (!inner.contains(['[', '('])).then(|| items.map(str::to_owned).collect())
}
