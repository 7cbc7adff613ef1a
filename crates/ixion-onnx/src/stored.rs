//! Tensors in files of their own, as ONNX's test data have them.

use crate::OnnxError;
use crate::files::Files;
use crate::schema::TensorProto;
use ixion_pnnx::archive::ArchiveFile;
use ixion_tensor::{Limits, Tensor};
use prost::Message;
use std::path::Path;

/// Reads a tensor that is alone in a file, such as `input_0.pb` of ONNX's test data, and its name.
///
/// # Errors
/// [`OnnxError`] if the file cannot be read, is not a tensor, or exceeds `limits`.
pub fn read_tensor(path: impl AsRef<Path>, limits: &Limits) -> Result<(String, Tensor), OnnxError> {
    let path = path.as_ref();
    let file = ArchiveFile::open(path, limits)?;
    let limit = |source| OnnxError::Limit { file: path.display().to_string(), source };
    limits.check_tensor("the file", file.len()).map_err(limit)?;
    let bytes = file.read(0, file.len(), "the tensor")?;
    let files = Files::new(file, path.parent().map(Path::to_owned), limits);
    let tensor = TensorProto::decode(bytes.as_slice()).map_err(|error| OnnxError::Damaged {
        file: files.name(),
        position: 0,
        problem: error.to_string(),
    })?;
    // A file cannot say where data are: it could name any place.
    let tensor = TensorProto { place: None, ..tensor };
    let name = tensor.name.clone().unwrap_or_default();
    let attribute = crate::tensors::attribute(&tensor, &files)?;
    let problem = |problem: String| OnnxError::Tensor { file: files.name(), tensor: name.clone(), problem };
    let bytes = attribute.bytes()?;
    let tensor = Tensor::from_le_bytes(attribute.dtype(), attribute.shape(), &bytes);
    let tensor = tensor.map_err(|error| problem(error.to_string()))?;
    Ok((name, tensor))
}
