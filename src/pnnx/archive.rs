//! The `.bin` file: a zip archive whose entries are stored, not compressed.
//!
//! Every entry holds the raw little-endian bytes of one attribute and is called `operator.key`. PNNX writes
//! all records in their zip64 form, with 32-bit fields full of ones. Data are not aligned.
//!
//! ```text
//! local header, name, zip64 extra │ data │ local header, … │ data │ directory │ end records
//! ```
//!
//! [`Archive::open`] reads the directory at the end and the local headers, never the data: a large model
//! opens in milliseconds, and its weights stay in the file until somebody asks for them. Where the directory
//! is missing or contradicts the headers, the headers are walked from the start of the file instead.
//! [`ArchiveWriter`] writes the same bytes that PNNX writes.

mod error;
mod reader;
mod records;
mod source;
mod writer;

pub use error::ArchiveError;
pub use writer::ArchiveWriter;

use crate::Limits;
use source::Source;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// One entry of an archive: a name and a range of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    name: String,
    offset: u64,
    size: u64,
    crc32: u32,
}

impl Entry {
    /// The entry's name, `operator.key`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Position of the first data byte in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of data bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The CRC-32 that the archive says the data have.
    pub fn crc32(&self) -> u32 {
        self.crc32
    }
}

/// An open archive: the index of its entries, and the file to read them from.
///
/// Reads are by position, so any number of threads can share one archive.
///
/// ```
/// # use ixion::{Limits, pnnx::{Archive, ArchiveWriter}};
/// # use std::io::Cursor;
/// let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
/// writer.add("fc.bias", &[1, 2, 3, 4])?;
/// let bytes = writer.finish()?.into_inner();
///
/// let archive = Archive::from_bytes(bytes, &Limits::default())?;
/// let entry = archive.entry("fc.bias").unwrap();
/// assert_eq!(archive.read(entry)?, [1, 2, 3, 4]);
/// assert_eq!(archive.checksum(entry)?, entry.crc32());
/// # Ok::<(), ixion::pnnx::ArchiveError>(())
/// ```
pub struct Archive {
    path: PathBuf,
    source: Source,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

impl Archive {
    /// Opens an archive and reads its index.
    ///
    /// # Errors
    /// [`ArchiveError`] when the file cannot be read, is no archive, is cut off, has an entry that is
    /// compressed or encrypted, has two entries of one name, or has more entries than `limits` allow.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, ArchiveError> {
        let path = path.as_ref();
        let io = |source| ArchiveError::Io { archive: path.to_owned(), action: "open", source };
        if path.is_dir() {
            return Err(ArchiveError::Folder { archive: path.to_owned() });
        }
        let source = Source::open(path).map_err(io)?;
        Self::index(path.to_owned(), source, limits)
    }

    /// Reads the index of an archive in memory. Messages call it `<bytes>`.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, limits: &Limits) -> Result<Self, ArchiveError> {
        Self::index(PathBuf::from("<bytes>"), Source::from_bytes(bytes.into()), limits)
    }

    fn index(path: PathBuf, source: Source, limits: &Limits) -> Result<Self, ArchiveError> {
        let entries = reader::index(&path, &source, limits)?;
        let mut by_name = HashMap::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            // Two operators can share an entry name (`a.b` with `c`, `a` with `b.c`); a guess could mix them up.
            if by_name.insert(entry.name.clone(), index).is_some() {
                return Err(ArchiveError::DuplicateEntry { archive: path, entry: entry.name.clone() });
            }
        }
        Ok(Self { path, source, entries, by_name })
    }

    /// The file, or `<bytes>`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All entries in the order of the archive.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).and_then(|&index| self.entries.get(index))
    }

    /// Reads all data of an entry.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] when the file cannot be read, or has become shorter since it was opened.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, ArchiveError> {
        let size = usize::try_from(entry.size).unwrap_or(usize::MAX);
        let mut data = Vec::new();
        data.try_reserve_exact(size).map_err(|_| self.too_large(entry))?;
        data.resize(size, 0);
        self.read_at(entry, 0, &mut data)?;
        Ok(data)
    }

    /// Fills `buffer` with the data of an entry from byte `skip` on.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] as for [`Archive::read`], and when the entry has fewer bytes.
    pub fn read_at(&self, entry: &Entry, skip: u64, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        let end = skip.checked_add(buffer.len() as u64).filter(|&end| end <= entry.size);
        let position = end.and_then(|_| entry.offset.checked_add(skip));
        let result = match position {
            Some(position) => self.source.read_exact_at(buffer, position),
            None => Err(std::io::ErrorKind::UnexpectedEof.into()),
        };
        result.map_err(|source| self.io("read", source))
    }

    /// Computes the CRC-32 of an entry's data, a piece at a time. It equals [`Entry::crc32`] if they are
    /// undamaged.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] as for [`Archive::read`].
    pub fn checksum(&self, entry: &Entry) -> Result<u32, ArchiveError> {
        let mut hasher = crc32fast::Hasher::new();
        self.for_each_piece(entry, |piece| {
            hasher.update(piece);
            Ok::<(), ArchiveError>(())
        })?;
        Ok(hasher.finalize())
    }

    /// Passes an entry's data to `take`, at most [`PIECE`] bytes at a time.
    pub(super) fn for_each_piece<E: From<ArchiveError>>(
        &self,
        entry: &Entry,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer = vec![0; usize::try_from(entry.size).unwrap_or(PIECE).min(PIECE)];
        let mut done = 0;
        while done < entry.size {
            let length = usize::try_from(entry.size - done).unwrap_or(PIECE).min(PIECE);
            let piece = &mut buffer[..length];
            self.read_at(entry, done, piece)?;
            take(piece)?;
            done += length as u64;
        }
        Ok(())
    }

    fn io(&self, action: &'static str, source: std::io::Error) -> ArchiveError {
        ArchiveError::Io { archive: self.path.clone(), action, source }
    }

    fn too_large(&self, entry: &Entry) -> ArchiveError {
        let (archive, entry, size) = (self.path.clone(), entry.name.clone(), entry.size);
        ArchiveError::OutOfMemory { archive, entry, size }
    }
}

