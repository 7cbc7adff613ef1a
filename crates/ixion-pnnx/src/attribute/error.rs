//! Errors in an attribute's bytes.

use crate::{ArchiveError, Entry};
use ixion_tensor::DType;
use std::path::PathBuf;

/// An error for an attribute whose bytes are not available or do not fit.
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
    /// The archive's entry does not have the announced size.
    #[error(
        "operator `{operator}`, attribute `{key}`: expected {expected} bytes, but the entry in {} has {found}; \
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
    /// Several attributes share the name of an entry, and the archive has another number of entries with that name.
    #[error(
        "operator `{operator}`, attribute `{key}`: {wanted} attribute(s) share the name of this entry, but {} has {found} \
         of that name, so which belongs to which is unknown; do the .param and the .bin belong together?",
        archive.display()
    )]
    SharedName {
        /// The operator's name.
        operator: String,
        /// The attribute's key.
        key: String,
        /// The archive.
        archive: PathBuf,
        /// The number of attributes.
        wanted: u32,
        /// The number of entries.
        found: u32,
    },
    /// The bytes of a tensor in a file of another format cannot be read.
    #[error("tensor `{tensor}`: {source}")]
    ReadTensor {
        /// The tensor's name.
        tensor: String,
        /// The error of the file.
        source: Box<ArchiveError>,
    },
    /// The checksum of the bytes differs from the one in the archive.
    #[error(
        "operator `{operator}`, attribute `{key}`: its bytes in {} are damaged (expected checksum \
         {expected:08x}, found {found:08x}); copy the file again",
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
        /// The archive's error.
        source: Box<ArchiveError>,
    },
    /// The archive could not be written.
    #[error(transparent)]
    Write(#[from] ArchiveError),
    /// A new attribute was given too many or too few bytes for its type and shape.
    #[error(
        "an attribute of shape {shape:?} and type {dtype} requires {} bytes, got {found}",
        expected.map_or_else(|| format!("more than {}", isize::MAX), |bytes| bytes.to_string())
    )]
    Length {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Vec<usize>,
        /// The number of bytes that type and shape require; `None` if it overflows.
        expected: Option<u64>,
        /// The number of bytes given.
        found: u64,
    },
    /// A buffer, or a list of values, has the wrong length.
    #[error("wrong length for the attribute: expected {wanted}, got {found}")]
    Buffer {
        /// The expected length: bytes of a buffer, or values of a list.
        wanted: usize,
        /// The actual length.
        found: usize,
    },
    /// An attribute that is not of a float type was read or written as floats.
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

impl WeightError {
    pub(super) fn in_file(entry: &Entry, source: ArchiveError) -> Self {
        Self::ReadTensor { tensor: entry.name().to_owned(), source: Box::new(source) }
    }
}
