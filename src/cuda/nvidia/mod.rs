//! NVIDIA's GPUs, by the libraries of their driver and NVRTC, its compiler; and by cuBLASLt, cuDNN and cuFFT where they are found.
//!
//! All are looked for when a program asks for a device, never before: a program that was built with them starts on a machine
//! that has none. What is missing and needed is an error that says where it was looked for.

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

/// How GPUs are asked for: `cuda` is the first, `cuda:1` the second.
pub const ID: &str = "cuda";

/// The GPUs of this machine.
///
/// # Errors
/// [`CudaError::NoDevice`] where there is no driver, one that is too old, or no GPU.
pub fn devices() -> Result<Vec<Info>> {
    let count = driver::count(ID)?;
    (0..count).map(|ordinal| driver::describe(ordinal, &id(ordinal))).collect()
}

/// The GPU of this number.
///
/// # Errors
/// As [`devices`], and [`CudaError::NoDevice`] for a number that none has.
pub fn open(ordinal: usize, cache: KernelCache) -> Result<Device> {
    let id = id(ordinal);
    let count = driver::count(&id)?;
    if ordinal >= count {
        let reason = format!("this machine has {count}, counted from 0");
        return Err(CudaError::NoDevice { wanted: id, reason });
    }
    Ok(Device::new(Box::new(Nvidia::open(ordinal, &id)?), cache))
}

/// The number of a GPU in `cuda` or `cuda:1`; none for another kind of device.
pub fn ordinal(id: &str) -> Option<usize> {
    match id.strip_prefix(ID)? {
        "" => Some(0),
        rest => rest.strip_prefix(':')?.parse().ok(),
    }
}

fn id(ordinal: usize) -> String {
    format!("{ID}:{ordinal}")
}

/// What the driver says of a call that failed. It must be loaded.
fn refused(call: &'static str) -> impl Fn(DriverError) -> CudaError {
    move |error| CudaError::Driver { call: call.to_owned(), reason: reason(error) }
}

fn reason(error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    format!("{} ({})", text.unwrap_or_default(), name.unwrap_or_else(|_| format!("{:?}", error.0)))
}
