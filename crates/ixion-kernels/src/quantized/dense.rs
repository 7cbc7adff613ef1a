//! Products and dense convolutions of bytes.
//!
//! What some positions see is gathered as rows of factors, which stay in a cache while they are multiplied by all panels of
//! weights. A pointwise convolution of unsigned bytes needs no gathering.

use super::arms::{Arm, Kind, Task, tile};
use super::bytes::{Bytes, Outputs};
use super::depthwise;
use super::dots::{CHUNK, Dots, Operands, Sums, TILE};
use super::finish::Finish;
use super::gather::Source;
use super::sizes::{PANEL, QUAD};
use super::steps::{FactorRange, Order, Steps};
use super::weights::{ByteWeights, PanelKind};
use super::writer::{Site, Waiting, Writer};
use crate::blocked::BlockedShape;
use crate::parallel::{for_each_number, threads};
use crate::window::Window;
use ixion_tensor::{Limits, Result};
use std::cell::Cell;
use std::ops::Range;

/// A convolution of bytes whose channels are innermost in memory: N×H×W×C to N×H×W×O. The input is padded with its zero
/// point.
#[derive(Debug, Clone)]
pub struct ByteConv {
    shape: BlockedShape,
}

impl ByteConv {
    /// A convolution of these sizes.
    pub fn new(shape: BlockedShape) -> Self {
        Self { shape }
    }

    /// The number of elements of a sample, and of its output.
    pub fn sample(&self) -> [usize; 2] {
        self.shape.sample(1)
    }

    /// The kind of weights that the convolution needs.
    pub fn kind(&self) -> PanelKind {
        PanelKind::of(&self.shape)
    }

    /// Convolves all samples of the input. The threads of the current pool share the work.
    ///
    /// # Errors
    /// Fails if the deadline has passed.
    ///
    /// # Panics
    /// Panics if input and output don't consist of as many samples, if the weights are of another kind, if there are too few
    /// values to add, or if a window is empty; callers check this beforehand.
    pub fn run(
        &self,
        input: Bytes<'_>,
        weights: &ByteWeights,
        finish: &Finish<'_>,
        output: Outputs<'_>,
        limits: &Limits,
    ) -> Result<()> {
        self.run_as(Kind::selected(), input, weights, finish, output, limits)
    }

    /// As [`ByteConv::run`], with instructions that the processor supports.
    pub(super) fn run_as(
        &self,
        kind: Kind,
        input: Bytes<'_>,
        weights: &ByteWeights,
        finish: &Finish<'_>,
        output: Outputs<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let [sample, out_sample] = self.sample();
        let samples = output.len().checked_div(out_sample).unwrap_or(0);
        assert!(
            Some(output.len()) == samples.checked_mul(out_sample)
                && Some(input.data.len()) == samples.checked_mul(sample)
                || output.len() == 0,
            "input and output must consist of whole samples"
        );
        assert_eq!(weights.panels().kind(), self.kind(), "the weights must be those of the convolution");
        if output.len() == 0 {
            return Ok(());
        }
        let source = Source { shape: &self.shape, input, zero: weights.zero() };
        let writer = Writer::new(finish, weights.factors(), output);
        match self.kind() {
            PanelKind::Depthwise { .. } => depthwise::run(kind, &source, weights, &writer, samples, limits),
            PanelKind::Product { .. } => run(kind, &source, weights, &writer, samples, limits),
        }
    }
}

/// Multiplies R rows of K bytes with weights of one group, O×K, to R×O outputs. The threads of the current pool share the
/// work.
///
/// # Errors
/// As [`ByteConv::run`].
///
/// # Panics
/// As [`ByteConv::run`].
pub fn multiply_bytes(
    rows: usize,
    input: Bytes<'_>,
    weights: &ByteWeights,
    finish: &Finish<'_>,
    output: Outputs<'_>,
    limits: &Limits,
) -> Result<()> {
    let kind = weights.panels().kind();
    let point = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
    let (channels, out_channels) = (kind.depth(), kind.outputs());
    let shape = BlockedShape { channels, out_channels, groups: 1, lens: [1, rows], windows: [point; 2] };
    ByteConv::new(shape).run(input, weights, finish, output, limits)
}

