//! Memory-mapped files.

use super::storage::{ALIGNMENT, Storage};
use super::{DType, Result, Shape, Tensor, TensorError};
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A file mapped into memory for reading: its pages are loaded on first access and shared by all processes that map the
/// same file.
///
/// Clones share one mapping, which lasts until the last clone and the last tensor that refers to it are dropped.
#[derive(Debug, Clone)]
pub struct Mapping {
    map: Arc<Mmap>,
}

impl Mapping {
    /// Maps a whole file.
    ///
    /// # Errors
    /// Returns an error if the system cannot map the file, for example because it is not a regular file.
    ///
    /// # Safety
    /// While the mapping or a tensor of it lives, neither this process nor another one may write to the file or truncate
    /// it. Replacing the file by another one of the same name (as all of Ixion's own writers do) is safe: the mapping keeps
    /// the old file.
    pub unsafe fn of(file: &File) -> io::Result<Self> {
        // SAFETY: by contract, the file is not changed.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self { map: Arc::new(map) })
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// A tensor whose elements are the little-endian bytes from `offset` on, in row-major order.
    ///
    /// The tensor refers to the mapping, without reading or copying, if the bytes are aligned to [`ALIGNMENT`], the machine
    /// is little-endian, and the elements are not bools, whose bytes could have any value. Otherwise it is a copy.
    ///
    /// # Errors
    /// Returns an error if the shape is too large, or the elements extend past the end of the file.
    pub fn tensor(&self, offset: usize, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        let known = Shape::new(shape)?;
        let too_large = || TensorError::SizeOverflow { shape: shape.to_vec() };
        let bytes = known.num_elements().checked_mul(dtype.size()).ok_or_else(too_large)?;
        let beyond = || {
            let len = self.map.len();
            TensorError::InvalidArgument(format!(
                "{bytes} bytes at offset {offset} exceed the file of {len} bytes"
            ))
        };
        let storage = Storage::mapped(&self.map, offset, bytes).ok_or_else(beyond)?;
        let is_aligned = (storage.as_ptr() as usize).is_multiple_of(ALIGNMENT);
        if bytes == 0 || !is_aligned || dtype == DType::Bool || cfg!(target_endian = "big") {
            let part = self.map.get(offset..).and_then(|rest| rest.get(..bytes)).ok_or_else(beyond)?;
            return Tensor::from_le_bytes(dtype, shape, part);
        }
        // SAFETY: `bytes` is what the shape needs; the address is aligned for every type; all bit patterns are valid
        // elements of every type but bool, which was handled above.
        Ok(unsafe { Tensor::from_storage(dtype, known, storage) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A file of 64 bytes of ones followed by the numbers 0 to 63 as f32.
    fn mapping() -> Mapping {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 64]).unwrap();
        (0..64u8).for_each(|number| file.write_all(&f32::from(number).to_le_bytes()).unwrap());
        // SAFETY: the file has no name, so nothing else can open it.
        unsafe { Mapping::of(&file) }.unwrap()
    }

    #[test]
    fn aligned_numbers_are_not_copied() {
        let mapping = mapping();
        let tensor = mapping.tensor(64, DType::F32, &[8, 8]).unwrap();
        assert_eq!(tensor.storage_id(), mapping.bytes().as_ptr() as usize + 64);
        drop(mapping);
        assert_eq!(tensor.get::<f32>(&[7, 7]).unwrap(), 63.0);
    }

    #[test]
    fn unaligned_and_bool_data_are_copied() {
        let mapping = mapping();
        let bools = mapping.tensor(0, DType::Bool, &[64]).unwrap();
        assert_eq!(bools.to_vec::<bool>().unwrap(), [true; 64]);
        let shifted = mapping.tensor(68, DType::F32, &[2]).unwrap();
        assert_eq!(shifted.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(mapping.tensor(64, DType::F32, &[0, 3]).unwrap().num_elements(), 0);
        let within =
            |tensor: &Tensor| mapping.bytes().as_ptr_range().contains(&(tensor.storage_id() as *const u8));
        assert!(!within(&bools) && !within(&shifted));
    }

    #[test]
    fn writing_makes_a_copy_first() {
        let mapping = mapping();
        let mut tensor = mapping.tensor(64, DType::F32, &[64]).unwrap();
        tensor.set(&[3], -1f32).unwrap();
        assert_eq!(tensor.get::<f32>(&[3]).unwrap(), -1.0);
        let again = mapping.tensor(64, DType::F32, &[64]).unwrap();
        assert_eq!(again.get::<f32>(&[3]).unwrap(), 3.0);
        assert_eq!(again.into_array::<f32>().unwrap().len(), 64);
    }

    #[test]
    fn nothing_reaches_beyond_the_end() {
        let mapping = mapping();
        assert!(mapping.tensor(64, DType::F32, &[65]).is_err());
        assert!(mapping.tensor(1 << 40, DType::F32, &[1]).is_err());
        assert!(mapping.tensor(usize::MAX, DType::U8, &[2]).is_err());
        assert!(mapping.tensor(320, DType::F32, &[0]).is_ok());
    }
}
