//! Reading an archive's index: the position of each entry's data.

use super::records::{
    self, DIRECTORY_LENGTH, DIRECTORY_SIGNATURE, DirectoryRecord, END_LENGTH, END_SIGNATURE, END64_LENGTH,
    END64_SIGNATURE, End, Header, LOCAL_LENGTH, LOCATOR_LENGTH, Sizes,
};
use super::walk::walk;
use super::{ArchiveError, ArchiveFile, Entry};

/// Indexes an archive by its directory, or by walking the local headers if the directory cannot be trusted.
pub(super) fn index(file: &ArchiveFile) -> Result<Vec<Entry>, ArchiveError> {
    let reader = Reader { file };
    reader.check_start()?;
    match reader.by_directory() {
        Ok(entries) => Ok(entries),
        Err(Doubt::Error(error)) => Err(error),
        Err(Doubt::NoEnd) => {
            let (entries, found_directory) = reader.by_headers()?;
            if found_directory {
                return Err(file.truncated("the directory at its end", file.len().saturating_add(1)));
            }
            let path = file.path().display();
            log::warn!(
                "{path}: the archive has no directory; its entries were recovered from the local headers"
            );
            Ok(entries)
        }
        Err(Doubt::Inconsistent(why)) => {
            let (entries, _) = reader.by_headers()?;
            let path = file.path().display();
            log::warn!(
                "{path}: the archive's directory is wrong ({why}); its entries were recovered from the local headers"
            );
            Ok(entries)
        }
    }
}

/// The reason why the directory gives no index.
enum Doubt {
    /// The end record is missing.
    NoEnd,
    /// The end record, the directory and the headers contradict each other.
    Inconsistent(String),
    /// An error from which walking the headers cannot recover.
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
    file: &'a ArchiveFile,
}

impl Reader<'_> {
    /// Checks that the file starts like a zip archive.
    fn check_start(&self) -> Result<(), ArchiveError> {
        let mut start = [0; 7];
        let available = usize::try_from(self.file.len()).unwrap_or(usize::MAX).min(start.len());
        let start = &mut start[..available];
        self.file.read_into(start, 0)?;
        let found = match &*start {
            [] => "an empty file",
            b"7767517" => "a .param text; were the .param and the .bin swapped?",
            [b'P', b'K', ..] => return Ok(()),
            _ if b"PK\x03\x04".starts_with(start) => return Ok(()),
            _ => "something else (a zip archive starts with `PK`; an ncnn .bin does not)",
        };
        Err(ArchiveError::NotAnArchive { archive: self.file.path().to_owned(), found })
    }

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
        if rest.is_empty() { Ok(entries) } else { inconsistent("it is longer than its entries") }
    }

    /// Checks the position and size of the directory before it is read.
    fn check_directory(&self, end: End) -> Result<(), Doubt> {
        if end.offset.checked_add(end.size).is_none_or(|range_end| range_end > self.file.len()) {
            return inconsistent("it is outside the file");
        }
        if end.entries.checked_mul(DIRECTORY_LENGTH).is_none_or(|least| least > end.size) {
            return inconsistent("it is too short for its entries");
        }
        self.file.check_count(usize::try_from(end.entries).unwrap_or(usize::MAX))?;
        Ok(self.file.check_directory_size(end.size)?)
    }

    /// Finds the end record by searching backwards, because a comment of variable length may follow it.
    fn find_end(&self) -> Result<End, Doubt> {
        let tail_length = self.file.len().min(END_LENGTH + u64::from(u16::MAX));
        let tail_start = self.file.len() - tail_length;
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

    /// Reads the zip64 end record through its locator, which precedes the end record.
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

    /// Reads one directory record and the local header that it points to.
    fn directory_entry<'b>(&self, bytes: &'b [u8], data_end: u64) -> Result<(&'b [u8], Entry), Doubt> {
        let Ok((rest, DirectoryRecord { header, comment_length, offset })) = records::directory(bytes) else {
            return inconsistent("a record is missing");
        };
        let split = |bytes: &'b [u8], length: u16| bytes.split_at_checked(length.into());
        let parts = split(rest, header.name_length).and_then(|(name, rest)| {
            let (extras, rest) = split(rest, header.extra_length)?;
            let (_comment, rest) = split(rest, comment_length)?;
            Some((name, extras, rest))
        });
        let Some((name, extras, rest)) = parts else {
            return inconsistent("a record is cut off");
        };
        let Some(sizes) = records::sizes(&header, offset, extras) else {
            return inconsistent("a zip64 size is missing");
        };
        let name = self.file.name(name, offset.into())?;
        self.file.check_supported(&name, &header)?;
        let entry = self.local_entry(name, &header, sizes, data_end)?;
        Ok((rest, entry))
    }

    /// Checks a directory record against its local header, and returns the entry.
    fn local_entry(
        &self,
        name: String,
        listed: &Header,
        sizes: Sizes,
        data_end: u64,
    ) -> Result<Entry, Doubt> {
        let header_end = sizes.offset.checked_add(LOCAL_LENGTH).filter(|&end| end <= data_end);
        let Some(header_end) = header_end else {
            return inconsistent(format!("entry `{name}` is outside the file"));
        };
        let header = self.read(sizes.offset, LOCAL_LENGTH)?;
        let Ok((_, local)) = records::local_header(&header) else {
            return inconsistent(format!("entry `{name}` has no header"));
        };
        let names = u64::from(local.name_length) + u64::from(local.extra_length);
        let offset = header_end.saturating_add(names);
        if offset.checked_add(sizes.size).is_none_or(|end| end > data_end) {
            return inconsistent(format!("the data of entry `{name}` are outside the file"));
        }
        let local_name = self.read(header_end, local.name_length.into())?;
        if local_name != name.as_bytes() || sizes.packed != sizes.size || local.crc32 != listed.crc32 {
            return inconsistent(format!("it contradicts the local header of entry `{name}`"));
        }
        self.file.check_supported(&name, &local)?;
        Ok(Entry::new(name, offset, sizes.size, listed.crc32))
    }

    /// Walks the local headers. Also returns whether a directory or end record follows the last entry.
    fn by_headers(&self) -> Result<(Vec<Entry>, bool), ArchiveError> {
        let entries = walk(self.file)?;
        let end = entries.last().map_or(0, Entry::end);
        if end == self.file.len() {
            return Ok((entries, false));
        }
        let signature = self.file.read(end, 4, "a record's signature")?;
        if [DIRECTORY_SIGNATURE, END64_SIGNATURE, END_SIGNATURE].iter().any(|other| signature == other) {
            return Ok((entries, true));
        }
        Err(self.file.corrupt(end, "expected a zip record"))
    }

    /// Reads a range that was checked to be within the file.
    fn read(&self, position: u64, length: u64) -> Result<Vec<u8>, ArchiveError> {
        self.file.read(position, length, "its directory")
    }
}

#[cfg(test)]
mod tests;
