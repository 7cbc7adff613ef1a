//! Pinned memory of the host, through which data is copied to and from the device.
//!
//! Copies to and from pageable memory are serialised, and slower. Two halves alternate: while the GPU copies one, the threads of
//! the run fill or empty the other.

use super::driver_error;
use super::queue::Stream;
use crate::cuda::device::Result;
use crate::kernels::parallel::{for_each_chunk, threads};
use cudarc::driver::result::{self, event};
use cudarc::driver::sys::{CUevent, CUevent_flags};
use std::convert::Infallible;
use std::sync::Arc;

/// The bytes of a half: few enough that both stay in a core's cache, and that the first and the last copy, during which either the
/// GPU or the CPU has nothing to do, are short. With halves of 4 MiB, the CPU copies a quarter less per second.
const HALF: usize = 512 << 10;

/// The bytes that are worth another thread.
const MIN_SHARE: usize = 128 << 10;

#[derive(Debug)]
pub(super) struct Staging {
    halves: [Half; 2],
    /// The half that is used next.
    next: usize,
}

#[derive(Debug)]
struct Half {
    start: *mut u8,
    /// Recorded when the GPU is done with the half.
    done: CUevent,
    /// Kept alive as long as work on the half may be running.
    stream: Arc<Stream>,
}

// SAFETY: a half is used by one thread at a time, and the driver's handles may be used from all threads.
unsafe impl Send for Half {}

impl Half {
    fn new(stream: &Arc<Stream>) -> Result<Self> {
        stream.primary.make_current()?;
        let done =
            event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(driver_error("cuEventCreate"))?;
        // Not write-combined, which would be slow to read.
        // SAFETY: nothing reads the memory before it is written.
        match unsafe { result::malloc_host(HALF, 0) } {
            Ok(start) => Ok(Self { start: start.cast(), done, stream: Arc::clone(stream) }),
            Err(error) => {
                // SAFETY: the event was created above, and this is its only owner.
                let _ = unsafe { event::destroy(done) };
                Err(driver_error("cuMemHostAlloc")(error))
            }
        }
    }

    /// Waits until the GPU is done with the half.
    fn wait(&self) -> Result<()> {
        // SAFETY: the event is valid. An event that was never recorded counts as complete.
        unsafe { event::synchronize(self.done) }.map_err(driver_error("cuEventSynchronize"))
    }

    /// Records that the GPU is done with the half after all work enqueued so far.
    fn record(&self) -> Result<()> {
        // SAFETY: both are valid.
        unsafe { event::record(self.done, self.stream.handle()) }.map_err(driver_error("cuEventRecord"))
    }

    /// The half's bytes. The GPU must be done with them.
    fn bytes(&mut self, len: usize) -> &mut [u8] {
        // SAFETY: the allocation has that many bytes, and the GPU does not access them now.
        unsafe { std::slice::from_raw_parts_mut(self.start, len.min(HALF)) }
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let _ = self.stream.synchronize();
        // SAFETY: all work is done, and this is the only owner of both.
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

    fn next_half(&mut self) -> &mut Half {
        self.next ^= 1;
        &mut self.halves[self.next & 1]
    }

    /// # Safety
    /// The device memory must have that many bytes.
    pub(super) unsafe fn upload(&mut self, stream: &Stream, to: u64, from: &[u8]) -> Result<()> {
        let mut to = to;
        for part in from.chunks(HALF) {
            let half = self.next_half();
            half.wait()?;
            let bytes = half.bytes(part.len());
            copy(bytes, part);
            // SAFETY: by contract there is room, and the bytes do not change until the event reports that they were copied.
            unsafe { result::memcpy_htod_async(to, bytes, stream.handle()) }
                .map_err(driver_error("cuMemcpyHtoDAsync"))?;
            half.record()?;
            to += part.len() as u64;
        }
        Ok(())
    }

    /// # Safety
    /// The device memory must have that many bytes.
    pub(super) unsafe fn download(&mut self, stream: &Stream, to: &mut [u8], from: u64) -> Result<()> {
        let mut from = from;
        // The chunk that is being copied; it is read after the next copy is enqueued.
        let mut pending: Option<&mut [u8]> = None;
        for part in to.chunks_mut(HALF) {
            let half = self.next_half();
            half.wait()?;
            // SAFETY: by contract there are that many bytes, and the half is not read before they arrive.
            unsafe { result::memcpy_dtoh_async(half.bytes(part.len()), from, stream.handle()) }
                .map_err(driver_error("cuMemcpyDtoHAsync"))?;
            half.record()?;
            from += part.len() as u64;
            if let Some(part) = pending.replace(part) {
                let half = &mut self.halves[(self.next ^ 1) & 1];
                half.wait()?;
                let bytes = half.bytes(part.len());
                copy(part, bytes);
            }
        }
        if let Some(part) = pending {
            let half = &mut self.halves[self.next & 1];
            half.wait()?;
            let bytes = half.bytes(part.len());
            copy(part, bytes);
        }
        Ok(())
    }
}

/// Copies bytes to others of the same length, with the threads of the run if there are enough of them.
fn copy(to: &mut [u8], from: &[u8]) {
    let share = to.len().div_ceil(threads()).max(MIN_SHARE);
    let Ok(()) = for_each_chunk::<_, Infallible>(to, share, &|start, to| {
        to.copy_from_slice(&from[start..start + to.len()]);
        Ok(())
    });
}
