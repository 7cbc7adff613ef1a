//! Reading an archive's index: where each entry's data are.

use super::records::{
    self, Common, DIRECTORY_LENGTH, DIRECTORY_SIGNATURE, DirectoryRecord, END_LENGTH, END_SIGNATURE,
    END64_LENGTH, END64_SIGNATURE, End, LOCAL_LENGTH, LOCAL_SIGNATURE, LOCATOR_LENGTH, Wide,
};
use super::source::Source;
use super::{ArchiveError, Entry};
use crate::{LimitError, Limits};
use std::path::Path;

/// Indexes an archive by its directory, or by walking from header to header where the directory cannot be
/// trusted.
pub(super) fn index(path: &Path, source: &Source, limits: &Limits) -> Result<Vec<Entry>, ArchiveError> {
    let reader = Reader { path, source, limits, length: source.len() };
    reader.check_start()?;
    match reader.by_directory() {
        Ok(entries) => Ok(entries),
        Err(Doubt::Error(error)) => Err(error),
        Err(Doubt::NoEnd) => {
            let (entries, found_directory) = reader.by_headers()?;
            if found_directory {
                return Err(
                    reader.truncated("the directory at its end".into(), reader.length.saturating_add(1))
                );
            }
            log::warn!("{}: the archive has no directory; its entries were searched for", path.display());
            Ok(entries)
        }
        Err(Doubt::Inconsistent(why)) => {
            let (entries, _) = reader.by_headers()?;
            log::warn!(
                "{}: the archive's directory is wrong ({why}); its entries were searched for",
                path.display()
            );
            Ok(entries)
        }
    }
}

/// Why the directory does not give an index.
enum Doubt {
    /// There is no end record.
    NoEnd,
    /// End record, directory and headers contradict each other.
    Inconsistent(String),
    /// Something that walking the headers cannot mend.
    Error(ArchiveError),
}

impl From<ArchiveError> for Doubt {
    fn from(error: ArchiveError) -> Self {
        Self::Error(error)
    }
}

fn inconsistent<T>(why: impl Into<String>) -> Result<T, Doubt> {
    Err(Doubt::Inconsistent(why.into()))
}

struct Reader<'a> {
    path: &'a Path,
    source: &'a Source,
    limits: &'a Limits,
    length: u64,
}

