//! Operators that run on a GPU, and the memory that is there.
//!
//! A build without GPUs has types of the same names that no value is of, so that the engine is written once.

#[cfg(feature = "gpu")]
mod cuda;
#[cfg(not(feature = "gpu"))]
mod none;

#[cfg(feature = "gpu")]
pub(super) use cuda::{Accelerator, DeviceState, OnDevice};
#[cfg(not(feature = "gpu"))]
pub(super) use none::{Accelerator, DeviceState, OnDevice};
