//! Attributes: the weights and constants of an operator.
//!
//! An [`Attribute`] knows its element type and shape. Its bytes are little-endian and contiguous; they are
//! either in memory or still in the archive, from where each call reads them anew.

mod error;

pub use error::WeightError;

use super::archive::{Archive, ArchiveError, Entry};
use crate::tensor::DType;
use half::{bf16, f16};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

/// A tensor of an operator, such as `@weight=(16,64)f32`.
///
/// Cloning is cheap: the bytes are shared.
///
/// ```
/// use ixion::{pnnx::Attribute, tensor::DType};
/// let mut bias = Attribute::new(DType::F32, vec![2], vec![0; 8])?;
/// bias.set_f32s(&[1.0, -1.0])?;
/// let doubled = bias.concat(&bias)?;
/// assert_eq!((doubled.shape(), doubled.to_f32s()?), (&[4][..], vec![1.0, -1.0, 1.0, -1.0]));
/// # Ok::<(), ixion::pnnx::WeightError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Attribute {
    dtype: DType,
    shape: Vec<usize>,
    elements: usize,
    data: Data,
}

#[derive(Debug, Clone)]
enum Data {
    Owned(Arc<Vec<u8>>),
    Stored(Arc<Stored>),
    Absent(Arc<Absent>),
}

/// The operator and key under which an attribute was loaded.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) operator: String,
    pub(super) key: String,
}

#[derive(Debug)]
struct Stored {
    origin: Origin,
    archive: Arc<Archive>,
    entry: Entry,
}

#[derive(Debug)]
struct Absent {
    origin: Origin,
    reason: Reason,
}

/// Why an attribute has no bytes.
#[derive(Debug)]
enum Reason {
    NotLoaded,
    Missing(PathBuf),
    WrongSize(PathBuf, u64),
}

impl Attribute {
    /// An attribute with the bytes it is given.
    ///
    /// # Errors
    /// [`WeightError::Length`] when there are not as many bytes as `dtype` and `shape` need.
    pub fn new(dtype: DType, shape: Vec<usize>, bytes: impl Into<Vec<u8>>) -> Result<Self, WeightError> {
        let bytes = bytes.into();
        let elements = checked_elements(dtype, &shape);
        match elements.filter(|&elements| elements * dtype.size() == bytes.len()) {
            Some(elements) => Ok(Self {
                dtype,
                shape,
                elements,
                data: Data::Owned(Arc::new(bytes)),
            }),
            None => Err(WeightError::Length {
                dtype,
                shape,
                expected: elements.map(|elements| (elements * dtype.size()) as u64),
                found: bytes.len() as u64,
            }),
        }
    }

    /// An attribute of f32 elements.
    ///
    /// # Errors
    /// [`WeightError::Length`] when there are not as many values as `shape` needs.
    pub fn from_f32s(shape: Vec<usize>, values: &[f32]) -> Result<Self, WeightError> {
        Self::new(
            DType::F32,
            shape,
            encode_f32s(DType::F32, values).unwrap_or_default(),
        )
    }

    /// An attribute as the `.param` text announces it, before anybody looked for its bytes.
    ///
    /// `None` when its size in bytes overflows.
    pub(super) fn announced(dtype: DType, shape: Vec<usize>, origin: Origin) -> Option<Self> {
        let elements = checked_elements(dtype, &shape)?;
        let data = match elements {
            // Nothing can be missing of nothing.
            0 => Data::Owned(Arc::default()),
            _ => Data::Absent(Arc::new(Absent {
                origin,
                reason: Reason::NotLoaded,
            })),
        };
        Some(Self {
            dtype,
            shape,
            elements,
            data,
        })
    }

