//! Files: errors that name them, and atomic writing.

use super::{Result, TensorError};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Adds the file's name to an error.
pub fn in_file<T>(path: &Path, result: Result<T>) -> Result<T> {
    result.map_err(|problem| TensorError::File { path: path.to_owned(), problem: Box::new(problem) })
}

/// Converts an I/O error of `operation`; for `map_err`.
pub fn io_error(operation: &'static str) -> impl Fn(io::Error) -> TensorError {
    move |error| TensorError::Io { operation, kind: error.kind(), message: error.to_string() }
}

/// Opens a file. Returns its length in bytes as well, or `None` if it is not a regular file (such as a pipe).
pub fn open(path: &Path) -> Result<(File, Option<u64>)> {
    let file = File::open(path).map_err(io_error("open"))?;
    let metadata = file.metadata().map_err(io_error("open"))?;
    if metadata.is_dir() {
        return Err(TensorError::Io {
            operation: "open",
            kind: io::ErrorKind::IsADirectory,
            message: "it is a directory".into(),
        });
    }
    Ok((file, metadata.is_file().then_some(metadata.len())))
}

/// Writes a temporary file in the same folder and renames it, so that readers see the old file or the new one, never a
/// part.
pub fn write_atomically(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; this one must become an ordinary file under the user's umask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    // Drops the name of the temporary file, which would mean nothing to the user.
    let refused = |error: io::Error| io_error("create a file in the same folder")(error.kind().into());
    let file = builder.tempfile_in(folder).map_err(refused)?;
    let mut writer = BufWriter::new(file);
    write(&mut writer)?;
    let file = writer.into_inner().map_err(|error| io_error("write")(error.into_error()))?;
    file.persist(path).map_err(|error| io_error("move the file into place")(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        write_atomically(&path, |to| to.write_all(b"old").map_err(io_error("write"))).unwrap();
        let error = write_atomically(&path, |to| {
            to.write_all(b"ne").map_err(io_error("write"))?;
            Err(TensorError::InvalidArgument("stop".into()))
        });
        assert!(error.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write_atomically(&path, |to| to.write_all(b"new").map_err(io_error("write"))).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn errors_name_the_file() {
        let missing = Path::new("no/such/folder/x");
        let error = in_file(missing, open(missing)).unwrap_err().to_string();
        assert!(error.starts_with("no/such/folder/x: cannot open: "), "{error}");
        let error = write_atomically(missing, |_| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "cannot create a file in the same folder: entity not found");
        assert!(open(Path::new(".")).is_err());
    }
}
