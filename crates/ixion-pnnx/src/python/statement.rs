//! Writing the operators: inputs, outputs and containers here, the others by type.

use super::Writer;
use super::arithmetic::{Input, Piece, piece};
use super::error::{PythonProblem, Written};
use super::kind::{Kind, constant};
use super::literal::{string, tuple};
use super::module::{is_module, weight};
use super::names::{is_dotted, is_quantized};
use super::onnx::has_onnx_name;
use crate::expression::Expr;
use crate::ids::{OperandId, OperatorId};
use crate::operand::Operand;
use crate::operator::Operator;

impl Writer<'_> {
    /// Writes an operator.
    pub(super) fn operator(&mut self, id: OperatorId, operator: &Operator) -> Written {
        if constant(operator).is_some() {
            // It is written where it is used.
            return Ok(());
        }
        if let Some(epilogue) = operator.param("epilogue") {
            // Of a plan: PyTorch's operators compute nothing but themselves.
            let found = epilogue.raw().to_owned();
            return Err(PythonProblem::Parameter { key: "epilogue", wanted: "no fused arithmetic", found });
        }
        match operator.op_type() {
            "pnnx.Input" => self.inputs.extend(self.output_variables(operator)),
            "pnnx.Output" => self.outputs.extend(self.input_variables(operator)),
            "pnnx.Attribute" => return self.attribute(id, operator),
            "pnnx.Expression" => return self.expression(operator),
            "pnnx.SliceIndexes" => return self.slice_indexes(operator),
            "prim::TupleConstruct" if self.is_result(operator) => self.result(operator),
            "prim::TupleConstruct" => self.construct(operator, tuple),
            "prim::ListConstruct" => self.construct(operator, |items| format!("[{}]", items.join(", "))),
            "prim::DictConstruct" => return self.dictionary(operator),
            "prim::TupleUnpack" | "prim::ListUnpack" => return self.unpack(operator),
            "Tensor.select" | "torch.select" if self.picks(operator) => return self.pick(operator),
            "Tensor.slice" => return self.slice(operator),
            "Tensor.slice_copy" => return self.slice_copy(operator),
            "Tensor.index" => return self.index(operator),
            "Tensor.index_put" => return self.index_put(operator),
            "Tensor.copy" | "aten::copy" => return self.write(operator),
            "models.yolo.Detect" => return self.detect(id, operator),
            op_type => return self.by_prefix(id, operator, op_type),
        }
        Ok(())
    }

    fn by_prefix(&mut self, id: OperatorId, operator: &Operator, op_type: &str) -> Written {
        if op_type.contains("::") {
            return self.torchscript(operator);
        }
        match op_type.strip_prefix("Tensor.") {
            _ if !is_dotted(op_type) => Err(PythonProblem::Unknown),
            // PyTorch has only the in-place method.
            Some("fill") => self.filled(operator),
            Some(method) => self.method(operator, method),
            None if is_quantized(op_type) => self.quantized(id, operator),
            None if is_module(op_type) => self.module(id, operator),
            None if op_type.starts_with("pnnx.custom_op.") => {
                self.custom(operator, op_type);
                Ok(())
            }
            None if is_function(op_type) => self.function(id, operator),
            None if has_onnx_name(op_type) => self.onnx(operator),
            None => Err(unknown(op_type)),
        }
    }

    /// Writes a constant tensor, as a parameter or buffer of the model. It is read where it is used.
    fn attribute(&mut self, id: OperatorId, operator: &Operator) -> Written {
        let Some((key, attribute)) = operator.attrs().iter().next() else {
            return Err(PythonProblem::Missing { key: "@data" });
        };
        let member = self.member(id);
        let tensor = weight(operator, key, attribute);
        let name = string(member.trim_start_matches("self."));
        self.init.push(format!("keep(self, {name}, {tensor})"));
        self.variables.extend(operator.outputs().iter().map(|&output| (output, member.clone())));
        Ok(())
    }

    fn expression(&mut self, operator: &Operator) -> Written {
        let raw = operator.param("expr").ok_or(PythonProblem::Missing { key: "expr" })?.raw();
        let mut expr = Expr::parse(raw)?;
        if self.is_index_list(operator) {
            expr = self.with_axes(operator, expr);
        }
        let value = self.piece(operator, &expr)?;
        self.mark(operator, value.kind);
        self.assign(operator, &value.text);
        Ok(())
    }

    /// An expression of an operator's inputs as Python source.
    pub(super) fn piece(&self, operator: &Operator, expr: &Expr) -> Written<Piece> {
        let found = operator.inputs().len();
        if expr.input_count() > found {
            return Err(PythonProblem::Inputs { wanted: "as many inputs as the expression reads", found });
        }
        let input =
            |&id: &_| Input { text: self.variable(id), kind: self.kind(id), has_axes: self.has_axes(id) };
        let inputs: Vec<Input> = operator.inputs().iter().map(input).collect();
        Ok(piece(expr, &inputs))
    }

    /// Returns true if the file records axes of an operand.
    pub(super) fn has_axes(&self, id: OperandId) -> bool {
        let records = |operand: &Operand| operand.shape().is_some_and(|shape| !shape.is_empty());
        self.graph.get_operand(id).is_some_and(records)
    }

    fn construct(&mut self, operator: &Operator, join: impl Fn(Vec<String>) -> String) {
        let items = self.input_variables(operator);
        self.mark(operator, Kind::List);
        self.assign(operator, &join(items));
    }

    /// Returns true if a value is only what the model returns.
    fn is_result(&self, operator: &Operator) -> bool {
        let [output] = operator.outputs() else { return false };
        let operand = self.graph.get_operand(*output);
        let [consumer] = operand.map(|operand| operand.consumers()).unwrap_or_default() else { return false };
        self.graph.get_operator(*consumer).is_some_and(|consumer| consumer.op_type() == "pnnx.Output")
    }

    /// A tuple that is written where the model returns it.
    fn result(&mut self, operator: &Operator) {
        let text = tuple(self.input_variables(operator));
        self.mark(operator, Kind::List);
        self.variables.extend(operator.outputs().iter().map(|&output| (output, text.clone())));
    }

    /// A dictionary of alternating keys and values.
    fn dictionary(&mut self, operator: &Operator) -> Written {
        let items = self.input_variables(operator);
        if !items.len().is_multiple_of(2) {
            return Err(PythonProblem::Inputs { wanted: "a value for each key", found: items.len() });
        }
        let pairs: Vec<String> = items.chunks(2).map(|pair| pair.join(": ")).collect();
        self.mark(operator, Kind::Other);
        self.assign(operator, &format!("{{{}}}", pairs.join(", ")));
        Ok(())
    }

    /// Unpacks a sequence. A single output takes its first element.
    fn unpack(&mut self, operator: &Operator) -> Written {
        let sequence = self.input(operator, 0, "input")?;
        self.mark_unknown(operator);
        match operator.outputs() {
            [_] => self.assign(operator, &format!("{sequence}[0]")),
            _ => self.assign(operator, &sequence),
        }
        Ok(())
    }

    fn filled(&mut self, operator: &Operator) -> Written {
        let tensor = self.input(operator, 0, "input")?;
        let value = self.argument(operator, "value").ok_or(PythonProblem::Missing { key: "value" })?;
        self.assign(operator, &format!("torch.fill({tensor}, {value})"));
        Ok(())
    }
}

/// Returns true if a type is the name of a function of PyTorch or of one of its libraries.
fn is_function(op_type: &str) -> bool {
    ["F.", "torch.", "torchvision.", "torchaudio."].iter().any(|prefix| op_type.starts_with(prefix))
}

/// The reason why a type is unknown: modules are capitalised as PyTorch's are.
fn unknown(op_type: &str) -> PythonProblem {
    let class = op_type.rsplit('.').next().unwrap_or_default();
    let is_capitalised = class.starts_with(|c: char| c.is_ascii_uppercase());
    let is_of_pnnx = ["nn.", "pnnx."].iter().any(|prefix| op_type.starts_with(prefix));
    match is_capitalised && !is_of_pnnx {
        true => PythonProblem::KeptModule,
        false => PythonProblem::Unknown,
    }
}
