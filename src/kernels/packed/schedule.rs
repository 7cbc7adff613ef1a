//! The order in which tiles are computed, so that what is read again is still in a cache, and who computes them.

use super::tile::{self, MOST_ROWS, Operands};
use super::{Ending, Factors, Panels, Size, Target};
use crate::Limits;
use crate::tensor::Result;
use std::ops::Range;

/// Multiply-accumulate operations that are worth a thread.
const WORTH: usize = 1 << 18;

/// Bytes of factors or weights that stay in the second-level cache while others pass.
const CACHED: usize = 512 << 10;

/// Rows that are finished at a time where the weights stay in the cache.
const ROWS: usize = 9 * MOST_ROWS;

/// Panels whose results are finished together: pieces of a row should not be too short.
const GROUP: usize = 8;

/// A product that is to be computed.
pub(super) struct Schedule<'a> {
    panels: &'a Panels,
    factors: &'a Factors<'a>,
    size: Size,
    target: Target,
    ending: &'a Ending<'a>,
    limits: &'a Limits,
    /// Rows that are computed with all panels before the next ones.
    at_a_time: usize,
    output: Output,
}

/// The beginning of the results.
#[derive(Clone, Copy)]
struct Output(*mut f32);

// SAFETY: it stands for a slice that the schedule borrows; threads write to different results of it.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

/// Rows of one line that follow each other.
struct Segment {
    line: usize,
    first: usize,
    rows: usize,
}

impl<'a> Schedule<'a> {
    /// The product of operands that [`super::multiply`] has checked.
    pub(super) fn new(
        panels: &'a Panels,
        factors: &'a Factors<'a>,
        size: Size,
        (output, target): (&'a mut [f32], Target),
        ending: &'a Ending<'a>,
        limits: &'a Limits,
    ) -> Self {
        let output = Output(output.as_mut_ptr());
        let at_a_time = at_a_time(panels, factors, size);
        Self { panels, factors, size, target, ending, limits, at_a_time, output }
    }

    /// Computes all of it on so many threads of the pool around it.
    pub(super) fn run(&self, threads: usize) -> Result<()> {
        let rows = self.size.lines * self.size.rows;
        let macs = rows.saturating_mul(self.panels.bytes() / size_of::<f32>());
        let parts = if threads == 1 { 1 } else { (2 * threads).min(macs / WORTH).max(1) };
        self.share(0..rows, 0..self.panels.count(), parts)
    }

    /// Halves the work until there are so many parts: the rows, or where the weights are larger, the panels.
    fn share(&self, rows: Range<usize>, panels: Range<usize>, parts: usize) -> Result<()> {
        let step = if self.size.lines == 1 { MOST_ROWS } else { self.size.rows };
        let (row_steps, pairs) = (rows.len().div_ceil(step), panels.len().div_ceil(2));
        if parts <= 1 || row_steps.max(pairs) <= 1 {
            return self.compute(rows, panels);
        }
        let (left, right) = (parts / 2, parts - parts / 2);
        let by_rows = row_steps > 1 && (pairs <= 1 || self.factors.data.len() * 4 >= self.panels.bytes());
        let (first, second) = if by_rows {
            let middle = rows.start + row_steps * left / parts.max(1) * step;
            let middle = middle.clamp(rows.start + step, rows.end - 1);
            self.join((rows.start..middle, panels.clone(), left), (middle..rows.end, panels, right))
        } else {
            let middle = panels.start + (pairs * left / parts.max(1)).max(1) * 2;
            self.join((rows.clone(), panels.start..middle, left), (rows, middle..panels.end, right))
        };
        first.and(second)
    }

    fn join(
        &self,
        first: (Range<usize>, Range<usize>, usize),
        second: (Range<usize>, Range<usize>, usize),
    ) -> (Result<()>, Result<()>) {
        let share = |(rows, panels, parts)| self.share(rows, panels, parts);
        rayon::join(|| share(first), || share(second))
    }

    /// Computes rows times panels on this thread.
    fn compute(&self, rows: Range<usize>, panels: Range<usize>) -> Result<()> {
        for first in rows.clone().step_by(self.at_a_time) {
            let rows = first..(first + self.at_a_time).min(rows.end);
            for first in panels.clone().step_by(GROUP) {
                self.limits.check_deadline()?;
                let panels = first..(first + GROUP).min(panels.end);
                self.multiply(rows.clone(), panels.clone());
                self.finish(rows.clone(), panels)?;
            }
        }
        Ok(())
    }

    /// The lines that rows are of.
    fn segments(&self, rows: Range<usize>) -> impl Iterator<Item = Segment> + use<> {
        let per_line = self.size.rows;
        (rows.start / per_line..rows.end.div_ceil(per_line)).map(move |line| {
            let start = rows.start.max(line * per_line);
            let end = rows.end.min((line + 1) * per_line);
            Segment { line, first: start - line * per_line, rows: end - start }
        })
    }

    fn multiply(&self, rows: Range<usize>, panels: Range<usize>) {
        let (isa, count, lanes) = (self.panels.isa(), self.panels.count(), self.panels.lanes());
        let mut first = panels.start;
        while first < panels.end {
            let is_partial = |panel: usize| panel + 1 == count && self.target.last < lanes;
            // A panel that is stored in part is computed alone.
            let end = if panels.end - first > 1 && is_partial(panels.end - 1) {
                panels.end - 1
            } else {
                panels.end
            };
            let longest = self.size.rows.min(rows.len());
            let [width, most] = tile::shape(isa, end - first, longest);
            for segment in self.segments(rows.clone()) {
                self.segment(&segment, first..first + width, most, is_partial(first));
            }
            first += width;
        }
    }

    /// Cuts a segment into tiles of nearly equal size.
    fn segment(&self, segment: &Segment, panels: Range<usize>, most: usize, is_partial: bool) {
        let tiles = segment.rows.div_ceil(most);
        let (size, longer) = (segment.rows / tiles, segment.rows % tiles);
        let mut first = segment.first;
        for tile in 0..tiles {
            let rows = size + usize::from(tile < longer);
            match is_partial {
                true => self.partial_tile(segment.line, first, rows, panels.start),
                false => self.tile(segment.line, first, rows, panels.clone()),
            }
            first += rows;
        }
    }

    /// Where results begin.
    fn position(&self, line: usize, row: usize, panel: usize) -> usize {
        line * self.target.line + row * self.target.row + panel * self.target.panel
    }

    fn operands(&self, line: usize, row: usize, panels: Range<usize>) -> Operands<'_> {
        let Factors { data, pieces, piece, last, row: distance, line: line_distance } = *self.factors;
        let at = self.position(line, row, panels.start);
        Operands {
            factors: data[line * line_distance + row * distance..].as_ptr(),
            row: distance,
            pieces,
            piece,
            last,
            weights: self.panels.weights(panels.clone()).as_ptr(),
            panel: self.panels.depth() * self.panels.lanes(),
            biases: self.panels.biases(panels).as_ptr(),
            output: self.output.0.wrapping_add(at),
            added: self.ending.added.map_or(std::ptr::null(), |added| added[at..].as_ptr()),
            output_row: self.target.row,
            output_panel: self.target.panel,
            bounds: self.ending.bounds,
        }
    }

