//! The survey as JSON.

use super::survey::{Row, State, Survey};
use super::value::Known;
use crate::cli::warnings;
use ixion::onnx::Metadata;
use ixion::op::TensorMeta;
use ixion::shape::Contradiction;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The result as a JSON object; `version` increases when the meaning of a field changes.
pub(super) fn json(
    param: &Path,
    archive: Option<&Path>,
    metadata: Option<&Metadata>,
    survey: &Survey<'_>,
    contradictions: &[Contradiction],
) -> Value {
    let (macs, unknown) = survey.macs();
    let weight_bytes = survey.weight_bytes();
    let mut result = json!({
        "version": 1,
        "file": param.display().to_string(),
        "archive": archive.map(|path| path.display().to_string()),
        "warnings": warnings::as_json(contradictions),
        "inputs": survey.inputs.iter().map(tensor).collect::<Vec<_>>(),
        "outputs": survey.outputs.iter().map(tensor).collect::<Vec<_>>(),
        "operators": survey.rows.iter().map(|row| operator(row, survey)).collect::<Vec<_>>(),
        "totals": {
            "operators": survey.layers().count(),
            "weight_bytes": weight_bytes.values().copied().fold(0, u64::saturating_add),
            "weight_bytes_by_dtype": weight_bytes,
            "packed_bytes": survey.packed_bytes(),
            "macs": macs,
            "operators_of_unknown_macs": unknown,
            "unknown_sizes_count_as_one": survey.has_unknown_sizes,
            "unsupported": survey.unsupported(),
        },
    });
    if let (Some(metadata), Some(fields)) = (metadata, result.as_object_mut()) {
        fields.insert("onnx".to_owned(), onnx(metadata));
    }
    result
}

/// What an ONNX file says about itself.
fn onnx(metadata: &Metadata) -> Value {
    let opsets: Map<String, Value> =
        metadata.opsets.iter().map(|(domain, version)| (domain.clone(), (*version).into())).collect();
    let properties: Map<String, Value> =
        metadata.properties.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
    json!({
        "ir_version": metadata.ir_version,
        "producer": metadata.producer,
        "opsets": opsets,
        "graph": metadata.graph,
        "description": metadata.description,
        "properties": properties,
    })
}

fn operator(row: &Row<'_>, survey: &Survey<'_>) -> Value {
    let operator = row.operator;
    let (state, problem, nearest) = match &row.state {
        State::Structure => ("structure", None, None),
        State::Supported => ("supported", None, None),
        State::Underived(why) => ("underived", Some(why), None),
        State::Refused(why) => ("refused", Some(why), None),
        State::Unsupported { nearest, .. } => ("unsupported", None, nearest.as_ref()),
    };
    let names = |ids: &[_]| -> Vec<String> {
        ids.iter().filter_map(|&id| Some(survey.graph.get_operand(id)?.name().to_owned())).collect()
    };
    let outputs =
        operator.outputs().iter().filter_map(|&id| survey.value(id)).flat_map(|value| value.tensors());
    let params: Map<String, Value> =
        operator.params().iter().map(|(key, parameter)| (key.clone(), parameter.raw().into())).collect();
    let weights = operator.attrs().iter().map(|(key, attribute)| {
        json!({
            "key": key,
            "shape": attribute.shape(),
            "dtype": attribute.dtype().name(),
            "bytes": attribute.byte_len(),
            "present": attribute.is_present(),
        })
    });
    json!({
        "name": operator.name(),
        "type": operator.op_type(),
        "line": operator.line(),
        "state": state,
        "problem": problem,
        "nearest_type": nearest,
        "inputs": names(operator.inputs()),
        "outputs": outputs.map(tensor).collect::<Vec<_>>(),
        "parameters": params,
        "weights": weights.collect::<Vec<_>>(),
        "weight_bytes": row.weight_bytes(),
        "macs": row.macs,
    })
}

/// A tensor's name, element type and shape. Unknown sizes are strings.
fn tensor(known: &Known) -> Value {
    let dims = |meta: &TensorMeta| -> Vec<Value> {
        let dim = |dim: &ixion::tensor::Dim| dim.fixed().map_or_else(|| dim.to_string().into(), Value::from);
        meta.dims().iter().map(dim).collect()
    };
    json!({
        "name": known.name,
        "dtype": known.meta.as_ref().map(|meta| meta.dtype().name()),
        "shape": known.meta.as_ref().map(dims),
    })
}
