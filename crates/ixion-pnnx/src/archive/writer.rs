//! Writing an archive, entry by entry.

use super::ArchiveError;
use super::records::{End, LOCAL_SIGNATURE, Written};
use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Writes an archive as PNNX does, byte for byte.
///
/// Data are written in chunks, and an entry's checksum is filled in once its data are complete. See
/// [`Archive`](super::Archive) for an example. After an error the target may hold an incomplete entry: discard it.
#[derive(Debug)]
pub struct ArchiveWriter<W: Write + Seek> {
    target: W,
    path: PathBuf,
    position: u64,
    entries: Vec<Written>,
    names: HashSet<String>,
    repeats_names: bool,
}

/// The offset in bytes of the checksum in a local header.
const CRC_OFFSET: u64 = LOCAL_SIGNATURE.len() as u64 + 10;

impl<W: Write + Seek> ArchiveWriter<W> {
    /// Starts an archive at the target's current position, which must be its start.
    pub fn new(target: W) -> Self {
        Self::named(target, Path::new("<bytes>"))
    }

    /// Same as [`ArchiveWriter::new`], with a path for error messages.
    pub fn named(target: W, path: &Path) -> Self {
        let (entries, names) = (Vec::new(), HashSet::new());
        Self { target, path: path.to_owned(), position: 0, entries, names, repeats_names: false }
    }

    /// Accepts several entries with the same name. PNNX writes such archives at optimisation level 0; see
    /// [`Archive::entries_named`](super::Archive::entries_named).
    #[must_use]
    pub fn with_repeated_names(self) -> Self {
        Self { repeats_names: true, ..self }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`ArchiveError`] if the name is taken or too long, or the target cannot be written.
    pub fn add(&mut self, name: &str, data: &[u8]) -> Result<(), ArchiveError> {
        self.add_pieces(name, data.len() as u64, |put| put(data))?;
        Ok(())
    }

    /// Adds an entry of `size` bytes in chunks: `produce` passes each chunk to the function that it is given.
    /// Returns the data's CRC-32.
    ///
    /// # Errors
    /// Same as [`ArchiveWriter::add`], any error that `produce` returns, and [`ArchiveError::Corrupt`] if the
    /// chunks do not add up to `size` bytes.
    pub fn add_pieces<E: From<ArchiveError>>(
        &mut self,
        name: &str,
        size: u64,
        produce: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>) -> Result<(), E>,
    ) -> Result<u32, E> {
        let mut entry = self.entry(name, size)?;
        self.write(&entry.local_header())?;
        let start = self.position;
        let mut hasher = crc32fast::Hasher::new();
        produce(&mut |piece| {
            hasher.update(piece);
            self.write(piece)
        })?;
        self.check_size(&entry, start)?;
        entry.crc32 = hasher.finalize();
        self.patch_crc(&entry)?;
        let crc32 = entry.crc32;
        self.entries.push(entry);
        Ok(crc32)
    }

    fn entry(&mut self, name: &str, size: u64) -> Result<Written, ArchiveError> {
        let (archive, entry, length) = (self.path.clone(), name.to_owned(), name.len());
        let Ok(name_length) = u16::try_from(length) else {
            return Err(ArchiveError::NameTooLong { archive, entry, length });
        };
        if !self.names.insert(name.to_owned()) && !self.repeats_names {
            return Err(ArchiveError::DuplicateEntry { archive, entry });
        }
        Ok(Written { name: entry, name_length, size, crc32: 0, offset: self.position })
    }

    fn check_size(&self, entry: &Written, start: u64) -> Result<(), ArchiveError> {
        let written = self.position - start;
        if written == entry.size {
            return Ok(());
        }
        let problem = format!("entry `{}`: expected {} bytes of data, got {written}", entry.name, entry.size);
        Err(ArchiveError::Corrupt { archive: self.path.clone(), offset: start, problem })
    }

    fn patch_crc(&mut self, entry: &Written) -> Result<(), ArchiveError> {
        let patch = |target: &mut W| -> io::Result<()> {
            target.seek(SeekFrom::Start(entry.offset + CRC_OFFSET))?;
            target.write_all(&entry.crc32.to_le_bytes())?;
            target.seek(SeekFrom::Start(self.position)).map(drop)
        };
        patch(&mut self.target).map_err(|source| self.io(source))
    }

    /// Writes the directory and the end records, flushes the target and returns it.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] if the target cannot be written.
    pub fn finish(mut self) -> Result<W, ArchiveError> {
        let offset = self.position;
        let entries = std::mem::take(&mut self.entries);
        for entry in &entries {
            self.write(&entry.directory_record())?;
        }
        let end = End { entries: entries.len() as u64, size: self.position - offset, offset };
        self.write(&end.records(self.position))?;
        match self.target.flush() {
            Ok(()) => Ok(self.target),
            Err(source) => Err(self.io(source)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.target.write_all(bytes).map_err(|source| self.io(source))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn io(&self, source: io::Error) -> ArchiveError {
        ArchiveError::Io { archive: self.path.clone(), action: "write", source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn an_empty_archive_has_three_end_records() {
        let bytes = ArchiveWriter::new(Cursor::new(Vec::new())).finish().unwrap().into_inner();
        assert_eq!(bytes.len(), 98);
        assert_eq!(&bytes[..4], b"PK\x06\x06");
    }

    #[test]
    fn the_bytes_follow_the_format() {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
        writer.add("c", b"123456789").unwrap();
        let bytes = writer.finish().unwrap().into_inner();
        let header = [
            b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\x26\x39\xf4\xcb".as_slice(),
            b"\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\x20\0c\x01\0\x1c\0",
            &9_u64.to_le_bytes(),
            &9_u64.to_le_bytes(),
            &[0; 12],
            b"123456789",
        ];
        assert!(bytes.starts_with(&header.concat()));
        assert_eq!(bytes.len(), 30 + 1 + 32 + 9 + 46 + 1 + 32 + 98);
    }

    #[test]
    fn chunks_give_the_same_bytes_as_one_write() {
        let mut whole = ArchiveWriter::new(Cursor::new(Vec::new()));
        whole.add("a", b"123456789").unwrap();
        let mut pieces = ArchiveWriter::new(Cursor::new(Vec::new()));
        let crc = pieces.add_pieces("a", 9, |put| put(b"1234").and_then(|()| put(b"56789"))).unwrap();
        assert_eq!(crc, 0xcbf4_3926);
        assert_eq!(pieces.finish().unwrap().into_inner(), whole.finish().unwrap().into_inner());
    }

    #[test]
    fn wrong_sizes_and_names_are_rejected() {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
        writer.add("a", b"1").unwrap();
        assert!(matches!(writer.add("a", b"2"), Err(ArchiveError::DuplicateEntry { .. })));
        assert!(matches!(writer.add(&"x".repeat(65_536), b""), Err(ArchiveError::NameTooLong { .. })));
        let short = writer.add_pieces("b", 3, |put| put(b"12"));
        assert!(matches!(short, Err(ArchiveError::Corrupt { .. })));
    }

    #[test]
    fn names_may_be_repeated_on_request() {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new())).with_repeated_names();
        writer.add("a", b"1").unwrap();
        writer.add("a", b"23").unwrap();
        let bytes = writer.finish().unwrap().into_inner();
        let archive = crate::Archive::from_bytes(bytes, &ixion_tensor::Limits::default()).unwrap();
        let sizes: Vec<u64> = archive.entries_named("a").map(crate::Entry::size).collect();
        assert_eq!(sizes, [1, 2]);
    }
}
