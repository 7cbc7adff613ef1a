//! One node, as the function that lowers it sees it.

use super::scope::{self, Declared, Scope};
use super::{Constant, Lowering, Opsets, Value};
use crate::OnnxError;
use crate::metadata::domain;
use crate::schema::{GraphProto, NodeProto};
use crate::tensors::dense;
use ixion_pnnx::{Dim, OperandId, Parameter};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

/// The most elements of a constant that become a parameter.
const MOST_PARAMETERS: usize = 1 << 16;

/// One node: its attributes and inputs, and the graph to which its operators are added.
#[derive(Debug)]
pub(crate) struct Call<'c> {
    pub(super) lowering: &'c mut Lowering,
    pub(super) node: &'c NodeProto,
    /// `None` for the call of a function.
    version: Option<i64>,
    /// Names of the attributes that were read.
    pub(super) read: RefCell<HashSet<&'c str>>,
}

/// The values of the outputs of a node, or the reason why it cannot be lowered.
pub(crate) type Outputs = Result<Vec<Value>, OnnxError>;

/// Lowers a node.
pub(crate) type Lower = fn(&mut Call<'_>) -> Outputs;

/// Operators of a domain, with the functions that lower them.
pub(crate) type Table = &'static [(&'static str, Lower)];

impl<'c> Call<'c> {
    pub(super) fn new(lowering: &'c mut Lowering, node: &'c NodeProto, version: Option<i64>) -> Self {
        Self { lowering, node, version, read: RefCell::default() }
    }

    /// The version of the operator set that the node is of.
    pub(crate) fn version(&self) -> i64 {
        self.version.unwrap_or_default()
    }

