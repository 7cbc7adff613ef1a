//! The bytes of an attribute, or the reason why they are not available.

use super::WeightError;
use crate::archive::{Archive, ArchiveError, Entry};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

/// The bytes of an attribute, or the reason why they are not available.
#[derive(Debug)]
pub(super) enum Data {
    /// In memory.
    Owned(Vec<u8>),
    /// In an archive, with the right size.
    Stored { origin: Origin, archive: Arc<Archive>, entry: Entry },
    /// Not available.
    Absent { origin: Origin, reason: Reason },
}

/// The reason why the bytes are not available.
#[derive(Debug)]
pub(super) enum Reason {
    NotLoaded,
    Missing(PathBuf),
    WrongSize(PathBuf, u64),
}

/// The operator and key under which an attribute was loaded, as the name of its entry: `operator.key`.
#[derive(Debug)]
pub(crate) struct Origin {
    entry: Box<str>,
    /// Position of the dot between the two.
    dot: usize,
}

impl Origin {
    pub(crate) fn new(operator: &str, key: &str) -> Self {
        Self { entry: entry_name(operator, key).into(), dot: operator.len() }
    }

    pub(crate) fn entry_name(&self) -> &str {
        &self.entry
    }

    /// The operator's name and the key, for error messages.
    fn names(&self) -> (String, String) {
        let (operator, key) = self.entry.split_at_checked(self.dot).unwrap_or_default();
        (operator.to_owned(), key.strip_prefix('.').unwrap_or(key).to_owned())
    }

    fn read_error(&self, source: ArchiveError) -> WeightError {
        let (operator, key) = self.names();
        WeightError::Read { operator, key, source: Box::new(source) }
    }
}

/// The name of an attribute's entry in the archive.
pub(crate) fn entry_name(operator: &str, key: &str) -> String {
    [operator, key].join(".")
}

impl Data {
    pub(super) fn not_loaded(origin: Origin) -> Self {
        Self::Absent { origin, reason: Reason::NotLoaded }
    }

    /// Looks up the entry of `origin` in an archive, which must have `expected` bytes.
    pub(super) fn find(archive: &Arc<Archive>, origin: Origin, expected: u64) -> Self {
        let path = || archive.path().to_owned();
        match archive.entry(origin.entry_name()).cloned() {
            None => Self::Absent { origin, reason: Reason::Missing(path()) },
            Some(entry) if entry.size() != expected => {
                Self::Absent { origin, reason: Reason::WrongSize(path(), entry.size()) }
            }
            Some(entry) => Self::Stored { origin, archive: Arc::clone(archive), entry },
        }
    }

    /// The error if the `expected` bytes are not available.
    pub(super) fn defect(&self, expected: u64) -> Option<WeightError> {
        let Self::Absent { origin, reason } = self else {
            return None;
        };
        let (operator, key) = origin.names();
        Some(match reason {
            Reason::NotLoaded => WeightError::NotLoaded { operator, key, expected },
            Reason::Missing(path) => WeightError::Missing { operator, key, archive: path.clone(), expected },
            Reason::WrongSize(path, found) => {
                WeightError::WrongSize { operator, key, archive: path.clone(), expected, found: *found }
            }
        })
    }

    pub(super) fn bytes(&self) -> Result<Cow<'_, [u8]>, WeightError> {
        match self {
            Self::Owned(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Stored { origin, archive, entry } => {
                archive.read(entry).map(Cow::Owned).map_err(|source| origin.read_error(source))
            }
            Self::Absent { .. } => Ok(Cow::Borrowed(&[])),
        }
    }

    /// Fills `buffer`, whose length must be the number of bytes.
    pub(super) fn read_into(&self, buffer: &mut [u8]) -> Result<(), WeightError> {
        match self {
            Self::Owned(bytes) => buffer.copy_from_slice(bytes),
            Self::Stored { origin, archive, entry } => {
                archive.read_at(entry, 0, buffer).map_err(|source| origin.read_error(source))?;
            }
            Self::Absent { .. } => {}
        }
        Ok(())
    }

    pub(super) fn for_each_piece(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), WeightError> {
        match self {
            Self::Owned(bytes) => Ok(take(bytes)?),
            Self::Stored { origin, archive, entry } => {
                archive.for_each_piece(entry, take).map_err(|source| origin.read_error(source))
            }
            Self::Absent { .. } => Ok(()),
        }
    }

    /// The CRC-32 in the archive, if the bytes are in one.
    pub(super) fn stored_crc(&self) -> Option<u32> {
        match self {
            Self::Stored { entry, .. } => Some(entry.crc32()),
            _ => None,
        }
    }

    /// Compares a checksum with the archive's.
    pub(super) fn check_crc(&self, found: u32) -> Result<(), WeightError> {
        match self {
            Self::Stored { origin, archive, entry } if entry.crc32() != found => {
                let (operator, key) = origin.names();
                let (archive, expected) = (archive.path().to_owned(), entry.crc32());
                Err(WeightError::Checksum { operator, key, archive, expected, found })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_dots_are_split_where_they_were_joined() {
        let origin = Origin::new("attention_3.to_out.0", "out_proj.bias");
        assert_eq!(origin.entry_name(), "attention_3.to_out.0.out_proj.bias");
        assert_eq!(origin.names(), ("attention_3.to_out.0".into(), "out_proj.bias".into()));
        assert_eq!(Origin::new("é", ".k").names(), ("é".into(), ".k".into()));
    }
}
