//! NVIDIA GPUs, through the libraries of their driver and NVRTC, the kernel compiler; and through cuBLASLt, cuDNN and cuFFT if
//! they are installed.
//!
//! All of them are loaded only when a program requests a device, so a program that is built with them starts on machines that
//! lack them. If a required library is missing, the error lists where it was searched.

mod calls;
mod compiler;
mod convolutions;
mod driver;
mod graph;
mod libraries;
mod primary;
mod products;
mod queue;
mod staging;
mod transforms;

pub use compiler::{Compiled, compile};

use super::device::{CudaError, Device, Info, KernelCache, Result};
use cudarc::driver::result::DriverError;
use driver::Nvidia;

/// The prefix of GPU IDs: `cuda` is the first GPU, `cuda:1` the second.
pub(super) const ID: &str = "cuda";

/// The GPUs of this machine.
///
/// # Errors
/// [`CudaError::NoDevice`] if there is no driver, the driver is too old, or there is no GPU.
pub fn devices() -> Result<Vec<Info>> {
    let count = driver::count(ID)?;
    (0..count).map(|ordinal| driver::describe(ordinal, &id(ordinal))).collect()
}

/// Opens the GPU with this number.
///
/// # Errors
/// As [`devices`], and [`CudaError::NoDevice`] if there is no GPU with this number.
pub fn open(ordinal: usize, cache: KernelCache) -> Result<Device> {
    let id = id(ordinal);
    let count = driver::count(&id)?;
    if ordinal >= count {
        let plural = if count == 1 { "" } else { "s" };
        let reason = format!("this machine has {count} GPU{plural}, numbered from 0");
        return Err(CudaError::NoDevice { wanted: id, reason });
    }
    Ok(Device::new(Box::new(Nvidia::open(ordinal, &id)?), cache))
}

/// The number of the GPU with an ID such as `cuda` or `cuda:1`; `None` for other kinds of devices.
pub(super) fn ordinal(id: &str) -> Option<usize> {
    match id.strip_prefix(ID)? {
        "" => Some(0),
        rest => rest.strip_prefix(':')?.parse().ok(),
    }
}

fn id(ordinal: usize) -> String {
    format!("{ID}:{ordinal}")
}

/// Converts the driver's error of a call. The driver must be loaded.
fn driver_error(call: &'static str) -> impl Fn(DriverError) -> CudaError {
    move |error| CudaError::Driver { call: call.to_owned(), reason: reason(error) }
}

/// Converts another library's error of a call.
fn library_error<E: std::fmt::Display>(call: &'static str) -> impl Fn(E) -> CudaError {
    move |error| CudaError::Driver { call: call.to_owned(), reason: error.to_string() }
}

fn reason(error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    format!("{} ({})", text.unwrap_or_default(), name.unwrap_or_else(|_| format!("{:?}", error.0)))
}