impl Reader<'_> {
    /// Tells other files from archives.
    fn check_start(&self) -> Result<(), ArchiveError> {
        let mut start = [0; 7];
        let available = usize::try_from(self.length).unwrap_or(usize::MAX).min(start.len());
        let start = &mut start[..available];
        self.read_exact(start, 0)?;
        let found = match &*start {
            [] => "an empty file",
            b"7767517" => "a .param text; were the .param and the .bin swapped?",
            [b'P', b'K', ..] => return Ok(()),
            _ if b"PK\x03\x04".starts_with(start) => return Ok(()),
            _ => "something else (a zip archive starts with `PK`; a .bin of ncnn does not)",
        };
        Err(ArchiveError::NotAnArchive { archive: self.path.to_owned(), found })
    }

    // --- by the directory ---

    fn by_directory(&self) -> Result<Vec<Entry>, Doubt> {
        let end = self.find_end()?;
        self.check_directory(end)?;
        let bytes = self.read(end.offset, end.size)?;
        let mut rest = bytes.as_slice();
        let mut entries = Vec::new();
        for _ in 0..end.entries {
            let (after, entry) = self.directory_entry(rest, end.offset)?;
            entries.push(entry);
            rest = after;
        }
        if rest.is_empty() { Ok(entries) } else { inconsistent("it has more entries than it says") }
    }

    /// Checks place and size of the directory before any of it is read.
    fn check_directory(&self, end: End) -> Result<(), Doubt> {
        if end.offset.checked_add(end.size).is_none_or(|range_end| range_end > self.length) {
            return inconsistent("it lies outside the file");
        }
        if end.entries.checked_mul(DIRECTORY_LENGTH).is_none_or(|least| least > end.size) {
            return inconsistent("it is too short for its entries");
        }
        self.check_count(end.entries)?;
        let check = self.limits.check_tensor("the archive's directory", end.size);
        Ok(check.map_err(|source| self.limit(source))?)
    }

    /// The end record, searched backwards because a comment of any length may follow it.
    fn find_end(&self) -> Result<End, Doubt> {
        let tail_length = self.length.min(END_LENGTH + u64::from(u16::MAX));
        let tail_start = self.length - tail_length;
        let tail = self.read(tail_start, tail_length)?;
        let found = tail.windows(END_SIGNATURE.len()).rposition(|window| window == END_SIGNATURE);
        let Some((at, record)) = found.and_then(|at| Some((at, tail.get(at..)?))) else {
            return Err(Doubt::NoEnd);
        };
        match records::end(record) {
            Err(_) => Err(Doubt::NoEnd),
            Ok((_, Some(end))) => Ok(end),
            Ok((_, None)) => self.find_end64(tail_start + at as u64),
        }
    }

    /// The zip64 end record, which a locator just before the end record points to.
    fn find_end64(&self, end_position: u64) -> Result<End, Doubt> {
        let Some(position) = end_position.checked_sub(LOCATOR_LENGTH) else {
            return inconsistent("its zip64 locator is missing");
        };
        let locator = self.read(position, LOCATOR_LENGTH)?;
        let Ok((_, position)) = records::locator(&locator) else {
            return inconsistent("its zip64 locator is missing");
        };
        if position.checked_add(END64_LENGTH).is_none_or(|end| end > end_position) {
            return inconsistent("its zip64 locator points outside the file");
        }
        match records::end64(&self.read(position, END64_LENGTH)?) {
            Ok((_, end)) => Ok(end),
            Err(_) => inconsistent("its zip64 end record is missing"),
        }
    }

    /// One directory record and the local header that it points to.
    fn directory_entry<'b>(&self, bytes: &'b [u8], data_end: u64) -> Result<(&'b [u8], Entry), Doubt> {
        let Ok((rest, DirectoryRecord { common, comment_length, offset })) = records::directory(bytes) else {
            return inconsistent("a record is missing");
        };
        let split = |bytes: &'b [u8], length: u16| bytes.split_at_checked(length.into());
        let parts = split(rest, common.name_length).and_then(|(name, rest)| {
            let (extras, rest) = split(rest, common.extra_length)?;
            let (_comment, rest) = split(rest, comment_length)?;
            Some((name, extras, rest))
        });
        let Some((name, extras, rest)) = parts else {
            return inconsistent("a record is cut off");
        };
        let Some(wide) = records::widen(&common, offset, extras) else {
            return inconsistent("a zip64 size is missing");
        };
        let name = self.name(name, offset.into())?;
        self.check_supported(&name, &common)?;
        let entry = self.local_entry(name, &common, wide, data_end)?;
        Ok((rest, entry))
    }

    /// Checks the local header of a directory record; the data begin after it.
    fn local_entry(&self, name: String, listed: &Common, wide: Wide, data_end: u64) -> Result<Entry, Doubt> {
        let header_end = wide.offset.checked_add(LOCAL_LENGTH).filter(|&end| end <= data_end);
        let Some(header_end) = header_end else {
            return inconsistent(format!("entry `{name}` lies outside the file"));
        };
        let header = self.read(wide.offset, LOCAL_LENGTH)?;
        let Ok((_, local)) = records::local(&header) else {
            return inconsistent(format!("entry `{name}` has no header"));
        };
        let names = u64::from(local.name_length) + u64::from(local.extra_length);
        let offset = header_end.saturating_add(names);
        if offset.checked_add(wide.size).is_none_or(|end| end > data_end) {
            return inconsistent(format!("the data of entry `{name}` lie outside the file"));
        }
        let local_name = self.read(header_end, local.name_length.into())?;
        if local_name != name.as_bytes() || wide.packed != wide.size || local.crc32 != listed.crc32 {
            return inconsistent(format!("the header of entry `{name}` says something else"));
        }
        self.check_supported(&name, &local)?;
        Ok(Entry { name, offset, size: wide.size, crc32: listed.crc32 })
    }

    // --- by the headers ---

    /// Walks from header to header. Also says whether a directory, or its end, follows the last entry.
    fn by_headers(&self) -> Result<(Vec<Entry>, bool), ArchiveError> {
        let mut entries = Vec::new();
        let mut position = 0;
        while position < self.length {
            let signature = self.read_whole(position, 4, || "a record's signature".into())?;
            if [DIRECTORY_SIGNATURE, END64_SIGNATURE, END_SIGNATURE].iter().any(|other| signature == other) {
                return Ok((entries, true));
            }
            if signature != LOCAL_SIGNATURE {
                return Err(self.corrupt(position, "no record of a zip archive starts here"));
            }
            let entry = self.header_entry(position)?;
            position = entry.offset.saturating_add(entry.size);
            entries.push(entry);
            self.check_count(entries.len() as u64)?;
        }
        Ok((entries, false))
    }

    fn header_entry(&self, position: u64) -> Result<Entry, ArchiveError> {
        let header = self.read_whole(position, LOCAL_LENGTH, || "an entry's header".into())?;
        let Ok((_, common)) = records::local(&header) else {
            return Err(self.corrupt(position, "this header is damaged"));
        };
        let names_start = position.saturating_add(LOCAL_LENGTH);
        let names_length = u64::from(common.name_length) + u64::from(common.extra_length);
        let names = self.read_whole(names_start, names_length, || "an entry's name".into())?;
        let (name, extras) = names.split_at_checked(common.name_length.into()).unwrap_or_default();
        let name = self.name(name, position)?;
        self.check_supported(&name, &common)?;
        let wide = records::widen(&common, 0, extras).filter(|wide| wide.packed == wide.size);
        let Some(Wide { size, .. }) = wide else {
            return Err(self.corrupt(position, &format!("the sizes of entry `{name}` contradict each other")));
        };
        let offset = names_start.saturating_add(names_length);
        let end = offset.saturating_add(size);
        if end > self.length {
            return Err(self.truncated(format!("the data of entry `{name}`"), end));
        }
        Ok(Entry { name, offset, size, crc32: common.crc32 })
    }

    // --- checks and reads ---

    fn check_supported(&self, entry: &str, common: &Common) -> Result<(), ArchiveError> {
        match common.unsupported() {
            None => Ok(()),
            Some(feature) => {
                let (archive, entry) = (self.path.to_owned(), entry.to_owned());
                Err(ArchiveError::Unsupported { archive, entry, feature })
            }
        }
    }

    fn check_count(&self, count: u64) -> Result<(), ArchiveError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let check = self.limits.check_ops("the archive's list of entries", count);
        check.map_err(|source| self.limit(source))
    }

    fn limit(&self, source: LimitError) -> ArchiveError {
        ArchiveError::Limit { archive: self.path.to_owned(), source }
    }

    fn name(&self, bytes: &[u8], offset: u64) -> Result<String, ArchiveError> {
        let name = std::str::from_utf8(bytes).map(str::to_owned);
        name.map_err(|_| self.corrupt(offset, "an entry's name is not UTF-8"))
    }

    /// Reads a range that is known to be within the file.
    fn read(&self, position: u64, length: u64) -> Result<Vec<u8>, ArchiveError> {
        let too_long = |_| self.corrupt(position, "a record is larger than the machine's memory");
        let mut bytes = vec![0; usize::try_from(length).map_err(too_long)?];
        self.read_exact(&mut bytes, position)?;
        Ok(bytes)
    }

    /// Reads a range, or says what is cut off if it is not all in the file.
    fn read_whole(
        &self,
        position: u64,
        length: u64,
        what: impl Fn() -> String,
    ) -> Result<Vec<u8>, ArchiveError> {
        let end = position.saturating_add(length);
        if end > self.length {
            return Err(self.truncated(what(), end));
        }
        self.read(position, length)
    }

    fn read_exact(&self, bytes: &mut [u8], position: u64) -> Result<(), ArchiveError> {
        let io = |source| ArchiveError::Io { archive: self.path.to_owned(), action: "read", source };
        self.source.read_exact_at(bytes, position).map_err(io)
    }

    fn truncated(&self, what: String, needed: u64) -> ArchiveError {
        ArchiveError::Truncated { archive: self.path.to_owned(), what, needed, length: self.length }
    }

    fn corrupt(&self, offset: u64, problem: &str) -> ArchiveError {
        ArchiveError::Corrupt { archive: self.path.to_owned(), offset, problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests;