    /// The operator's name, without its domain.
    pub(crate) fn op_type(&self) -> &'c str {
        self.node.op_type.as_deref().unwrap_or_default()
    }

    /// The node's name, or that of its first output.
    pub(crate) fn name(&self) -> &'c str {
        node_name(self.node)
    }

    pub(crate) fn lowering(&mut self) -> &mut Lowering {
        self.lowering
    }

    /// Checks the size of a tensor that is computed when the file is read.
    ///
    /// # Errors
    /// [`OnnxError::Limit`] if it exceeds the limit.
    pub(crate) fn check_tensor(&self, bytes: u64) -> Result<(), OnnxError> {
        let files = self.lowering.files();
        let check = files.limits().check_tensor(&format!("the result of `{}`", self.name()), bytes);
        check.map_err(|source| OnnxError::Limit { file: files.name(), source })
    }

    /// Checks a number of outputs, or of elements of a sequence.
    ///
    /// # Errors
    /// [`OnnxError::Limit`] if it exceeds the limit.
    pub(crate) fn check_count(&self, count: usize) -> Result<(), OnnxError> {
        let files = self.lowering.files();
        let check = files.limits().check_ops(&format!("the results of `{}`", self.name()), count);
        check.map_err(|source| OnnxError::Limit { file: files.name(), source })
    }

    /// Counts the copies of the elements of a sequence.
    ///
    /// # Errors
    /// [`OnnxError::Limit`] if the model copies too many.
    pub(crate) fn spend_on(&mut self, elements: usize) -> Result<(), OnnxError> {
        const BYTES: u64 = 16;
        self.lowering.spend((elements as u64).saturating_mul(BYTES))
    }

    /// An error of this node.
    pub(crate) fn error(&self, problem: impl Into<String>) -> OnnxError {
        let domain = domain(self.node.domain.as_deref());
        let op_type = match domain.as_str() {
            "ai.onnx" => self.op_type().to_owned(),
            _ => format!("{domain}.{}", self.op_type()),
        };
        OnnxError::Node {
            file: self.lowering.files().name(),
            node: self.name().to_owned(),
            op_type,
            problem: problem.into(),
        }
    }

    /// Names the outputs, and checks that every attribute was read.
    pub(super) fn finish(self, outputs: Vec<Value>) -> Result<(), OnnxError> {
        let read = self.read.borrow();
        let names = self.node.attribute.iter().filter_map(|attribute| attribute.name.as_deref());
        let is_function = self.version.is_none();
        if let Some(unread) = names.clone().find(|name| !read.contains(name)).filter(|_| !is_function) {
            let version = self.version();
            return Err(self.error(format!(
                "the attribute `{unread}` is unknown; version {version} of the operator set does not have it, or Ixion does not"
            )));
        }
        drop(read);
        if self.node.output.len() > outputs.len() {
            let (found, known) = (self.node.output.len(), outputs.len());
            return Err(self.error(format!("expected at most {known} outputs, got {found}")));
        }
        for (name, value) in self.node.output.iter().zip(outputs) {
            if name.is_empty() {
                continue;
            }
            self.lowering.spend_on_value(&value)?;
            self.lowering.name_output(name, &value)?;
            let defined = self.lowering.define_new(name, value);
            defined.map_err(|error| self.of_node(error))?;
        }
        Ok(())
    }

    /// Runs `body` in a scope with these values, which sees nothing around it.
    pub(super) fn within<T>(
        &mut self,
        opsets: Rc<Opsets>,
        names: &[String],
        values: Result<Vec<Value>, OnnxError>,
        body: impl FnOnce(&mut Lowering) -> Result<T, OnnxError>,
    ) -> Result<T, OnnxError> {
        let mut scope = Scope::new(opsets);
        scope.is_closed = true;
        let values = values?;
        self.lowering.scoped(scope, |lowering| {
            let rest = std::iter::repeat(Value::Absent);
            names
                .iter()
                .zip(values.into_iter().chain(rest))
                .for_each(|(name, value)| lowering.define(name, value));
            body(lowering)
        })
    }

    /// An error as one of this node, if it is not one of another node or tensor.
    pub(crate) fn of_node(&self, error: OnnxError) -> OnnxError {
        match error {
            OnnxError::Model { problem, .. } => self.error(problem),
            other => other,
        }
    }

    /// A graph among the attributes of this node, ready to be lowered any number of times.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is missing or of another type, [`OnnxError`] if a stored tensor cannot be read.
    pub(crate) fn body(&mut self, name: &'static str) -> Result<Body<'c>, OnnxError> {
        let graph = self.graph(name)?;
        let files = self.lowering.files();
        let mut constants = Vec::new();
        for tensor in &graph.initializer {
            let name = tensor.name.clone().unwrap_or_default();
            let constant = scope::stored(&name, tensor, files)?;
            constants.push((name, Value::Constant(constant)));
        }
        for tensor in &graph.sparse_initializer {
            let name = tensor.values.as_ref().and_then(|values| values.name.clone()).unwrap_or_default();
            let constant = Constant::new(&name, dense(tensor, files)?);
            constants.push((name, Value::Constant(constant)));
        }
        Ok(Body { graph, constants, declared: Rc::new(scope::declared(&graph.value_info)) })
    }

    /// Lowers the nodes of a graph of this node, which sees the values around it. `values` are those of its inputs. Returns the
    /// values of its outputs.
    ///
    /// # Errors
    /// As lowering its nodes.
    pub(crate) fn run(&mut self, body: &Body<'_>, values: Vec<Value>) -> Outputs {
        let graph = body.graph;
        let (found, known) = (values.len(), graph.input.len());
        if found != known {
            return Err(self.error(format!("expected its graph to have {found} inputs, got {known}")));
        }
        let mut scope = Scope::new(Rc::clone(&self.lowering.scope().opsets));
        scope.declared = Rc::clone(&body.declared);
        self.lowering.visit()?;
        self.lowering.scoped(scope, |lowering| {
            for (name, value) in &body.constants {
                lowering.define_new(name, value.clone())?;
            }
            for (input, value) in graph.input.iter().zip(values) {
                lowering.define(input.name.as_deref().unwrap_or_default(), value);
            }
            lowering.nodes(&graph.node)?;
            let names = graph.output.iter().map(|output| output.name.as_deref().unwrap_or_default());
            names.map(|name| lowering.value(name)).collect()
        })
    }
}

