//! The arena: one block of memory for all activations and scratch memory.

use crate::tensor::{Result, Storage};

/// A block of memory, aligned to [`ALIGNMENT`](crate::tensor::ALIGNMENT), that grows and never shrinks.
#[derive(Debug)]
pub struct Arena {
    storage: Storage,
}

impl Arena {
    /// An arena of this many bytes, all zero. Check them against
    /// [`Limits::check_total`](crate::Limits::check_total) first.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`](crate::tensor::TensorError::OutOfMemory).
    pub fn new(bytes: usize) -> Result<Self> {
        Ok(Self { storage: Storage::zeroed(bytes)? })
    }

    /// Makes room for at least this many bytes. Where it has to grow, what it held is gone.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`](crate::tensor::TensorError::OutOfMemory); the arena is as it was before.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.len() {
            self.storage = Storage::zeroed(bytes)?;
        }
        Ok(())
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.storage.len()
    }

    /// True when there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first byte, for as long as the arena is borrowed.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.storage.as_mut_ptr()
    }
}
