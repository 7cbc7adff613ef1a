//! Scratch memory that layers borrow while they compute.

use super::storage::Storage;
use super::{DType, Element, Result, TensorError};
use std::marker::PhantomData;

/// A growing, aligned, untyped buffer: each layer borrows it as elements of the type it needs.
#[derive(Debug)]
pub struct Workspace {
    storage: Storage,
}

impl Workspace {
    /// An empty workspace.
    ///
    /// # Errors
    /// Never fails in practice: nothing is allocated yet.
    pub fn new() -> Result<Self> {
        Ok(Self { storage: Storage::zeroed(0)? })
    }

    /// Grows the buffer to at least `bytes` bytes. Previous contents are lost.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`]; the workspace is then unchanged.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.storage.len() {
            self.storage = Storage::zeroed(bytes)?;
        }
        Ok(())
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.storage.len()
    }

    /// True if the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Borrows the whole buffer.
    pub fn scratch(&mut self) -> Scratch<'_> {
        let bytes = self.storage.len();
        // SAFETY: the storage is aligned, initialised, and exclusively borrowed for as long as the result lives.
        unsafe { Scratch::from_raw(self.storage.as_mut_ptr(), bytes) }
    }

    /// The first `len` elements, with arbitrary values.
    ///
    /// # Errors
    /// As [`Scratch::slice`].
    pub fn slice<T: Element>(&mut self, len: usize) -> Result<&mut [T]> {
        self.scratch().into_slice(len)
    }
}

/// Borrowed scratch memory, from a [`Workspace`] or from an arena that also holds activations.
///
/// It is untyped and aligned to [`ALIGNMENT`](super::ALIGNMENT).
#[derive(Debug)]
pub struct Scratch<'a> {
    data: *mut u8,
    bytes: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: scratch memory is exclusive, like `&mut [u8]`.
unsafe impl Send for Scratch<'_> {}
// SAFETY: through `&Scratch` nothing can be read or written.
unsafe impl Sync for Scratch<'_> {}

impl<'a> Scratch<'a> {
    /// Scratch memory of `bytes` bytes at `data`.
    ///
    /// # Safety
    /// `data` must be aligned to [`ALIGNMENT`](super::ALIGNMENT) and point to `bytes` initialised bytes that are not
    /// accessed in any other way for `'a`.
    pub unsafe fn from_raw(data: *mut u8, bytes: usize) -> Self {
        Self { data, bytes, lifetime: PhantomData }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The first `len` elements, with arbitrary values.
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] if the buffer is too small; [`TensorError::WrongDType`] for bool, whose bytes may only
    /// be 0 or 1.
    pub fn slice<T: Element>(&mut self, len: usize) -> Result<&mut [T]> {
        self.reborrow().into_slice(len)
    }

    /// The same memory, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> Scratch<'_> {
        Scratch { lifetime: PhantomData, ..*self }
    }

    fn into_slice<T: Element>(self, len: usize) -> Result<&'a mut [T]> {
        if T::DTYPE == DType::Bool {
            return Err(TensorError::WrongDType { wanted: DType::U8, found: DType::Bool });
        }
        let room = self.bytes / size_of::<T>();
        if len > room {
            return Err(TensorError::OutOfRange { what: "workspace element", index: len as i64, len: room });
        }
        // SAFETY: the memory is aligned for every element type, long enough, initialised, and exclusively ours for 'a;
        // every bit pattern is a value of every element type but bool, which was rejected.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data.cast::<T>(), len) })
    }
}

impl<'a> From<&'a mut Workspace> for Scratch<'a> {
    fn from(workspace: &'a mut Workspace) -> Self {
        workspace.scratch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_and_is_read_as_any_number() {
        let mut workspace = Workspace::new().unwrap();
        assert!(workspace.is_empty() && workspace.slice::<f32>(0).unwrap().is_empty());
        workspace.reserve(16).unwrap();
        workspace.slice::<f32>(4).unwrap().fill(1.0);
        assert_eq!(workspace.slice::<i32>(1).unwrap(), [1.0f32.to_bits() as i32]);
        workspace.reserve(8).unwrap();
        assert_eq!(workspace.len(), 16);
        assert!(workspace.slice::<f64>(3).is_err() && workspace.slice::<bool>(1).is_err());
    }

    #[test]
    fn borrowed_scratch_is_read_as_any_number() {
        let mut workspace = Workspace::new().unwrap();
        workspace.reserve(16).unwrap();
        let mut scratch = workspace.scratch();
        assert_eq!((scratch.len(), scratch.is_empty()), (16, false));
        scratch.slice::<u8>(16).unwrap().fill(1);
        assert_eq!(scratch.slice::<i32>(4).unwrap(), [0x0101_0101; 4]);
        assert!(scratch.slice::<f64>(3).is_err() && scratch.slice::<bool>(1).is_err());
    }
}
