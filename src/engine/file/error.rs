//! Why a plan cannot be saved or loaded.

use super::header::{Kind, VERSION};
use crate::LimitError;
use crate::pnnx::ArchiveError;
use std::io;
use std::path::{Path, PathBuf};

/// A plan that cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct PlanFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: PlanFileProblem,
}

/// What is wrong with a plan file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileProblem {
    /// The system refused.
    #[error("cannot {action} the plan: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file does not begin as plans do.
    #[error("this is no plan; `ixion build` makes one from a .param file")]
    NotAPlan,
    /// The format has another version.
    #[error("{}", other_version(*.0))]
    Version(u32),
    /// The plan uses what this version of Ixion does not know.
    #[error(
        "the plan has flags {0:#x}, which this version of Ixion does not know; take a newer one, or build the plan again"
    )]
    Flags(u32),
    /// What layers stored is in another byte order.
    #[error("the plan was written on a machine of another byte order; build it again on one of this kind")]
    ByteOrder,
    /// The file ends early, or late.
    #[error("the plan has {found} bytes, but should have {wanted}; copy it again")]
    Length {
        /// The length that the header names; at least this where there is no whole header.
        wanted: u64,
        /// The length of the file.
        found: u64,
    },
    /// Bytes are not those that were written.
    #[error(
        "{what} is damaged: its checksum is {found:08x} and should be {wanted:08x}; copy the plan again, or build it again"
    )]
    Checksum {
        /// Which part.
        what: String,
        /// The checksum that was written.
        wanted: u32,
        /// The checksum that the bytes have.
        found: u32,
    },
    /// A part that contradicts itself or another one, although its checksum may be right.
    #[error("{section} is no such section: {reason}; build the plan again")]
    Corrupt {
        /// Which part.
        section: Kind,
        /// What is wrong with it.
        reason: String,
    },
    /// The index lists sections that cannot be.
    #[error("the index is wrong: {0}; build the plan again")]
    Index(String),
    /// A layer that is not there, or is another one.
    #[error(
        "the plan needs the layer `{wanted}` (namespace/type/version), but {}; register it, or build the plan again",
        there_is(found.as_deref())
    )]
    Layer {
        /// Namespace, type and version.
        wanted: String,
        /// What the registry has under this type.
        found: Option<String>,
    },
    /// The processor cannot do what the plan was built for.
    #[error("the plan needs a processor with `{0}`, which this one lacks; build it again on this machine")]
    Feature(String),
    /// The plan holds what the format cannot.
    #[error("the plan cannot be saved: {0}")]
    Unwritable(String),
    /// A part is larger than the caller allows.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

fn other_version(found: u32) -> String {
    let advice = match found < VERSION {
        true => "build it again",
        false => "take a newer Ixion, or build the plan again with this one",
    };
    format!("the plan has version {found} of the format, and this Ixion reads version {VERSION}; {advice}")
}

fn there_is(found: Option<&str>) -> String {
    match found {
        Some(found) => format!("`{found}` is registered"),
        None => "none of this type is registered".to_owned(),
    }
}

impl PlanFileProblem {
    /// The error of a file with this problem.
    pub(super) fn of(self, path: &Path) -> PlanFileError {
        PlanFileError { path: path.to_owned(), problem: self }
    }

    /// A section that contradicts itself.
    pub(super) fn corrupt(section: Kind, reason: impl Into<String>) -> Self {
        Self::Corrupt { section, reason: reason.into() }
    }
}

/// The problem of reading bytes.
impl From<ArchiveError> for PlanFileProblem {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Io { action, source, .. } => Self::Io { action, source },
            ArchiveError::Truncated { needed, length, .. } => Self::Length { wanted: needed, found: length },
            ArchiveError::Folder { .. } => {
                Self::Io { action: "open", source: io::Error::from(io::ErrorKind::IsADirectory) }
            }
            ArchiveError::Limit { source, .. } => Self::Limit(source),
            other => Self::corrupt(Kind::Weights, other.to_string()),
        }
    }
}
