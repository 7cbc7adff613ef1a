//! Walking the entries of an archive and the data of one entry, without loading either into memory as a whole.

use super::records::{LOCAL_LENGTH, LOCAL_SIGNATURE, local_header, sizes};
use super::{ArchiveError, ArchiveFile, Entry};

// ANCHOR: walk
/// The entry whose local header starts at `position`. Its data are not read.
///
/// # Errors
/// [`ArchiveError`] if there is no header, if the file ends within the header, the name or the data, if sizes are missing
/// or contradict each other, or if the data are not stored plainly.
pub fn entry_at(file: &ArchiveFile, position: u64) -> Result<Entry, ArchiveError> {
    // ANCHOR: entry_at_todo -- task 3: the header, the name and extra blocks after it, and the start of the data
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

/// All entries, found by walking the local headers: the header of an entry follows the data of the one before. The walk
/// ends at the first position without a local header.
///
/// # Errors
/// Same as [`entry_at`], and [`ArchiveError::Limit`] if there are more entries than the limits allow.
pub fn walk(file: &ArchiveFile) -> Result<Vec<Entry>, ArchiveError> {
    // ANCHOR: walk_todo -- task 3: while there is a header, take its entry and move past its data
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

/// The largest chunk, in bytes, in which data are read, hashed and copied.
pub const PIECE: usize = 1 << 18;

/// Passes an entry's data to `take`, at most [`PIECE`] bytes at a time.
///
/// # Errors
/// [`ArchiveError::Io`] if the file cannot be read, and any error that `take` returns.
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
/// The CRC-32 of an entry's data. It equals [`Entry::crc32`] if the data are undamaged.
///
/// # Errors
/// Same as [`for_each_piece`].
pub fn checksum(file: &ArchiveFile, entry: &Entry) -> Result<u32, ArchiveError> {
    // ANCHOR: checksum_todo -- task 3: feed every piece to the hasher
    let mut hasher = crc32fast::Hasher::new();
    for_each_piece(file, entry, |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    Ok(hasher.finalize())
    // ANCHOR_END: checksum_todo
}
// ANCHOR_END: checksum
