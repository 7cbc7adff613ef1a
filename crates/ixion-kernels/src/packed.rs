//! Products with weights that are packed beforehand: what linear maps and convolutions come down to.
//!
//! Output channels are taken together as many as a vector has numbers: a panel. Its weights lie in the order in which they
//! are multiplied, one vector for each factor, so that the innermost loop reads them from the first to the last. The other
//! factors are read where they lie, one number at a time, and multiplied with whole vectors. So they are neither copied nor
//! transposed, and it is all the same whether they are rows of a matrix, places of a picture or what a window sees of it.
//!
//! A sum begins with its bias and takes up one product after the other, in the order of the weights, whatever else is
//! computed beside it: neither sizes nor threads change a bit. The products are rounded together with the sums where the
//! processor can do that.

mod pairs;
mod panels;
mod schedule;
mod tile;
mod view;

use super::elementwise::Finish;
use super::isa::multiplies_pairs;
use super::parallel::threads;
use ixion_tensor::Limits;
pub(super) use pairs::round;
pub use pairs::{Rounded, round_rows};
pub use panels::Panels;
use schedule::Schedule;
pub(super) use view::{PanelsView, pack_columns, pack_rows};

/// What is multiplied at each step of a sum, and fills four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Words {
    /// A number of `f32`.
    #[default]
    Singles,
    /// Two of `bf16`, the first in the lower half; [`multiplies_pairs`] says whether the processor can do it. Their sums are
    /// of `f32`.
    ///
    /// [`multiplies_pairs`]: crate::multiplies_pairs
    Pairs,
}

impl Words {
    /// Numbers of a word.
    pub fn numbers(self) -> usize {
        match self {
            Self::Singles => 1,
            Self::Pairs => 2,
        }
    }

    /// How many words so many numbers are, the last of which may be filled up.
    pub fn count(self, numbers: usize) -> usize {
        numbers.div_ceil(self.numbers())
    }

    /// Whether the instructions of this process multiply them.
    pub fn are_here(self) -> bool {
        self == Self::Singles || multiplies_pairs()
    }
}

/// The factors: rows of words, in pieces that lie anywhere. The last pieces may be shorter than those before.
///
/// Row i of a line begins at `line · lines' distance + i · row`; its piece j lies `pieces[j]` further. All lengths and
/// distances count words, as the weights have them.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a> {
    /// Where they are.
    pub data: &'a [f32],
    /// Where each piece of a row begins, from the beginning of the row.
    pub pieces: &'a [usize],
    /// Numbers of a piece.
    pub piece: usize,
    /// How many of the last pieces have another length, and which.
    pub last: (usize, usize),
    /// From one row of a line to the next.
    pub row: usize,
    /// From one line to the next.
    pub line: usize,
}

impl Factors<'_> {
    /// Numbers of a row.
    pub fn depth(&self) -> usize {
        let (shorter, len) = self.last;
        let whole = self.pieces.len().saturating_sub(shorter).saturating_mul(self.piece);
        whole.saturating_add(shorter.min(self.pieces.len()).saturating_mul(len))
    }

    /// One past the last number that is read.
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

/// How many rows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub lines: usize,
    /// Rows of a line.
    pub rows: usize,
}

/// Where results go: those of one row and one panel lie beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// How many results of the last panel are stored: at least those that are outputs, at most [`Panels::lanes`].
    pub last: usize,
    /// From one row of a line to the next.
    pub row: usize,
    /// From one line to the next.
    pub line: usize,
    /// From one panel to the next.
    pub panel: usize,
}

impl Target {
    /// One past the last number that is written.
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

    /// Whether no two results share a place.
    fn is_injective(&self, size: Size, panels: usize, lanes: usize) -> bool {
        let mut axes = [(size.rows, self.row), (size.lines, self.line), (panels, self.panel)];
        axes.sort_unstable_by_key(|&(_, stride)| stride);
        let mut reach = if panels == 1 { self.last } else { lanes };
        axes.iter().filter(|(len, _)| *len > 1).all(|&(len, stride)| {
            let steps_over = stride >= reach;
            // Panels that lie beside each other end where the last one does.
            let is_panel = stride == self.panel && len == panels && stride == lanes;
            let end = if is_panel { (len - 1) * stride + self.last } else { (len - 1) * stride + reach };
            reach = end;
            steps_over
        })
    }
}

