//! Attributes: the weights and constants of an operator.
//!
//! An [`Attribute`] has an element type and a shape. Its bytes are little-endian and contiguous. They are either
//! in memory, or in the archive, from which each call reads them again.

mod data;
mod error;
mod floats;

pub(super) use data::{Origin, Place, entry_name};
pub use error::WeightError;
pub use floats::decode_floats;

use super::archive::{Archive, ArchiveError, ArchiveFile, Entry};
use data::{Data, Part};
use floats::encode_floats;
use ixion_tensor::{DType, Tensor, TensorError};
use std::borrow::Cow;
use std::sync::Arc;

/// A tensor of an operator, such as `@weight=(16,64)f32`.
///
/// Cloning is cheap: the bytes are shared.
///
/// ```
/// use ixion_pnnx::Attribute;
/// use ixion_tensor::DType;
/// let mut bias = Attribute::new(DType::F32, vec![2], vec![0; 8])?;
/// bias.set_f32s(&[1.0, -1.0])?;
/// let doubled = bias.concat(&bias)?;
/// assert_eq!((doubled.shape(), doubled.to_f32s()?), (&[4][..], vec![1.0, -1.0, 1.0, -1.0]));
/// # Ok::<(), ixion_pnnx::WeightError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Attribute {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dtype: DType,
    shape: Vec<usize>,
    elements: usize,
    data: Arc<Data>,
}

impl Attribute {
    /// An attribute with the given bytes.
    ///
    /// # Errors
    /// [`WeightError::Length`] if the number of bytes does not match `dtype` and `shape`.
    pub fn new(dtype: DType, shape: Vec<usize>, bytes: impl Into<Vec<u8>>) -> Result<Self, WeightError> {
        let bytes = bytes.into();
        let elements = element_count(dtype, &shape);
        match elements.filter(|&elements| elements * dtype.size() == bytes.len()) {
            Some(elements) => Ok(Self::from_parts(dtype, shape, elements, Data::Owned(bytes))),
            None => {
                let expected = elements.map(|elements| (elements * dtype.size()) as u64);
                Err(WeightError::Length { dtype, shape, expected, found: bytes.len() as u64 })
            }
        }
    }

    /// A tensor, called `name` in errors, whose bytes start at `offset` of a file of another format. They are read on demand.
    ///
    /// # Errors
    /// [`WeightError::Length`] if its size overflows; [`WeightError::ReadTensor`] if the file ends before its bytes do.
    #[doc(hidden)]
    pub fn in_file(
        name: &str,
        file: Arc<ArchiveFile>,
        offset: u64,
        dtype: DType,
        shape: Vec<usize>,
    ) -> Result<Self, WeightError> {
        let Some(elements) = element_count(dtype, &shape) else {
            return Err(WeightError::Length { dtype, shape, expected: None, found: file.len() });
        };
        let entry = Entry::new(name.to_owned(), offset, (elements * dtype.size()) as u64, 0);
        let checked = file.check_range(offset, entry.size(), format_args!("tensor `{name}`"));
        checked.map_err(|source| WeightError::in_file(&entry, source))?;
        Ok(Self::from_parts(dtype, shape, elements, Data::InFile { file, entry }))
    }

