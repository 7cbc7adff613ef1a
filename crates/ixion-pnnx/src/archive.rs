//! The `.bin` file: a zip archive whose entries are stored, not compressed.
//!
//! Every entry holds the raw little-endian bytes of one attribute and is named `operator.key`. PNNX writes all
//! records in their zip64 form, with all bits set in the 32-bit fields. The data are not aligned.
//!
//! ```text
//! local header, name, zip64 extra │ data │ local header, … │ data │ directory │ end records
//! ```
//!
//! [`Archive::open`] reads the directory at the end and the local headers, never the data: a large model
//! opens in milliseconds, and its weights are read on demand. If the directory is missing or contradicts the
//! headers, the headers are walked from the start of the file instead. [`ArchiveWriter`] writes the same bytes
//! as PNNX.

mod error;
mod file;
mod reader;
mod records;
mod source;
mod walk;
mod writer;

pub use error::ArchiveError;
pub use file::ArchiveFile;
pub use records::{
    Header, LOCAL_LENGTH, LOCAL_SIGNATURE, ONES_32, Sizes, extra, header_fields, local_header, sizes, widen,
    zip64_extra,
};
pub use walk::{PIECE, checksum, entry_at, for_each_piece, walk};
pub use writer::ArchiveWriter;

use ixion_tensor::Limits;
use ixion_tensor::{DType, Tensor, TensorError};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// One entry of an archive: a name and a range of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    name: String,
    offset: u64,
    size: u64,
    crc32: u32,
}

impl Entry {
    /// An entry whose `size` data bytes start at byte `offset` of the file and have the CRC-32 `crc32`.
    pub fn new(name: String, offset: u64, size: u64, crc32: u32) -> Self {
        Self { name, offset, size, crc32 }
    }

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

    /// Position of the first byte after the data.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    /// The CRC-32 of the data, as stored in the archive.
    pub fn crc32(&self) -> u32 {
        self.crc32
    }
}

/// An open archive: the index of its entries, and the file to read them from.
///
/// Reads are by position, so any number of threads can share one archive.
///
/// ```
/// # use ixion_pnnx::{Archive, ArchiveWriter};
/// # use ixion_tensor::Limits;
/// # use std::io::Cursor;
/// let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
/// writer.add("fc.bias", &[1, 2, 3, 4])?;
/// let bytes = writer.finish()?.into_inner();
///
/// let archive = Archive::from_bytes(bytes, &Limits::default())?;
/// let entry = archive.entry("fc.bias").unwrap();
/// assert_eq!(archive.read(entry)?, [1, 2, 3, 4]);
/// assert_eq!(archive.checksum(entry)?, entry.crc32());
/// # Ok::<(), ixion_pnnx::ArchiveError>(())
/// ```
pub struct Archive {
    file: ArchiveFile,
    entries: Vec<Entry>,
    /// The positions of the entries with a name, in order. There is nearly always one.
    by_name: HashMap<String, SmallVec<[usize; 1]>>,
}

impl Archive {
    /// Opens an archive and reads its index.
    ///
    /// # Errors
    /// [`ArchiveError`] if the file cannot be read, is not an archive, is truncated, has a compressed or
    /// encrypted entry, or has more entries than `limits` allow.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, ArchiveError> {
        Self::index(ArchiveFile::open(path, limits)?)
    }

    /// Reads the index of an archive in memory, which error messages call `<bytes>`.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, limits: &Limits) -> Result<Self, ArchiveError> {
        Self::index(ArchiveFile::from_bytes(bytes, limits))
    }

    fn index(file: ArchiveFile) -> Result<Self, ArchiveError> {
        let entries = reader::index(&file)?;
        Self::from_entries(file, entries)
    }

    /// An archive with known entries, over a file of any kind.
    ///
    /// # Errors
    /// [`ArchiveError::Truncated`] if an entry extends past the end of the file.
    pub fn from_entries(file: ArchiveFile, entries: Vec<Entry>) -> Result<Self, ArchiveError> {
        let mut by_name: HashMap<String, SmallVec<[usize; 1]>> = HashMap::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            file.check_range(entry.offset, entry.size, format_args!("the data of entry `{}`", entry.name))?;
            by_name.entry(entry.name.clone()).or_default().push(index);
        }
        Ok(Self { file, entries, by_name })
    }

    /// The path of the file, or `<bytes>`.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// All entries, in archive order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry with this name; the first one if there are several.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries_named(name).next()
    }

    /// All entries with this name, in archive order. There are several if operators share a name, or if two attributes
    /// share an entry's name (`a.b` with key `c`, `a` with key `b.c`): the first entry then belongs to the first of them in
    /// the text, and so on.
    pub fn entries_named(&self, name: &str) -> impl Iterator<Item = &Entry> {
        self.positions(name).iter().filter_map(|&index| self.entries.get(index))
    }

    /// The positions of all entries with this name.
    pub(super) fn positions(&self, name: &str) -> &[usize] {
        self.by_name.get(name).map_or(&[][..], SmallVec::as_slice)
    }

    /// Reads all data of an entry.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] if the file cannot be read, or was truncated since it was opened;
    /// [`ArchiveError::OutOfMemory`] if the data do not fit in memory.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, ArchiveError> {
        let size = usize::try_from(entry.size).unwrap_or(usize::MAX);
        let mut data = Vec::new();
        data.try_reserve_exact(size).map_err(|_| self.file.too_large(entry))?;
        data.resize(size, 0);
        self.read_at(entry, 0, &mut data)?;
        Ok(data)
    }

    /// Fills `buffer` with an entry's data, starting at byte `skip`.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] if the file cannot be read, or the entry has fewer bytes.
    pub fn read_at(&self, entry: &Entry, skip: u64, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        let end = skip.checked_add(buffer.len() as u64).filter(|&end| end <= entry.size);
        let position = end.and_then(|_| entry.offset.checked_add(skip));
        match position {
            Some(position) => self.file.read_into(buffer, position),
            None => Err(self.file.io("read", std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// An entry's data as a tensor without copying, or `None` if the file is not mapped into memory.
    pub(super) fn mapped(
        &self,
        entry: &Entry,
        dtype: DType,
        shape: &[usize],
    ) -> Option<Result<Tensor, TensorError>> {
        let offset = usize::try_from(entry.offset).ok()?;
        Some(self.file.mapping()?.tensor(offset, dtype, shape))
    }

    /// Computes the CRC-32 of an entry's data, a chunk at a time. It equals [`Entry::crc32`] if the data are
    /// undamaged.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] if the file cannot be read.
    pub fn checksum(&self, entry: &Entry) -> Result<u32, ArchiveError> {
        checksum(&self.file, entry)
    }

    /// Passes an entry's data to `take`, at most [`PIECE`] bytes at a time.
    pub(super) fn for_each_piece(
        &self,
        entry: &Entry,
        take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        for_each_piece(&self.file, entry, take)
    }
}

/// Shows the number of entries only: the index can be long.
impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.len();
        f.debug_struct("Archive")
            .field("path", &self.path())
            .field("entries", &entries)
            .finish_non_exhaustive()
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
    fn partial_reads_stay_within_the_entry() {
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
