//! The files beside a model that hold its weights.

use crate::OnnxError;
use crate::files::Files;
use crate::schema::{GraphProto, NodeProto, TensorProto};
use ixion_pnnx::archive::ArchiveFile;
use ixion_tensor::Limits;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files that a model names for its weights, in the folder of the model. They need not exist.
///
/// # Errors
/// [`OnnxError`] if the model cannot be read, is damaged, or exceeds `limits`.
pub fn external_files(path: impl AsRef<Path>, limits: &Limits) -> Result<Vec<PathBuf>, OnnxError> {
    let path = path.as_ref();
    let model = crate::decode(&Files::new(ArchiveFile::open(path, limits)?, None, limits))?;
    let mut locations = BTreeSet::new();
    model.graph.iter().for_each(|graph| of_graph(graph, &mut locations));
    model.functions.iter().for_each(|function| of_nodes(&function.node, &mut locations));
    Ok(locations.into_iter().map(|location| path.with_file_name(location)).collect())
}

fn of_graph(graph: &GraphProto, locations: &mut BTreeSet<String>) {
    let sparse =
        graph.sparse_initializer.iter().flat_map(|tensor| tensor.values.iter().chain(&tensor.indices));
    graph.initializer.iter().chain(sparse).for_each(|tensor| of_tensor(tensor, locations));
    of_nodes(&graph.node, locations);
}

fn of_nodes(nodes: &[NodeProto], locations: &mut BTreeSet<String>) {
    for attribute in nodes.iter().flat_map(|node| &node.attribute) {
        attribute.t.iter().chain(&attribute.tensors).for_each(|tensor| of_tensor(tensor, locations));
        attribute.g.iter().chain(&attribute.graphs).for_each(|graph| of_graph(graph, locations));
    }
}

fn of_tensor(tensor: &TensorProto, locations: &mut BTreeSet<String>) {
    let location = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some("location"));
    locations.extend(location.and_then(|entry| entry.value.clone()).filter(|location| !location.is_empty()));
}
