//! Contexts of the engine, in which calls run.

use crate::built::Built;
use crate::error::OrRaise;
use crate::process;
use ixion::engine::{Context, EngineError};
use ixion::tensor::{TensorView, TensorViewMut};
use ixion::{CancelToken, Tensor};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run that takes less is not interrupted by signals: whoever presses Ctrl-C does not notice. It stays on its thread, where
/// kernels keep memory for the next run.
const SHORT: Duration = Duration::from_millis(100);

/// A context of the engine, and what is known of its runs.
pub(crate) struct Slot {
    context: Context<'static>,
    cancel: CancelToken,
    /// The size of the largest inputs, in bytes, with which a run was short.
    short_bytes: Option<usize>,
    is_stuck: bool,
}

impl Slot {
    /// A new context.
    ///
    /// # Errors
    /// As [`Built::check_process`] and [`Context::shared`].
    pub(crate) fn new(py: Python<'_>, built: &Built) -> PyResult<Self> {
        built.check_process()?;
        let context = py.detach(|| Context::shared(Arc::clone(built.plan()))).or_raise()?;
        let cancel = context.cancel_token();
        Ok(Self { context, cancel, short_bytes: None, is_stuck: false })
    }

    /// A token that cancels the run in progress, or the next one.
    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Returns true if the context can run again.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_stuck
    }

    /// Discards what is known of the shapes that were seen.
    pub(crate) fn clear(&mut self) {
        self.context.clear();
    }

    /// The bytes of the memory for activations.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.context.arena_bytes()
    }

    /// Runs the model without the interpreter. Returns the outputs for which there is no target. A long run is ended by signals
    /// such as that of Ctrl-C.
    ///
    /// # Errors
    /// As [`Context::run_into`]; what a signal's handler raises.
    pub(crate) fn run(
        &mut self,
        py: Python<'_>,
        built: &Built,
        tensors: Tensors<'_>,
        timeout: Option<Duration>,
    ) -> PyResult<Vec<Tensor>> {
        let Self { context, cancel, short_bytes, is_stuck } = self;
        context.set_timeout(timeout);
        let bytes = tensors.input_bytes();
        let was_short = short_bytes.is_some_and(|known| bytes <= known);
        let work = move || {
            let start = Instant::now();
            let result = execute(context, built, tensors);
            // Noted here, since a signal's exception takes the place of the result.
            *is_stuck = matches!(result, Err(EngineError::Stuck { .. }));
            (result, start.elapsed())
        };
        let (result, time) = match was_short {
            true => py.detach(work),
            false => process::interruptible(py, cancel, work)?,
        };
        match time < SHORT {
            // A run that failed at once says nothing.
            true if result.is_ok() => *short_bytes = (*short_bytes).max(Some(bytes)),
            false if was_short => *short_bytes = None,
            _ => {}
        }
        result.or_raise()
    }
}

/// The tensors of a run, in the order of the plan's ports.
pub(crate) struct Tensors<'a> {
    /// `None` for an input that is in the array of an output.
    pub(crate) inputs: Vec<Option<TensorView<'a>>>,
    /// The arrays of the caller; `None` for an output that has none. Empty if there are no arrays at all.
    pub(crate) targets: Vec<Option<TensorViewMut<'a>>>,
    /// The positions of inputs, and of the outputs whose arrays hold them.
    pub(crate) donors: &'a [(usize, usize)],
}

impl Tensors<'_> {
    fn input_bytes(&self) -> usize {
        let bytes = |input: &TensorView<'_>| input.num_elements().saturating_mul(input.dtype().size());
        self.inputs.iter().flatten().map(bytes).fold(0, usize::saturating_add)
    }
}

fn execute<'a>(
    context: &'a mut Context<'static>,
    built: &Built,
    Tensors { inputs, targets, donors }: Tensors<'a>,
) -> Result<Vec<Tensor>, EngineError> {
    // The usual case takes no request, whose maps by name take longer than a small model.
    if donors.is_empty() && targets.len() == built.outputs.len() && targets.iter().all(Option::is_some) {
        let inputs: Vec<TensorView<'_>> = inputs.into_iter().flatten().collect();
        let mut targets: Vec<TensorViewMut<'_>> = targets.into_iter().flatten().collect();
        context.run_into(&inputs, &mut targets)?;
        return Ok(Vec::new());
    }
    let mut request = context.request();
    for (port, input) in built.inputs.iter().zip(inputs) {
        if let Some(input) = input {
            request = request.input(&port.key, input)?;
        }
    }
    for (position, (port, target)) in built.outputs.iter().zip(targets).enumerate() {
        let Some(target) = target else { continue };
        let donor = donors.iter().find(|pair| pair.1 == position);
        request = match donor.and_then(|pair| built.inputs.get(pair.0)) {
            Some(input) => request.donate(&input.key, &port.key, target).map_err(undeclared)?,
            None => request.output(&port.key, target)?,
        };
    }
    Ok(request.run()?.into_tensors())
}

/// The error of a donation, with advice in Python's terms.
fn undeclared(error: EngineError) -> EngineError {
    match error {
        EngineError::Donation { input, output, reason } if reason.contains("with_donation") => {
            let reason = format!(
                "give another array for the output, or load the model with `donate={{\"{input}\": \"{output}\"}}`"
            );
            EngineError::Donation { input, output, reason }
        }
        other => other,
    }
}
