//! The bytes of an attribute, or the reason why they are not available.

use super::WeightError;
use crate::archive::{Archive, ArchiveError, ArchiveFile, Entry, for_each_piece};
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
    /// In a file of another format: an entry without a checksum.
    InFile { file: Arc<ArchiveFile>, entry: Entry },
    /// The bytes of several attributes, one after the other. All are available, and none of them is joined itself: a chain of
    /// thousands would overflow the stack.
    Joined(Vec<Part>),
    /// Not available.
    Absent { origin: Origin, reason: Reason },
}

/// The bytes of one of several attributes, and their number.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) data: Arc<Data>,
    pub(super) len: usize,
}

/// The reason why the bytes are not available.
#[derive(Debug)]
pub(super) enum Reason {
    NotLoaded,
    Missing(PathBuf),
    WrongSize(PathBuf, u64),
    Shared(PathBuf, Place, usize),
}

/// The place of an attribute among those that share the name of its entry, in the order of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The number of such attributes before it.
    pub(crate) number: usize,
    /// The number of all such attributes; nearly always 1.
    pub(crate) count: usize,
}

/// The operator and key under which an attribute was loaded, as the name of its entry: `operator.key`.
#[derive(Debug)]
pub(crate) struct Origin {
    entry: Box<str>,
    /// Position of the dot between the two.
    dot: usize,
    /// The operator's name, if it is not the one in the entry's name.
    alias: Option<Arc<str>>,
}

impl Origin {
    /// The origin of an attribute of an operator with this name, which may be written with another one.
    pub(crate) fn new(operator: &Arc<str>, written_name: Option<&str>, key: &str) -> Self {
        let in_entry = written_name.unwrap_or(operator);
        let alias = written_name.map(|_| Arc::clone(operator));
        Self { entry: entry_name(in_entry, key).into(), dot: in_entry.len(), alias }
    }

    pub(crate) fn entry_name(&self) -> &str {
        &self.entry
    }

    /// The operator's name and the key, for error messages.
    fn names(&self) -> (String, String) {
        let (operator, key) = self.entry.split_at_checked(self.dot).unwrap_or_default();
        let operator = self.alias.as_deref().unwrap_or(operator);
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

    /// Looks up the entry of `origin` in an archive, which must have `expected` bytes. Attributes that share the name of an
    /// entry are matched in order, so there must be as many entries.
    pub(super) fn find(archive: &Arc<Archive>, origin: Origin, place: Place, expected: u64) -> Self {
        let path = || archive.path().to_owned();
        let positions = archive.positions(origin.entry_name());
        let found = positions.len();
        if found != place.count && (found > 1 || place.count > 1) {
            return Self::Absent { origin, reason: Reason::Shared(path(), place, found) };
        }
        let entry = positions.get(place.number).and_then(|&position| archive.entries().get(position));
        match entry.cloned() {
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
            Reason::Shared(path, place, found) => {
                let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
                let (archive, wanted, found) = (path.clone(), number(place.count), number(*found));
                WeightError::SharedName { operator, key, archive, wanted, found }
            }
        })
    }

    pub(super) fn bytes(&self) -> Result<Cow<'_, [u8]>, WeightError> {
        match self {
            Self::Owned(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Stored { origin, archive, entry } => {
                archive.read(entry).map(Cow::Owned).map_err(|source| origin.read_error(source))
            }
            Self::InFile { file, entry } => {
                let bytes =
                    file.read(entry.offset(), entry.size(), format_args!("tensor `{}`", entry.name()));
                bytes.map(Cow::Owned).map_err(|source| WeightError::in_file(entry, source))
            }
            Self::Joined(parts) => {
                let mut bytes = vec![0; parts.iter().map(|part| part.len).sum()];
                self.read_at(0, &mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
            Self::Absent { .. } => Ok(Cow::Borrowed(&[])),
        }
    }

    /// Fills `buffer` with the bytes from `start` on, which must exist.
    pub(super) fn read_at(&self, start: usize, buffer: &mut [u8]) -> Result<(), WeightError> {
        match self {
            Self::Owned(bytes) => buffer.copy_from_slice(&bytes[start..start + buffer.len()]),
            Self::Stored { origin, archive, entry } => {
                let read = archive.read_at(entry, start as u64, buffer);
                read.map_err(|source| origin.read_error(source))?;
            }
            Self::InFile { file, entry } => {
                let read = file.read_into(buffer, entry.offset().saturating_add(start as u64));
                read.map_err(|source| WeightError::in_file(entry, source))?;
            }
            Self::Joined(parts) => {
                let (mut skipped, mut rest) = (start, buffer);
                for part in parts {
                    let len = part.len.saturating_sub(skipped).min(rest.len());
                    let (bytes, later) = rest.split_at_mut(len);
                    if len > 0 {
                        part.data.read_at(skipped, bytes)?;
                    }
                    (skipped, rest) = (skipped.saturating_sub(part.len), later);
                }
            }
            Self::Absent { .. } => {}
        }
        Ok(())
    }

    pub(super) fn for_each_piece(
        &self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), WeightError> {
        match self {
            Self::Owned(bytes) => Ok(take(bytes)?),
            Self::Stored { origin, archive, entry } => {
                archive.for_each_piece(entry, take).map_err(|source| origin.read_error(source))
            }
            Self::InFile { file, entry } => {
                for_each_piece(file, entry, take).map_err(|source| WeightError::in_file(entry, source))
            }
            Self::Joined(parts) => {
                for part in parts {
                    part.data.for_each_piece(take)?;
                }
                Ok(())
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
        let origin = Origin::new(&"attention_3.to_out.0".into(), None, "out_proj.bias");
        assert_eq!(origin.entry_name(), "attention_3.to_out.0.out_proj.bias");
        assert_eq!(origin.names(), ("attention_3.to_out.0".into(), "out_proj.bias".into()));
        assert_eq!(Origin::new(&"é".into(), None, ".k").names(), ("é".into(), ".k".into()));
    }

    #[test]
    fn an_entry_has_the_written_name_and_errors_have_the_unique_one() {
        let origin = Origin::new(&"conv.1@2".into(), Some("conv.1"), "weight");
        assert_eq!(origin.entry_name(), "conv.1.weight");
        assert_eq!(origin.names(), ("conv.1@2".into(), "weight".into()));
    }
}