/// How many bytes are held at one time where data are only passed through.
const PIECE: usize = 1 << 18;

/// The index can be long, so only its length is shown.
impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.len();
        f.debug_struct("Archive").field("path", &self.path).field("entries", &entries).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    fn written(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
        for (name, data) in entries {
            writer.add(name, data).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn entries_read_back_from_a_file_and_from_memory() {
        let bytes = written(&[("a.weight", &[1, 2, 3]), ("empty", &[]), ("b", &[9])]);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let limits = Limits::default();
        for archive in
            [Archive::open(file.path(), &limits).unwrap(), Archive::from_bytes(bytes, &limits).unwrap()]
        {
            let names: Vec<&str> = archive.entries().iter().map(Entry::name).collect();
            assert_eq!(names, ["a.weight", "empty", "b"]);
            assert_eq!(archive.read(archive.entry("a.weight").unwrap()).unwrap(), [1, 2, 3]);
            assert!(archive.read(archive.entry("empty").unwrap()).unwrap().is_empty());
            assert!(archive.entry("c").is_none());
        }
    }

    #[test]
    fn a_piece_of_an_entry_stays_within_it() {
        let archive =
            Archive::from_bytes(written(&[("a", &[1, 2, 3]), ("b", &[4])]), &Limits::default()).unwrap();
        let entry = archive.entry("a").unwrap();
        let mut two = [0; 2];
        archive.read_at(entry, 1, &mut two).unwrap();
        assert_eq!(two, [2, 3]);
        assert!(archive.read_at(entry, 2, &mut two).is_err());
        assert!(archive.read_at(entry, u64::MAX, &mut two).is_err());
    }

    #[test]
    fn the_checksum_shows_damage() {
        let data: Vec<u8> = (0..PIECE + 100).map(|i| i as u8).collect();
        let mut bytes = written(&[("a", &data)]);
        let limits = Limits::default();
        let archive = Archive::from_bytes(bytes.clone(), &limits).unwrap();
        let entry = archive.entry("a").unwrap();
        assert_eq!(archive.checksum(entry).unwrap(), entry.crc32());
        let last = usize::try_from(entry.offset() + entry.size() - 1).unwrap();
        bytes[last] ^= 1;
        let damaged = Archive::from_bytes(bytes, &limits).unwrap();
        let entry = damaged.entry("a").unwrap();
        assert_ne!(damaged.checksum(entry).unwrap(), entry.crc32());
    }

    #[test]
    fn a_folder_and_a_missing_file_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits::default();
        let error = Archive::open(folder.path(), &limits).unwrap_err().to_string();
        assert!(error.contains("is a folder"), "{error}");
        let missing = folder.path().join("none.bin");
        let error = Archive::open(&missing, &limits).unwrap_err().to_string();
        assert!(error.contains("none.bin: cannot open"), "{error}");
    }
}