    fn tile(&self, line: usize, row: usize, rows: usize, panels: Range<usize>) {
        let operands = self.operands(line, row, panels.clone());
        let kernel = tile::kernel(self.panels.isa(), [panels.len(), rows]);
        debug_assert!(kernel.is_some(), "a loop for {} panels of {rows} rows", panels.len());
        if let Some(kernel) = kernel {
            // SAFETY: panels are made for an instruction set that the processor has. `multiply` has checked that all rows lie
            // within the factors and all results within the output, of which nobody else writes these; weights and biases
            // are slices of all these panels.
            unsafe { kernel(&operands) }
        }
    }

    /// A tile of the last panel, of which fewer results are stored than it has.
    fn partial_tile(&self, line: usize, row: usize, rows: usize, panel: usize) {
        const MOST: usize = MOST_ROWS * 16;
        let (lanes, last) = (self.panels.lanes(), self.target.last);
        let (mut results, mut added) = ([0.0; MOST], [0.0; MOST]);
        let at = |row: usize| self.position(line, row, panel);
        let mut operands = self.operands(line, row, panel..panel + 1);
        operands.output = results.as_mut_ptr();
        operands.output_row = lanes;
        if let Some(numbers) = self.ending.added {
            for (index, added) in added.chunks_exact_mut(lanes).take(rows).enumerate() {
                added[..last].copy_from_slice(&numbers[at(row + index)..][..last]);
            }
            operands.added = added.as_ptr();
        }
        let Some(kernel) = tile::kernel(self.panels.isa(), [1, rows]) else { return };
        // SAFETY: as in `tile`; results and what is added have room for the most rows of a tile.
        unsafe { kernel(&operands) };
        for (index, results) in results.chunks_exact(lanes).take(rows).enumerate() {
            self.piece(at(row + index), last).copy_from_slice(&results[..last]);
        }
    }

    /// Some results that lie beside each other, and that this thread alone computes.
    #[expect(clippy::mut_from_ref, reason = "threads write to different results")]
    fn piece(&self, at: usize, len: usize) -> &mut [f32] {
        // SAFETY: `multiply` has checked that all results lie within the output, and that no two share a place; this thread
        // holds no other reference to those of the rows and panels that it computes.
        unsafe { std::slice::from_raw_parts_mut(self.output.0.wrapping_add(at), len) }
    }

    /// Finishes what was computed, in pieces that are as long as may be.
    fn finish(&self, rows: Range<usize>, panels: Range<usize>) -> Result<()> {
        let Some(finish) = self.ending.finish else { return Ok(()) };
        let (lanes, count, last) = (self.panels.lanes(), self.panels.count(), self.target.last);
        let len = |panel: usize| if panel + 1 == count { last } else { lanes };
        let finish = |at: usize, len: usize| finish.finish(self.ending.first + at, self.piece(at, len));
        for segment in self.segments(rows) {
            if self.target.panel == lanes {
                let len = (panels.len() - 1) * lanes + len(panels.end - 1);
                for row in segment.first..segment.first + segment.rows {
                    finish(self.position(segment.line, row, panels.start), len)?;
                }
                continue;
            }
            for panel in panels.clone() {
                let at = self.position(segment.line, segment.first, panel);
                if self.target.row == lanes && len(panel) == lanes {
                    finish(at, segment.rows * lanes)?;
                    continue;
                }
                for row in 0..segment.rows {
                    finish(at + row * self.target.row, len(panel))?;
                }
            }
        }
        Ok(())
    }
}

/// Rows that are computed with all panels before the next ones: few where the weights stay in the cache, otherwise as many as
/// stay there themselves.
fn at_a_time(panels: &Panels, factors: &Factors<'_>, size: Size) -> usize {
    let (rows, bytes) = (size.lines * size.rows, size_of_val(factors.data));
    let most = if panels.bytes() <= CACHED {
        ROWS
    } else if bytes <= 2 * CACHED {
        rows
    } else {
        (CACHED / (bytes / rows).max(1)).max(2 * MOST_ROWS)
    };
    let step = if size.lines == 1 { MOST_ROWS } else { size.rows };
    (most / step * step).max(step)
}
