//! Products with weights that are packed in advance, the core of linear maps and convolutions.
//!
//! Output channels are grouped into panels of as many channels as a vector has lanes. The weights of a panel are stored
//! in the order in which they are multiplied, one vector per factor, so that the innermost loop reads them sequentially.
//! The other factors are read in place, one value at a time, and multiplied by whole vectors. They are neither copied nor
//! transposed, and it makes no difference whether they are rows of a matrix, pixels of an image or the input that a
//! window sees.
//!
//! A sum starts with its bias and adds one product after the other, in the order of the weights. A long sum is computed in
//! parts of about as many products each, which are added up: its rounding error grows with the number of additions that
//! a product takes part in. Where parts begin depends on the weights alone, whatever else is computed at the same time:
//! neither sizes nor threads change a bit. Products are fused with sums if the processor supports it.

mod ahead;
mod packing;
mod pairs;
mod panels;
mod product;
mod schedule;
mod tile;
mod view;

use super::parallel::threads;
use ixion_tensor::Limits;
pub use packing::Packing;
pub(super) use pairs::round;
pub use pairs::{Rounded, round_rows};
pub use panels::Panels;
pub use product::{Factors, Size, SumEpilogue, Target};
pub(super) use product::{Results, TERMS};
use schedule::Schedule;
pub(super) use view::{PanelsView, pack_columns, pack_rows};

/// Multiplies rows with all panels, applies the epilogue, and stores the results. The threads of the current pool share
/// the work.
///
/// Results of the last panel beyond the outputs are sums of zeros.
///
/// # Errors
/// Fails if the deadline has passed or the epilogue fails.
///
/// # Panics
/// Panics if rows are not as long as the weights, a slice is too short for its sizes, or results overlap; callers check
/// this beforehand.
pub fn multiply(
    panels: &Panels,
    factors: &Factors<'_>,
    size: Size,
    (output, target): (&mut [f32], Target),
    epilogue: &SumEpilogue<'_>,
    limits: &Limits,
) -> ixion_tensor::Result<()> {
    let (len, output) = (output.len(), output.as_mut_ptr());
    let results = Results { output, len, target, is_far: false, terms: TERMS };
    // SAFETY: the results are in a slice that is borrowed mutably.
    unsafe { start(panels.view(), factors, size, results, epilogue, limits, threads()) }
}

/// As [`multiply`], on this thread alone.
///
/// # Safety
/// The output must be writable, and nothing else may access the results in the meantime.
///
/// # Errors
/// As [`multiply`].
///
/// # Panics
/// As [`multiply`].
pub(super) unsafe fn multiply_alone(
    panels: PanelsView<'_>,
    factors: &Factors<'_>,
    size: Size,
    results: Results,
    limits: &Limits,
) -> ixion_tensor::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { start(panels, factors, size, results, &SumEpilogue::NONE, limits, 1) }
}

/// Checks the operands, and computes the product on `threads` threads of the current pool.
///
/// # Safety
/// As [`multiply_alone`].
unsafe fn start(
    panels: PanelsView<'_>,
    factors: &Factors<'_>,
    size: Size,
    results: Results,
    epilogue: &SumEpilogue<'_>,
    limits: &Limits,
    threads: usize,
) -> ixion_tensor::Result<()> {
    if size.lines == 0 || size.rows == 0 || panels.count() == 0 {
        return Ok(());
    }
    assert_eq!(factors.depth(), panels.depth(), "rows must be as long as the weights");
    let fits = |end: Option<usize>, len: usize| end.is_some_and(|end| end <= len);
    let target = results.target;
    assert!((1..=panels.lanes()).contains(&target.last), "`last` must be between 1 and the number of lanes");
    // Nothing is read from rows without words, whatever their positions are.
    let nothing = Factors { row: 0, line: 0, pieces: &[], last: (0, 0), ..*factors };
    let factors = if panels.depth() == 0 { &nothing } else { factors };
    assert!(panels.depth() == 0 || fits(factors.end(size), factors.data.len()), "too few factors");
    let end = target.end(size, panels.count(), panels.lanes());
    assert!(fits(end, results.len), "the output is too short for the results");
    assert!(epilogue.added.is_none_or(|added| fits(end, added.len())), "too few values to add");
    assert!(target.is_injective(size, panels.count(), panels.lanes()), "results overlap");
    Schedule::new(panels, factors, size, results, epilogue, limits).run(threads)
}

#[cfg(test)]
mod tests;
