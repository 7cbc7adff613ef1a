//! Scratch memory that layers borrow while they compute.

use super::storage::Storage;
use super::{DType, Element, Result, TensorError};

/// A growing, aligned buffer without a type: each user reads it as what it needs.
#[derive(Debug)]
pub struct Workspace {
    storage: Storage,
}

impl Workspace {
    /// An empty workspace.
    ///
    /// # Errors
    /// None in practice: nothing is allocated yet.
    pub fn new() -> Result<Self> {
        Ok(Self { storage: Storage::zeroed(0)? })
    }

    /// Makes room for at least this many bytes. What it held is gone.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`]; the workspace is as it was before.
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

    /// True when there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `len` elements, holding arbitrary values.
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] when there is not enough room; [`TensorError::WrongDType`] for bool, whose bytes
    /// may not be arbitrary.
    pub fn slice<T: Element>(&mut self, len: usize) -> Result<&mut [T]> {
        if T::DTYPE == DType::Bool {
            return Err(TensorError::WrongDType { wanted: DType::U8, found: DType::Bool });
        }
        let room = self.storage.len() / size_of::<T>();
        if len > room {
            return Err(TensorError::OutOfRange { what: "workspace element", index: len as i64, len: room });
        }
        // SAFETY: the storage is aligned for every element type, long enough, initialised, and exclusively borrowed;
        // every bit pattern is a value of every element type but bool, which was refused.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.storage.as_mut_ptr().cast::<T>(), len) })
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
}
