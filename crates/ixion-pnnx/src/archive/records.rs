//! The records of a zip archive, read with nom and written byte by byte.
//!
//! All numbers are little-endian. A 32-bit field full of ones refers to a 64-bit number in the *zip64 extra*:
//! a block that begins with the number 1 and lists the replaced fields in a fixed order.

use nom::bytes::complete::tag;
use nom::multi::length_data;
use nom::number::complete::{le_u16, le_u32, le_u64};
use nom::{IResult, Parser};

/// Marks a 16-bit field whose number is elsewhere.
pub(super) const ONES_16: u16 = u16::MAX;
/// Marks a 32-bit field whose number is in the zip64 extra.
pub const ONES_32: u32 = u32::MAX;

/// With these bytes a local header begins.
pub const LOCAL_SIGNATURE: [u8; 4] = *b"PK\x03\x04";

/// The length of a local header in bytes, without the name and the extra blocks behind it.
pub const LOCAL_LENGTH: u64 = 30;

pub(super) const DIRECTORY_SIGNATURE: [u8; 4] = *b"PK\x01\x02";
pub(super) const END_SIGNATURE: [u8; 4] = *b"PK\x05\x06";
pub(super) const END64_SIGNATURE: [u8; 4] = *b"PK\x06\x06";
pub(super) const LOCATOR_SIGNATURE: [u8; 4] = *b"PK\x06\x07";

/// Lengths of the fixed parts of the records in bytes.
pub(super) const DIRECTORY_LENGTH: u64 = 46;
pub(super) const END_LENGTH: u64 = 22;
pub(super) const END64_LENGTH: u64 = 56;
pub(super) const LOCATOR_LENGTH: u64 = 20;

/// The zip64 extra that PNNX writes: its number, its length, two sizes, an offset and a disk number.
const EXTRA_LENGTH: u16 = 32;

// ANCHOR: header_type
/// What the header before an entry's data says. The directory repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bit 0: encrypted; bit 3: the sizes follow the data.
    pub flags: u16,
    /// How the data are compressed: 0 is not at all.
    pub method: u16,
    /// The CRC-32 of the data.
    pub crc32: u32,
    /// The number of bytes in the file; all ones where it is in the zip64 extra.
    pub packed: u32,
    /// The number of bytes before compression; all ones where it is in the zip64 extra.
    pub size: u32,
    /// The number of bytes of the name.
    pub name_length: u16,
    /// The number of bytes of the extra blocks.
    pub extra_length: u16,
}
// ANCHOR_END: header_type

// ANCHOR: header
/// The fixed part of a local header, signature included.
pub fn local_header(input: &[u8]) -> IResult<&[u8], Header> {
    // ANCHOR: local_header_todo -- task 2: the signature, a version that nobody needs, and the fields
    let (rest, _) = tag(&LOCAL_SIGNATURE[..])(input)?;
    let (rest, _version) = le_u16(rest)?;
    header_fields(rest)
    // ANCHOR_END: local_header_todo
}

/// The fields from the flags to the length of the extra blocks.
pub fn header_fields(input: &[u8]) -> IResult<&[u8], Header> {
    // ANCHOR: header_fields_todo -- task 2: nine numbers in a row; time and date are not kept
    let (rest, (flags, method)) = (le_u16, le_u16).parse(input)?;
    let (rest, (_time, _date)) = (le_u16, le_u16).parse(rest)?;
    let (rest, (crc32, packed, size)) = (le_u32, le_u32, le_u32).parse(rest)?;
    let (rest, (name_length, extra_length)) = (le_u16, le_u16).parse(rest)?;
    Ok((rest, Header { flags, method, crc32, packed, size, name_length, extra_length }))
    // ANCHOR_END: header_fields_todo
}
// ANCHOR_END: header

impl Header {
    /// The feature that keeps this entry from being plain stored data, in words.
    pub fn unsupported(&self) -> Option<&'static str> {
        const ENCRYPTED: u16 = 1;
        const DATA_DESCRIPTOR: u16 = 1 << 3;
        match self {
            _ if self.flags & ENCRYPTED != 0 => Some("encrypted"),
            _ if self.method != 0 => Some("compressed"),
            _ if self.flags & DATA_DESCRIPTOR != 0 => Some("streamed (its size follows its data)"),
            _ => None,
        }
    }
}

/// The fixed part of a directory record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryRecord {
    pub(super) header: Header,
    pub(super) comment_length: u16,
    pub(super) offset: u32,
}

pub(super) fn directory(input: &[u8]) -> IResult<&[u8], DirectoryRecord> {
    let (rest, _) = (tag(&DIRECTORY_SIGNATURE[..]), le_u16, le_u16).parse(input)?;
    let (rest, header) = header_fields(rest)?;
    let (rest, (comment_length, _disk, _internal, _external, offset)) =
        (le_u16, le_u16, le_u16, le_u32, le_u32).parse(rest)?;
    Ok((rest, DirectoryRecord { header, comment_length, offset }))
}

