//! Operators that run on a GPU, and the memory that is there.
//!
//! A build without GPUs has types of the same names that no value is of, so that the engine is written once.

#[cfg(feature = "gpu")]
mod cuda;
#[cfg(not(feature = "gpu"))]
mod none;
#[cfg(feature = "gpu")]
mod segments;
#[cfg(feature = "gpu")]
mod timing;

#[cfg(feature = "gpu")]
pub(super) use cuda::{Accelerator, DeviceState, OnDevice, is_out_of_memory};
#[cfg(not(feature = "gpu"))]
pub(super) use none::{Accelerator, DeviceState, OnDevice, is_out_of_memory};

/// How much scratch memory layers get on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scratch {
    /// All that they make use of.
    Wanted,
    /// What they cannot do without.
    Least,
}

/// What there is to do at a job of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "a build without GPUs does one job after the other")
)]
pub(super) enum Stretch {
    /// This job alone.
    One,
    /// As many jobs from this one on, each of which is written down.
    Record(usize),
    /// As many jobs are done.
    Done(usize),
}
