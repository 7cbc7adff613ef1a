//! Reads ONNX files as graphs of PyTorch's operators.
//!
//! [`read`] turns a file into an [`ixion_pnnx::Graph`]: every node becomes one or a few operators with PyTorch's names, as PNNX
//! writes them, or an operator that keeps its ONNX name if what it means depends on types and shapes that only the graph's user
//! knows. Everything that works on PNNX models then works on ONNX models.
//!
//! - Weights stay in the file, or in the files beside it that it names, until they are asked for.
//! - Nodes are read by the version of their operator set that the file imports, from version 6 on.
//! - Functions, and branches and loops whose conditions are known, are replaced by the nodes that they stand for.
//!
//! ```no_run
//! use ixion_tensor::Limits;
//! let model = ixion_onnx::read("model.onnx", &Limits::default())?;
//! println!("{} by {}", model.graph.to_param_text(), model.metadata.producer);
//! # Ok::<(), ixion_onnx::OnnxError>(())
//! ```
//!
//! # Errors
//!
//! No file, however damaged, makes this crate panic. An [`OnnxError`] names the file, the node and its operator, what was
//! expected and what was found. Sizes are checked against [`Limits`] before anything is allocated, and a file can name only
//! other files in its own folder.

mod error;
mod external;
mod files;
mod fixed;
mod lower;
mod metadata;
mod outline;
mod schema;
mod stored;
mod tensors;

pub use error::OnnxError;
pub use external::external_files;
pub use fixed::{Constants, Fixed};
pub use metadata::Metadata;
pub use stored::read_tensor;

use files::Files;
use ixion_pnnx::Graph;
use ixion_pnnx::archive::ArchiveFile;
use ixion_tensor::Limits;
use prost::Message;
use schema::ModelProto;
use std::path::Path;

/// A model that was read from an ONNX file.
#[derive(Debug)]
pub struct Model {
    /// The graph, with PyTorch's operators.
    pub graph: Graph,
    /// What the file says about itself.
    pub metadata: Metadata,
}

/// How a model is read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the file may need at most.
    pub limits: Limits,
    /// Values of inputs that never change. Such an input is removed, and what depends only on constants is computed when the
    /// model is read: branches and loops that depend on it are then known.
    pub constants: Constants,
}

/// Reads an ONNX file. Weights are read on demand.
///
/// # Errors
/// [`OnnxError`] if the file cannot be read, is damaged, has operators that Ixion does not have, or exceeds `limits`.
pub fn read(path: impl AsRef<Path>, limits: &Limits) -> Result<Model, OnnxError> {
    read_with(path, &Options { limits: limits.clone(), constants: Constants::new() })
}

/// Reads an ONNX file with options.
///
/// # Errors
/// As [`read`], and if a constant is for no input, or does not fit it.
pub fn read_with(path: impl AsRef<Path>, options: &Options) -> Result<Model, OnnxError> {
    let path = path.as_ref();
    let folder = path.parent().map(Path::to_owned);
    let file = ArchiveFile::open(path, &options.limits)?;
    read_from(Files::new(file, folder, &options.limits), &options.constants)
}

/// Reads an ONNX file in memory, which errors call `<bytes>`. It cannot have weights in other files.
///
/// # Errors
/// As [`read`].
pub fn from_bytes(bytes: impl Into<Vec<u8>>, limits: &Limits) -> Result<Model, OnnxError> {
    from_bytes_with(bytes, &Options { limits: limits.clone(), constants: Constants::new() })
}

/// Reads an ONNX file in memory with options.
///
/// # Errors
/// As [`read_with`].
pub fn from_bytes_with(bytes: impl Into<Vec<u8>>, options: &Options) -> Result<Model, OnnxError> {
    let file = ArchiveFile::from_bytes(bytes, &options.limits);
    read_from(Files::new(file, None, &options.limits), &options.constants)
}

fn read_from(files: Files, constants: &Constants) -> Result<Model, OnnxError> {
    let model = decode(&files)?;
    let metadata = Metadata::of(&model);
    Ok(Model { graph: lower::lower(model, files, constants)?, metadata })
}

/// The message of a file, without its large weights.
fn decode(files: &Files) -> Result<ModelProto, OnnxError> {
    let message = outline::outline(files.main(), files.limits())?;
    ModelProto::decode(message.as_slice()).map_err(|error| OnnxError::Damaged {
        file: files.name(),
        position: 0,
        problem: error.to_string(),
    })
}