/// Where the directory is, as the end records say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) entries: u64,
    pub(super) size: u64,
    pub(super) offset: u64,
}

/// The end record. `None` in place of [`End`] says that the zip64 end record has the numbers.
pub(super) fn end(input: &[u8]) -> IResult<&[u8], Option<End>> {
    let (rest, _) = tag(&END_SIGNATURE[..])(input)?;
    let (rest, (_disk, _first_disk, _here, entries, size, offset, _comment)) =
        (le_u16, le_u16, le_u16, le_u16, le_u32, le_u32, le_u16).parse(rest)?;
    let elsewhere = entries == ONES_16 || size == ONES_32 || offset == ONES_32;
    let end = End { entries: entries.into(), size: size.into(), offset: offset.into() };
    Ok((rest, (!elsewhere).then_some(end)))
}

/// The zip64 end record.
pub(super) fn end64(input: &[u8]) -> IResult<&[u8], End> {
    let (rest, _) = (tag(&END64_SIGNATURE[..]), le_u64, le_u16, le_u16, le_u32, le_u32).parse(input)?;
    let (rest, (_here, entries, size, offset)) = (le_u64, le_u64, le_u64, le_u64).parse(rest)?;
    Ok((rest, End { entries, size, offset }))
}

/// The locator: the position of the zip64 end record.
pub(super) fn locator(input: &[u8]) -> IResult<&[u8], u64> {
    let (rest, (_, _disk, offset, _disks)) =
        (tag(&LOCATOR_SIGNATURE[..]), le_u32, le_u64, le_u32).parse(input)?;
    Ok((rest, offset))
}

/// Sizes and position of an entry, as 64-bit numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The number of bytes before compression.
    pub size: u64,
    /// The number of bytes in the file.
    pub packed: u64,
    /// The position of the local header.
    pub offset: u64,
}

// ANCHOR: sizes
/// The body of the zip64 extra, which has the number 1.
///
/// Extra blocks stand side by side: two bytes for the number of a block, two for the length of its body, the body.
pub fn zip64_extra(mut extras: &[u8]) -> Option<&[u8]> {
    // ANCHOR: zip64_extra_todo -- task 2: from block to block until one has the number 1
    while let Ok((rest, (number, body))) = extra(extras) {
        if number == 1 {
            return Some(body);
        }
        extras = rest;
    }
    None
    // ANCHOR_END: zip64_extra_todo
}

/// The number and the body of one extra block.
pub fn extra(input: &[u8]) -> IResult<&[u8], (u16, &[u8])> {
    // ANCHOR: extra_todo -- task 2: a number, a length, and as many bytes
    (le_u16, length_data(le_u16)).parse(input)
    // ANCHOR_END: extra_todo
}

/// The sizes in a header and the position beside them, each of which the zip64 extra among `extras` replaces where it is
/// full of ones: first the size, then the packed size, then the position. What is not replaced is not in the extra either.
///
/// `None` when a number is missing.
pub fn sizes(header: &Header, offset: u32, extras: &[u8]) -> Option<Sizes> {
    // ANCHOR: sizes_todo -- task 2: each field, or the next number of the extra
    let numbers = zip64_extra(extras).unwrap_or_default();
    let (numbers, size) = widen(header.size, numbers).ok()?;
    let (numbers, packed) = widen(header.packed, numbers).ok()?;
    let (_, offset) = widen(offset, numbers).ok()?;
    Some(Sizes { size, packed, offset })
    // ANCHOR_END: sizes_todo
}

/// A field, or the next number where the field is full of ones.
pub fn widen(field: u32, numbers: &[u8]) -> IResult<&[u8], u64> {
    // ANCHOR: widen_todo -- task 2: a 64-bit number, or nothing read at all
    if field == ONES_32 { le_u64(numbers) } else { Ok((numbers, field.into())) }
    // ANCHOR_END: widen_todo
}
// ANCHOR_END: sizes

/// What is written about one entry.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) name_length: u16,
    pub(super) size: u64,
    pub(super) crc32: u32,
    /// Position of the local header.
    pub(super) offset: u64,
}

impl Written {
    /// The local header with its name and extra. It does not repeat its own position.
    pub(super) fn local_header(&self) -> Vec<u8> {
        let mut bytes = LOCAL_SIGNATURE.to_vec();
        put_u16(&mut bytes, 0); // version needed
        self.put_common(&mut bytes);
        bytes.extend_from_slice(self.name.as_bytes());
        self.put_extra(&mut bytes, 0);
        bytes
    }