/// A graph among the attributes of a node.
#[derive(Debug)]
pub(crate) struct Body<'c> {
    pub(crate) graph: &'c GraphProto,
    /// Its stored tensors, which all iterations of a loop share.
    constants: Vec<(String, Value)>,
    declared: Rc<Declared>,
}

/// Inputs.
impl Call<'_> {
    /// The number of inputs that the node lists, with those that it leaves out between others.
    pub(crate) fn num_inputs(&self) -> usize {
        self.node.input.len()
    }

    /// The number of outputs that the node lists.
    pub(crate) fn num_outputs(&self) -> usize {
        self.node.output.len()
    }

    /// Returns true if an output is listed and has a name.
    pub(crate) fn has_output(&self, position: usize) -> bool {
        self.node.output.get(position).is_some_and(|name| !name.is_empty())
    }

    /// The values of all inputs.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if one does not exist.
    pub(crate) fn values(&mut self) -> Outputs {
        (0..self.num_inputs()).map(|position| self.value(position)).collect()
    }

    /// The value of an input; [`Value::Absent`] if it is left out.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if there is no value of its name.
    pub(crate) fn value(&mut self, position: usize) -> Result<Value, OnnxError> {
        match self.node.input.get(position).map(String::as_str) {
            None | Some("") => Ok(Value::Absent),
            Some(name) => {
                let value = self.lowering.value(name);
                value.map_err(|error| self.of_node(error))
            }
        }
    }

    /// The lengths of an input's axes, as far as they are known or the file declares them. What the file declares may be wrong: an
    /// operator that depends on it has to be refused when it runs.
    pub(crate) fn lengths(&mut self, position: usize) -> Result<Option<Vec<Option<usize>>>, OnnxError> {
        let value = self.value(position)?;
        if let Value::Constant(constant) = &value {
            return Ok(Some(constant.shape().iter().copied().map(Some).collect()));
        }
        let Value::Operand(operand) = value else { return Ok(None) };
        if let Some(dims) = self.lowering.graph.operand(operand).shape() {
            let fixed = |dim: &Dim| if let Dim::Fixed(len) = dim { usize::try_from(*len).ok() } else { None };
            return Ok(Some(dims.iter().map(fixed).collect()));
        }
        let name = self.node.input.get(position).map_or("", String::as_str);
        Ok(self.lowering.declared(name))
    }

    /// Returns true if an input is listed and not left out.
    pub(crate) fn has_input(&self, position: usize) -> bool {
        let name = self.node.input.get(position).filter(|name| !name.is_empty());
        name.is_some_and(|name| !self.lowering.is_absent(name))
    }

    /// The operand of a required input.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if it is left out, or is not a tensor.
    pub(crate) fn input(&mut self, position: usize) -> Result<OperandId, OnnxError> {
        match self.value(position)? {
            Value::Absent => Err(self.error(format!("input {position} is required, but left out"))),
            Value::Sequence(_) => {
                Err(self.error(format!("expected input {position} to be a tensor, got a sequence")))
            }
            value => self.lowering.operand(&value),
        }
    }

    /// The operand of an optional input.
    ///
    /// # Errors
    /// As [`Call::input`].
    pub(crate) fn optional_input(&mut self, position: usize) -> Result<Option<OperandId>, OnnxError> {
        self.has_input(position).then(|| self.input(position)).transpose()
    }

    /// The operands of all inputs from a position on, which must all be there.
    ///
    /// # Errors
    /// As [`Call::input`].
    pub(crate) fn inputs_from(&mut self, first: usize) -> Result<Vec<OperandId>, OnnxError> {
        (first..self.num_inputs()).map(|position| self.input(position)).collect()
    }

    /// The operand of a value.
    ///
    /// # Errors
    /// [`OnnxError::Model`] if it is not a tensor.
    pub(crate) fn operand(&mut self, value: &Value) -> Result<OperandId, OnnxError> {
        self.lowering.operand(value)
    }

    /// The number of axes of an operand, if the file states it.
    pub(crate) fn rank_of(&self, operand: OperandId) -> Option<usize> {
        let operand = self.lowering.graph.operand(operand);
        let stored = operand.producer().map(|producer| self.lowering.graph.operator(producer));
        let stored = stored.and_then(|producer| producer.attr("data")).map(|data| data.shape().len());
        operand.shape().map(<[_]>::len).or(stored)
    }

    /// An input that is known; `None` if the graph computes it, or if it is left out.
    ///
    /// # Errors
    /// As [`Call::value`].
    pub(crate) fn constant(&mut self, position: usize) -> Result<Option<Constant>, OnnxError> {
        Ok(match self.value(position)? {
            Value::Constant(constant) => Some(constant),
            _ => None,
        })
    }

    /// The elements of an input of integers that is known and not too large for a parameter.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the input is known but not of integers.
    pub(crate) fn constant_ints(&mut self, position: usize) -> Result<Option<Vec<i64>>, OnnxError> {
        let Some(constant) = self.constant(position)?.filter(is_small) else { return Ok(None) };
        let dtype = constant.dtype();
        let ints = constant.i64s()?;
        ints.map(Some)
            .ok_or_else(|| self.error(format!("expected input {position} to have integers, got {dtype}")))
    }

    /// The elements of an input that is known and not too large for a parameter.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the input is known but complex.
    pub(crate) fn constant_floats(&mut self, position: usize) -> Result<Option<Vec<f64>>, OnnxError> {
        let Some(constant) = self.constant(position)?.filter(is_small) else { return Ok(None) };
        let dtype = constant.dtype();
        let floats = constant.f64s()?;
        floats
            .map(Some)
            .ok_or_else(|| self.error(format!("expected input {position} to have real numbers, got {dtype}")))
    }

    /// The only element of an input that is known.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the input is known but has more than one element.
    pub(crate) fn constant_float(&mut self, position: usize) -> Result<Option<f64>, OnnxError> {
        match self.constant_floats(position)?.as_deref() {
            None => Ok(None),
            Some([value]) => Ok(Some(*value)),
            Some(values) => {
                let found = values.len();
                Err(self.error(format!("expected input {position} to have one element, got {found}")))
            }
        }
    }

    /// As [`Call::constant_float`], for an integer.
    ///
    /// # Errors
    /// As [`Call::constant_float`].
    pub(crate) fn constant_int(&mut self, position: usize) -> Result<Option<i64>, OnnxError> {
        match self.constant_ints(position)?.as_deref() {
            None => Ok(None),
            Some([value]) => Ok(Some(*value)),
            Some(values) => {
                let found = values.len();
                Err(self.error(format!("expected input {position} to have one element, got {found}")))
            }
        }
    }
}

