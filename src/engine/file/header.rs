//! The first page of a plan: what it is, and where its sections are.

use super::error::PlanFileProblem;
use std::fmt;

/// What a plan begins with. The first byte is no character, and the last two show whether line ends were converted.
pub(super) const MAGIC: [u8; 8] = *b"\x89IXPLN\r\n";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER: usize = 64;
/// Sections begin at multiples of this.
pub(super) const PAGE: u64 = 4096;
const ENTRY: usize = 24;
const ORDER: u32 = 0x0102_0304;
const WRITTEN_BY: usize = 24;

/// What a section of a plan holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Kind {
    /// What the builder was told, and what it did.
    Settings = 1,
    /// The graph as a `.param` text.
    Graph = 2,
    /// The text of `model.toml`.
    Card = 3,
    /// What layers stored.
    States = 4,
    /// Where the weights are.
    Table = 5,
    /// The weights.
    Weights = 6,
    /// The formats and tactics that were settled.
    Choices = 7,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Settings, Self::Graph, Self::Card, Self::States, Self::Table, Self::Weights, Self::Choices];

    fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    fn is_required(self) -> bool {
        !matches!(self, Self::Card | Self::States | Self::Choices)
    }

    /// The name, such as `table of weights`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Graph => "graph",
            Self::Card => "card",
            Self::States => "states",
            Self::Table => "table of weights",
            Self::Weights => "weights",
            Self::Choices => "choices",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the section `{}`", self.name())
    }
}

/// One section of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// What it holds.
    pub kind: Kind,
    /// The CRC-32 of its bytes.
    pub crc32: u32,
    /// Where in the file it begins.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl Section {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// The next multiple.
pub(super) fn aligned(position: u64, alignment: u64) -> u64 {
    position.checked_next_multiple_of(alignment).unwrap_or(u64::MAX)
}

/// The first page, for these sections. `None` when they do not fit.
pub(super) fn encode(sections: &[Section]) -> Option<Vec<u8>> {
    let index: Vec<u8> = sections.iter().flat_map(entry).collect();
    let end = sections.last().map_or(PAGE, Section::end);
    let mut page = Vec::with_capacity(PAGE as usize);
    page.extend(MAGIC);
    page.extend(VERSION.to_le_bytes());
    page.extend(0u32.to_le_bytes());
    page.extend(ORDER.to_ne_bytes());
    page.extend(u32::try_from(sections.len()).ok()?.to_le_bytes());
    page.extend(end.to_le_bytes());
    let version = env!("CARGO_PKG_VERSION").bytes().chain(std::iter::repeat(0));
    page.extend(version.take(WRITTEN_BY));
    page.extend(crc32fast::hash(&index).to_le_bytes());
    page.extend(crc32fast::hash(&page).to_le_bytes());
    page.extend(index);
    (page.len() <= PAGE as usize).then(|| {
        page.resize(PAGE as usize, 0);
        page
    })
}

fn entry(section: &Section) -> impl Iterator<Item = u8> {
    let (kind, crc) = ((section.kind as u32).to_le_bytes(), section.crc32.to_le_bytes());
    kind.into_iter().chain(crc).chain(section.offset.to_le_bytes()).chain(section.length.to_le_bytes())
}

/// What the first page says.
pub(super) struct Header {
    pub(super) written_by: String,
    pub(super) sections: Vec<Section>,
}

/// Reads the first page of a file of `length` bytes; `page` is shorter where the file is.
pub(super) fn decode(page: &[u8], length: u64) -> Result<Header, PlanFileProblem> {
    let cut_off = |wanted: u64| PlanFileProblem::Length { wanted, found: length };
    if !page.starts_with(&MAGIC) {
        return Err(PlanFileProblem::NotAPlan);
    }
    let version = number(page, 8).ok_or_else(|| cut_off(PAGE))?;
    if version != VERSION {
        return Err(PlanFileProblem::Version(version));
    }
    let (header, rest) = page.split_at_checked(HEADER).ok_or_else(|| cut_off(PAGE))?;
    let field = |at| number(header, at).unwrap_or_default();
    checked("the header", &header[..HEADER - 4], field(60))?;
    if field(12) != 0 {
        return Err(PlanFileProblem::Flags(field(12)));
    }
    if header.get(16..20) != Some(&ORDER.to_ne_bytes()) {
        return Err(PlanFileProblem::ByteOrder);
    }
    let wanted = u64::from(field(24)) | u64::from(field(28)) << 32;
    if wanted != length || page.len() as u64 != PAGE {
        return Err(cut_off(wanted.max(PAGE)));
    }
    let index = usize::try_from(field(20)).ok().and_then(|count| count.checked_mul(ENTRY));
    let (index, zeros) = index
        .and_then(|length| rest.split_at_checked(length))
        .ok_or_else(|| PlanFileProblem::Index(format!("{} sections do not fit in it", field(20))))?;
    checked("the index", index, field(56))?;
    if zeros.iter().any(|&byte| byte != 0) {
        return Err(PlanFileProblem::Index("something stands behind it".to_owned()));
    }
    let written_by = header.get(32..32 + WRITTEN_BY).unwrap_or_default();
    let written_by = String::from_utf8_lossy(written_by).trim_end_matches('\0').to_owned();
    Ok(Header { written_by, sections: sections(index, length)? })
}

