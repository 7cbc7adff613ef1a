//! Dividing the inputs of an operator into tensors and parameters.
//!
//! At optimisation level 2, PNNX writes the arguments of an operator as parameters. At lower levels it leaves constants that
//! feed named inputs (`$dim=3`), and TorchScript operators (`aten::add`) whose inputs have no names at all. Both are converted
//! to the form of level 2 here, so that layers only need to support that.

use super::Converter;
use super::arguments::{
    Arguments, IGNORED, argument_names, as_parameter, is_index, is_word, takes_parameter,
};
use super::script::item_texts;
use super::values::expression_text;
use crate::graph::draft::{self, Constant, Tuple, Value};
use crate::graph::{GraphError, OperandIndex};
use crate::op::{Creator, INPUT_KIND, RuntimeParameter};
use crate::pnnx::{self, Dim};

impl Converter<'_> {
    /// Divides an operator's inputs into parameters and tensors.
    pub(super) fn arguments(
        &mut self,
        operator: &pnnx::Operator,
        creator: &Creator,
        values: &[Value],
    ) -> Result<Arguments, GraphError> {
        let names = argument_names(operator, creator);
        let mut arguments = Arguments { params: operator.params().clone(), ..Arguments::default() };
        for (position, value) in values.iter().enumerate() {
            let name = names.get(position).cloned().flatten();
            let key = name.as_deref().unwrap_or_default();
            let value = self.listed(value, is_index(operator.op_type(), key));
            let value = self.constant_tensors(operator, creator, key, &value).unwrap_or(value);
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
    fn listed(&self, value: &Value, is_index: bool) -> Value {
        let Value::Tuple(tuple) = value else { return value.clone() };
        let text = |item: &Value| match item {
            Value::Constant(constant) if is_index => Some(self.index_text(constant)),
            Value::Constant(constant) => Some(expression_text(&constant.parameter)),
            _ => None,
        };
        match tuple.items.iter().map(text).collect::<Option<Vec<String>>>() {
            Some(texts) if !texts.is_empty() => Value::constant(&format!("[{}]", texts.join(",")), None),
            _ => value.clone(),
        }
    }

    /// The text of a constant index. PNNX writes a tensor of one element as a number, which would remove the axes.
    fn index_text(&self, constant: &Constant) -> String {
        let text = expression_text(&constant.parameter);
        let is_element = constant.parameter.as_i64().is_ok() || constant.parameter.as_bool().is_ok();
        match self.recorded_axes(constant) {
            Some(axes) if is_element => format!("{}{text}{}", "[".repeat(axes), "]".repeat(axes)),
            _ => text,
        }
    }

    /// The number of axes that the file records for a constant, if it is a tensor of one element.
    fn recorded_axes(&self, constant: &Constant) -> Option<usize> {
        let shape = self.file.operand(constant.operand?).shape()?;
        shape.iter().all(|dim| *dim == Dim::Fixed(1)).then_some(shape.len())
    }

    /// The items of a constant list that a layer reads as tensors: PNNX writes tensors of one element as numbers.
    fn constant_tensors(
        &self,
        operator: &pnnx::Operator,
        creator: &Creator,
        key: &str,
        value: &Value,
    ) -> Option<Value> {
        let Value::Constant(constant) = value else { return None };
        let is_field = creator.fields.iter().any(|field| field.key == key);
        let takes_tensors = self.fact_holds(operator.op_type(), |creator| creator.takes_tensors);
        if is_field || !takes_tensors || is_index(operator.op_type(), key) {
            return None;
        }
        let texts = item_texts(constant).filter(|texts| !texts.is_empty())?;
        Some(Value::tuple(texts.iter().map(|text| Value::constant(text, None)).collect()))
    }

    /// Returns true if a list contains only constants and numbers that the graph computes, at least one of these.
    fn is_numbers(&self, tuple: &Tuple) -> bool {
        let is_number = |item: &Value| match item {
            Value::Tensor(index) => self.numbers.contains(index),
            Value::Constant(_) => true,
            Value::Tuple(_) => false,
        };
        let is_tensor = |item: &Value| matches!(item, Value::Tensor(_));
        tuple.items.iter().any(is_tensor) && tuple.items.iter().all(is_number)
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
                Value::Constant(constant) => texts.push(self.index_text(constant)),
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
        let index = match self.recorded_axes(constant) {
            Some(axes @ 1..) => self.element(operator, constant, axes)?,
            _ => self.literal(operator, constant, operator.name().to_owned())?,
        };
        if let Some(operand) = constant.operand {
            self.name_operand(index, operand);
            self.made.insert(operand, index);
        }
        Ok(index)
    }

    /// The tensor for a constant whose only element PNNX writes as a number, though the file records axes.
    fn element(
        &mut self,
        operator: &pnnx::Operator,
        constant: &Constant,
        axes: usize,
    ) -> Result<OperandIndex, GraphError> {
        let name = operator.name();
        let mut element = self.literal(operator, constant, format!("{name}.item"))?;
        if let Some(dtype) = constant.operand.and_then(|operand| self.file.operand(operand).dtype()) {
            let mut arguments = Arguments::default().with_param("dtype", dtype.torch_name());
            arguments.push(&[element], None);
            element = self.insert(operator, "Tensor.to", format!("{name}.typed"), arguments)?;
        }
        let shape = format!("({})", vec!["1"; axes].join(","));
        let mut arguments = Arguments::default().with_param("shape", &shape);
        arguments.push(&[element], None);
        self.insert(operator, "Tensor.reshape", name.to_owned(), arguments)
    }

    /// The tensor for the text of a constant.
    fn literal(
        &mut self,
        operator: &pnnx::Operator,
        constant: &Constant,
        name: String,
    ) -> Result<OperandIndex, GraphError> {
        let arguments = Arguments::default().with_param("expr", &expression_text(&constant.parameter));
        self.insert(operator, "pnnx.Expression", name, arguments)
    }
}