fn is_small(constant: &Constant) -> bool {
    constant.attribute().elem_count() <= MOST_PARAMETERS
}

/// Outputs.
impl Call<'_> {
    /// One operator with one output: `op_type` of these operands, with these parameters.
    ///
    /// # Errors
    /// [`OnnxError::Graph`] if a parameter cannot be written.
    pub(crate) fn operator(
        &mut self,
        op_type: &str,
        inputs: &[OperandId],
        params: &[(&str, Parameter)],
    ) -> Result<OperandId, OnnxError> {
        let mut emit = self.emit(op_type);
        for input in inputs {
            emit = emit.input(*input);
        }
        for (key, value) in params {
            emit = emit.param(key, value.clone());
        }
        emit.one()
    }

    /// An expression such as `add(@0,@1)` of these operands.
    ///
    /// # Errors
    /// As [`Call::operator`].
    pub(crate) fn expression(&mut self, text: &str, inputs: &[OperandId]) -> Result<OperandId, OnnxError> {
        self.operator("pnnx.Expression", inputs, &[("expr", text.into())])
    }
}

/// The node's name, or that of its first output.
pub(super) fn node_name(node: &NodeProto) -> &str {
    let name = node.name.as_deref().filter(|name| !name.is_empty());
    name.or_else(|| node.output.iter().map(String::as_str).find(|name| !name.is_empty())).unwrap_or_default()
}

/// The result of a node with one output.
///
/// # Errors
/// That of `operand`.
pub(crate) fn one(operand: Result<OperandId, OnnxError>) -> Outputs {
    Ok(vec![Value::Operand(operand?)])
}
