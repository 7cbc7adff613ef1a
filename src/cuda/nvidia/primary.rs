//! The primary context of a GPU, which all work of a program on it shares.

use super::driver_error;
use crate::cuda::device::Result;
use cudarc::driver::result::{ctx, device, primary_ctx};
use cudarc::driver::sys::{CUcontext, CUdevice};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The primary context, retained as long as this lives.
#[derive(Debug)]
pub(super) struct PrimaryContext {
    pub(super) device: CUdevice,
    context: CUcontext,
    /// Read-locked during captures: synchronising the context while a stream is captured is an error.
    captures: RwLock<()>,
}

// SAFETY: the driver's contexts may be used from all threads.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above.
unsafe impl Sync for PrimaryContext {}

impl PrimaryContext {
    /// Retains the context of a GPU. The driver must be loaded.
    pub(super) fn retain(ordinal: i32) -> Result<Self> {
        let device = device::get(ordinal).map_err(driver_error("cuDeviceGet"))?;
        // SAFETY: the driver returned the device.
        let context =
            unsafe { primary_ctx::retain(device) }.map_err(driver_error("cuDevicePrimaryCtxRetain"))?;
        Ok(Self { device, context, captures: RwLock::new(()) })
    }

    /// A guard to hold while work is captured.
    pub(super) fn while_capturing(&self) -> RwLockReadGuard<'_, ()> {
        self.captures.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all work on the GPU, after the end of captures.
    pub(super) fn synchronize(&self) -> Result<()> {
        let _exclusive = self.captures.write().unwrap_or_else(PoisonError::into_inner);
        ctx::synchronize().map_err(driver_error("cuCtxSynchronize"))
    }

    /// Makes it the current context of this thread.
    pub(super) fn make_current(&self) -> Result<()> {
        // SAFETY: the context lives until this is dropped.
        unsafe { ctx::set_current(self.context) }.map_err(driver_error("cuCtxSetCurrent"))
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: it was retained once, and is not used after this.
        let _ = unsafe { primary_ctx::release(self.device) };
    }
}
