//! Lowering: the nodes of an ONNX graph as operators of a PNNX graph.
//!
//! [`lower`] walks over the nodes in order. For each it looks up a function in [`operators`], which reads the node's attributes
//! and inputs through a [`Call`], adds operators to the graph with [`Call::emit`], and returns the values that the node's
//! outputs stand for. A value is an operand of the graph, or a constant, which becomes an operand only if an operator needs it
//! as a tensor.

mod attributes;
mod call;
mod constant;
mod emit;
mod families;
mod folding;
mod functions;
mod inputs;
mod names;
mod operators;
mod scope;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use call::Call;
pub(crate) use constant::Constant;
pub(crate) use scope::Value;

use crate::OnnxError;
use crate::files::Files;
use crate::fixed::Constants;
use crate::metadata::domain;
use crate::schema::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use functions::{FunctionKey, Functions};
use ixion_pnnx::{Graph, OperandId};
use names::Names;
use prost::Message;
use scope::{Entry, Scope};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The versions of ONNX's operator set that are read.
const OPSETS: RangeInclusive<i64> = 6..=28;

/// Graphs and functions within each other.
const MAX_DEPTH: usize = 64;

/// Versions of operator sets, by domain.
type Opsets = HashMap<String, i64>;

/// The graph of a model, with constants in the place of some of its inputs.
///
/// # Errors
/// [`OnnxError`] if the model is inconsistent, or has operators that Ixion does not have.
pub(crate) fn lower(model: ModelProto, files: Files, constants: &Constants) -> Result<Graph, OnnxError> {
    let ModelProto { graph, functions, opset_import, .. } = model;
    let problem = |problem: String| OnnxError::Model { file: files.name(), problem };
    let graph = graph.ok_or_else(|| problem("there is no graph in it; is this an ONNX file?".to_owned()))?;
    let opsets = opsets(&opset_import);
    if opsets.is_empty() {
        return Err(problem("it does not say which operator set it uses (`opset_import`)".to_owned()));
    }
    let functions = functions::by_name(functions, &opsets).map_err(problem)?;
    for imports in functions.values().map(|function| &function.message.opset_import) {
        check_version(imports).map_err(problem)?;
    }
    check_version(&opset_import).map_err(problem)?;
    operators::check_known(&graph, &functions, &files)?;
    let mut lowering = Lowering {
        graph: Graph::new(),
        files: Rc::new(files),
        functions,
        scopes: vec![Scope::new(Rc::new(opsets))],
        names: Names::default(),
        named: HashSet::new(),
        calls: Vec::new(),
        visited: 0,
        spent: 0,
    };
    lowering.model(graph, constants)?;
    Ok(lowering.graph)
}

/// Checks the version of ONNX's own operators.
fn check_version(imports: &[OperatorSetIdProto]) -> Result<(), String> {
    let Some(version) = opsets(imports).get("ai.onnx").copied().filter(|version| !OPSETS.contains(version))
    else {
        return Ok(());
    };
    let (oldest, newest) = (OPSETS.start(), OPSETS.end());
    Err(format!(
        "it uses version {version} of ONNX's operators, and Ixion reads versions {oldest} to {newest}; \
         convert it with `onnx.version_converter`"
    ))
}

fn opsets(imports: &[OperatorSetIdProto]) -> Opsets {
    imports.iter().map(|set| (domain(set.domain.as_deref()), set.version.unwrap_or_default())).collect()
}

/// A graph under construction.
#[derive(Debug)]
pub(crate) struct Lowering {
    graph: Graph,
    files: Rc<Files>,
    functions: Functions,
    /// The graphs that are being read, the innermost one last.
    scopes: Vec<Scope>,
    names: Names,
    /// Operands that have the name of an output in the file.
    named: HashSet<OperandId>,
    /// The functions that are being read, the innermost one last.
    calls: Vec<FunctionKey>,
    /// Nodes that were read, those of functions and loops each time.
    visited: usize,
    /// Bytes of the nodes of functions and loops that were read, each time.
    spent: u64,
}

