//! The arena: one block of memory for all activations and all scratch memory.

use crate::tensor::{Result, Storage};

/// A block of memory, aligned to [`ALIGNMENT`](crate::tensor::ALIGNMENT), that grows and never shrinks.
#[derive(Debug)]
pub(crate) struct Arena {
    storage: Storage,
}

impl Arena {
    /// Creates an arena of this many bytes, all zero. Check the size with
    /// [`Limits::check_total`](crate::Limits::check_total) first.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`](crate::tensor::TensorError::OutOfMemory).
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        Ok(Self { storage: Storage::zeroed(bytes)? })
    }

    /// Grows the arena to at least this many bytes. Growing discards the contents.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`](crate::tensor::TensorError::OutOfMemory); the arena is then unchanged.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.len() {
            self.storage = Storage::zeroed(bytes)?;
        }
        Ok(())
    }

    /// The size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.storage.len()
    }

    /// A pointer to the first byte, valid while the arena is borrowed.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.storage.as_mut_ptr()
    }
}
