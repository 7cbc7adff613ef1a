//! The order in which tiles are computed, so that data that is read again is still in a cache, and how threads share
//! them.

use super::ahead::{Ahead, Lengths};
use super::product::{Factors, Results, Size, SumEpilogue, TERMS, Target};
use super::tile::{self, MAX_ROWS, Operands};
use super::view::{PanelsView, ZEROS};
use crate::isa::Isa;
use crate::parallel::for_each_item;
use ixion_tensor::Limits;
use ixion_tensor::Result;
use smallvec::SmallVec;
use std::ops::Range;

/// Rows and panels to multiply.
type Part = (Range<usize>, Range<usize>);

/// The number of multiply-accumulate operations that justifies another part.
const MACS_PER_PART: usize = 1 << 18;

/// Bytes of factors or weights that stay in the second-level cache while others are streamed. In processors whose widest
/// vectors are those of AVX2, that cache is often as small as 256 KiB.
const fn cached(isa: Isa) -> usize {
    match isa {
        Isa::Avx2 => 128 << 10,
        _ => 512 << 10,
    }
}

/// Weights of up to this many bytes are not prefetched: a thread can afford to wait for them. In a network, whose other
/// weights were read in the meantime, weights come from a distant cache in every run.
const MAX_UNFETCHED: usize = 32 << 10;

/// The least room for rows of which depth segments are read: weights are read again for every part of the rows.
const LEAST_ROOM: usize = 256 << 10;

/// Rows that are computed at a time if the weights stay in the cache.
const ROWS: usize = 9 * MAX_ROWS;

/// The maximum length of a depth segment: factors of a sum that are multiplied before others, so that those of some rows
/// stay in the cache while panels are streamed.
const DEPTH: usize = 1024;

/// The offsets of the pieces that a depth segment of one piece is split into, so that its products are added in parts.
static PARTS: [usize; DEPTH / TERMS] = {
    let mut parts = [0; DEPTH / TERMS];
    let mut part = 0;
    while part < parts.len() {
        parts[part] = part * TERMS;
        part += 1;
    }
    parts
};

/// Panels that get the epilogue together, if the results of a row are apart, for long and for short vectors, and if they
/// are adjacent: few enough to be still in a near cache, but enough that pieces are not too short. Whole tiles of the usual
/// widths fill them.
const GROUP: usize = 4;
const NARROW_GROUP: usize = 6;
const LONG_GROUP: usize = 32;

/// A product to compute.
pub(super) struct Schedule<'a> {
    panels: PanelsView<'a>,
    factors: &'a Factors<'a>,
    size: Size,
    target: Target,
    terms: usize,
    epilogue: &'a SumEpilogue<'a>,
    limits: &'a Limits,
    /// Rows that are computed with all panels before the next ones.
    at_a_time: usize,
    /// Whether tiles prefetch weights for later tiles.
    is_fetched: bool,
    output: Output,
}

/// A pointer to the first result.
#[derive(Clone, Copy)]
struct Output(*mut f32);

// SAFETY: it points to a slice that the schedule borrows; threads write disjoint results.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

/// Consecutive rows of one line.
struct Segment {
    line: usize,
    first: usize,
    rows: usize,
}

/// A range of consecutive factors of every sum: all of them, or, if each row is a single piece, a part.
#[derive(Debug, Clone, Copy)]
struct DepthSegment {
    start: usize,
    len: usize,
    is_first: bool,
    is_last: bool,
}

/// The rows of a line, the panels and the part of the depth that are multiplied together.
#[derive(Debug, Clone)]
struct Place {
    line: usize,
    row: usize,
    rows: usize,
    panels: Range<usize>,
    depth_segment: DepthSegment,
}

impl<'a> Schedule<'a> {
    /// A schedule for operands that [`super::multiply`] has checked.
    pub(super) fn new(
        panels: PanelsView<'a>,
        factors: &'a Factors<'a>,
        size: Size,
        results: Results,
        epilogue: &'a SumEpilogue<'a>,
        limits: &'a Limits,
    ) -> Self {
        let Results { output, target, is_far, terms, .. } = results;
        let output = Output(output);
        let at_a_time = at_a_time(&panels, factors, size);
        let is_fetched = (is_far || panels.bytes() > MAX_UNFETCHED) && tile::fetches(panels.isa());
        Self { panels, factors, size, target, terms, epilogue, limits, at_a_time, is_fetched, output }
    }

