//! One run of the model.

use super::inputs::Inputs;
use crate::cli::Failure;
use crate::cli::runner::{Outcome, Runner, run_failure};
use ixion::graph::Trace;
use ixion::tensor::Tensor;
use std::time::Duration;

/// The inputs and results of one run.
pub(super) struct Round {
    pub(super) inputs: Inputs,
    pub(super) outputs: Vec<(String, Tensor)>,
    pub(super) time: Duration,
    pub(super) trace: Option<Trace>,
}

/// Runs the model on these inputs.
pub(super) fn execute(runner: &mut Runner, inputs: Inputs, traced: bool) -> Result<Round, Failure> {
    let tensors: Vec<Tensor> = inputs.iter().map(|(_, tensor)| tensor.clone()).collect();
    let Outcome { outputs, time, record } = runner.run(&tensors, traced).map_err(run_failure)?;
    Ok(Round { inputs, outputs, time, trace: record.map(|record| record.trace) })
}

impl Round {
    /// Removes the last `added` rows of inputs and outputs, which only padded the batch.
    pub(super) fn without(mut self, added: usize) -> Result<Self, Failure> {
        if added == 0 {
            return Ok(self);
        }
        for (_, tensor) in self.inputs.iter_mut().chain(&mut self.outputs) {
            let len = tensor.shape().first().copied().unwrap_or(0);
            *tensor = tensor.narrow(0, 0, len.saturating_sub(added)).map_err(Failure::failed)?;
        }
        Ok(self)
    }
}
