//! What an ONNX file says about itself.

use crate::OnnxError;
use crate::files::Files;
use crate::schema::ModelProto;
use ixion_pnnx::archive::ArchiveFile;
use ixion_tensor::Limits;
use std::path::Path;

/// What an ONNX file says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The program that wrote the file, with its version.
    pub producer: String,
    /// The version of the format.
    pub ir_version: i64,
    /// Versions of the operator sets, by domain. ONNX's own domain is `ai.onnx`.
    pub opsets: Vec<(String, i64)>,
    /// The name of the graph.
    pub graph: String,
    /// The description of the model.
    pub description: String,
    /// Further properties, such as the names of classes.
    pub properties: Vec<(String, String)>,
}

impl Metadata {
    /// Reads what a file says about itself, but not its graph.
    ///
    /// # Errors
    /// [`OnnxError`] if the file cannot be read, is damaged, or exceeds `limits`.
    pub fn read(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, OnnxError> {
        let files = Files::new(ArchiveFile::open(path, limits)?, None, limits);
        Ok(Self::of(&crate::decode(&files)?))
    }

    pub(crate) fn of(model: &ModelProto) -> Self {
        let producer = [&model.producer_name, &model.producer_version];
        let producer: Vec<&str> =
            producer.into_iter().filter_map(Option::as_deref).filter(|word| !word.is_empty()).collect();
        let opsets = model.opset_import.iter();
        let property = model.metadata_props.iter();
        Self {
            producer: producer.join(" "),
            ir_version: model.ir_version.unwrap_or_default(),
            opsets: opsets
                .map(|set| (domain(set.domain.as_deref()), set.version.unwrap_or_default()))
                .collect(),
            graph: model.graph.as_ref().and_then(|graph| graph.name.clone()).unwrap_or_default(),
            description: model.doc_string.clone().unwrap_or_default(),
            properties: property
                .map(|entry| (entry.key.clone().unwrap_or_default(), entry.value.clone().unwrap_or_default()))
                .collect(),
        }
    }
}

/// The name of a domain. ONNX's own one may be left out.
pub(crate) fn domain(name: Option<&str>) -> String {
    match name {
        None | Some("") => "ai.onnx".to_owned(),
        Some(name) => name.to_owned(),
    }
}
