//! Models for tests, as messages.

use crate::schema::{
    AttributeProto, Dimension, DimensionValue, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TensorType, TypeProto, ValueInfoProto, ValueType,
};
use crate::{OnnxError, Options, from_bytes_with};
use ixion_pnnx::Graph;
use prost::Message;

pub(crate) const FLOAT: i32 = 1;
pub(crate) const INT64: i32 = 7;
pub(crate) const BOOL: i32 = 9;

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// A node of ONNX's own operators, called like its first output.
pub(crate) fn node(
    op_type: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: Vec<AttributeProto>,
) -> NodeProto {
    NodeProto {
        input: names(inputs),
        output: names(outputs),
        op_type: some(op_type),
        attribute: attributes,
        ..NodeProto::default()
    }
}

pub(crate) fn of_int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: some(name), i: Some(value), ..AttributeProto::default() }
}

pub(crate) fn of_graph(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto { name: some(name), g: Some(graph), ..AttributeProto::default() }
}

pub(crate) fn of_tensor(name: &str, tensor: TensorProto) -> AttributeProto {
    AttributeProto { name: some(name), t: Some(tensor), ..AttributeProto::default() }
}

/// An attribute that is the one of the function's call with the name `of`.
pub(crate) fn reference(name: &str, of: &str) -> AttributeProto {
    AttributeProto { name: some(name), ref_attr_name: some(of), ..AttributeProto::default() }
}

/// A tensor of this type and shape, whose bytes are stored as such.
pub(crate) fn tensor(name: &str, data_type: i32, dims: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto {
        name: some(name),
        data_type: Some(data_type),
        dims: dims.to_vec(),
        raw_data: Some(bytes.to_vec()),
        ..TensorProto::default()
    }
}

/// A tensor of one integer without axes.
pub(crate) fn integer(name: &str, value: i64) -> TensorProto {
    tensor(name, INT64, &[], &value.to_le_bytes())
}

/// A tensor of one bool without axes.
pub(crate) fn boolean(name: &str, value: bool) -> TensorProto {
    tensor(name, BOOL, &[], &[u8::from(value)])
}

/// A value with its type; lengths below 0 are not known.
pub(crate) fn value(name: &str, elem_type: i32, dims: &[i64]) -> ValueInfoProto {
    let dim = |len: &i64| Dimension { value: (*len >= 0).then_some(DimensionValue::DimValue(*len)) };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor = TensorType { elem_type: Some(elem_type), shape };
    let kind = TypeProto { value: Some(ValueType::Tensor(tensor)) };
    ValueInfoProto { name: some(name), r#type: Some(kind) }
}

/// A graph whose inputs and outputs are vectors of two floats, unless something else is set.
pub(crate) fn graph(inputs: &[&str], nodes: Vec<NodeProto>, outputs: &[&str]) -> GraphProto {
    let vector = |name: &&str| value(name, FLOAT, &[2]);
    GraphProto {
        node: nodes,
        input: inputs.iter().map(vector).collect(),
        output: outputs.iter().map(vector).collect(),
        ..GraphProto::default()
    }
}

fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: some(domain), version: Some(version) }
}

/// A function of the domain `local`.
pub(crate) fn function(
    name: &str,
    inputs: &[&str],
    nodes: Vec<NodeProto>,
    outputs: &[&str],
) -> FunctionProto {
    FunctionProto {
        name: some(name),
        domain: some("local"),
        input: names(inputs),
        output: names(outputs),
        node: nodes,
        opset_import: vec![opset("", 21)],
        ..FunctionProto::default()
    }
}

/// The call of a function of the domain `local`.
pub(crate) fn call(name: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto { domain: some("local"), ..node(name, inputs, outputs, Vec::new()) }
}

/// A model of version 21 of the operators.
pub(crate) fn model(graph: GraphProto, functions: Vec<FunctionProto>) -> ModelProto {
    ModelProto {
        ir_version: Some(10),
        graph: Some(graph),
        opset_import: vec![opset("", 21), opset("local", 1)],
        functions,
        ..ModelProto::default()
    }
}

/// Reads a model that is in memory.
pub(crate) fn read(model: &ModelProto, options: &Options) -> Result<Graph, OnnxError> {
    Ok(from_bytes_with(model.encode_to_vec(), options)?.graph)
}

/// The operators of a graph without functions, one a line: type, inputs, outputs, parameters.
#[track_caller]
pub(crate) fn lines(graph: GraphProto) -> Vec<String> {
    lines_of(&read(&model(graph, Vec::new()), &Options::default()).unwrap())
}

/// The operators of a graph but inputs and outputs, one a line: type, inputs, outputs, parameters.
pub(crate) fn lines_of(graph: &Graph) -> Vec<String> {
    let operators = graph.operators().map(|(_, operator)| operator);
    let operators = operators.filter(|operator| !matches!(operator.op_type(), "pnnx.Input" | "pnnx.Output"));
    let line = |operator: &ixion_pnnx::Operator| {
        let name = |operand: &ixion_pnnx::OperandId| graph.operand(*operand).name().to_owned();
        let inputs: Vec<String> = operator.inputs().iter().map(name).collect();
        let outputs: Vec<String> = operator.outputs().iter().map(name).collect();
        let params: Vec<String> =
            operator.params().iter().map(|(key, value)| format!(" {key}={}", value.raw())).collect();
        format!("{} {} -> {}{}", operator.op_type(), inputs.join(" "), outputs.join(" "), params.concat())
    };
    operators.map(line).collect()
}

/// The error of a graph without functions.
#[track_caller]
pub(crate) fn refusal(graph: GraphProto) -> String {
    refusal_of(&model(graph, Vec::new()))
}

/// The error of a model.
#[track_caller]
pub(crate) fn refusal_of(model: &ModelProto) -> String {
    read(model, &Options::default()).unwrap_err().to_string()
}