/// The most bytes of factors that are gathered at a time. Together with a panel of weights, they fit in a second-level cache.
const GATHERED: usize = 1 << 18;

/// The most rows that are gathered at a time.
const ROWS: usize = 192;

/// Memory that a thread keeps.
#[derive(Default)]
struct Memory {
    /// Gathered factors.
    factors: Vec<u8>,
    /// Factors as words.
    words: Vec<u32>,
    waiting: Waiting,
}

impl Memory {
    const EMPTY: Self = Self { factors: Vec::new(), words: Vec::new(), waiting: Waiting::NONE };

    /// The even and the odd ones of some factors as words, if vectors may need them.
    #[inline(always)]
    fn words<L: Dots>(&mut self, factors: &[u8], range: FactorRange) -> [*const u8; 2] {
        if L::IS_IN_PAIRS {
            range.words(factors, &mut self.words);
        }
        let first: *const u8 = self.words.as_ptr().cast();
        [first, first.wrapping_add(factors.len())]
    }
}

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory::EMPTY) };
}

/// How a product is divided: into blocks of rows, and each of these into parts of the panels.
#[derive(Debug, Clone, Copy)]
struct Division {
    rows: usize,
    block: usize,
    panels: usize,
    part: usize,
}

impl Division {
    fn new(rows: usize, panels: usize, row_bytes: usize, threads: usize) -> Self {
        let most = (GATHERED / row_bytes.max(1)).clamp(TILE[0], ROWS);
        // Several blocks for each thread, so that all finish at about the same time.
        let wanted = if threads == 1 { 1 } else { 4 * threads };
        let block = rows.div_ceil(wanted).next_multiple_of(TILE[0]).min(most / TILE[0] * TILE[0]);
        let blocks = rows.div_ceil(block);
        let parts = wanted.div_ceil(blocks).clamp(1, panels.div_ceil(2).max(1));
        let part = panels.div_ceil(parts).next_multiple_of(2);
        Self { rows, block, panels, part }
    }

    fn parts(&self) -> usize {
        self.panels.div_ceil(self.part)
    }

    fn count(&self) -> usize {
        self.rows.div_ceil(self.block) * self.parts()
    }

    /// The rows and panels of a piece.
    fn piece(&self, number: usize) -> (Range<usize>, Range<usize>) {
        let (row, panel) = (number / self.parts() * self.block, number % self.parts() * self.part);
        (row..(row + self.block).min(self.rows), panel..(panel + self.part).min(self.panels))
    }
}

/// Computes a convolution of several samples.
fn run(
    kind: Kind,
    source: &Source<'_>,
    weights: &ByteWeights,
    writer: &Writer<'_>,
    samples: usize,
    limits: &Limits,
) -> Result<()> {
    let PanelKind::Product { groups, outputs, depth } = weights.panels().kind() else { return Ok(()) };
    let rows = samples * source.shape.outputs().iter().product::<usize>();
    let padded = depth.next_multiple_of(QUAD);
    let division = Division::new(rows, outputs.div_ceil(PANEL), padded, threads());
    let order = kind.is_in_pairs().then(|| weights.panels().order());
    for_each_number(groups * division.count(), &|number| {
        limits.check_deadline()?;
        let (rows, panels) = division.piece(number % division.count());
        let group = number / division.count();
        let weights = weights.weights();
        let piece = Piece { source, weights, order, writer, groups, outputs, depth, group, rows, panels };
        // SAFETY: the processor supports the kind, and no two pieces have the same outputs.
        unsafe { kind.run(&piece) };
        Ok(())
    })
}

/// Some rows and panels of a group.
struct Piece<'a> {
    source: &'a Source<'a>,
    weights: &'a [i8],
    /// The order of the weights, for vectors that need it.
    order: Option<&'a Order>,
    writer: &'a Writer<'a>,
    groups: usize,
    /// Outputs of a group.
    outputs: usize,
    depth: usize,
    group: usize,
    rows: Range<usize>,
    panels: Range<usize>,
}

