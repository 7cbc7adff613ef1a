//! The records of a zip archive, read with nom and written byte by byte.
//!
//! All integers are little-endian. A 32-bit field with all bits set refers to a 64-bit value in the *zip64
//! extra*: the extra block with id 1, which lists the replaced fields in a fixed order.

use nom::bytes::complete::tag;
use nom::multi::length_data;
use nom::number::complete::{le_u16, le_u32, le_u64};
use nom::{IResult, Parser};

/// Marks a 16-bit field whose value is elsewhere.
pub(super) const ONES_16: u16 = u16::MAX;
/// Marks a 32-bit field whose value is in the zip64 extra.
pub const ONES_32: u32 = u32::MAX;

/// The first bytes of a local header.
pub const LOCAL_SIGNATURE: [u8; 4] = *b"PK\x03\x04";

/// The length of a local header in bytes, without the name and the extra blocks that follow it.
pub const LOCAL_LENGTH: u64 = 30;

pub(super) const DIRECTORY_SIGNATURE: [u8; 4] = *b"PK\x01\x02";
pub(super) const END_SIGNATURE: [u8; 4] = *b"PK\x05\x06";
pub(super) const END64_SIGNATURE: [u8; 4] = *b"PK\x06\x06";
pub(super) const LOCATOR_SIGNATURE: [u8; 4] = *b"PK\x06\x07";

/// Lengths in bytes of the fixed parts of the records.
pub(super) const DIRECTORY_LENGTH: u64 = 46;
pub(super) const END_LENGTH: u64 = 22;
pub(super) const END64_LENGTH: u64 = 56;
pub(super) const LOCATOR_LENGTH: u64 = 20;

/// The length in bytes of the zip64 extra that PNNX writes: id, body length, two sizes, an offset and a disk number.
const EXTRA_LENGTH: u16 = 32;

// ANCHOR: header_type
/// The header before an entry's data. The directory repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bit 0: encrypted; bit 3: the sizes follow the data.
    pub flags: u16,
    /// The compression method: 0 for none.
    pub method: u16,
    /// The CRC-32 of the data.
    pub crc32: u32,
    /// The compressed size in bytes; all ones if the zip64 extra holds it.
    pub packed: u32,
    /// The uncompressed size in bytes; all ones if the zip64 extra holds it.
    pub size: u32,
    /// The length of the name in bytes.
    pub name_length: u16,
    /// The length of the extra blocks in bytes.
    pub extra_length: u16,
}
// ANCHOR_END: header_type

// ANCHOR: header
/// Reads the fixed part of a local header, including the signature.
pub fn local_header(input: &[u8]) -> IResult<&[u8], Header> {
    // ANCHOR: local_header_todo -- task 2: the signature, a version to ignore, and the fields
    let (rest, _) = tag(&LOCAL_SIGNATURE[..])(input)?;
    let (rest, _version) = le_u16(rest)?;
    header_fields(rest)
    // ANCHOR_END: local_header_todo
}

/// Reads the fields from the flags to the length of the extra blocks.
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
    /// A word for the feature that makes the entry unsupported, or `None` if its data are stored plainly.
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

/// The position and size of the directory, from the end records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) entries: u64,
    pub(super) size: u64,
    pub(super) offset: u64,
}

/// Reads the end record. `None` in place of [`End`] means that the values are in the zip64 end record.
pub(super) fn end(input: &[u8]) -> IResult<&[u8], Option<End>> {
    let (rest, _) = tag(&END_SIGNATURE[..])(input)?;
    let (rest, (_disk, _first_disk, _here, entries, size, offset, _comment)) =
        (le_u16, le_u16, le_u16, le_u16, le_u32, le_u32, le_u16).parse(rest)?;
    let elsewhere = entries == ONES_16 || size == ONES_32 || offset == ONES_32;
    let end = End { entries: entries.into(), size: size.into(), offset: offset.into() };
    Ok((rest, (!elsewhere).then_some(end)))
}

/// Reads the zip64 end record.
pub(super) fn end64(input: &[u8]) -> IResult<&[u8], End> {
    let (rest, _) = (tag(&END64_SIGNATURE[..]), le_u64, le_u16, le_u16, le_u32, le_u32).parse(input)?;
    let (rest, (_here, entries, size, offset)) = (le_u64, le_u64, le_u64, le_u64).parse(rest)?;
    Ok((rest, End { entries, size, offset }))
}