    /// An attribute of f32 elements.
    ///
    /// # Errors
    /// [`WeightError::Length`] if the number of values does not match `shape`.
    pub fn from_f32s(shape: Vec<usize>, values: &[f32]) -> Result<Self, WeightError> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(DType::F32, shape, bytes)
    }

    fn from_parts(dtype: DType, shape: Vec<usize>, elements: usize, data: Data) -> Self {
        Self { inner: Arc::new(Inner { dtype, shape, elements, data: Arc::new(data) }) }
    }

    /// An attribute of the same type and shape with other data.
    fn with_data(&self, data: Data) -> Self {
        Self::from_parts(self.inner.dtype, self.inner.shape.clone(), self.inner.elements, data)
    }

    /// An attribute as the `.param` text announces it, before its bytes are loaded.
    ///
    /// `None` if its size in bytes overflows.
    pub(super) fn announced(dtype: DType, shape: Vec<usize>, origin: Origin) -> Option<Self> {
        let elements = element_count(dtype, &shape)?;
        // An empty tensor has no bytes that could be missing.
        let data = if elements == 0 { Data::Owned(Vec::new()) } else { Data::not_loaded(origin) };
        Some(Self::from_parts(dtype, shape, elements, data))
    }

    /// Looks up the announced bytes in an archive. Any defect is recorded, and reported when the bytes are read.
    pub(super) fn attach(&mut self, archive: &Arc<Archive>, origin: Origin, place: Place) {
        if self.inner.elements > 0 || archive.entry(origin.entry_name()).is_some() {
            *self = self.with_data(Data::find(archive, origin, place, self.byte_len() as u64));
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.inner.dtype
    }

    /// The sizes of the axes. Empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.inner.shape
    }

    /// The number of elements: 1 for a scalar, 0 when an axis has size 0.
    pub fn elem_count(&self) -> usize {
        self.inner.elements
    }

    /// The number of bytes.
    pub fn byte_len(&self) -> usize {
        // Cannot overflow: checked when the attribute was created.
        self.inner.elements * self.inner.dtype.size()
    }

    /// Returns true if the bytes are available: in memory, or in the archive with the right size.
    pub fn is_present(&self) -> bool {
        !matches!(*self.inner.data, Data::Absent { .. })
    }

    /// The reason why the bytes are not available, or `None` if they are.
    pub fn defect(&self) -> Option<WeightError> {
        self.inner.data.defect(self.byte_len() as u64)
    }

    fn check_present(&self) -> Result<(), WeightError> {
        self.defect().map_or(Ok(()), Err)
    }

    /// The bytes: borrowed if they are in memory, otherwise read from the archive.
    ///
    /// # Errors
    /// [`WeightError`] if the bytes are missing, have the wrong size or cannot be read.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, WeightError> {
        self.check_present()?;
        self.inner.data.bytes()
    }

    /// Copies the bytes into `buffer`, for example an aligned one.
    ///
    /// # Errors
    /// Same as [`Attribute::bytes`], and [`WeightError::Buffer`] if the length of `buffer` is not
    /// [`byte_len`](Self::byte_len).
    pub fn read_into(&self, buffer: &mut [u8]) -> Result<(), WeightError> {
        if buffer.len() != self.byte_len() {
            return Err(WeightError::Buffer { wanted: self.byte_len(), found: buffer.len() });
        }
        self.read_at(0, buffer)
    }

    /// Copies the bytes from byte `start` on into `buffer`, for callers that convert some of them at a time.
    ///
    /// # Errors
    /// Same as [`Attribute::bytes`], and [`WeightError::Buffer`] if there are fewer bytes.
    pub fn read_at(&self, start: usize, buffer: &mut [u8]) -> Result<(), WeightError> {
        let end = start.saturating_add(buffer.len());
        if end > self.byte_len() {
            return Err(WeightError::Buffer { wanted: self.byte_len(), found: end });
        }
        self.check_present()?;
        self.inner.data.read_at(start, buffer)
    }

    /// The elements as a tensor without copying, or `None` if the bytes are not in a memory-mapped file.
    pub fn mapped(&self) -> Option<Result<Tensor, TensorError>> {
        match &*self.inner.data {
            Data::Stored { archive, entry, .. } => archive.mapped(entry, self.dtype(), self.shape()),
            _ => None,
        }
    }

    /// Computes the CRC-32 of the bytes. If they are in an archive, it is compared with the archive's checksum.
    ///
    /// # Errors
    /// Same as [`Attribute::bytes`], and [`WeightError::Checksum`] if the bytes are damaged.
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

    /// Compares a checksum with the archive's. Bytes that are not in an archive always pass.
    ///
    /// # Errors
    /// [`WeightError::Checksum`] if the checksums differ.
    pub fn check_crc(&self, found: u32) -> Result<(), WeightError> {
        self.inner.data.check_crc(found)
    }

    /// Passes the bytes to `take` in chunks, so that bytes in an archive are never all in memory.
    ///
    /// # Errors
    /// Same as [`Attribute::bytes`], and any error that `take` returns.
    pub fn for_each_piece(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), WeightError> {
        self.check_present()?;
        self.inner.data.for_each_piece(&mut take)
    }

    /// The elements as f32. Rounds f64.
    ///
    /// # Errors
    /// [`WeightError::NotFloat`] if the element type is not f32, f64, f16 or bf16; otherwise same as
    /// [`Attribute::bytes`].
    pub fn to_f32s(&self) -> Result<Vec<f32>, WeightError> {
        let bytes = self.bytes()?;
        decode_floats(self.dtype(), &bytes).ok_or(WeightError::NotFloat { dtype: self.dtype() })
    }

    /// Replaces the elements, keeping element type and shape. Rounds to f16 and bf16.
    ///
    /// # Errors
    /// [`WeightError::NotFloat`] if the element type is not f32, f64, f16 or bf16, [`WeightError::Buffer`] if the
    /// number of values is not [`elem_count`](Self::elem_count).
    pub fn set_f32s(&mut self, values: &[f32]) -> Result<(), WeightError> {
        let (dtype, wanted) = (self.dtype(), self.elem_count());
        if values.len() != wanted {
            return Err(WeightError::Buffer { wanted, found: values.len() });
        }
        let bytes = encode_floats(dtype, values).ok_or(WeightError::NotFloat { dtype })?;
        *self = self.with_data(Data::Owned(bytes));
        Ok(())
    }

    /// Joins two attributes along their first axis. The bytes of those in an archive stay there until they are read.
    ///
    /// # Errors
    /// [`WeightError::Concat`] if the element types or the other axes differ or one attribute is a scalar;
    /// [`WeightError::Length`] if the result does not fit the address space; [`WeightError`] if bytes are missing.
    pub fn concat(&self, other: &Self) -> Result<Self, WeightError> {
        let dtype = self.dtype();
        let shape = joined_shape(self.shape(), other.shape()).filter(|_| dtype == other.dtype());
        let Some(shape) = shape else {
            return Err(WeightError::Concat {
                left: (dtype, self.shape().to_vec()),
                right: (other.dtype(), other.shape().to_vec()),
            });
        };
        self.check_present()?;
        other.check_present()?;
        let Some(elements) = element_count(dtype, &shape) else {
            let found = (self.byte_len() as u64).saturating_add(other.byte_len() as u64);
            return Err(WeightError::Length { dtype, shape, expected: None, found });
        };
        let parts = [self.parts(), other.parts()].concat();
        Ok(Self::from_parts(dtype, shape, elements, Data::Joined(parts)))
    }

    /// The parts that it was joined from, or itself.
    fn parts(&self) -> Vec<Part> {
        match &*self.inner.data {
            Data::Joined(parts) => parts.clone(),
            _ => vec![Part { data: Arc::clone(&self.inner.data), len: self.byte_len() }],
        }
    }

    /// Returns whether element type, shape and bytes are equal.
    ///
    /// # Errors
    /// Same as [`Attribute::bytes`], if the bytes have to be compared.
    pub fn equals(&self, other: &Self) -> Result<bool, WeightError> {
        if self.dtype() != other.dtype() || self.shape() != other.shape() {
            return Ok(false);
        }
        if Arc::ptr_eq(&self.inner, &other.inner) && self.is_present() {
            return Ok(true);
        }
        // Different checksums mean different bytes: no need to read them.
        if let (Some(a), Some(b)) = (self.inner.data.stored_crc(), other.inner.data.stored_crc())
            && a != b
        {
            return Ok(false);
        }
        Ok(self.bytes()? == other.bytes()?)
    }
}

/// Same as [`Attribute::equals`], but false if bytes cannot be read.
impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other).unwrap_or(false)
    }
}

// ANCHOR: element_count
/// The number of elements of a shape (1 for a scalar), or `None` if their bytes do not fit the address space.
///
/// An axis of size 0 does not hide an overflow of the other axes: strides are computed from them all the same.
pub fn element_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    // ANCHOR: element_count_todo -- task 4: a product that must not overflow
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &size| bytes.checked_mul(size.max(1)))?;
    isize::try_from(bytes).ok()?;
    Some(if shape.contains(&0) { 0 } else { bytes / dtype.size() })
    // ANCHOR_END: element_count_todo
}
// ANCHOR_END: element_count

/// The shape of two tensors joined along their first axis, if all other axes agree.
fn joined_shape(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let ((first, tail), (second, other_tail)) = (left.split_first()?, right.split_first()?);
    let sum = first.checked_add(*second).filter(|_| tail == other_tail)?;
    Some([&[sum], tail].concat())
}

#[cfg(test)]
mod tests;
