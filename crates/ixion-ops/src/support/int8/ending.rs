//! What kernels of bytes do with an epilogue before they store outputs.

use crate::op::Result;
use crate::support::epilogue::Epilogue;
use ixion_kernels::elementwise::ApplyEpilogue;
use ixion_tensor::{DType, Shape, TensorView};
use std::sync::Mutex;

/// What an epilogue does, if a kernel can do it before it stores bytes.
pub(crate) enum Ending {
    /// Adds the input at a position, if any, and clamps the sum.
    Sum(Option<usize>, [f32; 2]),
    /// Applies a function.
    Function,
    /// Applies a function, and adds the input at a position.
    FunctionAndSum(usize),
}

impl Ending {
    /// What an epilogue does; `None` if no kernel can do it.
    pub(crate) fn of(epilogue: Option<&Epilogue>) -> Option<Self> {
        let Some(epilogue) = epilogue else {
            return Some(Self::Sum(None, [f32::NEG_INFINITY, f32::INFINITY]));
        };
        match epilogue.bounded_sum() {
            Some((added, bounds)) => Some(Self::Sum(added, bounds)),
            None if epilogue.num_inputs() == 0 => Some(Self::Function),
            None => epilogue.added_input().map(Self::FunctionAndSum),
        }
    }
}

/// A function that replaces elements by its results, on any thread.
pub(crate) type Function<'a> = dyn Fn(&mut [f32]) + Sync + 'a;

/// Calls `run` with an epilogue as a function of each element, for an output of this shape.
///
/// # Errors
/// The errors of `run` and of the epilogue.
pub(crate) fn with_function(
    epilogue: &mut Epilogue,
    inputs: &[TensorView<'_>],
    shape: &Shape,
    run: &mut dyn FnMut(&Function<'_>) -> Result<()>,
) -> Result<()> {
    let start = epilogue.start(inputs, DType::F32, shape)?;
    let failed = Mutex::new(None);
    // A function of one element is the same everywhere.
    let function = |values: &mut [f32]| {
        if let Err(error) = start.apply(0, values)
            && let Ok(mut failed) = failed.lock()
        {
            *failed = Some(error);
        }
    };
    run(&function)?;
    match failed.into_inner() {
        Ok(Some(error)) => Err(error.into()),
        _ => Ok(()),
    }
}
