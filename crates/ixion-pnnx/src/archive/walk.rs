//! From entry to entry through an archive, and through the data of one, without ever holding all of it in memory.

use super::records::{LOCAL_LENGTH, LOCAL_SIGNATURE, local_header, sizes};
use super::{ArchiveError, ArchiveFile, Entry};

// ANCHOR: walk
/// The entry whose local header begins at `position`. Its data are not read.
///
/// # Errors
/// [`ArchiveError`] when there is no header, when the file ends before the header, the name or the data do, when sizes
/// are missing or contradict each other, and when the data are not stored as they are.
pub fn entry_at(file: &ArchiveFile, position: u64) -> Result<Entry, ArchiveError> {
    // ANCHOR: entry_at_todo -- task 3: the header, the name and the extra blocks behind it, and where the data begin
    let bytes = file.read(position, LOCAL_LENGTH, "an entry's header")?;
    let (_, header) = local_header(&bytes).map_err(|_| file.corrupt(position, "this header is damaged"))?;
    let names_start = position + LOCAL_LENGTH;
    let names_length = u64::from(header.name_length) + u64::from(header.extra_length);
    let names = file.read(names_start, names_length, "an entry's name")?;
    let (name, extras) = names.split_at(header.name_length.into());
    let name = file.name(name, position)?;
    file.check_supported(&name, &header)?;
    match sizes(&header, 0, extras) {
        Some(sizes) if sizes.packed == sizes.size => {
            let start = names_start + names_length;
            file.check_range(start, sizes.size, format_args!("the data of entry `{name}`"))?;
            Ok(Entry::new(name, start, sizes.size, header.crc32))
        }
        _ => Err(file.corrupt(position, &format!("the sizes of entry `{name}` contradict each other"))),
    }
    // ANCHOR_END: entry_at_todo
}

/// All entries, found by going from header to header: behind the data of one stands the header of the next. The walk ends
/// where no local header begins.
///
/// # Errors
/// As [`entry_at`], and [`ArchiveError::Limit`] when there are more entries than the limits allow.
pub fn walk(file: &ArchiveFile) -> Result<Vec<Entry>, ArchiveError> {
    // ANCHOR: walk_todo -- task 3: as long as there is a header, its entry, then behind its data
    let mut entries = Vec::new();
    let mut position = 0;
    while file.has_signature(position, LOCAL_SIGNATURE)? {
        let entry = entry_at(file, position)?;
        position = entry.end();
        entries.push(entry);
        file.check_count(entries.len())?;
    }
    Ok(entries)
    // ANCHOR_END: walk_todo
}
// ANCHOR_END: walk

/// How many bytes are held at one time where data are only passed through.
pub const PIECE: usize = 1 << 18;

/// Passes an entry's data to `take`, at most [`PIECE`] bytes at a time.
///
/// # Errors
/// [`ArchiveError::Io`] when the file cannot be read, and whatever `take` returns.
pub fn for_each_piece(
    file: &ArchiveFile,
    entry: &Entry,
    mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut buffer = vec![0; usize::try_from(entry.size()).unwrap_or(PIECE).min(PIECE)];
    let mut position = entry.offset();
    while position < entry.end() {
        let length = usize::try_from(entry.end() - position).unwrap_or(PIECE).min(PIECE);
        let piece = &mut buffer[..length];
        file.read_into(piece, position)?;
        take(piece)?;
        position += length as u64;
    }
    Ok(())
}

// ANCHOR: checksum
/// The CRC-32 of an entry's data. It equals [`Entry::crc32`] where they are undamaged.
///
/// # Errors
/// As [`for_each_piece`].
pub fn checksum(file: &ArchiveFile, entry: &Entry) -> Result<u32, ArchiveError> {
    // ANCHOR: checksum_todo -- task 3: every piece goes through the hasher
    let mut hasher = crc32fast::Hasher::new();
    for_each_piece(file, entry, |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    Ok(hasher.finalize())
    // ANCHOR_END: checksum_todo
}
// ANCHOR_END: checksum
