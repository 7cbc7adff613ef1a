//! What can be wrong with a `.bin` file.

use ixion_tensor::LimitError;
use std::io;
use std::path::PathBuf;

/// A `.bin` file that cannot be read or written. Every variant names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The operating system refused.
    #[error("{}: cannot {action} the archive: {source}", archive.display())]
    Io {
        /// The file.
        archive: PathBuf,
        /// What was tried: `open`, `read` or `write`.
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// A folder was given.
    #[error("{}: this is a folder; give the .bin file in it", archive.display())]
    Folder {
        /// The folder.
        archive: PathBuf,
    },
    /// The file does not begin like a zip archive.
    #[error("{}: this is not an archive of weights but {found}", archive.display())]
    NotAnArchive {
        /// The file.
        archive: PathBuf,
        /// What it looks like.
        found: &'static str,
    },
    /// The file ends before something that it announces.
    #[error(
        "{}: the file is cut off in {what}: it has {length} bytes and needs {needed}; copy it again",
        archive.display()
    )]
    Truncated {
        /// The file.
        archive: PathBuf,
        /// What is incomplete, such as ``the data of entry `conv.weight` ``.
        what: String,
        /// The length that the file would need at least.
        needed: u64,
        /// The length that it has.
        length: u64,
    },
    /// A record contradicts itself or another one.
    #[error("{}: damaged at byte {offset}: {problem}", archive.display())]
    Corrupt {
        /// The file.
        archive: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong.
        problem: String,
    },
    /// An entry uses a feature of zip that PNNX does not.
    #[error(
        "{}: entry `{entry}` is {feature}; PNNX archives store plain data, so pack it again without that",
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
    #[error("{}: entry `{entry}` is there twice", archive.display())]
    DuplicateEntry {
        /// The file.
        archive: PathBuf,
        /// The name.
        entry: String,
    },
    /// An entry's name is longer than 65,535 bytes, so that zip cannot hold it.
    #[error(
        "{}: the name of entry `{entry:.60}…` has {length} bytes, more than a zip archive can hold",
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
    /// An entry does not fit the machine's memory.
    #[error("{}: there is no memory for the {size} bytes of entry `{entry}`", archive.display())]
    OutOfMemory {
        /// The file.
        archive: PathBuf,
        /// The entry.
        entry: String,
        /// Its size in bytes.
        size: u64,
    },
    /// The archive is larger than the caller allows.
    #[error("{}: {source}", archive.display())]
    Limit {
        /// The file.
        archive: PathBuf,
        /// The limit that was met.
        source: LimitError,
    },
}