    /// Looks for the announced bytes in an archive. What is wrong is remembered until somebody asks for them.
    pub(super) fn attach(&mut self, archive: &Arc<Archive>, origin: Origin) {
        let name = origin.entry_name();
        let path = || archive.path().to_owned();
        self.data = match archive.entry(&name) {
            Some(entry) if entry.size() == self.byte_len() as u64 => {
                let (archive, entry) = (Arc::clone(archive), entry.clone());
                Data::Stored(Arc::new(Stored {
                    origin,
                    archive,
                    entry,
                }))
            }
            Some(entry) => {
                let reason = Reason::WrongSize(path(), entry.size());
                Data::Absent(Arc::new(Absent { origin, reason }))
            }
            None if self.elements == 0 => return,
            None => Data::Absent(Arc::new(Absent {
                origin,
                reason: Reason::Missing(path()),
            })),
        };
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes of the axes. Empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements: 1 for a scalar, 0 when an axis has size 0.
    pub fn elem_count(&self) -> usize {
        self.elements
    }

    /// The number of bytes.
    pub fn byte_len(&self) -> usize {
        // Checked when the attribute was made.
        self.elements * self.dtype.size()
    }

    /// Whether the bytes are there: in memory, or in the archive with the right size.
    pub fn is_present(&self) -> bool {
        !matches!(self.data, Data::Absent(_))
    }

    /// What is wrong with the bytes, if they are not there.
    pub fn defect(&self) -> Option<WeightError> {
        match &self.data {
            Data::Absent(absent) => Some(absent.error(self.byte_len() as u64)),
            _ => None,
        }
    }

    /// The bytes: borrowed when they are in memory, else read from the archive.
    ///
    /// # Errors
    /// [`WeightError`] when they are missing, have the wrong size or cannot be read.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, WeightError> {
        match &self.data {
            Data::Owned(bytes) => Ok(Cow::Borrowed(bytes)),
            Data::Stored(stored) => {
                let bytes = stored.archive.read(&stored.entry);
                bytes
                    .map(Cow::Owned)
                    .map_err(|source| stored.origin.read_error(source))
            }
            Data::Absent(absent) => Err(absent.error(self.byte_len() as u64)),
        }
    }

    /// Copies the bytes into `buffer`, for instance one that is aligned.
    ///
    /// # Errors
    /// As [`Attribute::bytes`], and [`WeightError::Buffer`] when `buffer` is not [`byte_len`](Self::byte_len)
    /// long.
    pub fn read_into(&self, buffer: &mut [u8]) -> Result<(), WeightError> {
        if buffer.len() != self.byte_len() {
            return Err(WeightError::Buffer {
                wanted: self.byte_len(),
                found: buffer.len(),
            });
        }
        match &self.data {
            Data::Owned(bytes) => buffer.copy_from_slice(bytes),
            Data::Stored(stored) => {
                let read = stored.archive.read_at(&stored.entry, 0, buffer);
                read.map_err(|source| stored.origin.read_error(source))?;
            }
            Data::Absent(absent) => return Err(absent.error(self.byte_len() as u64)),
        }
        Ok(())
    }

    /// Computes the CRC-32 of the bytes. For bytes in an archive it is compared with the one written there.
    ///
    /// # Errors
    /// As [`Attribute::bytes`], and [`WeightError::Checksum`] when the bytes are damaged.
    pub fn checksum(&self) -> Result<u32, WeightError> {
        let mut hasher = crc32fast::Hasher::new();
        self.for_each_piece(|piece| {
            hasher.update(piece);
            Ok(())
        })?;
        let found = hasher.finalize();
        self.check_crc(found)?;
        Ok(found)
    }

    /// Compares a checksum with the archive's.
    pub(super) fn check_crc(&self, found: u32) -> Result<(), WeightError> {
        match &self.data {
            Data::Stored(stored) if stored.entry.crc32() != found => Err(stored.checksum_error(found)),
            _ => Ok(()),
        }
    }

    /// Passes the bytes to `take` piece by piece, so that they are never all in memory unless they were.
    pub(super) fn for_each_piece(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), WeightError> {
        match &self.data {
            Data::Owned(bytes) => Ok(take(bytes)?),
            Data::Stored(stored) => {
                let done = stored.archive.for_each_piece::<ArchiveError>(&stored.entry, take);
                done.map_err(|source| stored.origin.read_error(source))
            }
            Data::Absent(absent) => Err(absent.error(self.byte_len() as u64)),
        }
    }

    /// The elements as f32. Rounds f64.
    ///
    /// # Errors
    /// [`WeightError::NotFloat`] for anything but f32, f64, f16 and bf16, and as [`Attribute::bytes`].
    pub fn to_f32s(&self) -> Result<Vec<f32>, WeightError> {
        let bytes = self.bytes()?;
        match self.dtype {
            DType::F32 => Ok(decode(&bytes, f32::from_le_bytes)),
            DType::F64 => Ok(decode(&bytes, |bytes| f64::from_le_bytes(bytes) as f32)),
            DType::F16 => Ok(decode(&bytes, |bytes| f16::from_le_bytes(bytes).to_f32())),
            DType::Bf16 => Ok(decode(&bytes, |bytes| bf16::from_le_bytes(bytes).to_f32())),
            dtype => Err(WeightError::NotFloat { dtype }),
        }
    }

    /// Replaces the elements, keeping element type and shape. Rounds to f16 and bf16.
    ///
    /// # Errors
    /// [`WeightError::NotFloat`] for anything but f32, f64, f16 and bf16, [`WeightError::Buffer`] when there
    /// are not [`elem_count`](Self::elem_count) values.
    pub fn set_f32s(&mut self, values: &[f32]) -> Result<(), WeightError> {
        if values.len() != self.elements {
            return Err(WeightError::Buffer {
                wanted: self.elements,
                found: values.len(),
            });
        }
        let bytes = encode_f32s(self.dtype, values).ok_or(WeightError::NotFloat { dtype: self.dtype })?;
        self.data = Data::Owned(Arc::new(bytes));
        Ok(())
    }

