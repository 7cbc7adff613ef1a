//! Errors in a `.bin` file.

use ixion_tensor::LimitError;
use std::io;
use std::path::PathBuf;

/// An error from reading or writing a `.bin` file. Every variant names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The operating system failed to open, read or write the file.
    #[error("{}: cannot {action} the archive: {source}", archive.display())]
    Io {
        /// The file.
        archive: PathBuf,
        /// The attempted action: `open`, `read` or `write`.
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// A folder was given where a file is expected.
    #[error("{}: this is a folder; give the .bin file in it", archive.display())]
    Folder {
        /// The folder.
        archive: PathBuf,
    },
    /// The file does not start like a zip archive.
    #[error("{}: expected an archive of weights, found {found}", archive.display())]
    NotAnArchive {
        /// The file.
        archive: PathBuf,
        /// What the file looks like.
        found: &'static str,
    },
    /// The file ends before the end of a record or of an entry's data.
    #[error(
        "{}: the file is cut off in {what}: it has {length} bytes and needs {needed}; copy it again",
        archive.display()
    )]
    Truncated {
        /// The file.
        archive: PathBuf,
        /// The incomplete part, such as ``the data of entry `conv.weight` ``.
        what: String,
        /// The least length, in bytes, of a complete file.
        needed: u64,
        /// The length of the file in bytes.
        length: u64,
    },
    /// A record contradicts itself or another one.
    #[error("{}: damaged at byte {offset}: {problem}", archive.display())]
    Corrupt {
        /// The file.
        archive: PathBuf,
        /// The position of the record in the file.
        offset: u64,
        /// What is wrong.
        problem: String,
    },
    /// An entry uses a zip feature that PNNX does not use.
    #[error(
        "{}: entry `{entry}` is {feature}, but entries of a PNNX archive must be stored as plain data; repack the archive",
        archive.display()
    )]
    Unsupported {
        /// The file.
        archive: PathBuf,
        /// The entry.
        entry: String,
        /// The feature: `compressed`, `encrypted`, …
        feature: &'static str,
    },
    /// Two entries have the same name.
    #[error("{}: duplicate entry `{entry}`", archive.display())]
    DuplicateEntry {
        /// The file.
        archive: PathBuf,
        /// The name.
        entry: String,
    },
    /// An entry's name is longer than zip's limit of 65,535 bytes.
    #[error(
        "{}: the name of entry `{entry:.60}…` has {length} bytes; a zip archive allows at most 65535",
        archive.display()
    )]
    NameTooLong {
        /// The file.
        archive: PathBuf,
        /// The name.
        entry: String,
        /// Its length in bytes.
        length: usize,
    },
    /// An entry does not fit in memory.
    #[error("{}: cannot allocate {size} bytes for entry `{entry}`", archive.display())]
    OutOfMemory {
        /// The file.
        archive: PathBuf,
        /// The entry.
        entry: String,
        /// Its size in bytes.
        size: u64,
    },
    /// The archive exceeds the caller's limits.
    #[error("{}: {source}", archive.display())]
    Limit {
        /// The file.
        archive: PathBuf,
        /// The exceeded limit.
        source: LimitError,
    },
}
