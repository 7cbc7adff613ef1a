//! The operators that can be lowered, by domain and name.

use super::call::{Lower, node_name};
use super::{FunctionKey, Functions, families};
use crate::OnnxError;
use crate::files::Files;
use crate::metadata::domain;
use crate::schema::{GraphProto, NodeProto};
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

/// The function that lowers an operator.
pub(super) fn find(domain: &str, op_type: &str) -> Option<Lower> {
    static ALL: OnceLock<HashMap<(&'static str, &'static str), Lower>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let tables = families::TABLES.iter();
        tables
            .flat_map(|(domain, table)| table.iter().map(|(name, lower)| ((*domain, *name), *lower)))
            .collect()
    });
    all.get(&(domain, op_type)).copied()
}

/// Checks that all operators of a graph are known, so that an error names all that are not.
///
/// # Errors
/// [`OnnxError::Unknown`].
pub(super) fn check_known(graph: &GraphProto, functions: &Functions, files: &Files) -> Result<(), OnnxError> {
    let mut unknown = BTreeMap::new();
    collect(&graph.node, functions, 0, &mut unknown);
    for function in functions.values() {
        collect(&function.message.node, functions, 0, &mut unknown);
    }
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(OnnxError::Unknown { file: files.name(), operators: unknown.into_iter().collect() }),
    }
}

fn collect(nodes: &[NodeProto], functions: &Functions, depth: usize, unknown: &mut BTreeMap<String, String>) {
    for node in nodes {
        let (domain, op_type) = (domain(node.domain.as_deref()), node.op_type.as_deref().unwrap_or_default());
        let is_known =
            find(&domain, op_type).is_some() || functions.contains_key(&FunctionKey::called_by(node));
        if !is_known {
            unknown.entry(full_name(&domain, op_type)).or_insert_with(|| node_name(node).to_owned());
        }
        if depth < super::MAX_DEPTH {
            let graphs =
                node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs));
            graphs.for_each(|graph| collect(&graph.node, functions, depth + 1, unknown));
        }
    }
}

/// The error for a single node.
pub(super) fn unknown(files: &Files, node: &NodeProto) -> OnnxError {
    let domain = domain(node.domain.as_deref());
    let name = full_name(&domain, node.op_type.as_deref().unwrap_or_default());
    OnnxError::Unknown { file: files.name(), operators: vec![(name, node_name(node).to_owned())] }
}

fn full_name(domain: &str, op_type: &str) -> String {
    match domain {
        "ai.onnx" => op_type.to_owned(),
        _ => format!("{domain}.{op_type}"),
    }
}
