//! The context of a GPU that all of a program's work on it belongs to.

use super::refused;
use crate::cuda::device::Result;
use cudarc::driver::result::{ctx, device, primary_ctx};
use cudarc::driver::sys::{CUcontext, CUdevice};

/// The primary context, for as long as this is there.
#[derive(Debug)]
pub(super) struct Primary {
    pub(super) device: CUdevice,
    context: CUcontext,
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
        Ok(Self { device, context })
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