impl Lowering {
    /// Adds the model's own graph.
    fn model(&mut self, graph: GraphProto, constants: &Constants) -> Result<(), OnnxError> {
        let GraphProto { node, initializer, input, output, value_info, sparse_initializer, .. } = graph;
        let limit = |source| OnnxError::Limit { file: self.files.name(), source };
        self.files.limits().check_ops("the graph", node.len()).map_err(limit)?;
        self.names.reserve(input.iter().chain(&output).filter_map(|value| value.name.as_deref()));
        self.scope().declared = Rc::new(scope::declared(&value_info));
        self.define_initializers(initializer, sparse_initializer)?;
        self.add_inputs(&input, constants)?;
        self.nodes(&node)?;
        self.add_outputs(&output)
    }

    /// Lowers nodes in the innermost scope.
    pub(crate) fn nodes<'n>(
        &mut self,
        nodes: impl IntoIterator<Item = &'n NodeProto>,
    ) -> Result<(), OnnxError> {
        nodes.into_iter().try_for_each(|node| self.node(node))
    }

    fn node(&mut self, node: &NodeProto) -> Result<(), OnnxError> {
        self.visit()?;
        if !self.is_outermost() {
            self.spend(node.encoded_len() as u64)?;
        }
        if let Some(function) = self.functions.get(&FunctionKey::called_by(node)).cloned() {
            return self.function(node, &function);
        }
        let domain = domain(node.domain.as_deref());
        let version = self.scope().opset(&domain);
        let Some(lower) = operators::find(&domain, node.op_type.as_deref().unwrap_or_default()) else {
            return Err(operators::unknown(&self.files, node));
        };
        let mut call = Call::new(self, node, version);
        if version.is_none() {
            return Err(call.error(format!("the operator set `{domain}` is not imported (`opset_import`)")));
        }
        let folded = if domain == "ai.onnx" { folding::folded(&mut call)? } else { None };
        let outputs = match folded {
            Some(outputs) => outputs,
            None => lower(&mut call)?,
        };
        call.finish(outputs)
    }

    /// Counts a node, or an iteration of a loop. Functions that call functions may stand for any number of nodes, and nodes need
    /// not add operators.
    pub(crate) fn visit(&mut self) -> Result<(), OnnxError> {
        self.visited = self.visited.saturating_add(1);
        let limits = self.files.limits();
        let check = limits.check_deadline().and_then(|()| {
            limits.check_ops("the nodes of the graph, with those of functions and loops", self.visited)?;
            limits.check_ops("the graph", self.graph.operator_count())
        });
        check.map_err(|source| OnnxError::Limit { file: self.files.name(), source })
    }

    /// Counts the bytes of a constant that a node of a function or loop may have computed.
    fn spend_on_value(&mut self, value: &Value) -> Result<(), OnnxError> {
        // Larger constants are stored: they are not computed, and only passed on.
        const MOST_COMPUTED: usize = 1 << 16;
        match value {
            Value::Constant(constant) if !self.is_outermost() => {
                self.spend(constant.attribute().byte_len().min(MOST_COMPUTED) as u64)
            }
            _ => Ok(()),
        }
    }

    /// Counts bytes that are read or copied once more for each call of a function or iteration of a loop, or that are copied with
    /// a sequence. A small file could have any amount of these.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), OnnxError> {
        const UNIT: u64 = 1024;
        self.spent = self.spent.saturating_add(bytes);
        let units = usize::try_from(self.spent / UNIT).unwrap_or(usize::MAX);
        let check = self.files.limits().check_ops("the kilobytes of nodes in functions and loops", units);
        check.map_err(|source| OnnxError::Limit { file: self.files.name(), source })
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Returns true outside of all functions, branches and loops.
    pub(crate) fn is_outermost(&self) -> bool {
        self.scopes.len() < 2
    }

    /// The innermost scope.
    fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::new(Rc::default()));
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Runs `body` in a scope of its own.
    fn scoped<T>(
        &mut self,
        scope: Scope,
        body: impl FnOnce(&mut Self) -> Result<T, OnnxError>,
    ) -> Result<T, OnnxError> {
        if self.scopes.len() > MAX_DEPTH {
            let problem = format!("more than {MAX_DEPTH} graphs or functions are nested");
            return Err(OnnxError::Model { file: self.files.name(), problem });
        }
        self.scopes.push(scope);
        let result = body(self);
        self.scopes.pop();
        result
    }

    /// The value with this name, from the innermost scope that has it.
    ///
    /// # Errors
    /// [`OnnxError::Model`] if no node before has an output of this name, and the graph has no input or initialiser of it.
    pub(crate) fn value(&mut self, name: &str) -> Result<Value, OnnxError> {
        for scope in self.scopes.iter_mut().rev() {
            if let Some(value) = scope.value(name, &self.files)? {
                return Ok(value);
            }
            if scope.is_closed {
                break;
            }
        }
        let problem = format!(
            "there is no value `{name}`: it must be an input, an initializer, or an output of an earlier node"
        );
        Err(OnnxError::Model { file: self.files.name(), problem })
    }

    /// Returns true if a name stands for nothing: an input that the call of a function leaves out.
    pub(crate) fn is_absent(&self, name: &str) -> bool {
        let mut scopes = self.scopes.iter().rev();
        let scope = scopes.find(|scope| scope.entries.contains_key(name) || scope.is_closed);
        scope.is_some_and(|scope| matches!(scope.entries.get(name), Some(Entry::Value(Value::Absent))))
    }

    /// The shape that the file declares for a value, in the scope that has it.
    pub(crate) fn declared(&self, name: &str) -> Option<Vec<Option<usize>>> {
        let scope =
            self.scopes.iter().rev().find(|scope| scope.entries.contains_key(name) || scope.is_closed)?;
        scope.declared.get(name).cloned()
    }

    /// Names a value in the innermost scope.
    ///
    /// # Errors
    /// [`OnnxError::Model`] if the scope has a value of this name.
    pub(crate) fn define_new(&mut self, name: &str, value: Value) -> Result<(), OnnxError> {
        if self.scope().entries.contains_key(name) {
            let problem = format!("two values are called `{name}`");
            return Err(OnnxError::Model { file: self.files.name(), problem });
        }
        self.define(name, value);
        Ok(())
    }

    /// Names a value in the innermost scope, in the place of any other one of this name.
    pub(crate) fn define(&mut self, name: &str, value: Value) {
        self.scope().entries.insert(name.to_owned(), Entry::Value(value));
    }

    /// The operand of a value; that of a constant is added to the graph.
    pub(crate) fn operand(&mut self, value: &Value) -> Result<OperandId, OnnxError> {
        match value {
            Value::Operand(operand) => Ok(*operand),
            Value::Constant(constant) => self.constant_operand(constant),
            Value::Lengths(lengths) => lengths.operand(self),
            Value::Absent | Value::Sequence(_) => Err(OnnxError::Model {
                file: self.files.name(),
                problem: "a sequence or an absent value is used as a tensor".to_owned(),
            }),
        }
    }

    fn constant_operand(&mut self, constant: &Constant) -> Result<OperandId, OnnxError> {
        if let Some(operand) = constant.operand() {
            return Ok(operand);
        }
        let name = self.names.free(constant.name());
        let operator = self.graph.new_operator("pnnx.Attribute", &name)?;
        let operand = self.graph.new_operand(&name)?;
        self.graph.set_attribute(operator, "data", constant.attribute().clone())?;
        self.graph.connect_output(operator, operand)?;
        constant.set_operand(operand);
        Ok(operand)
    }
}

/// Parameters of an operator, by key.
pub(crate) type Params = BTreeMap<String, ixion_pnnx::Parameter>;
