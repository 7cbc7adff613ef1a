//! The first page of a plan: the header, and the index of the sections.

use super::error::PlanFileProblem;
pub use super::layout::{ENTRY, HEADER, Kind, MAGIC, ORDER, PAGE, Section, VERSION, WRITTEN_BY, aligned};

// ANCHOR: encode
/// The entry of a section in the index: [`ENTRY`] bytes, which are its kind and checksum, four bytes each, and its offset and
/// length, eight bytes each.
pub fn entry(section: &Section) -> Vec<u8> {
    // ANCHOR: entry_todo -- task 5: four numbers in little-endian order, one after the other
    let mut entry = Vec::with_capacity(ENTRY);
    entry.extend((section.kind as u32).to_le_bytes());
    entry.extend(section.crc32.to_le_bytes());
    entry.extend(section.offset.to_le_bytes());
    entry.extend(section.length.to_le_bytes());
    entry
    // ANCHOR_END: entry_todo
}

/// The first page, for these sections in the order of the file: header, index, and zeros up to [`PAGE`]. `None` if they do not
/// fit.
pub fn encode(sections: &[Section], written_by: &str) -> Option<Vec<u8>> {
    // ANCHOR: encode_todo -- task 5: field by field as the table says, with a checksum of the index, and then one of the header
    let index: Vec<u8> = sections.iter().flat_map(entry).collect();
    let end = sections.last().map_or(PAGE, Section::end);
    let mut page = Vec::with_capacity(PAGE as usize);
    page.extend(MAGIC);
    page.extend(VERSION.to_le_bytes());
    page.extend(0u32.to_le_bytes());
    page.extend(ORDER.to_ne_bytes());
    page.extend(u32::try_from(sections.len()).ok()?.to_le_bytes());
    page.extend(end.to_le_bytes());
    page.extend(written_by.bytes().chain(std::iter::repeat(0)).take(WRITTEN_BY));
    page.extend(crc32fast::hash(&index).to_le_bytes());
    page.extend(crc32fast::hash(&page).to_le_bytes());
    page.extend(index);
    let fits = page.len() <= PAGE as usize;
    page.resize(PAGE as usize, 0);
    fits.then_some(page)
    // ANCHOR_END: encode_todo
}
// ANCHOR_END: encode

// ANCHOR: numbers
/// The u32 at a position; `None` if there are not enough bytes.
pub fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(found.try_into().ok()?))
}

/// The u64 at a position; `None` if there are not enough bytes.
pub fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(found.try_into().ok()?))
}
// ANCHOR_END: numbers

// ANCHOR: decode
/// Verifies the checksum of bytes.
///
/// # Errors
/// [`PlanFileProblem::Checksum`] with `what` if it does not match.
pub fn checked(what: &str, bytes: &[u8], wanted: u32) -> Result<(), PlanFileProblem> {
    // ANCHOR: checked_todo -- task 6: the same number, or an error with both
    match crc32fast::hash(bytes) {
        found if found == wanted => Ok(()),
        found => Err(PlanFileProblem::Checksum { what: what.to_owned(), wanted, found }),
    }
    // ANCHOR_END: checked_todo
}

/// Checks the header of a file of `length` bytes; `page` is its first [`PAGE`] bytes, or the whole file if it is shorter.
///
/// # Errors
/// In this order: [`NotAPlan`](PlanFileProblem::NotAPlan), [`Version`](PlanFileProblem::Version), a file without a complete
/// header ([`Length`](PlanFileProblem::Length), with a page as the wanted length), [`Checksum`](PlanFileProblem::Checksum) of
/// "the header", [`Flags`](PlanFileProblem::Flags) that are not 0, [`ByteOrder`](PlanFileProblem::ByteOrder), and a length
/// other than the one in the header ([`Length`](PlanFileProblem::Length)).
pub fn check_header(page: &[u8], length: u64) -> Result<(), PlanFileProblem> {
    // ANCHOR: check_header_todo -- task 6: check what it is before what it says, and trust nothing before its checksum
    let cut_off = |wanted: u64| PlanFileProblem::Length { wanted, found: length };
    if !page.starts_with(&MAGIC) {
        return Err(PlanFileProblem::NotAPlan);
    }
    let version = number(page, 8).ok_or_else(|| cut_off(PAGE))?;
    if version != VERSION {
        return Err(PlanFileProblem::Version(version));
    }
    let header = page.get(..HEADER).ok_or_else(|| cut_off(PAGE))?;
    let field = |at| number(header, at).unwrap_or_default();
    checked("the header", &header[..HEADER - 4], field(60))?;
    if field(12) != 0 {
        return Err(PlanFileProblem::Flags(field(12)));
    }
    if header[16..20] != ORDER.to_ne_bytes() {
        return Err(PlanFileProblem::ByteOrder);
    }
    match long(header, 24) {
        Some(wanted) if wanted == length && page.len() as u64 == PAGE => Ok(()),
        wanted => Err(cut_off(wanted.unwrap_or_default().max(PAGE))),
    }
    // ANCHOR_END: check_header_todo
}

