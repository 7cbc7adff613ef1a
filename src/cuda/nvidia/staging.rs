//! Memory of the host that a GPU reads and writes by itself, through which bytes come and go.
//!
//! Copies from and to any other memory wait for each other, and are slower. Two halves take turns: while the GPU copies one,
//! the processor fills or empties the other.

use super::queue::Stream;
use super::refused;
use crate::cuda::device::Result;
use cudarc::driver::result::{self, event};
use cudarc::driver::sys::{CUevent, CUevent_flags};
use std::sync::Arc;

/// The bytes of a half.
const HALF: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Staging {
    halves: [Half; 2],
    /// The half that is used next.
    next: usize,
}

#[derive(Debug)]
struct Half {
    start: *mut u8,
    /// When the GPU is done with it.
    done: CUevent,
    /// It stays for as long as work on the half may be under way.
    stream: Arc<Stream>,
}

// SAFETY: a half is used by one thread at a time, and the driver's handles may be used from all.
unsafe impl Send for Half {}

impl Half {
    fn new(stream: &Arc<Stream>) -> Result<Self> {
        stream.primary.enter()?;
        let done = event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(refused("cuEventCreate"))?;
        // Not write-combined, which would be slow to read.
        // SAFETY: nothing reads the memory before it is written.
        match unsafe { result::malloc_host(HALF, 0) } {
            Ok(start) => Ok(Self { start: start.cast(), done, stream: Arc::clone(stream) }),
            Err(error) => {
                // SAFETY: the event was created above, and nobody else has it.
                let _ = unsafe { event::destroy(done) };
                Err(refused("cuMemHostAlloc")(error))
            }
        }
    }

    /// Waits until the GPU is done with it.
    fn wait(&self) -> Result<()> {
        // SAFETY: the event is there. One that was never recorded is done.
        unsafe { event::synchronize(self.done) }.map_err(refused("cuEventSynchronize"))
    }

    /// Notes that the GPU is done with it once it has done all that was asked for so far.
    fn note(&self) -> Result<()> {
        // SAFETY: both are there.
        unsafe { event::record(self.done, self.stream.handle()) }.map_err(refused("cuEventRecord"))
    }

    /// The bytes. The GPU must be done with them.
    fn bytes(&mut self, len: usize) -> &mut [u8] {
        // SAFETY: there are as many bytes, they were allocated as one, and the GPU does not touch them now.
        unsafe { std::slice::from_raw_parts_mut(self.start, len.min(HALF)) }
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let _ = self.stream.synchronize();
        // SAFETY: all work is done, and nobody else has them.
        unsafe {
            let _ = event::destroy(self.done);
            let _ = result::free_host(self.start.cast());
        }
    }
}

impl Staging {
    pub(super) fn new(stream: &Arc<Stream>) -> Result<Self> {
        Ok(Self { halves: [Half::new(stream)?, Half::new(stream)?], next: 0 })
    }

    fn turn(&mut self) -> &mut Half {
        self.next ^= 1;
        &mut self.halves[self.next & 1]
    }

    /// # Safety
    /// There must be so many bytes of device memory.
    pub(super) unsafe fn upload(&mut self, stream: &Stream, to: u64, from: &[u8]) -> Result<()> {
        let mut to = to;
        for part in from.chunks(HALF) {
            let half = self.turn();
            half.wait()?;
            let bytes = half.bytes(part.len());
            bytes.copy_from_slice(part);
            // SAFETY: by contract there is room, and the bytes stay as they are until the event says that they were copied.
            unsafe { result::memcpy_htod_async(to, bytes, stream.handle()) }
                .map_err(refused("cuMemcpyHtoDAsync"))?;
            half.note()?;
            to += part.len() as u64;
        }
        Ok(())
    }

    /// # Safety
    /// There must be so many bytes of device memory.
    pub(super) unsafe fn download(&mut self, stream: &Stream, to: &mut [u8], from: u64) -> Result<()> {
        let mut from = from;
        // What is on its way: it is taken when the next is.
        let mut coming: Option<&mut [u8]> = None;
        for part in to.chunks_mut(HALF) {
            let half = self.turn();
            half.wait()?;
            // SAFETY: by contract there are as many bytes, and nobody looks at the half before they are there.
            unsafe { result::memcpy_dtoh_async(half.bytes(part.len()), from, stream.handle()) }
                .map_err(refused("cuMemcpyDtoHAsync"))?;
            half.note()?;
            from += part.len() as u64;
            if let Some(part) = coming.replace(part) {
                let half = &mut self.halves[(self.next ^ 1) & 1];
                half.wait()?;
                part.copy_from_slice(half.bytes(part.len()));
            }
        }
        if let Some(part) = coming {
            let half = &mut self.halves[self.next & 1];
            half.wait()?;
            part.copy_from_slice(half.bytes(part.len()));
        }
        Ok(())
    }
}
