//! The primary context of a GPU, which all work of a program on it shares.

use super::refused;
use crate::cuda::device::Result;
use cudarc::driver::result::{ctx, device, primary_ctx};
use cudarc::driver::sys::{CUcontext, CUdevice};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The primary context, retained as long as this lives.
#[derive(Debug)]
pub(super) struct Primary {
    pub(super) device: CUdevice,
    context: CUcontext,
    /// Read-locked during captures: synchronising the context while a stream is captured is an error.
    captures: RwLock<()>,
}

// SAFETY: the driver's contexts may be used from all threads.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

impl Primary {
    /// Retains the context of a GPU. The driver must be loaded.
    pub(super) fn retain(ordinal: i32) -> Result<Self> {
        let device = device::get(ordinal).map_err(refused("cuDeviceGet"))?;
        // SAFETY: the driver returned the device.
        let context = unsafe { primary_ctx::retain(device) }.map_err(refused("cuDevicePrimaryCtxRetain"))?;
        Ok(Self { device, context, captures: RwLock::new(()) })
    }

    /// A guard to hold while work is captured.
    pub(super) fn while_capturing(&self) -> RwLockReadGuard<'_, ()> {
        self.captures.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all work on the GPU, after the end of captures.
    pub(super) fn synchronize(&self) -> Result<()> {
        let _exclusive = self.captures.write().unwrap_or_else(PoisonError::into_inner);
        ctx::synchronize().map_err(refused("cuCtxSynchronize"))
    }

    /// Makes it the current context of this thread.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: the context lives until this is dropped.
        unsafe { ctx::set_current(self.context) }.map_err(refused("cuCtxSetCurrent"))
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: it was retained once, and is not used after this.
        let _ = unsafe { primary_ctx::release(self.device) };
    }
}
