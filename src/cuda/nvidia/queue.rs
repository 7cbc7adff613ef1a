//! Streams: queues of work that a GPU executes in order.

use super::calls::LibraryCalls;
use super::driver_error;
use super::graph::Instantiated;
use super::primary::PrimaryContext;
use super::staging::Staging;
use crate::cuda::device::{Call, DriverGraph, DriverQueue, Launch, Libraries, Node, Result};
use cudarc::driver::result;
use cudarc::driver::sys::{CUfunction, CUstream};
use std::sync::Arc;

/// A non-blocking stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) primary: Arc<PrimaryContext>,
    handle: CUstream,
}

// SAFETY: streams may be used from all threads.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new(primary: &Arc<PrimaryContext>) -> Result<Self> {
        primary.make_current()?;
        let handle = result::stream::create(result::stream::StreamKind::NonBlocking);
        Ok(Self { primary: Arc::clone(primary), handle: handle.map_err(driver_error("cuStreamCreate"))? })
    }

    pub(super) fn handle(&self) -> CUstream {
        self.handle
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        self.primary.make_current()?;
        // SAFETY: the stream is valid.
        unsafe { result::stream::synchronize(self.handle) }.map_err(driver_error("cuStreamSynchronize"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.synchronize();
        // SAFETY: this was the stream's only owner.
        let _ = unsafe { result::stream::destroy(self.handle) };
    }
}

/// A queue: a stream, staging memory of the host for copies, and the libraries that work in the stream.
#[derive(Debug)]
pub(super) struct StreamQueue {
    staging: Staging,
    calls: LibraryCalls,
    stream: Arc<Stream>,
}

impl StreamQueue {
    pub(super) fn new(primary: &Arc<PrimaryContext>, libraries: Libraries) -> Result<Self> {
        let stream = Arc::new(Stream::new(primary)?);
        Ok(Self { staging: Staging::new(&stream)?, calls: LibraryCalls::new(libraries), stream })
    }
}

impl DriverQueue for StreamQueue {
    unsafe fn upload(&mut self, to: u64, from: &[u8]) -> Result<()> {
        self.stream.primary.make_current()?;
        // SAFETY: by contract there is that much memory.
        unsafe { self.staging.upload(&self.stream, to, from) }
    }

    unsafe fn download(&mut self, to: &mut [u8], from: u64) -> Result<()> {
        self.stream.primary.make_current()?;
        // SAFETY: by contract there is that much memory.
        unsafe { self.staging.download(&self.stream, to, from) }
    }

    unsafe fn upload_pinned(&mut self, to: u64, from: &[u8]) -> Result<()> {
        self.stream.primary.make_current()?;
        // SAFETY: by contract there is that much memory, and the driver waits for the stream before the bytes are freed.
        unsafe { result::memcpy_htod_async(to, from, self.stream.handle()) }
            .map_err(driver_error("cuMemcpyHtoDAsync"))
    }

    unsafe fn download_pinned(&mut self, to: &mut [u8], from: u64) -> Result<()> {
        self.stream.primary.make_current()?;
        // SAFETY: by contract there is that much memory, and the bytes are borrowed until they have arrived.
        unsafe { result::memcpy_dtoh_async(to, from, self.stream.handle()) }
            .map_err(driver_error("cuMemcpyDtoHAsync"))?;
        self.stream.synchronize()
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<()> {
        self.stream.primary.make_current()?;
        let [blocks, threads] = [launch.grid.blocks, launch.grid.threads].map(|[x, y, z]| (x, y, z));
        // SAFETY: by contract the function is loaded, and the arguments match it.
        unsafe {
            result::launch_kernel(
                launch.function as CUfunction,
                blocks,
                threads,
                launch.grid.shared,
                self.stream.handle,
                launch.arguments,
            )
        }
        .map_err(driver_error("cuLaunchKernel"))
    }

    unsafe fn call(&mut self, call: Call<'_>) -> Result<bool> {
        self.stream.primary.make_current()?;
        // SAFETY: by contract its tensors are valid.
        unsafe { self.calls.run(call, &self.stream) }
    }

    unsafe fn graph(&mut self, nodes: &mut [Node<'_>]) -> Result<Box<dyn DriverGraph>> {
        self.stream.primary.make_current()?;
        // SAFETY: by contract the nodes may be launched.
        Ok(Box::new(unsafe { Instantiated::new(&self.stream, &mut self.calls, nodes) }?))
    }

    fn synchronize(&mut self) -> Result<()> {
        self.stream.synchronize()
    }
}