/// Checks the places of sections in a file of `length` bytes.
///
/// # Errors
/// [`PlanFileProblem::Index`] if a kind occurs twice, if a section does not begin at the first multiple of [`PAGE`] after the
/// previous one (the first one at [`PAGE`]), if the last one does not end the file, or if a required kind is missing.
pub fn check_places(sections: &[Section], length: u64) -> Result<(), PlanFileProblem> {
    // ANCHOR: check_places_todo -- task 6: go through the sections, and track where the next one must begin
    let wrong = |reason: String| Err(PlanFileProblem::Index(reason));
    let mut end = PAGE;
    for (position, section) in sections.iter().enumerate() {
        let Section { kind, offset, .. } = *section;
        if sections[..position].iter().any(|other| other.kind == kind) {
            return wrong(format!("{kind} occurs twice"));
        }
        if offset != aligned(end, PAGE) {
            return wrong(format!("{kind} begins at {offset}, not at {}", aligned(end, PAGE)));
        }
        end = section.end();
    }
    if end != length {
        return wrong(format!("the sections end at {end}, the file at {length}"));
    }
    let is_missing = |kind: &&Kind| kind.is_required() && sections.iter().all(|it| it.kind != **kind);
    let missing = Kind::ALL.iter().find(is_missing);
    missing.map_or(Ok(()), |kind| wrong(format!("{kind} is missing")))
    // ANCHOR_END: check_places_todo
}
// ANCHOR_END: decode

// ANCHOR: header
/// The contents of the first page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The version of the program that wrote the file.
    pub written_by: String,
    /// The sections, in the order of the file.
    pub sections: Vec<Section>,
}

/// Decodes the first page of a file of `length` bytes; `page` is shorter if the file is.
///
/// # Errors
/// As [`check_header`] and [`check_places`]. Also returns an error if the index is damaged.
pub fn decode(page: &[u8], length: u64) -> Result<Header, PlanFileProblem> {
    check_header(page, length)?;
    let sections: Result<Vec<Section>, PlanFileProblem> =
        index(page)?.chunks_exact(ENTRY).map(section).collect();
    let sections = sections?;
    check_places(&sections, length)?;
    let written_by = page.get(32..32 + WRITTEN_BY).unwrap_or_default();
    let written_by = String::from_utf8_lossy(written_by).trim_end_matches('\0').to_owned();
    Ok(Header { written_by, sections })
}

/// The index of a page with a valid header, followed by nothing but zeros.
fn index(page: &[u8]) -> Result<&[u8], PlanFileProblem> {
    let field = |at| number(page, at).unwrap_or_default();
    let bytes = usize::try_from(field(20)).ok().and_then(|count| count.checked_mul(ENTRY));
    let rest = page.get(HEADER..).unwrap_or_default();
    let (index, zeros) = bytes
        .and_then(|bytes| rest.split_at_checked(bytes))
        .ok_or_else(|| PlanFileProblem::Index(format!("{} sections do not fit in it", field(20))))?;
    checked("the index", index, field(56))?;
    match zeros.iter().all(|&byte| byte == 0) {
        true => Ok(index),
        false => Err(PlanFileProblem::Index("unexpected data after it".to_owned())),
    }
}

/// The section of an entry.
fn section(entry: &[u8]) -> Result<Section, PlanFileProblem> {
    let (field, long) =
        (|at| number(entry, at).unwrap_or_default(), |at| long(entry, at).unwrap_or_default());
    let unknown = || PlanFileProblem::Index(format!("unknown section kind {}", field(0)));
    let kind = Kind::of(field(0)).ok_or_else(unknown)?;
    Ok(Section { kind, crc32: field(4), offset: long(8), length: long(16) })
}
// ANCHOR_END: header

