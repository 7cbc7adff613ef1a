//! What can be wrong with an attribute's bytes.

use crate::ArchiveError;
use ixion_tensor::DType;
use std::path::PathBuf;

/// An attribute whose bytes are not there, or do not fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightError {
    /// The graph was loaded without its `.bin` file.
    #[error(
        "operator `{operator}`, attribute `{key}`: its {expected} bytes were not loaded; give the .bin file too"
    )]
    NotLoaded {
        /// The operator's name.
        operator: String,
        /// The attribute's key.
        key: String,
        /// The number of bytes that the `.param` text announces.
        expected: u64,
    },
    /// The archive has no entry for the attribute.
    #[error(
        "operator `{operator}`, attribute `{key}`: {} has no entry `{operator}.{key}` of {expected} bytes; \
         do the .param and the .bin belong together?",
        archive.display()
    )]
    Missing {
        /// The operator's name.
        operator: String,
        /// The attribute's key.
        key: String,
        /// The archive.
        archive: PathBuf,
        /// The number of bytes that the `.param` text announces.
        expected: u64,
    },
    /// The archive's entry has not the announced size.
    #[error(
        "operator `{operator}`, attribute `{key}`: wanted {expected} bytes, but the entry in {} has {found}; \
         do the .param and the .bin belong together?",
        archive.display()
    )]
    WrongSize {
        /// The operator's name.
        operator: String,
        /// The attribute's key.
        key: String,
        /// The archive.
        archive: PathBuf,
        /// The number of bytes that the `.param` text announces.
        expected: u64,
        /// The number of bytes in the archive.
        found: u64,
    },
    /// The bytes do not have the checksum that was written with them.
    #[error(
        "operator `{operator}`, attribute `{key}`: its bytes in {} are damaged (checksum {found:08x}, \
         written as {expected:08x}); copy the file again",
        archive.display()
    )]
    Checksum {
        /// The operator's name.
        operator: String,
        /// The attribute's key.
        key: String,
        /// The archive.
        archive: PathBuf,
        /// The CRC-32 in the archive.
        expected: u32,
        /// The CRC-32 of the bytes.
        found: u32,
    },
    /// The archive could not be read.
    #[error("operator `{operator}`, attribute `{key}`: {source}")]
    Read {
        /// The operator's name.
        operator: String,
        /// The attribute's key.
        key: String,
        /// What went wrong.
        source: Box<ArchiveError>,
    },
    /// The archive could not be written.
    #[error(transparent)]
    Write(#[from] ArchiveError),
    /// A new attribute was given too many or too few bytes for its shape.
    #[error(
        "an attribute of shape {shape:?} and type {dtype} takes {} bytes, found {found}",
        expected.map_or_else(|| "more than the machine's memory in".to_owned(), |bytes| bytes.to_string())
    )]
    Length {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Vec<usize>,
        /// The number of bytes that they need; `None` when it overflows.
        expected: Option<u64>,
        /// The number of bytes given.
        found: u64,
    },
    /// A buffer, or a list of values, has the wrong length.
    #[error("the attribute takes {wanted} values, found {found}")]
    Buffer {
        /// The length that it must have.
        wanted: usize,
        /// The length that it has.
        found: usize,
    },
    /// Floats were asked of an attribute that holds none.
    #[error("the attribute holds {dtype} elements; only f32, f64, f16 and bf16 convert to and from f32")]
    NotFloat {
        /// The element type.
        dtype: DType,
    },
    /// Two attributes cannot be joined along their first axis.
    #[error(
        "cannot join {:?} {} and {:?} {} along the first axis: types and all other axes must agree",
        left.1, left.0, right.1, right.0
    )]
    Concat {
        /// Element type and shape of the first.
        left: (DType, Vec<usize>),
        /// Element type and shape of the second.
        right: (DType, Vec<usize>),
    },
}
