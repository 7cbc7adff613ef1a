//! Errors of saving and loading plans.

use super::layout::{Kind, VERSION};
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
    /// The problem.
    #[source]
    pub problem: PlanFileProblem,
}

/// The problem with a plan file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileProblem {
    /// The system refused.
    #[error("cannot {action} the plan: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file does not begin with the magic number of a plan.
    #[error("not a plan; create one with `ixion build` from a .param file")]
    NotAPlan,
    /// The format has another version.
    #[error("{}", other_version(*.0))]
    Version(u32),
    /// The plan has flags that this version of Ixion does not know.
    #[error("the plan has unknown flags {0:#x}; use a newer Ixion, or build the plan again with this one")]
    Flags(u32),
    /// The stored state of layers is in another byte order.
    #[error(
        "the plan was written on a machine with another byte order; build it again on this kind of machine"
    )]
    ByteOrder,
    /// The file is shorter or longer than it should be.
    #[error("the plan has {found} bytes, but should have {wanted}; copy it again")]
    Length {
        /// The length in the header, or a minimum if there is no complete header.
        wanted: u64,
        /// The length of the file.
        found: u64,
    },
    /// A checksum does not match.
    #[error(
        "{what} is damaged: its checksum is {found:08x} and should be {wanted:08x}; copy the plan again, or build it again"
    )]
    Checksum {
        /// The damaged part.
        what: String,
        /// The stored checksum.
        wanted: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// A section contradicts itself or another one, although its checksum may match.
    #[error("{section} is invalid: {reason}; build the plan again")]
    Corrupt {
        /// The section.
        section: Kind,
        /// The contradiction.
        reason: String,
    },
    /// The index is invalid.
    #[error("the index is invalid: {0}; build the plan again")]
    Index(String),
    /// A layer is missing, or another one is registered.
    #[error(
        "the plan needs the layer `{wanted}` (namespace/type/version), but {}; register it, or build the plan again",
        there_is(found.as_deref())
    )]
    Layer {
        /// Namespace, type and version.
        wanted: String,
        /// The layer that is registered for this type, if any.
        found: Option<String>,
    },
    /// The processor lacks a feature that the plan needs.
    #[error("the plan needs a processor with `{0}`, which this one lacks; build it again on this machine")]
    Feature(String),
    /// The plan contains something that the format cannot represent.
    #[error("the plan cannot be saved: {0}")]
    Unwritable(String),
    /// A part exceeds the caller's limits.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

fn other_version(found: u32) -> String {
    let advice = match found < VERSION {
        true => "build it again",
        false => "use a newer Ixion, or build the plan again with this one",
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
