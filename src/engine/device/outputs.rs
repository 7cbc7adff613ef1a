//! Page-locked buffers for outputs, which a device writes directly.

use crate::cuda::device::Device;
use crate::engine::prepared::Job;
use crate::memory::Root;
use crate::tensor::{DType, Tensor};
use std::collections::BTreeSet;

/// The bytes of an output from which on it pays to page-lock its buffer.
const MIN_BYTES: usize = 64 << 10;

/// The positions of the outputs whose buffers were page-locked, or need not be.
#[derive(Debug, Default)]
pub(super) struct PinnedOutputs(BTreeSet<usize>);

impl PinnedOutputs {
    /// Replaces the buffer of an output that is written again: page-locking takes longer than it saves in a single run. It is
    /// done once per output, so that callers that hold on to results do not pay for it in every run.
    pub(super) fn pin(&mut self, device: &Device, position: usize, jobs: &[Job], buffer: &mut Tensor) {
        // Bools take a detour in any case, on which they are checked.
        if buffer.byte_len() < MIN_BYTES || buffer.dtype() == DType::Bool || !self.0.insert(position) {
            return;
        }
        let writes = |job: &Job| job.writes.iter().any(|place| place.root == Root::Output(position));
        if jobs.iter().any(|job| job.is_on_device && writes(job)) {
            match device.pinned(buffer.dtype(), buffer.shape()) {
                Ok(pinned) => *buffer = pinned,
                Err(error) => log::debug!("output {position} is not page-locked: {error}"),
            }
        }
    }
}