/// Reads the zip64 locator, and returns the position of the zip64 end record.
pub(super) fn locator(input: &[u8]) -> IResult<&[u8], u64> {
    let (rest, (_, _disk, offset, _disks)) =
        (tag(&LOCATOR_SIGNATURE[..]), le_u32, le_u64, le_u32).parse(input)?;
    Ok((rest, offset))
}

/// Sizes and position of an entry, in 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The uncompressed size in bytes.
    pub size: u64,
    /// The compressed size in bytes.
    pub packed: u64,
    /// The position of the local header.
    pub offset: u64,
}

// ANCHOR: sizes
/// The body of the zip64 extra, the extra block with the number 1.
///
/// Extra blocks are contiguous. Each has a two-byte number, a two-byte length of its body, and the body.
pub fn zip64_extra(mut extras: &[u8]) -> Option<&[u8]> {
    // ANCHOR: zip64_extra_todo -- task 2: block by block until one has the number 1
    while let Ok((rest, (number, body))) = extra(extras) {
        if number == 1 {
            return Some(body);
        }
        extras = rest;
    }
    None
    // ANCHOR_END: zip64_extra_todo
}

/// Reads one extra block: its number and its body.
pub fn extra(input: &[u8]) -> IResult<&[u8], (u16, &[u8])> {
    // ANCHOR: extra_todo -- task 2: a number, a length, and that many bytes
    (le_u16, length_data(le_u16)).parse(input)
    // ANCHOR_END: extra_todo
}

/// The sizes in a header, and the position `offset`. The zip64 extra among `extras` replaces each field whose bits are all
/// set, in this order: size, packed size, position. It holds only the replaced fields.
///
/// `None` if a replacement is missing.
pub fn sizes(header: &Header, offset: u32, extras: &[u8]) -> Option<Sizes> {
    // ANCHOR: sizes_todo -- task 2: each field, or the next number of the extra
    let numbers = zip64_extra(extras).unwrap_or_default();
    let (numbers, size) = widen(header.size, numbers).ok()?;
    let (numbers, packed) = widen(header.packed, numbers).ok()?;
    let (_, offset) = widen(offset, numbers).ok()?;
    Some(Sizes { size, packed, offset })
    // ANCHOR_END: sizes_todo
}

/// Widens a field to 64 bits, reading the next number if all its bits are set.
pub fn widen(field: u32, numbers: &[u8]) -> IResult<&[u8], u64> {
    // ANCHOR: widen_todo -- task 2: a 64-bit number, or the field itself without reading anything
    if field == ONES_32 { le_u64(numbers) } else { Ok((numbers, field.into())) }
    // ANCHOR_END: widen_todo
}
// ANCHOR_END: sizes

/// The data of one entry's local header and directory record, to be written.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) name_length: u16,
    pub(super) size: u64,
    pub(super) crc32: u32,
    /// The position of the local header.
    pub(super) offset: u64,
}

impl Written {
    /// The local header with its name and zip64 extra, in which the position is 0.
    pub(super) fn local_header(&self) -> Vec<u8> {
        let mut bytes = LOCAL_SIGNATURE.to_vec();
        put_u16(&mut bytes, 0); // version needed
        self.put_common(&mut bytes);
        bytes.extend_from_slice(self.name.as_bytes());
        self.put_extra(&mut bytes, 0);
        bytes
    }

    /// The directory record with its name and zip64 extra.
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
    fn records_have_fixed_lengths_and_read_back() {
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
    fn only_fields_with_all_bits_set_are_replaced() {
        let (_, mut header) = local_header(&sample().local_header()).unwrap();
        (header.size, header.packed) = (12, 12);
        assert_eq!(sizes(&header, 34, &[]), Some(Sizes { size: 12, packed: 12, offset: 34 }));
        header.size = ONES_32;
        assert_eq!(sizes(&header, 34, &[]), None);
        let extras = [&[9, 0, 2, 0, 0xaa, 0xbb][..], &[1, 0, 8, 0], &77_u64.to_le_bytes()].concat();
        assert_eq!(sizes(&header, 34, &extras), Some(Sizes { size: 77, packed: 12, offset: 34 }));
    }
}
