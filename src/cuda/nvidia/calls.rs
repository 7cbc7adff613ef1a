//! Work that NVIDIA's libraries do: prepared once, then put into a stream or a graph.

use super::convolutions::Convolutions;
use super::primary::Primary;
use super::products::Products;
use super::queue::Stream;
use super::transforms;
use crate::cuda::device::{Call, Libraries, LibraryWork, Result};
use cudarc::driver::sys::CUstream;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Work that a library knows how to do.
pub(super) trait Prepared: fmt::Debug + Send {
    /// Puts it into a stream.
    ///
    /// # Safety
    /// The call must be of the work that was prepared, its tensors must stay until the work is done, and the stream must be there.
    unsafe fn run(&self, call: Call<'_>, stream: CUstream) -> Result<()>;
}

/// The libraries of one queue, which are begun when the first work comes.
#[derive(Debug)]
pub(super) struct Calls {
    products: Lazy<Products>,
    convolutions: Lazy<Convolutions>,
    has_transforms: bool,
    /// What was prepared for calls one by one; none for those that a library refused.
    known: HashMap<Key, Option<Box<dyn Prepared>>>,
    /// A stream in which libraries show what they do, where a graph is made.
    captured: Option<Stream>,
}

/// What a way to do some work depends on: the work, where its tensors are, and the bytes of scratch memory.
type Key = (String, Vec<u64>, usize);

/// So many ways are kept.
const MOST: usize = 512;

impl Calls {
    pub(super) fn new(found: Libraries) -> Self {
        Self {
            products: Lazy::new(found.products.is_some()),
            convolutions: Lazy::new(found.convolutions.is_some()),
            has_transforms: found.transforms.is_some(),
            known: HashMap::new(),
            captured: None,
        }
    }

    /// Puts some work into a stream; whether a library knows how. One that refuses is not asked again.
    ///
    /// # Safety
    /// As of [`Prepared::run`].
    pub(super) unsafe fn run(&mut self, call: Call<'_>, stream: &Stream) -> Result<bool> {
        let key = (format!("{:?}", call.work), call.addresses.to_vec(), call.scratch);
        if !self.known.contains_key(&key) {
            if self.known.len() >= MOST {
                // Work that is under way may still need what was prepared for it.
                stream.synchronize()?;
                self.known.clear();
            }
            let prepared = self.prepare(&call);
            self.known.insert(key.clone(), prepared);
        }
        let Some(way) = self.known.get_mut(&key) else { return Ok(false) };
        let Some(prepared) = way else { return Ok(false) };
        // SAFETY: it was prepared for this call, whose tensors are there by contract.
        let done = unsafe { prepared.run(call, stream.handle()) };
        if let Err(error) = &done {
            log::debug!("kernels do what a library refuses: {error}");
            *way = None;
        }
        // A device that failed says so to the kernels, too.
        Ok(done.is_ok())
    }

    /// The stream in which libraries show what they do.
    pub(super) fn captured(&mut self, primary: &Arc<Primary>) -> Result<&Stream> {
        match &mut self.captured {
            Some(stream) => Ok(stream),
            none => Ok(none.insert(Stream::new(primary)?)),
        }
    }

    /// Finds a way to do some work; none where there is no library, or it knows none. The context must have been entered.
    pub(super) fn prepare(&mut self, call: &Call<'_>) -> Option<Box<dyn Prepared>> {
        let prepared = match call.work {
            LibraryWork::Product(work) => self.products.get(Products::new)?.prepare(work, call),
            LibraryWork::Convolution(work) => self.convolutions.get(Convolutions::new)?.prepare(work, call),
            LibraryWork::Transform(work) if self.has_transforms => transforms::prepare(work),
            LibraryWork::Transform(_) => return None,
        };
        prepared.map_err(|error| log::debug!("kernels do what a library does not: {error}")).ok()
    }
}

/// A library that is begun once, unless that fails.
#[derive(Debug)]
enum Lazy<T> {
    Waits,
    Begun(Arc<T>),
    Missing,
}

impl<T> Lazy<T> {
    fn new(is_there: bool) -> Self {
        if is_there { Self::Waits } else { Self::Missing }
    }

    fn get(&mut self, begin: impl FnOnce() -> Result<T>) -> Option<Arc<T>> {
        if matches!(self, Self::Waits) {
            *self = match begin() {
                Ok(library) => Self::Begun(Arc::new(library)),
                Err(error) => {
                    log::warn!("kernels of our own do what a library was to do: {error}");
                    Self::Missing
                }
            };
        }
        match self {
            Self::Begun(library) => Some(Arc::clone(library)),
            _ => None,
        }
    }
}
