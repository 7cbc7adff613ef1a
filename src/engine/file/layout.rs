//! The layout of a plan: its constants, and its sections.

use std::fmt;

// ANCHOR: constants
/// The magic number at the start of a plan. The first byte is not ASCII, and the last two reveal converted line ends.
pub const MAGIC: [u8; 8] = *b"\x89IXPLN\r\n";

/// The version of the format. It is incremented when the layout changes, or the meaning of what layers store: transformed
/// weights, for example, are useless to a kernel with other transforms.
pub const VERSION: u32 = 2;

/// The size of the header in bytes.
pub const HEADER: usize = 64;

/// Sections begin at multiples of this, the first one after a page for header and index.
pub const PAGE: u64 = 4096;

/// The size of an index entry in bytes.
pub const ENTRY: usize = 24;

/// A number that is written in the machine's byte order, to detect another one.
pub const ORDER: u32 = 0x0102_0304;

/// The size of the field for the version of the program that wrote the file, in bytes.
pub const WRITTEN_BY: usize = 24;
// ANCHOR_END: constants

/// The kind of a section of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Kind {
    /// The settings of the builder, and what it did.
    Settings = 1,
    /// The graph as a `.param` text.
    Graph = 2,
    /// The text of `model.toml`.
    Card = 3,
    /// The stored states of layers.
    States = 4,
    /// The places of the weights.
    Table = 5,
    /// The weights.
    Weights = 6,
    /// The selected formats and tactics.
    Choices = 7,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Settings, Self::Graph, Self::Card, Self::States, Self::Table, Self::Weights, Self::Choices];

    /// The kind with this number, if there is one.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Returns true if every plan has a section of this kind.
    pub fn is_required(self) -> bool {
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
    /// Its kind.
    pub kind: Kind,
    /// The CRC-32 of its bytes.
    pub crc32: u32,
    /// Its offset in the file.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl Section {
    /// The offset in the file of the first byte after it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

// ANCHOR: aligned
/// The first multiple of `alignment` at or after `position`.
pub fn aligned(position: u64, alignment: u64) -> u64 {
    position.checked_next_multiple_of(alignment).unwrap_or(u64::MAX)
}
// ANCHOR_END: aligned