#[cfg(test)]
mod tests {
    use super::*;

    fn sections_of_a_plan() -> Vec<Section> {
        let section = |kind, offset, length| Section { kind, crc32: 7, offset, length };
        vec![
            section(Kind::Graph, 4096, 10),
            section(Kind::Weights, 8192, 4096),
            section(Kind::Table, 12288, 0),
            section(Kind::Settings, 12288, 1),
        ]
    }

    /// The page with its checksums recomputed.
    fn with_checksums(mut page: Vec<u8>) -> Vec<u8> {
        let count = number(&page, 20).unwrap() as usize;
        let index = crc32fast::hash(&page[HEADER..(HEADER + count * ENTRY).min(4096)]);
        page[56..60].copy_from_slice(&index.to_le_bytes());
        let header = crc32fast::hash(&page[..60]);
        page[60..64].copy_from_slice(&header.to_le_bytes());
        page
    }

    #[test]
    fn an_encoded_page_is_decoded() {
        let page = encode(&sections_of_a_plan(), "0.1.0").unwrap();
        assert_eq!(page.len(), 4096);
        let header = decode(&page, 12289).unwrap();
        assert_eq!((header.sections, header.written_by.as_str()), (sections_of_a_plan(), "0.1.0"));
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let page = encode(&sections_of_a_plan(), "0.1.0").unwrap();
        for bit in 0..page.len() * 8 {
            let mut page = page.clone();
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&page, 12289).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn errors_say_what_to_do() {
        let page = encode(&sections_of_a_plan(), "0.1.0").unwrap();
        let error = |page: &[u8], length| decode(page, length).err().unwrap().to_string();
        let with = |at: usize, value: u32| {
            let mut page = page.clone();
            page[at..at + 4].copy_from_slice(&value.to_le_bytes());
            page
        };
        assert!(error(b"7767517\n", 8).contains("not a plan"));
        for older in 0..VERSION {
            let wanted =
                format!("has version {older} of the format, and this Ixion reads version {VERSION}; build");
            assert!(error(&with(8, older), 12289).contains(&wanted));
        }
        assert!(error(&with(8, VERSION + 1), 12289).contains("use a newer Ixion"));
        assert!(error(&with(32, 0), 12289).starts_with("the header is damaged"));
        assert!(error(&with_checksums(with(12, 4)), 12289).contains("flags 0x4"));
        let turned = with_checksums(with(16, u32::from_ne_bytes(ORDER.to_ne_bytes()).swap_bytes().to_le()));
        assert!(error(&turned, 12289).contains("another byte order"));
        assert!(error(&page, 12288).contains("has 12288 bytes, but should have 12289; copy it again"));
        assert!(error(&page[..30], 30).contains("has 30 bytes"));
        assert!(error(&with(70, 1), 12289).starts_with("the index is damaged"));
        assert!(error(&with(4000, 1), 12289).contains("unexpected data after it"));
    }

    #[test]
    fn invalid_sections_are_refused() {
        let page = encode(&sections_of_a_plan(), "0.1.0").unwrap();
        let with = |at: usize, value: u32| {
            let mut page = page.clone();
            page[at..at + 4].copy_from_slice(&value.to_le_bytes());
            decode(&with_checksums(page), 12289).err().unwrap().to_string()
        };
        assert!(with(20, 1000).contains("1000 sections do not fit"));
        assert!(with(20, 3).contains("unexpected data after it"));
        assert!(with(HEADER, 99).contains("kind 99"));
        assert!(with(HEADER, Kind::Settings as u32).contains("`settings` occurs twice"));
        assert!(with(HEADER, Kind::Card as u32).contains("`graph` is missing"));
        assert!(with(HEADER + 8, 8192).contains("begins at 8192, not at 4096"));
        assert!(with(HEADER + 20, u32::MAX).contains("begins at 8192, not at 18446744069414592512"));
        let last = HEADER + (sections_of_a_plan().len() - 1) * ENTRY;
        assert!(with(last + 20, u32::MAX).contains("the file at 12289"));
    }
}
