//! Page-locked memory of the CPU, which a device reads and writes directly.

use super::{CudaError, Device};
use crate::tensor::{DType, MemoryOwner, Shape, Storage, Tensor, TensorError};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{MutexGuard, PoisonError};

/// A block of page-locked memory, freed when dropped. It keeps its device open.
struct Block {
    device: Device,
    address: usize,
    bytes: usize,
}

impl MemoryOwner for Block {}

/// A tensor's debugging output contains its owner, but need not contain everything that a device has compiled.
impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}, page-locked for {}", self.bytes, self.address, self.device.info().id)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.device.pinned_blocks().remove(&self.address);
        // SAFETY: this is the only owner of the allocation, and no new copy of it begins: it is no longer listed.
        unsafe { self.device.0.driver.free_pinned(self.address, self.bytes) };
    }
}

impl Device {
    /// A tensor of zeros (`false` for bool) in page-locked memory of the CPU.
    ///
    /// As an input or output buffer of a model that runs on the device, it is copied directly, without a detour through other
    /// memory. Otherwise it is a tensor like any other; it may outlive all handles to the device. Page-locking is
    /// slow, the system cannot swap the memory out, and dropping the tensor waits for all work of the device: create such tensors
    /// once and reuse them. The copies that operations on tensors make are not page-locked.
    ///
    /// ```no_run
    /// use ixion::cuda::{device::KernelCache, open};
    /// use ixion::tensor::{DType, Tensor};
    ///
    /// let device = open("cuda", KernelCache::default(), false)?;
    /// let image = Tensor::zeros(DType::F32, &[1, 3, 224, 224])?;
    /// let mut input = device.pinned(image.dtype(), image.shape())?;
    /// input.view_mut()?.copy_from(&image.view())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::zeros`]; [`TensorError::InvalidArgument`] with the driver's reason if it refuses for another one than
    /// missing memory.
    pub fn pinned(&self, dtype: DType, shape: &[usize]) -> Result<Tensor, TensorError> {
        let known = Shape::new(shape)?;
        let too_large = || TensorError::SizeOverflow { shape: shape.to_vec() };
        let bytes = known.num_elements().checked_mul(dtype.size()).ok_or_else(too_large)?;
        if bytes == 0 {
            return Tensor::zeros(dtype, shape);
        }
        let start = self.0.driver.allocate_pinned(bytes).map_err(|error| refused(bytes, error))?;
        let address = start.as_ptr() as usize;
        let block = Block { device: self.clone(), address, bytes };
        // SAFETY: the allocation has that many bytes, and nothing else refers to them.
        unsafe { start.as_ptr().write_bytes(0, bytes) };
        self.pinned_blocks().insert(address, bytes);
        // SAFETY: the block frees the memory when it is dropped. Zeros are valid elements of every type, and drivers align
        // memory for each of them. A device only accesses it while it is borrowed for a copy, or, for reading, while the
        // engine does not let anyone write.
        Ok(unsafe { Tensor::from_storage(dtype, known, Storage::owned_by(Box::new(block), start, bytes)) })
    }

    /// Returns true if these bytes are page-locked for this device.
    pub(super) fn is_pinned(&self, bytes: &[u8]) -> bool {
        let start = bytes.as_ptr() as usize;
        let blocks = self.pinned_blocks();
        let block = blocks.range(..=start).next_back();
        block.is_some_and(|(first, len)| start - first < *len && bytes.len() <= len - (start - first))
    }

    /// The sizes of blocks of page-locked memory by address.
    fn pinned_blocks(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.0.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(bytes: usize, error: CudaError) -> TensorError {
    match error {
        CudaError::OutOfMemory { .. } => TensorError::OutOfMemory { bytes },
        other => TensorError::InvalidArgument(other.to_string()),
    }
}