/// Compares bytes with their checksum.
pub(super) fn checked(what: &str, bytes: &[u8], wanted: u32) -> Result<(), PlanFileProblem> {
    match crc32fast::hash(bytes) {
        found if found == wanted => Ok(()),
        found => Err(PlanFileProblem::Checksum { what: what.to_owned(), wanted, found }),
    }
}

/// The sections of an index: each where it must be, and none that is missing or there twice.
fn sections(index: &[u8], length: u64) -> Result<Vec<Section>, PlanFileProblem> {
    let wrong = |reason: String| Err(PlanFileProblem::Index(reason));
    let mut sections: Vec<Section> = Vec::new();
    let mut end = PAGE;
    for entry in index.chunks_exact(ENTRY) {
        let field = |at| number(entry, at).unwrap_or_default();
        let long = |at| u64::from(field(at)) | u64::from(field(at + 4)) << 32;
        let Some(kind) = Kind::of(field(0)) else {
            return wrong(format!("there is a section of kind {}, which nobody knows", field(0)));
        };
        let section = Section { kind, crc32: field(4), offset: long(8), length: long(16) };
        if sections.iter().any(|other| other.kind == kind) {
            return wrong(format!("{kind} is there twice"));
        }
        if section.offset != aligned(end, PAGE) {
            return wrong(format!("{kind} begins at {}, not at {}", section.offset, aligned(end, PAGE)));
        }
        end = match section.offset.checked_add(section.length) {
            Some(end) if end <= length => end,
            _ => return wrong(format!("{kind} reaches beyond the end of the file")),
        };
        sections.push(section);
    }
    if end != length {
        return wrong(format!("the sections end at {end}, the file at {length}"));
    }
    let is_there = |kind: &Kind| sections.iter().any(|section| section.kind == *kind);
    match Kind::ALL.iter().find(|kind| kind.is_required() && !is_there(kind)) {
        Some(kind) => wrong(format!("{kind} is missing")),
        None => Ok(sections),
    }
}

/// The u32 at a position.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(found.try_into().ok()?))
}

/// The u64 at a position.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(found.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Section> {
        let section = |kind, offset, length| Section { kind, crc32: 7, offset, length };
        vec![
            section(Kind::Graph, 4096, 10),
            section(Kind::Weights, 8192, 4096),
            section(Kind::Table, 12288, 0),
            section(Kind::Settings, 12288, 1),
        ]
    }

    /// The page with its checksums made right again.
    fn mended(mut page: Vec<u8>) -> Vec<u8> {
        let count = number(&page, 20).unwrap() as usize;
        let index = crc32fast::hash(&page[HEADER..(HEADER + count * ENTRY).min(4096)]);
        page[56..60].copy_from_slice(&index.to_le_bytes());
        let header = crc32fast::hash(&page[..60]);
        page[60..64].copy_from_slice(&header.to_le_bytes());
        page
    }

    #[test]
    fn a_page_says_what_was_written() {
        let page = encode(&some()).unwrap();
        assert_eq!(page.len(), 4096);
        let header = decode(&page, 12289).unwrap();
        assert_eq!((header.sections, header.written_by.as_str()), (some(), env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let page = encode(&some()).unwrap();
        for bit in 0..page.len() * 8 {
            let mut page = page.clone();
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&page, 12289).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let page = encode(&some()).unwrap();
        let error = |page: &[u8], length| decode(page, length).err().unwrap().to_string();
        let with = |at: usize, value: u32| {
            let mut page = page.clone();
            page[at..at + 4].copy_from_slice(&value.to_le_bytes());
            page
        };
        assert!(error(b"7767517\n", 8).contains("this is no plan"));
        assert!(
            error(&with(8, 0), 12289)
                .contains("has version 0 of the format, and this Ixion reads version 1; build")
        );
        assert!(error(&with(8, 2), 12289).contains("take a newer Ixion"));
        assert!(error(&with(32, 0), 12289).starts_with("the header is damaged"));
        assert!(error(&mended(with(12, 4)), 12289).contains("flags 0x4"));
        let turned = mended(with(16, u32::from_ne_bytes(ORDER.to_ne_bytes()).swap_bytes().to_le()));
        assert!(error(&turned, 12289).contains("another byte order"));
        assert!(error(&page, 12288).contains("has 12288 bytes, but should have 12289; copy it again"));
        assert!(error(&page[..30], 30).contains("has 30 bytes"));
        assert!(error(&with(70, 1), 12289).starts_with("the index is damaged"));
        assert!(error(&with(4000, 1), 12289).contains("something stands behind it"));
    }

    #[test]
    fn sections_that_cannot_be_are_refused() {
        let page = encode(&some()).unwrap();
        let with = |at: usize, value: u32| {
            let mut page = page.clone();
            page[at..at + 4].copy_from_slice(&value.to_le_bytes());
            decode(&mended(page), 12289).err().unwrap().to_string()
        };
        assert!(with(20, 1000).contains("1000 sections do not fit"));
        assert!(with(20, 3).contains("something stands behind it"));
        assert!(with(HEADER, 99).contains("kind 99"));
        assert!(with(HEADER, Kind::Settings as u32).contains("`settings` is there twice"));
        assert!(with(HEADER, Kind::Card as u32).contains("`graph` is missing"));
        assert!(with(HEADER + 8, 8192).contains("begins at 8192, not at 4096"));
        assert!(with(HEADER + 20, u32::MAX).contains("beyond the end"));
    }
}
