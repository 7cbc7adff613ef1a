//! The memory of a tensor.
//!
//! A [`Storage`] owns bytes and returns pointers to them; all typed access goes through the views of
//! [`view`](super::view), which check type and bounds. Except while a tensor is constructed, storage is held in an
//! [`Arc`](std::sync::Arc): tensors share it, and write only as its sole owner.

use super::{Element, Result, TensorError};
use memmap2::Mmap;
use std::alloc::{self, Layout as AllocLayout};
use std::any::TypeId;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of allocated buffers in bytes: that of a cache line and of the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Provides the aligned address of an empty buffer.
#[repr(align(64))]
struct CacheLine;

/// A heap buffer, either aligned or taken over from a `Vec`; a read-only part of a mapped file; or memory of another owner.
#[derive(Debug)]
pub struct Storage {
    data: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// The data are inside an allocation that starts at `base`.
    Aligned { base: NonNull<u8>, layout: AllocLayout },
    /// No bytes and no allocation.
    Nothing,
    /// The raw parts of a `Vec<T>`, where `element` identifies `T`; `release` reassembles the vector and drops it.
    Vec { element: TypeId, len: usize, capacity: usize, release: unsafe fn(NonNull<u8>, usize) },
    /// A part of a file, kept mapped by this reference.
    Mapped(#[allow(dead_code, reason = "it is held, not read")] Arc<Mmap>),
    /// Memory that is released when this is dropped.
    Other(#[allow(dead_code, reason = "it is held, not read")] Box<dyn MemoryOwner>),
}

/// What keeps memory allocated, and releases it when it is dropped.
pub trait MemoryOwner: fmt::Debug + Send + Sync {}

// A panic leaves no storage half-changed, whatever owns its memory.
impl UnwindSafe for Storage {}
impl RefUnwindSafe for Storage {}

// SAFETY: a storage owns its bytes exclusively, like a `Vec`, or they are never written (`Mapped`), and all element types
// are `Send`, as are all owners.
unsafe impl Send for Storage {}
// SAFETY: through `&Storage` bytes are only read; writing needs `&mut Storage` and is rejected for `Mapped`.
unsafe impl Sync for Storage {}

impl Storage {
    /// A zeroed buffer aligned to [`ALIGNMENT`]. Zero is a valid value of every element type.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        // For the default alignment, `alloc_zeroed` returns fresh zero pages of the system. For a larger alignment it would
        // write the zeros and so touch every page.
        Self::allocated(bytes, alloc::alloc_zeroed)
    }

    /// A buffer of arbitrary bytes aligned to [`ALIGNMENT`], which are a value of every element type but bool. Zeroing a
    /// buffer that is written next would take as long as writing it.
    pub(super) fn arbitrary(bytes: usize) -> Result<Self> {
        Self::allocated(bytes, alloc_arbitrary)
    }

    /// A buffer from a function that returns initialised memory, or null.
    fn allocated(bytes: usize, allocate: unsafe fn(AllocLayout) -> *mut u8) -> Result<Self> {
        if bytes == 0 {
            return Ok(Self { data: NonNull::<CacheLine>::dangling().cast(), bytes, owner: Owner::Nothing });
        }
        let refuse = || TensorError::OutOfMemory { bytes };
        let room = bytes.checked_add(ALIGNMENT).ok_or_else(refuse)?;
        let layout = AllocLayout::from_size_align(room, align_of::<u128>()).map_err(|_| refuse())?;
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { allocate(layout) }).ok_or_else(refuse)?;
        let skipped = (base.as_ptr() as usize).wrapping_neg() % ALIGNMENT;
        // SAFETY: fewer than `ALIGNMENT` bytes are skipped, and `ALIGNMENT` bytes more than needed were allocated.
        let data = unsafe { base.add(skipped) };
        Ok(Self { data, bytes, owner: Owner::Aligned { base, layout } })
    }