impl Task for &Piece<'_> {
    /// Computes the piece, whose outputs nothing else may use.
    #[inline(always)]
    unsafe fn run<A: Arm>(self) {
        let Piece { weights, writer, groups, outputs, depth, group, .. } = *self;
        let padded = depth.next_multiple_of(QUAD);
        let (panel, panels) = (padded * PANEL, outputs.div_ceil(PANEL));
        let weights = &weights[group * panels * panel..][..panels * panel];
        let count = self.rows.len();
        let mut memory = MEMORY.take();
        // SAFETY: the caller's promise, here and below.
        let (rows, words, stride, range) = unsafe { self.factors::<A::Dots>(&mut memory) };
        let step = (2 * A::Dots::COLUMNS).max(PANEL);
        let mut sums: Sums = [[0; TILE[1]]; TILE[0]];
        let end = (self.panels.end * PANEL).min(outputs);
        for column in (self.panels.start * PANEL..end).step_by(step) {
            let columns = step.min(end - column);
            let weights = weights[column / PANEL * panel..].as_ptr();
            let order = self.order.filter(|_| A::Dots::IS_IN_PAIRS);
            let steps =
                order.map_or(Steps::NONE, |order| order.steps(group * panels + column / PANEL, range));
            let tiles = count.div_ceil(A::Dots::ROWS);
            let (size, longer) = (count / tiles.max(1), count % tiles.max(1));
            let mut row = 0;
            for index in 0..tiles {
                let here = size + usize::from(index < longer);
                let output = ((self.rows.start + row) * groups + group) * outputs + column;
                let factors = group * panels * PANEL + column;
                let site = Site { output, stride: groups * outputs, rows: here, columns, factors };
                // SAFETY: the rows have `padded` factors and the panels as many weights for each column. Instructions and
                // outputs are the caller's promise.
                unsafe {
                    let (rows, quads) = (rows.add(row * stride), padded / QUAD);
                    let words = words.map(|words| words.wrapping_add(row * stride));
                    let operands = Operands { rows, words, stride, weights, quads, steps: &steps };
                    tile::<A>(operands, [here, columns], &mut sums);
                    writer.write::<A::Reals>(&sums, site, &mut memory.waiting);
                }
                row += here;
            }
        }
        // SAFETY: as above.
        unsafe { writer.write_waiting::<A::Reals>(&mut memory.waiting) };
        MEMORY.set(memory);
    }
}

impl Piece<'_> {
    /// The first row of factors, the same as words if vectors may need them, the distance between rows, and the range of the
    /// factors if vectors need to know it. They are those of the source if possible, or else gathered in `memory`.
    ///
    /// # Safety
    /// As [`Task::run`], with the instructions of `L`.
    #[inline(always)]
    unsafe fn factors<L: Dots>(
        &self,
        memory: &mut Memory,
    ) -> (*const u8, [*const u8; 2], usize, FactorRange) {
        let (count, padded) = (self.rows.len(), self.depth.next_multiple_of(QUAD));
        if let Some(factors) = self.in_place() {
            let range = if L::IS_IN_PAIRS { FactorRange::of(factors) } else { FactorRange::ANY };
            return (factors.as_ptr(), memory.words::<L>(factors, range), self.depth, range);
        }
        let needed = count * padded + CHUNK;
        let mut all = std::mem::take(&mut memory.factors);
        all.resize(all.len().max(needed), 0);
        let factors = &mut all[..needed];
        // SAFETY: the caller's promise.
        unsafe { self.source.gather::<L>(self.rows.clone(), self.group, padded, factors) };
        let gathered = &mut factors[..count * padded];
        let range = if L::IS_IN_PAIRS { FactorRange::of_differences(gathered) } else { FactorRange::ANY };
        let words = memory.words::<L>(gathered, range);
        memory.factors = all;
        (memory.factors.as_ptr(), words, padded, range)
    }

    /// The factors of a pointwise convolution, if they can be multiplied as they are.
    #[inline(always)]
    fn in_place(&self) -> Option<&[u8]> {
        let (source, depth) = (self.source, self.depth);
        let can_be_read = source.input.flip == 0 && depth.is_multiple_of(QUAD) && source.is_pointwise();
        can_be_read.then(|| &source.input.data[self.rows.start * depth..][..self.rows.len() * depth])
    }
}
