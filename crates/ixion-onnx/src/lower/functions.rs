//! Functions that a file defines: each call is replaced by the function's nodes.

use super::{Call, Lowering, Opsets};
use crate::OnnxError;
use crate::metadata::domain;
use crate::schema::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use prost::Message;
use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

/// Names a function of the file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FunctionKey {
    domain: String,
    name: String,
    overload: String,
}

impl FunctionKey {
    fn of(function: &FunctionProto) -> Self {
        Self {
            domain: domain(function.domain.as_deref()),
            name: function.name.clone().unwrap_or_default(),
            overload: function.overload.clone().unwrap_or_default(),
        }
    }

    pub(super) fn called_by(node: &NodeProto) -> Self {
        Self {
            domain: domain(node.domain.as_deref()),
            name: node.op_type.clone().unwrap_or_default(),
            overload: node.overload.clone().unwrap_or_default(),
        }
    }

    fn describe(&self) -> String {
        let Self { domain, name, overload } = self;
        if overload.is_empty() { format!("{domain}.{name}") } else { format!("{domain}.{name}:{overload}") }
    }
}

/// The functions of a file.
pub(crate) type Functions = HashMap<FunctionKey, Rc<Function>>;

/// A function of the file.
#[derive(Debug)]
pub(crate) struct Function {
    pub(super) message: FunctionProto,
    /// Its operator sets, and for other domains those of the model.
    opsets: Rc<Opsets>,
    /// Whether nodes refer to attributes of the call.
    has_references: bool,
    /// The length of the message.
    bytes: u64,
}

/// The functions of a file by name.
///
/// # Errors
/// The problem, if there are two of the same name.
pub(super) fn by_name(functions: Vec<FunctionProto>, model: &Opsets) -> Result<Functions, String> {
    let mut all = Functions::new();
    for message in functions {
        let key = FunctionKey::of(&message);
        let has_references = message.node.iter().any(has_references);
        let mut opsets = model.clone();
        opsets.extend(super::opsets(&message.opset_import));
        let (name, bytes) = (key.describe(), message.encoded_len() as u64);
        let function = Function { message, opsets: Rc::new(opsets), has_references, bytes };
        if all.insert(key, Rc::new(function)).is_some() {
            return Err(format!("two functions are called `{name}`"));
        }
    }
    Ok(all)
}

fn has_references(node: &NodeProto) -> bool {
    node.attribute.iter().any(|attribute| {
        let mut graphs = attribute.g.iter().chain(&attribute.graphs);
        reference(attribute).is_some() || graphs.any(|graph| graph.node.iter().any(has_references))
    })
}

/// The name of the function's attribute that an attribute of one of its nodes stands for.
fn reference(attribute: &AttributeProto) -> Option<&str> {
    attribute.ref_attr_name.as_deref().filter(|name| !name.is_empty())
}

impl Lowering {
    /// Replaces the call of a function by its nodes.
    pub(super) fn function(&mut self, node: &NodeProto, function: &Function) -> Result<(), OnnxError> {
        let key = FunctionKey::called_by(node);
        let message = &function.message;
        let is_recursive = self.calls.contains(&key);
        let body = if is_recursive { Vec::new() } else { self.substituted(node, function)? };
        let mut call = Call::new(self, node, None);
        if is_recursive {
            return Err(call.error("the function calls itself, which the format does not allow"));
        }
        let (found, known) = (call.num_inputs(), message.input.len());
        if found > known {
            return Err(call.error(format!("expected at most {known} inputs, got {found}")));
        }
        let inputs = call.values();
        call.lowering().calls.push(key);
        let outputs = call.within(Rc::clone(&function.opsets), &message.input, inputs, |lowering| {
            lowering.nodes(body.iter().map(AsRef::as_ref))?;
            message.output.iter().map(|name| lowering.value(name)).collect()
        });
        call.lowering().calls.pop();
        call.finish(outputs?)
    }

    /// The nodes of a function for a call: references to its attributes are replaced by the call's attributes or their
    /// defaults, and dropped if there is neither.
    fn substituted<'f>(
        &mut self,
        call: &NodeProto,
        function: &'f Function,
    ) -> Result<Vec<Cow<'f, NodeProto>>, OnnxError> {
        let message = &function.message;
        self.spend(function.bytes)?;
        if !function.has_references {
            return Ok(message.node.iter().map(Cow::Borrowed).collect());
        }
        let defaults = message.attribute_proto.iter();
        let given = defaults.chain(&call.attribute).filter_map(|given| Some((given.name.as_deref()?, given)));
        let given: HashMap<&str, &AttributeProto> = given.collect();
        let mut nodes = Vec::new();
        for node in &message.node {
            let mut given = Given { attributes: &given, lowering: self, error: None };
            nodes.push(if has_references(node) {
                Cow::Owned(given.in_node(node))
            } else {
                Cow::Borrowed(node)
            });
            given.error.map_or(Ok(()), Err)?;
        }
        Ok(nodes)
    }
}

/// The attributes of a call by name.
struct Given<'a> {
    attributes: &'a HashMap<&'a str, &'a AttributeProto>,
    lowering: &'a mut Lowering,
    /// The error once too much was copied.
    error: Option<OnnxError>,
}

impl Given<'_> {
    fn in_node(&mut self, node: &NodeProto) -> NodeProto {
        let attributes = node.attribute.iter().filter_map(|attribute| self.in_attribute(attribute));
        let attribute = attributes.collect();
        NodeProto {
            input: node.input.clone(),
            output: node.output.clone(),
            name: node.name.clone(),
            op_type: node.op_type.clone(),
            attribute,
            domain: node.domain.clone(),
            overload: node.overload.clone(),
        }
    }

    fn in_attribute(&mut self, attribute: &AttributeProto) -> Option<AttributeProto> {
        if let Some(reference) = reference(attribute) {
            let found = *self.attributes.get(reference)?;
            if self.error.is_none() {
                self.error = self.lowering.spend(found.encoded_len() as u64).err();
            }
            // One function may refer to a large attribute any number of times.
            let found = if self.error.is_some() { AttributeProto::default() } else { found.clone() };
            return Some(AttributeProto { name: attribute.name.clone(), ..found });
        }
        if attribute.g.is_none() && attribute.graphs.is_empty() {
            return Some(attribute.clone());
        }
        Some(AttributeProto {
            name: attribute.name.clone(),
            g: attribute.g.as_ref().map(|graph| self.in_graph(graph)),
            graphs: attribute.graphs.iter().map(|graph| self.in_graph(graph)).collect(),
            ..AttributeProto::default()
        })
    }

    fn in_graph(&mut self, graph: &GraphProto) -> GraphProto {
        GraphProto {
            node: graph.node.iter().map(|node| self.in_node(node)).collect(),
            name: graph.name.clone(),
            initializer: graph.initializer.clone(),
            input: graph.input.clone(),
            output: graph.output.clone(),
            value_info: graph.value_info.clone(),
            sparse_initializer: graph.sparse_initializer.clone(),
        }
    }
}