    /// Takes over the memory of a vector.
    pub(super) fn from_vec<T: Element>(vec: Vec<T>) -> Self {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        let (len, capacity) = (vec.len(), vec.capacity());
        // SAFETY: a vector's pointer is never null.
        let data = unsafe { NonNull::new_unchecked(vec.as_mut_ptr()) }.cast();
        let owner = Owner::Vec { element: TypeId::of::<T>(), len, capacity, release: release_vec::<T> };
        Self { data, bytes: len * size_of::<T>(), owner }
    }

    /// Returns the vector this storage was created from, or the storage itself if it did not come from a `Vec<T>`.
    pub(super) fn into_vec<T: Element>(self) -> std::result::Result<Vec<T>, Self> {
        match self.owner {
            Owner::Vec { element, len, capacity, .. } if element == TypeId::of::<T>() => {
                let this = std::mem::ManuallyDrop::new(self);
                // SAFETY: these are the raw parts that `from_vec::<T>` stored (the type is the same), and `this` is
                // never dropped, so they have one owner.
                Ok(unsafe { Vec::from_raw_parts(this.data.cast().as_ptr(), len, capacity) })
            }
            _ => Err(self),
        }
    }

    /// `bytes` bytes of a mapped file from `start` on; `None` if the file ends before.
    pub(super) fn mapped(map: &Arc<Mmap>, start: usize, bytes: usize) -> Option<Self> {
        let part = map.get(start..start.checked_add(bytes)?)?;
        let data = NonNull::new(part.as_ptr().cast_mut())?;
        Some(Self { data, bytes, owner: Owner::Mapped(Arc::clone(map)) })
    }

    /// Memory that `owner` releases when it is dropped.
    ///
    /// # Safety
    /// Until then, `data` must point to `bytes` initialised bytes, to which nothing else writes or refers.
    pub unsafe fn owned_by(owner: Box<dyn MemoryOwner>, data: NonNull<u8>, bytes: usize) -> Self {
        Self { data, bytes, owner: Owner::Other(owner) }
    }

    /// Returns true if the sole owner of the storage may write to it.
    pub(super) fn is_writable(&self) -> bool {
        !matches!(self.owner, Owner::Mapped(_))
    }

    /// Start of the bytes, for reading.
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.data.as_ptr()
    }

    /// Start of the bytes, for writing if the storage [is writable](Self::is_writable).
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        debug_assert!(self.is_writable());
        self.data.as_ptr()
    }

    /// The number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "not needed")]
    pub fn len(&self) -> usize {
        self.bytes
    }
}

/// Allocates memory with unspecified contents. With debug assertions it is filled with large numbers, so that tests catch elements
/// that are never written. On targets without stable inline assembly it is zeroed.
///
/// # Safety
/// The size must not be zero.
unsafe fn alloc_arbitrary(layout: AllocLayout) -> *mut u8 {
    #[cfg(any(miri, debug_assertions, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        // SAFETY: the caller's promise.
        let base = unsafe { alloc::alloc_zeroed(layout) };
        if cfg!(debug_assertions) && !base.is_null() {
            // SAFETY: the memory has this size.
            unsafe { base.write_bytes(0x7f, layout.size()) };
        }
        base
    }
    #[cfg(not(any(miri, debug_assertions, not(any(target_arch = "x86_64", target_arch = "aarch64")))))]
    {
        // SAFETY: the caller's promise.
        let base = unsafe { alloc::alloc(layout) };
        // SAFETY: there is no instruction. But as far as the compiler knows, it is one that writes to the memory, whose bytes
        // are initialised from here on: to those that happen to be there.
        unsafe { std::arch::asm!("/* {0} is written */", in(reg) base, options(nostack, preserves_flags)) };
        base
    }
}

