//! One plan for many shapes, and many runs of it in parallel.

use super::{Builder, EngineError, Formats, Plan, Precision, Scales};
use crate::shape::InputRange;
use crate::tensor::{DType, Tensor};

// ANCHOR: plan_for
/// Builds one plan for all shapes of an f32 input from `least` to `most`, optimised for `best`. With scales, it uses int8
/// wherever possible.
///
/// # Errors
/// As [`InputRange::new`] and [`Builder::build`].
pub fn plan_for(
    builder: Builder,
    input: &str,
    [least, best, most]: [&[usize]; 3],
    scales: Option<&Scales>,
) -> Result<Plan, EngineError> {
    // ANCHOR: plan_for_todo -- task 6: a builder with this range and, if there are scales, with int8 in its narrowest formats
    let range = InputRange::new(input, DType::F32, least, best, most)?;
    let builder = builder.with_range(range);
    let builder = match scales {
        None => builder,
        Some(scales) => builder
            .with_precisions([Precision::Int8])
            .with_scales(scales.clone())
            .with_formats(Formats::Narrowest),
    };
    builder.build()
    // ANCHOR_END: plan_for_todo
}
// ANCHOR_END: plan_for

// ANCHOR: run_all
/// Runs a plan on many inputs, each with its own shape, on at most `threads` threads with one context each. Outputs are in the
/// order of the inputs.
///
/// ```
/// use ixion::engine::{Builder, run_all};
/// use ixion::tensor::{DType, Tensor};
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/digits.pnnx.param");
/// let plan = Builder::new(path).build()?;
/// let batches = [3, 1, 2].map(|len| Tensor::zeros(DType::F32, &[len, 1, 8, 8]));
/// let batches = batches.into_iter().map(|batch| Ok(vec![batch?])).collect::<Result<Vec<_>, ixion::tensor::TensorError>>()?;
/// let outputs = run_all(&plan, &batches, 2)?;
/// assert_eq!(outputs[2][0].shape().dims(), [2, 10]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the first error of [`Plan::context`] or of a run, in the order of the inputs, or [`EngineError::Threads`] if the
/// system cannot start another thread. The other threads still finish their shares.
pub fn run_all(plan: &Plan, inputs: &[Vec<Tensor>], threads: usize) -> Result<Vec<Vec<Tensor>>, EngineError> {
    // ANCHOR: run_all_todo -- task 6: split the inputs into one share per thread, which has its own context; all outputs in order
    let share = inputs.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let run = |inputs: &[Vec<Tensor>]| {
            let mut context = plan.context()?;
            inputs.iter().map(|inputs| context.run(inputs)).collect::<Result<Vec<_>, EngineError>>()
        };
        let start = |share| std::thread::Builder::new().spawn_scoped(scope, move || run(share));
        let started: Vec<_> = inputs.chunks(share).map(start).collect();
        let mut outputs = Vec::with_capacity(inputs.len());
        for thread in started {
            let refused =
                |error: std::io::Error| EngineError::Threads { count: threads, reason: error.to_string() };
            let thread = thread.map_err(refused)?;
            outputs.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(outputs)
    })
    // ANCHOR_END: run_all_todo
}
// ANCHOR_END: run_all
