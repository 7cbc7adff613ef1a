//! The operands of a product: its factors, the layout of its results, and the operations on its sums.

use crate::elementwise::ApplyEpilogue;

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
    pub(super) fn end(&self, size: Size) -> Option<usize> {
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
    /// The number of results of the last panel that are stored: at least its outputs, at most
    /// [`Panels::lanes`](super::Panels::lanes).
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
    pub(super) fn end(&self, size: Size, panels: usize, lanes: usize) -> Option<usize> {
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
    pub(super) fn is_injective(&self, size: Size, panels: usize, lanes: usize) -> bool {
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
    /// The position of the first result in the whole output, for `elementwise`.
    pub first: usize,
}

impl SumEpilogue<'_> {
    /// Stores the sums unchanged.
    pub const NONE: Self =
        Self { bounds: [f32::NEG_INFINITY, f32::INFINITY], added: None, elementwise: None, first: 0 };
}

/// The number of products that are added one after the other, before their sum is added to those of others. The fewer
/// there are, the smaller the rounding error of a long sum, and the longer it takes: with these, 1 %.
pub(crate) const TERMS: usize = 128;

/// The destination of results that may be stored among those of others.
pub(crate) struct Results {
    pub(crate) output: *mut f32,
    /// The number of elements from the first result on, including those of others.
    pub(crate) len: usize,
    pub(crate) target: Target,
    /// Whether the weights, however few they are, are probably in a distant cache, because those of other products were
    /// read in the meantime.
    pub(crate) is_far: bool,
    /// The maximum number of products that are added one after the other, such as [`TERMS`], unless a piece is longer.
    pub(crate) terms: usize,
}
