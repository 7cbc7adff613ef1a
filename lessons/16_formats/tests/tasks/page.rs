//! Tasks 5 and 6: the first page of a plan.

use super::super::subject::{check_header, check_places, checked, decode, encode, entry};
use ixion::course::header::{Kind, Section, long, number};
use ixion::engine::PlanFileProblem;

fn section(kind: Kind, offset: u64, length: u64) -> Section {
    Section { kind, crc32: 0x0102_0304, offset, length }
}

/// A file of four sections and 12289 bytes.
fn some() -> Vec<Section> {
    vec![
        section(Kind::Graph, 4096, 10),
        section(Kind::Weights, 8192, 4096),
        section(Kind::Table, 12288, 0),
        section(Kind::Settings, 12288, 1),
    ]
}

const LENGTH: u64 = 12289;

/// The page of these sections, built by hand, field by field.
fn by_hand(sections: &[Section], length: u64) -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..8].copy_from_slice(b"\x89IXPLN\r\n");
    page[8..12].copy_from_slice(&2u32.to_le_bytes());
    page[16..20].copy_from_slice(&0x0102_0304u32.to_ne_bytes());
    page[20..24].copy_from_slice(&(sections.len() as u32).to_le_bytes());
    page[24..32].copy_from_slice(&length.to_le_bytes());
    page[32..37].copy_from_slice(b"1.2.3");
    for (at, section) in sections.iter().enumerate() {
        let start = 64 + 24 * at;
        page[start..start + 4].copy_from_slice(&(section.kind as u32).to_le_bytes());
        page[start + 4..start + 8].copy_from_slice(&section.crc32.to_le_bytes());
        page[start + 8..start + 16].copy_from_slice(&section.offset.to_le_bytes());
        page[start + 16..start + 24].copy_from_slice(&section.length.to_le_bytes());
    }
    mended(page)
}

/// The page with corrected checksums.
fn mended(mut page: Vec<u8>) -> Vec<u8> {
    let count = number(&page, 20).unwrap() as usize;
    let index = crc32fast::hash(&page[64..64 + 24 * count]);
    page[56..60].copy_from_slice(&index.to_le_bytes());
    let header = crc32fast::hash(&page[..60]);
    page[60..64].copy_from_slice(&header.to_le_bytes());
    page
}

/// The valid page with four bytes replaced.
fn with(at: usize, bytes: [u8; 4]) -> Vec<u8> {
    let mut page = by_hand(&some(), LENGTH);
    page[at..at + 4].copy_from_slice(&bytes);
    page
}

#[test]
fn task5_an_entry_has_24_bytes() {
    let entry = entry(&section(Kind::Weights, 0x3000, 0x0a0b));
    assert_eq!(entry.len(), 24, "4 + 4 + 8 + 8 bytes");
    assert_eq!(entry[..4], [6, 0, 0, 0], "the kind comes first, least significant byte first");
    assert_eq!(entry[4..8], [4, 3, 2, 1], "the checksum");
    assert_eq!(entry[8..16], [0, 0x30, 0, 0, 0, 0, 0, 0], "the offset");
    assert_eq!(entry[16..], [0x0b, 0x0a, 0, 0, 0, 0, 0, 0], "the length, not the end");
}

#[test]
fn task5_a_page_byte_by_byte() {
    let page = encode(&some(), "1.2.3").expect("four sections fit in a page");
    assert_eq!(page.len(), 4096, "header, index, and zeros up to the end of the page");
    let fields = [
        ("the magic number", 0..8),
        ("the version of the format", 8..12),
        ("the flags", 12..16),
        ("the byte order", 16..20),
        ("the number of sections", 20..24),
        ("the length of the file, where the last section ends", 24..32),
        ("the version of the program, zero-padded", 32..56),
        ("the checksum of the index", 56..60),
        ("the checksum of the 60 bytes before it", 60..64),
        ("the index", 64..160),
        ("the zeros after the index", 160..4096),
    ];
    let want = by_hand(&some(), LENGTH);
    for (what, bytes) in fields {
        assert_eq!(page[bytes.clone()], want[bytes.clone()], "{what}, bytes {bytes:?}");
    }
}

#[test]
fn task5_a_page_without_sections_is_a_file_of_one_page() {
    let page = encode(&[], "1.2.3").expect("an empty index fits");
    assert_eq!(long(&page, 24), Some(4096), "the file is just this page");
    assert_eq!(number(&page, 56), Some(crc32fast::hash(&[])), "the checksum of no bytes");
}

#[test]
fn task5_a_long_version_is_cut() {
    let page = encode(&some(), "0.1.0-of-a-very-long-name-indeed").expect("it fits");
    assert_eq!(page[32..56], *b"0.1.0-of-a-very-long-nam", "24 bytes and no more");
    assert_eq!(page.len(), 4096, "the index still begins at 64");
}

#[test]
fn task5_more_sections_than_a_page_holds() {
    let many = |count| vec![section(Kind::Card, 4096, 0); count];
    assert!(encode(&many(168), "1").is_some(), "64 + 168 · 24 = 4096 bytes");
    assert!(
        encode(&many(169), "1").is_none(),
        "an index must not be truncated, nor extend into the first section"
    );
}