/// What becomes of a sum before it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// The bounds of what is stored; NaN stays.
    pub bounds: [f32; 2],
    /// Numbers that are added before, which lie as the results do.
    pub added: Option<&'a [f32]>,
    /// What is done to pieces of the results while they are in the cache.
    pub finish: Option<&'a dyn Finish<f32>>,
    /// The position of the first result for `finish`.
    pub first: usize,
}

impl Ending<'_> {
    /// Sums are stored as they are.
    pub const NONE: Self =
        Self { bounds: [f32::NEG_INFINITY, f32::INFINITY], added: None, finish: None, first: 0 };
}

/// Multiplies rows with all panels, and stores what comes of it. Threads of the pool around it share the work.
///
/// What the last panel has beyond the outputs are sums of zeros.
///
/// # Errors
/// A deadline that has passed; what `finish` says.
///
/// # Panics
/// When rows are not as long as the weights, a slice is too short for its sizes, or results share places; callers have
/// checked them.
pub fn multiply(
    panels: &Panels,
    factors: &Factors<'_>,
    size: Size,
    (output, target): (&mut [f32], Target),
    ending: &Ending<'_>,
    limits: &Limits,
) -> ixion_tensor::Result<()> {
    let (len, output) = (output.len(), output.as_mut_ptr());
    let results = Results { output, len, target, is_far: false };
    // SAFETY: the results lie in a slice that is borrowed mutably.
    unsafe { start(panels.view(), factors, size, results, ending, limits, threads()) }
}

/// Where results go that lie among those of others.
pub(super) struct Results {
    pub(super) output: *mut f32,
    /// How many numbers there are from the first result on, others' among them.
    pub(super) len: usize,
    pub(super) target: Target,
    /// Whether the weights are rather in a far cache, however few they are: those of other products were read meanwhile.
    pub(super) is_far: bool,
}

/// As [`multiply`], on this thread alone.
///
/// # Safety
/// The numbers can be written, and nobody else looks at the results meanwhile.
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
    unsafe { start(panels, factors, size, results, &Ending::NONE, limits, 1) }
}

/// Checks the operands, and computes on so many threads of the pool around it.
///
/// # Safety
/// As [`multiply_alone`].
unsafe fn start(
    panels: PanelsView<'_>,
    factors: &Factors<'_>,
    size: Size,
    Results { output, len, target, is_far }: Results,
    ending: &Ending<'_>,
    limits: &Limits,
    threads: usize,
) -> ixion_tensor::Result<()> {
    if size.lines == 0 || size.rows == 0 || panels.count() == 0 {
        return Ok(());
    }
    assert_eq!(factors.depth(), panels.depth(), "rows are as long as the weights");
    let fits = |end: Option<usize>, len: usize| end.is_some_and(|end| end <= len);
    assert!((1..=panels.lanes()).contains(&target.last), "a part of the last panel");
    // Nothing is read of rows without numbers, wherever they may lie.
    let nothing = Factors { row: 0, line: 0, pieces: &[], last: (0, 0), ..*factors };
    let factors = if panels.depth() == 0 { &nothing } else { factors };
    assert!(panels.depth() == 0 || fits(factors.end(size), factors.data.len()), "too few factors");
    let end = target.end(size, panels.count(), panels.lanes());
    assert!(fits(end, len), "too little room for the results");
    assert!(ending.added.is_none_or(|added| fits(end, added.len())), "too few numbers to add");
    assert!(target.is_injective(size, panels.count(), panels.lanes()), "results share places");
    Schedule::new(panels, factors, size, Results { output, len, target, is_far }, ending, limits).run(threads)
}

#[cfg(test)]
mod tests;
