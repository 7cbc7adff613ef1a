use super::*;
use crate::{Archive, ArchiveWriter};
use ixion_tensor::Limits;
use proptest::prelude::*;
use std::io::Cursor;

const DATA: [(&str, &[u8]); 3] = [("a.weight", b"12345678"), ("a.bias", b""), ("b.data", b"xyz")];

fn written() -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
    for (name, data) in DATA {
        writer.add(name, data).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn open(bytes: &[u8]) -> Result<Archive, ArchiveError> {
    Archive::from_bytes(bytes, &Limits::default())
}

fn check_data(archive: &Archive) {
    assert_eq!(archive.entries().len(), DATA.len());
    for (name, data) in DATA {
        assert_eq!(archive.read(archive.entry(name).unwrap()).unwrap(), data);
    }
}

/// The position of the directory in the bytes of [`written`].
fn directory_start(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|window| window == DIRECTORY_SIGNATURE).unwrap()
}

/// A zip archive without zip64 records, as other tools write it.
fn plain_zip(flags: u16, method: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, data) in DATA {
        let offset = bytes.len() as u32;
        let crc = crc32fast::hash(data).to_le_bytes();
        let size = (data.len() as u32).to_le_bytes();
        let name_length = (name.len() as u16).to_le_bytes();
        let flags = [flags.to_le_bytes(), method.to_le_bytes()].concat();
        let common = [&flags[..], &[0; 4], &crc, &size, &size, &name_length, &[0, 0]].concat();
        bytes.extend([b"PK\x03\x04\x14\0", &common[..], name.as_bytes(), data].concat());
        let tail = [&[0; 10][..], &offset.to_le_bytes(), name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\0\x14\0", &common[..], &tail].concat());
    }
    let count = (DATA.len() as u16).to_le_bytes();
    let (size, offset) = ((directory.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes());
    bytes.extend(directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &size, &offset, &[0, 0]].concat());
    bytes
}

#[test]
fn zip64_and_plain_archives_open() {
    check_data(&open(&written()).unwrap());
    check_data(&open(&plain_zip(0, 0)).unwrap());
}

#[test]
fn trailing_comments_and_garbage_are_ignored() {
    check_data(&open(&[&written()[..], b"\n\0\n"].concat()).unwrap());
    check_data(&open(&[&plain_zip(0, 0)[..], &[7; 1000]].concat()).unwrap());
}

#[test]
fn headers_are_walked_if_the_directory_is_missing_or_wrong() {
    let bytes = written();
    check_data(&open(&bytes[..directory_start(&bytes)]).unwrap());
    let mut wrong = bytes.clone();
    let offset = wrong.len() - (END_LENGTH + LOCATOR_LENGTH + 8) as usize;
    wrong[offset] ^= 1;
    check_data(&open(&wrong).unwrap());
    let mut wrong = bytes.clone();
    wrong[directory_start(&bytes) + DIRECTORY_LENGTH as usize] ^= 1;
    check_data(&open(&wrong).unwrap());
}

#[test]
fn every_truncation_is_an_error_or_leaves_complete_entries() {
    for bytes in [written(), plain_zip(0, 0)] {
        for length in 0..bytes.len() {
            match open(&bytes[..length]) {
                Err(ArchiveError::Truncated { needed, length: found, .. }) => {
                    assert!(needed > found && found == length as u64);
                }
                Err(ArchiveError::NotAnArchive { .. }) => assert_eq!(length, 0),
                Err(error) => panic!("{length}: {error}"),
                Ok(archive) => {
                    let end = archive.entries().last().map(|entry| entry.offset + entry.size);
                    assert_eq!(end, Some(length as u64), "only complete entries may be left");
                }
            }
        }
    }
}

#[test]
fn truncation_names_the_incomplete_part() {
    let bytes = written();
    let message = |length: usize| open(&bytes[..length]).unwrap_err().to_string();
    assert!(message(75).contains("cut off in the data of entry `a.weight`"), "{}", message(75));
    assert!(message(10).contains("cut off in an entry's header"), "{}", message(10));
    let inside = directory_start(&bytes) + 10;
    assert!(message(inside).contains("cut off in the directory"), "{}", message(inside));
}

#[test]
fn unsupported_features_are_named() {
    for (flags, method, feature) in [(0, 8, "compressed"), (1, 0, "encrypted"), (8, 0, "streamed")] {
        let error = open(&plain_zip(flags, method)).unwrap_err();
        assert!(matches!(&error, ArchiveError::Unsupported { entry, .. } if entry == "a.weight"));
        assert!(error.to_string().contains(feature), "{error}");
    }
}

#[test]
fn other_file_types_are_recognised() {
    for (bytes, hint) in
        [(&b""[..], "empty"), (b"7767517\n3 2\n", "swapped"), (b"\x89PNG\r\n", "something else")]
    {
        let error = open(bytes).unwrap_err();
        assert!(matches!(error, ArchiveError::NotAnArchive { .. }), "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[test]
fn entries_with_the_same_name_are_kept_in_order() {
    let mut bytes = written();
    let whole = open(&bytes).unwrap();
    let [first, second] = ["a.bias", "b.data"].map(|name| whole.entry(name).unwrap().offset());
    while let Some(at) = bytes.windows(6).position(|window| window == b"b.data") {
        bytes[at..at + 6].copy_from_slice(b"a.bias");
    }
    let archive = open(&bytes).unwrap();
    let offsets: Vec<u64> = archive.entries_named("a.bias").map(Entry::offset).collect();
    assert_eq!(offsets, [first, second]);
    assert_eq!(archive.entry("a.bias").map(Entry::offset), Some(first));
    assert_eq!(archive.entries_named("b.data").count(), 0);
}

#[test]
fn the_number_of_entries_is_bounded() {
    let limits = Limits { max_ops: 2, ..Limits::default() };
    assert!(matches!(Archive::from_bytes(written(), &limits), Err(ArchiveError::Limit { .. })));
    let bytes = written();
    let walked = Archive::from_bytes(&bytes[..directory_start(&bytes)], &limits);
    assert!(matches!(walked, Err(ArchiveError::Limit { .. })));
}

proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), zip64 in any::<bool>()) {
        let mut bytes = if zip64 { written() } else { plain_zip(0, 0) };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(archive) = open(&bytes) {
            for entry in archive.entries() {
                prop_assert!(archive.read(entry).is_ok());
            }
        }
    }
}
