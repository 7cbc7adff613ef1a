//! Memory of a device.

use super::{CudaError, Device, DeviceTensor, Result};
use crate::tensor::{DType, Layout};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// A block of memory on a device, freed when dropped.
#[derive(Debug)]
pub struct Memory {
    device: Device,
    address: u64,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Self> {
        let address = if bytes == 0 {
            0
        } else {
            device.0.driver.allocate(bytes).map_err(|e| full(device, bytes, e))?
        };
        device.0.allocated_bytes.fetch_add(bytes, Ordering::Relaxed);
        device.0.blocks.fetch_add(usize::from(bytes > 0), Ordering::Relaxed);
        Ok(Self { device: device.clone(), address, bytes })
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true if the block is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device that the memory belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns true if these addresses are within the block.
    pub(super) fn contains(&self, start: u64, end: u64) -> bool {
        self.address <= start && end <= self.address.saturating_add(self.bytes as u64)
    }

    /// A tensor in the `room` bytes from byte `first` on.
    ///
    /// # Errors
    /// [`CudaError::OutOfBounds`] if the block or the room is too small.
    pub fn tensor(
        &self,
        dtype: DType,
        layout: Layout,
        first: usize,
        room: usize,
    ) -> Result<DeviceTensor<'_>> {
        let end = first.saturating_add(room);
        if end > self.bytes || layout.check_within(room / dtype.size()).is_err() {
            let needed = layout.span().saturating_mul(dtype.size());
            let end = end.max(first.saturating_add(needed));
            return Err(CudaError::OutOfBounds { first, end, room: self.bytes });
        }
        Ok(DeviceTensor {
            dtype,
            layout,
            address: self.address + first as u64,
            bytes: room,
            memory: PhantomData,
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: this is the only owner of the allocation, and no queue uses it afterwards: drivers wait for work on it.
        unsafe { self.device.0.driver.free(self.address) };
        self.device.0.allocated_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.device.0.blocks.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds the number of allocated bytes to an out-of-memory error.
fn full(device: &Device, wanted: usize, error: CudaError) -> CudaError {
    match error {
        CudaError::OutOfMemory { device: name, .. } => {
            CudaError::OutOfMemory { device: name, wanted, taken: device.allocated() }
        }
        other => other,
    }
}