    /// Computes the product on `threads` threads of the current pool.
    pub(super) fn run(&self, threads: usize) -> Result<()> {
        let rows = self.size.lines * self.size.rows;
        let macs = rows.saturating_mul(self.panels.bytes() / size_of::<f32>());
        // More parts than threads, in case some threads are late; but each part begins with weights that were not
        // prefetched.
        let max_parts = if self.is_fetched { threads } else { 2 * threads };
        let parts = if threads == 1 { 1 } else { max_parts.min(macs / MACS_PER_PART).max(1) };
        let mut all = SmallVec::new();
        self.cut((0..rows, 0..self.panels.count()), parts, &mut all);
        for_each_item(all, &|(rows, panels)| self.compute(rows, panels))
    }

    /// Splits the work in halves until there are `parts` parts: the rows, or, if the weights are larger, the panels.
    fn cut(&self, (rows, panels): Part, parts: usize, all: &mut SmallVec<[Part; 8]>) {
        let step = self.row_step();
        let row_steps = rows.len().div_ceil(step);
        if parts <= 1 || row_steps.max(panels.len()) <= 1 {
            return all.push((rows, panels));
        }
        let (left, right) = (parts / 2, parts - parts / 2);
        let by_rows =
            row_steps > 1 && (panels.len() <= 1 || self.factors.data.len() * 4 >= self.panels.bytes());
        if by_rows {
            let middle = rows.start + row_steps * left / parts.max(1) * step;
            let middle = middle.clamp(rows.start + step, rows.end - 1);
            self.cut((rows.start..middle, panels.clone()), left, all);
            self.cut((middle..rows.end, panels), right, all);
        } else {
            let middle = panels.start + (panels.len() * left / parts.max(1)).max(1);
            self.cut((rows.clone(), panels.start..middle), left, all);
            self.cut((rows, middle..panels.end), right, all);
        }
    }

