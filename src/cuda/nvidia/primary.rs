//! The context of a GPU that all of a program's work on it belongs to.

use super::refused;
use crate::cuda::device::Result;
use cudarc::driver::result::{ctx, device, primary_ctx};
use cudarc::driver::sys::{CUcontext, CUdevice};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The primary context, for as long as this is there.
#[derive(Debug)]
pub(super) struct Primary {
    pub(super) device: CUdevice,
    context: CUcontext,
    /// Nobody may wait for the whole context while work of one of its streams is captured.
    captures: RwLock<()>,
}

// SAFETY: the driver's contexts may be used from all threads.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

impl Primary {
    /// The context of a GPU. The driver must be loaded.
    pub(super) fn retain(ordinal: i32) -> Result<Self> {
        let device = device::get(ordinal).map_err(refused("cuDeviceGet"))?;
        // SAFETY: the driver named the device.
        let context = unsafe { primary_ctx::retain(device) }.map_err(refused("cuDevicePrimaryCtxRetain"))?;
        Ok(Self { device, context, captures: RwLock::new(()) })
    }

    /// Is held while work is captured.
    pub(super) fn while_capturing(&self) -> RwLockReadGuard<'_, ()> {
        self.captures.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all work on the GPU, and for what is being captured.
    pub(super) fn synchronize(&self) -> Result<()> {
        let _alone = self.captures.write().unwrap_or_else(PoisonError::into_inner);
        ctx::synchronize().map_err(refused("cuCtxSynchronize"))
    }

    /// Makes it the one that the calls of this thread mean.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: the context stays until this is dropped.
        unsafe { ctx::set_current(self.context) }.map_err(refused("cuCtxSetCurrent"))
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: it was retained once, and nothing of it is used after this.
        let _ = unsafe { primary_ctx::release(self.device) };
    }
}
