//! Products with weights that are packed in advance, the core of linear maps and convolutions.
//!
//! Output channels are grouped into panels of as many channels as a vector has lanes. The weights of a panel are stored
//! in the order in which they are multiplied, one vector per factor, so that the innermost loop reads them sequentially.
//! The other factors are read in place, one value at a time, and multiplied by whole vectors. They are neither copied nor
//! transposed, and it makes no difference whether they are rows of a matrix, pixels of an image or the input that a
//! window sees.
//!
//! A sum starts with its bias and adds one product after the other, in the order of the weights, whatever else is
//! computed at the same time: neither sizes nor threads change a bit. Products are fused with sums if the processor
//! supports it.

mod pairs;
mod panels;
mod schedule;
mod tile;
mod view;

use super::elementwise::ApplyEpilogue;
use super::isa::multiplies_pairs;
use super::parallel::threads;
use ixion_tensor::Limits;
pub(super) use pairs::round;
pub use pairs::{Rounded, round_rows};
pub use panels::Panels;
use schedule::Schedule;
pub(super) use view::{PanelsView, pack_columns, pack_rows};

/// The contents of a word: the four bytes that are multiplied at each step of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// One `f32`.
    #[default]
    F32,
    /// Two `bf16`, the first in the lower half; their sums are `f32`. [`multiplies_pairs`] returns whether the processor
    /// supports this.
    ///
    /// [`multiplies_pairs`]: crate::multiplies_pairs
    Bf16Pairs,
}

impl Packing {
    /// The number of values in a word.
    pub fn numbers(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16Pairs => 2,
        }
    }

    /// The number of words that hold `numbers` values; the last one may be padded.
    pub fn count(self, numbers: usize) -> usize {
        numbers.div_ceil(self.numbers())
    }

    /// Returns true if the instructions of this process multiply such words.
    pub fn are_supported(self) -> bool {
        self == Self::F32 || multiplies_pairs()
    }
}

/// The factors: rows of words, in pieces at arbitrary positions. The last pieces may be shorter than the others.
///
/// Row i of line l begins at `l · line + i · row`; its piece j begins `pieces[j]` further. All lengths and distances are
/// in words, as in the weights.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a> {
    /// The words of all rows.
    pub data: &'a [f32],
    /// The offset of each piece from the beginning of a row.
    pub pieces: &'a [usize],
    /// The length of a piece.
    pub piece: usize,
    /// The number of last pieces that have another length, and that length.
    pub last: (usize, usize),
    /// The distance between rows of a line.
    pub row: usize,
    /// The distance between lines.
    pub line: usize,
}

impl Factors<'_> {
    /// The length of a row.
    pub fn depth(&self) -> usize {
        let (shorter, len) = self.last;
        let whole = self.pieces.len().saturating_sub(shorter).saturating_mul(self.piece);
        whole.saturating_add(shorter.min(self.pieces.len()).saturating_mul(len))
    }

    /// The position after the last word that is read.
    fn end(&self, size: Size) -> Option<usize> {
        let (all, short) = self.pieces.split_at_checked(self.pieces.len().checked_sub(self.last.0)?)?;
        let ends =
            |pieces: &[usize], len| pieces.iter().max().map_or(Some(0), |start| start.checked_add(len));
        let reach = ends(all, self.piece)?.max(ends(short, self.last.1)?);
        let line = size.lines.checked_sub(1)?.checked_mul(self.line)?;
        let row = size.rows.checked_sub(1)?.checked_mul(self.row)?;
        line.checked_add(row)?.checked_add(reach)
    }
}

/// The number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The number of lines.
    pub lines: usize,
    /// The number of rows per line.
    pub rows: usize,
}

/// The layout of the results. Those of one row and one panel are adjacent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The number of results of the last panel that are stored: at least its outputs, at most [`Panels::lanes`].
    pub last: usize,
    /// The distance between rows of a line.
    pub row: usize,
    /// The distance between lines.
    pub line: usize,
    /// The distance between panels.
    pub panel: usize,
}

