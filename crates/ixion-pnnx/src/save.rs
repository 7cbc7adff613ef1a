//! Saving a [`Graph`] to files.

use super::archive::{ArchiveError, ArchiveWriter};
use super::attribute::entry_name;
use super::error::PnnxError;
use super::graph::Graph;
use super::ids::OperandId;
use super::operator::Operator;
use super::text::MAGIC;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// Saving.
impl Graph {
    /// The `.param` text, byte for byte as PNNX formats it.
    ///
    /// Operators are in execution order, keys in alphabetical order. The shape of a scalar is omitted, because
    /// PNNX cannot read it. The text of a graph that fails [`Graph::check`] cannot be loaded.
    pub fn to_param_text(&self) -> String {
        let mut text = format!("{MAGIC}\n{} {}\n", self.operator_count(), self.operand_count());
        for (_, operator) in self.operators() {
            self.write_operator(&mut text, operator);
            text.push('\n');
        }
        text
    }

    /// Saves the graph as a `.param` and a `.bin` file. The graph may have been loaded from the same files.
    ///
    /// Both are first written to temporary files in their folders, in chunks, and then renamed: an error while
    /// writing leaves the old files unchanged.
    ///
    /// # Errors
    /// [`PnnxError`] if the graph fails [`Graph::check`], the bytes of an attribute are missing or damaged, or
    /// a file cannot be written.
    pub fn save(&self, param: impl AsRef<Path>, bin: impl AsRef<Path>) -> Result<(), PnnxError> {
        let (param, bin) = (param.as_ref(), bin.as_ref());
        self.check()?;
        let new_param = write_beside(param, |file| {
            let written = file.write_all(self.to_param_text().as_bytes());
            written.map_err(|source| PnnxError::io(param, "write the .param file", source))
        })?;
        let new_bin = write_beside(bin, |file| self.write_archive(file, bin))?;
        replace(new_bin, bin)?;
        replace(new_param, param)
    }

    /// The `.bin` archive in memory.
    ///
    /// # Errors
    /// [`PnnxError`] if the bytes of an attribute are missing or damaged.
    pub fn to_bin_bytes(&self) -> Result<Vec<u8>, PnnxError> {
        let mut bytes = std::io::Cursor::new(Vec::new());
        self.write_archive(&mut bytes, Path::new("<bytes>"))?;
        Ok(bytes.into_inner())
    }

    fn write_archive(&self, target: impl Write + std::io::Seek, path: &Path) -> Result<(), PnnxError> {
        let mut writer = ArchiveWriter::named(BufWriter::new(target), path).with_repeated_names();
        let mut owners: HashMap<String, &str> = HashMap::new();
        for (operator, key, attribute) in self.attributes() {
            let owner = operator.written_name();
            let name = entry_name(owner, key);
            // Operators may share their names, but `a.b` with key `c` and `a` with key `b.c` would be mixed up.
            if *owners.entry(name.clone()).or_insert(owner) != owner {
                return Err(ArchiveError::DuplicateEntry { archive: path.to_owned(), entry: name }.into());
            }
            let size = attribute.byte_len() as u64;
            let crc = writer.add_pieces(&name, size, |put| attribute.for_each_piece(put))?;
            // Otherwise damaged bytes would be written with a matching checksum.
            attribute.check_crc(crc)?;
        }
        writer.finish()?;
        Ok(())
    }

    fn write_operator(&self, text: &mut String, operator: &Operator) {
        pad(text, operator.op_type());
        text.push(' ');
        pad(text, operator.written_name());
        // Writing to a string cannot fail.
        let _ = write!(text, " {} {}", operator.inputs().len(), operator.outputs().len());
        for &operand in operator.inputs().iter().chain(operator.outputs()) {
            let _ = write!(text, " {}", self.operand(operand).name());
        }
        for (key, parameter) in operator.params() {
            let _ = write!(text, " {key}={}", parameter.raw());
        }
        for (key, attribute) in operator.attrs() {
            let _ = write!(text, " @{key}=({}){}", Sizes(attribute.shape()), attribute.dtype());
        }
        for (&operand, name) in operator.inputs().iter().zip(operator.input_names()) {
            if let Some(name) = name {
                let _ = write!(text, " ${name}={}", self.operand(operand).name());
            }
        }
        for &operand in operator.inputs().iter().chain(operator.outputs()) {
            self.write_shape(text, operand);
        }
    }

    /// Writes `#operand=(sizes)dtype`. Like PNNX, repeats it for each use of the operand.
    fn write_shape(&self, text: &mut String, id: OperandId) {
        let operand = self.operand(id);
        let shape = operand.shape().unwrap_or_default();
        if shape.is_empty() {
            return;
        }
        let dtype = operand.dtype().map_or("null", |dtype| dtype.name());
        let _ = write!(text, " #{}=({}){dtype}", operand.name(), Sizes(shape));
    }
}

/// Formats sizes separated by commas.
struct Sizes<'a, T>(&'a [T]);

impl<T: std::fmt::Display> std::fmt::Display for Sizes<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, size) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{size}")?;
        }
        Ok(())
    }
}

/// Pads a word with spaces to 24 bytes, as C's `%-24s` does.
fn pad(text: &mut String, word: &str) {
    const WIDTH: usize = 24;
    text.push_str(word);
    text.extend(std::iter::repeat_n(' ', WIDTH.saturating_sub(word.len())));
}

/// Writes a temporary file in the folder of `path`, so that it can be renamed to `path`.
///
/// # Errors
/// [`PnnxError::Io`] if the file cannot be created or written, and any error that `write` returns.
pub fn write_beside<E: From<PnnxError>>(
    path: &Path,
    write: impl FnOnce(&mut std::fs::File) -> Result<(), E>,
) -> Result<NamedTempFile, E> {
    let io = |action| move |source| PnnxError::io(path, action, source);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = temporary_in(folder).map_err(io("create a temporary file next to it"))?;
    write(file.as_file_mut())?;
    file.as_file().sync_all().map_err(io("write"))?;
    Ok(file)
}

/// Creates a temporary file with ordinary permissions. By default only its owner could read it.
fn temporary_in(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ixion-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Renames a temporary file to `path`, replacing any file there.
///
/// # Errors
/// [`PnnxError::Io`] if the file cannot be renamed.
pub fn replace(file: NamedTempFile, path: &Path) -> Result<(), PnnxError> {
    match file.persist(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(PnnxError::io(path, "replace", error.error)),
    }
}

#[cfg(test)]
mod tests;