    /// Computes rows times panels on this thread.
    fn compute(&self, rows: Range<usize>, panels: Range<usize>) -> Result<()> {
        let step = self.row_step();
        let times = rows.len().div_ceil(self.at_a_time).max(1);
        let at_a_time = rows.len().div_ceil(times).next_multiple_of(step).max(1);
        let group = match self.panels.lanes() {
            lanes if self.target.panel == lanes => LONG_GROUP,
            16.. => GROUP,
            _ => NARROW_GROUP,
        };
        for first in rows.clone().step_by(at_a_time) {
            let later_rows = rows.end > first + at_a_time;
            let rows = first..(first + at_a_time).min(rows.end);
            for depth_segment in self.depth_segments() {
                for first in panels.clone().step_by(group) {
                    self.limits.check_deadline()?;
                    let last = panels.end;
                    let next = if first + group < last {
                        Some((first + group, depth_segment.start))
                    } else if !depth_segment.is_last {
                        Some((panels.start, depth_segment.start + depth_segment.len))
                    } else {
                        later_rows.then_some((panels.start, 0))
                    };
                    let panels = first..(first + group).min(last);
                    self.multiply(rows.clone(), panels.clone(), depth_segment, next);
                    if depth_segment.is_last {
                        self.apply_epilogue(rows.clone(), panels)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The number of rows that are not split.
    fn row_step(&self) -> usize {
        if self.size.lines == 1 { MAX_ROWS } else { self.size.rows }
    }

    /// The depth segments, in order. The sums of each are added to those of the segments before.
    fn depth_segments(&self) -> impl Iterator<Item = DepthSegment> + use<> {
        let depth = self.panels.depth();
        let count = if self.factors.pieces.len() == 1 { depth.div_ceil(DEPTH).max(1) } else { 1 };
        let len = depth.div_ceil(count).max(1);
        let count = depth.div_ceil(len).max(1);
        (0..count).map(move |index| DepthSegment {
            start: index * len,
            len: len.min(depth - index * len),
            is_first: index == 0,
            is_last: index + 1 == count,
        })
    }

    /// Splits a range of rows by lines.
    fn segments(&self, rows: Range<usize>) -> impl Iterator<Item = Segment> + use<> {
        let per_line = self.size.rows;
        (rows.start / per_line..rows.end.div_ceil(per_line)).map(move |line| {
            let start = rows.start.max(line * per_line);
            let end = rows.end.min((line + 1) * per_line);
            Segment { line, first: start - line * per_line, rows: end - start }
        })
    }

    /// Multiplies rows with panels. `next` is the panel that is computed afterwards, and the depth at which it starts.
    fn multiply(
        &self,
        rows: Range<usize>,
        panels: Range<usize>,
        depth_segment: DepthSegment,
        next: Option<(usize, usize)>,
    ) {
        let (isa, count, lanes) = (self.panels.isa(), self.panels.count(), self.panels.lanes());
        let (mut first, end_of_all) = (panels.start, panels.end);
        while first < end_of_all {
            let is_partial = |panel: usize| panel + 1 == count && self.target.last < lanes;
            // A partially stored panel is computed alone.
            let end = if end_of_all - first > 1 && is_partial(end_of_all - 1) {
                end_of_all - 1
            } else {
                end_of_all
            };
            let longest = self.size.rows.min(rows.len());
            let [width, max_rows] = tile::shape(isa, end - first, longest);
            let panels = first..first + width;
            first += width;
            let next = if first < end_of_all { Some((first, depth_segment.start)) } else { next };
            let mut ahead = self.ahead(&rows, [width, max_rows], depth_segment.len, next);
            for segment in self.segments(rows.clone()) {
                self.segment(&segment, &panels, max_rows, depth_segment, &mut ahead);
            }
        }
    }

    /// The weights that tiles of this number of panels and at most `max_rows` rows prefetch while they are computed.
    fn ahead(
        &self,
        rows: &Range<usize>,
        [width, max_rows]: [usize; 2],
        depth: usize,
        next: Option<(usize, usize)>,
    ) -> Ahead {
        let Some((panel, start)) = next.filter(|_| self.is_fetched) else {
            return Ahead::nothing(self.factors.data.as_ptr());
        };
        let lanes = self.panels.lanes();
        let weights = self.panels.weights(panel..panel + 1)[start * lanes..].as_ptr();
        let tiles = self.segments(rows.clone()).map(|segment| segment.rows.div_ceil(max_rows)).sum();
        Ahead::new(weights, Lengths { panel: self.panels.depth() * lanes, lanes, depth }, width, tiles)
    }

    /// Computes a segment in tiles of nearly equal size.
    fn segment(
        &self,
        segment: &Segment,
        panels: &Range<usize>,
        max_rows: usize,
        depth_segment: DepthSegment,
        ahead: &mut Ahead,
    ) {
        let tiles = segment.rows.div_ceil(max_rows);
        let (size, longer) = (segment.rows / tiles, segment.rows % tiles);
        let is_partial = panels.end == self.panels.count() && self.target.last < self.panels.lanes();
        let Segment { line, first: mut row, .. } = *segment;
        for (rows, tiles) in [(size + 1, longer), (size, tiles - longer)] {
            if tiles == 0 {
                continue;
            }
            let place = Place { line, row, rows, panels: panels.clone(), depth_segment };
            if is_partial {
                for tile in 0..tiles {
                    self.partial_tile(&Place { row: row + tile * rows, ..place.clone() });
                }
            } else {
                self.tiles(&place, tiles, ahead);
            }
            row += rows * tiles;
        }
    }

    /// The position of a result.
    fn position(&self, line: usize, row: usize, panel: usize) -> usize {
        line * self.target.line + row * self.target.row + panel * self.target.panel
    }

    fn operands(&self, place: &Place) -> Operands<'_> {
        let Factors { data, pieces, piece, last, row: distance, line: line_distance } = *self.factors;
        let Place { line, row, depth_segment, .. } = *place;
        let (panels, lanes) = (place.panels.clone(), self.panels.lanes());
        let at = self.position(line, row, panels.start);
        let output = self.output.0.wrapping_add(at);
        let added = match (depth_segment.is_first, self.epilogue.added) {
            (true, Some(added)) => added[at..].as_ptr(),
            (true, None) => std::ptr::null(),
            (false, _) => output.cast_const(),
        };
        let bias = if depth_segment.is_last { self.panels.biases(panels.clone()) } else { &ZEROS[..] };
        let bounds = if depth_segment.is_last { self.epilogue.bounds } else { SumEpilogue::NONE.bounds };
        let start = line * line_distance + row * distance + depth_segment.start;
        let (start, pieces, piece, last) = match *pieces {
            [first] => {
                let (len, rest) = (depth_segment.len, depth_segment.len % TERMS);
                let last = if rest > 0 { (1, rest) } else { (0, 0) };
                (start + first, &PARTS[..len.div_ceil(TERMS)], TERMS, last)
            }
            _ => (start, pieces, piece, last),
        };
        Operands {
            factors: data[start..].as_ptr(),
            row: distance,
            pieces,
            piece,
            last,
            weights: self.panels.weights(panels)[depth_segment.start * lanes..].as_ptr(),
            panel: self.panels.depth() * lanes,
            ahead: (data.as_ptr(), 0),
            bias: bias.as_ptr(),
            terms: self.terms,
            output,
            added,
            output_row: self.target.row,
            output_panel: self.target.panel,
            bounds,
        }
    }

    /// Computes tiles of the same size: the one at `place`, and those below it.
    fn tiles(&self, place: &Place, tiles: usize, ahead: &mut Ahead) {
        let mut operands = self.operands(place);
        let shape = [place.panels.len(), place.rows];
        let kernel = tile::kernel(self.panels.isa(), self.panels.packing(), shape);
        debug_assert!(kernel.is_some(), "no kernel for {shape:?} panels and rows");
        let Some(kernel) = kernel else { return };
        for _ in 0..tiles {
            operands.ahead = ahead.share();
            // SAFETY: panels are packed for an instruction set that the processor has. `multiply` has checked that all
            // rows are within the factors and all results within the output, where nothing else writes them; weights and
            // biases are slices of all these panels, and a depth segment is a part of their depth. Sums of the segments
            // before were stored by this thread.
            unsafe { kernel(&operands) }
            operands.advance(place.rows);
        }
    }

    /// Computes a tile of the last panel, of which only some results are stored.
    fn partial_tile(&self, place: &Place) {
        const LEN: usize = MAX_ROWS * 16;
        let Place { line, row, rows, .. } = *place;
        let (lanes, last) = (self.panels.lanes(), self.target.last);
        let (mut results, mut added) = ([0.0; LEN], [0.0; LEN]);
        let at = |index: usize| self.position(line, row + index, place.panels.start);
        let mut operands = self.operands(place);
        operands.output_row = lanes;
        if !operands.added.is_null() {
            let numbers = self.epilogue.added.filter(|_| place.depth_segment.is_first);
            for (index, added) in added.chunks_exact_mut(lanes).take(rows).enumerate() {
                let numbers = match numbers {
                    Some(numbers) => &numbers[at(index)..][..last],
                    None => &*self.piece(at(index), last),
                };
                added[..last].copy_from_slice(numbers);
            }
            operands.added = added.as_ptr();
        }
        operands.output = results.as_mut_ptr();
        let Some(kernel) = tile::kernel(self.panels.isa(), self.panels.packing(), [1, rows]) else { return };
        // SAFETY: as in `tile`; `results` and `added` have room for the maximum number of rows of a tile.
        unsafe { kernel(&operands) };
        for (index, results) in results.chunks_exact(lanes).take(rows).enumerate() {
            self.piece(at(index), last).copy_from_slice(&results[..last]);
        }
    }

    /// Adjacent results, which only this thread computes.
    #[expect(clippy::mut_from_ref, reason = "threads write to different results")]
    fn piece(&self, at: usize, len: usize) -> &mut [f32] {
        // SAFETY: `multiply` has checked that all results are within the output and do not overlap; this thread holds no
        // other reference to those of the rows and panels that it computes.
        unsafe { std::slice::from_raw_parts_mut(self.output.0.wrapping_add(at), len) }
    }

    /// Applies the epilogue to computed results, in pieces that are as long as possible.
    fn apply_epilogue(&self, rows: Range<usize>, panels: Range<usize>) -> Result<()> {
        let Some(elementwise) = self.epilogue.elementwise else { return Ok(()) };
        let (lanes, count, last) = (self.panels.lanes(), self.panels.count(), self.target.last);
        let len = |panel: usize| if panel + 1 == count { last } else { lanes };
        let apply = |at: usize, len: usize| elementwise.apply(self.epilogue.first + at, self.piece(at, len));
        for segment in self.segments(rows) {
            if self.target.panel == lanes {
                let len = (panels.len() - 1) * lanes + len(panels.end - 1);
                for row in segment.first..segment.first + segment.rows {
                    apply(self.position(segment.line, row, panels.start), len)?;
                }
                continue;
            }
            for panel in panels.clone() {
                let at = self.position(segment.line, segment.first, panel);
                if self.target.row == lanes && len(panel) == lanes {
                    apply(at, segment.rows * lanes)?;
                    continue;
                }
                for row in 0..segment.rows {
                    apply(at + row * self.target.row, len(panel))?;
                }
            }
        }
        Ok(())
    }
}

/// The number of rows that are computed with all panels before the next ones: few if the weights stay in the cache,
/// otherwise as many as stay there themselves.
fn at_a_time(panels: &PanelsView<'_>, factors: &Factors<'_>, size: Size) -> usize {
    let (rows, bytes) = (size.lines * size.rows, size_of_val(factors.data));
    let cached = cached(panels.isa());
    // If each row is a single piece, only a depth segment of it is read at a time, and weights take less of the cache.
    let (row, room) = match factors.pieces.len() {
        1 => (panels.depth().min(DEPTH) * size_of::<f32>(), cached.max(LEAST_ROOM)),
        _ => (bytes / rows, cached),
    };
    let max_rows = if panels.bytes() <= cached {
        ROWS
    } else if row.saturating_mul(rows) <= 2 * cached {
        rows
    } else {
        (room / row.max(1)).max(2 * MAX_ROWS)
    };
    let step = if size.lines == 1 { MAX_ROWS } else { size.rows };
    (max_rows / step * step).max(step)
}