#[test]
fn task6_a_checksum_is_right_or_an_error() {
    assert!(
        checked("x", b"123456789", 0xcbf4_3926).is_ok(),
        "the well-known CRC-32 of these nine characters"
    );
    let Err(PlanFileProblem::Checksum { what, wanted, found }) = checked("x", b"123456788", 0xcbf4_3926)
    else {
        panic!("another byte has another checksum")
    };
    assert_eq!((what.as_str(), wanted), ("x", 0xcbf4_3926), "`wanted` is the stored checksum");
    assert_eq!(found, crc32fast::hash(b"123456788"), "`found` is the checksum of the bytes");
}

#[test]
fn task6_a_sound_header_passes() {
    check_header(&by_hand(&some(), LENGTH), LENGTH).expect("all fields are right");
}

#[test]
fn task6_files_that_are_not_plans() {
    for bytes in [&b""[..], b"7767517\n11 10\n", b"\x89PNG\r\n\x1a\n", b"\x89IXPLN\n\n"] {
        let found = check_header(bytes, bytes.len() as u64);
        assert!(
            matches!(found, Err(PlanFileProblem::NotAPlan)),
            "{bytes:?} does not begin like a plan: {found:?}"
        );
    }
}

#[test]
fn task6_another_version_is_rejected_before_anything_else() {
    for version in [0u32, 1, 77] {
        let hint = "of another version you know nothing, not even where its checksum is";
        let page = with(8, version.to_le_bytes());
        for page in [page.clone(), mended(page)] {
            let found = check_header(&page, LENGTH);
            assert!(matches!(found, Err(PlanFileProblem::Version(it)) if it == version), "{hint}: {found:?}");
        }
    }
}

#[test]
fn task6_a_flipped_bit_is_found() {
    let page = by_hand(&some(), LENGTH);
    for bit in 12 * 8..64 * 8 {
        let mut page = page.clone();
        page[bit / 8] ^= 1 << (bit % 8);
        let found = check_header(&page, LENGTH);
        let is_checksum = matches!(found, Err(PlanFileProblem::Checksum { .. }));
        assert!(
            is_checksum,
            "bit {} of byte {}: nothing is trusted before its checksum: {found:?}",
            bit % 8,
            bit / 8
        );
    }
}

#[test]
fn task6_unknown_flags_and_another_byte_order() {
    let found = check_header(&mended(with(12, [4, 0, 0, 0])), LENGTH);
    assert!(
        matches!(found, Err(PlanFileProblem::Flags(4))),
        "an unknown flag must not be ignored: {found:?}"
    );
    let mut order = 0x0102_0304u32.to_ne_bytes();
    order.reverse();
    let found = check_header(&mended(with(16, order)), LENGTH);
    assert!(
        matches!(found, Err(PlanFileProblem::ByteOrder)),
        "from a machine with the other byte order: {found:?}"
    );
}

#[test]
fn task6_a_file_that_is_cut_or_too_long() {
    let page = by_hand(&some(), LENGTH);
    for length in [LENGTH - 1, LENGTH + 1] {
        match check_header(&page, length) {
            Err(PlanFileProblem::Length { wanted: LENGTH, found }) => {
                assert_eq!(found, length, "the real length")
            }
            other => panic!("{length} bytes instead of {LENGTH}: {other:?}"),
        }
    }
    for length in [9, 11, 12, 40, 63] {
        let found = check_header(&page[..length], length as u64);
        let is_length = matches!(found, Err(PlanFileProblem::Length { wanted: 4096, .. }));
        assert!(is_length, "{length} bytes are not a header: expected at least a page: {found:?}");
    }
}

/// Checks that sections are rejected, and with the right error.
#[track_caller]
fn refused(sections: &[Section], length: u64, hint: &str) {
    let found = check_places(sections, length);
    assert!(matches!(found, Err(PlanFileProblem::Index(_))), "{hint}: {found:?}");
}

#[test]
fn task6_sections_are_where_they_must_be() {
    check_places(&some(), LENGTH).expect("these are right");
    let changed = |at: usize, section: Section| {
        let mut sections = some();
        sections[at] = section;
        sections
    };
    refused(&changed(0, section(Kind::Graph, 0, 10)), LENGTH, "a section cannot be in the first page");
    refused(&changed(0, section(Kind::Graph, 4097, 10)), LENGTH, "it begins in the middle of a page");
    refused(&changed(0, section(Kind::Graph, 4096, 5000)), LENGTH, "it extends into the next one");
    refused(&changed(3, section(Kind::Settings, 16384, 1)), 16385, "a page is left out before it");
    refused(&changed(3, section(Kind::Settings, 12288, u64::MAX)), LENGTH, "its end overflows");
    refused(&some(), LENGTH + 1, "there are bytes after the last section");
    refused(&some(), LENGTH - 1, "the last section extends beyond the file");
}

#[test]
fn task6_sections_are_there_once() {
    let mut twice = some();
    twice.push(section(Kind::Graph, 16384, 5));
    refused(&twice, 16389, "which of the two graphs would be used?");
    let mut without = some();
    without.remove(3);
    refused(&without, 12288, "every plan has settings");
    refused(&[], 4096, "every plan has sections");
}

#[test]
fn task6_a_page_is_read_back() {
    let header = decode(&by_hand(&some(), LENGTH), LENGTH).unwrap();
    assert_eq!((header.written_by.as_str(), header.sections), ("1.2.3", some()));
}
