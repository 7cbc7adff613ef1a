//! Operators that run on a GPU, and its memory.
//!
//! A build without GPUs has uninhabited types of the same names, so that the engine is written once.

#[cfg(feature = "gpu")]
mod cuda;
#[cfg(not(feature = "gpu"))]
mod none;
#[cfg(feature = "gpu")]
mod outputs;
#[cfg(feature = "gpu")]
mod segments;
#[cfg(feature = "gpu")]
mod timing;

#[cfg(feature = "gpu")]
pub(super) use cuda::{Accelerator, DeviceState, OnDevice, is_out_of_memory};
#[cfg(not(feature = "gpu"))]
pub(super) use none::{Accelerator, DeviceState, OnDevice, is_out_of_memory};

/// The amount of scratch memory that layers get on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scratch {
    /// As much as they make use of.
    Preferred,
    /// As little as they can run with.
    Minimum,
}

/// How to run the jobs of a plan from some position on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "a build without GPUs runs the jobs one by one"))]
pub(super) enum SegmentAction {
    /// Run this job on its own.
    One,
    /// Run this number of jobs, starting with this one, while they are recorded.
    Record(usize),
    /// This number of jobs has been run already.
    Done(usize),
}
