//! The files that a graph is read from: a PNNX text with its archive, or an ONNX file.

use super::GraphError;
use crate::Limits;
use crate::pnnx::Graph;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The path of the archive that belongs to a `.param` file: `x.pnnx.bin` next to `x.pnnx.param`.
pub fn default_bin_path(param: &Path) -> PathBuf {
    param.with_extension("bin")
}

/// Returns true if a file is an ONNX model, judging by its name or its first bytes.
pub fn is_onnx(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx")) {
        return true;
    }
    // The version of the format is the first field of nearly every file: a small number. Opening a pipe would wait for ever.
    let mut start = [0; 2];
    let mut read = || File::open(path)?.read_exact(&mut start);
    path.is_file() && read().is_ok() && start[0] == 0x08 && (1..=0x20).contains(&start[1])
}

/// How a model is read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The archive of a `.param` text. Without it, weights are absent.
    pub bin: Option<PathBuf>,
    /// Values of inputs of an ONNX file that never change.
    #[cfg(feature = "onnx")]
    pub constants: ixion_onnx::Constants,
    /// What the files may need at most.
    pub limits: Limits,
}

/// Reads a model: an ONNX file, or a `.param` text with its archive.
///
/// # Errors
/// [`GraphError::Pnnx`] or [`GraphError::Onnx`] if the file cannot be read; [`GraphError::Archive`] if an ONNX file is given an
/// archive; [`GraphError::Constants`] if a text is given constants.
pub fn read_model(path: &Path, options: &ReadOptions) -> Result<Graph, GraphError> {
    let bin = options.bin.as_deref();
    match (is_onnx(path), bin) {
        (true, Some(bin)) => Err(GraphError::Archive { model: path.to_owned(), bin: bin.to_owned() }),
        (true, None) => read_onnx(path, options),
        #[cfg(feature = "onnx")]
        (false, _) if !options.constants.is_empty() => Err(GraphError::Constants { model: path.to_owned() }),
        (false, bin) => Ok(Graph::load(path, bin, &options.limits)?),
    }
}

#[cfg(feature = "onnx")]
fn read_onnx(path: &Path, options: &ReadOptions) -> Result<Graph, GraphError> {
    let ReadOptions { constants, limits, .. } = options;
    let options = ixion_onnx::Options { limits: limits.clone(), constants: constants.clone() };
    Ok(ixion_onnx::read_with(path, &options)?.graph)
}

#[cfg(not(feature = "onnx"))]
fn read_onnx(path: &Path, _options: &ReadOptions) -> Result<Graph, GraphError> {
    Err(GraphError::NoOnnx { model: path.to_owned() })
}