/// Drops a vector given by its raw parts.
///
/// # Safety
/// `data` and `capacity` must come from a `Vec<T>` that has no other owner.
unsafe fn release_vec<T>(data: NonNull<u8>, capacity: usize) {
    // SAFETY: by contract. Length 0 is enough: elements are `Copy` and need no drop.
    drop(unsafe { Vec::<T>::from_raw_parts(data.cast().as_ptr(), 0, capacity) });
}

impl Drop for Storage {
    fn drop(&mut self) {
        match self.owner {
            Owner::Nothing | Owner::Mapped(_) | Owner::Other(_) => {}
            // SAFETY: allocated in `allocated` with this layout.
            Owner::Aligned { base, layout } => unsafe { alloc::dealloc(base.as_ptr(), layout) },
            Owner::Vec { capacity, release, .. } => {
                // SAFETY: the parts come from `from_vec`, which paired them with the right `release`.
                unsafe { release(self.data, capacity) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn buffers_are_aligned_and_zeroed() {
        for bytes in [0, 1, 63, 64, 1000] {
            let storage = Storage::zeroed(bytes).unwrap();
            assert_eq!(storage.as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(storage.len(), bytes);
            // SAFETY: the storage has this many bytes.
            let found = unsafe { std::slice::from_raw_parts(storage.as_ptr(), bytes) };
            assert!(found.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn arbitrary_buffers_are_aligned() {
        for bytes in [0, 1, 63, 64, 1000] {
            let storage = Storage::arbitrary(bytes).unwrap();
            assert_eq!((storage.as_ptr() as usize % ALIGNMENT, storage.len()), (0, bytes));
        }
        assert!(matches!(Storage::arbitrary(usize::MAX), Err(TensorError::OutOfMemory { .. })));
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(matches!(Storage::zeroed(usize::MAX), Err(TensorError::OutOfMemory { .. })));
        assert!(matches!(Storage::zeroed(isize::MAX as usize - 63), Err(TensorError::OutOfMemory { .. })));
    }

    #[test]
    fn a_vector_round_trips_without_a_copy() {
        let vec = vec![1.0f32, 2.0, 3.0];
        let address = vec.as_ptr();
        let storage = Storage::from_vec(vec);
        let storage = storage.into_vec::<i32>().unwrap_err();
        let vec = storage.into_vec::<f32>().unwrap();
        assert_eq!((vec.as_ptr(), &vec[..]), (address, &[1.0, 2.0, 3.0][..]));
    }

    /// A vector whose memory is lent to a storage.
    #[derive(Debug)]
    struct Lender {
        #[allow(dead_code, reason = "it is held, not read")]
        memory: Vec<i64>,
        released: Arc<AtomicBool>,
    }

    impl MemoryOwner for Lender {}

    impl Drop for Lender {
        fn drop(&mut self) {
            self.released.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn memory_of_another_owner_is_written_and_released() {
        let released = Arc::new(AtomicBool::new(false));
        let mut memory = vec![0i64; 4];
        let data = NonNull::new(memory.as_mut_ptr()).unwrap().cast();
        let owner = Box::new(Lender { memory, released: Arc::clone(&released) });
        // SAFETY: the owner keeps the 32 bytes, and does not use them itself.
        let mut storage = unsafe { Storage::owned_by(owner, data, 32) };
        assert!(storage.is_writable());
        // SAFETY: the storage has this many bytes.
        unsafe { storage.as_mut_ptr().write_bytes(3, 32) };
        let storage = storage.into_vec::<i64>().unwrap_err();
        assert_eq!((storage.len(), storage.as_ptr()), (32, data.as_ptr().cast_const()));
        assert!(!released.load(Ordering::Relaxed));
        drop(storage);
        assert!(released.load(Ordering::Relaxed));
    }

    #[test]
    fn an_unreturned_vector_is_released() {
        drop(Storage::from_vec(vec![1u8; 1000]));
        drop(Storage::from_vec(Vec::<i64>::new()));
        drop(Storage::zeroed(10).unwrap().into_vec::<u8>());
    }
}