    /// The directory record with its name and extra.
    pub(super) fn directory_record(&self) -> Vec<u8> {
        let mut bytes = DIRECTORY_SIGNATURE.to_vec();
        put_u16(&mut bytes, 0); // version made by
        put_u16(&mut bytes, 0); // version needed
        self.put_common(&mut bytes);
        put_u16(&mut bytes, 0); // comment length
        put_u16(&mut bytes, ONES_16); // disk
        put_u16(&mut bytes, 0); // internal attributes
        put_u32(&mut bytes, 0); // external attributes
        put_u32(&mut bytes, ONES_32); // offset
        bytes.extend_from_slice(self.name.as_bytes());
        self.put_extra(&mut bytes, self.offset);
        bytes
    }

    fn put_common(&self, bytes: &mut Vec<u8>) {
        for _ in 0..4 {
            put_u16(bytes, 0); // flags, method, time, date
        }
        put_u32(bytes, self.crc32);
        put_u32(bytes, ONES_32); // packed size
        put_u32(bytes, ONES_32); // size
        put_u16(bytes, self.name_length);
        put_u16(bytes, EXTRA_LENGTH);
    }

    fn put_extra(&self, bytes: &mut Vec<u8>, offset: u64) {
        put_u16(bytes, 1);
        put_u16(bytes, EXTRA_LENGTH - 4);
        put_u64(bytes, self.size);
        put_u64(bytes, self.size);
        put_u64(bytes, offset);
        put_u32(bytes, 0); // disk
    }
}

impl End {
    /// The zip64 end record, its locator and the end record, to be written at `position`.
    pub(super) fn records(&self, position: u64) -> Vec<u8> {
        let mut bytes = END64_SIGNATURE.to_vec();
        put_u64(&mut bytes, END64_LENGTH - 12); // length of what follows
        put_u32(&mut bytes, 0); // versions
        put_u64(&mut bytes, 0); // disks
        put_u64(&mut bytes, self.entries);
        put_u64(&mut bytes, self.entries);
        put_u64(&mut bytes, self.size);
        put_u64(&mut bytes, self.offset);
        bytes.extend_from_slice(&LOCATOR_SIGNATURE);
        put_u32(&mut bytes, 0); // disk
        put_u64(&mut bytes, position);
        put_u32(&mut bytes, 1); // number of disks
        bytes.extend_from_slice(&END_SIGNATURE);
        bytes.extend_from_slice(&[0xff; 16]); // disks, numbers of entries, size, offset
        put_u16(&mut bytes, 0); // comment length
        bytes
    }
}

fn put_u16(bytes: &mut Vec<u8>, value: u16) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn put_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Written {
        Written { name: "a.w".into(), name_length: 3, size: 5 << 32, crc32: 7, offset: 6 << 32 }
    }

    #[test]
    fn records_have_their_lengths_and_read_back() {
        let written = sample();
        let header = written.local_header();
        assert_eq!(header.len() as u64, LOCAL_LENGTH + 3 + 32);
        let (rest, found) = local_header(&header).unwrap();
        assert_eq!((found.crc32, found.name_length, &rest[..3]), (7, 3, &b"a.w"[..]));
        let found = sizes(&found, 0, &rest[3..]).unwrap();
        assert_eq!(found, Sizes { size: 5 << 32, packed: 5 << 32, offset: 0 });

        let record = written.directory_record();
        assert_eq!(record.len() as u64, DIRECTORY_LENGTH + 3 + 32);
        let (rest, found) = directory(&record).unwrap();
        assert_eq!(sizes(&found.header, found.offset, &rest[3..]).unwrap().offset, 6 << 32);
    }

    #[test]
    fn end_records_read_back() {
        let wanted = End { entries: 3, size: 200, offset: 1000 };
        let bytes = wanted.records(1200);
        assert_eq!(bytes.len() as u64, END64_LENGTH + LOCATOR_LENGTH + END_LENGTH);
        let (rest, found) = end64(&bytes).unwrap();
        assert_eq!(found, wanted);
        let (rest, position) = locator(rest).unwrap();
        assert_eq!(position, 1200);
        assert_eq!(end(rest).unwrap(), (&[][..], None));
    }

    #[test]
    fn only_fields_full_of_ones_are_replaced() {
        let (_, mut header) = local_header(&sample().local_header()).unwrap();
        (header.size, header.packed) = (12, 12);
        assert_eq!(sizes(&header, 34, &[]), Some(Sizes { size: 12, packed: 12, offset: 34 }));
        header.size = ONES_32;
        assert_eq!(sizes(&header, 34, &[]), None);
        let extras = [&[9, 0, 2, 0, 0xaa, 0xbb][..], &[1, 0, 8, 0], &77_u64.to_le_bytes()].concat();
        assert_eq!(sizes(&header, 34, &extras), Some(Sizes { size: 77, packed: 12, offset: 34 }));
    }
}