    /// Joins two attributes along their first axis.
    ///
    /// # Errors
    /// [`WeightError::Concat`] when element types or other axes differ or one of them is a scalar, and as
    /// [`Attribute::bytes`].
    pub fn concat(&self, other: &Self) -> Result<Self, WeightError> {
        let mismatch = || WeightError::Concat {
            left: (self.dtype, self.shape.clone()),
            right: (other.dtype, other.shape.clone()),
        };
        let (Some((first, tail)), Some((second, other_tail))) =
            (self.shape.split_first(), other.shape.split_first())
        else {
            return Err(mismatch());
        };
        if self.dtype != other.dtype || tail != other_tail {
            return Err(mismatch());
        }
        let mut shape = vec![first.checked_add(*second).ok_or_else(mismatch)?];
        shape.extend_from_slice(tail);
        Self::new(self.dtype, shape, [self.bytes()?, other.bytes()?].concat())
    }

    /// Whether element type, shape and bytes are equal.
    ///
    /// # Errors
    /// As [`Attribute::bytes`], when the bytes have to be compared.
    pub fn equals(&self, other: &Self) -> Result<bool, WeightError> {
        if self.dtype != other.dtype || self.shape != other.shape {
            return Ok(false);
        }
        match (&self.data, &other.data) {
            (Data::Stored(a), Data::Stored(b)) if Arc::ptr_eq(a, b) => Ok(true),
            _ => Ok(self.bytes()? == other.bytes()?),
        }
    }
}

/// As [`Attribute::equals`]; bytes that cannot be read equal nothing.
impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other).unwrap_or(false)
    }
}

impl Origin {
    /// The name of the attribute's entry in the archive.
    pub(super) fn entry_name(&self) -> String {
        entry_name(&self.operator, &self.key)
    }

    fn read_error(&self, source: ArchiveError) -> WeightError {
        let (operator, key) = (self.operator.clone(), self.key.clone());
        WeightError::Read {
            operator,
            key,
            source: Box::new(source),
        }
    }
}

/// The name of an attribute's entry in the archive.
pub(super) fn entry_name(operator: &str, key: &str) -> String {
    format!("{operator}.{key}")
}

impl Stored {
    fn checksum_error(&self, found: u32) -> WeightError {
        let Origin { operator, key } = self.origin.clone();
        let (archive, expected) = (self.archive.path().to_owned(), self.entry.crc32());
        WeightError::Checksum {
            operator,
            key,
            archive,
            expected,
            found,
        }
    }
}

impl Absent {
    fn error(&self, expected: u64) -> WeightError {
        let Origin { operator, key } = self.origin.clone();
        match &self.reason {
            Reason::NotLoaded => WeightError::NotLoaded {
                operator,
                key,
                expected,
            },
            Reason::Missing(path) => WeightError::Missing {
                operator,
                key,
                archive: path.clone(),
                expected,
            },
            Reason::WrongSize(path, found) => WeightError::WrongSize {
                operator,
                key,
                archive: path.clone(),
                expected,
                found: *found,
            },
        }
    }
}

/// The number of elements of a shape, if it and its size in bytes fit the machine's address space.
///
/// Axes of size 0 do not hide an overflow of the others: strides are computed from them all the same.
fn checked_elements(dtype: DType, shape: &[usize]) -> Option<usize> {
    let bytes = shape
        .iter()
        .try_fold(dtype.size(), |bytes, &size| bytes.checked_mul(size.max(1)))?;
    isize::try_from(bytes).ok()?;
    Some(if shape.contains(&0) {
        0
    } else {
        bytes / dtype.size()
    })
}

fn decode<const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (elements, _rest) = bytes.as_chunks::<N>();
    elements.iter().map(|&bytes| element(bytes)).collect()
}

fn encode_f32s(dtype: DType, values: &[f32]) -> Option<Vec<u8>> {
    match dtype {
        DType::F32 => Some(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        DType::F64 => Some(
            values
                .iter()
                .flat_map(|&value| f64::from(value).to_le_bytes())
                .collect(),
        ),
        DType::F16 => Some(
            values
                .iter()
                .flat_map(|&value| f16::from_f32(value).to_le_bytes())
                .collect(),
        ),
        DType::Bf16 => Some(
            values
                .iter()
                .flat_map(|&value| bf16::from_f32(value).to_le_bytes())
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