impl Target {
    /// The position after the last result that is written.
    fn end(&self, size: Size, panels: usize, lanes: usize) -> Option<usize> {
        let line = size.lines.checked_sub(1)?.checked_mul(self.line)?;
        let row = size.rows.checked_sub(1)?.checked_mul(self.row)?;
        let first = line.checked_add(row)?;
        let last = first.checked_add(panels.checked_sub(1)?.checked_mul(self.panel)?)?;
        let before = match panels {
            1 => Some(0),
            _ => last.checked_sub(self.panel)?.checked_add(lanes),
        };
        Some(last.checked_add(self.last)?.max(before?))
    }

    /// Returns true if no two results overlap.
    fn is_injective(&self, size: Size, panels: usize, lanes: usize) -> bool {
        let mut axes = [(size.rows, self.row), (size.lines, self.line), (panels, self.panel)];
        axes.sort_unstable_by_key(|&(_, stride)| stride);
        let mut reach = if panels == 1 { self.last } else { lanes };
        axes.iter().filter(|(len, _)| *len > 1).all(|&(len, stride)| {
            let steps_over = stride >= reach;
            // Adjacent panels end where the last one does.
            let is_panel = stride == self.panel && len == panels && stride == lanes;
            let end = if is_panel { (len - 1) * stride + self.last } else { (len - 1) * stride + reach };
            reach = end;
            steps_over
        })
    }
}

/// The operations on a sum before it is stored.
#[derive(Debug, Clone, Copy)]
pub struct SumEpilogue<'a> {
    /// The bounds to which results are clamped; NaN stays NaN.
    pub bounds: [f32; 2],
    /// Values that are added before clamping, in the layout of the results.
    pub added: Option<&'a [f32]>,
    /// An epilogue that is applied to pieces of the results while they are in the cache.
    pub elementwise: Option<&'a dyn ApplyEpilogue<f32>>,
    /// The position of the first result for `finish`.
    pub first: usize,
}

impl SumEpilogue<'_> {
    /// Stores the sums unchanged.
    pub const NONE: Self =
        Self { bounds: [f32::NEG_INFINITY, f32::INFINITY], added: None, elementwise: None, first: 0 };
}

/// Multiplies rows with all panels, applies the epilogue, and stores the results. The threads of the current pool share
/// the work.
///
/// Results of the last panel beyond the outputs are sums of zeros.
///
/// # Errors
/// Fails if the deadline has passed or `finish` fails.
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
    let results = Results { output, len, target, is_far: false };
    // SAFETY: the results are in a slice that is borrowed mutably.
    unsafe { start(panels.view(), factors, size, results, epilogue, limits, threads()) }
}

/// The destination of results that may be stored among those of others.
pub(super) struct Results {
    pub(super) output: *mut f32,
    /// The number of elements from the first result on, including those of others.
    pub(super) len: usize,
    pub(super) target: Target,
    /// Whether the weights, however few they are, are probably in a distant cache, because those of other products were
    /// read in the meantime.
    pub(super) is_far: bool,
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
    Results { output, len, target, is_far }: Results,
    epilogue: &SumEpilogue<'_>,
    limits: &Limits,
    threads: usize,
) -> ixion_tensor::Result<()> {
    if size.lines == 0 || size.rows == 0 || panels.count() == 0 {
        return Ok(());
    }
    assert_eq!(factors.depth(), panels.depth(), "rows must be as long as the weights");
    let fits = |end: Option<usize>, len: usize| end.is_some_and(|end| end <= len);
    assert!((1..=panels.lanes()).contains(&target.last), "`last` must be between 1 and the number of lanes");
    // Nothing is read from rows without words, whatever their positions are.
    let nothing = Factors { row: 0, line: 0, pieces: &[], last: (0, 0), ..*factors };
    let factors = if panels.depth() == 0 { &nothing } else { factors };
    assert!(panels.depth() == 0 || fits(factors.end(size), factors.data.len()), "too few factors");
    let end = target.end(size, panels.count(), panels.lanes());
    assert!(fits(end, len), "the output is too short for the results");
    assert!(epilogue.added.is_none_or(|added| fits(end, added.len())), "too few values to add");
    assert!(target.is_injective(size, panels.count(), panels.lanes()), "results overlap");
    Schedule::new(panels, factors, size, Results { output, len, target, is_far }, epilogue, limits)
        .run(threads)
}

#[cfg(test)]
mod tests;
