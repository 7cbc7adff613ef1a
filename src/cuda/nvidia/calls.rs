//! Work for NVIDIA's libraries: prepared once, then enqueued in a stream or added to a graph.

use super::convolutions::Convolutions;
use super::primary::PrimaryContext;
use super::products::Products;
use super::queue::Stream;
use super::transforms;
use crate::cuda::device::{Call, Libraries, LibraryWork, Result};
use cudarc::driver::sys::CUstream;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Work that a library has been prepared for.
pub(super) trait Prepared: fmt::Debug + Send {
    /// Enqueues the work in a stream.
    ///
    /// # Safety
    /// The call must be for the prepared work, its tensors must live until the work is done, and the stream must be valid.
    unsafe fn run(&self, call: Call<'_>, stream: CUstream) -> Result<()>;
}

/// The libraries of one queue, each initialised on first use.
#[derive(Debug)]
pub(super) struct LibraryCalls {
    products: Lazy<Products>,
    convolutions: Lazy<Convolutions>,
    has_transforms: bool,
    /// Prepared work for calls outside graphs; `None` if a library rejected the work.
    cache: HashMap<Key, Option<Box<dyn Prepared>>>,
    /// The stream in which library work is captured for graphs.
    capture_stream: Option<Stream>,
}

/// What prepared work depends on: the work, the addresses of its tensors, and the bytes of scratch memory.
type Key = (String, Vec<u64>, usize);

/// The maximum number of cached entries.
const MAX_CACHED: usize = 512;

impl LibraryCalls {
    pub(super) fn new(found: Libraries) -> Self {
        Self {
            products: Lazy::new(found.products.is_some()),
            convolutions: Lazy::new(found.convolutions.is_some()),
            has_transforms: found.transforms.is_some(),
            cache: HashMap::new(),
            capture_stream: None,
        }
    }

    /// Enqueues some work in a stream. Returns false if no library can do it; work that a library rejected is not tried again.
    ///
    /// # Safety
    /// As [`Prepared::run`].
    pub(super) unsafe fn run(&mut self, call: Call<'_>, stream: &Stream) -> Result<bool> {
        let key = (format!("{:?}", call.work), call.addresses.to_vec(), call.scratch);
        if !self.cache.contains_key(&key) {
            if self.cache.len() >= MAX_CACHED {
                // Running work may still need its prepared state.
                stream.synchronize()?;
                self.cache.clear();
            }
            let prepared = self.prepare(&call);
            self.cache.insert(key.clone(), prepared);
        }
        let Some(entry) = self.cache.get_mut(&key) else { return Ok(false) };
        let Some(prepared) = entry else { return Ok(false) };
        // SAFETY: it was prepared for this call, whose tensors are valid by contract.
        let done = unsafe { prepared.run(call, stream.handle()) };
        if let Err(error) = &done {
            log::debug!("a library call failed, falling back to kernels: {error}");
            *entry = None;
        }
        // If the device itself failed, the kernels will report it, too.
        Ok(done.is_ok())
    }

    /// The stream in which library work is captured.
    pub(super) fn capture_stream(&mut self, primary: &Arc<PrimaryContext>) -> Result<&Stream> {
        match &mut self.capture_stream {
            Some(stream) => Ok(stream),
            none => Ok(none.insert(Stream::new(primary)?)),
        }
    }

    /// Prepares some work; `None` if there is no library for it, or the library cannot do it. The context must be current.
    pub(super) fn prepare(&mut self, call: &Call<'_>) -> Option<Box<dyn Prepared>> {
        let prepared = match call.work {
            LibraryWork::Product(work) => self.products.get(Products::new)?.prepare(work, call),
            LibraryWork::Convolution(work) => self.convolutions.get(Convolutions::new)?.prepare(work, call),
            LibraryWork::Transform(work) if self.has_transforms => transforms::prepare(work),
            LibraryWork::Transform(_) => return None,
        };
        prepared
            .map_err(|error| log::debug!("a library cannot do this work, falling back to kernels: {error}"))
            .ok()
    }
}

/// A library that is initialised on first use, and missing if that fails.
#[derive(Debug)]
enum Lazy<T> {
    Uninitialized,
    Ready(Arc<T>),
    Missing,
}

impl<T> Lazy<T> {
    fn new(is_available: bool) -> Self {
        if is_available { Self::Uninitialized } else { Self::Missing }
    }

    fn get(&mut self, initialize: impl FnOnce() -> Result<T>) -> Option<Arc<T>> {
        if matches!(self, Self::Uninitialized) {
            *self = match initialize() {
                Ok(library) => Self::Ready(Arc::new(library)),
                Err(error) => {
                    log::warn!("a library failed to initialise, falling back to kernels: {error}");
                    Self::Missing
                }
            };
        }
        match self {
            Self::Ready(library) => Some(Arc::clone(library)),
            _ => None,
        }
    }
}
