//! The file behind an archive: positioned reads, and errors that name the file.

use super::records::Header;
use super::source::Source;
use super::{ArchiveError, Entry};
use ixion_tensor::Mapping;
use ixion_tensor::{LimitError, Limits};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file, or bytes in memory, read by position and only on demand. Clones read the same file.
#[derive(Clone)]
pub struct ArchiveFile {
    path: PathBuf,
    source: Arc<Source>,
    limits: Limits,
}

impl ArchiveFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`ArchiveError::Folder`] if `path` is a folder, [`ArchiveError::Io`] if the file cannot be opened.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, ArchiveError> {
        let path = path.as_ref().to_owned();
        if path.is_dir() {
            return Err(ArchiveError::Folder { archive: path });
        }
        match Source::open(&path) {
            Ok(source) => Ok(Self { path, source: source.into(), limits: limits.clone() }),
            Err(source) => Err(ArchiveError::Io { archive: path, action: "open", source }),
        }
    }

    /// Bytes in memory, which error messages call `<bytes>`.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, limits: &Limits) -> Self {
        let source = Source::from_bytes(bytes.into());
        Self { path: PathBuf::from("<bytes>"), source: source.into(), limits: limits.clone() }
    }

    /// A file that is mapped into memory.
    pub fn of_mapping(path: impl Into<PathBuf>, mapping: Mapping, limits: &Limits) -> Self {
        Self { path: path.into(), source: Source::Mapped(mapping).into(), limits: limits.clone() }
    }

    /// The mapping, or `None` if the file is not mapped into memory.
    pub(super) fn mapping(&self) -> Option<&Mapping> {
        match &*self.source {
            Source::Mapped(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// The path of the file, or `<bytes>`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length in bytes when the file was opened.
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// Returns true if the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads `length` bytes, starting at byte `position`.
    ///
    /// # Errors
    /// [`ArchiveError::Truncated`] if the file ends too early, naming `what` as the incomplete part; [`ArchiveError::Io`]
    /// if it cannot be read.
    pub fn read(&self, position: u64, length: u64, what: impl fmt::Display) -> Result<Vec<u8>, ArchiveError> {
        self.check_range(position, length, what)?;
        let too_long = |_| self.corrupt(position, "a record is larger than the machine's memory");
        let mut bytes = vec![0; usize::try_from(length).map_err(too_long)?];
        self.read_into(&mut bytes, position)?;
        Ok(bytes)
    }

    /// Fills `buffer`, starting at byte `position`.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] if the file cannot be read, or ends too early.
    pub fn read_into(&self, buffer: &mut [u8], position: u64) -> Result<(), ArchiveError> {
        self.source.read_exact_at(buffer, position).map_err(|source| self.io("read", source))
    }

    /// Returns whether the four bytes at `position` are `signature`; false if fewer than four bytes are left.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] if the file cannot be read.
    pub fn has_signature(&self, position: u64, signature: [u8; 4]) -> Result<bool, ArchiveError> {
        let mut found = [0; 4];
        if position.checked_add(4).is_none_or(|end| end > self.len()) {
            return Ok(false);
        }
        self.read_into(&mut found, position)?;
        Ok(found == signature)
    }

    /// Checks that the file has `length` bytes at `position`, without reading them.
    ///
    /// # Errors
    /// [`ArchiveError::Truncated`] if the file ends too early, naming `what` as the incomplete part.
    pub fn check_range(
        &self,
        position: u64,
        length: u64,
        what: impl fmt::Display,
    ) -> Result<(), ArchiveError> {
        let needed = position.saturating_add(length);
        if needed > self.len() {
            return Err(self.truncated(what, needed));
        }
        Ok(())
    }

    /// Checks that an entry's data are stored plainly.
    ///
    /// # Errors
    /// [`ArchiveError::Unsupported`] if the data are compressed or encrypted, or followed by their size.
    pub fn check_supported(&self, entry: &str, header: &Header) -> Result<(), ArchiveError> {
        match header.unsupported() {
            None => Ok(()),
            Some(feature) => {
                let (archive, entry) = (self.path.clone(), entry.to_owned());
                Err(ArchiveError::Unsupported { archive, entry, feature })
            }
        }
    }

    /// Checks a number of entries against the limits.
    ///
    /// # Errors
    /// [`ArchiveError::Limit`] if `count` is more than [`Limits::max_ops`].
    pub fn check_count(&self, count: usize) -> Result<(), ArchiveError> {
        let check = self.limits.check_ops("the archive's list of entries", count);
        check.map_err(|source| self.limit(source))
    }

    /// Checks the size of the directory against the limit for one tensor, before it is read into memory.
    pub(super) fn check_directory_size(&self, bytes: u64) -> Result<(), ArchiveError> {
        let check = self.limits.check_tensor("the archive's directory", bytes);
        check.map_err(|source| self.limit(source))
    }

    /// Decodes the name of the entry whose header is at `position`.
    ///
    /// # Errors
    /// [`ArchiveError::Corrupt`] if the name is not UTF-8.
    pub fn name(&self, bytes: &[u8], position: u64) -> Result<String, ArchiveError> {
        let name = std::str::from_utf8(bytes).map(str::to_owned);
        name.map_err(|_| self.corrupt(position, "an entry's name is not UTF-8"))
    }

    /// An [`ArchiveError::Corrupt`] for the record at `position`.
    pub fn corrupt(&self, position: u64, problem: &str) -> ArchiveError {
        ArchiveError::Corrupt { archive: self.path.clone(), offset: position, problem: problem.to_owned() }
    }

    pub(super) fn truncated(&self, what: impl fmt::Display, needed: u64) -> ArchiveError {
        let (archive, what) = (self.path.clone(), what.to_string());
        ArchiveError::Truncated { archive, what, needed, length: self.len() }
    }

    pub(super) fn io(&self, action: &'static str, source: std::io::Error) -> ArchiveError {
        ArchiveError::Io { archive: self.path.clone(), action, source }
    }

    pub(super) fn too_large(&self, entry: &Entry) -> ArchiveError {
        let (archive, entry, size) = (self.path.clone(), entry.name().to_owned(), entry.size());
        ArchiveError::OutOfMemory { archive, entry, size }
    }

    fn limit(&self, source: LimitError) -> ArchiveError {
        ArchiveError::Limit { archive: self.path.clone(), source }
    }
}

/// Shows the path and the length.
impl fmt::Debug for ArchiveFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveFile")
            .field("path", &self.path)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
